"""Asking the person at the terminal, and telling how to answer from elsewhere."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

import msgspec
from rich.console import Console

from acc.cli.event_view import show_request, shown
from acc.domain.errors import InvalidInput, NothingPending
from acc.domain.value_objects.approval import InputAnswer, InputRequest, RequestKind, approve, deny

try:
    import readline
except ImportError:  # Windows has none; lines can still be typed
    readline = None  # type: ignore[assignment]

#: Returns a line that a person typed, given the prompt and what to begin with.
Ask = Callable[[str, str], str]


def typed(prompt: str, begin: str = "") -> str:
    """Return a line from the terminal, or from a pipe without showing a prompt.

    Raises EOFError where the input has ended.
    """
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")
    # Lines can be edited only where Python finds its own terminal at both ends.
    with redirect_stdout(sys.__stdout__):
        if readline is None or not begin:
            return input(prompt)
        readline.set_startup_hook(lambda: readline.insert_text(begin))
        try:
            return input(prompt)
        finally:
            readline.set_startup_hook(None)


def answer_to(console: Console, request: InputRequest, ask: Ask = typed) -> InputAnswer | None:
    """Return what a person decides about a request, or None to leave it for later."""
    show_request(console, request)
    if request.kind is RequestKind.CONFIRMATION:
        return _confirmation(console, request, ask)
    while True:
        said = ask("  answer (empty: later) › ", "")
        if not said.strip():
            return None
        try:
            return approve(request.id, value=value_for(request, said))
        except InvalidInput as error:
            console.print(shown(f"  {error}", "red"))


def _confirmation(console: Console, request: InputRequest, ask: Ask) -> InputAnswer | None:
    editable = bool(request.tool)
    choices = "[a]pprove, [d]eny, [e]dit, [l]ater" if editable else "[a]pprove, [d]eny, [l]ater"
    while True:
        said, _, rest = ask(f"  {choices} › ", "").strip().partition(" ")
        match said.casefold():
            case "a" | "approve" | "y" | "yes" | "はい" | "承認":
                return approve(request.id)
            case "d" | "deny" | "n" | "no" | "いいえ" | "却下" | "拒否":
                return deny(request.id, rest or ask("  reason (may be empty) › ", ""))
            case "e" | "edit" | "編集" if editable:
                edited = rest or ask("  arguments › ", encoded(request.arguments))
                try:
                    return approve(request.id, arguments=arguments_of(edited))
                except InvalidInput as error:
                    console.print(shown(f"  {error}", "red"))
            case "l" | "later" | "後で":
                return None
            case _:
                console.print(shown(f"  type one of: {choices}", "dim"))


def encoded(value: object) -> str:
    """Return plain data as JSON text."""
    return msgspec.json.encode(value).decode()


def arguments_of(text: str) -> Mapping[str, Any]:
    """Return arguments that were written as a JSON object."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f'arguments must be a JSON object such as {{"amount": 5}}: {error}'
        ) from None


def value_for(request: InputRequest, text: str) -> Any:
    """Return an answer in the form that is asked for: JSON if there is a schema, else text."""
    if request.kind is RequestKind.INPUT and request.schema.get("type", "string") == "string":
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if request.schema:
            raise InvalidInput(f"the value for {request.id} must be JSON: {error}") from None
        return text


def find(requests: Sequence[InputRequest], request_id: str) -> InputRequest:
    """Return the request of that id, or say which there are."""
    found = next((request for request in requests if request.id == request_id), None)
    if found is None:
        known = ", ".join(request.id for request in requests)
        waits = f"it waits for {known}" if known else "it waits for nothing"
        raise NothingPending(f"the session has no open request {request_id!r}; {waits}")
    return found


def commands(request: InputRequest, prefix: Sequence[str]) -> list[str]:
    """Return the commands that answer a request from another process."""
    lines: list[list[str]] = []
    if request.kind is RequestKind.CONFIRMATION:
        lines = [["--approve", request.id], ["--deny", request.id, "--reason", "WHY"]]
        if request.tool:
            lines.append(["--edit", request.id, "--arguments", encoded(request.arguments)])
    else:
        lines = [["--approve", request.id, "--value", "VALUE"], ["--deny", request.id]]
    return [shlex.join([*prefix, *line]) for line in lines]
