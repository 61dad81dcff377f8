"""`acc doctor` for the address of a gRPC server."""

from collections.abc import Collection

from acc.application.doctor.grpc_checks import GRPC_CHECKS, GrpcServerUnderTest
from acc.application.use_cases.diagnose_server import Diagnosis, run_checks, select_checks
from acc.ports.outbound.remote_ports import GrpcProbePort
from acc.ports.outbound.system_ports import IdsPort


class DiagnoseGrpcServerUseCase:
    """Runs the checks one after the other, and cancels the tasks that they created."""

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
        only: Collection[str] = (),
    ) -> Diagnosis:
        """Return the results of the checks; raise RemoteFailed if there is no server."""
        checks = select_checks(GRPC_CHECKS, only)
        server = GrpcServerUnderTest(
            probe=self._probe, url=url, ids=self._ids, token=token, second_token=second_token
        )
        await server.find_version()
        return Diagnosis(
            url=url,
            agent="",
            interface=f"GRPC {server.version}" if server.version else "",
            results=await run_checks(checks, server, check_timeout=self._check_timeout),
        )
