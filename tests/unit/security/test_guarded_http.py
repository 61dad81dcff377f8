import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from loopback import Detour, Names, leads_to, says, site

from acc.adapters.http.client import STREAMING, NetworkOptions, guarded_client
from acc.domain.errors import AddressRefused, InvalidInput, RemoteFailed

PUBLIC = "93.184.215.14"
OTHER = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
LOOPBACK = ("127.0.0.1",)


async def test_the_loopback_is_refused_and_nobody_is_called() -> None:
    async with site(says("secret")) as here, guarded_client() as client:
        with pytest.raises(AddressRefused, match="allow-list"):
            await client.get(f"http://127.0.0.1:{here.port}/")
    assert here.connections == 0


async def test_the_loopback_is_called_where_the_allow_list_says_so() -> None:
    async with (
        site(says("hello")) as here,
        guarded_client(allow=[f"127.0.0.1:{here.port}"]) as client,
    ):
        assert (await client.get(f"http://127.0.0.1:{here.port}/")).text == "hello"


async def test_a_real_name_is_resolved_and_its_addresses_checked() -> None:
    async with site(says("hello")) as here:
        async with guarded_client() as client:
            with pytest.raises(AddressRefused):
                await client.get(f"http://localhost:{here.port}/")
        assert here.connections == 0
        async with guarded_client(allow=["localhost"]) as client:
            assert (await client.get(f"http://localhost:{here.port}/")).text == "hello"


async def test_the_connection_goes_to_the_address_that_was_checked_under_the_same_name() -> None:
    async with site(says("hello")) as here:
        names, detour = Names(agent_example=[[PUBLIC]]), Detour(here.port)
        async with guarded_client(wiring=NetworkOptions(names, detour)) as client:
            answer = await client.get("http://agent.example/card")
    assert answer.text == "hello"
    assert names.asked == ["agent.example"]
    assert detour.dialled == [PUBLIC]
    assert "Host: agent.example\r\n" in here.heads[0]


async def test_a_name_that_turns_bad_after_the_check_is_not_resolved_again() -> None:
    async with site(says("hello")) as here:
        names, detour = Names(agent_example=[[PUBLIC], ["127.0.0.1"]]), Detour(here.port)
        async with guarded_client(wiring=NetworkOptions(names, detour)) as client:
            assert (await client.get("http://agent.example/")).text == "hello"
            assert detour.dialled == [PUBLIC]
            await client.get("http://agent.example/")
            assert detour.dialled == [PUBLIC], "the open connection is used again"
        async with guarded_client(wiring=NetworkOptions(names, detour)) as client:
            with pytest.raises(AddressRefused):
                await client.get("http://agent.example/")
    assert detour.dialled == [PUBLIC]


async def test_one_bad_address_among_several_refuses_all() -> None:
    detour = Detour(1)
    wiring = NetworkOptions(Names(agent_example=[[PUBLIC, OTHER, "10.0.0.1"]]), detour)
    async with guarded_client(wiring=wiring) as client:
        with pytest.raises(AddressRefused) as caught:
            await client.get("http://agent.example/")
    assert "10.0.0.1" not in str(caught.value)
    assert "10.0.0.1" in caught.value.detail
    assert detour.dialled == []


async def test_an_address_that_never_answers_leaves_time_for_the_next() -> None:
    async with site(says("hello")) as here:
        detour = Detour(here.port, deaf=[OTHER])
        wiring = NetworkOptions(Names(agent_example=[[OTHER, PUBLIC]]), detour)
        async with guarded_client(wiring=wiring, timeout=0.5) as client:
            assert (await client.get("http://agent.example/")).text == "hello"
    assert detour.dialled == [OTHER, PUBLIC]


async def test_a_name_without_address_cannot_be_connected_to() -> None:
    async with guarded_client(wiring=NetworkOptions(Names(empty_example=[[]]))) as client:
        for host in ("nowhere.example", "empty.example"):
            with pytest.raises(httpx.ConnectError, match=host):
                await client.get(f"http://{host}/")


async def test_a_resolver_that_hangs_is_not_waited_for() -> None:
    async def hang(host: str, port: int) -> list[str]:
        await asyncio.sleep(60)
        return []

    async with guarded_client(timeout=0.05, wiring=NetworkOptions(hang)) as client:
        with pytest.raises(httpx.TimeoutException):
            await client.get("http://agent.example/")
        with pytest.raises(httpx.ConnectTimeout, match="not resolved"):
            await client.get("http://agent.example/", extensions=dict(STREAMING))


async def test_nobody_listening_is_a_connection_error() -> None:
    async with site(says("")) as here:
        port = here.port
    async with guarded_client(allow=LOOPBACK) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/")


async def test_redirects_are_not_followed_unless_asked_for() -> None:
    async with (
        site(leads_to(lambda: "http://10.0.0.1/")) as here,
        guarded_client(allow=LOOPBACK) as client,
    ):
        answer = await client.get(f"http://127.0.0.1:{here.port}/")
        assert answer.status_code == 307
        with pytest.raises(httpx.TooManyRedirects):
            await client.get(f"http://127.0.0.1:{here.port}/", follow_redirects=True)


@pytest.mark.parametrize(
    "place",
    [
        "http://169.254.169.254/latest/",
        "http://[2002:7f00:1::]/",
        "http://2130706433/",
        "http://user:pass@127.0.0.1/",
        "//10.0.0.1/",
        "ftp://127.0.0.1/",
        "http://xn--a.example/",
    ],
)
async def test_a_redirect_to_a_bad_address_is_refused(place: str) -> None:
    async with (
        site(leads_to(lambda: place)) as here,
        guarded_client(allow=LOOPBACK, redirects=3) as client,
    ):
        with pytest.raises((AddressRefused, httpx.UnsupportedProtocol)):
            await client.get(f"http://127.0.0.1:{here.port}/")
    assert here.connections == 1


async def test_a_redirect_to_another_port_than_the_allowed_one_is_refused() -> None:
    async with (
        site(says("secret")) as inner,
        site(leads_to(lambda: f"http://127.0.0.1:{inner.port}/")) as outer,
        guarded_client(allow=[f"127.0.0.1:{outer.port}"], redirects=3) as client,
    ):
        with pytest.raises(AddressRefused):
            await client.get(f"http://127.0.0.1:{outer.port}/")
    assert inner.connections == 0


async def test_a_good_redirect_is_followed_so_many_times() -> None:
    async with (
        site(leads_to(lambda: "/again")) as here,
        guarded_client(allow=LOOPBACK, redirects=2) as client,
    ):
        with pytest.raises(httpx.TooManyRedirects):
            await client.get(f"http://127.0.0.1:{here.port}/")
    assert len(here.heads) == 3


async def test_credentials_do_not_cross_to_another_origin() -> None:
    sent = {
        "Authorization": "Bearer abc",
        "X-API-Key": "abc",
        "X-A2A-Notification-Token": "abc",
        "A2A-Version": "1.0",
    }
    async with (
        site(says("done")) as other,
        site(leads_to(lambda: f"http://127.0.0.1:{other.port}/")) as first,
        guarded_client(allow=LOOPBACK, redirects=1) as client,
    ):
        answer = await client.get(f"http://127.0.0.1:{first.port}/", headers=sent)
    assert answer.text == "done"
    assert first.heads[0].count("abc") == 3
    assert "abc" not in other.heads[0]
    assert "A2A-Version: 1.0" in other.heads[0]
    assert f"Host: 127.0.0.1:{other.port}" in other.heads[0]


async def test_credentials_stay_within_one_origin() -> None:
    async with (
        site(leads_to(lambda: "/again")) as here,
        guarded_client(allow=LOOPBACK, redirects=1) as client,
    ):
        with pytest.raises(httpx.TooManyRedirects):
            await client.get(f"http://127.0.0.1:{here.port}/", headers={"X-API-Key": "abc"})
    assert all("abc" in head for head in here.heads)


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return what a server and a client need for TLS under a name."""
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


async def test_tls_checks_the_name_although_the_address_is_dialled(tmp_path: Path) -> None:
    server, trust = certificate(tmp_path, "agent.example")
    async with site(says("hello"), server) as here:
        names = Names(agent_example=[[PUBLIC]], other_example=[[PUBLIC]])
        wiring = NetworkOptions(names, Detour(here.port), trust)
        async with guarded_client(wiring=wiring) as client:
            assert (await client.get("https://agent.example/")).text == "hello"
            with pytest.raises(httpx.ConnectError, match="(?i)hostname mismatch"):
                await client.get("https://other.example/")


async def test_a_redirect_never_gives_up_encryption(tmp_path: Path) -> None:
    server, trust = certificate(tmp_path, "agent.example")
    async with site(leads_to(lambda: "http://agent.example/"), server) as here:
        detour = Detour(here.port)
        wiring = NetworkOptions(Names(agent_example=[[PUBLIC]]), detour, trust)
        async with guarded_client(wiring=wiring, redirects=3) as client:
            with pytest.raises(AddressRefused, match="https"):
                await client.get("https://agent.example/")
            answer = await client.get("https://agent.example/", follow_redirects=False)
            assert answer.next_request is not None
            with pytest.raises(AddressRefused, match="https"):
                await client.send(answer.next_request)
    assert detour.dialled == [PUBLIC]


async def test_an_answer_that_says_it_is_huge_is_not_read() -> None:
    async with (
        site(says("x" * 2000)) as here,
        guarded_client(allow=LOOPBACK, max_bytes=1000) as client,
    ):
        with pytest.raises(RemoteFailed, match="more than 1000 bytes"):
            await client.get(f"http://127.0.0.1:{here.port}/")


async def endless(head: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
        await writer.drain()


async def test_an_answer_without_end_is_cut_off() -> None:
    async with site(endless) as here, guarded_client(allow=LOOPBACK, max_bytes=100_000) as client:
        with pytest.raises(RemoteFailed, match="more than 100000 bytes"):
            await client.get(f"http://127.0.0.1:{here.port}/")
        with pytest.raises(RemoteFailed, match="more than 100000 bytes"):
            async with client.stream("GET", f"http://127.0.0.1:{here.port}/") as answer:
                async for _ in answer.aiter_bytes():
                    pass


async def test_a_stream_may_be_longer_if_that_is_asked_for() -> None:
    async with site(endless) as here, guarded_client(allow=LOOPBACK, max_bytes=1000) as client:
        url = f"http://127.0.0.1:{here.port}/"
        taken = 0
        async with client.stream("GET", url, extensions=dict(STREAMING)) as answer:
            async for piece in answer.aiter_bytes():
                taken += len(piece)
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


async def test_the_timeout_is_for_the_whole_answer() -> None:
    for answer in (drip, drip_headers):
        async with site(answer) as here, guarded_client(allow=LOOPBACK, timeout=0.2) as client:
            with pytest.raises(httpx.ReadTimeout, match="in time"):
                await client.get(f"http://127.0.0.1:{here.port}/")


async def test_the_timeout_of_a_stream_is_for_each_piece() -> None:
    async with site(drip) as here, guarded_client(allow=LOOPBACK, timeout=0.3) as client:
        url = f"http://127.0.0.1:{here.port}/"
        async with client.stream("GET", url, extensions=dict(STREAMING)) as answer:
            assert await answer.aread() == b"x" * 10
        assert (await client.get(url, timeout=None)).text == "x" * 10


async def test_no_cookie_is_kept() -> None:
    async with (
        site(says("", "Set-Cookie: session=abc; Path=/")) as here,
        guarded_client(allow=LOOPBACK) as client,
    ):
        for _ in range(2):
            await client.get(f"http://127.0.0.1:{here.port}/")
    assert not any("cookie" in head.lower() for head in here.heads)


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with site(says("hello")) as here, guarded_client(allow=LOOPBACK) as client:
        assert (await client.get(f"http://127.0.0.1:{here.port}/")).text == "hello"


async def test_what_is_no_url_is_refused_as_one() -> None:
    async with guarded_client() as client:
        for url in ("http://１２７.０.０.１/", "http://a:b/", "http://a\x00b/"):
            with pytest.raises(AddressRefused):
                await client.get(url)


async def test_a_broken_answer_is_an_error_of_httpx() -> None:
    async def nonsense(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"nonsense\r\n\r\n")

    async with site(nonsense) as here, guarded_client(allow=LOOPBACK) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"http://127.0.0.1:{here.port}/")


async def test_headers_of_the_client_are_sent() -> None:
    async with (
        site(says("hello")) as here,
        guarded_client(allow=LOOPBACK, headers={"X-Mine": "1"}) as client,
    ):
        await client.get(f"http://127.0.0.1:{here.port}/")
    assert "X-Mine: 1" in here.heads[0]


async def test_the_length_of_something_huge_can_be_asked_for() -> None:
    async def tell(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n")

    async with site(tell) as here, guarded_client(allow=LOOPBACK, max_bytes=1000) as client:
        answer = await client.head(f"http://127.0.0.1:{here.port}/")
    assert answer.headers["content-length"] == "2000"


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidInput):
        guarded_client(timeout=0)
    with pytest.raises(InvalidInput):
        guarded_client(max_bytes=0)
    with pytest.raises(InvalidInput):
        guarded_client(redirects=-1)
