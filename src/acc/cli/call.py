"""`acc call`: send a message to an A2A agent and print its answer."""

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
    RemoteInputRequest,
    answer_artifact,
    answer_text,
    attachments,
    format_answers,
    input_requests,
    is_plain_text,
    message_text,
    status_text,
)
from acc.bootstrap.a2a_client import make_allow_list, make_remote, new_id
from acc.bootstrap.contracts import call_remote
from acc.cli.approval import answer_to, arguments_of, can_ask
from acc.cli.event_view import make_console, safe_text, write_json
from acc.cli.options import NO_TLS, TlsOptions, with_tls_advice
from acc.cli.output import print_error, print_json, read_stdin
from acc.cli.session_options import WAITING
from acc.domain.errors import (
    AddressRefused,
    InvalidInput,
    RemoteFailed,
    StorageFailed,
    Unauthenticated,
)
from acc.domain.value_objects.approval import InputAnswer, InputRequest, RequestKind, approve, deny
from acc.domain.value_objects.content import Part, text_of, text_part
from acc.domain.value_objects.endpoint import RemoteEndpoint, add_scheme, loopback_allow_entries
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

_MAX_FILE_BYTES = 8 * 1024 * 1024
_MAX_NAME_LENGTH = 100
#: Letters of any script, digits, and little else: file names come from the remote server.
_UNSAFE_NAME_CHARACTERS = re.compile(r"[^\w.\-]+")
Url = Annotated[str, Parameter(help="URL of the agent, or of its card; the scheme may be omitted.")]
Allow = Annotated[
    tuple[str, ...],
    Parameter(
        help="A host, address or network that may be called although it is not public. A loopback "
        "URL needs no entry.",
        negative=(),
        consume_multiple=False,
    ),
]
TokenEnv = Annotated[str, Parameter(help="Environment variable with the bearer token.")]


def check_allow(entries: Sequence[str]) -> None:
    """Raise InvalidInput for an invalid entry of --allow."""
    if not entries:
        return  # the HTTP library may not be installed
    try:
        make_allow_list(entries)
    except InvalidInput as error:
        raise InvalidInput(f"--allow: {error}") from None


@Parameter(name="*", group="Message", show_default=False)
@dataclass(frozen=True, kw_only=True)
class MessageOptions:
    """Content and target of the message."""

    data: Annotated[str, Parameter(help="Additional data as JSON.")] = ""
    file: Annotated[
        tuple[Path, ...],
        Parameter(help="A file to send.", negative=(), consume_multiple=False),
    ] = ()
    intent: Annotated[str, Parameter(help="Intent to call; needs no message.")] = ""
    input: Annotated[
        tuple[str, ...],
        Parameter(
            help="With --intent: an input as NAME=VALUE.", negative=(), consume_multiple=False
        ),
    ] = ()
    context: Annotated[str, Parameter(help="Id of the context to continue.")] = ""
    task: Annotated[str, Parameter(help="Id of the task to continue.")] = ""

    def check_intent(self, text: str | None) -> None:
        """Raise InvalidInput for options that cannot be combined with an intent."""
        if self.input and not self.intent:
            raise InvalidInput("--input requires --intent NAME")
        if self.intent and (text or self.file or self.context or self.task):
            raise InvalidInput("--intent can be combined with --input and --data only")

    def parts(self, text: str | None) -> tuple[Part, ...]:
        """Return the parts of the message, or raise InvalidInput."""
        parts = list(text_part(text)) if text else []
        if self.data:
            try:
                data = msgspec.json.decode(self.data)
            except msgspec.DecodeError as error:
                raise InvalidInput(f"--data must be JSON: {error}") from None
            parts.append(Part(data=data, is_null=data is None, media_type="application/json"))
        parts += map(_file_part, self.file)
        return tuple(parts)


@Parameter(name="*", group="Answer to a waiting task", show_default=False)
@dataclass(frozen=True, kw_only=True)
class ReplyOptions:
    """Answer to a task that needs input."""

    approve: Annotated[bool, Parameter(help="Approve all requests of --task.", negative=())] = False
    deny: Annotated[bool, Parameter(help="Deny all requests of --task.", negative=())] = False
    arguments: Annotated[
        str, Parameter(help="With --approve: changed arguments as JSON, such as '{\"amount\": 5}'.")
    ] = ""
    value: Annotated[str | None, Parameter(help="With --approve: the requested value.")] = None
    reason: Annotated[str, Parameter(help="With --deny: the reason.")] = ""

    @property
    def is_present(self) -> bool:
        """Return True if the options contain an answer."""
        return self.approve or self.deny

    def check(self, task: str) -> None:
        """Raise InvalidInput for a combination of options that is not supported."""
        if self.approve and self.deny:
            raise InvalidInput("--approve and --deny cannot be combined")
        if self.is_present and not task:
            raise InvalidInput("--approve and --deny require --task ID")
        if (self.arguments or self.value is not None) and not self.approve:
            raise InvalidInput("--arguments and --value require --approve")
        if self.reason and not self.deny:
            raise InvalidInput("--reason requires --deny")

    def answers(
        self, requests: Sequence[RemoteInputRequest]
    ) -> list[tuple[RemoteInputRequest, InputAnswer]]:
        """Return the answers to the requests of a task."""
        if self.deny:
            return [(one, deny(one.id, self.reason)) for one in requests]
        changed = arguments_of(self.arguments) if self.arguments else None
        value: Any = self.value
        if value is not None and any(one.schema for one in requests):
            try:
                value = msgspec.json.decode(value)
            except msgspec.DecodeError:
                value = self.value
        confirmations = [one for one in requests if one.kind is RequestKind.CONFIRMATION]
        without = confirmations if len(confirmations) < len(requests) else []
        return [
            (one, approve(one.id, arguments=changed, value=None if one in without else value))
            for one in requests
        ]


@Parameter(name="*", group="Call", show_default=False)
@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """Options of the call."""

    token_env: TokenEnv = ""
    stream: Annotated[
        bool, Parameter(help="Print the answer while it is streamed.", negative="no-stream")
    ] = True
    timeout: Annotated[
        float,
        Parameter(
            help="Seconds to wait for the result; then the remote task is canceled. [default: 600]",
            show_default=False,
        ),
    ] = 600.0
    allow: Allow = ()
    json: Annotated[
        bool,
        Parameter(help="Print updates and result as JSON lines.", negative=()),
    ] = False
    out: Annotated[
        Path | None, Parameter(help="Folder for artifacts; existing files are never replaced.")
    ] = None

    def endpoint(self, url: str, tls: TlsOptions) -> RemoteEndpoint:
        """Return the endpoint of a URL with these options."""
        url = add_scheme(url)
        return RemoteEndpoint(
            url=url,
            token=f"env:{self.token_env}" if self.token_env else "",
            allow=(*self.allow, *loopback_allow_entries(url)),
            timeout=self.timeout,
            streaming=None if self.stream else False,
            tls=tls.to_client_tls(),
        )


_MESSAGE = MessageOptions()
_REPLY = ReplyOptions()
_CALL = CallOptions()


def call(
    url: Url,
    text: Annotated[
        str | None,
        Parameter(help="The message; - reads it from stdin.", allow_leading_hyphen=True),
    ] = None,
    /,
    *,
    message: MessageOptions = _MESSAGE,
    reply: ReplyOptions = _REPLY,
    options: CallOptions = _CALL,
    tls: TlsOptions = NO_TLS,
) -> int:
    """Send a message to an A2A agent and print its answer.

    Protocol version and binding are chosen from the card. If the task needs input, the command asks
    on a terminal; otherwise it exits with status 3 and prints the commands to answer. Ctrl-C
    cancels the remote task.

    With --intent, the inputs are validated with the contract on the card before they are sent, and
    the outputs are printed as JSON.

    Example: acc call http://127.0.0.1:8000 "Where is order A-17?"

    Example: acc call http://127.0.0.1:8000 --intent summarize_text --input text=Hello
    """
    reply.check(message.task)
    message.check_intent(text)
    parts = message.parts(read_stdin() if text == "-" else text)
    if not parts and not reply.is_present and not message.intent:
        raise InvalidInput('the message is empty; use acc call URL "text", or - to read stdin')
    if parts and reply.is_present:
        raise InvalidInput("--approve and --deny cannot be combined with a message")
    endpoint = options.endpoint(url, tls)
    with asyncio.Runner() as loop:
        try:
            if message.intent:
                return _call_intent(endpoint, message, parts, loop)
            return _Call(endpoint, options, loop, sys.stdout).run(parts, message, reply)
        except AddressRefused as error:
            raise AddressRefused(error.naming("--allow here"), detail=error.detail) from None
        except Unauthenticated as error:
            raise Unauthenticated(f"{error}; {token_advice(options.token_env, tls)}") from None
        except RemoteFailed as error:
            raise with_tls_advice(error) from None


def _call_intent(
    endpoint: RemoteEndpoint, message: MessageOptions, parts: Sequence[Part], loop: asyncio.Runner
) -> int:
    """Call an intent and print its outputs as JSON."""
    data = parts[0].data if parts else {}
    if not isinstance(data, dict):
        raise InvalidInput("--data must be a JSON object if it is combined with --intent")
    outputs = loop.run(call_remote(endpoint, message.intent, message.input, data))
    print_json(msgspec.json.format(msgspec.json.encode(outputs), indent=2))
    return 0


def token_advice(variable: str, tls: TlsOptions) -> str:
    """Return how to fix rejected or missing credentials."""
    if variable:
        return f"the token in {variable} is not accepted"
    if tls.tls_cert is not None:
        return f"the certificate {tls.tls_cert} is not accepted"
    return (
        "put the token into an environment variable and pass its name with --token-env, or pass a "
        "client certificate with --tls-cert"
    )


class _Call:
    """One message and the requests for input that follow it."""

    def __init__(
        self, endpoint: RemoteEndpoint, options: CallOptions, loop: asyncio.Runner, out: TextIO
    ) -> None:
        self._endpoint = endpoint
        self._remote = make_remote(endpoint)
        self._options = options
        self._loop = loop
        self._out = out
        self._console = make_console(out)
        self._notes = make_console(sys.stderr)
        self._is_interactive = can_ask(out) and not options.json
        self._folder = None if options.out is None else ArtifactFolder(options.out)
        self._printed = ""

    def run(self, parts: tuple[Part, ...], options: MessageOptions, reply: ReplyOptions) -> int:
        known: Task | None = None
        task, context = options.task, options.context
        if reply.is_present:
            known = self._loop.run(self._remote.get(task))
            if known.state not in INTERRUPTED:
                raise InvalidInput(f"task {task} is {known.state} and does not need input")
            parts = format_answers(reply.answers(input_requests(known)))
        while True:
            result = self._loop.run(self._send(parts, task=task, context=context, known=known))
            is_waiting = isinstance(result, Task) and result.state in INTERRUPTED
            if not is_waiting or not self._is_interactive:
                return self._finish(result)
            assert isinstance(result, Task)  # noqa: S101 - implied by is_waiting
            answers = self._ask(input_requests(result))
            if not answers:
                return self._finish(result)
            parts, task, context, known = format_answers(answers), result.id, "", result

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
        return await self._remote.send(message, on_update=self._on_update, known=known)

    async def _on_update(self, task: Task, update: StatusUpdate | ArtifactUpdate) -> None:
        if self._options.json:
            write_json(self._out, {"task": task.id, **msgspec.to_builtins(update)})
        elif isinstance(update, StatusUpdate):
            message = update.status.message
            text = "" if message is None else text_of(message.parts)
            if update.status.state is TaskState.WORKING and text:
                self._end_line()
                self._notes.print(safe_text(f"  {text}", "dim"))
        elif update.artifact.artifact_id == "answer" and self._out.isatty():
            self._print_chunk(text_of(update.artifact.parts), is_new=not update.append)

    def _print_chunk(self, text: str, *, is_new: bool) -> None:
        if is_new:
            self._end_line()
        self._printed += text
        self._console.print(safe_text(text), end="")
        self._out.flush()

    def _end_line(self) -> None:
        if self._printed:
            self._console.print()
            self._printed = ""

    def _ask(
        self, requests: Sequence[RemoteInputRequest]
    ) -> list[tuple[RemoteInputRequest, InputAnswer]]:
        """Return the answers from the terminal, or nothing if one request is not answered."""
        self._end_line()
        answers: list[tuple[RemoteInputRequest, InputAnswer]] = []
        for number, one in enumerate(requests, start=1):
            request = _to_input_request(one, number, self._endpoint.origin)
            try:
                answer = answer_to(self._console, request)
            except (EOFError, KeyboardInterrupt):
                self._console.print()
                return []
            if answer is None:
                return []
            answers.append((one, answer))
        return answers

    def _finish(self, result: Task | Message) -> int:
        if isinstance(result, Message):
            text, state = message_text(result.parts), TaskState.COMPLETED
            artifacts = attachments(result)
        else:
            answer, state = answer_artifact(result), result.state
            artifacts = attachments(result, answer)
            is_completed = state is TaskState.COMPLETED
            text = answer_text(result, answer) if is_completed else status_text(result)
        saved = [] if self._folder is None else self._folder.save(artifacts)
        if self._options.json:
            self._write_result(result, text, state, saved)
        else:
            self._print_result(result, text, state)
            for artifact in artifacts:
                self._notes.print(safe_text(f"  {describe_artifact(artifact)}", "dim"))
            for path in saved:
                self._notes.print(safe_text(f"  saved {path}", "dim"))
        if state in INTERRUPTED:
            return WAITING
        return 0 if state is TaskState.COMPLETED else 1

    def _print_result(self, result: Task | Message, text: str, state: TaskState) -> None:
        is_printed = bool(self._printed) and self._printed == text
        self._end_line()
        if state is TaskState.COMPLETED:
            if text and not is_printed:
                self._console.print(safe_text(text))
        elif isinstance(result, Task) and state in INTERRUPTED:
            self._print_requests(result)
        else:
            print_error(f"error: the remote task is {state}{f': {text}' if text else ''}")
        if self._out.isatty() and result.context_id:
            self._notes.print(safe_text(f"  to continue: --context {result.context_id}", "dim"))

    def _print_requests(self, task: Task) -> None:
        print_error("the task needs input:")
        for one in input_requests(task):
            self._notes.print(safe_text(f"? {one.message}", "bold yellow"))
            if one.tool:
                arguments = msgspec.json.encode(one.arguments).decode()
                self._notes.print(safe_text(f"  {one.tool} {arguments}"))
        head = ["acc", "call", self._endpoint.url, "--task", task.id]
        if self._endpoint.token.startswith("env:"):
            head += ["--token-env", self._endpoint.token.removeprefix("env:")]
        value = [] if task.state is TaskState.AUTH_REQUIRED else ["--value", "VALUE"]
        needs_no_value = all(one.kind is RequestKind.CONFIRMATION for one in input_requests(task))
        for line in (
            ["--approve", *([] if needs_no_value else value)],
            ["--deny", "--reason", "WHY"],
        ):
            self._notes.print(safe_text(f"  {shlex.join([*head, *line])}"))

    def _write_result(
        self, result: Task | Message, text: str, state: TaskState, saved: Sequence[Path]
    ) -> None:
        line: dict[str, Any] = {
            "type": "result",
            "state": state.value,
            "text": text,
            "context": result.context_id,
        }
        if isinstance(result, Task):
            line["task"] = result.id
            line["artifacts"] = msgspec.to_builtins(result.artifacts)
            line["metadata"] = dict(result.metadata)
            if state in INTERRUPTED:
                line["requests"] = [one.to_record() for one in input_requests(result)]
        if parts := _message_parts(result):
            line["parts"] = msgspec.to_builtins(parts)
        if saved:
            line["saved"] = [str(path) for path in saved]
        write_json(self._out, line)


def _message_parts(result: Task | Message) -> tuple[Part, ...]:
    """Return the parts of the answer message if it contains more than text."""
    if isinstance(result, Message):
        parts = result.parts
    else:
        message = result.status.message
        is_completed = result.state is TaskState.COMPLETED
        parts = message.parts if message is not None and is_completed else ()
    return () if all(map(is_plain_text, parts)) else parts


def _to_input_request(request: RemoteInputRequest, number: int, origin: str) -> InputRequest:
    return InputRequest(
        id=request.id or str(number),
        kind=request.kind,
        agent=origin,
        message=request.message,
        tool=request.tool,
        arguments=request.arguments or {},
        schema=request.schema or {},
    )


def _file_part(path: Path) -> Part:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise InvalidInput(f"{path} is larger than {_MAX_FILE_BYTES} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Part(raw=content, media_type=media_type, filename=path.name)


class ArtifactFolder:
    """Folder for received artifacts; existing files are never replaced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, artifacts: Iterable[TaskArtifact]) -> list[Path]:
        """Write the content of artifacts and return the files."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return [
                self._write(name, content)
                for artifact in artifacts
                for name, content in _contents(artifact)
            ]
        except OSError as error:
            raise StorageFailed(f"cannot write to {self._folder}: {error.strerror}") from error

    def _write(self, name: str, content: bytes) -> Path:
        stem, dot, suffix = name.rpartition(".")
        stem, suffix = (stem, f".{suffix}") if dot and stem else (name, "")
        number = 1
        while True:
            path = self._folder / (name if number == 1 else f"{stem}-{number}{suffix}")
            try:
                with path.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                number += 1
                continue
            return path


def _contents(artifact: TaskArtifact) -> Iterator[tuple[str, bytes]]:
    base = artifact.name or artifact.artifact_id
    for part in artifact.parts:
        if part.raw is not None:
            yield _file_name(part.filename or base, part.media_type), part.raw
        elif part.text is not None:
            yield (
                _file_name(part.filename or base, part.media_type or "text/plain"),
                part.text.encode(),
            )
        elif part.url is None:
            content = msgspec.json.format(msgspec.json.encode(part.data), indent=2)
            yield _file_name(part.filename or base, "application/json"), content


def _file_name(name: str, media_type: str) -> str:
    """Return a file name without path components and special characters."""
    last = re.split(r"[/\\]", name)[-1]
    plain = _UNSAFE_NAME_CHARACTERS.sub("_", last).strip("._")[:_MAX_NAME_LENGTH] or "artifact"
    if "." in plain:
        return plain
    return plain + (mimetypes.guess_extension(media_type.partition(";")[0].strip()) or "")


def describe_artifact(artifact: TaskArtifact) -> str:
    """Return a one-line description of an artifact."""
    name = artifact.name or artifact.artifact_id
    parts = [
        f"{part.filename}, {_describe_part(part)}"
        if part.filename not in ("", name)
        else _describe_part(part)
        for part in artifact.parts
    ]
    return f"artifact {name}: {'; '.join(parts) or 'empty'}"


def _describe_part(part: Part) -> str:
    if part.raw is not None:
        return f"{part.media_type or 'file'}, {len(part.raw):,} bytes"
    if part.url is not None:
        return part.url
    if part.text is not None:
        return f"{part.media_type or 'text'}, {len(part.text):,} characters"
    return "data"
