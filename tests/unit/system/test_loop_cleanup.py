"""Connections that end with the event loop that opened them."""

import asyncio
import gc
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from postgres_server import new_store_url

from acc import Agent, Runner
from acc.adapters.models.embeddings import HostedEmbedder, parse_embeddings_name
from acc.adapters.system.loop_cleanup import close_with_loop
from acc.domain.errors import ModelFailed
from acc.testing import ScriptedModel
from acc.testing.providers import ProviderServer


def connections(port: int) -> list[socket.socket]:
    """Return the sockets of this process that are connected to a port."""
    gc.collect()  # an unclosed socket that nobody uses is a warning, which fails the test
    found = []
    for one in gc.get_objects():
        if isinstance(one, socket.socket):
            with suppress(OSError):
                if one.getpeername()[1:2] == (port,):
                    found.append(one)
    return found


def test_model_connections_are_closed_with_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        port = int(server.root.rpartition(":")[2])
        agent = Agent(name="desk", model="openai-chat:gpt-4o")
        for _ in range(2):  # each loop has its own connections
            asyncio.run(agent.run("hello"))
            assert connections(port) == []
        assert server.count == 2


def test_embedder_connections_are_closed_with_the_loop() -> None:
    with ProviderServer() as server:
        choice = parse_embeddings_name(f"openai-compatible:small@{server.url}")
        embedder = HostedEmbedder(choice, read_variable=lambda _: "", attempts=1)
        for number in range(2):
            with pytest.raises(ModelFailed) as caught:  # this server has no embeddings
                asyncio.run(embedder.embed([f"text {number}"]))
            assert "cannot be reached" not in str(caught.value)
            assert connections(int(server.root.rpartition(":")[2])) == []


def test_database_connections_are_closed_with_the_loop() -> None:
    url = new_store_url()
    runner = Runner(Agent(name="desk", model=ScriptedModel("a", "b")), store=url)
    for _ in range(2):
        asyncio.run(runner.run("hello"))
        assert connections(urlsplit(url).port or 0) == []


async def test_owner_may_close_earlier() -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("closed")

    closing = close_with_loop(close)
    await closing.aclose()
    await closing.aclose()
    assert closed == ["closed"]
