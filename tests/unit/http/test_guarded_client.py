import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from loopback import FakeResolver, LoopbackBackend, http_server, redirect, respond

from acc.adapters.http.client import STREAMING, NetworkOptions, guarded_client
from acc.domain.errors import AddressRefused, InvalidInput, RemoteFailed

PUBLIC = "93.184.215.14"
OTHER = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
LOOPBACK = ("127.0.0.1",)


async def test_loopback_is_refused_without_connecting() -> None:
    async with http_server(respond("secret")) as site, guarded_client() as client:
        with pytest.raises(AddressRefused, match="allow-list"):
            await client.get(f"http://127.0.0.1:{site.port}/")
    assert site.connections == 0


async def test_loopback_is_called_if_allowed() -> None:
    async with (
        http_server(respond("hello")) as site,
        guarded_client(allow=[f"127.0.0.1:{site.port}"]) as client,
    ):
        assert (await client.get(f"http://127.0.0.1:{site.port}/")).text == "hello"


async def test_system_resolver_addresses_are_checked() -> None:
    async with http_server(respond("hello")) as site:
        async with guarded_client() as client:
            with pytest.raises(AddressRefused):
                await client.get(f"http://localhost:{site.port}/")
        assert site.connections == 0
        async with guarded_client(allow=["localhost"]) as client:
            assert (await client.get(f"http://localhost:{site.port}/")).text == "hello"


async def test_connection_uses_checked_address_and_original_host() -> None:
    async with http_server(respond("hello")) as site:
        resolver, backend = FakeResolver(agent_example=[[PUBLIC]]), LoopbackBackend(site.port)
        async with guarded_client(
            network=NetworkOptions(resolve=resolver, backend=backend)
        ) as client:
            response = await client.get("http://agent.example/card")
    assert response.text == "hello"
    assert resolver.queries == ["agent.example"]
    assert backend.connected == [PUBLIC]
    assert "Host: agent.example\r\n" in site.requests[0]


async def test_name_is_resolved_once_per_connection() -> None:
    async with http_server(respond("hello")) as site:
        resolver, backend = (
            FakeResolver(agent_example=[[PUBLIC], ["127.0.0.1"]]),
            LoopbackBackend(site.port),
        )
        async with guarded_client(
            network=NetworkOptions(resolve=resolver, backend=backend)
        ) as client:
            assert (await client.get("http://agent.example/")).text == "hello"
            assert backend.connected == [PUBLIC]
            await client.get("http://agent.example/")
            assert backend.connected == [PUBLIC], "the open connection is used again"
        async with guarded_client(
            network=NetworkOptions(resolve=resolver, backend=backend)
        ) as client:
            with pytest.raises(AddressRefused):
                await client.get("http://agent.example/")
    assert backend.connected == [PUBLIC]


async def test_name_with_one_private_address_is_refused() -> None:
    backend = LoopbackBackend(1)
    network = NetworkOptions(
        resolve=FakeResolver(agent_example=[[PUBLIC, OTHER, "10.0.0.1"]]), backend=backend
    )
    async with guarded_client(network=network) as client:
        with pytest.raises(AddressRefused) as caught:
            await client.get("http://agent.example/")
    assert "10.0.0.1" not in str(caught.value)
    assert "10.0.0.1" in caught.value.detail
    assert backend.connected == []


async def test_unresponsive_address_leaves_time_for_next() -> None:
    async with http_server(respond("hello")) as site:
        backend = LoopbackBackend(site.port, unresponsive=[OTHER])
        network = NetworkOptions(
            resolve=FakeResolver(agent_example=[[OTHER, PUBLIC]]), backend=backend
        )
        async with guarded_client(network=network, timeout=0.5) as client:
            assert (await client.get("http://agent.example/")).text == "hello"
    assert backend.connected == [OTHER, PUBLIC]


async def test_name_without_address_raises_connect_error() -> None:
    async with guarded_client(
        network=NetworkOptions(resolve=FakeResolver(empty_example=[[]]))
    ) as client:
        for host in ("nowhere.example", "empty.example"):
            with pytest.raises(httpx2.ConnectError, match=host):
                await client.get(f"http://{host}/")


async def test_hanging_resolver_times_out() -> None:
    async def hang(host: str, port: int) -> list[str]:
        await asyncio.sleep(60)
        return []

    async with guarded_client(timeout=0.05, network=NetworkOptions(resolve=hang)) as client:
        with pytest.raises(httpx2.TimeoutException):
            await client.get("http://agent.example/")
        with pytest.raises(httpx2.ConnectTimeout, match="not resolved"):
            await client.get("http://agent.example/", extensions=dict(STREAMING))


async def test_closed_port_raises_connect_error() -> None:
    async with http_server(respond("")) as site:
        port = site.port
    async with guarded_client(allow=LOOPBACK) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/")


async def test_redirects_are_not_followed_by_default() -> None:
    async with (
        http_server(redirect(lambda: "http://10.0.0.1/")) as site,
        guarded_client(allow=LOOPBACK) as client,
    ):
        response = await client.get(f"http://127.0.0.1:{site.port}/")
        assert response.status_code == 307
        with pytest.raises(httpx2.TooManyRedirects):
            await client.get(f"http://127.0.0.1:{site.port}/", follow_redirects=True)


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/",
        "http://[2002:7f00:1::]/",
        "http://2130706433/",
        "http://user:pass@127.0.0.1/",
        "//10.0.0.1/",
        "ftp://127.0.0.1/",
    ],
)
async def test_redirect_to_refused_address_fails(location: str) -> None:
    async with (
        http_server(redirect(lambda: location)) as site,
        guarded_client(allow=LOOPBACK, redirects=3) as client,
    ):
        with pytest.raises((AddressRefused, httpx2.UnsupportedProtocol)):
            await client.get(f"http://127.0.0.1:{site.port}/")
    assert site.connections == 1


async def test_redirect_to_other_port_than_allowed_fails() -> None:
    async with (
        http_server(respond("secret")) as inner,
        http_server(redirect(lambda: f"http://127.0.0.1:{inner.port}/")) as outer,
        guarded_client(allow=[f"127.0.0.1:{outer.port}"], redirects=3) as client,
    ):
        with pytest.raises(AddressRefused):
            await client.get(f"http://127.0.0.1:{outer.port}/")
    assert inner.connections == 0


async def test_redirects_are_followed_up_to_limit() -> None:
    async with (
        http_server(redirect(lambda: "/again")) as site,
        guarded_client(allow=LOOPBACK, redirects=2) as client,
    ):
        with pytest.raises(httpx2.TooManyRedirects):
            await client.get(f"http://127.0.0.1:{site.port}/")
    assert len(site.requests) == 3


async def test_credentials_are_dropped_on_redirect_to_other_origin() -> None:
    sent = {
        "Authorization": "Bearer abc",
        "X-API-Key": "abc",
        "X-A2A-Notification-Token": "abc",
        "A2A-Version": "1.0",
    }
    async with (
        http_server(respond("done")) as other,
        http_server(redirect(lambda: f"http://127.0.0.1:{other.port}/")) as first,
        guarded_client(allow=LOOPBACK, redirects=1) as client,
    ):
        response = await client.get(f"http://127.0.0.1:{first.port}/", headers=sent)
    assert response.text == "done"
    assert first.requests[0].count("abc") == 3
    assert "abc" not in other.requests[0]
    assert "A2A-Version: 1.0" in other.requests[0]
    assert f"Host: 127.0.0.1:{other.port}" in other.requests[0]


async def test_credentials_are_sent_on_redirect_within_origin() -> None:
    async with (
        http_server(redirect(lambda: "/again")) as site,
        guarded_client(allow=LOOPBACK, redirects=1) as client,
    ):
        with pytest.raises(httpx2.TooManyRedirects):
            await client.get(f"http://127.0.0.1:{site.port}/", headers={"X-API-Key": "abc"})
    assert all("abc" in head for head in site.requests)


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the TLS contexts of a server and a client for a host name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "both.pem"
    pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(pem)
    return server, ssl.create_default_context(
        cadata=made.public_bytes(serialization.Encoding.PEM).decode()
    )


async def test_tls_verifies_host_name(tmp_path: Path) -> None:
    server, trust = certificate(tmp_path, "agent.example")
    async with http_server(respond("hello"), server) as site:
        resolver = FakeResolver(agent_example=[[PUBLIC]], other_example=[[PUBLIC]])
        network = NetworkOptions(resolve=resolver, backend=LoopbackBackend(site.port), tls=trust)
        async with guarded_client(network=network) as client:
            assert (await client.get("https://agent.example/")).text == "hello"
            with pytest.raises(httpx2.ConnectError, match="(?i)hostname mismatch"):
                await client.get("https://other.example/")


async def test_redirect_from_https_to_http_fails(tmp_path: Path) -> None:
    server, trust = certificate(tmp_path, "agent.example")
    async with http_server(redirect(lambda: "http://agent.example/"), server) as site:
        backend = LoopbackBackend(site.port)
        network = NetworkOptions(
            resolve=FakeResolver(agent_example=[[PUBLIC]]), backend=backend, tls=trust
        )
        async with guarded_client(network=network, redirects=3) as client:
            with pytest.raises(AddressRefused, match="https"):
                await client.get("https://agent.example/")
            response = await client.get("https://agent.example/", follow_redirects=False)
            assert response.next_request is not None
            with pytest.raises(AddressRefused, match="https"):
                await client.send(response.next_request)
    assert backend.connected == [PUBLIC]


async def test_response_with_large_content_length_fails() -> None:
    async with (
        http_server(respond("x" * 2000)) as site,
        guarded_client(allow=LOOPBACK, max_bytes=1000) as client,
    ):
        with pytest.raises(RemoteFailed, match="more than 1000 bytes"):
            await client.get(f"http://127.0.0.1:{site.port}/")


async def endless(head: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
        await writer.drain()


async def test_endless_response_fails_at_limit() -> None:
    async with (
        http_server(endless) as site,
        guarded_client(allow=LOOPBACK, max_bytes=100_000) as client,
    ):
        with pytest.raises(RemoteFailed, match="more than 100000 bytes"):
            await client.get(f"http://127.0.0.1:{site.port}/")
        with pytest.raises(RemoteFailed, match="more than 100000 bytes"):
            async with client.stream("GET", f"http://127.0.0.1:{site.port}/") as response:
                async for _ in response.aiter_bytes():
                    pass


async def test_streaming_response_may_exceed_limit() -> None:
    async with (
        http_server(endless) as site,
        guarded_client(allow=LOOPBACK, max_bytes=1000) as client,
    ):
        url = f"http://127.0.0.1:{site.port}/"
        taken = 0
        async with client.stream("GET", url, extensions=dict(STREAMING)) as response:
            async for chunk in response.aiter_bytes():
                taken += len(chunk)
                if taken > 50_000:
                    break
        assert taken > 50_000


async def drip(head: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
    for _ in range(10):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.06)


async def drip_headers(head: str, writer: asyncio.StreamWriter) -> None:
    for letter in b"HTTP/1.1 200 OK\r\n":
        writer.write(bytes([letter]))
        await writer.drain()
        await asyncio.sleep(0.06)


async def test_timeout_applies_to_whole_response() -> None:
    for response in (drip, drip_headers):
        async with (
            http_server(response) as site,
            guarded_client(allow=LOOPBACK, timeout=0.2) as client,
        ):
            with pytest.raises(httpx2.ReadTimeout, match="in time"):
                await client.get(f"http://127.0.0.1:{site.port}/")


async def test_timeout_of_stream_applies_to_each_chunk() -> None:
    async with http_server(drip) as site, guarded_client(allow=LOOPBACK, timeout=0.3) as client:
        url = f"http://127.0.0.1:{site.port}/"
        async with client.stream("GET", url, extensions=dict(STREAMING)) as response:
            assert await response.aread() == b"x" * 10
        assert (await client.get(url, timeout=None)).text == "x" * 10


async def test_cookies_are_ignored() -> None:
    async with (
        http_server(respond("", "Set-Cookie: session=abc; Path=/")) as site,
        guarded_client(allow=LOOPBACK) as client,
    ):
        for _ in range(2):
            await client.get(f"http://127.0.0.1:{site.port}/")
    assert not any("cookie" in head.lower() for head in site.requests)


async def test_environment_proxies_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with http_server(respond("hello")) as site, guarded_client(allow=LOOPBACK) as client:
        assert (await client.get(f"http://127.0.0.1:{site.port}/")).text == "hello"


async def test_invalid_url_is_refused() -> None:
    async with guarded_client() as client:
        for url in ("http://１２７.０.０.１/", "http://a:b/", "http://a\x00b/"):
            with pytest.raises(AddressRefused):
                await client.get(url)


async def test_malformed_response_raises_protocol_error() -> None:
    async def malformed(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"nonsense\r\n\r\n")

    async with http_server(malformed) as site, guarded_client(allow=LOOPBACK) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(f"http://127.0.0.1:{site.port}/")


async def test_client_headers_are_sent() -> None:
    async with (
        http_server(respond("hello")) as site,
        guarded_client(allow=LOOPBACK, headers={"X-Mine": "1"}) as client,
    ):
        await client.get(f"http://127.0.0.1:{site.port}/")
    assert "X-Mine: 1" in site.requests[0]


async def test_head_returns_length_beyond_limit() -> None:
    async def send_length(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n")

    async with (
        http_server(send_length) as site,
        guarded_client(allow=LOOPBACK, max_bytes=1000) as client,
    ):
        response = await client.head(f"http://127.0.0.1:{site.port}/")
    assert response.headers["content-length"] == "2000"


def test_invalid_limits_are_rejected() -> None:
    with pytest.raises(InvalidInput):
        guarded_client(timeout=0)
    with pytest.raises(InvalidInput):
        guarded_client(max_bytes=0)
    with pytest.raises(InvalidInput):
        guarded_client(redirects=-1)
