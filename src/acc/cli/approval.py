"""Answers to input requests: asked at the terminal, or given by a later command."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, TextIO

import msgspec
from rich.console import Console

from acc.cli.event_view import safe_text, show_request
from acc.domain.errors import InvalidInput, NothingPending
from acc.domain.value_objects.approval import InputAnswer, InputRequest, RequestKind, approve, deny

try:
    import readline
except ImportError:  # not available on Windows, where lines can be typed but not edited
    readline = None  # type: ignore[assignment]


def is_interactive(output: TextIO) -> bool:
    """Return True if a person can be asked at a terminal."""
    return sys.stdin.isatty() and output.isatty()


def prompt_answers(console: Console, requests: Sequence[InputRequest]) -> list[InputAnswer]:
    """Ask for an answer to each request; postponed requests have none."""
    answers: list[InputAnswer] = []
    for request in requests:
        try:
            answer = prompt_answer(console, request)
        except (EOFError, KeyboardInterrupt):
            console.print()
            break
        if answer is not None:
            answers.append(answer)
    return answers


def read_line(prompt: str, initial: str = "") -> str:
    """Return a line from the terminal, or from a pipe without a prompt.

    Raises EOFError at the end of the input.
    """
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")
    # Python enables line editing only if both stdin and sys.stdout are its own terminal streams.
    with redirect_stdout(sys.__stdout__):
        if readline is None or not initial:
            return input(prompt)
        readline.set_startup_hook(lambda: readline.insert_text(initial))
        try:
            return input(prompt)
        finally:
            readline.set_startup_hook(None)


def prompt_answer(console: Console, request: InputRequest) -> InputAnswer | None:
    """Ask for the answer to a request; return None to postpone it."""
    show_request(console, request)
    if request.kind is RequestKind.CONFIRMATION:
        return _prompt_confirmation(console, request)
    while True:
        line = read_line("  answer (empty: later) › ")
        if not line.strip():
            return None
        try:
            return approve(request.id, value=parse_value(request, line))
        except InvalidInput as error:
            console.print(safe_text(f"  {error}", "red"))


def _prompt_confirmation(console: Console, request: InputRequest) -> InputAnswer | None:
    editable = bool(request.tool)
    choices = "[a]pprove, [d]eny, [e]dit, [l]ater" if editable else "[a]pprove, [d]eny, [l]ater"
    while True:
        choice, _, rest = read_line(f"  {choices} › ").strip().partition(" ")
        match choice.casefold():
            case "a" | "approve" | "y" | "yes" | "はい" | "承認":
                return approve(request.id)
            case "d" | "deny" | "n" | "no" | "いいえ" | "却下" | "拒否":
                return deny(request.id, rest or read_line("  reason (optional) › "))
            case "e" | "edit" | "編集" if editable:
                edited = rest or read_line("  arguments › ", to_json(request.arguments))
                try:
                    return approve(request.id, arguments=parse_arguments(edited))
                except InvalidInput as error:
                    console.print(safe_text(f"  {error}", "red"))
            case "l" | "later" | "後で":
                return None
            case _:
                console.print(safe_text(f"  type one of: {choices}", "dim"))


def parse_arguments(text: str) -> Mapping[str, Any]:
    """Return tool arguments from a JSON object."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f'arguments must be a JSON object such as {{"amount": 5}}: {error}'
        ) from None


def parse_value(request: InputRequest, text: str) -> Any:
    """Return the value of an answer: text, or JSON if the request has another schema."""
    if request.kind is RequestKind.INPUT and request.schema.get("type", "string") == "string":
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if request.schema:
            raise InvalidInput(f"the value for {request.id} must be JSON: {error}") from None
        return text


def find_request(requests: Sequence[InputRequest], request_id: str) -> InputRequest:
    """Return the pending request with an id, or raise NothingPending."""
    for request in requests:
        if request.id == request_id:
            return request
    pending = ", ".join(request.id for request in requests) or "none"
    raise NothingPending(f"request {request_id!r} is not pending; pending requests: {pending}")


def answer_commands(request: InputRequest, command: Sequence[str]) -> list[str]:
    """Return the commands that answer a request from another process."""
    if request.kind is not RequestKind.CONFIRMATION:
        options = [["--approve", request.id, "--value", "VALUE"], ["--deny", request.id]]
    else:
        options = [["--approve", request.id], ["--deny", request.id, "--reason", "WHY"]]
        if request.tool:
            options.append(["--edit", request.id, "--arguments", to_json(request.arguments)])
    return [shlex.join([*command, *line]) for line in options]


def to_json(value: object) -> str:
    """Return plain data as JSON text."""
    return msgspec.json.encode(value).decode()


answer_to = prompt_answer
arguments_of = parse_arguments
can_ask = is_interactive
