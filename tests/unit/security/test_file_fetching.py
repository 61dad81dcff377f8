import asyncio
from typing import Any

import pytest
from loopback import Detour, Names, leads_to, says, site

from acc.adapters.http.client import NetworkOptions
from acc.adapters.http.download import fetch_file
from acc.domain.errors import AddressRefused, InvalidInput, RemoteFailed
from acc.domain.value_objects.endpoint import DownloadLimits

PUBLIC = "93.184.215.14"
HERE = ("127.0.0.1",)


async def test_a_file_comes_with_its_bytes_its_type_and_its_name() -> None:
    async with site(says("一,二", "Content-Type: text/csv; charset=utf-8")) as here:
        url = f"http://127.0.0.1:{here.port}/files/%E8%A1%A8.csv?key=secret"
        found = await fetch_file(url, DownloadLimits(types=["text/*"]), allow=HERE)
    assert found.raw == "一,二".encode()
    assert (found.media_type, found.filename) == ("text/csv; charset=utf-8", "表.csv")
    assert "accept: text/*\r\n" in here.heads[0].lower()
    assert "cookie" not in here.heads[0].lower()


async def test_a_file_of_no_stated_type_is_bytes() -> None:
    async with site(says("x")) as here:
        found = await fetch_file(f"http://127.0.0.1:{here.port}/", DownloadLimits(), allow=HERE)
    assert (found.raw, found.media_type, found.filename) == (b"x", "application/octet-stream", "")


async def test_a_private_address_is_refused_and_nobody_is_called() -> None:
    async with site(says("secret")) as here:
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"):
            with pytest.raises(AddressRefused):
                await fetch_file(f"http://{host}:{here.port}/", DownloadLimits())
    assert here.connections == 0


@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:{}/", "http://169.254.169.254/latest", "http://inner.example/"]
)
async def test_a_redirect_to_a_private_address_is_refused(place: str) -> None:
    async with site(says("secret")) as inner, site(leads_to(lambda: there)) as outer:
        there = place.format(inner.port)
        names = Names(files_example=[[PUBLIC]], inner_example=[["10.0.0.7"]])
        detour = Detour(outer.port)
        with pytest.raises(AddressRefused):
            await fetch_file(
                "http://files.example/a.pdf", DownloadLimits(), wiring=NetworkOptions(names, detour)
            )
    assert detour.dialled == [PUBLIC]
    assert (outer.connections, inner.connections) == (1, 0)


async def test_a_redirect_to_a_public_address_is_followed() -> None:
    async with site(says("file")) as here, site(leads_to(lambda: there)) as outer:
        there = f"http://127.0.0.1:{here.port}/b.txt"
        found = await fetch_file(f"http://127.0.0.1:{outer.port}/a", DownloadLimits(), allow=HERE)
    assert (found.raw, found.filename) == (b"file", "b.txt")


async def test_redirects_have_an_end() -> None:
    async with site(leads_to(lambda: "/again")) as here:
        with pytest.raises(RemoteFailed, match="redirects too often"):
            await fetch_file(f"http://127.0.0.1:{here.port}/", DownloadLimits(), allow=HERE)


@pytest.mark.parametrize(
    ("text", "headers", "terms", "code"),
    [
        ("x" * 11, [], {"max_bytes": 10}, ""),
        ("<html>", ["Content-Type: text/html"], {"types": ["image/*"]}, "content_type"),
        ("x", [], {"types": ["image/png"]}, "content_type"),
    ],
)
async def test_a_file_that_was_not_asked_for_is_not_taken(
    text: str, headers: list[str], terms: dict[str, Any], code: str
) -> None:
    async with site(says(text, *headers)) as here:
        with pytest.raises(RemoteFailed) as told:
            await fetch_file(
                f"http://127.0.0.1:{here.port}/?key=k1", DownloadLimits(**terms), allow=HERE
            )
    assert told.value.remote_code == code
    assert "k1" not in str(told.value)


async def test_a_file_that_is_not_there_is_told_without_its_path() -> None:
    async with site(says("gone", status="404 Not Found")) as here:
        with pytest.raises(RemoteFailed, match="answered 404") as told:
            await fetch_file(
                f"http://127.0.0.1:{here.port}/secret/path", DownloadLimits(), allow=HERE
            )
    assert told.value.remote_code == "404"
    assert "secret" not in str(told.value)


async def test_a_file_that_trickles_in_is_given_up() -> None:
    async def trickle(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(100):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with site(trickle) as here:
        with pytest.raises(RemoteFailed, match=r"within 0\.3 seconds") as told:
            await fetch_file(
                f"http://127.0.0.1:{here.port}/", DownloadLimits(timeout=0.3), allow=HERE
            )
    assert told.value.retryable


async def test_a_server_that_is_not_there_is_said_to_be_unreachable() -> None:
    async with site(says("")) as here:
        pass
    with pytest.raises(RemoteFailed, match="cannot be asked") as told:
        await fetch_file(f"http://127.0.0.1:{here.port}/", DownloadLimits(), allow=HERE)
    assert told.value.remote_code == "unreachable"


@pytest.mark.parametrize(
    "terms",
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
def test_terms_that_cannot_be_met_are_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        DownloadLimits(**terms)
