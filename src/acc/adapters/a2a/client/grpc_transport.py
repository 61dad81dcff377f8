"""Calls over a gRPC interface of a remote agent."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any
from urllib.parse import urlsplit

import grpc

from acc.adapters.a2a.client.transport import (
    MAX_EVENT_BYTES,
    MAX_RETRY_AFTER_SECONDS,
    MAX_STREAM_BYTES,
    CallFailed,
    GrpcOptions,
    PresentedSecrets,
    StreamEvent,
    Unreachable,
    task_id_of,
)
from acc.adapters.a2a.wire.errors import error_from_grpc
from acc.adapters.a2a.wire.protobuf import PROTOBUF_WIRES, STATUS_METADATA, read_details
from acc.adapters.a2a.wire.protobuf_schema import service_name
from acc.adapters.a2a.wire.protocol import Operation, Wire
from acc.adapters.http.client import NetworkOptions, resolve_allowed, tls_files
from acc.adapters.http.retry import retry_after_seconds
from acc.application.a2a.extensions import EVENT_IDS
from acc.application.a2a.requests import Request
from acc.domain.errors import RemoteFailed, Unauthenticated
from acc.domain.value_objects.agent_card import Interface
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.endpoint import origin_of

#: A server may close connections with more frequent pings, unless it is known to accept them.
_KEEPALIVE_SECONDS = 310
_ACCEPTED_KEEPALIVE_SECONDS = 30
_KEEPALIVE_TIMEOUT_SECONDS = 20
#: Calls are retried with a longer backoff; meanwhile the channel must have connected again.
_FIRST_RECONNECT_MILLISECONDS = 200
_MAX_RECONNECT_MILLISECONDS = 2000
_CONNECT_FAILURES = ("failed to connect", "connection refused", "no address", "handshake")
_MAX_MESSAGE_LENGTH = 500
_RETRYABLE = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE"})


class GrpcTransport:
    """A gRPC interface, connected to an address that the address policy allows.

    The URL of the interface has the scheme grpc, or grpcs for TLS.
    """

    def __init__(self, interface: Interface, options: GrpcOptions) -> None:
        self._protobuf = PROTOBUF_WIRES["1.0" if interface.version.startswith("1") else "0.3"]
        self.interface = interface
        self.wire: Wire = self._protobuf.wire
        self._origin = origin_of(interface.url)
        self._options = options
        self._credentials = options.credentials
        self._secrets = PresentedSecrets()
        self._metadata = {name.lower(): value for name, value in options.headers.items()}
        self._metadata["a2a-version"] = self._protobuf.version
        self._channel: Any = None

    async def call(self, operation: Operation, request: Request, *, timeout: float) -> bytes:  # noqa: ASYNC109 - the deadline of the call
        """Return the result of a call as JSON."""
        data = self._encode(operation, request)
        method = (await self._connect()).unary_unary(self._path(operation))
        metadata = await self._call_metadata()
        try:
            try:
                response = await method(data, timeout=timeout, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                if not self._can_refresh(error):
                    raise
                # The call had no effect. The token may have been revoked before it expired.
                metadata = await self._call_metadata(refresh=True)
                response = await method(data, timeout=timeout, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise self._error_from(error, request) from None
        return self._protobuf.read_response(operation, response)

    async def stream(
        self,
        operation: Operation,
        request: Request,
        *,
        idle_timeout: float,
        last_event_id: str = "",
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the items of a stream.

        There is no idle timeout: keepalive messages of HTTP/2 detect a lost connection.
        """
        data = self._encode(operation, request)
        method = (await self._connect()).unary_stream(self._path(operation))
        metadata = await self._call_metadata(last_event_id=last_event_id)
        size = 0
        call = method(data, metadata=metadata)
        try:
            try:
                message = await call.read()
            except grpc.aio.AioRpcError as error:
                if not self._can_refresh(error):
                    raise
                metadata = await self._call_metadata(last_event_id=last_event_id, refresh=True)
                call = method(data, metadata=metadata)
                message = await call.read()
            while message is not grpc.aio.EOF:
                size += len(message)
                if size > MAX_STREAM_BYTES:
                    raise RemoteFailed(f"{self._origin} sent more than {MAX_STREAM_BYTES} bytes")
                event_id, document = self._protobuf.read_item(operation, message)
                yield StreamEvent(event_id, self.wire.read_stream_item(document))
                message = await call.read()
        except grpc.aio.AioRpcError as error:
            raise self._error_from(error, request) from None
        finally:
            call.cancel()

    async def aclose(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            await self._channel.close()

    def _encode(self, operation: Operation, request: Request) -> bytes:
        if self.interface.tenant:
            request = replace(request, tenant=self.interface.tenant)
        return self._protobuf.write_request(operation, request)

    def _path(self, operation: Operation) -> str:
        method = self._protobuf.by_operation[operation].name
        return f"/{service_name(self._protobuf.version)}/{method}"

    async def _call_metadata(
        self, *, last_event_id: str = "", refresh: bool = False
    ) -> tuple[tuple[str, str], ...]:
        metadata = dict(self._metadata)
        if last_event_id:
            metadata["last-event-id"] = last_event_id
        if self._credentials is not None:
            headers = await self._credentials.headers(self._options.card, refresh=refresh)
            metadata |= {name.lower(): value for name, value in self._secrets.note(headers).items()}
        return tuple(metadata.items())

    def _can_refresh(self, error: grpc.aio.AioRpcError) -> bool:
        is_rejected = error.code() is grpc.StatusCode.UNAUTHENTICATED
        return is_rejected and self._credentials is not None and self._credentials.can_refresh

    async def _connect(self) -> Any:
        """Return the channel to an allowed address of the host."""
        if self._channel is not None:
            return self._channel
        accepts_pings = any(
            extension.uri == EVENT_IDS for extension in self._options.card.extensions
        )
        self._channel = await open_channel(
            self.interface.url,
            allow=self._options.allow,
            network=self._options.network,
            keepalive=_ACCEPTED_KEEPALIVE_SECONDS if accepts_pings else _KEEPALIVE_SECONDS,
        )
        return self._channel

    def _error_from(self, error: grpc.aio.AioRpcError, request: Request) -> Exception:
        """Return the error of a failed call; its message never contains what was sent."""
        trailing = {
            key: value for key, value in error.trailing_metadata() or () if isinstance(key, str)
        }
        status = trailing.get(STATUS_METADATA, b"")
        details = read_details(status) if isinstance(status, bytes) else []
        code, message = error.code().name, self._secrets.hide(error.details() or "")
        wait = retry_after_seconds(
            {key: value for key, value in trailing.items() if isinstance(value, str)}
        )
        text = f"{self._origin}: {code} {message[:_MAX_MESSAGE_LENGTH]}".rstrip()
        if code == "UNIMPLEMENTED" and not details:
            return Unreachable(f"{self._origin} does not implement the method", retryable=False)
        if code == "UNAVAILABLE" and not details and is_connect_failure(message):
            return Unreachable(f"{self._origin} cannot be reached: {message}", retryable=True)
        if code in _RETRYABLE or (code == "RESOURCE_EXHAUSTED" and wait is not None):
            wait = None if wait is None else min(wait, MAX_RETRY_AFTER_SECONDS)
            return CallFailed(text, retryable=True, retry_after=wait)
        if code == "UNAUTHENTICATED" and not message:
            return Unauthenticated(f"{self._origin} requires a valid token")
        return error_from_grpc(code, message, details, task_id=task_id_of(request))


def is_connect_failure(message: str) -> bool:
    """Return True if gRPC reports that no connection was established."""
    return any(text in message.lower() for text in _CONNECT_FAILURES)


async def open_channel(
    url: str,
    *,
    allow: Sequence[str],
    network: NetworkOptions | None = None,
    keepalive: float = _KEEPALIVE_SECONDS,
) -> Any:
    """Return a channel to an allowed address of a URL with the scheme grpc or grpcs.

    `keepalive` is the number of seconds between pings. Raise AddressRefused if the address is
    refused, and Unreachable if the name does not resolve.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    try:
        addresses = await resolve_allowed(host, port, allow=allow, network=network)
    except OSError as error:
        raise Unreachable(
            f"{origin_of(url)} cannot be reached: {host} does not resolve ({error})",
            retryable=True,
        ) from None
    # One family: a channel has either IPv4 or IPv6 addresses.
    version = addresses[0].version
    listed = [str(one) for one in addresses if one.version == version]
    target = f"ipv{version}:" + ",".join(
        f"{one}:{port}" if version == 4 else f"[{one}]:{port}" for one in listed
    )
    options: list[tuple[str, Any]] = [
        ("grpc.default_authority", parts.netloc),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", MAX_EVENT_BYTES),
        ("grpc.initial_reconnect_backoff_ms", _FIRST_RECONNECT_MILLISECONDS),
        ("grpc.max_reconnect_backoff_ms", _MAX_RECONNECT_MILLISECONDS),
        ("grpc.keepalive_time_ms", round(keepalive * 1000)),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_SECONDS * 1000),
    ]
    if parts.scheme != "grpcs":
        return grpc.aio.insecure_channel(target, options=options)
    files = tls_files(origin_of(url), network)
    credentials = grpc.ssl_channel_credentials(
        files.authorities or None, files.key or None, files.chain or None
    )
    options.append(("grpc.ssl_target_name_override", host))
    return grpc.aio.secure_channel(target, credentials, options=options)
