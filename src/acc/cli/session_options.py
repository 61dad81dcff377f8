"""The session options of `acc run` and `acc chat`, and one turn of a session."""

import asyncio
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TextIO

from cyclopts import Parameter

from acc.application.agents.base import BaseAgent
from acc.bootstrap.agents import Runner, check_models, log_runs
from acc.bootstrap.storage import describe_store
from acc.bootstrap.tracing import start_tracing
from acc.cli.approval import answer_commands
from acc.cli.event_view import compact, make_console, safe_text, show_request, write_json
from acc.cli.options import OtelOption, VerboseOption
from acc.cli.output import print_error
from acc.domain.errors import AccError
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunConfig, RunStatus
from acc.domain.value_objects.session import DEFAULT_SESSION_ID, DEFAULT_USER_ID

#: The exit status of a run that waits for input.
EXIT_INPUT_REQUIRED = 3
AgentReference = Annotated[
    str, Parameter(help="MODULE:AGENT, for example shop.agents:root, or FILE.py:AGENT.")
]
_IN_MEMORY = ("memory", ":memory:")


@Parameter(name="*", group="Session and limits")
@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """Session and limits of a run."""

    session: Annotated[str, Parameter(help="Session id.")] = DEFAULT_SESSION_ID
    user: Annotated[str, Parameter(help="User id.")] = DEFAULT_USER_ID
    app: Annotated[str, Parameter(help="Application name in the store.")] = "app"
    store: Annotated[
        str,
        Parameter(
            help="Where sessions are stored: the path of a SQLite file, "
            'postgresql://USER@HOST/DATABASE, or "memory" until the command ends.'
        ),
    ] = "memory"
    timeout: Annotated[float | None, Parameter(help="Maximum duration of a turn in seconds.")] = (
        None
    )
    max_llm_calls: Annotated[
        int, Parameter(help="Maximum number of model calls in a turn, all agents together.")
    ] = 100
    max_prompt_tokens: Annotated[
        int,
        Parameter(
            help="Maximum size of a model request in tokens; older tool results and turns are "
            "shortened or left out."
        ),
    ] = 64_000
    stream: Annotated[
        bool | None,
        Parameter(
            help="Print text while it is generated. [default: only on a terminal]",
            show_default=False,
        ),
    ] = None
    verbose: VerboseOption = False
    otel: OtelOption = False

    @property
    def is_stored(self) -> bool:
        """Return True if the session outlives the command."""
        return self.store not in _IN_MEMORY

    def run_config(
        self,
        *,
        record_prompts: bool = False,
        debug: bool = False,
        stubs: Mapping[str, str] | None = None,
    ) -> RunConfig:
        """Return the limits of a run."""
        return RunConfig(
            timeout=self.timeout,
            max_llm_calls=self.max_llm_calls,
            max_prompt_tokens=self.max_prompt_tokens,
            record_prompts=record_prompts,
            debug=debug,
            stubs=stubs or {},
        )

    def should_stream(self, output: TextIO) -> bool:
        """Return True if text is printed while it is generated."""
        return output.isatty() if self.stream is None else self.stream

    def flags(self) -> list[str]:
        """Return the flags that select the same session in another command."""
        flags = ["--session", self.session]
        if self.user != "local":
            flags += ["--user", self.user]
        if self.app != "app":
            flags += ["--app", self.app]
        return [*flags, "--store", describe_store(self.store)] if self.is_stored else flags


class EventView(Protocol):
    """Shows events of a turn as they happen."""

    def show(self, event: Event) -> None:
        """Show one event."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutcome:
    """Events and result of a turn."""

    status: RunStatus
    text: str = ""
    events: tuple[Event, ...] = ()
    error: AccError | None = None

    @property
    def last_status_event(self) -> Event | None:
        """Return the event that ended or paused the run."""
        return next((event for event in reversed(self.events) if event.status is not None), None)

    @property
    def run_id(self) -> str:
        """Return the id of the run, or an empty string if there was no event."""
        return self.events[-1].run_id if self.events else ""


class AgentSession:
    """One session with an agent; all turns run on one event loop."""

    def __init__(
        self,
        agent: BaseAgent,
        reference: str,
        options: SessionOptions,
        loop: asyncio.Runner,
        *,
        record_prompts: bool = False,
        debug: bool = False,
        stubs: Mapping[str, str] | None = None,
    ) -> None:
        self.agent = agent
        self.options = options
        self._reference = reference
        self._loop = loop
        self._ids: dict[str, Any] = {"user_id": options.user, "session_id": options.session}
        self._tracing = start_tracing(requested=options.otel, service_name=agent.name)
        self._runner = Runner(
            agent,
            app_name=options.app,
            store=options.store,
            config=options.run_config(
                record_prompts=record_prompts, debug=debug, stubs=stubs or {}
            ),
        )
        if options.verbose:
            log_runs(sys.stderr)

    def run_turn(
        self,
        view: EventView,
        *,
        message: str | None = None,
        answers: Sequence[InputAnswer] = (),
    ) -> TurnOutcome:
        """Run a turn with a message, or resume a paused run with answers.

        An error before the first event is raised; a later one is part of the outcome.
        """
        check_models(self.agent, accept_cached=True)
        turn = self._loop.run(self._run_turn(view, message, answers))
        for agent, reason in _memory_fallbacks(turn.events).items():
            text = (
                f"{agent}: the embedded reader was used, because the model that reads for the "
                f"memory failed: {reason}"
            )
            print_error(safe_text(text).plain)
        return turn

    async def _run_turn(
        self, view: EventView, message: str | None, answers: Sequence[InputAnswer]
    ) -> TurnOutcome:
        shown: list[Event] = []
        failure: AccError | None = None
        try:
            stream = self._runner.stream(**self._ids, message=message, answers=answers)
            async with aclosing(stream) as events:
                async for event in events:
                    shown.append(event)
                    view.show(event)
        except AccError as error:
            if not shown:
                raise
            failure = error
        end = next((event for event in reversed(shown) if event.status is not None), None)
        if end is None or end.status is None:
            return TurnOutcome(status=RunStatus.FAILED, events=tuple(shown), error=failure)
        return TurnOutcome(status=end.status, text=end.text, events=tuple(shown), error=failure)

    def pending(self) -> tuple[InputRequest, ...]:
        """Return the pending requests of the session."""
        return self._loop.run(self._runner.pending(**self._ids))

    def abandon(self) -> None:
        """Abandon the paused run."""
        self._loop.run(self._runner.abandon(**self._ids))

    def state(self) -> dict[str, Any]:
        """Return the state of the session."""
        return dict(self._loop.run(self._runner.state(**self._ids)))

    def events(self) -> tuple[Event, ...]:
        """Return the stored events of the session."""
        return self._loop.run(self._runner.events(**self._ids))

    def close(self) -> None:
        """Close the store and all connections."""
        try:
            self._loop.run(self._runner.aclose())
        finally:
            self._tracing.shutdown()

    def show_pending(self, requests: Sequence[InputRequest], stream: TextIO) -> None:
        """Print pending requests and the commands that answer them."""
        console = make_console(stream)
        for request in requests:
            show_request(console, request)
            if self.options.is_stored:
                for line in answer_commands(request, self._command()):
                    console.print(safe_text(f"  {line}"))
        if not requests:
            command = shlex.join(self._command())
            console.print(safe_text("a run was interrupted after its answer; resume or abandon:"))
            console.print(safe_text(f"  {command} --resume"))
            console.print(safe_text(f"  {command} --abandon"))
        if not self.options.is_stored:
            print_error(
                "the run waits for input, but its session ends with this command: repeat it with "
                "--store FILE to answer later"
            )

    def write_result(
        self, stream: TextIO, turn: TurnOutcome, requests: Sequence[InputRequest]
    ) -> None:
        """Write the last JSON line of a run."""
        last = turn.last_status_event
        line: dict[str, Any] = {
            "type": "result",
            "status": turn.status.value,
            "text": turn.text if turn.error is None else "",
            "run_id": turn.run_id,
            "session_id": self.options.session,
            "user_id": self.options.user,
            "usage": compact(last.usage) if last else {},
            "state": self.state(),
            "requests": [
                {**compact(request), "commands": answer_commands(request, self._command())}
                for request in requests
            ],
        }
        if turn.error is not None:
            line["error"] = {"code": turn.error.code, "message": str(turn.error)}
        write_json(stream, line)

    def _command(self) -> list[str]:
        return ["acc", "run", self._reference, *self.options.flags()]


def _memory_fallbacks(events: Sequence[Event]) -> dict[str, str]:
    """Return by agent why the embedded reader replaced the model that reads for its memory."""
    reasons: dict[str, str] = {}
    for event in events:
        compressor = event.detail.get("compressor") if event.kind is EventKind.MEMORY else None
        if isinstance(compressor, Mapping) and compressor.get("fallback"):
            reasons[event.author] = str(compressor["fallback"])
    return reasons


WAITING = EXIT_INPUT_REQUIRED
