"""The steps of a run as spans, computed from its events."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from acc.domain.value_objects.event import Event, EventKind


class SpanKind(StrEnum):
    """What takes the time of a span."""

    AGENT = "agent"
    MODEL = "model"
    TOOL = "tool"
    MEMORY = "memory"
    WAIT = "wait"


class Span(NamedTuple):
    """A step of a run: seconds from its start, the depth in the tree, and its event."""

    kind: SpanKind
    name: str
    start: float
    end: float
    depth: int
    seq: int
    is_error: bool = False

    @property
    def seconds(self) -> float:
        """Return the duration."""
        return self.end - self.start


def build_timeline(events: Sequence[Event]) -> tuple[Span, ...]:
    """Return the spans of a run in the order in which they begin.

    A step begins when the event before it was stored, unless its duration is recorded.
    """
    if not events:
        return ()
    builder = _TimelineBuilder(events[0])
    for event in events:
        builder.add(event)
    return builder.build()


class _TimelineBuilder:
    """Collects the spans of a run, event by event."""

    def __init__(self, first: Event) -> None:
        self._origin = first.at
        self._previous = first
        self._spans: list[Span] = []
        self._calls: dict[str, Event] = {}
        self._requests: dict[str, Event] = {}
        #: By path: when an agent began, and its last event.
        self._agents: dict[str, tuple[float, Event]] = {}
        self._last_answer_at = 0.0
        self._tools: set[str] = set()

    def add(self, event: Event) -> None:
        """Add the span that an event ends, if any."""
        path = event.step.partition("#")[0]
        if path:
            self._extend_agent(path, event)
        span = self._span_of(event, max(path.count("/"), 1))
        if span is not None:
            self._spans.append(span)
        if event.request is not None:
            self._requests[event.request.id] = event
        if event.answer is not None:
            self._last_answer_at = event.at
        self._tools.update(call.name for call in event.calls)
        self._calls.update(dict.fromkeys((call.id for call in event.calls), event))
        self._previous = event

    def build(self) -> tuple[Span, ...]:
        """Return all spans, with times from the start of the run."""
        agents = [
            Span(SpanKind.AGENT, path.rpartition("/")[2], start, last.at, path.count("/"), last.seq)
            for path, (start, last) in self._agents.items()
        ]
        spans = sorted([*agents, *self._spans], key=lambda s: (s.start, s.depth, -s.end))
        origin = self._origin
        return tuple(s._replace(start=s.start - origin, end=s.end - origin) for s in spans)

    def _extend_agent(self, path: str, event: Event) -> None:
        parent, _, name = path.rpartition("/")
        agent = parent if name in self._tools else path
        start = self._agents.get(agent, (self._previous.at, event))[0]
        self._agents[agent] = (start, event)

    def _span_of(self, event: Event, depth: int) -> Span | None:
        before, at, seq = self._previous.at, event.at, event.seq
        if event.result is not None:
            result = event.result
            called = self._calls.get(result.call_id, self._previous).at
            start = max(called, self._last_answer_at)
            return Span(SpanKind.TOOL, result.name, start, at, depth, seq, result.is_error)
        if event.answer is not None:
            asked = self._requests.get(event.answer.request_id)
            if asked is None or asked.request is None:
                return None
            name = asked.request.tool or asked.request.kind.value
            return Span(SpanKind.WAIT, name, asked.at, at, 1, asked.seq)
        if event.kind is EventKind.MEMORY:
            return Span(SpanKind.MEMORY, event.author, before, at, depth + 1, seq)
        if event.usage is not None and event.kind is not EventKind.ENDED:
            start = at - float(event.detail.get("seconds", at - before))
            is_error = event.kind is EventKind.FAULT
            return Span(SpanKind.MODEL, event.author, start, at, depth + 1, seq, is_error)
        return None
