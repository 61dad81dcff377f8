"""HTTP requests to an ASGI application within the process."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from acc.a2a import A2AServer


class App:
    """A served application."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def rpc(
        self, method: str, params: Any, token: str = "", *, headers: Any = None
    ) -> httpx2.Response:
        """Send a JSON-RPC request of protocol version 1.0."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.http.post(
            "/", content=json.dumps(body), headers=self._head(token, headers)
        )

    async def send(
        self, text: str = "hello", token: str = "", *, message_id: str = "", headers: Any = None
    ) -> httpx2.Response:
        """Send a message."""
        message = {
            "messageId": message_id or f"m-{id(text)}-{text}",
            "role": "ROLE_USER",
            "parts": [{"text": text}],
        }
        return await self.rpc("SendMessage", {"message": message}, token, headers=headers)

    async def get(self, path: str, token: str = "") -> httpx2.Response:
        """Send a GET request of protocol version 1.0."""
        return await self.http.get(path, headers=self._head(token, None))

    @staticmethod
    def _head(token: str, headers: Any) -> dict[str, str]:
        head = {"A2A-Version": "1.0", "Content-Type": "application/json", **(headers or {})}
        if token:
            head["Authorization"] = f"Bearer {token}"
        return head


@asynccontextmanager
async def served(app: A2AServer) -> AsyncIterator[App]:
    """Run an application and yield its client at 127.0.0.1."""
    async with app.lifespan(), served_requests(app) as client:
        yield client


@asynccontextmanager
async def served_requests(app: A2AServer, address: str = "127.0.0.1") -> AsyncIterator[App]:
    """Yield the client of an application that runs; its requests come from an address."""
    transport = httpx2.ASGITransport(app=app, client=(address, 123))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        yield App(http)
