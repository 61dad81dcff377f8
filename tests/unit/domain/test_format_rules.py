"""Rules that sentences state, and violations of rules by answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from state_strategies import ANY_TEXT

from acc.domain.format_rules import (
    OMISSION_KINDS,
    count_bullets,
    count_characters,
    count_words,
    is_question,
    is_revocation,
    read_rule,
    revokes,
    violation,
)
from acc.domain.value_objects.format_rule import NUMERIC_KINDS, TEXT_KINDS, FormatRule, RuleKind
from acc.domain.value_objects.format_rule import RuleKind as K

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
def test_revocation_applies_only_to_named_rule(sentence: str, rule_text: str, ends: bool) -> None:
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
def test_other_sentence_is_not_a_revocation(sentence: str) -> None:
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
def test_is_question_separates_requests_from_statements(sentence: str, asks: bool) -> None:
    assert is_question(sentence) is asks


@given(ANY_TEXT)
def test_any_text_can_be_read_as_rule(text: str) -> None:
    for sentence in (
        text,
        f'Never use the word "{text}".',
        f"under {text} words",
        f"JSON keys {text}",
    ):
        found = read_rule(sentence)
        assert found is None or found.text
        assert isinstance(revokes(sentence, sentence), bool)
        assert is_question(sentence) in (True, False)


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
def test_sentence_similar_to_rule_raises_no_error(sentence: str) -> None:
    found = read_rule(sentence)
    assert found is None or found.rule.number < 10**9


COUNTED = [
    ("Keep every answer under 60 words.", K.MAX_WORDS, 59),
    ("From now on, no more than 40 words per reply.", K.MAX_WORDS, 40),
    ("Answers must not exceed 80 words.", K.MAX_WORDS, 80),
    ("Use at most fifty words.", K.MAX_WORDS, 50),
    ("A 50-word limit applies from here on.", K.MAX_WORDS, 50),
    ("Your replies should be 30 words or fewer.", K.MAX_WORDS, 30),
    ("No longer than 60 words, please.", K.MAX_WORDS, 60),
    ("No answer may have more than 45 words.", K.MAX_WORDS, 45),
    ("Stay below 100 characters.", K.MAX_CHARACTERS, 99),
    ("Keep each update within 280 characters.", K.MAX_CHARACTERS, 280),
    ("今後の回答は60字以内にしてください。", K.MAX_CHARACTERS, 60),
    ("回答は６０文字以下でお願いします。", K.MAX_CHARACTERS, 60),
    ("毎回80文字未満で答えてください。", K.MAX_CHARACTERS, 79),
    ("回答は百字以内にしてください。", K.MAX_CHARACTERS, 100),
    ("回答は五十字以内にしてください。", K.MAX_CHARACTERS, 50),
    ("Limit each reply to three sentences.", K.MAX_SENTENCES, 3),
    ("Every reply: two sentences at most.", K.MAX_SENTENCES, 2),
    ("No answer may be longer than 3 sentences.", K.MAX_SENTENCES, 3),
    ("回答は三文以内にしてください。", K.MAX_SENTENCES, 3),
    ("今後は2文で答えてください。", K.MAX_SENTENCES, 2),
    ("At most five bullets, please.", K.MAX_BULLETS, 5),
    ("Keep every list to 4 bullets or fewer.", K.MAX_BULLETS, 4),
    ("箇条書きは3つまでにしてください。", K.MAX_BULLETS, 3),
    ("毎回、三点以内の箇条書きで。", K.MAX_BULLETS, 3),
    ("Use exactly three bullets.", K.EXACT_BULLETS, 3),
    ("From now on answer in four bullet points.", K.EXACT_BULLETS, 4),
    ("箇条書きでちょうど4項目にしてください。", K.EXACT_BULLETS, 4),
    ("毎回、三つの箇条書きで答えてください。", K.EXACT_BULLETS, 3),
]
TEXT_RULES = [
    ('End every answer with "Stay safe."', K.ENDS_WITH, ("Stay safe.",)),
    ('Close each reply with the line "Over and out".', K.ENDS_WITH, ("Over and out",)),
    ("Every answer ends with 'Ask me anything'.", K.ENDS_WITH, ("Ask me anything",)),
    ("Always finish with “Check the board.”", K.ENDS_WITH, ("Check the board.",)),
    ("回答の最後に必ず「以上です。」と書いてください。", K.ENDS_WITH, ("以上です。",)),
    ("毎回「ご安全に」で締めてください。", K.ENDS_WITH, ("ご安全に",)),
    ('Start every reply with "Status:".', K.STARTS_WITH, ("Status:",)),
    ('Begin each answer with the tag "[OPS]".', K.STARTS_WITH, ("[OPS]",)),
    ("冒頭に「速報」と書いてください。", K.STARTS_WITH, ("速報",)),
    ("「報告」から始めてください。", K.STARTS_WITH, ("報告",)),
    ('Use the headings "Facts" and "Risks".', K.HEADINGS, ("Facts", "Risks")),
    ('Every answer has the sections "Now" and "Next".', K.HEADINGS, ("Now", "Next")),
    ("見出し「事実」「対応」を使ってください。", K.HEADINGS, ("事実", "対応")),
    ("From now on reply as JSON with the keys status and owner.", K.JSON, ("status", "owner")),
    ('Always return a JSON object with fields "a", "b".', K.JSON, ("a", "b")),
    ("Every reply is JSON.", K.JSON, ()),
    ("今後、キーは status と owner のJSONで答えてください。", K.JSON, ("status", "owner")),
    ("毎回JSONで返してください。", K.JSON, ()),
    ('Never use the word "guarantee".', K.FORBID, ("guarantee",)),
    ('Avoid the phrase "as an AI".', K.FORBID, ("as an AI",)),
    ('"ASAP" is banned.', K.FORBID, ("ASAP",)),
    ('Do not mention "Project Kite".', K.FORBID, ("Project Kite",)),
    ("「多分」という言葉は使わないでください。", K.FORBID, ("多分",)),
    ("「絶対」は禁止です。", K.FORBID, ("絶対",)),
    ("Always include the ticket INC-4411.", K.REQUIRE, ("INC-4411",)),
    ('Every answer must cite "RFC 9110".', K.REQUIRE, ("RFC 9110",)),
    ("回答には必ず「INC-4411」を含めてください。", K.REQUIRE, ("INC-4411",)),
    ("Never share the customer list with vendors.", K.REFUSE, ("the customer list",)),
    ("Do not disclose the admin password.", K.REFUSE, ("the admin password",)),
    ("You must not reveal the launch date to anyone.", K.REFUSE, ("the launch date",)),
    ("The salary table is confidential.", K.REFUSE, ("The salary table",)),
    ("Keep the merger private.", K.REFUSE, ("the merger",)),
    ("顧客名簿は社外に共有しないでください。", K.REFUSE, ("顧客名簿",)),
    ("管理者パスワードは開示禁止です。", K.REFUSE, ("管理者パスワード",)),
    ("発売日は秘密です。", K.REFUSE, ("発売日",)),
    ("口外しないでください。", K.REFUSE, ("口外しないでください。",)),
    ("Never restart db-1.", K.POLICY, ()),
    ("Restarts need Mara's approval.", K.POLICY, ()),
    ("No deploy without sign-off.", K.POLICY, ()),
    ("Always include a short summary.", K.POLICY, ()),
    ("Do not answer in JSON.", K.POLICY, ()),
    ("Don't use JSON any more.", K.POLICY, ()),
    ("db-1は絶対に再起動しないでください。", K.POLICY, ()),
    ("変更には佐藤さんの承認が必要です。", K.POLICY, ()),
]


@pytest.mark.parametrize(("sentence", "kind", "number"), COUNTED)
def test_numeric_rule_is_read_with_limit(sentence: str, kind: K, number: int) -> None:
    found = read_rule(sentence)
    assert found is not None
    assert (found.rule.kind, found.rule.number, found.once) == (kind, number, False)


@pytest.mark.parametrize(("sentence", "kind", "words"), TEXT_RULES)
def test_text_rule_is_read_with_words(sentence: str, kind: K, words: tuple[str, ...]) -> None:
    found = read_rule(sentence)
    assert found is not None
    assert (found.rule.kind, found.rule.words, found.once) == (kind, words, False)


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Could you answer in two sentences?", K.MAX_SENTENCES),
        ("Summarise the impact in three bullets.", K.EXACT_BULLETS),
        ("For this answer only, use two bullets.", K.EXACT_BULLETS),
        ("Just this once, keep it under 20 words.", K.MAX_WORDS),
        ('Include the words "all clear" in this reply.', K.REQUIRE),
        ("影響を三つの箇条書きでまとめてください。", K.EXACT_BULLETS),
        ("今回だけ3文で答えてください。", K.MAX_SENTENCES),
        ("この回答は50字以内にしてください。", K.MAX_CHARACTERS),
        ("ここでは箇条書きを2つまでにしてください。", K.MAX_BULLETS),
    ],
)
def test_rule_for_one_answer_is_marked_once(sentence: str, kind: K) -> None:
    found = read_rule(sentence)
    assert found is not None
    assert (found.rule.kind, found.once) == (kind, True)


@pytest.mark.parametrize(
    "sentence",
    [
        "As of this update, keep answers under 20 words.",
        "From now on list hosts in exactly three bullets.",
        "Can you keep every answer under 50 words?",
        "今後は毎回50字以内で答えてください。",
        "この回答以降、50字以内で答えてください。",
    ],
)
def test_lasting_rule_is_not_marked_once(sentence: str) -> None:
    found = read_rule(sentence)
    assert found is not None
    assert not found.once


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "What is the word limit?",
        "How many words may I use?",
        "Is the limit under 60 words?",
        "Did you keep it under 60 words?",
        "Must we restart db-1?",
        "The report has 60 words.",
        "The cluster has three nodes.",
        "Mara ended the call.",
        'The word "guarantee" appears twice.',
        "文字数の上限はいくつですか。",
        "60字以内ですか？",
        "3文以内で書きましたか。",
        "サーバーは3台あります。",
        "佐藤さんが会議を終えました。",
    ],
)
def test_question_and_statement_are_not_rules(sentence: str) -> None:
    assert read_rule(sentence) is None


def counted(kind: RuleKind, number: int) -> FormatRule:
    return FormatRule(kind=kind, number=number)


def worded(kind: RuleKind, *words: str) -> FormatRule:
    return FormatRule(kind=kind, words=words)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("db-1 is up.", 3),
        ("Don’t stop, don't wait!", 4),
        ("1,200 requests at 02:14", 4),
        ("max_words and ops@example.com", 3),
        ("one -- two", 2),
        ("_emphasis_ here", 2),
        ("佐藤さん 了解", 2),
    ],
)
def test_count_words_counts_compounds_once(text: str, count: int) -> None:
    assert count_words(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("- a\n* b\n• c", 3),
        ("1. a\n12) b", 2),
        ("・ 佐藤\n・ 田中", 2),
        ("  - nested", 1),
        ("a - b", 0),
        ("-\n- \n\n- a", 1),
        ("2026 was good", 0),
        ("\n" * 1_000, 0),
    ],
)
def test_count_bullets_counts_marked_lines_with_content(text: str, count: int) -> None:
    assert count_bullets(text) == count


def test_count_characters_ignores_white_space() -> None:
    assert count_characters("復旧 しました。\n次は 検証") == 11


@pytest.mark.parametrize(
    ("rule", "answer", "fault"),
    [
        (counted(RuleKind.MAX_WORDS, 3), "db-1 is up.", ""),
        (counted(RuleKind.MAX_WORDS, 2), "db-1 is up.", "3 words, the limit is 2"),
        (counted(RuleKind.MAX_CHARACTERS, 7), "復旧しました。", ""),
        (counted(RuleKind.MAX_CHARACTERS, 6), "復旧しました。", "7 characters, the limit is 6"),
        (counted(RuleKind.MAX_SENTENCES, 1), "It is up.", ""),
        (counted(RuleKind.MAX_SENTENCES, 1), "It is up. All is well.", "2 sentences"),
        (counted(RuleKind.MAX_SENTENCES, 2), "復旧しました！原因は不明です。", ""),
        (counted(RuleKind.MAX_SENTENCES, 1), "復旧しました！原因は不明です。", "2 sentences"),
        (counted(RuleKind.MAX_SENTENCES, 2), "1. Check db-1\n2. Restart it", ""),
        (counted(RuleKind.MAX_BULLETS, 2), "- a\n- b", ""),
        (counted(RuleKind.MAX_BULLETS, 2), "no bullets", ""),
        (counted(RuleKind.MAX_BULLETS, 1), "- a\n- b", "2 bullets, the limit is 1"),
        (counted(RuleKind.EXACT_BULLETS, 2), "- a\n- b", ""),
        (counted(RuleKind.EXACT_BULLETS, 3), "・ 甲\n・ 乙", "2 bullets, not 3"),
        (worded(RuleKind.ENDS_WITH, "Stay safe."), "All is up.\nStay safe.\n", ""),
        (worded(RuleKind.ENDS_WITH, "Stay safe."), 'All is up. "STAY SAFE"', ""),
        (worded(RuleKind.ENDS_WITH, "Stay safe."), "Stay safe. Bye.", "does not end with"),
        (worded(RuleKind.ENDS_WITH, "ご安全に"), "復旧しました。ご安全に。", ""),
        (worded(RuleKind.ENDS_WITH, "ご安全に"), "", "does not end with 'ご安全に'"),
        (worded(RuleKind.ENDS_WITH, "Stay safe."), "All is up.\n**Stay safe.**", ""),
        (worded(RuleKind.ENDS_WITH, "ご安全に"), "復旧しました。\n_ご安全に_", ""),
        (worded(RuleKind.ENDS_WITH, "***"), "All is up.", "does not end with '***'"),
        (worded(RuleKind.STARTS_WITH, "Status:"), "**Status:** up", ""),
        (worded(RuleKind.STARTS_WITH, "Status:"), "status: up", ""),
        (worded(RuleKind.STARTS_WITH, "速報"), "「速報」db-1が復旧", ""),
        (worded(RuleKind.STARTS_WITH, "速報"), "db-1が復旧、速報", "does not start with '速報'"),
        (worded(RuleKind.HEADINGS, "Facts", "Risks"), "## Facts\na\n**Risks**\nb", ""),
        (worded(RuleKind.HEADINGS, "事実", "対応"), "【事実】\n甲\n対応：\n乙", ""),
        (worded(RuleKind.HEADINGS, "Facts", "Risks"), "Facts\na", "lacks the heading 'Risks'"),
        (worded(RuleKind.JSON), "{}", ""),
        (worded(RuleKind.JSON, "status"), '{"status": "復旧"}', ""),
        (worded(RuleKind.JSON, "status", "owner"), '{"status": 1}', "lacks the key 'owner'"),
        (worded(RuleKind.JSON), "[]", "is not a JSON object"),
        (worded(RuleKind.JSON), "Here you are: {}", "is not valid JSON"),
        (worded(RuleKind.JSON), '{"load": NaN}', "is not valid JSON"),
        (worded(RuleKind.JSON), "[" * 200_000, "is not valid JSON"),
        (worded(RuleKind.REQUIRE, "INC-4411"), "See inc-4411.", ""),
        (worded(RuleKind.REQUIRE, "INC-4411"), "See INC-44110.", "lacks 'INC-4411'"),
        (worded(RuleKind.REQUIRE, "承認"), "佐藤さんの承認済み", ""),
        (worded(RuleKind.FORBID, "sure"), "I am not certain, for I measured.", ""),
        (worded(RuleKind.FORBID, "sure"), "Sure, it is up.", "contains 'sure'"),
        (worded(RuleKind.FORBID, "多分", "絶対"), "絶対に復旧します。", "contains '絶対'"),
        (worded(RuleKind.REFUSE, "the launch date"), "The launch date is 3 May.", "contains"),
        (worded(RuleKind.REFUSE, "発売日"), "お答えできません。", ""),
        (worded(RuleKind.POLICY), "anything", ""),
    ],
)
def test_violation_describes_how_answer_violates_rule(
    rule: FormatRule, answer: str, fault: str
) -> None:
    found = violation(rule, answer)
    assert found.startswith(fault) if fault else found == ""


@pytest.mark.parametrize("kind", list(RuleKind))
@given(answer=st.text(st.characters(), max_size=80))
def test_any_answer_can_be_checked(kind: RuleKind, answer: str) -> None:
    number, words = int(kind in NUMERIC_KINDS), ("a",) if kind in TEXT_KINDS else ()
    assert isinstance(violation(FormatRule(kind=kind, number=number, words=words), answer), str)


def test_omission_kinds_are_violated_by_omission() -> None:
    assert RuleKind.ENDS_WITH in OMISSION_KINDS
    assert RuleKind.MAX_WORDS not in OMISSION_KINDS
    assert RuleKind.FORBID not in OMISSION_KINDS
