"""`acc run`: run one turn of an agent."""

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from typing import Annotated, TextIO

from cyclopts import Parameter

from acc.bootstrap.agents import load_agent
from acc.cli.approval import (
    find_request,
    is_interactive,
    parse_arguments,
    parse_value,
    prompt_answers,
)
from acc.cli.event_view import (
    EventPrinter,
    compact,
    make_console,
    show_memory,
    show_prompts,
    show_usage,
    write_json,
)
from acc.cli.output import print_error, read_stdin
from acc.cli.session_options import (
    EXIT_INPUT_REQUIRED,
    AgentReference,
    AgentSession,
    SessionOptions,
    TurnOutcome,
)
from acc.domain.errors import InvalidInput, SessionWaiting
from acc.domain.value_objects.approval import InputAnswer, InputRequest, approve, deny
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.run import RunStatus


@Parameter(name="*", group="Output", show_default=False)
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What `acc run` prints."""

    json: Annotated[
        bool,
        Parameter(
            help="Print one JSON line for each event and one for the result, without fields that "
            "have their default value.",
            negative=(),
        ),
    ] = False
    events: Annotated[
        bool,
        Parameter(
            help="Print all events with branch, tool calls, transfers and state changes.",
            negative=(),
        ),
    ] = False
    ccs: Annotated[
        bool,
        Parameter(help="Print the Compressed Cognitive State after the answer.", negative=()),
    ] = False
    memory: Annotated[
        bool,
        Parameter(
            help="Print the state and its trace: recalled, qualified and rejected evidence.",
            negative=(),
        ),
    ] = False
    show_prompts: Annotated[
        bool,
        Parameter(
            help="Record the exact request of each model call, without secrets, and print it with "
            "duration, tokens and cost.",
            negative=(),
        ),
    ] = False


@Parameter(name="*", group="Answer a run that waits for input", show_default=False)
@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """How to answer a run that waits for input."""

    approve: Annotated[
        tuple[str, ...],
        Parameter(help="Approve the request with this id.", negative=(), consume_multiple=False),
    ] = ()
    deny: Annotated[
        tuple[str, ...],
        Parameter(help="Deny the request with this id.", negative=(), consume_multiple=False),
    ] = ()
    edit: Annotated[str, Parameter(help="Approve the request with changed --arguments.")] = ""
    arguments: Annotated[
        str, Parameter(help="Arguments for --edit as JSON, such as '{\"amount\": 5}'.")
    ] = ""
    value: Annotated[
        str | None, Parameter(help="Value for --approve if the request asks for one.")
    ] = None
    reason: Annotated[str, Parameter(help="Reason for --deny.")] = ""
    resume: Annotated[
        bool, Parameter(help="Resume a run whose process was interrupted.", negative=())
    ] = False
    abandon: Annotated[
        bool, Parameter(help="Abandon the run that waits for input.", negative=())
    ] = False

    def __post_init__(self) -> None:
        """Raise InvalidInput if flags contradict each other."""
        if bool(self.edit) != bool(self.arguments):
            raise InvalidInput("--edit REQUEST_ID requires --arguments JSON, and vice versa")
        if self.value is not None and len(self.approve) != 1:
            raise InvalidInput("--value requires exactly one --approve REQUEST_ID")
        if self.reason and not self.deny:
            raise InvalidInput("--reason requires --deny REQUEST_ID")
        if self.has_answer and self.abandon:
            raise InvalidInput("--abandon cannot be combined with an answer")

    @property
    def has_answer(self) -> bool:
        """Return True if the flags answer or resume a run."""
        return bool(self.approve or self.deny or self.edit or self.resume)

    def answers(self, requests: Sequence[InputRequest]) -> list[InputAnswer]:
        """Return the answers to the pending requests that the flags name."""
        answers: list[InputAnswer] = []
        for request_id in self.approve:
            request = find_request(requests, request_id)
            value = None if self.value is None else parse_value(request, self.value)
            answers.append(approve(request.id, value=value))
        for request_id in self.deny:
            answers.append(deny(find_request(requests, request_id).id, self.reason))
        if self.edit:
            request = find_request(requests, self.edit)
            answers.append(approve(request.id, arguments=parse_arguments(self.arguments)))
        return answers


@Parameter(name="*", group="Debug", show_default=False)
@dataclass(frozen=True, kw_only=True)
class DebugOptions:
    """What is replaced by stubs."""

    debug: Annotated[
        bool,
        Parameter(
            help="Call neither tools nor the agents that work is delegated to; marked stubs "
            "answer in their place.",
            negative=(),
        ),
    ] = False
    stub: Annotated[
        tuple[str, ...],
        Parameter(
            help="NAME=VALUE: the result of a tool, as text or JSON, or the answer of an agent.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()

    def stubs(self) -> dict[str, str]:
        """Return the stubs by name, or raise InvalidInput."""
        pairs = [text.partition("=") for text in self.stub]
        for text, (name, equals, value) in zip(self.stub, pairs, strict=True):
            if not name or not equals:
                raise InvalidInput(f"--stub must be NAME=VALUE, got {text!r}")
            if value.lstrip()[:1] in ("{", "[") and not _is_json(value):
                raise InvalidInput(
                    f"--stub {name}: the value begins like JSON but is not valid JSON: {value!r}; "
                    "quote it for the shell, as in --stub 'NAME={\"key\": 1}'"
                )
        names = [name for name, _, _ in pairs]
        if repeated := next((name for name in names if names.count(name) > 1), ""):
            raise InvalidInput(f"--stub {repeated} is given {names.count(repeated)} times; use one")
        return {name: value for name, _, value in pairs}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


#: The message may begin with a hyphen, so that - is possible; text like this is a mistyped option.
_OPTION = re.compile(r"--?[A-Za-z][\w-]*(=.*)?")
_SESSION = SessionOptions()
_OUTPUT = OutputOptions()
_ANSWER = AnswerOptions()
_DEBUG = DebugOptions()


def run(
    agent: AgentReference,
    text: Annotated[
        str | None,
        Parameter(help="The message; - reads it from stdin.", allow_leading_hyphen=True),
    ] = None,
    /,
    *,
    session: SessionOptions = _SESSION,
    output: OutputOptions = _OUTPUT,
    answer: AnswerOptions = _ANSWER,
    debugging: DebugOptions = _DEBUG,
) -> int:
    """Run one turn of an agent and print its answer.

    A run that needs approval or input asks at the terminal. Without a terminal, the command exits
    with status 3 and prints the commands that answer; with --store they work in any process.

    Example: acc run shop.agents:root "Where is order A-17?" --store shop.db --session s1
    """
    message = _read_message(text, answer)
    stdout = sys.stdout
    # Text that the agent's module prints is not output of the command.
    with asyncio.Runner() as loop, redirect_stdout(sys.stderr):
        agent_session = AgentSession(
            load_agent(agent),
            agent,
            session,
            loop,
            record_prompts=output.show_prompts,
            debug=debugging.debug,
            stubs=debugging.stubs(),
        )
        try:
            return _RunCommand(agent_session, output, stdout).run(message, answer)
        finally:
            agent_session.close()


def _read_message(text: str | None, answer: AnswerOptions) -> str | None:
    if text is None:
        if answer.has_answer or answer.abandon:
            return None
        raise InvalidInput(
            'no message: use acc run MODULE:AGENT "text", or - to read it from stdin'
        )
    if _OPTION.fullmatch(text):
        raise InvalidInput(f"unknown option {text}; see acc run --help")
    if answer.has_answer:
        raise InvalidInput("an answer cannot be combined with a message; send the message later")
    return read_stdin() if text == "-" else text


class _RunCommand:
    """One turn, including the prompts for input that it leads to."""

    def __init__(self, session: AgentSession, output: OutputOptions, stdout: TextIO) -> None:
        self._session = session
        self._output = output
        self._stdout = stdout
        self._console = make_console(stdout)
        self._interactive = is_interactive(stdout) and not output.json
        self._events: list[Event] = []
        self._printer = EventPrinter(
            self._console,
            stream=session.options.should_stream(stdout),
            events=output.events,
            answer_only=not stdout.isatty(),
        )

    def run(self, message: str | None, answer: AnswerOptions) -> int:
        try:
            return self._run(message, answer)
        except KeyboardInterrupt:
            self._printer.reset()
            if self._output.json:
                turn = TurnOutcome(status=RunStatus.CANCELED, events=tuple(self._events))
                self._session.write_result(self._stdout, turn, ())
            print_error("canceled")
            return 130

    def _run(self, message: str | None, answer: AnswerOptions) -> int:
        session = self._session
        if answer.abandon:
            session.abandon()
            print_error("abandoned; the session continues with the next message")
            if message is None:
                return 0
        answers = answer.answers(session.pending()) if answer.has_answer else []
        try:
            turn = session.run_turn(self, message=message, answers=answers)
        except SessionWaiting as error:
            print_error(f"error: session {session.options.session!r} waits for input")
            if self._output.json:
                turn = TurnOutcome(status=RunStatus.INPUT_REQUIRED, error=error)
                session.write_result(self._stdout, turn, session.pending())
            else:
                session.show_pending(session.pending(), self._stdout)
            return EXIT_INPUT_REQUIRED
        while turn.status is RunStatus.INPUT_REQUIRED and self._interactive:
            answers = prompt_answers(self._console, session.pending())
            if not answers:
                break
            earlier = turn.events
            try:
                turn = session.run_turn(self, answers=answers)
            except InvalidInput as error:
                print_error(f"error: {error}")
                continue
            turn = replace(turn, events=(*earlier, *turn.events))
        return self._finish(turn)

    def show(self, event: Event) -> None:
        self._events.append(event)
        if not self._output.json:
            self._printer.show(event)
        elif not event.partial or self._session.options.stream:
            write_json(self._stdout, {"type": "event", **compact(event)})

    def _finish(self, turn: TurnOutcome) -> int:
        session, output = self._session, self._output
        is_paused = turn.status is RunStatus.INPUT_REQUIRED
        requests = session.pending() if is_paused else ()
        if output.json:
            session.write_result(self._stdout, turn, requests)
        else:
            if output.ccs or output.memory:
                show_memory(self._console, turn.events, trace=output.memory)
            if output.show_prompts:
                show_prompts(self._console, turn.events)
            if output.events or output.memory:
                last = turn.last_status_event
                show_usage(self._console, last.usage if last else None)
            if is_paused:
                session.show_pending(requests, self._stdout)
        if turn.error is not None:
            print_error(f"error: {turn.error}")
        if is_paused:
            return EXIT_INPUT_REQUIRED
        return 0 if turn.status is RunStatus.COMPLETED else 1
