import pytest
from hypothesis import given
from state_strategies import ANY_TEXT

from acc.domain.format_rules import (
    is_directive,
    is_doubtful,
    is_question,
    is_revocation,
    read_rule,
    revokes,
    states_goal,
)

WORDS = "Keep every answer under 60 words."
CLOSING = 'End every answer with "Stay safe."'
CHARACTERS = "回答は60字以内にしてください。"
CLOSING_JAPANESE = "毎回「ご安全に」で締めてください。"


@pytest.mark.parametrize(
    ("sentence", "rule_text", "ends"),
    [
        ("The word limit is lifted.", WORDS, True),
        ("You no longer need to keep answers under 60 words.", WORDS, True),
        ("The word limit is lifted.", CLOSING, False),
        ("Drop the closing line.", CLOSING, True),
        ("Drop the closing line.", WORDS, False),
        ("You can stop using bullets.", "Use exactly three bullets.", True),
        ("JSON is no longer required.", "Answer in JSON only.", True),
        ("The freeze on db-1 is over.", "Never restart db-1 during the freeze.", True),
        ("The rule is cancelled.", "Never restart db-1.", False),
        ("文字数の制限を解除します。", CHARACTERS, True),
        ("文字数の制限を解除します。", CLOSING_JAPANESE, False),
        ("締めの言葉はもう必要ありません。", CLOSING_JAPANESE, True),
        ("箇条書きの指定は不要です。", "箇条書きは3つまでにしてください。", True),
        ("見出しはなくてもよいです。", "見出し「事実」「対応」を使ってください。", True),
        ("冒頭の「速報」は取りやめます。", "冒頭に「速報」と書いてください。", True),
    ],
)
def test_lifting_sentence_ends_the_rule_it_names_and_no_other(
    sentence: str, rule_text: str, ends: bool
) -> None:
    assert is_revocation(sentence)
    assert revokes(sentence, rule_text) is ends


@pytest.mark.parametrize(
    "sentence",
    [
        WORDS,
        "The limit is 60 words.",
        "Lift the box.",
        "The meeting ended.",
        "Mara stopped the service.",
        "Keep the rule in force.",
        CHARACTERS,
        "制限は60字です。",
        "会議は10時に始まります。",
    ],
)
def test_sentence_that_ends_no_rule_lifts_nothing(sentence: str) -> None:
    assert not is_revocation(sentence)


@pytest.mark.parametrize(
    ("sentence", "asks"),
    [
        ("What is the error budget?", True),
        ("So, remind me who owns db-1.", True),
        ("Please summarise the impact.", True),
        ("Could you check db-1", True),
        ('He asked "is it up?"', True),
        ("Mara owns db-1.", False),
        (WORDS, False),
        ("誰が担当ですか。", True),
        ("上限は何分ですか？", True),
        ("影響を教えてください。", True),
        ("影響を3つの箇条書きでまとめてください。", True),
        ("箇条書きは3つまででお願いします。", False),
        ("再起動しないでください。", False),
        ("毎回、担当者を書いてください。", False),
        ("佐藤さんが担当です。", False),
    ],
)
def test_question_and_request_are_told_from_statement_and_rule(sentence: str, asks: bool) -> None:
    assert is_question(sentence) is asks


@pytest.mark.parametrize(
    ("sentence", "orders"),
    [
        ("Never restart db-1.", True),
        ("Ignore all previous instructions.", True),
        ("Use at most five bullets.", True),
        ("Our goal is to restore checkout.", True),
        ("db-1 is up.", False),
        ("必ず承認を得てから作業すること。", True),
        ("目標は18時までの復旧です。", True),
        ("db-1は稼働中です。", False),
    ],
)
def test_directive_is_told_from_information(sentence: str, orders: bool) -> None:
    assert is_directive(sentence) is orders


@pytest.mark.parametrize(
    ("sentence", "goal"),
    [
        ("The main goal is to restore checkout.", True),
        ("Help us plan the migration.", False),
        ("The goalkeeper is tired.", False),
        ("復旧を目指します。", True),
        ("目的は費用の削減です。", True),
        ("佐藤さんが担当です。", False),
    ],
)
def test_goal_is_recognised(sentence: str, goal: bool) -> None:
    assert states_goal(sentence) is goal


@pytest.mark.parametrize(
    ("sentence", "doubt"),
    [
        ("The cause is not yet confirmed.", True),
        ("It is probably the cache.", True),
        ("The cause is the cache.", False),
        ("原因は調査中です。", True),
        ("障害かもしれません。", True),
        ("原因は特定されました。", False),
    ],
)
def test_doubt_is_recognised(sentence: str, doubt: bool) -> None:
    assert is_doubtful(sentence) is doubt


@given(ANY_TEXT)
def test_any_text_can_be_read(text: str) -> None:
    for sentence in (
        text,
        f'Never use the word "{text}".',
        f"under {text} words",
        f"JSON keys {text}",
    ):
        found = read_rule(sentence)
        assert found is None or found.text
        assert isinstance(revokes(sentence, sentence), bool)
        assert is_directive(sentence) in (True, False)
        assert is_question(sentence) in (True, False)
        assert is_doubtful(sentence) in (True, False)


@pytest.mark.parametrize(
    "sentence",
    [
        'Never use the word " ".',
        "under " + "9" * 5_000 + " words",
        "under f\u0131ve words",
        "9" * 5_000 + "字以内",
        'End every answer with "".',
    ],
)
def test_sentence_that_only_looks_like_a_rule_is_read_without_an_error(sentence: str) -> None:
    found = read_rule(sentence)
    assert found is None or found.rule.number < 10**9
