import pytest

from acc.domain.format_rules import read_rule
from acc.domain.value_objects.format_rule import RuleKind as K

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
WORDED = [
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
def test_counted_rule_is_read_with_its_limit_and_lasts(sentence: str, kind: K, number: int) -> None:
    found = read_rule(sentence)
    assert found is not None
    assert (found.rule.kind, found.rule.number, found.once) == (kind, number, False)


@pytest.mark.parametrize(("sentence", "kind", "words"), WORDED)
def test_worded_rule_is_read_with_its_words_and_lasts(
    sentence: str, kind: K, words: tuple[str, ...]
) -> None:
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
def test_rule_for_one_answer_does_not_last(sentence: str, kind: K) -> None:
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
def test_rule_that_is_meant_to_last_lasts(sentence: str) -> None:
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
def test_question_and_plain_statement_are_no_rule(sentence: str) -> None:
    assert read_rule(sentence) is None
