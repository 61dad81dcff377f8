"""Words beside data that leaves a sign-in open, and how a sign-in is told."""

import pytest

from acc.application.a2a.approvals import parse_sign_in, read_answers
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.approval import ApprovalDecision, InputRequest, RequestKind
from acc.domain.value_objects.content import Part

LOGIN = InputRequest(id="r", kind=RequestKind.AUTHORIZATION, agent="a", message="Sign in.")


def test_words_decide_where_data_leaves_it_open() -> None:
    parts = [Part(text="done"), Part(data={"status": "ok"})]
    (answer,) = read_answers(parts, [LOGIN], by="ann")
    assert answer.verdict is ApprovalDecision.APPROVE


@pytest.mark.parametrize("text", ["", "I could not log in", "ログインできませんでした"])
def test_data_that_leaves_it_open_decides_nothing_by_itself(text: str) -> None:
    parts = [Part(text=text), Part(data={"status": "ok"})]
    with pytest.raises(InvalidInput, match='"verdict" of the answer to r'):
        read_answers(parts, [LOGIN], by="ann")


@pytest.mark.parametrize(
    "text",
    ["Successfully logged in", "Already signed in.", "yes I logged in", "just signed in"],
)
def test_a_sign_in_may_be_told_with_a_word_before_it(text: str) -> None:
    assert parse_sign_in(text) is ApprovalDecision.APPROVE
