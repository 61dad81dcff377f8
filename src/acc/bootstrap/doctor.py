"""Construction of `acc doctor`."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from acc.application.use_cases.diagnose_grpc_server import DiagnoseGrpcServerUseCase
from acc.application.use_cases.diagnose_server import DiagnoseServerUseCase
from acc.bootstrap.settings import silence_grpc
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import is_loopback_url, loopback_allow_entries

#: A check may take as long as this number of requests.
_REQUESTS_PER_CHECK = 3


@asynccontextmanager
async def make_doctor(
    url: str,
    *,
    allow: Sequence[str] = (),
    timeout: float = 30.0,  # noqa: ASYNC109 - a limit of each request
) -> AsyncIterator[DiagnoseServerUseCase]:
    """Return the use case of `acc doctor`; a loopback `url` needs no entry in `allow`."""
    from acc.adapters.http.client import NetworkOptions, guarded_client
    from acc.adapters.http.probe import HttpProbe
    from acc.adapters.system.clock import RandomIds

    allowed = [*allow, *(loopback_allow_entries(url) if is_loopback_url(url) else ())]
    # A server may close an idle connection at any time, so that a reused one would fail.
    network = NetworkOptions(idle_connections=0)
    async with guarded_client(allow=allowed, timeout=timeout, network=network) as client:
        yield DiagnoseServerUseCase(
            HttpProbe(client), ids=RandomIds(), check_timeout=_REQUESTS_PER_CHECK * timeout
        )


@asynccontextmanager
async def make_grpc_doctor(
    url: str,
    *,
    allow: Sequence[str] = (),
    timeout: float = 30.0,  # noqa: ASYNC109 - a limit of each call
) -> AsyncIterator[DiagnoseGrpcServerUseCase]:
    """Return the use case of `acc doctor` for a URL with the scheme grpc or grpcs."""
    silence_grpc()
    try:
        from acc.adapters.a2a.client.grpc_probe import grpc_probe
    except ModuleNotFoundError as error:
        raise missing_grpc(error) from None
    from acc.adapters.system.clock import RandomIds

    allowed = [*allow, *loopback_allow_entries(url)]
    async with grpc_probe(url, allow=allowed, timeout=timeout) as probe:
        yield DiagnoseGrpcServerUseCase(
            probe, ids=RandomIds(), check_timeout=_REQUESTS_PER_CHECK * timeout
        )


def missing_grpc(error: ModuleNotFoundError) -> InvalidInput:
    """Return the error for a missing package of the extra `grpc`."""
    return InvalidInput(f"gRPC requires the package {error.name}; install acc-agents[a2a,grpc]")
