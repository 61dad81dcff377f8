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
    origin = events[0].at
    spans: list[Span] = []
    calls: dict[str, Event] = {}
    requests: dict[str, Event] = {}
    agents: dict[str, tuple[float, Event]] = {}
    previous = events[0]
    for event in events:
        path = event.step.partition("#")[0]
        if path:
            agent = path if not path.endswith(f"/{_tool_of(event)}") else path.rpartition("/")[0]
            first = agents.get(agent, (previous.at, event))[0]
            agents[agent] = (first, event)
        depth = max(path.count("/"), 1)
        if event.kind is EventKind.INPUT_REQUIRED and event.request is not None:
            requests[event.request.id] = event
        elif event.kind is EventKind.INPUT and event.answer is not None:
            asked = requests.get(event.answer.request_id)
            if asked is not None and asked.request is not None:
                name = asked.request.tool or asked.request.kind.value
                spans.append(Span(SpanKind.WAIT, name, asked.at, event.at, 1, asked.seq))
        elif event.result is not None:
            begun = calls.get(event.result.call_id, previous)
            spans.append(
                Span(
                    SpanKind.TOOL,
                    event.result.name,
                    max(begun.at, _last_answer(events, begun, event)),
                    event.at,
                    depth,
                    event.seq,
                    event.result.is_error,
                )
            )
        elif event.kind is EventKind.MEMORY:
            span = Span(SpanKind.MEMORY, event.author, previous.at, event.at, depth + 1, event.seq)
            spans.append(span)
        elif event.usage is not None and event.kind is not EventKind.ENDED:
            start = event.at - float(event.detail.get("seconds", event.at - previous.at))
            is_error = event.kind is EventKind.FAULT
            spans.append(
                Span(SpanKind.MODEL, event.author, start, event.at, depth + 1, event.seq, is_error)
            )
        calls.update(dict.fromkeys((call.id for call in event.calls), event))
        previous = event
    for path, (begin, last) in agents.items():
        name = path.rpartition("/")[2]
        spans.append(Span(SpanKind.AGENT, name, begin, last.at, path.count("/"), last.seq))
    spans.sort(key=lambda span: (span.start, span.depth, -span.end))
    return tuple(span._replace(start=span.start - origin, end=span.end - origin) for span in spans)


def _tool_of(event: Event) -> str:
    """Return the tool whose path an event of a tool has."""
    if event.result is not None:
        return event.result.name
    if event.request is not None:
        return event.request.tool
    return str(event.detail.get("started", ""))


def _last_answer(events: Sequence[Event], begun: Event, ended: Event) -> float:
    """Return when the last answer between two events came, 0 if there is none."""
    return max(
        (e.at for e in events if e.kind is EventKind.INPUT and begun.seq < e.seq < ended.seq),
        default=0.0,
    )
