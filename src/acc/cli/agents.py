"""`acc run`, `acc graph` and `acc check`: try an agent, look at its tree, have it checked."""

import asyncio
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TextIO

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.padding import Padding

from acc.application.lint.structure import Severity
from acc.application.use_cases.check_agents import TreeReport, check_agents
from acc.bootstrap.agents import draw_tree, load_tree
from acc.cli.approval import answer_to, arguments_of, find, value_for
from acc.cli.event_view import (
    EventPrinter,
    compact,
    console_on,
    show_memory,
    show_usage,
    shown,
    write_json,
)
from acc.cli.output import console, print_error, print_json
from acc.cli.session import WAITING, AgentName, Conversation, SessionOptions, TurnOutcome
from acc.domain.errors import InvalidInput, SessionWaiting, StorageFailed
from acc.domain.value_objects.approval import InputAnswer, InputRequest, approve, deny
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.run import RunStatus


@Parameter(name="*", group="What to show", show_default=False)
@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """What to show."""

    json: Annotated[
        bool,
        Parameter(
            help="Print a line of JSON for each event, then one for the result. Fields that hold "
            "nothing are left out.",
            negative=(),
        ),
    ] = False
    events: Annotated[
        bool,
        Parameter(help="Show each event: branch, tool calls, transfers, state.", negative=()),
    ] = False
    ccs: Annotated[
        bool,
        Parameter(help="Show the Compressed Cognitive State after the answer.", negative=()),
    ] = False
    memory: Annotated[
        bool,
        Parameter(
            help="Show the state and how it came about: what was recalled, qualified, refused.",
            negative=(),
        ),
    ] = False


@Parameter(name="*", group="Answering a run that waits for a person", show_default=False)
@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """How to answer a run that waits for a person."""

    approve: Annotated[
        tuple[str, ...],
        Parameter(help="Say yes to a request.", negative=(), consume_multiple=False),
    ] = ()
    deny: Annotated[
        tuple[str, ...],
        Parameter(help="Say no to a request.", negative=(), consume_multiple=False),
    ] = ()
    edit: Annotated[str, Parameter(help="Say yes, with other arguments.")] = ""
    arguments: Annotated[str, Parameter(help="The arguments for --edit: '{\"amount\": 5}'.")] = ""
    value: Annotated[
        str | None, Parameter(help="What to hand in with --approve, where a value is asked for.")
    ] = None
    reason: Annotated[str, Parameter(help="Why, for --deny.")] = ""
    resume: Annotated[
        bool,
        Parameter(help="Go on with a run that was answered, and then interrupted.", negative=()),
    ] = False
    abandon: Annotated[bool, Parameter(help="Give the waiting run up.", negative=())] = False

    @property
    def given(self) -> bool:
        """Tell whether there is an answer."""
        return bool(self.approve or self.deny or self.edit or self.resume)

    def check(self) -> None:
        """Refuse flags that do not fit together."""
        if bool(self.edit) != bool(self.arguments):
            raise InvalidInput("--edit REQUEST_ID and --arguments JSON go together")
        if self.value is not None and len(self.approve) != 1:
            raise InvalidInput("--value goes with one --approve REQUEST_ID")
        if self.reason and not self.deny:
            raise InvalidInput("--reason goes with --deny REQUEST_ID")
        if self.given and self.abandon:
            raise InvalidInput("either answer the waiting run or --abandon it")

    def answers(self, requests: Sequence[InputRequest]) -> list[InputAnswer]:
        """Return the answers to the requests that are named."""
        found = [
            approve(
                find(requests, name).id,
                value=None if self.value is None else value_for(find(requests, name), self.value),
            )
            for name in self.approve
        ]
        found += [deny(find(requests, name).id, self.reason) for name in self.deny]
        if self.edit:
            request = find(requests, self.edit)
            found.append(approve(request.id, arguments=arguments_of(self.arguments)))
        return found


#: What may begin with a hyphen is - alone; anything else of this form is a slip.
_OPTION = re.compile(r"--?[A-Za-z][\w-]*(=.*)?")
_SESSION = SessionOptions()
_SHOW = ShowOptions()
_ANSWER = AnswerOptions()


def run(
    agent: AgentName,
    text: Annotated[
        str | None,
        Parameter(help="The message; - reads it from stdin.", allow_leading_hyphen=True),
    ] = None,
    /,
    *,
    options: SessionOptions = _SESSION,
    show: ShowOptions = _SHOW,
    answer: AnswerOptions = _ANSWER,
) -> int:
    """Run one turn of an agent and print its answer.

    A run that has to wait for a person asks on a terminal. Elsewhere it ends with status 3 and
    prints the commands that answer it; with --store they work from any process.

    Example: acc run shop.agents:root "Where is order A-17?" --store shop.db --session s1
    """
    answer.check()
    message = _message(text, answer)
    out = sys.stdout
    # What an agent prints is not our output.
    with asyncio.Runner() as loop, redirect_stdout(sys.stderr):
        conversation = Conversation(load_tree(agent), agent, options, loop)
        try:
            return _OneTurn(conversation, show, out).run(message, answer)
        finally:
            conversation.close()


def _message(text: str | None, answer: AnswerOptions) -> str | None:
    if text is None:
        if answer.given or answer.abandon:
            return None
        raise InvalidInput('say something: acc run MODULE:AGENT "text", or - to read it from stdin')
    if _OPTION.fullmatch(text):
        raise InvalidInput(f"no option {text}; acc run --help lists them")
    if answer.given:
        raise InvalidInput("a waiting run is answered without a text; send the next one after it")
    return sys.stdin.read() if text == "-" else text


class _OneTurn:
    """One turn, with the questions that it leads to."""

    def __init__(self, conversation: Conversation, show: ShowOptions, out: TextIO) -> None:
        self._conversation = conversation
        self._show = show
        self._out = out
        self._console = console_on(out)
        self._asks = can_ask(out) and not show.json
        self._seen: list[Event] = []
        self._speaker = EventPrinter(
            self._console,
            stream=conversation.options.streams(out),
            events=show.events,
            alone=not out.isatty(),
        )

    def run(self, message: str | None, answer: AnswerOptions) -> int:
        try:
            return self._run(message, answer)
        except KeyboardInterrupt:
            self._speaker.interrupted()
            if self._show.json:
                turn = TurnOutcome(status=RunStatus.CANCELED, events=self._seen)
                self._conversation.write_result(self._out, turn, ())
            print_error("canceled")
            return 130

    def _run(self, message: str | None, answer: AnswerOptions) -> int:
        conversation = self._conversation
        if answer.abandon:
            conversation.abandon()
            if message is None:
                return 0
        answers = answer.answers(conversation.pending()) if answer.given else []
        try:
            turn = conversation.turn(self._event, message=message, answers=answers)
        except SessionWaiting as error:
            print_error(f"error: session {conversation.options.session!r} waits for a person")
            if self._show.json:
                turn = TurnOutcome(status=RunStatus.INPUT_REQUIRED, error=error)
                conversation.write_result(self._out, turn, conversation.pending())
            else:
                conversation.say_waiting(conversation.pending(), self._out)
            return WAITING
        while turn.status is RunStatus.INPUT_REQUIRED and self._asks:
            given = ask_all(self._console, conversation.pending())
            if not given:
                break
            before = turn.events
            try:
                turn = conversation.turn(self._event, answers=given)
            except InvalidInput as error:
                print_error(f"error: {error}")
                continue
            turn.events[:0] = before
        return self._finish(turn)

    def _event(self, event: Event) -> None:
        self._seen.append(event)
        if not self._show.json:
            self._speaker.show(event)
        elif not event.partial or self._conversation.options.stream:
            write_json(self._out, {"type": "event", **compact(event)})

    def _finish(self, turn: TurnOutcome) -> int:
        conversation, show = self._conversation, self._show
        waiting = turn.status is RunStatus.INPUT_REQUIRED
        requests = conversation.pending() if waiting else ()
        if show.json:
            conversation.write_result(self._out, turn, requests)
        else:
            if show.ccs or show.memory:
                show_memory(self._console, turn.events, trace=show.memory)
            if show.events or show.memory:
                show_usage(self._console, turn.ended.usage if turn.ended else None)
            if waiting:
                conversation.say_waiting(requests, self._out)
        if turn.error is not None:
            print_error(f"error: {turn.error}")
        if waiting:
            return WAITING
        return 0 if turn.status is RunStatus.COMPLETED else 1


def can_ask(out: TextIO) -> bool:
    """Tell whether a person can be asked."""
    return sys.stdin.isatty() and out.isatty()


def ask_all(screen: Console, requests: Sequence[InputRequest]) -> list[InputAnswer]:
    """Return what the person says to each request; one that is left for later has no answer."""
    found: list[InputAnswer] = []
    for request in requests:
        try:
            answered = answer_to(screen, request)
        except (EOFError, KeyboardInterrupt):
            screen.print()
            break
        if answered is not None:
            found.append(answered)
    return found


#: Endings of files that hold pictures, none of which is drawn here.
_NOT_DRAWN = (
    ".png",
    ".jpg",
    ".jpeg",
    ".gif",
    ".webp",
    ".bmp",
    ".tiff",
    ".pdf",
    ".ps",
    ".eps",
    ".dot",
)


def graph(
    agent: AgentName,
    /,
    *,
    format: Annotated[
        Literal["mermaid", "svg"] | None,
        Parameter(help="What to draw. [default: what the ending of --out says, else mermaid]"),
    ] = None,
    out: Annotated[Path | None, Parameter(help="The file to write. [default: stdout]")] = None,
) -> int:
    """Draw an agent's tree: kinds, models, tools, confirmations, loops, edges and transfers.

    Mermaid text can stand in a Markdown page; an SVG follows the page's light or dark colours.

    Example: acc graph shop.agents:root --out tree.svg
    """
    wanted = format or _form_of(out)
    with redirect_stdout(sys.stderr):
        drawn = draw_tree(load_tree(agent), wanted)
    if out is None:
        sys.stdout.write(drawn)
        return 0
    try:
        out.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise StorageFailed(f"cannot write {out}: {error.strerror}") from error
    console().print(f"wrote {out}", markup=False)
    return 0


def _form_of(out: Path | None) -> str:
    """Return what the ending of a file's name asks for."""
    ending = "" if out is None else out.suffix.lower()
    if ending == ".svg":
        return "svg"
    if ending in _NOT_DRAWN:
        raise InvalidInput(
            f"nothing is drawn as {ending}: name the file .svg, or .mmd for Mermaid text, or say "
            "what to draw with --format"
        )
    return "mermaid"


def check(
    agent: AgentName,
    /,
    *,
    json: Annotated[
        bool, Parameter(help="Print as JSON.", negative=(), show_default=False)
    ] = False,
) -> int:
    """Check an agent's tree against eight rules for designs of several agents.

    Nothing is run. The rules: single responsibility, clear descriptions, bounded loops, branches
    that keep apart, one rule for state keys, schemas that fit, transfers that end, and a person
    before high-privilege actions. Ends with 1 if there is a problem; warnings are only shown.

    Example: acc check shop.agents:root
    """
    with redirect_stdout(sys.stderr):
        report = check_agents(load_tree(agent))
    if json:
        found = {"severity": report.severity, **msgspec.to_builtins(report)}
        print_json(msgspec.json.format(msgspec.json.encode(found), indent=2))
    else:
        _show_report(report)
    return 1 if report.severity is Severity.PROBLEM else 0


_STYLES = {
    Severity.OK: "green",
    Severity.WARNING: "yellow",
    Severity.PROBLEM: "bold red",
    Severity.NOT_APPLICABLE: "dim",
}


def _paragraph(screen: Console, text: str, *, style: str) -> None:
    """Print text with a margin; lines are broken only where someone looks at them."""
    margin = 18
    if screen.is_terminal and screen.width > 2 * margin:
        padded = Padding(shown(text, style), (0, 0, 0, margin))
        screen.print(padded, soft_wrap=False)
    else:
        screen.print(shown(f"{'':<{margin}}{text}", style))


def _show_report(report: TreeReport) -> None:
    screen = console_on(sys.stdout)
    count = f"{report.agents} agent{'s' if report.agents != 1 else ''}"
    screen.print(shown(report.agent, "bold") + shown(f", {count}\n", "dim"))
    for number, rule in enumerate(report.rules, start=1):
        screen.print(
            shown(f"{rule.severity.value:<15}", _STYLES[rule.severity])
            + shown(f"{number}. {rule.title}", "bold" if rule.findings else "")
        )
        screen.print(shown(f"{'':<18}{rule.title_ja}", "dim"))
        if rule.note and not rule.findings:
            _paragraph(screen, rule.note, style="dim")
        for finding in rule.findings:
            names = ", ".join(finding.agents)
            lead = f"{names}: " if names else ""
            _paragraph(screen, f"{lead}{finding.text}", style=_STYLES[finding.severity])
            _paragraph(screen, f"fix: {finding.fix}", style="")
    problems, warnings = report.count(Severity.PROBLEM), report.count(Severity.WARNING)
    screen.print(
        shown(
            f"\n{problems} problem{'s' if problems != 1 else ''}, "
            f"{warnings} warning{'s' if warnings != 1 else ''}",
            _STYLES[report.severity],
        )
    )
