"""Events, requests and memories as text for a terminal."""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from acc.application.tools.tool import TRANSFER_TOOL_NAME
from acc.cli.output import print_error, show_controls
from acc.domain.value_objects.approval import InputRequest, RequestKind
from acc.domain.value_objects.content import Usage
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus

MAX_VALUE_LENGTH = 300
MAX_STATE_VALUE_LENGTH = 80
FILE_WIDTH = 160
_AUTHOR_COLOURS = (
    "cyan",
    "green",
    "magenta",
    "blue",
    "bright_cyan",
    "bright_green",
    "bright_magenta",
)
_KIND_STYLES = {
    EventKind.TOOL_CALLS: "yellow",
    EventKind.TOOL_RESULT: "yellow",
    EventKind.TRANSFER: "magenta",
    EventKind.ROUTE: "magenta",
    EventKind.DELEGATION: "magenta",
    EventKind.INPUT_REQUIRED: "bold yellow",
    EventKind.FAULT: "red",
    EventKind.MEMORY: "cyan",
}
#: Events that are shown only with --events.
_DETAIL_KINDS = frozenset(
    {
        EventKind.DRAFT,
        EventKind.STATE,
        EventKind.MEMORY,
        EventKind.MODEL_REQUEST,
        EventKind.INPUT,
        EventKind.INPUT_REQUIRED,
        EventKind.PARTIAL_OUTPUT,
        EventKind.SNAPSHOT,
    }
)


class EventPrinter:
    """Prints the events of a turn as they happen.

    With `answer_only`, which is meant for pipes, only the final answer is printed. The text of a
    parallel branch is printed when it is complete, because branches write at the same time.
    """

    def __init__(
        self,
        console: Console,
        *,
        stream: bool,
        events: bool = False,
        answer_only: bool = False,
    ) -> None:
        self._console = console
        self._stream = stream
        self._events = events
        self._answer_only = answer_only
        self._open_author = ""
        self._streamed = ""
        self._messages: list[str] = []
        self._colours: dict[str, str] = {}

    def show(self, event: Event) -> None:
        """Print one event."""
        if event.kind is EventKind.DELTA:
            self._show_delta(event)
            return
        if self._answer_only and _is_interruption(event):
            print_error(safe_text(f"{event.author}: {event.text}").plain)
        if self._events and not event.partial:
            self._end_stream()
            self.show_line(event)
        elif event.kind is EventKind.MESSAGE:
            self._show_message(event)
        elif event.kind is EventKind.ENDED:
            self._show_end(event)
        elif not self._answer_only and event.kind not in _DETAIL_KINDS and not _is_transfer(event):
            self._end_stream()
            where = f"{event.author} [{event.branch}]" if event.branch else event.author
            style = "dim red" if event.kind is EventKind.FAULT else "dim"
            self._console.print(safe_text(f"  {where}: {describe(event)}", style=style))
        if self._events and event.kind is EventKind.ENDED:
            self._show_answer(event)

    def show_line(self, event: Event) -> None:
        """Print an event as one line: number, kind, author, content, state changes."""
        line = safe_text(f"{event.seq:>4} ", style="dim")
        line.append(f"{event.kind.value:<15}", style=_KIND_STYLES.get(event.kind, ""))
        line.append(safe_text(event.author, style="bold"))
        if event.branch:
            line.append(safe_text(f" [{event.branch}]", style="dim"))
        line.append(safe_text(f"  {describe(event)}"))
        changes = format_state_changes(event)
        if changes:
            line.append(safe_text(f"  {{{changes}}}", "dim"))
        self._console.print(line)

    def reset(self) -> None:
        """Start a new line after a canceled turn."""
        self._open_author = ""
        self._streamed = ""
        self._messages.clear()
        self._console.print()

    def _show_delta(self, event: Event) -> None:
        if not self._stream or self._answer_only or self._events or event.branch:
            return
        if self._open_author != event.author:
            self._end_stream()
            self._console.print(self._author(event), end="")
            self._open_author = event.author
        self._streamed += event.text
        self._console.print(safe_text(event.text), end="")
        self._console.file.flush()

    def _show_message(self, event: Event) -> None:
        if event.author == "user":
            return
        self._messages.append(event.text)
        is_streamed = (
            not event.branch and self._open_author == event.author and self._streamed == event.text
        )
        self._end_stream()
        if not is_streamed and not self._answer_only:
            self._console.print(self._author(event) + safe_text(event.text))

    def _show_end(self, event: Event) -> None:
        self._end_stream()
        is_new = not any(message and message in event.text for message in self._messages)
        if self._answer_only:
            self._show_answer(event)
        elif event.status is RunStatus.COMPLETED and event.text and is_new:
            self._console.print(self._author(event) + safe_text(event.text))
        elif event.status is RunStatus.REJECTED:
            self._console.print(safe_text(event.text, style="yellow"))
        self._messages.clear()

    def _show_answer(self, event: Event) -> None:
        if event.text and event.status in (RunStatus.COMPLETED, RunStatus.REJECTED):
            self._console.print(safe_text(event.text))

    def _end_stream(self) -> None:
        if self._open_author:
            self._console.print()
        self._open_author = ""
        self._streamed = ""

    def _author(self, event: Event) -> Text:
        colour = self._colours.setdefault(
            event.author, _AUTHOR_COLOURS[len(self._colours) % len(_AUTHOR_COLOURS)]
        )
        author = safe_text(event.author, style=f"bold {colour}")
        if event.branch:
            author.append(safe_text(f" [{event.branch}]", style="dim"))
        return author.append(" › ", style="dim")


def _is_transfer(event: Event) -> bool:
    """Return True for the tool call of a transfer, which has a TRANSFER event of its own."""
    names = [call.name for call in event.calls] + ([event.result.name] if event.result else [])
    return bool(names) and all(name == TRANSFER_TOOL_NAME for name in names)


def _is_interruption(event: Event) -> bool:
    """Return True for the notice about a call of an earlier run whose process died."""
    return event.kind is EventKind.PROGRESS and event.detail.get("code") == "interrupted"


def describe(event: Event) -> str:
    """Return the content of an event, except messages, in a few words."""
    detail = event.detail
    match event.kind:
        case EventKind.TOOL_CALLS:
            return "; ".join(f"{c.name}({format_arguments(c.arguments)})" for c in event.calls)
        case EventKind.TRANSFER:
            return f"transfers to {event.actions.transfer_to_agent}"
        case EventKind.ROUTE | EventKind.DELEGATION | EventKind.FLOW:
            return _describe_choice(detail)
        case EventKind.FAULT:
            return f"unusable response of the model: {one_line(detail.get('fault') or event.text)}"
        case EventKind.ARTIFACT:
            return f"saves {detail.get('name')}, version {detail.get('version')}"
        case EventKind.MEMORY | EventKind.MODEL_REQUEST:
            return _describe_model_input(event)
    if event.result is not None:
        prefix = "failed: " if event.result.is_error else ""
        return f"{event.result.name} → {prefix}{one_line(event.result.content)}"
    if event.request is not None:
        return f"asks: {one_line(event.request.message)}"
    if event.answer is not None:
        return f"{event.answer.verdict.value} {event.answer.request_id}"
    return _describe_progress(event)


def _describe_progress(event: Event) -> str:
    if event.kind is EventKind.STATE and "started" in event.detail:
        return f"starts {event.detail['started']}"
    if event.status is RunStatus.FAILED and event.text:
        return f"{event.status.value}: {one_line(event.text)}"
    return event.status.value if event.status is not None else one_line(event.text)


def _describe_model_input(event: Event) -> str:
    if event.kind is EventKind.MEMORY:
        tokens = event.detail.get("tokens")
        return "memory of unknown size" if tokens is None else f"memory of {tokens} tokens"
    return f"model call of {event.detail.get('seconds', 0):.3f} s"


def _describe_choice(detail: Mapping[str, Any]) -> str:
    if "delegated_intent" in detail:
        if "fallback" not in detail:
            return f"fulfilled {detail['delegated_intent']}"
        return f"runs {detail['fallback']}: {one_line(detail.get('reason', ''))}"
    if "plan" in detail:
        return f"plans {', '.join(detail['plan']) or 'no tools with effects'}"
    if "decision" in detail:
        return f"{detail['tool']}: {detail['decision']} ({one_line('; '.join(detail['reasons']))})"
    if "from" in detail:  # an edge of a graph
        return f"{detail['from']} → {', '.join(detail.get('to', ())) or 'nowhere'}"
    return f"chooses {detail.get('to', '')} ({detail.get('reason', '')})"


def format_arguments(arguments: Mapping[str, Any]) -> str:
    """Return arguments in the notation of a call."""
    return ", ".join(
        f"{name}={one_line(msgspec.json.encode(value).decode())}"
        for name, value in arguments.items()
    )


def format_state_changes(event: Event) -> str:
    """Return the keys that an event writes to the state or removes from it."""
    actions = event.actions
    written = {**actions.state_delta, **actions.branch_delta}
    changes = [f"{k} = {one_line(v, MAX_STATE_VALUE_LENGTH)}" for k, v in written.items()]
    changes += [f"removes {key}" for key in (*actions.state_removed, *actions.branch_removed)]
    return "; ".join(changes)


def show_events(console: Console, events: Sequence[Event]) -> None:
    """Print stored events, one line each."""
    printer = EventPrinter(console, stream=False, events=True)
    for event in events:
        printer.show_line(event)


def show_memory(console: Console, events: Sequence[Event], *, trace: bool) -> None:
    """Print the latest memory state of each agent, with `trace` also its origin."""
    latest = {event.author: event for event in events if event.kind is EventKind.MEMORY}
    if not latest:
        console.print(
            safe_text('no agent of this turn has memory="acc": there is no state', style="dim")
        )
    for author, event in latest.items():
        detail = event.detail
        console.print(
            safe_text(f"memory of {author}", style="bold cyan")
            + safe_text(f"  {detail.get('tokens', 0)} tokens", style="dim")
        )
        for line in str(detail.get("ccs", "")).splitlines():
            console.print(safe_text(f"  {line}"))
        if trace:
            _show_trace(console, detail)


def show_prompts(console: Console, events: Sequence[Event]) -> None:
    """Print the exact request of each model call, its duration and its usage."""
    requests = [event for event in events if event.kind is EventKind.MODEL_REQUEST]
    for number, event in enumerate(requests, start=1):
        detail, usage = event.detail, event.usage or Usage()
        cost = "unknown" if usage.cost is None else f"${usage.cost:.6f}"
        heading = (
            f"  {detail['seconds']:.3f} s, {usage.input_tokens:,} tokens in "
            f"({usage.cached_tokens:,} cached), {usage.output_tokens:,} out, cost {cost}"
        )
        title = safe_text(f"model call {number} of {event.author}", style="bold cyan")
        console.print(title + safe_text(heading, style="dim"))
        for name in ("instruction", "memory"):
            if detail.get(name):
                _show_quoted(console, name, detail[name], style="dim")
        for message in detail["messages"]:
            author = message.get("author", "")
            role = message["role"]
            label = role if author in ("", role) else f"{role}, {author}"
            for is_text, parts in groupby(message["parts"], lambda part: bool(part.get("text"))):
                if is_text:
                    # Models receive adjacent texts as one, such as a date and what was said then.
                    _show_quoted(console, label, "".join(part["text"] for part in parts))
                    continue
                for part in parts:
                    _show_quoted(console, label, msgspec.json.encode(part).decode())
        for tool in detail.get("tools", ()):
            schema = msgspec.json.encode(tool.get("parameters", {})).decode()
            text = f"{tool.get('description', '')}\n{schema}".strip()
            _show_quoted(console, f"tool, {tool['name']}", text, style="dim")


def _show_quoted(console: Console, label: str, content: str, style: str = "") -> None:
    """Print content below its label; every line is quoted, so that none looks like a label."""
    console.print(safe_text(f"  [{one_line(label)}]", style="dim"))
    for line in content.splitlines():
        console.print(safe_text(f"  | {line}", style))


def _show_trace(console: Console, detail: Mapping[str, Any]) -> None:
    recalled = ", ".join(detail.get("recalled", ())) or "-"
    console.print(safe_text(f"  recalled: {recalled}", style="dim"))
    for item in detail.get("qualified", ()):
        text = f"  qualified {item['id']}: {one_line(item['text'])}"
        console.print(safe_text(text, style="green"))
    for item in detail.get("rejected", ()):
        reason = f"{item['reason']}, {item['explanation']}"
        text = f"  rejected {item['id']} ({reason}): {one_line(item['text'])}"
        console.print(safe_text(text, style="red"))
    for item in detail.get("dropped", ()):
        console.print(safe_text(f"  dropped: {one_line(item)}", style="dim"))
    for item in detail.get("notes", ()):
        console.print(safe_text(f"  note: {one_line(item)}", style="dim"))


def show_request(console: Console, request: InputRequest) -> None:
    """Print a request for input, with one argument per line."""
    console.print(
        safe_text("? ", style="bold yellow")
        + safe_text(request.agent, style="bold")
        + safe_text(f" › {request.message}")
    )
    if request.tool:
        console.print(safe_text(f"  {request.tool}", style="bold"))
    width = max((len(name) for name in request.arguments), default=0)
    for name, value in request.arguments.items():
        label = safe_text(f"    {name:<{width}}  ", style="dim")
        console.print(label + safe_text(one_line(value)))
    if request.schema and request.kind is not RequestKind.CONFIRMATION:
        console.print(safe_text(f"  expected: {one_line(dict(request.schema))}", style="dim"))


def show_usage(console: Console, usage: Usage | None) -> None:
    """Print the calls, tokens and cost of a turn."""
    if usage is None:
        return
    cost = ""
    if usage.cost is not None:
        unpriced = f" for {usage.priced_calls} of {usage.llm_calls} calls"
        cost = f", ${usage.cost:.4f}{'' if usage.is_priced else unpriced}"
    console.print(
        safe_text(
            f"  model calls: {usage.llm_calls}, tool calls: {usage.tool_calls}, tokens: "
            f"{usage.input_tokens:,} in, {usage.output_tokens:,} out, "
            f"{usage.memory_tokens:,} of memory{cost}",
            style="dim",
        )
    )


def make_console(stream: TextIO) -> Console:
    """Return a console that writes to this stream even while stdout is redirected."""
    return Console(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
        width=None if stream.isatty() else FILE_WIDTH,
    )


def safe_text(text: str, style: str = "") -> Text:
    """Return styled text in which terminal control characters are visible."""
    return Text().append(show_controls(text), style)


def one_line(value: Any, max_length: int = MAX_VALUE_LENGTH) -> str:
    """Return plain data as one line, shortened to `max_length` characters."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = "⏎".join(text.splitlines())
    if len(text) <= max_length:
        return text
    return f"{text[:max_length]}… ({len(text):,} characters)"


def compact(value: Any) -> Any:
    """Return a value object as plain data without the fields that have their default."""
    if isinstance(value, msgspec.Struct):
        names = msgspec.to_builtins(value)  # omits fields with their default
        return {name: compact(getattr(value, name)) for name in names}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: compact(content)
            for field in dataclasses.fields(value)
            if not _is_default(content := getattr(value, field.name), field)
        }
    if isinstance(value, tuple):
        return [compact(item) for item in value]
    return msgspec.to_builtins(value)


def _is_default(value: Any, field: "dataclasses.Field[Any]") -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return field.default is not dataclasses.MISSING and bool(value == field.default)


def write_json(stream: TextIO, line: Mapping[str, Any]) -> None:
    """Write one line of JSON and flush the stream."""
    stream.write(msgspec.json.encode(line).decode())
    stream.write("\n")
    stream.flush()
