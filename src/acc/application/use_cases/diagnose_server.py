"""`acc doctor`: check an A2A server, or the address of a gRPC server, from outside."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from acc.application.doctor.checklist import (
    CHECKLIST,
    CHECKS,
    MANUAL_CHECKS,
    Check,
    ChecklistLine,
    ManualCheck,
)
from acc.application.doctor.findings import (
    Area,
    CheckSkipped,
    CheckStatus,
    Finding,
    fail,
    skipped,
    warn,
)
from acc.application.doctor.grpc_checks import GRPC_CHECKS, GrpcServerUnderTest
from acc.application.doctor.server import NO_INTERFACE, Pause, ServerUnderTest, Target
from acc.application.doctor.wire import IntentProbe
from acc.domain.errors import AddressRefused, InvalidInput, InvalidResponse, RemoteFailed
from acc.ports.outbound.remote_ports import GrpcProbePort, HttpProbePort
from acc.ports.outbound.system_ports import IdsPort


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of one check in the report."""

    id: str
    area: Area
    title: str
    title_ja: str
    description: str
    section: str
    status: CheckStatus
    observation: str
    fix: str


#: From the best to the worst.
_SEVERITIES = (CheckStatus.OK, CheckStatus.NOTE, CheckStatus.WARN, CheckStatus.FAIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecklistResult:
    """Result of a line of the checklist; `status` is "not seen" without any evidence."""

    title: str
    title_ja: str
    status: str
    observation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Report about a server.

    `interface` is the tested interface. `manual_checks` are the properties that cannot be seen from
    outside, and `checklist` is a summary; both are left out if single checks were selected.
    `fallback_url` is the root of the
    server if its card was used because the URL has none. `not_tested` is the reason if the server
    has no supported interface.
    """

    url: str
    agent: str
    interface: str
    results: tuple[CheckResult, ...]
    manual_checks: tuple[ManualCheck, ...] = ()
    checklist: tuple[ChecklistResult, ...] = ()
    fallback_url: str = ""
    not_tested: str = ""

    def count(self, status: CheckStatus) -> int:
        """Return the number of checks with a status."""
        return sum(result.status is status for result in self.results)

    @property
    def has_failed(self) -> bool:
        """Return True if a check failed."""
        return self.count(CheckStatus.FAIL) > 0


class DiagnoseServerUseCase:
    """Runs the checks one after the other, and cancels the tasks that they created."""

    def __init__(
        self,
        probe: HttpProbePort,
        *,
        ids: IdsPort,
        pause: Pause = asyncio.sleep,
        check_timeout: float = 120.0,
    ) -> None:
        """Create the use case; `check_timeout` is the time of one check in seconds."""
        self._check_timeout = check_timeout
        self._probe = probe
        self._ids = ids
        self._pause = pause

    async def run(
        self,
        target: Target,
        *,
        only: Collection[str] = (),
        on_check: Callable[[Check], None] | None = None,
    ) -> Diagnosis:
        """Return the results of the checks; raise RemoteFailed if there is no server."""
        checks = _select_checks(CHECKS, only)
        server = ServerUnderTest(probe=self._probe, target=target, ids=self._ids, pause=self._pause)
        await server.read_card()
        results = await _run_checks(
            checks, server, check_timeout=self._check_timeout, on_check=on_check
        )
        is_supported = server.card is not None and server.interfaces
        return Diagnosis(
            url=target.url,
            agent=str(server.card.document.get("name", "")) if server.card else "",
            interface=server.main.label if is_supported else "",
            results=results,
            manual_checks=() if only else MANUAL_CHECKS,
            checklist=() if only else tuple(_summarize(line, results) for line in CHECKLIST),
            fallback_url=server.fallback_url,
            not_tested=_reason_not_tested(server, results),
        )


class DiagnoseGrpcServerUseCase:
    """Runs the checks of the gRPC binding one after the other."""

    def __init__(
        self,
        probe: GrpcProbePort,
        *,
        ids: IdsPort,
        check_timeout: float = 120.0,
    ) -> None:
        """Create the use case; `check_timeout` is the time of one check in seconds."""
        self._probe = probe
        self._ids = ids
        self._check_timeout = check_timeout

    async def run(
        self,
        url: str,
        *,
        token: str = "",
        second_token: str = "",
        call: IntentProbe | None = None,
        only: Collection[str] = (),
    ) -> Diagnosis:
        """Return the results of the checks; raise RemoteFailed if there is no server."""
        checks = _select_checks(GRPC_CHECKS, only)
        server = GrpcServerUnderTest(
            probe=self._probe,
            url=url,
            ids=self._ids,
            token=token,
            second_token=second_token,
            intent=call,
        )
        await server.find_version()
        return Diagnosis(
            url=url,
            agent="",
            interface=f"GRPC {server.version}" if server.version else "",
            results=await _run_checks(checks, server, check_timeout=self._check_timeout),
        )


def _select_checks(checks: Sequence[Check], only: Collection[str]) -> list[Check]:
    """Return the checks with these ids, by default all; raise InvalidInput for an unknown id."""
    names = [check.id for check in checks]
    unknown = sorted(set(only).difference(names))
    if unknown:
        raise InvalidInput(f"unknown check {unknown[0]!r}; choose from {', '.join(names)}")
    return [check for check in checks if not only or check.id in only]


async def _run_checks(
    checks: Sequence[Check],
    server: Any,
    *,
    check_timeout: float,
    on_check: Callable[[Check], None] | None = None,
) -> tuple[CheckResult, ...]:
    """Return the results of the checks; at the end, cancel the tasks that they created."""
    results: list[CheckResult] = []
    try:
        for check in checks:
            if on_check is not None:
                on_check(check)
            results.append(_to_result(check, await _run_check(check, server, check_timeout)))
    finally:
        with suppress(TimeoutError, RemoteFailed):
            async with asyncio.timeout(check_timeout):
                await server.close()
    return tuple(results)


async def _run_check(check: Check, server: Any, seconds: float) -> Finding:
    """Return the finding of a check; a failed or slow request is a finding too."""
    try:
        async with asyncio.timeout(seconds):
            return await check.run(server)
    except TimeoutError:
        return warn(
            f"the check did not finish within {seconds:g} seconds",
            "end streams and respond to every request in time, or use a longer --timeout",
        )
    except CheckSkipped as reason:
        return skipped(str(reason))
    except InvalidResponse as error:
        return fail(
            str(error),
            "send responses uncompressed or with gzip, and limit their size",
        )
    except RemoteFailed as error:
        return fail(
            f"no response: {error}",
            "respond to every request in time; if the agent is slow, return the task immediately, "
            "or use a longer --timeout",
        )
    except AddressRefused as error:
        return skipped(str(error))


def _summarize(line: ChecklistLine, results: Sequence[CheckResult]) -> ChecklistResult:
    """Return the worst result of the checks of a line, or "not seen"."""
    found = [r for r in results if r.id in line.checks and r.status in _SEVERITIES]
    status, observation = "not seen", ""
    if found:
        worst = max(found, key=lambda result: _SEVERITIES.index(result.status))
        observation = worst.observation
        is_unseen = all(result.status is CheckStatus.NOTE for result in found)
        status = "not seen" if is_unseen else worst.status.value
    manual = next((each for each in MANUAL_CHECKS if each.id == line.manual), None)
    if manual is not None and status == "not seen":
        observation = f"check: {manual.look_at}"
    return ChecklistResult(
        title=line.title, title_ja=line.title_ja, status=status, observation=observation
    )


def _reason_not_tested(server: ServerUnderTest, results: Sequence[CheckResult]) -> str:
    """Return the reason if a check needed an interface and the card has no supported one."""
    if server.card is None or all(result.observation != NO_INTERFACE for result in results):
        return ""
    listed = (
        ", ".join(dict.fromkeys(each.label for each in server.card.interfaces)) or "no interface"
    )
    return f"the card lists {listed}; supported are JSONRPC and HTTP+JSON of 1.0 and 0.3"


def _to_result(check: Check, finding: Finding) -> CheckResult:
    """Return the result of a check in the report."""
    return CheckResult(
        id=check.id,
        area=check.area,
        title=check.title,
        title_ja=check.title_ja,
        description=check.description,
        section=check.section,
        status=finding.status,
        observation=finding.observation,
        fix=finding.fix,
    )
