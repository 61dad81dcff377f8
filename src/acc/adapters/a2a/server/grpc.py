"""The gRPC binding of the server: both protocol versions, health and reflection on one port."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from acc.adapters.a2a.server.asgi import (
    Headers,
    HttpRequest,
    NegotiatedExtensions,
)
from acc.adapters.a2a.server.dispatch import CallResult, RequestDispatcher, error_headers
from acc.adapters.a2a.server.http_exchange import access_log, log_access
from acc.adapters.a2a.wire.errors import HttpError, grpc_message, wire_error_for
from acc.adapters.a2a.wire.protobuf import (
    PROTOBUF_WIRES,
    STATUS_METADATA,
    ProtobufWire,
    write_status,
)
from acc.adapters.a2a.wire.protobuf_schema import METHODS, Method, schema_pool, service_name
from acc.adapters.a2a.wire.protocol import Operation
from acc.adapters.system.threads import DaemonThreads
from acc.application.a2a.extensions import EVENT_IDS, add_event_id
from acc.application.a2a.requests import Request, ServerLimits
from acc.application.a2a.subscriptions import TaskStream
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.run import trace_of_parent

T = TypeVar("T")
#: Larger requests are converted in a thread, so that they do not delay others.
_MAX_INLINE_BYTES = 32 * 1024
_CONVERSION_THREADS = 2
_KEEPALIVE_TIMEOUT_SECONDS = 20
#: Clients may send keepalive pings this often.
_MIN_PING_SECONDS = 10
#: Only uncompressed messages: a small compressed one can expand to a huge one.
_IDENTITY_ONLY = 1
_CLIENT_CLOSED_REQUEST = 499


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcAddress:
    """Where the gRPC server listens.

    With a certificate chain and its key (PEM), it uses TLS. With a `client_authority` (PEM) every
    client must present a certificate of it: a server of gRPC cannot make certificates optional.
    """

    host: str
    port: int
    certificate: Path | None = None
    private_key: Path | None = None
    client_authority: Path | None = None

    @property
    def target(self) -> str:
        """Return the address in the form HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class GrpcServer:
    """Serves the use cases of a dispatcher over gRPC while its context is open."""

    def __init__(
        self,
        dispatcher: RequestDispatcher,
        *,
        address: GrpcAddress,
        limits: ServerLimits,
        protocol_versions: Collection[str],
    ) -> None:
        self._dispatcher = dispatcher
        self._address = address
        self._limits = limits
        self._versions = [version for version in PROTOBUF_WIRES if version in protocol_versions]
        self._threads = DaemonThreads(limit=_CONVERSION_THREADS)
        self._group: asyncio.TaskGroup | None = None
        self._health: health.aio.HealthServicer | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve while the context is open; raise InvalidInput if the port cannot be used."""
        server = grpc.aio.server(options=self._options())
        services = [service_name(version) for version in self._versions]
        for version, service in zip(self._versions, services, strict=True):
            handlers = {
                method.name: self._handler(PROTOBUF_WIRES[version], method)
                for method in METHODS[version]
            }
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service, handlers),)
            )
        self._health = await _add_health(server, services)
        _add_reflection(server, [*services, health.SERVICE_NAME])
        self._listen(server)
        await server.start()
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield
            finally:
                await self.drain()
                await server.stop(self._limits.grace)

    async def drain(self) -> None:
        """Report to health checks that no more calls should be sent."""
        if self._health is not None:
            await self._health.enter_graceful_shutdown()

    def _options(self) -> Sequence[tuple[str, int]]:
        limits = self._limits
        return (
            ("grpc.max_receive_message_length", limits.body),
            ("grpc.max_metadata_size", limits.headers),
            ("grpc.absolute_max_metadata_size", limits.headers),
            # Otherwise a second server could listen on the same port unnoticed.
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", max(1, round(limits.heartbeat)) * 1000),
            ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_SECONDS * 1000),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", _MIN_PING_SECONDS * 1000),
            ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
        )

    def _listen(self, server: Any) -> None:
        address = self._address
        try:
            if address.certificate is None:
                server.add_insecure_port(address.target)
                return
            chain = address.certificate.read_bytes()
            key = chain if address.private_key is None else address.private_key.read_bytes()
            authority = address.client_authority
            credentials = grpc.ssl_server_credentials(
                [(key, chain)],
                root_certificates=None if authority is None else authority.read_bytes(),
                require_client_auth=authority is not None,
            )
            server.add_secure_port(address.target, credentials)
        except (OSError, RuntimeError, ValueError) as error:
            raise InvalidInput(
                f"cannot serve gRPC on {address.target} ({error}); choose another --grpc-port, or 0"
            ) from None

    def _handler(self, wire: ProtobufWire, method: Method) -> Any:
        """Return the handler of a method.

        On the wire, a request is a stream of one message. It is read as one, so that the caller is
        authenticated before the message is received.
        """
        operation = wire.methods[method.name]
        path = f"/{service_name(wire.version)}/{method.name}"

        async def unary(_: Any, context: Any) -> bytes:
            exchange = self._exchange(wire, operation, path, context)
            result: bytes = await exchange.run()
            return result

        async def stream(_: Any, context: Any) -> None:
            await self._exchange(wire, operation, path, context).run()

        if method.is_stream:
            return grpc.stream_stream_rpc_method_handler(stream)
        return grpc.stream_unary_rpc_method_handler(unary)

    def _exchange(
        self, wire: ProtobufWire, operation: Operation, path: str, context: Any
    ) -> "GrpcExchange":
        assert self._group is not None  # noqa: S101 - calls are received while the context is open
        return GrpcExchange(
            self._dispatcher,
            wire=wire,
            operation=operation,
            request=_to_request(path, context, self._limits),
            context=context,
            group=self._group,
            threads=self._threads,
        )


class GrpcExchange:
    """One gRPC call with its response."""

    def __init__(
        self,
        dispatcher: RequestDispatcher,
        *,
        wire: ProtobufWire,
        operation: Operation,
        request: HttpRequest,
        context: Any,
        group: asyncio.TaskGroup,
        threads: DaemonThreads,
    ) -> None:
        self._dispatcher = dispatcher
        self._wire = wire
        self._operation = operation
        self._request = request
        self._context = context
        self._group = group
        self._threads = threads

    async def run(self) -> Any:
        """Return the encoded response, or None after a stream; abort the call if it fails."""
        request = self._request
        request.trace_id = trace_of_parent(request.trace_parent)
        began = time.perf_counter()
        status = _CLIENT_CLOSED_REQUEST
        try:
            response = await self._respond()
            status = 200
        except Exception as error:  # noqa: BLE001 - process boundary
            self._dispatcher.record_error(request, error)
            status = wire_error_for(error).http_status
            failure = error
        else:
            return response
        finally:
            if request.span is not None:
                request.span.end(request.span_error)
            if access_log.isEnabledFor(logging.INFO):
                log_access(request, status, began)
        await self._abort(failure)

    async def _receive(self) -> bytes:
        """Return the one message of the call."""
        limit = self._request.limits.receive
        try:
            async with asyncio.timeout(limit):
                message = await self._context.read()
        except TimeoutError:
            raise HttpError(408, f"the request took longer than {limit:g} seconds") from None
        if message is grpc.aio.EOF:
            raise InvalidInput("request: is missing; send one message")
        data: bytes = message
        return data

    async def _decode(self, body: bytes) -> Request:
        """Return the request in a message, or raise InvalidInput."""
        read, parts = self._wire.read_request, self._request.limits.parts
        if len(body) <= _MAX_INLINE_BYTES:
            return read(self._operation, body, max_parts=parts)
        return await self._threads.call(read, self._operation, body, max_parts=parts)

    async def _respond(self) -> bytes | None:
        self._request.check_head()
        result, extensions = await self._perform()
        await self._send_head(extensions)
        if isinstance(result, TaskStream):
            await self._send_items(result, extensions)
            return None
        return await self._encode(result)

    async def _perform(self) -> CallResult:
        """Perform the call to its end, even if the client cancels it or its deadline expires."""
        performed = self._dispatcher.handle_grpc(
            self._request,
            self._wire.wire,
            self._operation,
            receive=self._receive,
            decode=self._decode,
        )
        work = self._group.create_task(_capture(performed))
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            work.add_done_callback(_close_unread)
            raise
        result, error = work.result()
        if error is not None:
            raise error
        assert result is not None  # noqa: S101 - it is set if there is no error
        return result

    async def _send_head(self, extensions: NegotiatedExtensions) -> None:
        head = _to_metadata(extensions.headers)
        if parent := self._request.trace_parent:
            head.append(("traceresponse", parent))
        if head:
            await self._context.send_initial_metadata(head)

    async def _send_items(self, stream: TaskStream, extensions: NegotiatedExtensions) -> None:
        numbered = EVENT_IDS in extensions.active
        self._request.task_id = stream.task_id
        try:
            async with aclosing(stream.items()) as items:
                async for seq, item in items:
                    if item is None:
                        continue  # HTTP/2 has keepalive messages of its own
                    shown = extensions.show(item)
                    if numbered:
                        shown = add_event_id(shown, seq)
                    document = self._wire.wire.write_stream_item(
                        stream.task_id, stream.context_id, shown
                    )
                    await self._context.write(await self._encode(document))
        finally:
            stream.close()

    async def _encode(self, document: bytes) -> bytes:
        write = self._wire.write_response
        if len(document) <= _MAX_INLINE_BYTES:
            return write(self._operation, document)
        return await self._threads.call(write, self._operation, document)

    async def _abort(self, error: Exception) -> None:
        wire_error = wire_error_for(error)
        code = grpc.StatusCode[wire_error.status]
        headers = (
            error.headers
            if isinstance(error, HttpError)
            else error_headers(wire_error.http_status, error)
        )
        trailing = [
            (STATUS_METADATA, write_status(error, code.value[0])),
            *_to_metadata([pair for pair in headers if pair[0] != b"connection"]),
        ]
        await self._context.abort(code, grpc_message(error, self._wire.version), tuple(trailing))


async def _capture(work: Coroutine[Any, Any, T]) -> tuple[T | None, Exception | None]:
    try:
        return await work, None
    except Exception as error:  # noqa: BLE001 - raised in the call, not in the group
        return None, error


def _close_unread(work: "asyncio.Task[tuple[CallResult | None, Exception | None]]") -> None:
    """Close the stream of a call that the client has left."""
    result = None if work.cancelled() else work.result()[0]
    if result is not None and isinstance(result[0], TaskStream):
        result[0].close()


def _to_request(path: str, context: Any, limits: ServerLimits) -> HttpRequest:
    """Return the request that a gRPC call is in HTTP/2; its body is read separately."""

    async def no_body() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    headers = [
        (name.encode("latin-1"), value if isinstance(value, bytes) else value.encode("latin-1"))
        for name, value in context.invocation_metadata() or ()
    ]
    scope = {
        "type": "http",
        "http_version": "2",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": headers,
        "client": (_peer_host(context.peer()), 0),
        "extensions": _tls_extension(context),
    }
    return HttpRequest(scope, no_body, limits)


def _tls_extension(context: Any) -> dict[str, Any]:
    """Return the TLS extension of ASGI: the certificate of the client, which is verified."""
    (certificate, *_) = context.auth_context().get("x509_pem_cert") or (b"",)
    return {"tls": {"client_cert_chain": [certificate.decode()]}} if certificate else {}


def _peer_host(peer: str) -> str:
    """Return the address in a peer such as ipv4:127.0.0.1:5000 or ipv6:%5B::1%5D:5000."""
    _, _, address = unquote(peer).partition(":")
    return address.rpartition(":")[0].strip("[]")


def _to_metadata(headers: Headers | Sequence[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


async def _add_health(server: Any, services: Sequence[str]) -> Any:
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in ("", *services):
        await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    return servicer


def _add_reflection(server: Any, services: Sequence[str]) -> None:
    pool = schema_pool()
    for file in (health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR):
        pool.AddSerializedFile(file.serialized_pb)
    reflection.enable_server_reflection([*services, reflection.SERVICE_NAME], server, pool=pool)
