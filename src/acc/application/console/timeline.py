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
    """A step of a run: seconds from its start, the depth in the tree, and its event.

    `asked` is the number of the event with the arguments or the recorded request, 0 without one.
    """

    kind: SpanKind
    name: str
    start: float
    end: float
    depth: int
    seq: int
    is_error: bool = False
    asked: int = 0

    @property
    def seconds(self) -> float:
        """Return the duration."""
        return self.end - self.start


def build_timeline(events: Sequence[Event]) -> tuple[Span, ...]:
    """Return the spans of a run as a tree: an agent, then its steps in the order of their start.

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
        #: The last event of each branch; recorded model requests are not steps.
        self._last = {"": first}
        self._previous = first
        #: Steps with the path of their agent.
        self._spans: list[tuple[str, Span]] = []
        self._calls: dict[str, Event] = {}
        self._requests: dict[str, Event] = {}
        #: Recorded model requests by agent and branch, until the response follows.
        self._model_requests: dict[tuple[str, str], Event] = {}
        #: By path: when an agent began, and its last event.
        self._agents: dict[str, tuple[float, Event]] = {}
        self._last_answer_at = 0.0
        self._tools: set[str] = set()

    def add(self, event: Event) -> None:
        """Add the span that an event ends, if any."""
        path = self._agent_path(event)
        self._previous = self._before(event)
        if event.step:
            self._extend_agents(path, event)
        span = self._span_of(event, path.count("/") + 1)
        if span is not None:
            self._spans.append((path, span))
        if event.request is not None:
            self._requests[event.request.id] = event
        if event.answer is not None:
            self._last_answer_at = event.at
        self._tools.update(call.name for call in event.calls)
        self._calls.update(dict.fromkeys((call.id for call in event.calls), event))
        if event.kind is not EventKind.MODEL_REQUEST:
            self._last[event.branch] = event

    def build(self) -> tuple[Span, ...]:
        """Return all spans, with times from the start of the run."""
        found = [
            (
                self._order(path),
                Span(
                    SpanKind.AGENT, path.rpartition("/")[2], start, end.at, path.count("/"), end.seq
                ),
            )
            for path, (start, end) in self._agents.items()
        ]
        found += [
            ((*self._order(path), (span.start, f"{span.seq:09}")), span)
            for path, span in self._spans
        ]
        found.sort(key=lambda item: item[0])
        origin = self._origin
        return tuple(s._replace(start=s.start - origin, end=s.end - origin) for _, s in found)

    def _order(self, path: str) -> tuple[tuple[float, str], ...]:
        """Return the place of an agent in the tree: when it and the agents around it began."""
        names = path.split("/")
        around = ("/".join(names[:end]) for end in range(2, len(names) + 1))
        return tuple((self._agents[one][0], one) for one in around if one in self._agents)

    def _agent_path(self, event: Event) -> str:
        """Return the path of the agent of an event, without that of a tool."""
        if event.answer is not None and event.answer.request_id in self._requests:
            event = self._requests[event.answer.request_id]
        if not event.step:  # a recorded model request, or a message of the user
            paths = [path for path in self._agents if path.rpartition("/")[2] == event.author]
            return paths[-1] if paths else ""
        path = event.step.partition("#")[0]
        parent, _, name = path.rpartition("/")
        return parent if name in self._tools else path

    def _before(self, event: Event) -> Event:
        """Return the event before another one; branches beside it do not count."""
        return max(
            (
                last
                for branch, last in self._last.items()
                if event.branch.startswith(branch) or branch.startswith(event.branch)
            ),
            key=lambda last: last.seq,
        )

    def _extend_agents(self, path: str, event: Event) -> None:
        """Extend the span of the agent of an event, and those of the agents around it."""
        while path:
            start = self._agents.get(path, (self._previous.at, event))[0]
            self._agents[path] = (start, event)
            path = path.rpartition("/")[0]

    def _span_of(self, event: Event, depth: int) -> Span | None:
        before, at, seq = self._previous.at, event.at, event.seq
        if event.result is not None:
            result = event.result
            call = self._calls.get(result.call_id)
            start = max((call or self._previous).at, self._last_answer_at)
            asked = 0 if call is None else call.seq
            return Span(SpanKind.TOOL, result.name, start, at, depth, seq, result.is_error, asked)
        if event.answer is not None:
            waited = self._requests.get(event.answer.request_id)
            if waited is None or waited.request is None:
                return None
            name = waited.request.tool or waited.request.kind.value
            return Span(SpanKind.WAIT, name, waited.at, at, depth, seq, asked=waited.seq)
        if event.kind is EventKind.MEMORY:
            return Span(SpanKind.MEMORY, event.author, before, at, depth, seq)
        if event.kind is EventKind.MODEL_REQUEST:
            start = self._start_of_call(event)
            if event.detail.get("error"):
                return Span(SpanKind.MODEL, event.author, start, at, depth, seq, True, seq)
            self._model_requests[event.author, event.branch] = event
            return None
        if event.usage is not None and event.kind is not EventKind.ENDED:
            request = self._model_requests.pop((event.author, event.branch), None)
            start = before if request is None else self._start_of_call(request)
            end, asked = (at, 0) if request is None else (request.at, request.seq)
            is_error = event.kind is EventKind.FAULT
            return Span(SpanKind.MODEL, event.author, start, end, depth, seq, is_error, asked)
        return None

    def _start_of_call(self, request: Event) -> float:
        return request.at - float(request.detail.get("seconds", 0.0))
