"""MCP client over HTTP."""

import asyncio
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_support import SHOP, no_leaked_processes, run_once, runner_of, tool_results, wait_for_line

from acc import Agent, McpToolset, RemoteFailed
from acc.domain.errors import AddressRefused
from acc.testing import ScriptedModel, call

__all__ = ["no_leaked_processes"]


def free_port() -> int:
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return int(result.getsockname()[1])


class HttpShop:
    """The shop server over HTTP, which can be started and killed repeatedly."""

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [*SHOP, "--http", str(self.port), "--log", str(self._log)]
        self._process = subprocess.Popen(  # noqa: S603 - our own server
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(600):
            with socket.socket() as result:
                if result.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        pytest.fail("the shop does not open")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture
def http_shop(no_leaked_processes: None, tmp_path: Path) -> Iterator[HttpShop]:
    shop = HttpShop(tmp_path / "log")
    shop.start()
    yield shop
    shop.kill()


async def test_http_transport_supports_tools(http_shop: HttpShop, tmp_path: Path) -> None:
    async def pause() -> str:
        """Wait a little."""
        await asyncio.sleep(0.1)
        return "waited"

    def until_tool_is_listed(prompt: Any) -> Any:
        # the change notification arrives on another stream, after the response
        if "boo" in str(prompt.following[-1]):
            return "done"
        return call("hidden" if any(t.name == "hidden" for t in prompt.tools) else "pause")

    model = ScriptedModel(
        [call("add", a=1, b=2), call("在庫を調べる", 品物="お茶")],
        call("slow", seconds=60),
        call("change"),
        *[until_tool_is_listed] * 50,
    )
    source = McpToolset(url=http_shop.url, allow=["127.0.0.1"], timeout={"slow": 1.0}, token="t0p")
    async with runner_of(Agent(name="a", model=model, tools=[source, pause])) as runner:
        run_result = await run_once(runner)
        await wait_for_line(tmp_path / "log", "slow was cancelled")
    contents = {result.name: result.content for result in tool_results(run_result)}
    assert contents["add"] == {"result": 3}
    assert contents["在庫を調べる"] == {"item": "お茶", "left": 3}
    assert "did not finish" in contents["slow"]["error"]
    assert contents["hidden"] == {"result": "boo"}
    assert run_result.text == "done"
    assert "t0p" not in repr(source) and "t0p" not in str(run_result.events)


async def test_http_transport_reconnects(http_shop: HttpShop) -> None:
    def down(prompt: Any) -> Any:
        http_shop.kill()
        return call("add", a=2, b=2)

    def up(prompt: Any) -> Any:
        http_shop.start()
        return call("add", a=3, b=3)

    model = ScriptedModel(call("add", a=1, b=1), down, up, "back")
    source = McpToolset(url=http_shop.url, allow=["127.0.0.1"])
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        run_result = await run_once(runner)
    first, lost, again = tool_results(run_result)
    assert first.content == {"result": 2}
    assert lost.is_error and "127.0.0.1" in lost.content["error"]
    assert again.content == {"result": 6}


async def test_http_server_crash_is_a_tool_error(http_shop: HttpShop) -> None:
    model = ScriptedModel(call("die"), "over")
    source = McpToolset(url=http_shop.url, allow=["127.0.0.1"])
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        run_result = await run_once(runner)
    assert tool_results(run_result)[0].is_error and run_result.text == "over"


async def test_http_response_size_is_limited(http_shop: HttpShop) -> None:
    model = ScriptedModel(call("big", characters=200_000), call("add", a=1, b=1), "on")
    source = McpToolset(url=http_shop.url, allow=["127.0.0.1"], max_bytes=100_000)
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        run_result = await run_once(runner)
    assert tool_results(run_result)[0].is_error and tool_results(run_result)[1].content == {
        "result": 2
    }


async def test_private_address_must_be_allowed(http_shop: HttpShop) -> None:
    source = McpToolset(url=http_shop.url)
    async with runner_of(Agent(name="a", model=ScriptedModel("x"), tools=[source])) as runner:
        with pytest.raises(AddressRefused):
            await run_once(runner)


async def test_unreachable_server_is_reported() -> None:
    source = McpToolset(url=f"http://127.0.0.1:{free_port()}/mcp", allow=["127.0.0.1"])
    async with runner_of(Agent(name="a", model=ScriptedModel("x"), tools=[source])) as runner:
        with pytest.raises(RemoteFailed, match="cannot be reached"):
            await run_once(runner, "go")


@asynccontextmanager
async def raw_http(answer: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Answer every request with the same bytes, or never."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", heads


def http_answer(status: str, kind: str, body: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
    return (head + "connection: close\r\n\r\n" + body).encode()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (http_answer("401 Unauthorized", "text/plain", "no"), "the token is not accepted"),
        (http_answer("500 Oops", "text/plain", "no"), "the server answered 500"),
        (http_answer("200 OK", "text/html", "<html>"), "Unexpected content type"),
        (http_answer("200 OK", "application/json", "{]"), "the connection failed"),
        (http_answer("200 OK", "application/json", "x" * 5000), "more than 4000 bytes"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{", "("),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "cannot be reached"),
        (None, "not ready within"),
    ],
)
async def test_http_failures_end_the_run_with_reason(answer: bytes | None, expected: str) -> None:
    async with raw_http(answer) as (url, heads):
        source = McpToolset(
            url=url, allow=["127.0.0.1"], token="t0p", start_timeout=2, max_bytes=4_000
        )
        agent = Agent(name="a", model=ScriptedModel("x"), tools=[source])
        async with runner_of(agent) as runner:
            with pytest.raises(RemoteFailed) as error:
                await run_once(runner)
    assert expected in str(error.value) and "t0p" not in str(error.value)
    assert b"authorization: bearer t0p" in heads[0].lower()
