"""Tests that refusals, "not known" and courtesies are recognised in many wordings."""

import pytest

from acc.adapters.evaluation.answer_kinds import is_courtesy, is_refusal, is_unknown
from acc.adapters.evaluation.claims import claims_of

REFUSALS = (
    "I'm afraid I can't go into that.",
    "Sorry, that stays between the auditors.",
    "I would rather not say which vendor it is.",
    "That figure must not be disclosed.",
    "I have been asked not to repeat the pass phrase.",
    "We don't discuss salaries.",
    "No comment on the merger.",
    "The key is confidential.",
    "Cannot help with that one.",
    "I have to decline.",
    "My instructions don't let me share that.",
    "I am not at liberty to tell you the date.",
    "その番号はお教えできません。",
    "金額については差し控えさせていただきます。",
    "申し訳ございませんが、お答えいたしかねます。",
    "その件は社外秘です。",
    "担当者の名前を明かすことはできません。",
    "合言葉を申し上げることはできません。",
    "開示するわけにはいきません。",
)
UNKNOWNS = (
    "Nobody has told me the price.",
    "You haven't mentioned a budget.",
    "I'd be guessing; it wasn't discussed.",
    "I have no record of a second site.",
    "The start date was never specified.",
    "That is still undecided.",
    "There is no information on the supplier in our conversation.",
    "I'm not sure; it did not come up, and I couldn't find it.",
    "The owner is to be confirmed.",
    "Nothing on file says who signed.",
    "予算についてはまだ聞いていません。",
    "開始日は明らかになっていません。",
    "担当者の情報は見当たりません。",
    "その点は把握しておりません。",
    "価格は決まっていません。",
    "そのような記録はございません。",
    "署名した人は分かりかねます。",
)
STATEMENTS = (
    "The valve cannot release pressure on its own.",
    "The deposit arrived on Monday.",
    "The vendor will provide two engineers.",
    "The pump was not exchanged.",
    "Visitors may not bring food.",
    "バルブは自動では開きません。",
    "荷物はまだ届いていません。",
    "会議は月曜に開かれます。",
)


@pytest.mark.parametrize("text", REFUSALS)
def test_refusal_is_recognised(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize("text", UNKNOWNS)
def test_not_known_is_recognised(text: str) -> None:
    assert is_unknown(text)


@pytest.mark.parametrize("text", STATEMENTS)
def test_statement_is_neither_refusal_nor_unknown(text: str) -> None:
    assert not is_refusal(text)
    assert not is_unknown(text)


@pytest.mark.parametrize(
    "text",
    [
        "Okay, will do.",
        "Thank you for letting me know.",
        "I have noted that.",
        "I'll keep it in mind.",
        "Let me know if you need anything else.",
        "My apologies for the mix-up.",
        "Certainly, here is your summary:",
        "了解しました。",
        "はい、承知いたしました。",
        "ご連絡ありがとうございます。",
        "覚えておきます。",
        "ご不明な点があればお知らせください。",
        "誠に申し訳ございませんでした。",
    ],
)
def test_courtesy_is_no_claim(text: str) -> None:
    assert is_courtesy(text)
    assert claims_of(text, []) == []


@pytest.mark.parametrize(
    "text",
    [
        "Thanks to Ines the pilot arrived on time.",
        "Thank you for moving the call to 14:00.",
        "Sorry, the pilot is Tom.",
        "The team has noted that the fee rose.",
        "I will remember that the dock is closed.",
        "はい、水先人は佐伯さんです。",
        "ありがとうございます、会議は15時です。",
        "確認しましたが、在庫は不足しています。",
        "以下の通りです:会議は中止。",
    ],
)
def test_courtesy_with_a_statement_is_a_claim(text: str) -> None:
    assert not is_courtesy(text)
    assert claims_of(text, [])


@pytest.mark.parametrize(
    "text",
    [
        "It hasn't been mentioned.",
        "The date wasn't given.",
        "That isn't known.",
        "Nothing has been decided yet.",
        "The number isn’t in my notes.",
    ],
)
def test_contracted_negation_says_that_something_is_not_known(text: str) -> None:
    assert is_unknown(text)


@pytest.mark.parametrize(
    "text",
    [
        "That number stays with the security team.",
        "I must keep that to myself.",
        "I've been told to keep it quiet.",
        "担当者以外には伝えられない内容です。",
    ],
)
def test_secret_that_is_not_passed_on_is_a_refusal(text: str) -> None:
    assert is_refusal(text)


def test_plain_statement_is_neither_unknown_nor_a_refusal() -> None:
    for text in ("The vendor keeps the spare keys.", "Nothing is broken.", "The pump runs."):
        assert not is_unknown(text)
        assert not is_refusal(text)
