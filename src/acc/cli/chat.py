"""`acc chat`: talk with an agent at the terminal or through a pipe."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Annotated, TextIO

from cyclopts import Parameter

from acc.bootstrap.agents import load_agent
from acc.bootstrap.storage import describe_store
from acc.cli.approval import is_interactive, prompt_answers, read_line, to_json
from acc.cli.event_view import (
    EventPrinter,
    make_console,
    safe_text,
    show_events,
    show_memory,
)
from acc.cli.event_view import show_prompts as print_prompts
from acc.cli.output import print_error
from acc.cli.session_options import (
    EXIT_INPUT_REQUIRED,
    AgentReference,
    AgentSession,
    SessionOptions,
)
from acc.domain.errors import AccError, InvalidInput, NothingPending, SessionWaiting
from acc.domain.value_objects.approval import InputAnswer
from acc.domain.value_objects.run import RunStatus

_SESSION = SessionOptions()
_COMMANDS = {
    "/ccs": "show what the agents remember: Compressed Cognitive State and its origin",
    "/state": "show the state of the session",
    "/events": "show all stored events",
    "/abandon": "abandon the run that waits for input",
    "/help": "show this list",
    "/quit": "leave, as does Ctrl-D",
}


def chat(
    agent: AgentReference,
    /,
    *,
    events: Annotated[
        bool, Parameter(help="Print all events of a turn.", negative=(), show_default=False)
    ] = False,
    ccs: Annotated[
        bool,
        Parameter(
            help="Print the Compressed Cognitive State after each answer.",
            negative=(),
            show_default=False,
        ),
    ] = False,
    show_prompts: Annotated[
        bool,
        Parameter(
            help="Record the exact request of each model call, without secrets, and print it after "
            "each turn with duration, tokens and cost.",
            negative=(),
            show_default=False,
        ),
    ] = False,
    session: SessionOptions = _SESSION,
) -> int:
    """Talk with an agent, turn by turn.

    Type /help for commands: /ccs shows what the agent remembers, /state and /events what happened.
    Ctrl-C cancels the current turn; the session continues. Lines can also come from a pipe.

    Example: acc chat shop.agents:root --store shop.db --session s1
    """
    stdout = sys.stdout
    # Text that the agent's module prints is not output of the command.
    with asyncio.Runner() as loop, redirect_stdout(sys.stderr):
        agent_session = AgentSession(
            load_agent(agent), agent, session, loop, record_prompts=show_prompts
        )
        try:
            command = _ChatCommand(
                agent_session, stdout, events=events, ccs=ccs, prompts=show_prompts
            )
            return command.run()
        finally:
            agent_session.close()


class _ChatCommand:
    """Reads lines until the input ends or the person leaves."""

    def __init__(
        self, session: AgentSession, stdout: TextIO, *, events: bool, ccs: bool, prompts: bool
    ) -> None:
        self._session = session
        self._stdout = stdout
        self._console = make_console(stdout)
        self._interactive = is_interactive(stdout)
        self._ccs = ccs
        self._prompts = prompts
        self._failed = False
        self._printer = EventPrinter(
            self._console, stream=session.options.should_stream(stdout), events=events
        )

    def run(self) -> int:
        if self._interactive:
            self._greet()
        if not self._answer_pending():
            return EXIT_INPUT_REQUIRED
        while True:
            try:
                line = read_line(self._prompt()).strip()
            except EOFError:
                if self._interactive:
                    self._console.print()
                break
            except KeyboardInterrupt:
                self._console.print(safe_text("\n(Ctrl-D or /quit leaves)", "dim"))
                continue
            if line == "/quit":
                break
            if line.startswith("/"):
                self._execute(line.split()[0])
            elif line and not self._send(line):
                return EXIT_INPUT_REQUIRED
        return 1 if self._failed and not self._interactive else 0

    def _greet(self) -> None:
        options = self._session.options
        self._console.print(
            safe_text(self._session.agent.name, "bold")
            + safe_text(
                f" · session {options.session} in {describe_store(options.store)}"
                " · /help for commands",
                "dim",
            )
        )

    def _prompt(self) -> str:
        # \001 and \002 enclose characters that have no width, for readline.
        plain = self._console.no_color or not self._interactive
        return "you › " if plain else "\001\033[1;33m\002you\001\033[0;2m\002 › \001\033[0m\002"

    def _send(self, message: str) -> bool:
        """Run a turn; return True if the session can continue."""
        try:
            try:
                if self._session.pending():
                    text = "not sent: answer the request first, or /abandon the run"
                    self._console.print(safe_text(text, "yellow"))
                else:
                    self._run_turn(message=message)
            except SessionWaiting:
                # All requests are answered, but the process ended before the run was resumed.
                text = "not sent: an interrupted run is resumed first"
                self._console.print(safe_text(text, "yellow"))
                self._run_turn()
            except AccError as error:
                self._report(error)
            return self._answer_pending()
        except KeyboardInterrupt:
            self._printer.reset()
            self._console.print(safe_text("canceled; the session continues", "yellow"))
            return True

    def _answer_pending(self) -> bool:
        """Ask for the answers to pending requests; return True if the session can continue."""
        while requests := self._session.pending():
            answers = prompt_answers(self._console, requests)
            if answers:
                try:
                    self._run_turn(answers=answers)
                except InvalidInput as error:
                    print_error(f"error: {error}")
            elif self._interactive:
                text = "the run waits for input; /abandon abandons it"
                self._console.print(safe_text(text, "dim"))
                return True
            else:
                self._session.show_pending(requests, self._stdout)
                return False
        return True

    def _run_turn(self, *, message: str | None = None, answers: Sequence[InputAnswer] = ()) -> None:
        turn = self._session.run_turn(self._printer, message=message, answers=answers)
        self._failed = turn.status is RunStatus.FAILED
        if turn.error is not None:
            self._report(turn.error)
        elif self._ccs:
            show_memory(self._console, turn.events, trace=False)
        if self._prompts:
            print_prompts(self._console, turn.events)

    def _report(self, error: AccError) -> None:
        self._failed = True
        print_error(f"error: {error}")

    def _execute(self, command: str) -> None:
        session, console = self._session, self._console
        match command:
            case "/ccs" | "/memory":
                show_memory(console, session.events(), trace=True)
            case "/state":
                state = session.state()
                for key, value in state.items():
                    console.print(safe_text(f"  {key} = {to_json(value)}"))
                if not state:
                    console.print(safe_text("  the state is empty", "dim"))
            case "/events":
                show_events(console, session.events())
            case "/abandon":
                try:
                    session.abandon()
                    console.print(safe_text("  abandoned", "dim"))
                except NothingPending:
                    console.print(safe_text("  no run waits for input", "dim"))
            case "/help":
                for name, text in _COMMANDS.items():
                    console.print(safe_text(f"  {name:<9} ", "bold") + safe_text(text))
            case _:
                console.print(safe_text(f"  unknown command {command}; see /help", "red"))
