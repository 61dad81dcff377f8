"""Token estimates of agents, compressors and judges, from the sizes of prompts and answers.

The low end assumes short answers and no repeated call. The high end assumes long answers, full
memories, and one repeated call for each answer of compressor and judge.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from acc.application.memory.registry import SUMMARY
from acc.domain.cost import ModelCall
from acc.domain.statistics import t_quantile


class CountRange(NamedTuple):
    """A range from the lowest to the highest expected number."""

    low: int
    high: int

    def plus(self, *others: "CountRange") -> "CountRange":
        """Return the sum of ranges."""
        ranges = (self, *others)
        return CountRange(sum(one.low for one in ranges), sum(one.high for one in ranges))

    def times(self, count: int) -> "CountRange":
        """Return the range multiplied by a count."""
        return CountRange(self.low * count, self.high * count)

    def __str__(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


_ZERO = CountRange(0, 0)
#: Tokens of an agent's answer.
ANSWER_TOKENS = CountRange(30, 250)
#: Tokens that a provider's API and the text around a memory add to a prompt.
_OVERHEAD_TOKENS = CountRange(10, 70)
#: Tokens of the delimiters around untrusted text in a judge's prompt.
_DELIMITER_TOKENS = CountRange(60, 260)
_EMPTY_STATE_TOKENS = CountRange(80, 220)
_DRIVEN_QUERY_TOKENS = CountRange(30, 500)
_RECALLED_TURNS = 5
_MAX_CLAIMS_OF_ANSWER = 6
_MAX_EVIDENCE_TOKENS = 16 * 80


class Measured(NamedTuple):
    """Calls and tokens of one agent, compressor or judge in an earlier run."""

    calls: int
    input: float
    output: float


def measured_usage(calls: Sequence[ModelCall]) -> Measured | None:
    """Return the sums of recorded calls, or None if no call has token counts.

    Cached answers have no token counts; they count as much as an average call. Failed calls do not
    count.
    """
    answered = [call for call in calls if not call.failed]
    counted = [call for call in answered if call.input_tokens and not call.from_cache]
    if not counted:
        return None
    share = len(answered) / len(counted)
    return Measured(
        len(answered),
        share * sum(call.input_tokens for call in counted),
        share * sum(call.output_tokens for call in counted),
    )


def answer_lengths(calls: Sequence[ModelCall], turns: int) -> list[CountRange]:
    """Return the tokens of an agent's answer in each turn, from its recorded calls.

    It is their mean, or a line through them if their length clearly changes with the turn. After
    the last recorded turn the low and the high end are: the length no longer changes, and it
    changes as before.
    """
    points = [
        (call.turn, call.output_tokens)
        for call in calls
        if call.input_tokens and not call.failed and not call.from_cache
    ]
    if not points:
        return [ANSWER_TOKENS] * turns
    count = len(points)
    mean_turn = sum(turn for turn, _ in points) / count
    mean = sum(tokens for _, tokens in points) / count
    spread = sum((turn - mean_turn) ** 2 for turn, _ in points)
    slope = 0.0
    if spread and count > 2:
        slope = sum((turn - mean_turn) * (tokens - mean) for turn, tokens in points) / spread
        errors = sum((tokens - mean - slope * (turn - mean_turn)) ** 2 for turn, tokens in points)
        error = math.sqrt(errors / (count - 2) / spread)
        if abs(slope) <= t_quantile(0.975, count - 2) * error:
            slope = 0.0
    last = max(turn for turn, _ in points)
    lengths = []
    for turn in range(1, turns + 1):
        ends = [
            max(1, round(mean + slope * (place - mean_turn))) for place in (min(turn, last), turn)
        ]
        lengths.append(CountRange(min(ends), max(ends)))
    return lengths


def mean_length(lengths: Sequence[Sequence[CountRange]]) -> list[CountRange]:
    """Return the mean answer length of several agents in each turn."""
    return [
        CountRange(*(round(sum(ends) / len(ends)) for ends in zip(*of_turn, strict=True)))
        for of_turn in zip(*lengths, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Expected calls and tokens."""

    calls: CountRange = _ZERO
    input: CountRange = _ZERO
    output: CountRange = _ZERO

    def plus(self, other: "Estimate") -> "Estimate":
        """Return the sum of two estimates."""
        return Estimate(
            calls=self.calls.plus(other.calls),
            input=self.input.plus(other.input),
            output=self.output.plus(other.output),
        )

    def times(self, count: int) -> "Estimate":
        """Return the estimate multiplied by a count."""
        return Estimate(
            calls=self.calls.times(count),
            input=self.input.times(count),
            output=self.output.times(count),
        )

    def with_repairs(self) -> "Estimate":
        """Return the estimate with each call repeated once at the high end."""
        return Estimate(
            calls=CountRange(self.calls.low, 2 * self.calls.high),
            input=CountRange(self.input.low, 2 * self.input.high + self.output.high),
            output=CountRange(self.output.low, 2 * self.output.high),
        )

    def scaled(self, modelled: "Estimate", measured: Measured) -> "Estimate":
        """Return the estimate corrected by a run for which `modelled` is the estimate.

        Each end is multiplied by measured / modelled.
        """
        return Estimate(
            calls=_scaled(self.calls, modelled.calls, measured.calls),
            input=_scaled(self.input, modelled.input, measured.input),
            output=_scaled(self.output, modelled.output, measured.output),
        )


def _scaled(span: CountRange, modelled: CountRange, measured: float) -> CountRange:
    ends = [
        round(end * measured / whole) if whole else end
        for end, whole in zip(span, modelled, strict=True)
    ]
    return CountRange(min(ends), max(ends))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSizes:
    """Tokens of each prompt's fixed part, including its schema, and of the memories."""

    instruction: int
    compressor: int
    read: int
    audit: int
    audit_again: int
    score: int
    drive: int
    window: int
    budget: int
    support: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeWorkload:
    """What a model judge does in a turn: answers, votes, orders, reading and writing the query."""

    answers: int
    votes: int
    orders: int
    drives: bool
    reads: bool = True
    support_models: int = 0


def estimate_agent(
    kind: str,
    query_tokens: Sequence[int],
    recorded: int,
    sizes: PromptSizes,
    *,
    budget: int | None = None,
    answers: Sequence[CountRange] | None = None,
) -> Estimate:
    """Return the estimate of an agent with a memory for the turns after `recorded`.

    `answers` are the tokens of its answer in each turn, by default `ANSWER_TOKENS`.
    """
    answers = answers or [ANSWER_TOKENS] * len(query_tokens)
    total = Estimate()
    for turn in range(recorded, len(query_tokens)):
        memory = _memory_tokens(kind, query_tokens, turn, sizes, answers, budget=budget)
        fixed = query_tokens[turn] + sizes.instruction
        prompt = CountRange(fixed, fixed).plus(memory, _OVERHEAD_TOKENS)
        total = total.plus(Estimate(calls=CountRange(1, 1), input=prompt, output=answers[turn]))
    return total


def estimate_compressor(query_tokens: Sequence[int], recorded: int, sizes: PromptSizes) -> Estimate:
    """Return the estimate of the model that writes an ACC state for the turns after `recorded`."""
    total = Estimate()
    answers = [ANSWER_TOKENS] * len(query_tokens)
    for turn in range(recorded, len(query_tokens)):
        state = _memory_tokens("acc", query_tokens, turn, sizes, answers)
        written = _EMPTY_STATE_TOKENS.plus(CountRange(state.low, 2 * state.high))
        query = CountRange(query_tokens[turn], 2 * query_tokens[turn] + 60)
        fixed = CountRange(sizes.compressor, sizes.compressor)
        evidence = CountRange(0, min(2 * sum(query_tokens[:turn]), _MAX_EVIDENCE_TOKENS))
        prompt = fixed.plus(written, query, evidence, _OVERHEAD_TOKENS)
        total = total.plus(Estimate(calls=CountRange(1, 1), input=prompt, output=written))
    return total.with_repairs()


def estimate_summaries(
    query_tokens: Sequence[int],
    recorded: int,
    sizes: PromptSizes,
    *,
    answers: Sequence[CountRange] | None = None,
) -> Estimate:
    """Return the estimate of the model that rewrites a summary after each turn but the last."""
    answers = answers or [ANSWER_TOKENS] * len(query_tokens)
    total = Estimate()
    fixed = CountRange(sizes.instruction, sizes.instruction)
    for turn in range(max(recorded, 1), len(query_tokens)):
        before = query_tokens[turn - 1]
        summary = _memory_tokens(SUMMARY, query_tokens, turn, sizes, answers)
        prompt = fixed.plus(
            summary, CountRange(before, before), answers[turn - 1], _OVERHEAD_TOKENS
        )
        total = total.plus(Estimate(calls=CountRange(1, 1), input=prompt, output=summary))
    return total


def estimate_judge(
    query_tokens: Sequence[int],
    recorded: int,
    sizes: PromptSizes,
    workload: JudgeWorkload,
    *,
    answers: Sequence[CountRange] | None = None,
) -> Estimate:
    """Return the estimate of a model judge for the turns after `recorded`.

    `answers` are the tokens of an average answer in each turn, by default `ANSWER_TOKENS`.
    """
    total = Estimate()
    answer_tokens = answers or [ANSWER_TOKENS] * len(query_tokens)
    count = workload.answers
    for turn in range(recorded, len(query_tokens)):
        tokens, answer = query_tokens[turn], answer_tokens[turn]
        before = sum(query_tokens[: turn + 1])
        canonical = CountRange(before // 4, 3 * before // 2 + 20)
        context = canonical.plus(CountRange(tokens, tokens), _DELIMITER_TOKENS)
        read = _call(sizes.read, context, CountRange(30, 80 + 3 * tokens))
        audit = _call(sizes.audit, context.plus(answer), CountRange(40, 200 + 3 * answer.high))
        again = _call(
            sizes.audit_again,
            context.plus(answer, answer),
            CountRange(40, 200 + answer.high),
        )
        score = _call(
            sizes.score,
            context.plus(answer.times(count)),
            CountRange(30 * count, 90 * count),
        )
        if workload.reads:
            total = total.plus(read)
        total = total.plus(audit.times(count))
        total = total.plus(again.times(count * (workload.votes - 1)))
        total = total.plus(score.times(workload.votes * workload.orders))
        if workload.support_models:
            support = _call(sizes.support, context.plus(CountRange(5, 40)), CountRange(1, 16))
            claims = Estimate(
                calls=CountRange(1, _MAX_CLAIMS_OF_ANSWER),
                input=CountRange(support.input.low, _MAX_CLAIMS_OF_ANSWER * support.input.high),
                output=CountRange(support.output.low, _MAX_CLAIMS_OF_ANSWER * support.output.high),
            )
            total = total.plus(claims.times(count * workload.support_models))
        if workload.drives:
            total = total.plus(_call(sizes.drive, context, _DRIVEN_QUERY_TOKENS))
    return total.with_repairs()


def _call(fixed: int, context: CountRange, output: CountRange) -> Estimate:
    prompt = CountRange(fixed, fixed).plus(context, _OVERHEAD_TOKENS)
    return Estimate(calls=CountRange(1, 1), input=prompt, output=output)


def _memory_tokens(
    kind: str,
    query_tokens: Sequence[int],
    turn: int,
    sizes: PromptSizes,
    answers: Sequence[CountRange],
    *,
    budget: int | None = None,
) -> CountRange:
    """Return the tokens that a memory shows in a turn; `turn` starts at 0."""
    before = sum(query_tokens[:turn])
    low, high = CountRange(before + 4 * turn, before + 4 * turn).plus(*answers[:turn])
    if kind == "full":
        return CountRange(low, high)
    if kind == "transcript":
        room = max(0, sizes.window - query_tokens[turn])
        return CountRange(min(room, low), min(room, high))
    if kind in ("last-n", "bm25", SUMMARY) or (kind == "retrieval" and budget is not None):
        return CountRange(min(sizes.budget, low) // 2, min(sizes.budget, high))
    if kind == "retrieval":
        earlier = answers[:turn] or [ANSWER_TOKENS]
        shortest = min(answer.low for answer in earlier)
        largest = max((*(answer.high for answer in earlier), *query_tokens[:turn]))
        return CountRange(
            min(low, _RECALLED_TURNS * shortest), min(high, _RECALLED_TURNS * largest)
        )
    if kind == "oracle":
        return CountRange(before // 4, 3 * before // 2)
    total = before + query_tokens[turn]
    return CountRange(min(sizes.budget, total) // 2, min(sizes.budget, total + 80))
