"""Circuits, cards and tokens of calls of intents outside of runs."""

import asyncio
import threading
from typing import Any

import pytest
from identity_provider import AUDIENCE, identity_provider
from remote_server import close_connection, raw, remote_server

from acc import ClientCredentials, RemoteAgent
from acc.a2a import JwtVerifier, TrustedIssuer, create_app
from acc.adapters.a2a.server.uvicorn import bind, serving
from acc.contracts import FunctionNode, intent
from acc.domain.circuit_breaker import list_circuits
from acc.domain.errors import AccError, CircuitOpen

LOOPBACK = ("127.0.0.1",)


class AskNode(FunctionNode):
    """Asks another agent."""

    async def run(
        self, inputs: dict[str, Any], memory: Any, context: dict[str, Any]
    ) -> dict[str, Any]:
        payload = {"intent": "ask", "inputs": {}}
        return await self.call_agent_async(url=inputs["url"], payload=payload, allow=LOOPBACK)


@pytest.mark.parametrize(
    "handler",
    [
        close_connection,
        raw(b"", status="503 Service Unavailable"),
        raw(b"", status="502 Bad Gateway"),
    ],
    ids=["closed", "unavailable", "gateway"],
)
async def test_calls_of_an_agent_that_does_not_answer_open_its_circuit(handler: Any) -> None:
    async with remote_server(handler) as server:
        url = f"{server.url}/run"
        for _ in range(5):
            with pytest.raises(AccError) as caught:
                await AskNode().run({"url": url}, {}, {})
            assert not isinstance(caught.value, CircuitOpen)
        calls = len(server.calls)
        with pytest.raises(CircuitOpen, match="next attempt"):
            await AskNode().run({"url": url}, {}, {})
        assert len(server.calls) == calls
        assert server.url in {status.name for status in list_circuits()}


async def test_errors_of_an_agent_that_answers_do_not_open_its_circuit() -> None:
    error = b'{"error": {"code": 500, "message": "Internal error"}}'
    async with remote_server(raw(error, status="500 Internal Server Error")) as server:
        for number in range(1, 8):
            with pytest.raises(AccError) as caught:
                await AskNode().run({"url": f"{server.url}/run"}, {}, {})
            assert not isinstance(caught.value, CircuitOpen)
            assert len(server.calls) == number


async def test_calls_of_a_remote_agent_keep_its_token_and_card() -> None:
    @intent
    def ping(inputs: dict[str, Any]) -> dict[str, Any]:
        """Return nothing."""
        return {}

    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with identity_provider() as provider:
        issuer = TrustedIssuer(issuer=provider.url, audience=AUDIENCE)
        app = create_app(ping, public_url=url, verifier=JwtVerifier([issuer], allow=LOOPBACK))
        auth = ClientCredentials(
            client_id="desk", client_secret="secret", token_url=f"{provider.url}/token"
        )
        remote = RemoteAgent(name="remote", url=url, auth=auth, allow=LOOPBACK)
        async with serving(app, listener), app.lifespan():
            for _ in range(3):
                assert await remote.call("ping", {}) == {}
            assert len(provider.forms) == 1
            # Another event loop has a client of its own.
            results: list[Any] = []
            thread = threading.Thread(
                target=lambda: results.append(asyncio.run(remote.call("ping", {})))
            )
            thread.start()
            await asyncio.to_thread(thread.join)
            assert results == [{}]
