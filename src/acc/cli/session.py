"""The flags of a conversation, and one turn of it from question to answer."""

import asyncio
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

from cyclopts import Parameter

from acc.adapters.system.logs import log_runs_to
from acc.application.agents.base import BaseAgent
from acc.bootstrap.agents import Runner, check_models
from acc.cli.approval import commands
from acc.cli.event_view import compact, console_on, show_request, shown, write_json
from acc.cli.output import print_error
from acc.domain.errors import AccError
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunConfig, RunStatus

AgentName = Annotated[
    str, Parameter(help="MODULE:AGENT, as in shop.agents:root, or FILE.py:AGENT.")
]
#: The exit status of a run that waits for a person.
WAITING = 3


@Parameter(name="*", group="Which conversation, within which limits")
@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """Which conversation, and within which limits."""

    session: Annotated[str, Parameter(help="The conversation's id.")] = "default"
    user: Annotated[str, Parameter(help="The user's id.")] = "local"
    app: Annotated[str, Parameter(help="The application's name in the store.")] = "app"
    store: Annotated[
        Path | None,
        Parameter(
            help="A SQLite file that keeps sessions. [default: memory, gone when the command ends]"
        ),
    ] = None
    timeout: Annotated[float | None, Parameter(help="Seconds that a turn may take.")] = None
    max_llm_calls: Annotated[
        int, Parameter(help="Model calls that a turn may make, all agents together.")
    ] = 100
    stream: Annotated[
        bool | None,
        Parameter(help="Show text as it is written. [default: on a terminal]"),
    ] = None
    verbose: Annotated[
        bool,
        Parameter(
            name=("--verbose", "-v"),
            help="Log what runs to stderr: JSON lines with trace_id, never what was said.",
            negative=(),
            show_default=False,
        ),
    ] = False

    def config(self) -> RunConfig:
        """Return the limits of a run."""
        return RunConfig(timeout=self.timeout, max_llm_calls=self.max_llm_calls)

    def streams(self, stream: TextIO) -> bool:
        """Tell whether text is shown while it is written."""
        return stream.isatty() if self.stream is None else self.stream

    def flags(self) -> list[str]:
        """Return the flags that name the same session again."""
        found = ["--session", self.session]
        if self.user != "local":
            found += ["--user", self.user]
        if self.app != "app":
            found += ["--app", self.app]
        return [*found, "--store", str(self.store)] if self.store else found


@dataclass(slots=True)
class TurnOutcome:
    """What came of a turn."""

    status: RunStatus = RunStatus.FAILED
    text: str = ""
    events: list[Event] = field(default_factory=list)
    error: AccError | None = None

    @property
    def ended(self) -> Event | None:
        """Return the event that ended it."""
        return next((event for event in reversed(self.events) if event.status is not None), None)

    @property
    def run_id(self) -> str:
        """Return the id of its run, empty if nothing was heard of it."""
        return self.events[-1].run_id if self.events else ""


def stubs(events: Sequence[Event]) -> dict[str, str]:
    """Return why rules wrote an agent's memory in place of its model, by agent."""
    found: dict[str, str] = {}
    for event in events:
        told = event.detail.get("compressor") if event.kind is EventKind.MEMORY else None
        if isinstance(told, Mapping) and told.get("fallback"):
            found[event.author] = str(told["fallback"])
    return found


class Conversation:
    """A session of one agent, asked turn by turn; everything runs on one event loop."""

    def __init__(
        self, agent: BaseAgent, reference: str, options: SessionOptions, loop: asyncio.Runner
    ) -> None:
        self.agent = agent
        self.options = options
        self._reference = reference
        self._loop = loop
        self._ids: dict[str, Any] = {"user_id": options.user, "session_id": options.session}
        store = "memory" if options.store is None else options.store
        self.runner = Runner(agent, app_name=options.app, store=store, config=options.config())
        if options.verbose:
            log_runs_to(sys.stderr)

    def turn(
        self,
        show: Callable[[Event], None],
        *,
        message: str | None = None,
        answers: Sequence[InputAnswer] = (),
    ) -> TurnOutcome:
        """Run a turn, or go on with a waiting one, and return what came of it.

        A typed error that comes before anything happened is raised, any later one is returned.
        Models that could not be asked are refused before that; where rules had to write a memory in
        place of a model, that is told.
        """
        check_models(self.agent, kept_may_do=True)
        turn = self._loop.run(self._turn(show, message, answers))
        for agent, why in stubs(turn.events).items():
            print_error(shown(f"{agent}: rules wrote the memory, not its model: {why}").plain)
        return turn

    async def _turn(
        self, show: Callable[[Event], None], message: str | None, answers: Sequence[InputAnswer]
    ) -> TurnOutcome:
        turn = TurnOutcome()
        try:
            stream = self.runner.stream(**self._ids, message=message, answers=answers)
            async with aclosing(cast("AsyncGenerator[Event]", stream)) as events:
                async for event in events:
                    turn.events.append(event)
                    show(event)
        except AccError as error:
            if not turn.events:
                raise
            turn.error = error
        ended = turn.ended
        if ended is not None and ended.status is not None:
            turn.status, turn.text = ended.status, ended.text
        return turn

    def pending(self) -> tuple[InputRequest, ...]:
        """Return what the session waits for."""
        return self._loop.run(self.runner.pending(**self._ids))

    def abandon(self) -> None:
        """Give a waiting run up."""
        self._loop.run(self.runner.abandon(**self._ids))

    def state(self) -> dict[str, Any]:
        """Return the session's state."""
        return dict(self._loop.run(self.runner.state(**self._ids)))

    def events(self) -> tuple[Event, ...]:
        """Return all that is on record of the session."""
        return self._loop.run(self.runner.events(**self._ids))

    def close(self) -> None:
        """Let go of the store."""
        self._loop.run(self.runner.aclose())

    def say_waiting(self, requests: Sequence[InputRequest], stream: TextIO) -> None:
        """Show open requests and the commands that answer them."""
        console = console_on(stream)
        for request in requests:
            show_request(console, request)
            if self.options.store is not None:
                for line in commands(request, self._again()):
                    console.print(shown(f"  {line}"))
        if not requests:
            again = shlex.join(self._again())
            console.print(shown("a run was answered, and then interrupted; go on or give it up:"))
            console.print(shown(f"  {again} --resume"))
            console.print(shown(f"  {again} --abandon"))
        if self.options.store is None:
            print_error(
                "the run waits, and its session ends with this command: repeat it with --store "
                "FILE to answer later"
            )

    def _again(self) -> list[str]:
        return ["acc", "run", self._reference, *self.options.flags()]

    def write_result(
        self, stream: TextIO, turn: TurnOutcome, requests: Sequence[InputRequest]
    ) -> None:
        """Write the line of JSON that ends a run."""
        ended = turn.ended
        line: dict[str, Any] = {
            "type": "result",
            "status": turn.status.value,
            "text": turn.text if turn.error is None else "",
            "run_id": turn.run_id,
            "session_id": self.options.session,
            "user_id": self.options.user,
            "usage": compact(ended.usage) if ended else {},
            "state": self.state(),
            "requests": [
                {**compact(request), "commands": commands(request, self._again())}
                for request in requests
            ],
        }
        if turn.error is not None:
            line["error"] = {"code": turn.error.code, "message": str(turn.error)}
        write_json(stream, line)
