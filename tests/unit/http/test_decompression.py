"""Tests of compressed responses and their size limits."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Responder, http_server

from acc.adapters.http.client import (
    MAX_CHUNK_BYTES,
    STREAMING,
    Decompressor,
    guarded_client,
    parse_content_encoding,
)
from acc.domain.errors import InvalidResponse

LOOPBACK = ("127.0.0.1",)


def bare(content: bytes) -> bytes:
    """Compress to raw deflate, without the zlib header that the standard requires."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(content) + compressor.flush()


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


def sends(body: bytes, *headers: str) -> Responder:
    async def response(head: str, writer: asyncio.StreamWriter) -> None:
        lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode() + body)

    return response


@pytest.mark.parametrize(("encoding", "compress"), WAYS)
@given(content=st.binary(max_size=300), size=st.integers(1, 40))
def test_chunks_of_any_size_are_decompressed(
    encoding: str, compress: Callable[[bytes], bytes], content: bytes, size: int
) -> None:
    decompressor = Decompressor(parse_content_encoding(encoding) or "")
    compressed = compress(content)
    inputs = [compressed[start : start + size] for start in range(0, len(compressed), size)]
    assert b"".join(chunk for data in inputs for chunk in decompressor.decompress(data)) == content
    assert decompressor.complete


def test_output_chunks_are_bounded() -> None:
    content = bytes(range(256)) * 4096
    for compress in (gzip.compress, lambda content: gzip.compress(content, compresslevel=0)):
        sizes = [len(chunk) for chunk in Decompressor("gzip").decompress(compress(content))]
        assert (sum(sizes), max(sizes)) == (len(content), MAX_CHUNK_BYTES)


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
def test_content_encoding_is_parsed(header: str, encoding: str | None) -> None:
    assert parse_content_encoding(header) == encoding


@pytest.mark.parametrize(("encoding", "compress"), WAYS)
async def test_compressed_response_is_decoded(
    encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    content = "日本語 ".encode() * 50_000
    async with (
        http_server(sends(compress(content), f"Content-Encoding: {encoding}")) as server,
        guarded_client(allow=LOOPBACK) as client,
    ):
        url = f"http://127.0.0.1:{server.port}/"
        response = await client.get(url, headers={"Accept-Encoding": "br"})
        assert response.content == content
        assert "content-encoding" not in response.headers
        async with client.stream("GET", url, extensions=dict(STREAMING)) as stream:
            assert b"".join([chunk async for chunk in stream.aiter_raw()]) == content
    assert all("accept-encoding: identity" in head.lower() for head in server.requests)


async def test_compressed_stream_is_decoded_incrementally() -> None:
    compressor = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    first_chunk_read = asyncio.Event()

    async def response(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
        for text in (b"one", b"two"):
            writer.write(compressor.compress(text) + compressor.flush(zlib.Z_SYNC_FLUSH))
            await writer.drain()
            await first_chunk_read.wait()
        writer.close()

    async with http_server(response) as server, guarded_client(allow=LOOPBACK) as client:
        url = f"http://127.0.0.1:{server.port}/"
        async with client.stream("GET", url, extensions=dict(STREAMING)) as stream:
            chunks = stream.aiter_raw()
            assert await anext(chunks) == b"one"
            first_chunk_read.set()
            assert [chunk async for chunk in chunks] == [b"two"]


@pytest.mark.parametrize("extensions", [{}, dict(STREAMING)])
async def test_compression_bomb_fails_at_limit(
    extensions: dict[str, bool],
) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    async with (
        http_server(sends(bomb, "Content-Encoding: gzip")) as server,
        guarded_client(allow=LOOPBACK, max_bytes=1_000_000) as client,
    ):
        tracemalloc.start()
        try:
            with pytest.raises(InvalidResponse, match="more than 1000000 bytes"):
                await client.get(f"http://127.0.0.1:{server.port}/", extensions=extensions)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < 5_000_000


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "br\x7f" * 50])
async def test_unsupported_encoding_is_named(encoding: str) -> None:
    async with (
        http_server(sends(b"x", f"Content-Encoding: {encoding}")) as server,
        guarded_client(allow=LOOPBACK) as client,
    ):
        url = f"http://127.0.0.1:{server.port}"
        with pytest.raises(InvalidResponse) as caught:
            await client.get(url)
        assert (await client.head(url)).status_code == 200
    name = encoding.replace("\x7f", "")[:60]
    assert f"{url} sent Content-Encoding {name}, " in str(caught.value)


async def test_corrupt_compressed_response_fails() -> None:
    async with (
        http_server(sends(b"not gzip", "Content-Encoding: gzip")) as server,
        guarded_client(allow=LOOPBACK) as client,
    ):
        with pytest.raises(InvalidResponse, match="corrupt"):
            await client.get(f"http://127.0.0.1:{server.port}/")


async def test_truncated_compressed_response_fails_unless_streaming() -> None:
    compressed = gzip.compress(b"hello")[:-4]
    async with (
        http_server(sends(compressed, "Content-Encoding: gzip")) as server,
        guarded_client(allow=LOOPBACK) as client,
    ):
        url = f"http://127.0.0.1:{server.port}/"
        with pytest.raises(httpx2.RemoteProtocolError, match="truncated"):
            await client.get(url)
        assert (await client.get(url, extensions=dict(STREAMING))).content == b"hello"


async def test_empty_response_may_have_content_encoding() -> None:
    async with (
        http_server(sends(b"", "Content-Encoding: gzip")) as server,
        guarded_client(allow=LOOPBACK) as client,
    ):
        url = f"http://127.0.0.1:{server.port}/"
        assert (await client.get(url)).content == b""
        assert (await client.head(url)).headers["content-encoding"] == "gzip"
