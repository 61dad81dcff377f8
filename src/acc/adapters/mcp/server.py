"""Agents and ACC memory as tools of MCP servers, with the official SDK."""

import asyncio
import json
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
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
    CALL_SCHEMA,
    RESULT_SCHEMA,
    ServeMcpUseCase,
    TurnResult,
    form_answer,
    form_schema,
    progress_text,
)
from acc.application.use_cases.serve_memory import DEFAULT_CONVERSATION, ServeMemoryUseCase
from acc.domain.errors import AccError, NotFound
from acc.domain.value_objects.approval import InputRequest
from acc.domain.value_objects.event import Event

log = logging.getLogger("acc.mcp")
MAX_INPUT_ROUNDS = 20
Context = ServerRequestContext[Any, Any]
CallResult = mcp_types.CallToolResult | mcp_types.InputRequiredResult


_CONVERSATION = {
    "type": "string",
    "description": "The name of the conversation, so that several do not mix.",
    "default": DEFAULT_CONVERSATION,
}
_DESCRIPTIONS = {
    "remember": "Add what the user said to the memory, word by word. Rules and facts in it can "
    "replace or lift earlier ones. Returns how each sentence was read.",
    "recall": "Return what the memory knows for a question: active rules, the state, and the "
    "passages of the conversation that match. The size is bounded.",
    "rules": "Return the rules of the user that are active now.",
    "explain": "Return when a statement was made, how it was read, and when and why it was kept, "
    "replaced, rejected or dropped.",
}
#: The text argument of each tool; tools without one have None.
_ARGUMENTS = {"remember": "text", "recall": "query", "rules": None, "explain": "query"}


class ToolServer(ABC):
    """Serves tools over MCP; `aclose` is called when the server stops."""

    def __init__(self, *, name: str, version: str, aclose: Callable[[], Awaitable[None]]) -> None:
        self._aclose = aclose
        self.server: Server[Any] = Server(
            name,
            version=version,
            lifespan=self._lifespan,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def serve_stdio(self) -> None:
        """Serve the parent process until it closes our standard input."""
        async with stdio_server() as (incoming, outgoing):
            options = self.server.create_initialization_options()
            # Standard output belongs to the protocol, so prints of tools go to standard error.
            with redirect_stdout(sys.stderr):
                await self.server.run(incoming, outgoing, options)

    def http_app(self) -> Starlette:
        """Return an app for streamable HTTP that accepts only host names of this machine."""
        return self.server.streamable_http_app(host="127.0.0.1")

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self._aclose()

    @abstractmethod
    async def _list_tools(
        self, _: Context, __: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult: ...

    @abstractmethod
    async def _call_tool(
        self, ctx: Context, params: mcp_types.CallToolRequestParams
    ) -> CallResult: ...


class AgentMcpServer(ToolServer):
    """Serves agents as tools over MCP."""

    def __init__(self, use_case: ServeMcpUseCase, *, name: str, version: str) -> None:
        super().__init__(name=name, version=version, aclose=use_case.aclose)
        self._use_case = use_case

    async def _list_tools(
        self, _: Context, __: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        tools = [
            mcp_types.Tool(
                name=name,
                description=description,
                input_schema=dict(CALL_SCHEMA),
                output_schema=dict(RESULT_SCHEMA),
            )
            for name, description in self._use_case.agents.items()
        ]
        return mcp_types.ListToolsResult(tools=tools)

    async def _call_tool(self, ctx: Context, params: mcp_types.CallToolRequestParams) -> CallResult:
        try:
            return await _cancel_once(self._handle_call(ctx, params))
        except NotFound as error:
            raise MCPError(mcp_types.INVALID_PARAMS, str(error)) from None

    async def _handle_call(
        self, ctx: Context, params: mcp_types.CallToolRequestParams
    ) -> CallResult:
        """Handle a new call, or a repeated one with the answers to our input requests."""
        if params.request_state is None:
            return await self._run_rounds(ctx, params.name, dict(params.arguments or {}))
        conversation_id = params.request_state  # a client may name any conversation anyway
        pending = await self._use_case.pending(params.name, conversation_id)
        answers = _read_responses(pending.requests, params.input_responses or {})
        if not answers:
            return _call_result(pending)
        arguments = {"conversation_id": conversation_id, "answers": answers}
        return await self._run_rounds(ctx, params.name, arguments)

    async def _run_rounds(self, ctx: Context, name: str, arguments: dict[str, Any]) -> CallResult:
        """Run a turn, and continue it with the answers of people as long as there are any."""
        observer = _ProgressObserver(ctx)
        for _ in range(MAX_INPUT_ROUNDS):
            turn = await self._use_case.call(name, arguments, observer=observer)
            schemas = [form_schema(request) for request in turn.requests]
            if not schemas or None in schemas or not _can_elicit(ctx):
                return _call_result(turn)
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return _input_required(turn)
            answers = await _elicit_answers(ctx, turn)
            if not answers:
                return _call_result(turn)
            arguments = {"conversation_id": turn.conversation_id, "answers": answers}
        return _call_result(turn)


class _ProgressObserver:
    """Reports the progress of a run to the client."""

    wants_deltas = False

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._count = 0

    async def on_event(self, event: Event) -> None:
        text = progress_text(event)
        if text:
            self._count += 1
            await self._ctx.session.report_progress(self._count, message=text)


async def _cancel_once(work: Coroutine[Any, Any, CallResult]) -> CallResult:
    """Await work that is cancelled once and can then record its cancellation.

    A cancellation by the SDK is raised again at every await until the call returns.
    """
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            log.info("a call that its client cancelled has failed", exc_info=task.exception())
        raise
    return task.result()


def _can_elicit(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _input_required(turn: TurnResult) -> mcp_types.InputRequiredResult:
    return mcp_types.InputRequiredResult(
        input_requests={
            request.id: mcp_types.ElicitRequest(
                params=mcp_types.ElicitRequestFormParams(
                    message=request.question, requested_schema=dict(form_schema(request) or {})
                )
            )
            for request in turn.requests
        },
        request_state=turn.conversation_id,
    )


def _read_responses(
    requests: Sequence[InputRequest], responses: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    answers = [
        form_answer(request, response.action, response.content)
        for request in requests
        if isinstance(response := responses.get(request.id), mcp_types.ElicitResult)
    ]
    return [answer for answer in answers if answer is not None]


async def _elicit_answers(ctx: Context, turn: TurnResult) -> list[dict[str, Any]]:
    """Request input from a client of an older protocol version, which may not support it."""
    answers: list[dict[str, Any]] = []
    for request in turn.requests:
        try:
            response = await ctx.session.elicit_form(
                request.question,
                dict(form_schema(request) or {}),
                related_request_id=ctx.request_id,
            )
        except MCPError:
            continue
        answer = form_answer(request, response.action, response.content)
        if answer is not None:
            answers.append(answer)
    return answers


def _call_result(turn: TurnResult) -> mcp_types.CallToolResult:
    structured = {
        "answer": turn.text,
        "conversation_id": turn.conversation_id,
        "status": turn.status,
    }
    texts = [turn.text]
    if turn.note:
        structured["note"] = turn.note
        texts.append(turn.note)
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(text=text) for text in texts],
        structured_content=structured,
        is_error=turn.is_error,
    )


class MemoryMcpServer(ToolServer):
    """Serves a memory as four tools over MCP."""

    def __init__(self, use_case: ServeMemoryUseCase, *, version: str) -> None:
        super().__init__(name="acc-memory", version=version, aclose=use_case.aclose)
        self._tools: Mapping[str, Callable[..., Awaitable[dict[str, Any]]]] = {
            "remember": use_case.remember,
            "recall": use_case.recall,
            "rules": use_case.rules,
            "explain": use_case.explain,
        }

    async def _list_tools(
        self, _: Context, __: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        tools = [
            mcp_types.Tool(
                name=name,
                description=_DESCRIPTIONS[name],
                input_schema=_input_schema(argument),
                annotations=mcp_types.ToolAnnotations(
                    read_only_hint=name != "remember", open_world_hint=False
                ),
            )
            for name, argument in _ARGUMENTS.items()
        ]
        return mcp_types.ListToolsResult(tools=tools)

    async def _call_tool(
        self, _: Context, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            names = ", ".join(self._tools)
            message = f"there is no tool {params.name!r}; the tools are {names}"
            raise MCPError(mcp_types.INVALID_PARAMS, message)
        given = dict(params.arguments or {})
        argument = _ARGUMENTS[params.name]
        expected = {argument, "conversation"} - {None}
        if unknown := sorted(set(given) - expected):
            return _result({"error": f"unknown argument {unknown[0]!r}"}, is_error=True)
        if argument is not None and argument not in given:
            return _result({"error": f"the argument {argument!r} is missing"}, is_error=True)
        try:
            return _result(await tool(**given))
        except AccError as error:
            return _result({"error": str(error)}, is_error=True)


def _input_schema(argument: str | None) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    if argument is not None:
        properties[argument] = {"type": "string", "minLength": 1}
    properties["conversation"] = _CONVERSATION
    required = [] if argument is None else [argument]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _result(content: dict[str, Any], *, is_error: bool = False) -> mcp_types.CallToolResult:
    text = content["error"] if is_error else json.dumps(content, ensure_ascii=False, indent=1)
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(text=text)], structured_content=content, is_error=is_error
    )
