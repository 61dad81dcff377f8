"""Estimates of calls and tokens."""

import pytest

from acc.application.evaluation.token_estimate import (
    ANSWER_TOKENS,
    CountRange,
    JudgeWorkload,
    PromptSizes,
    estimate_agent,
    estimate_compressor,
    estimate_judge,
    estimate_summaries,
)

SIZES = PromptSizes(
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
def test_agent_is_called_once_per_turn(kind: str) -> None:
    estimate = estimate_agent(kind, QUERIES, 0, SIZES)
    assert estimate.calls == CountRange(20, 20)
    assert estimate.output == ANSWER_TOKENS.times(20)
    assert 20 * (50 + 80) <= estimate.input.low <= estimate.input.high
    rest = estimate_agent(kind, QUERIES, 15, SIZES)
    assert rest.calls == CountRange(5, 5)
    assert rest.input.low > estimate.input.low // 4, "late turns have longer prompts"


def test_transcript_estimate_is_limited_by_the_window() -> None:
    estimate = estimate_agent("transcript", QUERIES, 19, SIZES)
    assert estimate.input.low == 50 + 80 + (1_000 - 80) + 10
    assert estimate_agent("transcript", [80], 0, SIZES).input.low == 50 + 80 + 10


def test_acc_estimate_is_limited_by_the_budget() -> None:
    assert estimate_agent("acc", QUERIES, 19, SIZES).input == CountRange(
        50 + 80 + 256 + 10, 130 + 512 + 70
    )


@pytest.mark.parametrize("kind", ["last-n", "bm25", "summary"])
def test_estimate_of_a_memory_with_a_budget_is_limited_by_it(kind: str) -> None:
    estimate = estimate_agent(kind, QUERIES, 19, SIZES)
    assert estimate.input.high == QUERIES[19] + SIZES.instruction + SIZES.budget + 70
    full = estimate_agent("full", QUERIES, 19, SIZES)
    assert full.input.high > estimate.input.high


def test_summary_is_rewritten_before_each_turn_but_the_first() -> None:
    assert estimate_summaries(QUERIES, 0, SIZES).calls == CountRange(
        len(QUERIES) - 1, len(QUERIES) - 1
    )
    assert estimate_summaries(QUERIES, 15, SIZES).calls == CountRange(5, 5)


def test_high_end_repeats_each_compressor_call() -> None:
    estimate = estimate_compressor(QUERIES, 10, SIZES)
    assert estimate.calls == CountRange(10, 20)
    assert estimate.input.low >= 10 * 900
    assert estimate.input.high > 2 * estimate.input.low


def test_judge_reads_audits_each_answer_and_scores_each_order() -> None:
    plain = JudgeWorkload(answers=3, votes=1, orders=1, drives=False)
    assert estimate_judge(QUERIES, 18, SIZES, plain).calls == CountRange(2 * 5, 2 * 2 * 5)
    much = JudgeWorkload(answers=3, votes=3, orders=2, drives=True)
    assert estimate_judge(QUERIES, 19, SIZES, much).calls.low == 1 + 3 * 3 + 3 * 2 + 1
    assert estimate_judge(QUERIES, 20, SIZES, much).calls == CountRange(0, 0)
