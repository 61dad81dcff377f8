"""`acc doctor` for the address of a gRPC server."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from acc.application.doctor.checklist import Check
from acc.application.doctor.grpc_checks import GRPC_CHECKS, GrpcServerUnderTest
from acc.application.use_cases.diagnose_server import (
    CheckResult,
    Diagnosis,
    run_check,
    select_checks,
    to_result,
)
from acc.domain.errors import RemoteFailed
from acc.ports.outbound.remote_ports import GrpcProbePort
from acc.ports.outbound.system_ports import IdsPort


class DiagnoseGrpcServerUseCase:
    """Runs the checks one after the other, and cancels the tasks that they created."""

    def __init__(
        self,
        probe: GrpcProbePort,
        *,
        ids: IdsPort,
        checks: Sequence[Check] = GRPC_CHECKS,
        check_timeout: float = 120.0,
    ) -> None:
        """Create the use case; `check_timeout` is the time of one check in seconds."""
        self._probe = probe
        self._ids = ids
        self._checks = checks
        self._check_timeout = check_timeout

    async def run(
        self,
        url: str,
        *,
        token: str = "",
        second_token: str = "",
        only: Collection[str] = (),
        on_check: Callable[[Check], None] | None = None,
    ) -> Diagnosis:
        """Return the results of the checks; raise RemoteFailed if there is no server."""
        checks = select_checks(self._checks, only)
        server = GrpcServerUnderTest(
            probe=self._probe, url=url, ids=self._ids, token=token, second_token=second_token
        )
        await server.find_version()
        results: list[CheckResult] = []
        try:
            for check in checks:
                if on_check is not None:
                    on_check(check)
                finding = await run_check(check, server, self._check_timeout)
                results.append(to_result(check, finding))
        finally:
            with suppress(TimeoutError, RemoteFailed):
                async with asyncio.timeout(self._check_timeout):
                    await server.close()
        return Diagnosis(
            url=url,
            agent="",
            interface=f"GRPC {server.version}" if server.version else "",
            results=tuple(results),
        )
