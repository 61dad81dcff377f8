"""`acc chat`: a conversation with an agent in the terminal, or through a pipe."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Annotated, TextIO

from cyclopts import Parameter

from acc.bootstrap.agents import load_tree
from acc.cli.agents import ask_all
from acc.cli.approval import encoded, typed
from acc.cli.event_view import EventPrinter, console_on, show_events, show_memory, shown
from acc.cli.output import print_error
from acc.cli.session import WAITING, AgentName, Conversation, SessionOptions
from acc.domain.errors import AccError, InvalidInput, NothingPending, SessionWaiting
from acc.domain.value_objects.approval import InputAnswer
from acc.domain.value_objects.run import RunStatus

_SESSION = SessionOptions()
_COMMANDS = {
    "/ccs": "what the agents remember: their Compressed Cognitive State, and how it came about",
    "/state": "the session's state",
    "/events": "everything on record",
    "/abandon": "give up a run that waits for you",
    "/help": "this list",
    "/quit": "leave; so does Ctrl-D",
}


def chat(
    agent: AgentName,
    /,
    *,
    events: Annotated[
        bool, Parameter(help="Show each event of a turn.", negative=(), show_default=False)
    ] = False,
    ccs: Annotated[
        bool,
        Parameter(
            help="Show the Compressed Cognitive State after each answer.",
            negative=(),
            show_default=False,
        ),
    ] = False,
    options: SessionOptions = _SESSION,
) -> int:
    """Talk with an agent, turn by turn.

    Type /help for commands: /ccs shows what it remembers, /state and /events what happened. Ctrl-C
    breaks a turn off and the conversation goes on. Lines may also come through a pipe.

    Example: acc chat shop.agents:root --store shop.db --session s1
    """
    out = sys.stdout
    with asyncio.Runner() as loop, redirect_stdout(sys.stderr):
        conversation = Conversation(load_tree(agent), agent, options, loop)
        try:
            return _Chat(conversation, out, events=events, ccs=ccs).run()
        finally:
            conversation.close()


class _Chat:
    """A conversation until someone leaves."""

    def __init__(self, conversation: Conversation, out: TextIO, *, events: bool, ccs: bool) -> None:
        self._conversation = conversation
        self._out = out
        self._console = console_on(out)
        self._seen = sys.stdin.isatty() and out.isatty()
        self._ccs = ccs
        self._failed = False
        self._speaker = EventPrinter(
            self._console, stream=conversation.options.streams(out), events=events
        )

    def run(self) -> int:
        if self._seen:
            self._greet()
        if not self._settle():
            return WAITING
        while True:
            try:
                line = typed(self._prompt()).strip()
            except EOFError:
                if self._seen:
                    self._console.print()
                break
            except KeyboardInterrupt:
                self._console.print(shown("\n(Ctrl-D or /quit leaves)", "dim"))
                continue
            if line == "/quit":
                break
            if line.startswith("/"):
                self._command(line)
            elif line and not self._say(line):
                return WAITING
        return 1 if self._failed and not self._seen else 0

    def _greet(self) -> None:
        options, agent = self._conversation.options, self._conversation.agent
        where = options.store or "memory"
        self._console.print(
            shown(agent.name, "bold")
            + shown(f" · session {options.session} in {where} · /help for commands", "dim")
        )

    def _prompt(self) -> str:
        # The marks tell readline which signs take no room on the line.
        plain = self._console.no_color or not self._seen
        return "you › " if plain else "\001\033[1;33m\002you\001\033[0;2m\002 › \001\033[0m\002"

    def _say(self, line: str) -> bool:
        """Run a turn, and tell whether the conversation can go on; Ctrl-C breaks off the turn."""
        try:
            return self._answered(line)
        except KeyboardInterrupt:
            self._speaker.interrupted()
            self._console.print(shown("canceled; the conversation goes on", "yellow"))
            return True

    def _answered(self, line: str) -> bool:
        try:
            if self._conversation.pending():
                self._console.print(shown("not sent: first answer this, or /abandon it", "yellow"))
            else:
                self._turn(message=line)
        except SessionWaiting:
            # All is answered: the process was interrupted while it went on.
            self._console.print(shown("not sent: first an interrupted run goes on", "yellow"))
            self._turn()
        except AccError as error:
            self._fail(error)
        return self._settle()

    def _settle(self) -> bool:
        """Have the person answer what a run waits for; without an answer there is no going on."""
        while requests := self._conversation.pending():
            given = ask_all(self._console, requests)
            if given:
                try:
                    self._turn(answers=given)
                except InvalidInput as error:
                    print_error(f"error: {error}")
            elif self._seen:
                self._console.print(shown("the run waits; /abandon gives it up", "dim"))
                return True
            else:
                self._conversation.say_waiting(requests, self._out)
                return False
        return True

    def _turn(self, *, message: str | None = None, answers: Sequence[InputAnswer] = ()) -> None:
        turn = self._conversation.turn(self._speaker.show, message=message, answers=answers)
        self._failed = turn.status is RunStatus.FAILED
        if turn.error is not None:
            self._fail(turn.error)
        elif self._ccs:
            show_memory(self._console, turn.events, trace=False)

    def _fail(self, error: AccError) -> None:
        self._failed = True
        print_error(f"error: {error}")

    def _command(self, line: str) -> None:
        conversation, screen = self._conversation, self._console
        match line.split()[0]:
            case "/ccs" | "/memory":
                show_memory(screen, conversation.events(), trace=True)
            case "/state":
                state = conversation.state()
                for key, value in state.items():
                    screen.print(shown(f"  {key} = {encoded(value)}"))
                if not state:
                    screen.print(shown("  the state is empty", "dim"))
            case "/events":
                show_events(screen, conversation.events())
            case "/abandon":
                try:
                    conversation.abandon()
                    screen.print(shown("  given up", "dim"))
                except NothingPending:
                    screen.print(shown("  nothing waits", "dim"))
            case "/help":
                for name, text in _COMMANDS.items():
                    screen.print(shown(f"  {name:<9} ", "bold") + shown(text))
            case other:
                screen.print(shown(f"  no command {other}; /help lists them", "red"))
