"""How many tokens an evaluation may take: from the sizes of its texts, before anything is asked.

A range, and a rough one. Its low end takes short answers, and every answer of compressor and judge
to be of use at once; its high end takes long answers, full memories, and each of those answers to
be asked for twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Span(NamedTuple):
    """From the least to the most that is expected."""

    low: int
    high: int

    def plus(self, *others: "Span") -> "Span":
        """Return the sum."""
        spans = (self, *others)
        return Span(sum(span.low for span in spans), sum(span.high for span in spans))

    def times(self, count: int) -> "Span":
        """Return this many of it."""
        return Span(self.low * count, self.high * count)


NOTHING = Span(0, 0)
#: Tokens of an agent's answer.
ANSWER = Span(30, 250)
#: What a provider's wire, and the words around a memory, add to a prompt.
_FRAME = Span(10, 70)
#: The marks around what a judge reads.
_FENCES = Span(60, 260)
_EMPTY_STATE = Span(80, 220)
_RECALLED = 5
_EVIDENCE = 16 * 80
_QUERY_OF_A_JUDGE = Span(30, 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one part of an episode takes: calls, and tokens read and written."""

    calls: Span = NOTHING
    input: Span = NOTHING
    output: Span = NOTHING

    def plus(self, other: "Estimate") -> "Estimate":
        """Return the sum."""
        return Estimate(
            calls=self.calls.plus(other.calls),
            input=self.input.plus(other.input),
            output=self.output.plus(other.output),
        )

    def times(self, count: int) -> "Estimate":
        """Return this many of it."""
        return Estimate(
            calls=self.calls.times(count),
            input=self.input.times(count),
            output=self.output.times(count),
        )

    def repairable(self) -> "Estimate":
        """Return it with every answer asked for again at the high end."""
        return Estimate(
            calls=Span(self.calls.low, 2 * self.calls.high),
            input=Span(self.input.low, 2 * self.input.high + self.output.high),
            output=Span(self.output.low, 2 * self.output.high),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Tokens of what is sent with every prompt, schemas included, and of the memories."""

    instruction: int
    compressor: int
    read: int
    audit: int
    audit_again: int
    score: int
    drive: int
    window: int
    budget: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How a model judges: how many answers, votes and orders, and whether it writes the queries."""

    answers: int
    votes: int
    orders: int
    drives: bool


def agent_take(kind: str, queries: Sequence[int], done: int, sizes: Sizes) -> Estimate:
    """Return what an agent with a memory takes for the turns of an episode after `done`."""
    total = Estimate()
    for turn in range(done, len(queries)):
        memory = _memory(kind, queries, turn, sizes)
        fixed = queries[turn] + sizes.instruction
        heard = Span(fixed, fixed).plus(memory, _FRAME)
        total = total.plus(Estimate(calls=Span(1, 1), input=heard, output=ANSWER))
    return total


def compressor_take(queries: Sequence[int], done: int, sizes: Sizes) -> Estimate:
    """Return what the model that writes an ACC state takes for the turns after `done`."""
    total = Estimate()
    for turn in range(done, len(queries)):
        state = _memory("acc", queries, turn, sizes)
        written = _EMPTY_STATE.plus(Span(state.low, 2 * state.high))
        said = sum(queries[:turn])
        turned = Span(queries[turn], 2 * queries[turn] + 60)
        fixed = Span(sizes.compressor, sizes.compressor)
        evidence = Span(0, min(2 * said, _EVIDENCE))
        heard = fixed.plus(written, turned, evidence, _FRAME)
        total = total.plus(Estimate(calls=Span(1, 1), input=heard, output=written))
    return total.repairable()


def judge_take(queries: Sequence[int], done: int, sizes: Sizes, judging: Judging) -> Estimate:
    """Return what a model that judges takes for the turns after `done`."""
    total = Estimate()
    for turn in range(done, len(queries)):
        query = Span(queries[turn], queries[turn])
        known = _canonical(queries, turn).plus(query, _FENCES)
        read = _asked(sizes.read, known, Span(30, 80 + 3 * queries[turn]))
        audit = _asked(sizes.audit, known.plus(ANSWER), Span(40, 200 + 3 * ANSWER.high))
        again = _asked(sizes.audit_again, known.plus(ANSWER, ANSWER), Span(40, 200 + ANSWER.high))
        answers = judging.answers
        score = _asked(
            sizes.score, known.plus(ANSWER.times(answers)), Span(30 * answers, 90 * answers)
        )
        total = total.plus(read)
        total = total.plus(audit.times(answers)).plus(again.times(answers * (judging.votes - 1)))
        total = total.plus(score.times(judging.votes * judging.orders))
        if judging.drives:
            total = total.plus(_asked(sizes.drive, known, _QUERY_OF_A_JUDGE))
    return total.repairable()


def _asked(fixed: int, heard: Span, said: Span) -> Estimate:
    return Estimate(calls=Span(1, 1), input=Span(fixed, fixed).plus(heard, _FRAME), output=said)


def _canonical(queries: Sequence[int], turn: int) -> Span:
    """Return the size of what the judge remembers when it reads a turn."""
    said = sum(queries[: turn + 1])
    return Span(said // 4, 3 * said // 2 + 20)


def _memory(kind: str, queries: Sequence[int], turn: int, sizes: Sizes) -> Span:
    """Return the size of what a memory shows in a turn, which counts from 0."""
    said = sum(queries[:turn])
    if kind == "transcript":
        low, high = (said + turn * (answer + 4) for answer in ANSWER)
        room = max(0, sizes.window - queries[turn])
        return Span(min(room, low), min(room, high))
    if kind == "retrieval":
        largest = max((ANSWER.high, *queries[:turn]))
        low, high = (said + turn * answer for answer in ANSWER)
        return Span(min(low, _RECALLED * ANSWER.low), min(high, _RECALLED * largest))
    if kind == "oracle":
        return Span(said // 4, 3 * said // 2)
    seen = said + queries[turn]
    return Span(min(sizes.budget, seen) // 2, min(sizes.budget, seen + 80))
