"""`acc call`: say something to any agent that speaks A2A, and hear what it answers."""

import asyncio
import mimetypes
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO

import msgspec
from cyclopts import Parameter

from acc.application.agents.remote_content import (
    Asked,
    answer_artifact,
    answer_parts,
    answer_text,
    asked_in,
    beside_text,
    is_speech,
    parts_text,
    status_text,
)
from acc.bootstrap.a2a_client import make_remote, new_id, typed_loopback
from acc.cli.approval import answer_to, arguments_of, can_ask
from acc.cli.event_view import console_on, shown, write_json
from acc.cli.output import print_error
from acc.cli.session import WAITING
from acc.domain.errors import AddressRefused, InvalidInput, StorageFailed, Unauthenticated
from acc.domain.value_objects.approval import InputAnswer, InputRequest, RequestKind, approve, deny
from acc.domain.value_objects.content import Part, text_of, text_part
from acc.domain.value_objects.endpoint import RemoteEndpoint
from acc.domain.value_objects.task import (
    INTERRUPTED,
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskState,
)

#: Letters of any script, digits, and little else: the name comes from somewhere else.
_NOT_IN_NAMES = re.compile(r"[^\w.\-]+")
_MOST_NAME = 100


class ArtifactFolder:
    """A folder that artifacts are saved to; what is there already stays."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, artifacts: Iterable[TaskArtifact]) -> list[Path]:
        """Save what artifacts hold and return the files."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return [
                self._write(name, content)
                for made in artifacts
                for name, content in _contents(made)
            ]
        except OSError as error:
            raise StorageFailed(f"cannot write to {self._folder}: {error.strerror}") from error

    def _write(self, name: str, content: bytes) -> Path:
        stem, dot, ending = name.rpartition(".")
        stem, ending = (stem, f".{ending}") if dot and stem else (name, "")
        number = 1
        while True:
            path = self._folder / (name if number == 1 else f"{stem}-{number}{ending}")
            try:
                with path.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                number += 1
                continue
            return path


def _contents(made: TaskArtifact) -> Iterator[tuple[str, bytes]]:
    base = made.name or made.artifact_id
    for part in made.parts:
        if part.raw is not None:
            yield _name(part.filename or base, part.media_type), part.raw
        elif part.text is not None:
            yield _name(part.filename or base, part.media_type or "text/plain"), part.text.encode()
        elif part.url is None:
            content = msgspec.json.format(msgspec.json.encode(part.data), indent=2)
            yield _name(part.filename or base, "application/json"), content


def _name(name: str, media_type: str) -> str:
    """Return a name for a file that cannot lead out of its folder."""
    last = re.split(r"[/\\]", name)[-1]
    plain = _NOT_IN_NAMES.sub("_", last).strip("._")[:_MOST_NAME] or "artifact"
    if "." in plain:
        return plain
    return plain + (mimetypes.guess_extension(media_type.partition(";")[0].strip()) or "")


def described(made: TaskArtifact) -> str:
    """Return an artifact in a few words."""
    name = made.name or made.artifact_id
    held = [
        f"{part.filename}, {_described(part)}"
        if part.filename not in ("", name)
        else _described(part)
        for part in made.parts
    ]
    return f"artifact {name}: {'; '.join(held) or 'nothing'}"


def _described(part: Part) -> str:
    if part.raw is not None:
        return f"{part.media_type or 'file'}, {len(part.raw):,} bytes"
    if part.url is not None:
        return part.url
    if part.text is not None:
        return f"{part.media_type or 'text'}, {len(part.text):,} characters"
    return "data"


_MOST_FILE = 8 * 1024 * 1024
Url = Annotated[str, Parameter(help="Where the agent is, or the URL of its card.")]
Allow = Annotated[
    tuple[str, ...],
    Parameter(
        help="A host, address or network that may be called although it is not public. The URL "
        "itself may be of this machine without that.",
        negative=(),
        consume_multiple=False,
    ),
]
TokenEnv = Annotated[
    str, Parameter(help="The environment variable that holds the token to send, never shown.")
]


@Parameter(name="*", group="What to send", show_default=False)
@dataclass(frozen=True, kw_only=True)
class WhatOptions:
    """What to send."""

    data: Annotated[str, Parameter(help="Data to send along, as JSON.")] = ""
    file: Annotated[
        tuple[Path, ...],
        Parameter(help="A file to send along.", negative=(), consume_multiple=False),
    ] = ()
    context: Annotated[str, Parameter(help="The conversation to go on with.")] = ""
    task: Annotated[str, Parameter(help="The task to go on with.")] = ""

    def parts(self, text: str | None) -> tuple[Part, ...]:
        """Return what is sent, checked."""
        parts = list(text_part(text)) if text else []
        if self.data:
            try:
                data = msgspec.json.decode(self.data)
            except msgspec.DecodeError as error:
                raise InvalidInput(f"--data must be JSON: {error}") from None
            parts.append(Part(data=data, is_null=data is None, media_type="application/json"))
        parts += map(_file_part, self.file)
        return tuple(parts)


@Parameter(name="*", group="Answering a task that waits", show_default=False)
@dataclass(frozen=True, kw_only=True)
class ReplyOptions:
    """How to answer a task that waits."""

    approve: Annotated[
        bool, Parameter(help="Say yes to everything that --task asks.", negative=())
    ] = False
    deny: Annotated[bool, Parameter(help="Say no to everything that --task asks.", negative=())] = (
        False
    )
    arguments: Annotated[
        str, Parameter(help="With --approve: other arguments, '{\"amount\": 5}'.")
    ] = ""
    value: Annotated[str | None, Parameter(help="With --approve: what is asked for.")] = None
    reason: Annotated[str, Parameter(help="With --deny: why.")] = ""

    @property
    def given(self) -> bool:
        """Tell whether there is an answer."""
        return self.approve or self.deny

    def check(self, task: str) -> None:
        """Refuse flags that do not fit together."""
        if self.approve and self.deny:
            raise InvalidInput("either --approve or --deny")
        if self.given and not task:
            raise InvalidInput("--approve and --deny go with --task ID")
        if (self.arguments or self.value is not None) and not self.approve:
            raise InvalidInput("--arguments and --value go with --approve")
        if self.reason and not self.deny:
            raise InvalidInput("--reason goes with --deny")

    def answers(self, asked: Sequence[Asked]) -> list[tuple[Asked, InputAnswer]]:
        """Return the answers to what a task asks."""
        if self.deny:
            return [(one, deny(one.id, self.reason)) for one in asked]
        changed = arguments_of(self.arguments) if self.arguments else None
        value: Any = self.value
        if value is not None and any(one.schema for one in asked):
            try:
                value = msgspec.json.decode(value)
            except msgspec.DecodeError:
                value = self.value
        return [(one, approve(one.id, arguments=changed, value=value)) for one in asked]


@Parameter(name="*", group="How", show_default=False)
@dataclass(frozen=True, kw_only=True)
class HowOptions:
    """How to call."""

    token_env: TokenEnv = ""
    stream: Annotated[
        bool, Parameter(help="Hear the answer as it comes, if the agent can.", negative="no-stream")
    ] = True
    timeout: Annotated[float, Parameter(help="Seconds to wait for the end. [default: 600]")] = 600.0
    allow: Allow = ()
    json: Annotated[
        bool,
        Parameter(help="Print a line of JSON for each update and for the result.", negative=()),
    ] = False
    out: Annotated[
        Path | None, Parameter(help="A folder to save artifacts to; files are never replaced.")
    ] = None

    def address(self, url: str) -> RemoteEndpoint:
        """Return where and how to call."""
        url = url if "://" in url else f"https://{url}"
        return RemoteEndpoint(
            url=url,
            token=f"env:{self.token_env}" if self.token_env else "",
            allow=(*self.allow, *typed_loopback(url)),
            timeout=self.timeout,
            streaming=None if self.stream else False,
        )


_WHAT = WhatOptions()
_REPLY = ReplyOptions()
_HOW = HowOptions()


def call(
    url: Url,
    text: Annotated[
        str | None,
        Parameter(help="The message; - reads it from stdin.", allow_leading_hyphen=True),
    ] = None,
    /,
    *,
    what: WhatOptions = _WHAT,
    reply: ReplyOptions = _REPLY,
    how: HowOptions = _HOW,
) -> int:
    """Send a message to an agent over A2A and print its answer as it comes.

    Generation and binding are chosen from its card. A task that waits for a person asks on a
    terminal; elsewhere the command ends with 3 and prints the commands that answer. Ctrl-C cancels
    the task over there.

    Example: acc call http://127.0.0.1:8000 "Where is order A-17?"
    """
    reply.check(what.task)
    message = sys.stdin.read() if text == "-" else text
    parts = what.parts(message)
    if not parts and not reply.given:
        raise InvalidInput('say something: acc call URL "text", or - to read it from stdin')
    if parts and reply.given:
        raise InvalidInput("a task is answered by --approve or --deny without a text beside it")
    address = how.address(url)
    with asyncio.Runner() as loop:
        try:
            return _Call(address, how, loop, sys.stdout).run(parts, what, reply)
        except AddressRefused as error:
            raise AddressRefused(error.naming("--allow here"), detail=error.detail) from None
        except Unauthenticated as error:
            raise Unauthenticated(f"{error}; {about_token(how.token_env)}") from None


def about_token(variable: str) -> str:
    """Return what to do where a server wants to know who calls."""
    if variable:
        return f"it does not take the one in {variable}"
    return "put it into an environment variable, and name that with --token-env"


class _Call:
    """One message, with the questions that it leads to."""

    def __init__(
        self, address: RemoteEndpoint, how: HowOptions, loop: asyncio.Runner, out: TextIO
    ) -> None:
        self._address = address
        self._remote = make_remote(address)
        self._how = how
        self._loop = loop
        self._out = out
        self._console = console_on(out)
        self._notes = console_on(sys.stderr)
        self._asks = can_ask(out) and not how.json
        self._folder = None if how.out is None else ArtifactFolder(how.out)
        self._printed = ""

    def run(self, parts: tuple[Part, ...], what: WhatOptions, reply: ReplyOptions) -> int:
        known: Task | None = None
        task, context = what.task, what.context
        if reply.given:
            known = self._loop.run(self._remote.get(task))
            if known.state not in INTERRUPTED:
                raise InvalidInput(f"task {task} is {known.state} and waits for nothing")
            parts = answer_parts(reply.answers(asked_in(known)))
        while True:
            found = self._loop.run(self._send(parts, task=task, context=context, known=known))
            if not isinstance(found, Task) or found.state not in INTERRUPTED or not self._asks:
                return self._finish(found)
            answers = self._ask(asked_in(found), found)
            if not answers:
                return self._finish(found)
            parts, task, context, known = answer_parts(answers), found.id, "", found

    async def _send(
        self, parts: tuple[Part, ...], *, task: str, context: str, known: Task | None
    ) -> Task | Message:
        message = Message(
            message_id=new_id(),
            role=Role.USER,
            parts=parts,
            task_id=task,
            context_id=context,
        )
        return await self._remote.send(message, hear=self._hear, known=known)

    async def _hear(self, task: Task, update: StatusUpdate | ArtifactUpdate) -> None:
        if self._how.json:
            write_json(self._out, {"task": task.id, **msgspec.to_builtins(update)})
        elif isinstance(update, StatusUpdate):
            said = update.status.message
            if (
                update.status.state is TaskState.WORKING
                and said is not None
                and text_of(said.parts)
            ):
                self._end_line()
                self._notes.print(shown(f"  {text_of(said.parts)}", "dim"))
        elif update.artifact.artifact_id == "answer" and self._out.isatty():
            self._piece(text_of(update.artifact.parts), is_new=not update.append)

    def _piece(self, text: str, *, is_new: bool) -> None:
        if is_new:
            self._end_line()
        self._printed += text
        self._console.print(shown(text), end="")
        self._out.flush()

    def _end_line(self) -> None:
        if self._printed:
            self._console.print()
            self._printed = ""

    def _ask(self, asked: Sequence[Asked], task: Task) -> list[tuple[Asked, InputAnswer]]:
        """Return what the person at the terminal says to each; nothing if one is left for later."""
        self._end_line()
        answers: list[tuple[Asked, InputAnswer]] = []
        for number, one in enumerate(asked, start=1):
            request = _as_request(one, number, self._address.place)
            try:
                answer = answer_to(self._console, request)
            except (EOFError, KeyboardInterrupt):
                self._console.print()
                return []
            if answer is None:
                return []
            answers.append((one, answer))
        return answers

    def _finish(self, found: Task | Message) -> int:
        if isinstance(found, Message):
            text, state = parts_text(found.parts), TaskState.COMPLETED
            artifacts = beside_text(found)
        else:
            answer = answer_artifact(found)
            artifacts = beside_text(found, answer)
            is_done = found.state is TaskState.COMPLETED
            text = answer_text(found, answer) if is_done else status_text(found)
            state = found.state
        saved = [] if self._folder is None else self._folder.save(artifacts)
        if self._how.json:
            self._write_result(found, text, state, saved)
        else:
            self._show(found, text, state)
            for made in artifacts:
                self._notes.print(shown(f"  {described(made)}", "dim"))
            for path in saved:
                self._notes.print(shown(f"  saved {path}", "dim"))
        if state in INTERRUPTED:
            return WAITING
        return 0 if state is TaskState.COMPLETED else 1

    def _show(self, found: Task | Message, text: str, state: TaskState) -> None:
        is_said = bool(self._printed) and self._printed == text
        self._end_line()
        if state is TaskState.COMPLETED:
            if text and not is_said:
                self._console.print(shown(text))
        elif isinstance(found, Task) and state in INTERRUPTED:
            self._say_waiting(found)
        else:
            print_error(f"error: the remote task is {state}{f': {text}' if text else ''}")
        if self._out.isatty() and found.context_id:
            self._notes.print(shown(f"  to go on: --context {found.context_id}", "dim"))

    def _say_waiting(self, task: Task) -> None:
        print_error("the task waits for a person:")
        for one in asked_in(task):
            self._notes.print(shown(f"? {one.message}", "bold yellow"))
            if one.tool:
                arguments = msgspec.json.encode(one.arguments).decode()
                self._notes.print(shown(f"  {one.tool} {arguments}"))
        head = ["acc", "call", self._address.url, "--task", task.id]
        if self._address.token.startswith("env:"):
            head += ["--token-env", self._address.token.removeprefix("env:")]
        value = [] if task.state is TaskState.AUTH_REQUIRED else ["--value", "VALUE"]
        is_yes = all(one.kind is RequestKind.CONFIRMATION for one in asked_in(task))
        for line in (["--approve", *([] if is_yes else value)], ["--deny", "--reason", "WHY"]):
            self._notes.print(shown(f"  {shlex.join([*head, *line])}"))

    def _write_result(
        self, found: Task | Message, text: str, state: TaskState, saved: Sequence[Path]
    ) -> None:
        line: dict[str, Any] = {
            "type": "result",
            "state": state.value,
            "text": text,
            "context": found.context_id,
        }
        if isinstance(found, Task):
            line["task"] = found.id
            line["artifacts"] = msgspec.to_builtins(found.artifacts)
            line["metadata"] = dict(found.metadata)
            if state in INTERRUPTED:
                line["requests"] = [one.as_detail() for one in asked_in(found)]
        if parts := _parts_of_message(found):
            line["parts"] = msgspec.to_builtins(parts)
        if saved:
            line["saved"] = [str(path) for path in saved]
        write_json(self._out, line)


def _parts_of_message(found: Task | Message) -> tuple[Part, ...]:
    """Return what the message of an answer holds, if that is more than text."""
    if isinstance(found, Message):
        parts = found.parts
    else:
        said = found.status.message
        parts = said.parts if said is not None and found.state is TaskState.COMPLETED else ()
    return () if all(map(is_speech, parts)) else parts


def _as_request(asked: Asked, number: int, place: str) -> InputRequest:
    return InputRequest(
        id=asked.id or str(number),
        kind=asked.kind,
        agent=place,
        message=asked.message,
        tool=asked.tool,
        arguments=asked.arguments or {},
        schema=asked.schema or {},
    )


def _file_part(path: Path) -> Part:
    try:
        if path.stat().st_size > _MOST_FILE:
            raise InvalidInput(f"{path} is larger than {_MOST_FILE} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Part(raw=content, media_type=kind, filename=path.name)
