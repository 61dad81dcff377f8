"""Examine a server from outside: every line of the checklist that a visitor can see."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from acc.application.doctor.checklist import CHECKS, UNSEEN, Check, Unseen
from acc.application.doctor.findings import Area, CheckSkipped, CheckStatus, Finding, fail, skipped
from acc.application.doctor.server import UNSPOKEN, Pause, ServerUnderTest, Target
from acc.domain.errors import AddressRefused, InvalidInput, InvalidResponse, RemoteFailed
from acc.ports.outbound.remote_ports import HttpProbePort
from acc.ports.outbound.system_ports import IdsPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the report."""

    id: str
    area: Area
    title: str
    title_ja: str
    does: str
    section: str
    verdict: CheckStatus
    seen: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What an examination came to.

    `unseen` are the duties that no visitor can check; who asked for some checks only is spared.
    `stand_in` is the root of the server if its agent was examined, as the URL has no card.
    `untried` says why nobody could be spoken to, so that there is no verdict on the server.
    """

    url: str
    agent: str
    over: str
    lines: tuple[Line, ...]
    unseen: tuple[Unseen, ...] = ()
    stand_in: str = ""
    untried: str = ""

    def count(self, verdict: CheckStatus) -> int:
        """Return how many checks ended with one verdict."""
        return sum(line.verdict is verdict for line in self.lines)

    @property
    def has_failed(self) -> bool:
        """Tell whether anything is wrong."""
        return self.count(CheckStatus.FAIL) > 0


class DiagnoseServerUseCase:
    """Makes the checks, one after the other, and leaves nothing running behind."""

    def __init__(
        self,
        probe: HttpProbePort,
        *,
        ids: IdsPort,
        pause: Pause = asyncio.sleep,
        checks: Sequence[Check] = CHECKS,
    ) -> None:
        self._probe = probe
        self._ids = ids
        self._pause = pause
        self._checks = checks

    async def run(
        self,
        target: Target,
        *,
        only: Collection[str] = (),
        on_check: Callable[[Check], None] | None = None,
        on_line: Callable[[Line], None] | None = None,
    ) -> Diagnosis:
        """Return a verdict for each check; RemoteFailed if there is no server at all."""
        chosen = self.chosen(only)
        visit = ServerUnderTest(probe=self._probe, target=target, ids=self._ids, pause=self._pause)
        await visit.read_card()
        lines: list[Line] = []
        try:
            for check in chosen:
                if on_check is not None:
                    on_check(check)
                lines.append(_line(check, await _made(check, visit)))
                if on_line is not None:
                    on_line(lines[-1])
        finally:
            await visit.leave()
        spoken = visit.card is not None and visit.interfaces
        return Diagnosis(
            url=target.url,
            agent=str(visit.card.document.get("name", "")) if visit.card else "",
            over=visit.main.told if spoken else "",
            lines=tuple(lines),
            unseen=() if only else UNSEEN,
            stand_in=visit.stand_in,
            untried=_untried(visit, lines),
        )

    def chosen(self, only: Collection[str]) -> list[Check]:
        """Return the checks that were asked for, all if none was; refuse names of no check."""
        names = [check.id for check in self._checks]
        unknown = sorted(set(only).difference(names))
        if unknown:
            raise InvalidInput(f"no check {unknown[0]!r}: choose of {', '.join(names)}")
        return [check for check in self._checks if not only or check.id in only]


async def _made(check: Check, visit: ServerUnderTest) -> Finding:
    try:
        return await check.run(visit)
    except CheckSkipped as reason:
        return skipped(str(reason))
    except InvalidResponse as error:
        return fail(
            str(error),
            "send answers as they are, or with gzip, and of a size that clients can take",
        )
    except RemoteFailed as error:
        return fail(
            f"no answer: {error}",
            "answer every request in time; if the agent is slow, "
            "return the task at once, or give the examination a longer --timeout",
        )
    except AddressRefused as error:
        return skipped(str(error))


def _untried(visit: ServerUnderTest, lines: Sequence[Line]) -> str:
    """Return why nothing was asked of a server beyond its card, if a check would have asked it."""
    if visit.card is None or all(line.seen != UNSPOKEN for line in lines):
        return ""
    listed = ", ".join(dict.fromkeys(each.told for each in visit.card.interfaces)) or "nothing"
    return f"the card names {listed}; spoken here are JSONRPC and HTTP+JSON of 1.0 and 0.3"


def _line(check: Check, finding: Finding) -> Line:
    return Line(
        id=check.id,
        area=check.area,
        title=check.title,
        title_ja=check.title_ja,
        does=check.does,
        section=check.section,
        verdict=finding.verdict,
        seen=finding.seen,
        fix=finding.fix,
    )
