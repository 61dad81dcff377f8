"""`acc doctor`: what is wrong with a server of agents, seen from outside."""

import asyncio
import math
import os
import sys
from dataclasses import dataclass
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.status import Status

from acc.application.doctor.findings import CheckStatus
from acc.application.doctor.server import Target, is_loopback, is_url
from acc.application.use_cases.diagnose_server import Diagnosis, Line
from acc.bootstrap.a2a import examiner
from acc.bootstrap.a2a_client import token_of
from acc.cli.event_view import console_on, one_line, shown
from acc.cli.output import error_console, print_error, print_json
from acc.domain.errors import AddressRefused, InvalidInput, RemoteFailed

_MARKS = {
    CheckStatus.OK: ("✓", "green"),
    CheckStatus.WARN: ("!", "yellow"),
    CheckStatus.FAIL: ("✗", "bold red"),
    CheckStatus.SKIPPED: ("-", "dim"),
}
_MARGIN = 4
_MOST_SEEN = 1_000


@Parameter(name="*", group="Who")
@dataclass(frozen=True, kw_only=True)
class CallerOptions:
    """As whom to ask."""

    token_env: Annotated[
        str,
        Parameter(help="The environment variable that holds a bearer token.", show_default=False),
    ] = ""
    second_token_env: Annotated[
        str,
        Parameter(
            help="The same for another caller, to see whether callers are kept apart.",
            show_default=False,
        ),
    ] = ""


@Parameter(name="*", group="How")
@dataclass(frozen=True, kw_only=True)
class HowOptions:
    """What to check, and how."""

    only: Annotated[
        tuple[str, ...],
        Parameter(
            help="Only this check; may be repeated.",
            negative=(),
            consume_multiple=True,
            show_default=False,
        ),
    ] = ()
    allow: Annotated[
        tuple[str, ...],
        Parameter(
            help="A host, address or network that may be called although it is not public. "
            "A loopback URL that you name needs none.",
            negative=(),
            consume_multiple=False,
            show_default=False,
        ),
    ] = ()
    timeout: Annotated[float, Parameter(help="Seconds to wait for each answer.")] = 30.0
    json: Annotated[bool, Parameter(help="Print as JSON.", negative=(), show_default=False)] = False


def doctor(
    url: Annotated[str, Parameter(help="The server, or its card.")],
    /,
    *,
    who: CallerOptions | None = None,
    how: HowOptions | None = None,
) -> int:
    """Check a server of agents from outside, with a verdict and a fix for each line.

    It reads the card, sends a handful of short messages, and cancels what is still running when it
    leaves. Servers of A2A 1.0 and 0.3 will do, over JSON-RPC or HTTP+JSON. Ends with 1 if a check
    fails, and with 2 if the server cannot be reached, or speaks neither of these.

    Example: acc doctor http://127.0.0.1:8000 --token-env MY_TOKEN
    """
    who, how = who or CallerOptions(), how or HowOptions()
    if not 0 < how.timeout < math.inf:
        raise InvalidInput(f"--timeout must be above 0, not {how.timeout}")
    target = Target(
        url=_whole(url),
        token=_token(who.token_env),
        second_token=_token(who.second_token_env),
    )
    found = asyncio.run(_examine(target, how))
    if how.json:
        document = {"failed": found.has_failed, **msgspec.to_builtins(found)}
        print_json(msgspec.json.format(msgspec.json.encode(document), indent=2))
    else:
        _show(found)
    if found.untried:
        print_error(f"error: the server was not examined: {one_line(found.untried)}")
    if found.has_failed:
        return 1
    return 2 if found.untried else 0


def _whole(url: str) -> str:
    """Return a URL with its scheme, as a person may leave it out."""
    if "://" in url:
        return url
    is_own = is_url(f"http://{url}") and is_loopback(f"http://{url}")
    return f"http://{url}" if is_own else f"https://{url}"


def _token(variable: str) -> str:
    if not variable:
        return ""
    if not os.environ.get(variable, "").strip():
        raise InvalidInput(f"the environment variable {variable} holds no token")
    return token_of(f"env:{variable}")


async def _examine(target: Target, how: HowOptions) -> Diagnosis:
    screen = error_console()
    status = Status("reading the card", console=screen) if screen.is_terminal else None
    try:
        async with examiner(target.url, allow=how.allow, patience=how.timeout) as examine:
            if status is not None:
                status.start()
            return await examine.run(
                target,
                only=how.only,
                on_check=lambda check: _tell(status, f"{check.id}: {check.does}"),
            )
    except AddressRefused as error:
        raise InvalidInput(error.naming("--allow here")) from None
    except RemoteFailed as error:
        raise InvalidInput(
            f"no server at {target.url}: {error}; is it running, and is that its port?"
        ) from None
    finally:
        if status is not None:
            status.stop()


def _tell(status: Status | None, text: str) -> None:
    if status is not None:
        status.update(escape(text))


def _show(found: Diagnosis) -> None:
    screen = console_on(sys.stdout)
    name = f"{one_line(found.agent)}, " if found.agent else ""
    over = f", over {found.over}" if found.over else ""
    screen.print(shown(f"{name}{found.stand_in or found.url}{over}", "bold"))
    if found.stand_in:
        screen.print(shown(f"{found.url} has no card: this is the agent of {found.stand_in}"))
    area = None
    for line in found.lines:
        if line.area is not area:
            screen.print(f"\n{line.area.value}", style="bold", markup=False)
            area = line.area
        _show_line(screen, line)
    if found.unseen:
        screen.print("\nCannot be checked from outside", style="bold")
    for unseen in found.unseen:
        screen.print(f"  ? {unseen.title}  {unseen.title_ja}", style="dim", markup=False)
        _paragraph(screen, f"look at: {unseen.look_at}", "dim")
    counts = [f"{found.count(verdict)} {verdict.value}" for verdict in CheckStatus]
    style = "bold red" if found.has_failed or found.untried else "green"
    screen.print(f"\n{', '.join(counts)}", style=style, markup=False)


def _show_line(screen: Console, line: Line) -> None:
    mark, style = _MARKS[line.verdict]
    screen.print(
        shown(f"  {mark} ", style)
        + shown(line.title)
        + shown(f"  {line.title_ja}  {line.id}", "dim")
    )
    _paragraph(
        screen,
        one_line(line.seen, _MOST_SEEN),
        "dim" if line.verdict is not CheckStatus.FAIL else "",
    )
    if line.fix:
        _paragraph(screen, f"fix: {line.fix} [A2A {line.section}]", "")


def _paragraph(screen: Console, text: str, style: str) -> None:
    """Print text with a margin; lines are broken only where someone looks at them."""
    if screen.is_terminal and screen.width > 4 * _MARGIN:
        screen.print(Padding(shown(text, style), (0, 0, 0, _MARGIN)), soft_wrap=False)
    else:
        screen.print(shown(f"{'':<{_MARGIN}}{text}", style))
