"""The one HTTP client for everything that leaves: push, cards, files and remote agents.

A name is resolved once, every address that it stands for is checked, and the connection goes to
one of exactly those. The pool is keyed by name, so TLS and the Host header see the name, and a
connection that was opened for one name is never used for another at the same address.
"""

import asyncio
import socket
import ssl
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from typing import Any, NamedTuple

import httpcore
import httpx

from acc.adapters.http.addresses import (
    Address,
    AllowList,
    Target,
    address_of,
    refused,
    shown_url,
    target_of,
)
from acc.domain.errors import AddressRefused, InvalidInput, InvalidResponse

#: No piece that comes out is larger, however much there is to come.
PIECE = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_BEGINS_GZIP = 0x1F
_ENCODINGS = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}


class Decompressor:
    """Unpacks gzip or deflate. Of gzip several may follow one another; what else follows is left.

    `is_over` once nothing more can come, `is_whole` if what came so far may be all there is.
    """

    def __init__(self, encoding: str) -> None:
        self._is_gzip = encoding == "gzip"
        self._stream: zlib._Decompress | None = None
        self.is_over = False

    @property
    def is_whole(self) -> bool:
        """Tell whether nothing was cut off."""
        return self._stream is None or self._stream.eof

    def pieces(self, packed: bytes) -> Iterator[bytes]:
        """Give what further bytes unpack to; zlib.error if they are broken."""
        is_more = False
        while packed or is_more:
            stream = self._at(packed)
            if stream is None:
                return
            piece = stream.decompress(packed, PIECE)
            is_more = len(piece) == PIECE and not stream.eof
            packed = stream.unused_data or stream.unconsumed_tail
            if piece:
                yield piece

    def _at(self, packed: bytes) -> "zlib._Decompress | None":
        """Return what unpacks the bytes that come, None if the end lies before them."""
        if self._stream is not None and not self._stream.eof:
            return self._stream
        if self._stream is not None and not (self._is_gzip and packed[0] == _BEGINS_GZIP):
            self.is_over = True
            return None
        self._stream = zlib.decompressobj(_GZIP if self._is_gzip else _deflate_bits(packed[0]))
        return self._stream


def _deflate_bits(first: int) -> int:
    """Return how deflate is written: with a head, as the standard wants it, or without."""
    return zlib.MAX_WBITS if first & 0x0F == 8 else -zlib.MAX_WBITS


def encoding_of(header: str) -> str | None:
    """Return the encoding that a header names, empty for none; None if it cannot be unpacked."""
    each = [name.strip() for name in header.lower().split(",")]
    named = [name for name in each if name not in ("", "identity")]
    if not named:
        return ""
    return _ENCODINGS.get(named[0]) if len(named) == 1 else None


MAX_BYTES = 16 * 1024 * 1024
STREAMING: Mapping[str, Any] = {"acc.streaming": True}
"""Given as `extensions=` of a request whose answer has no end that could be foreseen.

Then the answer's size is not bounded, unless it is compressed, and the timeout holds for each
piece of it.
"""
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_ORIGIN = "acc.origin"
_MOST_TOLD = 60
# All else might be a credential under a name that we do not know.
_KEPT_ACROSS_ORIGINS = frozenset(
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
_ERRORS: Mapping[type[Exception], type[httpx.TransportError]] = {
    getattr(httpcore, name): getattr(httpx, name)
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
    """Return the addresses that a name stands for, as the machine's resolver knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class NetworkOptions(NamedTuple):
    """How names become addresses, and addresses connections."""

    resolve: Resolve = resolve_name
    backend: httpcore.AsyncNetworkBackend | None = None
    tls: ssl.SSLContext | None = None


def guarded_client(
    *,
    allow: Sequence[str] = (),
    timeout: float = 10.0,
    max_bytes: int = MAX_BYTES,
    redirects: int = 0,
    headers: Mapping[str, str] | None = None,
    wiring: NetworkOptions | None = None,
) -> httpx.AsyncClient:
    """Return a client that cannot be talked into calling what it must not.

    It raises AddressRefused for a URL, or a redirect, to anything that is neither public nor on
    the allow-list, AnswerUnreadable for an answer of more than `max_bytes`, and httpx's own errors
    for the rest. It asks for answers that are not compressed; gzip and deflate are unpacked all
    the same, up to the same size. `timeout` is for a whole answer; see STREAMING for those without
    an end. Proxies, netrc and cookies are not used.
    """
    if timeout <= 0 or max_bytes <= 0 or redirects < 0:
        raise InvalidInput("timeout and max_bytes must be above 0, and redirects not below it")
    return _GuardedClient(
        transport=GuardedTransport(AllowList(allow), max_bytes, wiring or NetworkOptions()),
        timeout=timeout,
        follow_redirects=redirects > 0,
        max_redirects=redirects,
        headers=headers,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


async def check_url(
    url: str, allow: Sequence[str] = (), *, resolve: Resolve = resolve_name
) -> None:
    """Raise AddressRefused for a URL that the guarded client would not call as things stand."""
    target = target_of(_read_url(url))
    known = AllowList(allow)
    if known.check_host(target):
        return  # whatever it stands for, and be it nothing yet
    try:
        await _Gate(known, resolve).addresses(target)
    except OSError as fault:
        raise refused(target, f"it cannot be resolved ({fault})") from None


class _Gate:
    """Turns a target into the addresses to connect to."""

    def __init__(self, allow: AllowList, resolve: Resolve) -> None:
        self._allow = allow
        self._resolve = resolve

    async def addresses(self, target: Target) -> Sequence[Address]:
        is_named = self._allow.check_host(target)
        if target.address is not None:
            return [target.address]
        addresses = [ip_address(found) for found in await self._resolve(target.host, target.port)]
        if not addresses:
            raise OSError(f"{target.host} stands for no address")
        if not is_named:
            self._allow.check_addresses(target, addresses)
        return addresses


class _GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to checked addresses only."""

    def __init__(self, gate: _Gate, inner: httpcore.AsyncNetworkBackend) -> None:
        self._gate = gate
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        try:
            async with asyncio.timeout_at(end):
                target = Target(host.removesuffix("."), port, address_of(host))
                addresses = await self._gate.addresses(target)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host} was not resolved in time") from None
        except OSError as fault:
            raise httpcore.ConnectError(f"{host} cannot be resolved: {fault}") from fault
        failure: Exception = httpcore.ConnectError(f"{host} cannot be reached")
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            # An address that never answers must not use up the time of the others.
            share = None if end is None else max(0.001, (end - loop.time()) / left)
            try:
                return await self._inner.connect_tcp(
                    str(address), port, share, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as fault:
                failure = fault
        raise failure


class GuardedTransport(httpx.AsyncBaseTransport):
    """Sends each request, redirects too, only where it may go, and bounds what comes back."""

    def __init__(self, allow: AllowList, max_bytes: int, wiring: NetworkOptions) -> None:
        self._allow = allow
        self._max_bytes = max_bytes
        gate = _Gate(allow, wiring.resolve)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=wiring.tls or httpx.create_ssl_context(trust_env=False),
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=_GuardedBackend(gate, wiring.backend or httpcore.AnyIOBackend()),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its answer, of which nothing is read yet."""
        self._allow.check_host(target_of(request.url))
        _follow(request)
        # A few bytes could unpack to much, and a server that compresses streams may hold them back.
        request.headers["accept-encoding"] = "identity"
        is_streaming = bool(request.extensions.get("acc.streaming"))
        deadline = None if is_streaming else _deadline(request)
        sent = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated(request):
            async with asyncio.timeout_at(deadline):
                answer = await self._pool.handle_async_request(sent)
        body = _Body(answer, request, self._max_bytes, deadline)
        try:
            headers = body.opened()
        except InvalidResponse:
            await body.aclose()
            raise
        return httpx.Response(
            answer.status, headers=headers, stream=body, extensions=answer.extensions
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()


class _GuardedClient(httpx.AsyncClient):
    def build_request(self, method: str, url: httpx.URL | str, **rest: Any) -> httpx.Request:
        return super().build_request(method, _read_url(url), **rest)

    async def send(self, request: httpx.Request, **rest: Any) -> httpx.Response:
        try:
            return await super().send(request, **rest)
        except UnicodeError as fault:  # from a host of which httpx finds only now that it is none
            raise AddressRefused(f"a redirect leads to what cannot be called: {fault}") from None


class _Body(httpx.AsyncByteStream):
    """An answer's body, up to so many bytes and until so late."""

    def __init__(
        self,
        answer: httpcore.Response,
        request: httpx.Request,
        most: int,
        deadline: float | None,
    ) -> None:
        self._answer = answer
        self._request = request
        self._most = most
        self._is_stream = bool(request.extensions.get("acc.streaming"))
        self._deadline = deadline
        self._unpacker: Decompressor | None = None

    def opened(self) -> httpx.Headers:
        """Return the headers of the body as it will come out.

        AnswerUnreadable if they say that it cannot be taken.
        """
        headers = httpx.Headers(self._answer.headers)
        if self._request.method == "HEAD":  # which tells the length of a body that does not come
            return headers
        length = headers.get("content-length", "")
        if not self._is_stream and length.isdecimal() and int(length) > self._most:
            raise self._too_large()
        told = headers.get("content-encoding", "")
        encoding = encoding_of(told)
        if encoding is None:
            raise InvalidResponse(
                f"{shown_url(self._request.url)} answered with Content-Encoding {_plain(told)}, "
                "which cannot be unpacked here; it was asked for Accept-Encoding: identity, and "
                "that server or a proxy before it should heed this, or compress with gzip"
            )
        if encoding:
            self._unpacker = Decompressor(encoding)
            del headers["content-encoding"]
            headers.pop("content-length", None)
        return headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async with aclosing(self._pieces()) as pieces:
            while (piece := await self._next(pieces)) is not None:
                for part in self._unpacked(piece):
                    taken += len(part)
                    if taken > self._most and not (self._is_stream and self._unpacker is None):
                        raise self._too_large()
                    yield part
                if self._unpacker is not None and self._unpacker.is_over:
                    return
        if self._unpacker is not None and not (self._unpacker.is_whole or self._is_stream):
            cut = f"{shown_url(self._request.url)} broke off in the middle of a compressed answer"
            raise httpx.RemoteProtocolError(cut, request=self._request)

    def _unpacked(self, piece: bytes) -> Iterator[bytes]:
        """Give what a piece holds, a little at a time."""
        if self._unpacker is None:
            yield piece
            return
        try:
            yield from self._unpacker.pieces(piece)
        except zlib.error as fault:
            raise InvalidResponse(
                f"{shown_url(self._request.url)} sent a compressed answer that is broken: {fault}"
            ) from None

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        async for piece in self._answer.aiter_stream():
            yield piece

    async def _next(self, pieces: AsyncGenerator[bytes, None]) -> bytes | None:
        with _translated(self._request):
            async with asyncio.timeout_at(self._deadline):
                return await anext(pieces, None)

    async def aclose(self) -> None:
        with _translated(self._request):
            await self._answer.aclose()

    def _too_large(self) -> InvalidResponse:
        place = shown_url(self._request.url)
        return InvalidResponse(f"{place} answered with more than {self._most} bytes")


def _plain(header: str) -> str:
    return "".join(sign for sign in header if sign.isprintable())[:_MOST_TOLD]


def _read_url(url: httpx.URL | str) -> httpx.URL:
    try:
        found = httpx.URL(url)
        _ = found.host  # which httpx only reads, and may find to be no name, when it is sent
    except (httpx.InvalidURL, UnicodeError) as fault:
        raise AddressRefused(f"this is not a URL that can be called: {fault}") from None
    return found


def _follow(request: httpx.Request) -> None:
    """Check the step from the request before, if this one is a redirect, and note where we are."""
    url = request.url
    origin = (url.scheme, url.host, url.port)
    before = request.extensions.get(_ORIGIN, origin)
    request.extensions = {**request.extensions, _ORIGIN: origin}
    if before == origin:
        return
    if before[0] == "https" and url.scheme == "http":
        raise AddressRefused(f"a redirect leads from https to {shown_url(url)}, without encryption")
    for name in [name for name in request.headers if name not in _KEPT_ACROSS_ORIGINS]:
        del request.headers[name]


def _deadline(request: httpx.Request) -> float | None:
    seconds = request.extensions.get("timeout", {}).get("read")
    return None if seconds is None else asyncio.get_running_loop().time() + seconds


@contextmanager
def _translated(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except TimeoutError as fault:
        late = f"{shown_url(request.url)} did not answer in time"
        raise httpx.ReadTimeout(late, request=request) from fault
    except tuple(_ERRORS) as fault:
        kind = next(_ERRORS[base] for base in type(fault).__mro__ if base in _ERRORS)
        raise kind(str(fault), request=request) from fault
