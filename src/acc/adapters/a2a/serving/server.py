"""The ASGI application that serves agents over A2A: both generations, both bindings, one URL."""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any

from acc.adapters.a2a.serving.documents import serve_document
from acc.adapters.a2a.serving.http import HttpFault, HttpRequest, Receive, Scope, Send
from acc.adapters.a2a.serving.reception import (
    NEW,
    REST_WIRES,
    WIRES,
    Documents,
    Reception,
    asked_version,
    note,
)
from acc.adapters.a2a.serving.rest import answer_rest, answer_type, send_http_error
from acc.adapters.a2a.serving.rpc import answer_rpc, send_rpc_error
from acc.application.use_cases.serve_tasks import ServeTasks
from acc.domain.errors import AccError
from acc.ports.outbound.security_ports import TokenVerifierPort

__all__ = ["WIRES", "A2AServer", "Documents"]


class A2AServer:
    """Answers HTTP requests with what the use case says; an ASGI application.

    Without a verifier every caller is the same anonymous one. `hosts` are the names under which the
    server may be called; None are all of them.
    """

    def __init__(
        self,
        serve: ServeTasks,
        *,
        documents: Documents,
        verifier: TokenVerifierPort | None = None,
        hosts: Collection[str] | None = None,
        generations: Collection[str] = tuple(WIRES),
        life: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
    ) -> None:
        self.serve = serve
        self._reception = Reception(
            serve, documents=documents, verifier=verifier, generations=generations
        )
        self._hosts = hosts
        self._life = life or serve.open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request, or the server's life from start to stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})

    def lifespan(self, app: object = None) -> AbstractAsyncContextManager[Any]:
        """Return the server's life, for an application that it is mounted in."""
        return self._life()

    async def stop(self) -> None:
        """Take no more tasks and end the streams, before the connections are waited for."""
        await self.serve.stop()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._life():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive, self.serve.limits)
        is_call = request.method == "POST" and request.path in ("", "/")
        try:
            request.check_head()
            self._check_host(request)
            if not is_call and await serve_document(self._reception, request, send):
                return
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is gets an answer
            note(error)
            await _refuse(send, request, error, is_call=is_call)
            return
        if is_call:
            await answer_rpc(self._reception, request, send)
        else:
            await answer_rest(self._reception, request, send)

    def _check_host(self, request: HttpRequest) -> None:
        # A page of the web can make a browser call a server of its own machine by another name.
        if self._hosts is not None and _host_name(request) not in self._hosts:
            raise HttpFault(421, "this server does not answer to that Host")


async def _refuse(send: Send, request: HttpRequest, error: Exception, *, is_call: bool) -> None:
    """Answer a request that got no further than the door, in the shape that it would expect."""
    try:
        wire = REST_WIRES.get(asked_version(request), NEW)
    except AccError:
        wire = NEW
    if is_call:
        await send_rpc_error(send, error, wire=wire)
    else:
        await send_http_error(send, error, wire, answer_type(request))


def _host_name(request: HttpRequest) -> str:
    host = request.header(b"host").lower()
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0]
