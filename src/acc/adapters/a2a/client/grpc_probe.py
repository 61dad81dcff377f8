"""The gRPC probe of `acc doctor`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import msgspec
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from acc.adapters.a2a.client.grpc_transport import is_connect_failure, open_channel
from acc.adapters.a2a.wire.protobuf import PROTOBUF_WIRES, STATUS_METADATA, read_details
from acc.adapters.a2a.wire.protobuf_schema import service_name
from acc.adapters.http.client import NetworkOptions
from acc.domain.errors import RemoteFailed
from acc.ports.outbound.remote_ports import GrpcReply

_MAX_ITEMS = 500


class GrpcProbe:
    """Calls a server over one channel; implements GrpcProbePort."""

    def __init__(self, channel: Any, *, timeout: float) -> None:
        self._channel = channel
        self._timeout = timeout

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | bytes,
        *,
        version: str = "1.0",
        token: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> GrpcReply:
        """Call a method of the service of a protocol version; bytes are sent unchanged."""
        wire = PROTOBUF_WIRES[version]
        operation = wire.methods[method]
        data = params if isinstance(params, bytes) else wire.encode_params(operation, params)
        pairs = {"a2a-version": version, **(metadata or {})}
        if token:
            pairs["authorization"] = f"Bearer {token}"
        call = self._channel.unary_stream(f"/{service_name(version)}/{method}")(
            data, metadata=tuple(pairs.items()), timeout=self._timeout
        )
        items: list[Mapping[str, Any]] = []
        try:
            while len(items) < _MAX_ITEMS and (message := await call.read()) is not grpc.aio.EOF:
                items.append(msgspec.json.decode(wire.read_response(operation, message)))
        except grpc.aio.AioRpcError as error:
            return _reply(error)
        finally:
            call.cancel()
        return GrpcReply(status="OK", items=items)

    async def services(self) -> Sequence[str]:
        """Return the services that reflection lists, none without reflection."""

        async def requests() -> AsyncIterator[Any]:
            yield reflection_pb2.ServerReflectionRequest(list_services="")

        stub = reflection_pb2_grpc.ServerReflectionStub(self._channel)
        try:
            async for answer in stub.ServerReflectionInfo(requests(), timeout=self._timeout):
                return [service.name for service in answer.list_services_response.service]
        except grpc.aio.AioRpcError as error:
            _reply(error)
        return []

    async def health(self) -> str:
        """Return the state that the health service reports, empty without one."""
        stub = health_pb2_grpc.HealthStub(self._channel)
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=self._timeout)
        except grpc.aio.AioRpcError as error:
            _reply(error)
            return ""
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


@asynccontextmanager
async def grpc_probe(
    url: str,
    *,
    allow: Sequence[str],
    timeout: float,  # noqa: ASYNC109 - a limit of each call
    network: NetworkOptions | None = None,
) -> AsyncIterator[GrpcProbe]:
    """Yield a probe of the server at a URL with the scheme grpc or grpcs."""
    channel = await open_channel(url, allow=allow, network=network)
    async with channel:
        yield GrpcProbe(channel, timeout=timeout)


def _reply(error: grpc.aio.AioRpcError) -> GrpcReply:
    """Return the reply of a failed call; raise RemoteFailed if there was no response."""
    code, message = error.code().name, error.details() or ""
    status = dict(error.trailing_metadata() or ()).get(STATUS_METADATA, b"")
    details = read_details(status) if isinstance(status, bytes) else []
    if code == "DEADLINE_EXCEEDED" and not details:
        raise RemoteFailed("the server did not respond in time", retryable=True)
    if code == "UNAVAILABLE" and not details and is_connect_failure(message):
        raise RemoteFailed(f"the server cannot be reached: {message}", retryable=True)
    return GrpcReply(status=code, message=message, details=details)
