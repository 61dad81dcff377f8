"""HTTP client for all outgoing requests, guarded against SSRF.

A host name is resolved once, every resolved address is checked, and the connection goes to one of
these addresses. The connection pool is keyed by host name: TLS and the Host header use the name,
and a connection that was opened for one name is not reused for another name at the same address.
"""

import asyncio
import math
import socket
import ssl
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import httpcore2
import httpx2

from acc.adapters.http.addresses import (
    Address,
    AllowList,
    Target,
    address_refused,
    display_origin,
    parse_address,
    parse_target,
)
from acc.domain.errors import AddressRefused, InvalidInput, InvalidResponse

MAX_RESPONSE_BYTES = 16 * 1024 * 1024
MAX_CHUNK_BYTES = 64 * 1024
STREAMING: Mapping[str, Any] = {"acc.streaming": True}
"""`extensions=` of a request whose response is a stream without a known end.

The size of the response is then limited by `MAX_STREAM_EXTENSION` only, unless it is compressed,
and the timeout applies to each chunk instead of the whole response.
"""
MAX_STREAM_EXTENSION = "acc.max_stream_bytes"
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_ORIGIN = "acc.origin"
_MAX_HEADER_DISPLAY_LENGTH = 60
_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
_GZIP_FIRST_BYTE = 0x1F
_ENCODINGS = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}
# Any other header may be a credential.
_HEADERS_FORWARDED_ACROSS_ORIGINS = frozenset(
    (
        "a2a-extensions",
        "a2a-version",
        "accept",
        "accept-encoding",
        "accept-language",
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    )
)
_ERRORS: Mapping[type[Exception], type[httpx2.TransportError]] = {
    getattr(httpcore2, name): getattr(httpx2, name)
    for name in (
        "ConnectError",
        "ConnectTimeout",
        "LocalProtocolError",
        "NetworkError",
        "PoolTimeout",
        "ProtocolError",
        "ReadError",
        "ReadTimeout",
        "RemoteProtocolError",
        "TimeoutException",
        "UnsupportedProtocol",
        "WriteError",
        "WriteTimeout",
    )
}


async def resolve_name(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host name according to the system resolver."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """Resolver, network backend and TLS contexts of a guarded client.

    `client_tls` has a client certificate, which is presented to `client_tls_origins` only.
    `client_files` are its files: the chain, and its key unless it is in the same file.
    """

    resolve: Resolve = resolve_name
    backend: httpcore2.AsyncNetworkBackend | None = None
    tls: ssl.SSLContext | None = None
    client_tls: ssl.SSLContext | None = None
    client_tls_origins: Collection[str] = ()
    client_files: tuple[Path, Path | None] | None = None
    idle_connections: int = 20


def guarded_client(
    *,
    allow: Sequence[str] = (),
    timeout: float = 10.0,
    max_bytes: int = MAX_RESPONSE_BYTES,
    redirects: int = 0,
    headers: Mapping[str, str] | None = None,
    network: NetworkOptions | None = None,
) -> httpx2.AsyncClient:
    """Return a client that calls only public addresses and those in `allow`.

    Redirects are checked like URLs. The client raises AddressRefused for a refused address,
    InvalidResponse for a response of more than `max_bytes`, and httpx2 errors for the rest. It
    requests uncompressed responses, but decompresses gzip and deflate up to the same size.
    `timeout` applies to a whole response; see STREAMING for streams. Proxies, netrc and cookies
    are not used.
    """
    if timeout <= 0 or max_bytes <= 0 or redirects < 0:
        raise InvalidInput("timeout and max_bytes must be positive, and redirects must be >= 0")
    return _GuardedClient(
        transport=GuardedTransport(allow=allow, max_bytes=max_bytes, network=network),
        timeout=timeout,
        follow_redirects=redirects > 0,
        max_redirects=redirects,
        headers=headers,
        trust_env=False,
        cookies=no_cookies(),
    )


def no_cookies() -> CookieJar:
    """Return a cookie jar that accepts no cookies."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


async def check_url(
    url: str, allow: Sequence[str] = (), *, resolve: Resolve = resolve_name
) -> None:
    """Raise AddressRefused for a URL that a guarded client would refuse at present."""
    target = parse_target(_parse_url(url))
    allow_list = AllowList(allow)
    if allow_list.check_host(target):
        return  # it may resolve to any address, or not yet resolve
    try:
        await _AddressPolicy(allow_list, resolve).addresses(target)
    except OSError as error:
        raise address_refused(target, f"it does not resolve ({error})") from None


async def resolve_allowed(
    host: str, port: int, *, allow: Sequence[str] = (), network: NetworkOptions | None = None
) -> Sequence[Address]:
    """Return the addresses of a host that a guarded client may connect to.

    Raise AddressRefused if the host is refused, and OSError if it does not resolve.
    """
    resolve = resolve_name if network is None else network.resolve
    target = Target(host.lower().removesuffix("."), port, parse_address(host))
    return await _AddressPolicy(AllowList(allow), resolve).addresses(target)


class TlsFiles(NamedTuple):
    """What a guarded client uses for TLS with an origin, as PEM; empty if there is none."""

    authorities: bytes
    key: bytes
    chain: bytes


def tls_files(origin: str, network: NetworkOptions | None = None) -> TlsFiles:
    """Return the trusted authorities, and the client certificate if the origin gets it."""
    network = network or NetworkOptions()
    context, key, chain = network.tls or _default_tls(), b"", b""
    if network.client_tls is not None and origin in network.client_tls_origins:
        context = network.client_tls
        if network.client_files is not None:
            chain_file, key_file = network.client_files
            chain, key = chain_file.read_bytes(), (key_file or chain_file).read_bytes()
    certificates = context.get_ca_certs(binary_form=True)
    authorities = "".join(map(ssl.DER_cert_to_PEM_cert, certificates)).encode()
    return TlsFiles(authorities, key, chain)


def event_source(response: httpx2.Response, *, max_event_bytes: int) -> httpx2.EventSource:
    """Return the server-sent events of a response; an event of more bytes raises SSEError."""
    # The format is always UTF-8, with an optional byte order mark, whatever the header says.
    response.encoding = "utf-8-sig"
    return httpx2.EventSource(response, max_event_size=max_event_bytes)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Transport that checks the address of each request and limits each response."""

    def __init__(
        self,
        *,
        allow: Sequence[str] = (),
        max_bytes: int = MAX_RESPONSE_BYTES,
        network: NetworkOptions | None = None,
    ) -> None:
        network = network or NetworkOptions()
        self._allow = AllowList(allow)
        self._max_bytes = max_bytes
        self._pool = self._make_pool(network.tls or _default_tls(), network)
        self._client_tls_origins = frozenset(network.client_tls_origins)
        self._client_tls_pool = (
            self._pool
            if network.client_tls is None
            else self._make_pool(network.client_tls, network)
        )

    def _make_pool(
        self, tls: ssl.SSLContext, network: NetworkOptions
    ) -> httpcore2.AsyncConnectionPool:
        return httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=100,
            max_keepalive_connections=network.idle_connections,
            keepalive_expiry=5.0,
            network_backend=_GuardedBackend(
                _AddressPolicy(self._allow, network.resolve),
                network.backend or httpcore2.AnyIOBackend(),
            ),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response with an unread body."""
        self._allow.check_host(parse_target(request.url))
        _check_redirect(request)
        # A small compressed body can expand to a huge one, and compression can delay streams.
        request.headers["accept-encoding"] = "identity"
        deadline = None if _is_streaming(request) else _deadline(request)
        origin = display_origin(request.url)
        pool = self._client_tls_pool if origin in self._client_tls_origins else self._pool
        with _map_errors(request):
            async with asyncio.timeout_at(deadline):
                response = await pool.handle_async_request(
                    httpcore2.Request(
                        method=request.method,
                        url=httpcore2.URL(
                            scheme=request.url.raw_scheme,
                            host=request.url.raw_host,
                            port=request.url.port,
                            target=request.url.raw_path,
                        ),
                        headers=request.headers.raw,
                        content=request.stream,
                        extensions=request.extensions,
                    )
                )
        body = _Body(response, request, max_bytes=self._max_bytes, deadline=deadline)
        try:
            headers = body.open()
        except InvalidResponse:
            await body.aclose()
            raise
        return httpx2.Response(
            response.status, headers=headers, stream=body, extensions=response.extensions
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()
        await self._client_tls_pool.aclose()


class Decompressor:
    """Incremental decompressor for gzip and deflate with bounded output chunks.

    Several gzip members may follow one another; other trailing data is ignored. `finished` is True
    once no more output can follow, `complete` if the input so far is not truncated.
    """

    def __init__(self, encoding: str) -> None:
        self._is_gzip = encoding == "gzip"
        self._stream: zlib._Decompress | None = None
        self.finished = False

    @property
    def complete(self) -> bool:
        """Return True if the input does not end within a compressed stream."""
        return self._stream is None or self._stream.eof

    def decompress(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed chunks of further input; raise zlib.error for corrupt input."""
        has_output = False
        while data or has_output:
            stream = self._stream_for(data)
            if stream is None:
                return
            chunk = stream.decompress(data, MAX_CHUNK_BYTES)
            has_output = len(chunk) == MAX_CHUNK_BYTES and not stream.eof
            data = stream.unused_data or stream.unconsumed_tail
            if chunk:
                yield chunk

    def _stream_for(self, data: bytes) -> "zlib._Decompress | None":
        if self._stream is not None and not self._stream.eof:
            return self._stream
        if self._stream is not None and not (self._is_gzip and data[0] == _GZIP_FIRST_BYTE):
            self.finished = True
            return None
        if self._is_gzip:
            bits = _GZIP_WINDOW_BITS
        else:  # deflate is sent with the zlib header of the standard, or without it
            bits = zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS
        self._stream = zlib.decompressobj(bits)
        return self._stream


def parse_content_encoding(header: str) -> str | None:
    """Return "gzip", "deflate" or "" for no encoding; None if the encoding is not supported."""
    names = [name.strip() for name in header.lower().split(",")]
    encodings = [name for name in names if name not in ("", "identity")]
    if not encodings:
        return ""
    return _ENCODINGS.get(encodings[0]) if len(encodings) == 1 else None


class _AddressPolicy:
    """Resolves a target to the addresses that may be connected to."""

    def __init__(self, allow: AllowList, resolve: Resolve) -> None:
        self._allow = allow
        self._resolve = resolve

    async def addresses(self, target: Target) -> Sequence[Address]:
        is_allowed = self._allow.check_host(target)
        if target.address is not None:
            return [target.address]
        addresses = [ip_address(text) for text in await self._resolve(target.host, target.port)]
        if not addresses:
            raise OSError(f"{target.host} has no address")
        if not is_allowed:
            self._allow.check_addresses(target, addresses)
        return addresses


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Network backend that connects only to checked addresses."""

    def __init__(self, policy: _AddressPolicy, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._policy = policy
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                target = Target(host.removesuffix("."), port, parse_address(host))
                addresses = await self._policy.addresses(target)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"{host} was not resolved in time") from None
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} cannot be resolved: {error}") from error
        failure: Exception = httpcore2.ConnectError(f"{host} cannot be reached")
        for remaining, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            # An address that does not answer must leave time for the others.
            share = None if deadline is None else max(0.001, (deadline - loop.time()) / remaining)
            try:
                return await self._inner.connect_tcp(
                    str(address), port, share, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure


class _GuardedClient(httpx2.AsyncClient):
    def build_request(self, method: str, url: httpx2.URL | str, **rest: Any) -> httpx2.Request:
        return super().build_request(method, _parse_url(url), **rest)


class _Body(httpx2.AsyncByteStream):
    """Response body with a limit of size and time, decompressed if necessary."""

    def __init__(
        self,
        response: httpcore2.Response,
        request: httpx2.Request,
        *,
        max_bytes: int,
        deadline: float | None,
    ) -> None:
        self._response = response
        self._request = request
        self._max_bytes = max_bytes
        self._is_streaming = _is_streaming(request)
        self._deadline = deadline
        self._decompressor: Decompressor | None = None

    def open(self) -> httpx2.Headers:
        """Return the headers of the decoded body; raise InvalidResponse if it is not acceptable."""
        headers = httpx2.Headers(self._response.headers)
        if self._request.method == "HEAD":  # its Content-Length describes a body that is not sent
            return headers
        length = headers.get("content-length", "")
        if not self._is_streaming and length.isdecimal() and int(length) > self._max_bytes:
            raise self._too_large(self._max_bytes)
        header = headers.get("content-encoding", "")
        encoding = parse_content_encoding(header)
        if encoding is None:
            name = "".join(char for char in header if char.isprintable())
            raise InvalidResponse(
                f"{self._origin} sent Content-Encoding {name[:_MAX_HEADER_DISPLAY_LENGTH]}, which "
                "is not supported; the server, or a proxy in front of it, must respect "
                "Accept-Encoding: identity, or use gzip"
            )
        if encoding:
            self._decompressor = Decompressor(encoding)
            del headers["content-encoding"]
            headers.pop("content-length", None)
        return headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        limit: float = self._max_bytes
        if self._is_streaming and self._decompressor is None:
            limit = self._request.extensions.get(MAX_STREAM_EXTENSION, math.inf)
        async with aclosing(self._raw_chunks()) as chunks:
            while (raw := await self._next(chunks)) is not None:
                for chunk in self._decode(raw):
                    size += len(chunk)
                    if size > limit:
                        raise self._too_large(limit)
                    yield chunk
                if self._decompressor is not None and self._decompressor.finished:
                    return
        if self._decompressor is not None and not (
            self._decompressor.complete or self._is_streaming
        ):
            raise httpx2.RemoteProtocolError(
                f"{self._origin} sent a truncated compressed response", request=self._request
            )

    def _decode(self, raw: bytes) -> Iterator[bytes]:
        if self._decompressor is None:
            yield raw
            return
        try:
            yield from self._decompressor.decompress(raw)
        except zlib.error as error:
            raise InvalidResponse(
                f"{self._origin} sent a corrupt compressed response: {error}"
            ) from None

    async def _raw_chunks(self) -> AsyncGenerator[bytes, None]:
        async for chunk in self._response.aiter_stream():
            yield chunk

    async def _next(self, chunks: AsyncGenerator[bytes, None]) -> bytes | None:
        with _map_errors(self._request):
            async with asyncio.timeout_at(self._deadline):
                return await anext(chunks, None)

    async def aclose(self) -> None:
        with _map_errors(self._request):
            await self._response.aclose()

    @property
    def _origin(self) -> str:
        return display_origin(self._request.url)

    def _too_large(self, limit: float) -> InvalidResponse:
        return InvalidResponse(f"{self._origin} sent more than {limit:.0f} bytes")


@lru_cache(maxsize=1)
def _default_tls() -> ssl.SSLContext:
    """Return the TLS context of the process; loading the certificates is slow.

    The authorities are those of the system, or of SSL_CERT_FILE or SSL_CERT_DIR.
    """
    try:
        return httpx2.create_ssl_context()
    except OSError as error:  # SSLError is one, too
        raise InvalidInput(
            "the CA certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be read: "
            f"{error.strerror or error}; expected certificates in PEM format"
        ) from None


def _parse_url(url: httpx2.URL | str) -> httpx2.URL:
    try:
        return httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise AddressRefused(f"the URL is invalid: {error}") from None


def _is_streaming(request: httpx2.Request) -> bool:
    return bool(request.extensions.get("acc.streaming"))


def _check_redirect(request: httpx2.Request) -> None:
    """Reject redirects to plain http and drop credentials when the origin changes."""
    url = request.url
    origin = (url.scheme, url.host, url.port)
    previous = request.extensions.get(_ORIGIN, origin)
    request.extensions = {**request.extensions, _ORIGIN: origin}
    if previous == origin:
        return
    if previous[0] == "https" and url.scheme == "http":
        raise AddressRefused(f"a redirect leads from https to {display_origin(url)}, unencrypted")
    for name in set(request.headers) - _HEADERS_FORWARDED_ACROSS_ORIGINS:
        del request.headers[name]


def _deadline(request: httpx2.Request) -> float | None:
    seconds = request.extensions.get("timeout", {}).get("read")
    return None if seconds is None else asyncio.get_running_loop().time() + seconds


@contextmanager
def _map_errors(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise httpx2.ReadTimeout(
            f"{display_origin(request.url)} did not respond in time", request=request
        ) from error
    except tuple(_ERRORS) as error:
        kind = next(_ERRORS[base] for base in type(error).__mro__ if base in _ERRORS)
        raise kind(str(error), request=request) from error
