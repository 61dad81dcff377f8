"""How many tokens an evaluation may take, before anything is asked."""

import pytest

from acc.application.evaluation.plan import (
    ANSWER,
    Judging,
    Sizes,
    Span,
    agent_take,
    compressor_take,
    judge_take,
)

SIZES = Sizes(
    instruction=50,
    compressor=900,
    read=500,
    audit=700,
    audit_again=600,
    score=400,
    drive=300,
    window=1_000,
    budget=512,
)
QUERIES = [80] * 20


@pytest.mark.parametrize("kind", ["transcript", "retrieval", "acc", "oracle"])
def test_an_agent_is_asked_once_a_turn(kind: str) -> None:
    take = agent_take(kind, QUERIES, 0, SIZES)
    assert take.calls == Span(20, 20)
    assert take.output == ANSWER.times(20)
    assert 20 * (50 + 80) <= take.input.low <= take.input.high
    rest = agent_take(kind, QUERIES, 15, SIZES)
    assert rest.calls == Span(5, 5)
    assert rest.input.low > take.input.low // 4, "late turns are the dear ones"


def test_a_transcript_stays_within_its_window() -> None:
    take = agent_take("transcript", QUERIES, 19, SIZES)
    assert take.input.low == 50 + 80 + (1_000 - 80) + 10
    assert agent_take("transcript", [80], 0, SIZES).input.low == 50 + 80 + 10


def test_a_state_stays_within_its_budget() -> None:
    assert agent_take("acc", QUERIES, 19, SIZES).input == Span(50 + 80 + 256 + 10, 130 + 512 + 70)


def test_a_compressor_may_be_asked_twice() -> None:
    take = compressor_take(QUERIES, 10, SIZES)
    assert take.calls == Span(10, 20)
    assert take.input.low >= 10 * 900
    assert take.input.high > 2 * take.input.low


def test_a_judge_reads_audits_every_answer_and_scores_in_each_order() -> None:
    plain = Judging(answers=3, votes=1, orders=1, drives=False)
    assert judge_take(QUERIES, 18, SIZES, plain).calls == Span(2 * 5, 2 * 2 * 5)
    much = Judging(answers=3, votes=3, orders=2, drives=True)
    assert judge_take(QUERIES, 19, SIZES, much).calls.low == 1 + 3 * 3 + 3 * 2 + 1
    assert judge_take(QUERIES, 20, SIZES, much).calls == Span(0, 0)
