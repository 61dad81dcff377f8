"""Download of files by reference."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from acc import Agent, BaseAgent, Part, RemoteFailed, RunContext, Runner, ToolContext, tool
from acc.bootstrap.agents import make_services
from acc.domain.errors import AddressRefused
from acc.testing import ScriptedModel, call, last_result

KEYS: dict[str, Any] = {"user_id": "u", "session_id": "s"}


class Reader(BaseAgent):
    """Answers with the content of the files of a message."""

    async def run(self, ctx: RunContext) -> str:
        found = [await ctx.fetch(part, types=["text/*"]) for part in ctx.run.request.message]
        return "|".join(
            f"{part.filename}={part.text or (part.raw or b'').decode()}" for part in found
        )


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Return the URL of a file on a loopback server."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\n")
        writer.write("二つ".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/two.txt"


async def test_agent_downloads_file_of_message(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACC_ALLOW", "127.0.0.1")
    runner = Runner(Reader(name="reader"))
    message = (Part(text="see"), Part(url=url), Part(url=url, filename="ours", media_type="x/y"))
    done = await runner.run(message=message, **KEYS)
    assert done.text == "=see|two.txt=二つ|ours=二つ"


async def test_private_address_is_refused_unless_allowed(url: str) -> None:
    with pytest.raises(AddressRefused, match="--allow, or ACC_ALLOW"):
        await Runner(Reader(name="reader")).run(message=(Part(url=url),), **KEYS)
    runner = Runner(Reader(name="reader"), services=make_services(allow=["127.0.0.1"]))
    assert (await runner.run(message=(Part(url=url),), **KEYS)).text == "two.txt=二つ"


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://x/y", "http://a:b@x/", "", "//"])
async def test_other_schemes_are_not_downloaded(address: str) -> None:
    class Downloader(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            return (await ctx.fetch(Part(url=address), types=["text/*"])).text or ""

    with pytest.raises(AddressRefused, match="an http or https URL"):
        await Runner(Downloader(name="downloader")).run(message="load", **KEYS)


async def test_download_fails_without_a_fetcher(url: str) -> None:
    services = replace(make_services(), fetch=None)
    runner = Runner(Reader(name="reader"), services=services)
    with pytest.raises(RemoteFailed, match="cannot download files"):
        await runner.run(message=(Part(url=url),), **KEYS)


async def test_tool_downloads_a_file(url: str) -> None:
    @tool
    async def size_of(url: str, tool_context: ToolContext) -> int:
        """Return the size of a file in bytes."""
        return len((await tool_context.fetch(url, max_bytes=100)).raw or b"")

    model = ScriptedModel(call("size_of", url=url), lambda prompt: f"{last_result(prompt)}")
    agent = Agent(name="desk", model=model, tools=[size_of])
    runner = Runner(agent, services=make_services(allow=["127.0.0.1"]))
    assert (await runner.run(message="how long?", **KEYS)).text == "6"
    model = ScriptedModel(call("size_of", url=url), lambda prompt: f"{last_result(prompt)}")
    closed = Runner(Agent(name="desk", model=model, tools=[size_of]))
    actual = (await closed.run(message="how long?", **KEYS)).text
    assert "AddressRefused" in actual
