"""Agents offered as an MCP server, on the official SDK."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from typing import Any

import anyio
import mcp_types
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette

from acc.application.use_cases.serve_mcp import (
    PARAMETERS,
    RETURNS,
    OfferedTurn,
    ServeMcpUseCase,
    form,
    form_answer,
    progress_of,
)
from acc.domain.errors import NotFound
from acc.domain.value_objects.approval import InputRequest
from acc.domain.value_objects.event import Event

log = logging.getLogger("acc.mcp")
_MOST_ROUNDS = 20
Context = ServerRequestContext[Any, Any]
Answer = mcp_types.CallToolResult | mcp_types.InputRequiredResult


class AgentsAsServer:
    """Speaks MCP for the agents that are offered."""

    def __init__(self, offer: ServeMcpUseCase, *, name: str, version: str) -> None:
        self._offer = offer
        self.server: Server[Any] = Server(
            name,
            version=version,
            lifespan=self._life,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def over_stdio(self) -> None:
        """Serve who started us, until they end our input."""
        async with stdio_server() as (incoming, outgoing):
            options = self.server.create_initialization_options()
            # What a tool prints would otherwise be written once the protocol has ended.
            with redirect_stdout(sys.stderr):
                await self.server.run(incoming, outgoing, options)

    def over_http(self) -> Starlette:
        """Return an application for streamable HTTP that answers to names of this machine only."""
        return self.server.streamable_http_app(host="127.0.0.1")

    @asynccontextmanager
    async def _life(self, _: Server[Any]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self._offer.aclose()

    async def _list(
        self, _: Context, __: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        tools = [
            mcp_types.Tool(
                name=name,
                description=description,
                input_schema=dict(PARAMETERS),
                output_schema=dict(RETURNS),
            )
            for name, description in self._offer.agents.items()
        ]
        return mcp_types.ListToolsResult(tools=tools)

    async def _call(self, ctx: Context, params: mcp_types.CallToolRequestParams) -> Answer:
        try:
            return await _finished(self._taken(ctx, params))
        except NotFound as error:
            raise MCPError(mcp_types.INVALID_PARAMS, str(error)) from None

    async def _taken(self, ctx: Context, params: mcp_types.CallToolRequestParams) -> Answer:
        """Take a call, or what a client brings back from a person whom it was to ask."""
        if params.request_state is None:
            return await self._rounds(ctx, params.name, dict(params.arguments or {}))
        conversation_id = params.request_state  # clients may name any conversation anyway
        waiting = await self._offer.waiting(params.name, conversation_id)
        answers = _brought(waiting.requests, params.input_responses or {})
        if not answers:
            return _result(waiting)
        arguments = {"conversation_id": conversation_id, "answers": answers}
        return await self._rounds(ctx, params.name, arguments)

    async def _rounds(self, ctx: Context, name: str, arguments: dict[str, Any]) -> Answer:
        """Run a turn, and go on with a person's answers for as long as there are any."""
        listener = _Listener(ctx)
        for _ in range(_MOST_ROUNDS):
            turn = await self._offer.call(name, arguments, observer=listener)
            forms = {request.id: form(request) for request in turn.requests}
            if not forms or None in forms.values() or not _can_ask(ctx):
                return _result(turn)
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return _asking(turn)
            answers = await _asked(ctx, turn)
            if not answers:
                return _result(turn)
            arguments = {"conversation_id": turn.conversation_id, "answers": answers}
        return _result(turn)


def _brought(requests: Sequence[InputRequest], given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [
        form_answer(request, answer.action, answer.content)
        for request in requests
        if isinstance(answer := given.get(request.id), mcp_types.ElicitResult)
    ]
    return [answer for answer in found if answer is not None]


async def _finished(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Do work that is cancelled once, and then has the time to put that on record.

    The SDK's cancellation strikes at every await until the call has returned.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            log.info("a call was cancelled and failed", exc_info=task.exception())
        raise
    return task.result()


class _Listener:
    """Tells a client how far a call has come."""

    wants_deltas = False

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._told = 0

    async def on_event(self, event: Event) -> None:
        words = progress_of(event)
        if words:
            self._told += 1
            await self._ctx.session.report_progress(self._told, message=words)


def _can_ask(ctx: Context) -> bool:
    able = ctx.session.client_capabilities
    return able is not None and able.elicitation is not None


def _elicitation(request: InputRequest, schema: Mapping[str, Any]) -> mcp_types.ElicitRequest:
    return mcp_types.ElicitRequest(
        params=mcp_types.ElicitRequestFormParams(
            message=request.question, requested_schema=dict(schema)
        )
    )


def _asking(turn: OfferedTurn) -> mcp_types.InputRequiredResult:
    return mcp_types.InputRequiredResult(
        input_requests={
            request.id: _elicitation(request, form(request) or {}) for request in turn.requests
        },
        request_state=turn.conversation_id,
    )


async def _asked(ctx: Context, turn: OfferedTurn) -> list[dict[str, Any]]:
    """Return what people answer to a client of the older protocol; none where it cannot ask."""
    found: list[dict[str, Any]] = []
    for request in turn.requests:
        try:
            given = await ctx.session.elicit_form(
                request.question, dict(form(request) or {}), related_request_id=ctx.request_id
            )
        except MCPError:
            continue
        answer = form_answer(request, given.action, given.content)
        if answer is not None:
            found.append(answer)
    return found


def _result(turn: OfferedTurn) -> mcp_types.CallToolResult:
    structured = {
        "answer": turn.text,
        "conversation_id": turn.conversation_id,
        "status": turn.status,
    }
    said = [turn.text]
    if turn.note:
        structured["note"] = turn.note
        said.append(turn.note)
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(text=text) for text in said],
        structured_content=structured,
        is_error=turn.is_error,
    )
