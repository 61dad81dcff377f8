"""What a conversation looks like: who speaks, what they do, and what they remember."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from acc.application.tools.tool import TRANSFER_TOOL_NAME
from acc.cli.output import show_controls
from acc.domain.value_objects.approval import InputRequest, RequestKind
from acc.domain.value_objects.content import Usage
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus

_COLOURS = ("cyan", "green", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta")
_MOST_SHOWN = 300
_FILE_WIDTH = 160


def console_on(stream: TextIO) -> Console:
    """Return a console for a stream that stays the same when prints are turned aside."""
    seen = stream.isatty()
    return Console(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
        width=None if seen else _FILE_WIDTH,
    )


def compact(value: Any) -> Any:
    """Return an event or a part of it as plain data, without the fields that hold nothing."""
    if isinstance(value, msgspec.Struct):
        plain = msgspec.to_builtins(value)  # which leaves out what is at its default
        return {name: compact(getattr(value, name)) for name in plain}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            item.name: compact(found)
            for item in dataclasses.fields(value)
            if not _is_default(found := getattr(value, item.name), item)
        }
    if isinstance(value, tuple):
        return [compact(item) for item in value]
    return msgspec.to_builtins(value)


def _is_default(value: Any, item: "dataclasses.Field[Any]") -> bool:
    if item.default_factory is not dataclasses.MISSING:
        return bool(value == item.default_factory())
    return item.default is not dataclasses.MISSING and bool(value == item.default)


def shown(text: str, style: str = "") -> Text:
    """Return text for a terminal; signs that would steer it are shown, not sent."""
    return Text().append(show_controls(text), style)


def one_line(value: Any, most: int = _MOST_SHOWN) -> str:
    """Return plain data as a single line, cut where it is very long."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = "⏎".join(text.splitlines())
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Return arguments as they would be written in a call."""
    return ", ".join(f"{name}={one_line(_quoted(value))}" for name, value in arguments.items())


def _quoted(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def doing(event: Event) -> str:
    """Return in a few words what an event tells, for everything that is not speech."""
    detail = event.detail
    match event.kind:
        case EventKind.TOOL_CALLS:
            return "; ".join(f"{c.name}({arguments_text(c.arguments)})" for c in event.calls)
        case EventKind.TRANSFER:
            return f"hands over to {event.actions.transfer_to_agent}"
        case EventKind.ROUTE:
            return _chosen(detail)
        case EventKind.FAULT:
            return f"unusable: {one_line(detail.get('fault') or event.text)}"
        case EventKind.ARTIFACT:
            return f"saves {detail.get('name')}, version {detail.get('version')}"
        case EventKind.MEMORY:
            return f"memory of {detail.get('tokens')} tokens"
        case _:
            return _held(event)


def _chosen(detail: Mapping[str, Any]) -> str:
    """Return whom a router chose, or where a graph goes on."""
    if "from" not in detail:
        return f"chooses {detail.get('to', '')} ({detail.get('reason', '')})"
    return f"{detail['from']} → {', '.join(detail.get('to', ())) or 'nowhere'}"


def _held(event: Event) -> str:
    if event.result is not None:
        mark = "failed: " if event.result.is_error else ""
        return f"{event.result.name} → {mark}{one_line(event.result.content)}"
    if event.request is not None:
        return f"asks: {one_line(event.request.message)}"
    if event.answer is not None:
        return f"{event.answer.verdict.value} {event.answer.request_id}"
    return event.status.value if event.status is not None else one_line(event.text)


def state_text(event: Event) -> str:
    """Return what an event writes to the state."""
    written = {**event.actions.state_delta, **event.actions.branch_delta}
    gone = (*event.actions.state_removed, *event.actions.branch_removed)
    told = [f"{key} = {one_line(value, 80)}" for key, value in written.items()]
    return "; ".join([*told, *(f"without {key}" for key in gone)])


class EventPrinter:
    """Shows the events of a turn to a person as they happen.

    With `alone` only the answer is shown, as befits a pipe. Text of a parallel branch appears once
    it is complete, for several of them are written at the same time.
    """

    def __init__(
        self,
        console: Console,
        *,
        stream: bool,
        events: bool = False,
        alone: bool = False,
    ) -> None:
        self._console = console
        self._stream = stream
        self._events = events
        self._alone = alone
        self._open: tuple[str, str] | None = None
        self._streamed = ""
        self._said: list[str] = []
        self._colours: dict[str, str] = {}

    def show(self, event: Event) -> None:
        """Show one event."""
        if event.kind is EventKind.DELTA:
            self._delta(event)
            return
        if self._events and not event.partial:
            self._close()
            self.line(event)
        elif event.kind is EventKind.MESSAGE:
            self._message(event)
        elif event.kind is EventKind.ENDED:
            self._ended(event)
        elif not self._alone and event.kind not in _SILENT and not _hands_over(event):
            self._close()
            self._console.print(self._did(event))
        if self._events and event.kind is EventKind.ENDED:
            self._answer(event)

    def interrupted(self) -> None:
        """Begin a new line after a turn that was broken off."""
        self._open = None
        self._streamed = ""
        self._console.print()
        self._said.clear()

    def _delta(self, event: Event) -> None:
        if not self._stream or self._alone or self._events or event.branch:
            return
        author = (event.author, event.branch)
        if self._open != author:
            self._close()
            self._console.print(self._name(event), end="")
            self._open = author
        self._streamed += event.text
        self._console.print(shown(event.text), end="")
        self._console.file.flush()

    def _message(self, event: Event) -> None:
        if event.author == "user":
            return
        self._said.append(event.text)
        if self._open == (event.author, event.branch) and self._streamed == event.text:
            self._close()
            return
        self._close()
        if not self._alone:
            self._console.print(self._name(event) + shown(event.text))

    def _ended(self, event: Event) -> None:
        self._close()
        if self._alone:
            self._answer(event)
        elif event.status is RunStatus.COMPLETED and event.text and not self._was_said(event.text):
            self._console.print(self._name(event) + shown(event.text))
        elif event.status is RunStatus.REJECTED:
            self._console.print(shown(event.text, style="yellow"))
        self._said.clear()

    def _answer(self, event: Event) -> None:
        if event.text and event.status in (RunStatus.COMPLETED, RunStatus.REJECTED):
            self._console.print(shown(event.text))

    def _was_said(self, text: str) -> bool:
        return any(said and said in text for said in self._said)

    def _close(self) -> None:
        if self._open is not None:
            self._console.print()
        self._open = None
        self._streamed = ""

    def _name(self, event: Event) -> Text:
        colour = self._colours.setdefault(
            event.author, _COLOURS[len(self._colours) % len(_COLOURS)]
        )
        name = shown(event.author, style=f"bold {colour}")
        if event.branch:
            name.append(f" [{event.branch}]", style="dim")
        return name.append(" › ", style="dim")

    def _did(self, event: Event) -> Text:
        where = f"{event.author} [{event.branch}]" if event.branch else event.author
        style = "dim red" if event.kind is EventKind.FAULT else "dim"
        return shown(f"  {where}: {doing(event)}", style=style)

    def line(self, event: Event) -> None:
        """Show an event as one line: number, kind, who, what, and what it wrote."""
        line = shown(f"{event.seq:>4} ", style="dim")
        line.append(f"{event.kind.value:<15}", style=_STYLES.get(event.kind, ""))
        line.append(f"{event.author}", style="bold")
        if event.branch:
            line.append(f" [{event.branch}]", style="dim")
        line.append(shown(f"  {doing(event)}"))
        written = state_text(event)
        if written:
            line.append(shown(f"  {{{written}}}", "dim"))
        self._console.print(line)


def _hands_over(event: Event) -> bool:
    """Tell whether an event is the call behind a transfer, which is told by an event of its own."""
    named = [call.name for call in event.calls] + ([event.result.name] if event.result else [])
    return bool(named) and all(name == TRANSFER_TOOL_NAME for name in named)


_SILENT = frozenset(
    {
        EventKind.DRAFT,
        EventKind.STATE,
        EventKind.MEMORY,
        EventKind.INPUT,
        EventKind.INPUT_REQUIRED,
        EventKind.SNAPSHOT,
    }
)
_STYLES = {
    EventKind.TOOL_CALLS: "yellow",
    EventKind.TOOL_RESULT: "yellow",
    EventKind.TRANSFER: "magenta",
    EventKind.ROUTE: "magenta",
    EventKind.INPUT_REQUIRED: "bold yellow",
    EventKind.FAULT: "red",
    EventKind.MEMORY: "cyan",
}


def show_events(console: Console, events: Sequence[Event]) -> None:
    """Show stored events, a line each."""
    speaker = EventPrinter(console, stream=False, events=True)
    for event in events:
        speaker.line(event)


def show_memory(console: Console, events: Sequence[Event], *, trace: bool) -> None:
    """Show the newest state of each agent's memory, and with `trace` what led to it."""
    newest = {event.author: event for event in events if event.kind is EventKind.MEMORY}
    if not newest:
        console.print(
            shown('no agent of this turn has a state to show: give one memory="acc"', style="dim")
        )
    for author, event in newest.items():
        detail = event.detail
        console.print(
            shown(f"memory of {author}", style="bold cyan")
            + shown(f"  {detail.get('tokens', 0)} tokens", style="dim")
        )
        for line in str(detail.get("ccs", "")).splitlines():
            console.print(shown(f"  {line}"))
        if trace:
            _show_trace(console, detail)


def _show_trace(console: Console, detail: Mapping[str, Any]) -> None:
    console.print(shown(f"  recalled: {', '.join(detail.get('recalled', ())) or '-'}", style="dim"))
    for item in detail.get("qualified", ()):
        console.print(shown(f"  qualified {item['id']}: {one_line(item['text'])}", style="green"))
    for item in detail.get("refused", ()):
        why = f"{item['reason']}, {item['why']}"
        console.print(
            shown(f"  refused {item['id']} ({why}): {one_line(item['text'])}", style="red")
        )
    for item in detail.get("dropped", ()):
        console.print(shown(f"  dropped: {one_line(item)}", style="dim"))
    for item in detail.get("notes", ()):
        console.print(shown(f"  note: {one_line(item)}", style="dim"))


def show_request(console: Console, request: InputRequest) -> None:
    """Show what a person is asked, with the arguments one below the other."""
    console.print(
        shown("? ", style="bold yellow")
        + shown(request.agent, style="bold")
        + shown(f" › {request.message}")
    )
    if request.tool:
        console.print(shown(f"  {request.tool}", style="bold"))
    widest = max((len(name) for name in request.arguments), default=0)
    for name, value in request.arguments.items():
        console.print(shown(f"    {name:<{widest}}  ", style="dim") + shown(one_line(value)))
    if request.schema and request.kind is not RequestKind.CONFIRMATION:
        console.print(shown(f"  expected: {one_line(dict(request.schema))}", style="dim"))


def show_usage(console: Console, usage: Usage | None) -> None:
    """Show what a turn cost."""
    if usage is not None:
        console.print(
            shown(
                f"  model calls: {usage.llm_calls}, tool calls: {usage.tool_calls}, tokens: "
                f"{usage.input_tokens:,} in, {usage.output_tokens:,} out, "
                f"{usage.memory_tokens:,} of memory{_money(usage)}",
                style="dim",
            )
        )


def _money(usage: Usage) -> str:
    """Return what a turn cost in money, if that is known, and of how many calls."""
    if usage.cost is None:
        return ""
    some = "" if usage.is_priced else f" for {usage.priced_calls} of {usage.llm_calls} calls"
    return f", ${usage.cost:.4f}{some}"


def write_json(stream: TextIO, line: Mapping[str, Any]) -> None:
    """Write one line of JSON, and have it seen at once."""
    stream.write(msgspec.json.encode(line).decode())
    stream.write("\n")
    stream.flush()
