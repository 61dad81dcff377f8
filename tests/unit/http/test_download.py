import asyncio
from typing import Any

import pytest
from loopback import FakeResolver, LoopbackBackend, http_server, redirect, respond

from acc.adapters.http.client import NetworkOptions
from acc.adapters.http.download import fetch_file
from acc.domain.errors import AddressRefused, InvalidInput, RemoteFailed
from acc.domain.value_objects.endpoint import DownloadLimits

PUBLIC = "93.184.215.14"
HERE = ("127.0.0.1",)


async def test_file_has_bytes_type_and_name() -> None:
    async with http_server(respond("一,二", "Content-Type: text/csv; charset=utf-8")) as server:
        url = f"http://127.0.0.1:{server.port}/files/%E8%A1%A8.csv?key=secret"
        part = await fetch_file(url, DownloadLimits(types=["text/*"]), allow=HERE)
    assert part.raw == "一,二".encode()
    assert (part.media_type, part.filename) == ("text/csv; charset=utf-8", "表.csv")
    assert "accept: text/*\r\n" in server.requests[0].lower()
    assert "cookie" not in server.requests[0].lower()


async def test_file_without_type_is_octet_stream() -> None:
    async with http_server(respond("x")) as server:
        part = await fetch_file(f"http://127.0.0.1:{server.port}/", DownloadLimits(), allow=HERE)
    assert (part.raw, part.media_type, part.filename) == (b"x", "application/octet-stream", "")


async def test_private_address_is_refused_without_connecting() -> None:
    async with http_server(respond("secret")) as server:
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"):
            with pytest.raises(AddressRefused):
                await fetch_file(f"http://{host}:{server.port}/", DownloadLimits())
    assert server.connections == 0


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:{}/", "http://169.254.169.254/latest", "http://inner.example/"]
)
async def test_redirect_to_private_address_is_refused(location: str) -> None:
    async with (
        http_server(respond("secret")) as inner,
        http_server(redirect(lambda: location)) as outer,
    ):
        location = location.format(inner.port)
        resolver = FakeResolver(files_example=[[PUBLIC]], inner_example=[["10.0.0.7"]])
        backend = LoopbackBackend(outer.port)
        with pytest.raises(AddressRefused):
            await fetch_file(
                "http://files.example/a.pdf",
                DownloadLimits(),
                network=NetworkOptions(resolve=resolver, backend=backend),
            )
    assert backend.connected == [PUBLIC]
    assert (outer.connections, inner.connections) == (1, 0)


async def test_redirect_to_allowed_address_is_followed() -> None:
    async with (
        http_server(respond("file")) as server,
        http_server(redirect(lambda: location)) as outer,
    ):
        location = f"http://127.0.0.1:{server.port}/b.txt"
        part = await fetch_file(f"http://127.0.0.1:{outer.port}/a", DownloadLimits(), allow=HERE)
    assert (part.raw, part.filename) == (b"file", "b.txt")


async def test_redirect_loop_fails() -> None:
    async with http_server(redirect(lambda: "/again")) as server:
        with pytest.raises(RemoteFailed) as caught:
            await fetch_file(f"http://127.0.0.1:{server.port}/", DownloadLimits(), allow=HERE)
    assert caught.value.remote_code == "redirects"


@pytest.mark.parametrize(
    ("text", "headers", "limits", "code"),
    [
        ("x" * 11, [], {"max_bytes": 10}, ""),
        ("<html>", ["Content-Type: text/html"], {"types": ["image/*"]}, "content_type"),
        ("x", [], {"types": ["image/png"]}, "content_type"),
    ],
)
async def test_file_beyond_limits_is_rejected(
    text: str, headers: list[str], limits: dict[str, Any], code: str
) -> None:
    async with http_server(respond(text, *headers)) as server:
        with pytest.raises(RemoteFailed) as caught:
            await fetch_file(
                f"http://127.0.0.1:{server.port}/?key=k1", DownloadLimits(**limits), allow=HERE
            )
    assert caught.value.remote_code == code
    assert "k1" not in str(caught.value)


async def test_missing_file_error_hides_path() -> None:
    async with http_server(respond("gone", status="404 Not Found")) as server:
        with pytest.raises(RemoteFailed) as caught:
            await fetch_file(
                f"http://127.0.0.1:{server.port}/secret/path", DownloadLimits(), allow=HERE
            )
    assert caught.value.remote_code == "404"
    assert "secret" not in str(caught.value)


async def test_slow_file_times_out() -> None:
    async def trickle(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(100):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with http_server(trickle) as server:
        with pytest.raises(RemoteFailed) as caught:
            await fetch_file(
                f"http://127.0.0.1:{server.port}/", DownloadLimits(timeout=0.3), allow=HERE
            )
    assert (caught.value.remote_code, caught.value.retryable) == ("timed_out", True)


async def test_closed_port_is_unreachable() -> None:
    async with http_server(respond("")) as server:
        pass
    with pytest.raises(RemoteFailed) as caught:
        await fetch_file(f"http://127.0.0.1:{server.port}/", DownloadLimits(), allow=HERE)
    assert caught.value.remote_code == "unreachable"


@pytest.mark.parametrize(
    "limits",
    [
        {"types": "image/png"},
        {"types": []},
        {"types": ["image"]},
        {"max_bytes": 0},
        {"timeout": 0},
        {"timeout": float("inf")},
        {"timeout": float("nan")},
    ],
)
def test_invalid_download_limits_are_rejected(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        DownloadLimits(**limits)
