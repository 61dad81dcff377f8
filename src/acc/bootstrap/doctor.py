"""Construction of `acc doctor`."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from acc.application.use_cases.diagnose_server import (
    DiagnoseGrpcServerUseCase,
    DiagnoseServerUseCase,
)
from acc.bootstrap.a2a_client import make_client_network, missing_a2a
from acc.bootstrap.settings import silence_grpc
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.credentials import ClientTls
from acc.domain.value_objects.endpoint import is_loopback_url, loopback_allow_entries, origin_of

#: A check may take as long as this number of requests.
_REQUESTS_PER_CHECK = 3


@asynccontextmanager
async def make_doctor(
    url: str,
    *,
    allow: Sequence[str] = (),
    timeout: float = 30.0,  # noqa: ASYNC109 - a limit of each request
    tls: ClientTls | None = None,
) -> AsyncIterator[DiagnoseServerUseCase]:
    """Return the use case of `acc doctor`; a loopback `url` needs no entry in `allow`."""
    try:
        from acc.adapters.http.client import guarded_client
        from acc.adapters.http.probe import HttpProbe
    except ModuleNotFoundError as error:
        raise missing_a2a(error) from None
    from acc.adapters.system.clock import RandomIds

    allowed = [*allow, *(loopback_allow_entries(url) if is_loopback_url(url) else ())]
    # A server may close an idle connection at any time, so that a reused one would fail.
    bare = None if tls is None else ClientTls(ca=tls.ca)
    async with AsyncExitStack() as stack:
        client, bare_client = [
            await stack.enter_async_context(
                guarded_client(
                    allow=allowed,
                    timeout=timeout,
                    network=make_client_network(files, {origin_of(url)}, idle_connections=0),
                )
            )
            for files in (tls, bare)
        ]
        yield DiagnoseServerUseCase(
            HttpProbe(client, bare_client),
            ids=RandomIds(),
            check_timeout=_REQUESTS_PER_CHECK * timeout,
        )


@asynccontextmanager
async def make_grpc_doctor(
    url: str,
    *,
    allow: Sequence[str] = (),
    timeout: float = 30.0,  # noqa: ASYNC109 - a limit of each call
    tls: ClientTls | None = None,
) -> AsyncIterator[DiagnoseGrpcServerUseCase]:
    """Return the use case of `acc doctor` for a URL with the scheme grpc or grpcs."""
    silence_grpc()
    try:
        from acc.adapters.a2a.client.grpc_probe import grpc_probe
    except ModuleNotFoundError as error:
        raise missing_grpc(error) from None
    from acc.adapters.system.clock import RandomIds

    allowed = [*allow, *loopback_allow_entries(url)]
    network = make_client_network(tls, {origin_of(url)})
    async with grpc_probe(url, allow=allowed, timeout=timeout, network=network) as probe:
        yield DiagnoseGrpcServerUseCase(
            probe, ids=RandomIds(), check_timeout=_REQUESTS_PER_CHECK * timeout
        )


def missing_grpc(error: ModuleNotFoundError) -> InvalidInput:
    """Return the error for a missing package of the extra `grpc`."""
    return InvalidInput(f"gRPC requires the package {error.name}; install acc-agents[a2a,grpc]")
