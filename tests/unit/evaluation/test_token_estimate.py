"""Estimates of calls and tokens."""

import pytest

from acc.application.evaluation.token_estimate import (
    ANSWER_TOKENS,
    CountRange,
    Estimate,
    JudgeWorkload,
    Measured,
    PromptSizes,
    answer_lengths,
    estimate_agent,
    estimate_compressor,
    estimate_judge,
    estimate_summaries,
    mean_length,
    measured_usage,
)
from acc.domain.cost import CostCategory, ModelCall

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


def answer(turn: int, tokens: int, *, failed: bool = False, from_cache: bool = False) -> ModelCall:
    return ModelCall(
        category=CostCategory.AGENT,
        input_tokens=100,
        output_tokens=tokens,
        turn=turn,
        failed=failed,
        from_cache=from_cache,
    )


def test_answer_length_is_the_mean_if_it_does_not_change_with_the_turn() -> None:
    calls = [answer(turn, 20 + 10 * (turn % 2)) for turn in range(1, 9)]
    assert answer_lengths(calls, 20) == [CountRange(25, 25)] * 20


def test_growing_answers_grow_on_or_stop_growing_after_the_last_recorded_turn() -> None:
    calls = [answer(turn, 10 * turn + turn % 2) for turn in range(1, 9)]
    lengths = answer_lengths(calls, 16)
    assert [length.low == length.high for length in lengths] == [True] * 8 + [False] * 8
    assert lengths[3].low == pytest.approx(40, abs=2)
    assert lengths[15].low == pytest.approx(80, abs=2)
    assert lengths[15].high == pytest.approx(160, abs=4)


def test_shrinking_answers_have_at_least_one_token() -> None:
    calls = [answer(turn, 90 - 10 * turn) for turn in range(1, 9)]
    assert answer_lengths(calls, 30)[-1] == CountRange(1, 10)


def test_answer_length_without_token_counts_is_the_rough_range() -> None:
    calls = [answer(1, 0, failed=True), answer(2, 5, from_cache=True)]
    assert answer_lengths(calls, 3) == [ANSWER_TOKENS] * 3
    assert measured_usage(calls) is None


def test_cached_answers_count_as_average_calls_and_failed_ones_do_not_count() -> None:
    calls = [answer(1, 20), answer(2, 40), answer(3, 0, from_cache=True), answer(4, 0, failed=True)]
    assert measured_usage(calls) == Measured(3, 300.0, 90.0)


def test_mean_length_is_that_of_all_agents_in_a_turn() -> None:
    one, other = [CountRange(10, 20), CountRange(10, 10)], [CountRange(30, 40), CountRange(50, 90)]
    assert mean_length([one, other]) == [(20, 30), (30, 50)]


def test_scaled_estimate_of_the_same_run_is_what_was_measured() -> None:
    modelled = Estimate(
        calls=CountRange(4, 8), input=CountRange(100, 300), output=CountRange(10, 80)
    )
    measured = Measured(5, 150.0, 25.0)
    assert modelled.scaled(modelled, measured) == Estimate(
        calls=CountRange(5, 5), input=CountRange(150, 150), output=CountRange(25, 25)
    )
    twice = modelled.times(2).scaled(modelled, measured)
    assert (twice.calls, twice.input, twice.output) == ((10, 10), (300, 300), (50, 50))
