"""The tree of a recorded run: agents and tools with durations, tokens, cost and state changes."""

from collections.abc import Iterable, Mapping, Sequence

from acc.application.memory.messages import unknown_outcome
from acc.application.runtime.conversation import TURN_EVENTS, interrupted_calls
from acc.domain.value_objects.base import JsonData, Value
from acc.domain.value_objects.content import NO_USAGE, Usage
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus

_MODEL_RESPONSES = frozenset(
    {EventKind.MESSAGE, EventKind.DRAFT, EventKind.TOOL_CALLS, EventKind.FAULT}
)


class TraceStep(Value, frozen=True, kw_only=True):
    """One recorded event of a node. `seconds` is the time since the event of the run before it.

    `state` has the changed keys after the step, `before` their earlier values; a new key has none.
    `retry` counts from 1 if the step repeats one that failed.
    """

    seq: int
    kind: str
    text: str
    seconds: float
    at: float
    usage: Usage | None = None
    state: dict[str, JsonData] = {}
    before: dict[str, JsonData] = {}
    removed: tuple[str, ...] = ()
    is_error: bool = False
    is_stub: bool = False
    retry: int = 0
    request: JsonData = None


class TraceNode(Value, frozen=True, kw_only=True):
    """An agent or a tool call of a run; `usage` includes that of the nodes below it."""

    path: str
    name: str
    seconds: float
    usage: Usage
    steps: tuple[TraceStep, ...]
    children: tuple["TraceNode", ...]


class RunTrace(Value, frozen=True, kw_only=True):
    """A recorded run. `waited` is the time that it waited for people."""

    run_id: str
    trace_id: str
    turn: int
    message: str
    status: str
    started_at: float
    seconds: float
    waited: float
    usage: Usage
    answer: str
    error_code: str
    retries: int
    opening: tuple[TraceStep, ...]
    nodes: tuple[TraceNode, ...]


def trace_runs(events: Sequence[Event], *, requests: bool = False) -> tuple[RunTrace, ...]:
    """Return the runs of a session; with `requests` also the model requests, if recorded."""
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event.run_id, []).append(event)
    before = _values_before(events)
    return tuple(_trace_run(run_id, items, before, requests) for run_id, items in runs.items())


def _values_before(events: Sequence[Event]) -> dict[int, dict[str, JsonData]]:
    """Return, by event, the earlier values of the keys of the state that it changes or removes."""
    states: dict[str, dict[str, JsonData]] = {}
    found: dict[int, dict[str, JsonData]] = {}
    for event in events:
        actions = event.actions
        changed = {**actions.state_delta, **actions.branch_delta}
        removed = (*actions.state_removed, *actions.branch_removed)
        found[event.seq] = {}
        if not changed and not removed:
            continue
        own = states.setdefault(event.branch, {})
        known = {**states.get("", {}), **own}
        found[event.seq] = {key: known[key] for key in (*changed, *removed) if key in known}
        own.update(changed)
        for key in removed:
            own.pop(key, None)
    return found


def _trace_run(
    run_id: str,
    events: Sequence[Event],
    values_before: Mapping[int, dict[str, JsonData]],
    requests: bool,
) -> RunTrace:
    first, last = events[0], events[-1]
    waited, paused_at = 0.0, 0.0
    for event in events:
        if event.kind is EventKind.ENDED:
            paused_at = event.at
        elif paused_at:
            waited += event.at - paused_at
            paused_at = 0.0
    ended = last if last.kind is EventKind.ENDED else None
    message = first.text if first.author == "user" else ""
    answers = [e for e in events if e.kind is EventKind.MESSAGE and e.author != "user"]
    steps = _steps(events, values_before, requests)
    placed = [(_path(event, events), step) for event, step in steps]
    placed += _unfinished_calls(events)
    turn = first.detail.get("turn", 0)
    usage = (
        ended.usage
        if ended is not None and ended.usage is not None
        else _sum(step for _, step in steps)
    )
    status = "working" if ended is None or ended.status is None else ended.status.value
    code = "" if ended is None else str(ended.detail.get("code", ""))
    return RunTrace(
        run_id=run_id,
        trace_id=first.trace_id,
        turn=turn if isinstance(turn, int) else 0,
        message=message,
        status=status,
        started_at=first.at,
        seconds=last.at - first.at - waited,
        waited=waited,
        usage=usage,
        answer=answers[-1].text if answers else "",
        error_code=code,
        retries=sum(1 for _, step in steps if step.retry),
        opening=tuple(step for path, step in placed if not path),
        nodes=_nodes([(path, step) for path, step in placed if path], depth=1),
    )


def _path(event: Event, events: Sequence[Event]) -> str:
    """Return the path of the node of an event; recorded requests are not steps."""
    if event.step:
        return event.step.partition("#")[0]
    if event.kind is EventKind.MODEL_REQUEST:
        later = (e for e in events if e.seq > event.seq and e.step and e.author == event.author)
        following = next(later, None)
        return "" if following is None else following.step.partition("#")[0]
    return ""


def _unfinished_calls(events: Sequence[Event]) -> list[tuple[str, TraceStep]]:
    """Return steps for the tool calls that were started and have no recorded result."""
    last = events[-1]
    if last.status is RunStatus.INPUT_REQUIRED:
        return []
    turn = [event for event in events if event.kind in TURN_EVENTS]
    unfinished = interrupted_calls(turn) if turn else []
    found: list[tuple[str, TraceStep]] = []
    for event in turn:
        for call in event.calls:
            if call not in unfinished:
                continue
            text = unknown_outcome(call.name)
            if last.kind is not EventKind.ENDED:
                text = f"{call.name} was started and has no recorded result"
            step = TraceStep(
                seq=event.seq,
                kind=EventKind.TOOL_RESULT.value,
                text=text,
                seconds=0.0,
                at=last.at,
                is_error=True,
            )
            found.append((f"{event.step.partition('#')[0]}/{call.name}", step))
    return found


def _steps(
    events: Sequence[Event], values_before: Mapping[int, dict[str, JsonData]], requests: bool
) -> list[tuple[Event, TraceStep]]:
    steps: list[tuple[Event, TraceStep]] = []
    failed: dict[str, int] = {}
    before = events[0].at
    for event in events:
        if event.kind is EventKind.MODEL_REQUEST and not requests:
            continue
        result = event.result
        is_error = event.kind is EventKind.FAULT or (result is not None and result.is_error)
        retry = 0
        name = result.name if result is not None else ""
        if event.kind in _MODEL_RESPONSES and event.author != "user" and not event.calls:
            name = f"answer of {event.author}"
        if name:
            retry = failed.get(name, 0)
            failed[name] = retry + 1 if is_error else 0
        actions = event.actions
        step = TraceStep(
            seq=event.seq,
            kind=event.kind.value,
            text=_text(event),
            seconds=max(event.at - before, 0.0),
            at=event.at,
            usage=None if event.kind in (EventKind.ENDED, EventKind.MODEL_REQUEST) else event.usage,
            state={**actions.state_delta, **actions.branch_delta},
            before=values_before[event.seq],
            removed=(*actions.state_removed, *actions.branch_removed),
            is_error=is_error,
            is_stub=bool(event.detail.get("stub")),
            retry=retry,
            request=dict(event.detail) if event.kind is EventKind.MODEL_REQUEST else None,
        )
        steps.append((event, step))
        before = event.at
    return steps


def _text(event: Event) -> str:
    if event.calls:
        calls = ", ".join(f"{call.name}({_arguments(call.arguments)})" for call in event.calls)
        return f"{event.text} {calls}".strip()
    if (result := event.result) is not None:
        return str(result.content)
    if event.kind is EventKind.MEMORY:
        return f"view of {event.detail.get('tokens')} tokens"
    if event.request is not None:
        return event.request.message
    if event.answer is not None:
        return f"{event.answer.verdict.value} {event.answer.reason}".strip()
    if event.kind is EventKind.MODEL_REQUEST:
        return "recorded request"
    return event.text


def _arguments(arguments: object) -> str:
    items = arguments.items() if hasattr(arguments, "items") else ()
    return ", ".join(f"{name}={value!r}" for name, value in items)


def _nodes(placed: Sequence[tuple[str, TraceStep]], *, depth: int) -> tuple[TraceNode, ...]:
    """Return the nodes at a depth of the paths, in the order of their first event."""
    groups: dict[str, list[tuple[str, TraceStep]]] = {}
    for path, step in placed:
        prefix = "/".join(path.split("/")[: depth + 1])
        groups.setdefault(prefix, []).append((path, step))
    nodes = []
    for prefix, items in groups.items():
        own = tuple(step for path, step in items if path == prefix)
        below = [(path, step) for path, step in items if path != prefix]
        nodes.append(
            TraceNode(
                path=prefix,
                name=prefix.rpartition("/")[2],
                seconds=sum(step.seconds for _, step in items),
                usage=_sum(step for _, step in items),
                steps=own,
                children=_nodes(below, depth=depth + 1),
            )
        )
    return tuple(nodes)


def _sum(steps: Iterable[TraceStep]) -> Usage:
    total = NO_USAGE
    for step in steps:
        if step.usage is not None:
            total = total + step.usage
    return total
