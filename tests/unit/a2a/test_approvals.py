"""Decisions are read from whole phrases and from data; anything else decides nothing."""

from typing import Any

import pytest

from acc.application.a2a.approvals import parse_approval, parse_sign_in, read_answers
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.approval import (
    ApprovalDecision,
    InputAnswer,
    InputRequest,
    RequestKind,
)
from acc.domain.value_objects.content import Part

APPROVE, DENY = ApprovalDecision.APPROVE, ApprovalDecision.DENY
CONFIRMATION = InputRequest(id="r", kind=RequestKind.CONFIRMATION, agent="a", message="Pay?")
SIGN_IN = InputRequest(id="r", kind=RequestKind.AUTHORIZATION, agent="a", message="Sign in.")
INPUT = InputRequest(id="r", kind=RequestKind.INPUT, agent="a", message="Which?")


@pytest.mark.parametrize(
    "text",
    [
        *("yes", "Yes.", "YES!", "y", "OK", "ＯＫ", "Approved, thanks", "I approve this payment."),
        *(
            "yes, do it",
            "Sure, go ahead!",
            "Please proceed",
            "No problem, go ahead",
            "approve both",
        ),
        *("はい", "はい、お願いします。", "承認", "「承認」", "承認します。処理を続けてください。"),
        *("了解しました、進めてください。", "問題ありません", "Yes, 承認します", "yes\nplease do"),
    ],
)
def test_approval_is_parsed_when_all_phrases_approve(text: str) -> None:
    assert parse_approval(text) is APPROVE


@pytest.mark.parametrize(
    "text",
    [
        *("no", "No.", "No! Never!", "no thanks", "deny", "Denied.", "I don’t approve this"),
        *("No, I do not approve.", "not approved", "stop", "Cancel it", "please don't"),
        *(
            "いいえ",
            "いいえ、承認しません。",
            "却下します",
            "「却下」",
            "中止してください",
            "やめてください",
        ),
    ],
)
def test_denial_is_parsed_when_all_phrases_deny(text: str) -> None:
    assert parse_approval(text) is DENY


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "  ",
            "hmm",
            "yes?",
            "yes...",
            "yes…",
            "yes or no",
            "yes, no",
            "approve 5000 instead",
        ),
        *("yes, but wait", "yes if it is cheap", "please approve", "I will not approve nothing"),
        *("no, too much", "do not deny it", "never mind", "thanks", "Not sure", "approve?"),
        *("はい、でも待って", "承認しますか", "承認しないわけではない", "了解しました", "いいです"),
        *("金額が1万円なら承認します", "承認、却下", "yes " * 100),
    ],
)
def test_no_decision_is_parsed_from_other_text(text: str) -> None:
    assert parse_approval(text) is None


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("done", APPROVE),
        ("I have signed in.", APPROVE),
        ("Successfully logged in", APPROVE),
        ("yes", APPROVE),
        ("done, please continue", APPROVE),
        ("ログインしました", APPROVE),
        ("認証が完了しました。続けてください。", APPROVE),
        ("No", DENY),
        ("キャンセルします", DENY),
        ("I could not log in", None),
        ("I have not signed in\ndone", None),
        ("ログインできませんでした", None),
        ("done?", None),
        ("", None),
    ],
)
def test_sign_in_is_parsed_from_whole_phrases(text: str, decision: ApprovalDecision) -> None:
    assert parse_sign_in(text) is decision
    assert parse_approval("done") is None


def read(request: InputRequest, *parts: Part) -> tuple[InputAnswer, ...]:
    return read_answers(parts, [request], by="ann")


def test_denial_has_its_text_as_reason() -> None:
    (answer,) = read(CONFIRMATION, Part(text="No, thank you."))
    assert (answer.verdict, answer.reason, answer.by) == (DENY, "No, thank you.", "ann")


@pytest.mark.parametrize(
    ("data", "decision"),
    [
        ({"verdict": "approve"}, APPROVE),
        ({"verdict": "DENIED"}, DENY),
        ({"approved": True}, APPROVE),
        ({"approved": False, "reason": "too much"}, DENY),
        ({"answers": [{"requestId": "r", "verdict": "deny"}]}, DENY),
    ],
)
def test_decision_is_read_from_data(data: Any, decision: ApprovalDecision) -> None:
    (answer,) = read(CONFIRMATION, Part(text="please see"), Part(data=data))
    assert (answer.request_id, answer.verdict) == ("r", decision)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("No, do not pay!", "approve"), ("承認します", "deny"), ("cancel that, no", "approve")],
)
def test_nothing_is_decided_when_text_contradicts_data(text: str, verdict: str) -> None:
    assert read(CONFIRMATION, Part(text=text), Part(data={"verdict": verdict})) == ()


def test_text_decides_sign_in_when_data_does_not() -> None:
    (answer,) = read(SIGN_IN, Part(text="done"), Part(data={"status": "ok"}))
    assert answer.verdict is APPROVE
    with pytest.raises(InvalidInput, match='"verdict"'):
        read(SIGN_IN, Part(text="I could not log in"), Part(data={"status": "ok"}))


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"verdict": "yes"}, '"verdict"'),
        ({"reason": "none"}, '"verdict"'),
        ({"verdict": "approve", "arguments": [1]}, '"arguments"'),
        ({"requestId": "other", "verdict": "approve"}, '"requestId"'),
        ({"answers": "approve"}, '"answers"'),
        ({"answers": ["approve"]}, '"answers"'),
        ({"answers": [{"verdict": "approve"}, {"verdict": "deny"}]}, "one answer"),
    ],
)
def test_invalid_data_is_rejected(data: Any, field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        read(CONFIRMATION, Part(data=data))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (Part(text="tea"), "tea"),
        (Part(data={"drink": "tea"}), {"drink": "tea"}),
        (Part(data={"value": 3}), 3),
        (Part(data=[1, 2]), [1, 2]),
    ],
)
def test_input_is_taken_as_value(part: Part, value: Any) -> None:
    (answer,) = read(INPUT, part)
    assert (answer.verdict, answer.value) == (APPROVE, value)
