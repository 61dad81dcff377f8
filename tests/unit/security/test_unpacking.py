"""Compressed answers: unpacked as far as may be, and never further."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Answer, site

from acc.adapters.http.client import PIECE, STREAMING, Decompressor, encoding_of, guarded_client
from acc.domain.errors import InvalidResponse

LOOPBACK = ("127.0.0.1",)


def bare(content: bytes) -> bytes:
    """Deflate as some servers write it, without the head that the standard wants."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(content) + packer.flush()


def twice(content: bytes) -> bytes:
    half = len(content) // 2
    return gzip.compress(content[:half]) + gzip.compress(content[half:])


WAYS = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("GZip, identity", gzip.compress),
    ("gzip", twice),
    ("gzip", lambda content: gzip.compress(content) + b"\0\0\0"),
    ("deflate", zlib.compress),
    ("deflate", bare),
    ("deflate", lambda content: zlib.compress(content) + b"what follows"),
]


def sends(body: bytes, *headers: str) -> Answer:
    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + body)

    return answer


@pytest.mark.parametrize(("encoding", "pack"), WAYS)
@given(content=st.binary(max_size=300), size=st.integers(1, 40))
def test_pieces_of_any_size_are_unpacked(
    encoding: str, pack: Callable[[bytes], bytes], content: bytes, size: int
) -> None:
    unpacker = Decompressor(encoding_of(encoding) or "")
    packed = pack(content)
    parts = [packed[place : place + size] for place in range(0, len(packed), size)]
    assert b"".join(piece for part in parts for piece in unpacker.pieces(part)) == content
    assert unpacker.is_whole


def test_what_comes_out_comes_a_little_at_a_time() -> None:
    content = bytes(range(256)) * 4096
    for pack in (gzip.compress, lambda content: gzip.compress(content, compresslevel=0)):
        sizes = [len(piece) for piece in Decompressor("gzip").pieces(pack(content))]
        assert (sum(sizes), max(sizes)) == (len(content), PIECE)


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        ("", ""),
        ("identity", ""),
        (" identity , ", ""),
        ("gzip", "gzip"),
        ("X-GZIP", "gzip"),
        ("deflate", "deflate"),
        ("br", None),
        ("zstd", None),
        ("gzip, gzip", None),
    ],
)
def test_an_encoding_is_known_or_not(header: str, encoding: str | None) -> None:
    assert encoding_of(header) == encoding


@pytest.mark.parametrize(("encoding", "pack"), WAYS)
async def test_a_server_that_compresses_all_the_same_is_understood(
    encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    content = "日本語 ".encode() * 50_000
    async with (
        site(sends(pack(content), f"Content-Encoding: {encoding}")) as here,
        guarded_client(allow=LOOPBACK) as client,
    ):
        url = f"http://127.0.0.1:{here.port}/"
        answer = await client.get(url, headers={"Accept-Encoding": "br"})
        assert answer.content == content
        assert "content-encoding" not in answer.headers
        async with client.stream("GET", url, extensions=dict(STREAMING)) as stream:
            assert b"".join([piece async for piece in stream.aiter_raw()]) == content
    assert all("accept-encoding: identity" in head.lower() for head in here.heads)


async def test_a_stream_is_unpacked_as_it_comes() -> None:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    is_heard = asyncio.Event()

    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
        for text in (b"one", b"two"):
            writer.write(packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH))
            await writer.drain()
            await is_heard.wait()
        writer.close()

    async with site(answer) as here, guarded_client(allow=LOOPBACK) as client:
        url = f"http://127.0.0.1:{here.port}/"
        async with client.stream("GET", url, extensions=dict(STREAMING)) as stream:
            pieces = stream.aiter_raw()
            assert await anext(pieces) == b"one"
            is_heard.set()
            assert [piece async for piece in pieces] == [b"two"]


@pytest.mark.parametrize("extensions", [{}, dict(STREAMING)])
async def test_a_bomb_is_unpacked_up_to_the_bound_and_no_further(
    extensions: dict[str, bool],
) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    async with (
        site(sends(bomb, "Content-Encoding: gzip")) as here,
        guarded_client(allow=LOOPBACK, max_bytes=1_000_000) as client,
    ):
        tracemalloc.start()
        try:
            with pytest.raises(InvalidResponse, match="answered with more than 1000000 bytes"):
                await client.get(f"http://127.0.0.1:{here.port}/", extensions=extensions)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < 5_000_000


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "br\x7f" * 50])
async def test_what_cannot_be_unpacked_is_named_with_what_to_do(encoding: str) -> None:
    async with (
        site(sends(b"x", f"Content-Encoding: {encoding}")) as here,
        guarded_client(allow=LOOPBACK) as client,
    ):
        url = f"http://127.0.0.1:{here.port}"
        with pytest.raises(InvalidResponse) as told:
            await client.get(url)
        assert (await client.head(url)).status_code == 200
    named = encoding.replace("\x7f", "")[:60]
    assert f"{url} answered with Content-Encoding {named}, " in str(told.value)
    assert "compress with gzip" in str(told.value)


async def test_a_compressed_answer_that_is_broken_is_told() -> None:
    async with (
        site(sends(b"not gzip", "Content-Encoding: gzip")) as here,
        guarded_client(allow=LOOPBACK) as client,
    ):
        with pytest.raises(InvalidResponse, match="a compressed answer that is broken"):
            await client.get(f"http://127.0.0.1:{here.port}/")


async def test_a_compressed_answer_that_breaks_off_is_told_and_a_stream_may_just_end() -> None:
    packed = gzip.compress(b"hello")[:-4]
    async with (
        site(sends(packed, "Content-Encoding: gzip")) as here,
        guarded_client(allow=LOOPBACK) as client,
    ):
        url = f"http://127.0.0.1:{here.port}/"
        with pytest.raises(httpx.RemoteProtocolError, match="broke off in the middle"):
            await client.get(url)
        assert (await client.get(url, extensions=dict(STREAMING))).content == b"hello"


async def test_an_answer_without_a_body_may_be_said_to_be_compressed() -> None:
    async with (
        site(sends(b"", "Content-Encoding: gzip")) as here,
        guarded_client(allow=LOOPBACK) as client,
    ):
        url = f"http://127.0.0.1:{here.port}/"
        assert (await client.get(url)).content == b""
        assert (await client.head(url)).headers["content-encoding"] == "gzip"
