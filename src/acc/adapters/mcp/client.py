"""Client of MCP servers: connections that are shared by runs, retries and tool lists."""

import asyncio
import contextvars
import logging
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, Self

import mcp_types
import msgspec
from mcp import Client, InputRequiredRoundsExceededError, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.message import SessionMessage
from mcp_types.methods import parse_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from acc.domain.errors import AccError, AddressRefused, InvalidInput, RemoteFailed
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import McpEndpoint, McpToolInfo, McpToolResult
from acc.ports.outbound.mcp_ports import ProgressListener
from acc.ports.outbound.system_ports import SchemaValidatorPort

log = logging.getLogger("acc.mcp")
CONNECT_ATTEMPTS = 3
FIRST_RETRY_DELAY_SECONDS = 0.25
MAX_RETRY_DELAY_SECONDS = 10.0
#: After a failed connection the server is not contacted for this time, doubled each time.
FIRST_COOLDOWN_SECONDS = 1.0
MAX_COOLDOWN_SECONDS = 30.0
#: Maximum age of a tool list if the server does not notify of changes.
MAX_LIST_AGE_SECONDS = 60.0
RESUBSCRIBE_DELAY_SECONDS = 1.0
#: The connection is replaced after this number of consecutive unanswered calls.
MAX_UNANSWERED_CALLS = 3
MAX_PROGRESS_MESSAGES = 1_000
MAX_PROGRESS_LENGTH = 500
MAX_ERROR_LENGTH = 1_000
MAX_LIST_PAGES = 50
_SDK_ERRORS = (ValidationError, RuntimeError, InputRequiredRoundsExceededError, ValueError)


MAX_TOOLS = 500
MAX_SCHEMA_BYTES = 100_000
MAX_DESCRIPTION_LENGTH = 8_000
_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


class McpTransport(Protocol):
    """Transport of one connection: a process or HTTP."""

    def open(self, on_end: Callable[[], None]) -> AbstractAsyncContextManager[Any]:
        """Yield the streams from and to a server; call `on_end` when they have ended."""
        ...

    def failure_reason(self) -> str:
        """Return the known reason of a failure, or an empty string."""
        ...

    def redact(self, text: str) -> str:
        """Return a text without the secrets that were passed to the server."""
        ...

    def refusal(self) -> AddressRefused | None:
        """Return the error if the address of the server is not allowed."""
        ...


class TransportFactory(Protocol):
    """Creates the transport for a connection to an endpoint."""

    def __call__(self, endpoint: McpEndpoint, /) -> McpTransport:
        """Return a new transport."""
        ...


class McpConnections:
    """The MCP servers of one runner, with one connection each."""

    def __init__(
        self, *, transports: TransportFactory, schemas: SchemaValidatorPort, version: str
    ) -> None:
        self._transports = transports
        self._schemas = schemas
        self._version = version
        self._servers: dict[McpEndpoint, McpServer] = {}

    def server(self, endpoint: McpEndpoint) -> "McpServer":
        """Return the server at an endpoint without connecting to it."""
        if endpoint not in self._servers:
            self._servers[endpoint] = McpServer(
                endpoint,
                transports=self._transports,
                schemas=self._schemas,
                version=self._version,
            )
        return self._servers[endpoint]

    async def aclose(self) -> None:
        """Close all connections concurrently."""
        async with asyncio.TaskGroup() as group:
            for server in self._servers.values():
                group.create_task(server.aclose())


class McpServer:
    """One MCP server with one connection, which concurrent runs share."""

    def __init__(
        self,
        endpoint: McpEndpoint,
        *,
        transports: TransportFactory,
        schemas: SchemaValidatorPort,
        version: str,
    ) -> None:
        self._endpoint = endpoint
        self._transports = transports
        self._schemas = schemas
        self._version = version
        self._loop_state: _LoopState | None = None

    async def tools(self) -> Sequence[McpToolInfo]:
        """Return the tools of the server; the last known list if it is unavailable."""
        state = self._state()
        if state.tools is not None and _is_list_fresh(state):
            return state.tools
        try:
            session = await self._connected_session(state)
            async with state.lock:
                if state.tools is None or not _is_list_fresh(state):
                    await self._update_tools(state, session)
        except RemoteFailed:
            # With a known list the run continues: calls report the error to the model.
            if state.tools is None:
                raise
        return state.tools or ()

    def schema_error(self, tool: McpToolInfo, arguments: Mapping[str, Any]) -> str:
        """Return what is invalid in the arguments of a tool, or an empty string."""
        return self._schemas.schema_error(tool.schema, arguments)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        on_progress: ProgressListener | None = None,
    ) -> McpToolResult:
        """Call a tool once and return its result."""
        state = self._state()
        session = await self._connected_session(state)
        state.running_calls += 1
        progress = None if on_progress is None else _LimitedProgress(on_progress)
        try:
            result = await session.client.call_tool(
                name, dict(arguments), progress_callback=progress
            )
        except MCPError as error:
            raise self._call_error(state, session, error) from None
        except _SDK_ERRORS as error:
            raise session.error(f"invalid response ({type(error).__name__})") from None
        except asyncio.CancelledError:
            _count_unanswered_call(state, session)
            raise
        finally:
            state.running_calls -= 1
        state.lost_connections = state.unanswered_calls = 0
        return convert_result(result)

    async def aclose(self) -> None:
        """Close the connection; the next use opens a new one."""
        state, self._loop_state = self._loop_state, None
        if state is None or state.loop is not asyncio.get_running_loop():
            return
        if state.session is not None:
            await state.session.aclose()

    def _state(self) -> "_LoopState":
        if self._loop_state is None or self._loop_state.loop is not asyncio.get_running_loop():
            self._loop_state = _LoopState()
        return self._loop_state

    async def _connected_session(self, state: "_LoopState") -> "McpSession":
        async with state.lock:
            session = state.session
            if session is not None and session.is_alive:
                return session
            if state.failure is not None and state.loop.time() < state.cooldown_until:
                raise RemoteFailed(
                    f"{state.failure}; the next attempt follows in a moment", retryable=True
                )
            if session is not None:
                state.session = None
                state.lost_connections += 1
                await session.aclose()
                delay = FIRST_RETRY_DELAY_SECONDS * 2 ** (state.lost_connections - 1)
                await asyncio.sleep(min(delay, MAX_RETRY_DELAY_SECONDS))
            state.session = await self._connect(state)
            return state.session

    async def _connect(self, state: "_LoopState") -> "McpSession":
        """Connect, with retries, within the start timeout of the endpoint."""
        end = state.loop.time() + self._endpoint.start_timeout
        delay = FIRST_RETRY_DELAY_SECONDS
        attempts = CONNECT_ATTEMPTS
        while True:
            attempts -= 1
            session = McpSession(
                self._transports(self._endpoint), self._endpoint.display_name, self._version
            )
            try:
                await session.open(max(0.001, end - state.loop.time()))
            except InvalidInput:
                raise  # a retry is pointless
            except RemoteFailed as error:
                if not attempts or state.loop.time() + delay >= end:
                    cooldown = FIRST_COOLDOWN_SECONDS * 2**state.failures
                    state.cooldown_until = state.loop.time() + min(cooldown, MAX_COOLDOWN_SECONDS)
                    state.failure = error
                    state.failures += 1
                    raise
                await asyncio.sleep(delay)
                delay *= 2
            else:
                state.failure, state.failures = None, 0
                return session

    async def _update_tools(self, state: "_LoopState", session: "McpSession") -> None:
        session.tools_changed = False
        tools: list[mcp_types.Tool] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(self._endpoint.start_timeout):
                for _ in range(MAX_LIST_PAGES):
                    page = await session.client.list_tools(cursor=cursor)
                    tools += page.tools
                    cursor = page.next_cursor
                    if cursor is None or len(tools) >= MAX_TOOLS:
                        break
        except TimeoutError:
            session.close_soon()
            raise session.error("the list of tools timed out") from None
        except MCPError as error:
            raise self._call_error(state, session, error) from None
        except _SDK_ERRORS as error:
            raise session.error(f"invalid list of tools ({type(error).__name__})") from None
        state.tools = convert_tools(tools[:MAX_TOOLS])
        state.listed_at = state.loop.time()

    def _call_error(
        self, state: "_LoopState", session: "McpSession", error: MCPError
    ) -> RemoteFailed:
        message = error.message[:MAX_ERROR_LENGTH]
        if error.code == mcp_types.CONNECTION_CLOSED:
            if self._endpoint.command:  # over HTTP only the connection of this call is closed
                session.close_soon()
            return session.error("the connection was lost; the result of the call is unknown")
        if message == "Session terminated":
            session.close_soon()
        state.unanswered_calls = 0
        if error.code in (mcp_types.INVALID_PARAMS, mcp_types.METHOD_NOT_FOUND):
            session.tools_changed = True  # the tool may no longer exist
        return session.error_response(message)


class _LoopState:
    """The connection of a server in one event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.lock = asyncio.Lock()
        self.session: McpSession | None = None
        self.tools: tuple[McpToolInfo, ...] | None = None
        self.listed_at = 0.0
        self.lost_connections = 0
        self.unanswered_calls = 0
        self.running_calls = 0
        self.failure: AccError | None = None
        self.failures = 0
        self.cooldown_until = 0.0


def _is_list_fresh(state: _LoopState) -> bool:
    session = state.session
    if session is None or not session.is_alive or session.tools_changed:
        return False
    age = state.loop.time() - state.listed_at
    return session.notifies_changes or age < MAX_LIST_AGE_SECONDS


def _count_unanswered_call(state: _LoopState, session: "McpSession") -> None:
    state.unanswered_calls += 1
    if state.unanswered_calls >= MAX_UNANSWERED_CALLS and state.running_calls == 1:
        state.unanswered_calls = 0
        session.close_soon()


class _LimitedProgress:
    """Passes on a limited number of progress messages of limited length."""

    def __init__(self, listener: ProgressListener) -> None:
        self._listener = listener
        self._remaining = MAX_PROGRESS_MESSAGES

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self._remaining > 0:
            self._remaining -= 1
            text = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
            await self._listener((message or text)[:MAX_PROGRESS_LENGTH])


class McpSession:
    """One connection, from its opening until it is lost or closed.

    The SDK requires that the same task opens and closes a connection, but runs start and end
    independently. Therefore a task of its own holds the connection.
    """

    def __init__(self, transport: McpTransport, place: str, version: str) -> None:
        self._transport = transport
        self._place = place
        self._info = mcp_types.Implementation(name="acc", version=version)
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._end = asyncio.Event()
        self._ready = asyncio.Event()
        self._failure: BaseException | None = None
        #: Whether the server has notified that its tools changed.
        self.tools_changed = False
        #: Whether the server sends such notifications.
        self.notifies_changes = False

    @property
    def is_alive(self) -> bool:
        """Return True unless the connection is known to be closed."""
        has_task = self._task is not None and not self._task.done()
        return has_task and self._client is not None and not self._end.is_set()

    @property
    def client(self) -> Client:
        """Return the client of the SDK."""
        if self._client is None:
            raise self.error("not connected")
        return self._client

    def error(self, problem: str) -> RemoteFailed:
        """Return a retryable error with the reason that the transport knows."""
        reason = self._transport.failure_reason()
        text = f"MCP server {self._place}: {problem}"
        if reason not in text:
            text = f"{text} ({reason})"
        return RemoteFailed(self._transport.redact(text), retryable=True)

    def error_response(self, message: str) -> RemoteFailed:
        """Return the error for an error response of the server."""
        return RemoteFailed(self._transport.redact(f"MCP server {self._place}: {message}"))

    async def open(self, timeout: float) -> None:  # noqa: ASYNC109 - the timeout is an error text
        """Connect within a time limit, or raise the reason why this is not possible."""
        loop = asyncio.get_running_loop()
        # In a new context: the connection outlives the run that opens it.
        self._task = loop.create_task(self._hold_connection(), context=contextvars.Context())
        try:
            async with asyncio.timeout(timeout):
                await self._ready.wait()
        except TimeoutError:
            await self.aclose()
            raise self.error(f"not ready within {timeout:.3g} seconds") from None
        except BaseException:
            await self.aclose()
            raise
        if self._client is None:
            await self.aclose()
            raise self._open_error()

    def _open_error(self) -> AccError:
        refusal = self._transport.refusal()
        if refusal is not None:
            return refusal
        error = _innermost_error(self._failure)
        if isinstance(error, AccError):
            return error
        if error is None:
            return self.error("the connection ended immediately")
        text = str(error) if isinstance(error, MCPError) else type(error).__name__
        return self.error(f"the connection failed: {text}")

    def close_soon(self) -> None:
        """Close the connection without waiting for it."""
        self._end.set()

    async def aclose(self) -> None:
        """Close the connection and wait until its process, if any, has ended."""
        task = self._task
        if task is None:
            return
        self._end.set()
        if self._client is None:
            task.cancel()  # it does not wait for the end event yet
        cancellation: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancellation = error  # return only after the process has ended
        if cancellation is not None:
            raise cancellation

    async def _hold_connection(self) -> None:
        try:
            client = Client(
                self._open_streams(),
                message_handler=self._on_message,
                client_info=self._info,
                cache=None,
            )
            async with client, asyncio.TaskGroup() as group:
                watcher = group.create_task(self._watch_tools(client))
                self._client = client
                self._ready.set()
                await self._end.wait()
                watcher.cancel()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - the SDK raises any type
            self._failure = error
            log.debug("connection to %s ended: %s", self._place, type(error).__name__)
        finally:
            self._end.set()
            self._ready.set()

    @asynccontextmanager
    async def _open_streams(self) -> AsyncIterator[tuple[Any, Any]]:
        async with self._transport.open(self._end.set) as (incoming, outgoing):
            yield FilteredStream(incoming, self), outgoing

    async def _on_message(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.tools_changed = True

    async def _watch_tools(self, client: Client) -> None:
        """Watch for changes of the tool list, by subscription in modern protocol versions."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self.notifies_changes = tools is not None and bool(tools.list_changed)
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as events:
                    self.tools_changed = True  # it may have changed before the subscription
                    self.notifies_changes = bool(events.honored.tools_list_changed)
                    async for _ in events:
                        self.tools_changed = True
            except (ListenNotSupportedError, MCPError):
                self.notifies_changes = False
                return
            except (SubscriptionLost, TimeoutError):
                self.notifies_changes = False
            await asyncio.sleep(RESUBSCRIBE_DELAY_SECONDS)


class FilteredStream:
    """Incoming messages of a server; malformed tools are removed from tool lists."""

    def __init__(self, incoming: Any, session: McpSession) -> None:
        self._incoming = incoming
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._incoming, name)

    async def __aenter__(self) -> Self:
        await self._incoming.__aenter__()
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._incoming.__aexit__(*exception)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        item = await self._incoming.__anext__()
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, mcp_types.JSONRPCResponse) and isinstance(
            message.result.get("tools"), list
        ):
            drop_malformed_tools(message.result, self._session.client.protocol_version)
        return item


def _innermost_error(error: BaseException | None) -> BaseException | None:
    """Return the error inside nested exception groups; an AccError takes precedence."""
    while isinstance(error, BaseExceptionGroup):
        own = [found for found in error.exceptions if isinstance(found, AccError)]
        error = (own or error.exceptions)[0]
    return error


def convert_tools(tools: Iterable[mcp_types.Tool]) -> tuple[McpToolInfo, ...]:
    """Return the tools of a server without those that a model cannot use."""
    converted: dict[str, McpToolInfo] = {}
    for tool in tools:
        schema = tool.input_schema or _ANY_OBJECT
        if not tool.name.strip() or len(msgspec.json.encode(schema)) > MAX_SCHEMA_BYTES:
            log.warning(
                "a tool of an MCP server is ignored: it has no name, or its schema is too large"
            )
            continue
        hints = tool.annotations
        description = tool.description or tool.title or ""
        converted.setdefault(
            tool.name,
            McpToolInfo(
                name=tool.name,
                description=description[:MAX_DESCRIPTION_LENGTH],
                schema={**_ANY_OBJECT, **schema},
                destructive=None if hints is None else hints.destructive_hint,
                read_only=None if hints is None else hints.read_only_hint,
            ),
        )
    return tuple(converted.values())


def drop_malformed_tools(result: dict[str, Any], version: str) -> None:
    """Remove malformed tools from a list, because the SDK would reject the whole list."""
    if _is_valid_list(result, version):
        return
    tools = result["tools"]
    result["tools"] = [
        tool for tool in tools if _is_valid_list({**result, "tools": [tool]}, version)
    ]
    log.warning(
        "%d tools of an MCP server are ignored, because their descriptions are invalid",
        len(tools) - len(result["tools"]),
    )


def convert_result(result: mcp_types.CallToolResult) -> McpToolResult:
    """Return the result of a tool call."""
    return McpToolResult(
        parts=tuple(_convert_block(block) for block in result.content),
        structured=result.structured_content,
        is_error=bool(result.is_error),
    )


def _is_valid_list(result: dict[str, Any], version: str) -> bool:
    try:
        parse_server_result("tools/list", version, result)
    except (ValueError, KeyError, RecursionError):
        return False
    return True


def _convert_block(block: mcp_types.ContentBlock) -> Part:
    if isinstance(block, mcp_types.TextContent):
        return Part(text=block.text)
    if isinstance(block, mcp_types.ImageContent | mcp_types.AudioContent):
        return Part(raw=_decode_base64(block.data), media_type=block.mime_type)
    if isinstance(block, mcp_types.ResourceLink):
        return Part(url=str(block.uri), media_type=block.mime_type or "", filename=block.name)
    resource = block.resource
    name = str(resource.uri).rpartition("/")[2]
    media_type = resource.mime_type or ""
    if isinstance(resource, mcp_types.TextResourceContents):
        return Part(text=resource.text, media_type=media_type, filename=name)
    return Part(raw=_decode_base64(resource.blob), media_type=media_type, filename=name)


def _decode_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise RemoteFailed("the server sent a file with invalid base64") from None
