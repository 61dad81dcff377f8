"""One connection to an MCP server, kept by a task of its own for as long as it is wanted.

The SDK wants a connection to be opened and closed by the same task, and runs come and go.
"""

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, Self

import mcp_types
from mcp import Client, InputRequiredRoundsExceededError, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from acc.adapters.mcp.content import MOST_TOOLS, drop_malformed_tools, read_answer, read_tools
from acc.adapters.system.json_schema import schema_error
from acc.domain.errors import AccError, AddressRefused, InvalidInput, RemoteFailed
from acc.domain.value_objects.endpoint import McpEndpoint, McpToolInfo, McpToolResult
from acc.ports.outbound.mcp_ports import HearProgress

log = logging.getLogger("acc.mcp")
_LISTEN_AGAIN = 1.0


class Source(Protocol):
    """Where a connection comes from: a process, or HTTP."""

    def open(self, on_end: Callable[[], None]) -> AbstractAsyncContextManager[Any]:
        """Give the streams to and from a server, and call `on_end` when they have ended."""
        ...

    def last_words(self) -> str:
        """Return what is known about why it failed."""
        ...

    def cleaned(self, text: str) -> str:
        """Return a text without the secrets that the server was given."""
        ...

    def refusal(self) -> AddressRefused | None:
        """Return what kept us from calling it at all."""
        ...


class Link:
    """One connection, from its opening until it breaks or is closed."""

    def __init__(self, source: Source, place: str, version: str) -> None:
        self._source = source
        self._place = place
        self._info = mcp_types.Implementation(name="acc", version=version)
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._end = asyncio.Event()
        self._ready = asyncio.Event()
        self._fault: BaseException | None = None
        #: Whether the server has said that its tools are others now.
        self.changed = False
        #: Whether it would say so.
        self.tells_changes = False

    @property
    def alive(self) -> bool:
        """Tell whether the connection stands, as far as is known."""
        is_kept = self._task is not None and not self._task.done()
        return is_kept and self._client is not None and not self._end.is_set()

    @property
    def client(self) -> Client:
        """Return the SDK's client."""
        if self._client is None:
            raise self.lost("it is not connected")
        return self._client

    def lost(self, what: str) -> RemoteFailed:
        """Return the error that tells what happened, with what is known about why."""
        why = self._source.last_words()
        told = f"the MCP server {self._place}: {what}"
        words = f"{told} ({why})" if why not in told else told
        return RemoteFailed(self._source.cleaned(words), retryable=True)

    def refused(self, said: str) -> RemoteFailed:
        """Return the error of a server that answers, and says no."""
        return RemoteFailed(self._source.cleaned(f"the MCP server {self._place}: {said}"))

    async def open(self, seconds: float) -> None:
        """Connect, or say why it cannot be done in the time there is."""
        loop = asyncio.get_running_loop()
        # In a context of its own: it outlives the run that happens to need it first.
        self._task = loop.create_task(self._keep(), context=contextvars.Context())
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            await self.aclose()
            raise self.lost(f"it was not ready within {seconds:.3g} seconds") from None
        except BaseException:
            await self.aclose()
            raise
        if self._client is None:
            await self.aclose()
            raise self._opening_fault()

    def _opening_fault(self) -> AccError:
        refusal = self._source.refusal()
        if refusal is not None:
            return refusal
        found = _innermost(self._fault)
        if isinstance(found, AccError):
            return found
        said = str(found) if isinstance(found, MCPError) else type(found).__name__
        return self.lost(f"it cannot be used: {said}" if found else "it ended at once")

    def give_up(self) -> None:
        """Let the connection end, without waiting for that."""
        self._end.set()

    async def aclose(self) -> None:
        """End the connection, and wait until nothing is left of it."""
        task = self._task
        if task is None:
            return
        self._end.set()
        if self._client is None:
            task.cancel()  # it has not come to where it would see the end
        again: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                again = error  # the process is ours, so we leave once it is gone and not before
        if again is not None:
            raise again

    async def _keep(self) -> None:
        try:
            client = Client(
                self._opened(),
                message_handler=self._hear,
                client_info=self._info,
                cache=None,
            )
            async with client, asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(client))
                self._client = client
                self._ready.set()
                await self._end.wait()
                watching.cancel()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - the SDK lets out anything
            self._fault = error
            log.debug("the connection to %s ended: %s", self._place, type(error).__name__)
        finally:
            self._end.set()
            self._ready.set()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[Any, Any]]:
        async with self._source.open(self._end.set) as (incoming, outgoing):
            yield _Sifted(incoming, lambda: self.client.protocol_version), outgoing

    async def _hear(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.changed = True

    async def _watch(self, client: Client) -> None:
        """Learn when the tools change, in the ways of the older and the newer protocol."""
        offered = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self.tells_changes = offered is not None and bool(offered.list_changed)
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as events:
                    self.changed = True  # whatever was said before we listened
                    self.tells_changes = bool(events.honored.tools_list_changed)
                    async for _ in events:
                        self.changed = True
            except (ListenNotSupportedError, MCPError):
                self.tells_changes = False
                return
            except (SubscriptionLost, TimeoutError):
                self.tells_changes = False
            await asyncio.sleep(_LISTEN_AGAIN)


class _Sifted:
    """What comes from a server, but for single tools for which a whole listing would be refused."""

    def __init__(self, incoming: Any, version: Callable[[], str]) -> None:
        self._incoming = incoming
        self._version = version

    def __getattr__(self, name: str) -> Any:
        return getattr(self._incoming, name)

    async def __aenter__(self) -> Self:
        await self._incoming.__aenter__()
        return self

    async def __aexit__(self, *how: Any) -> None:
        await self._incoming.__aexit__(*how)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        item = await self._incoming.__anext__()
        told = item.message if isinstance(item, SessionMessage) else None
        if isinstance(told, mcp_types.JSONRPCResponse) and isinstance(
            told.result.get("tools"), list
        ):
            drop_malformed_tools(told.result, self._version())
        return item


def _innermost(error: BaseException | None) -> BaseException | None:
    """Return the error that a group of them is about; ours before the SDK's."""
    while isinstance(error, BaseExceptionGroup):
        ours = [one for one in error.exceptions if isinstance(one, AccError)]
        error = (ours or error.exceptions)[0]
    return error


_TRIES = 3
_FIRST_DELAY = 0.25
_MOST_DELAY = 10.0
#: How long a server that could not be opened is left alone; twice as long each time.
_FIRST_REST = 1.0
_MOST_REST = 30.0
#: How old a list may become that its server would not tell the changes of.
_MOST_AGE = 60.0
#: After so many calls in a row that nobody answered, the connection is made anew.
_MOST_UNANSWERED = 3
_MOST_PROGRESS = 1_000
_MOST_WORDS = 500
_MOST_SAID = 1_000
_MOST_PAGES = 50
_BROKEN = (ValidationError, RuntimeError, InputRequiredRoundsExceededError, ValueError)
OpenSource = Callable[[McpEndpoint], Source]


class _Place:
    """What belongs to one event loop: the connection, and who may make it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.lock = asyncio.Lock()
        self.link: Link | None = None
        self.tools: tuple[McpToolInfo, ...] | None = None
        self.listed_at = 0.0
        self.deaths = 0
        self.unanswered = 0
        self.running = 0
        self.failure: AccError | None = None
        self.failures = 0
        self.rests_until = 0.0


class McpServer:
    """One MCP server behind one connection, which any number of runs use at once."""

    def __init__(self, address: McpEndpoint, *, source: OpenSource, version: str) -> None:
        self._address = address
        self._source = source
        self._version = version
        self._held: _Place | None = None

    async def tools(self) -> Sequence[McpToolInfo]:
        """Return what the server offers now; who was known and is away is taken as it was."""
        place = self._place()
        if place.tools is not None and self._is_fresh(place):
            return place.tools
        try:
            link = await self._ready(place)
            async with place.lock:
                if place.tools is None or not self._is_fresh(place):
                    await self._list(place, link)
        except RemoteFailed:
            # Who is known goes on: calls say what is wrong, and the model may do without.
            if place.tools is None:
                raise
        return place.tools or ()

    def fault(self, tool: McpToolInfo, arguments: Mapping[str, Any]) -> str:
        """Return what is wrong with arguments by the tool's schema, or nothing."""
        return schema_error(tool.schema, arguments)

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, hear: HearProgress | None = None
    ) -> McpToolResult:
        """Call a tool once, and return what it gave."""
        place = self._place()
        link = await self._ready(place)
        place.running += 1
        try:
            result = await link.client.call_tool(
                name, dict(arguments), progress_callback=None if hear is None else _Progress(hear)
            )
        except MCPError as error:
            raise self._failed(place, link, error) from None
        except _BROKEN as error:
            raise link.lost(f"it answered what cannot be used ({type(error).__name__})") from None
        except asyncio.CancelledError:
            self._note_silence(place, link)
            raise
        finally:
            place.running -= 1
        place.deaths = place.unanswered = 0
        return read_answer(result)

    async def aclose(self) -> None:
        """End the connection; the next use would open another."""
        held, self._held = self._held, None
        if held is not None and held.link is not None and held.loop is asyncio.get_running_loop():
            await held.link.aclose()

    def _place(self) -> _Place:
        if self._held is None or self._held.loop is not asyncio.get_running_loop():
            self._held = _Place()
        return self._held

    def _is_fresh(self, place: _Place) -> bool:
        link = place.link
        if link is None or not link.alive or link.changed:
            return False
        return link.tells_changes or place.loop.time() - place.listed_at < _MOST_AGE

    async def _ready(self, place: _Place) -> Link:
        async with place.lock:
            link = place.link
            if link is not None and link.alive:
                return link
            self._check_cooldown(place)
            if link is not None:
                place.link = None
                place.deaths += 1
                await link.aclose()
                await asyncio.sleep(min(_FIRST_DELAY * 2 ** (place.deaths - 1), _MOST_DELAY))
            place.link = await self._open(place)
            return place.link

    def _check_cooldown(self, place: _Place) -> None:
        if place.failure is not None and place.loop.time() < place.rests_until:
            raise RemoteFailed(f"{place.failure}; it was tried a moment ago", retryable=True)

    async def _open(self, place: _Place) -> Link:
        """Connect, in several tries within the time that the server may take to start."""
        end = place.loop.time() + self._address.start_timeout
        delay = _FIRST_DELAY
        for left in range(_TRIES - 1, -1, -1):
            link = Link(self._source(self._address), self._address.place, self._version)
            try:
                await link.open(max(0.001, end - place.loop.time()))
            except InvalidInput:
                raise  # trying again would not help
            except RemoteFailed as error:
                if not left or place.loop.time() + delay >= end:
                    self._rest(place, error)
                    raise
                await asyncio.sleep(delay)
                delay *= 2
            else:
                place.failure, place.failures = None, 0
                return link
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def _rest(self, place: _Place, error: AccError) -> None:
        seconds = min(_FIRST_REST * 2**place.failures, _MOST_REST)
        place.failure, place.rests_until = error, place.loop.time() + seconds
        place.failures += 1

    async def _list(self, place: _Place, link: Link) -> None:
        link.changed = False
        found: list[mcp_types.Tool] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(self._address.start_timeout):
                for _ in range(_MOST_PAGES):
                    page = await link.client.list_tools(cursor=cursor)
                    found += page.tools
                    cursor = page.next_cursor
                    if cursor is None or len(found) >= MOST_TOOLS:
                        break
        except TimeoutError:
            link.give_up()
            raise link.lost("it does not tell its tools in time") from None
        except MCPError as error:
            raise self._failed(place, link, error) from None
        except _BROKEN as error:
            raise link.lost(f"it told its tools unreadably ({type(error).__name__})") from None
        place.tools = read_tools(found[:MOST_TOOLS])
        place.listed_at = place.loop.time()

    def _failed(self, place: _Place, link: Link, error: MCPError) -> RemoteFailed:
        said = error.message[:_MOST_SAID]
        if error.code == mcp_types.CONNECTION_CLOSED:
            if self._address.command:  # over HTTP it is the connection of this one call
                link.give_up()
            return link.lost("the connection was lost; what came of the call is not known")
        if said == "Session terminated":
            link.give_up()
        place.unanswered = 0
        if error.code in (mcp_types.INVALID_PARAMS, mcp_types.METHOD_NOT_FOUND):
            link.changed = True  # perhaps it no longer has what we think it has
        return link.refused(said)

    def _note_silence(self, place: _Place, link: Link) -> None:
        place.unanswered += 1
        if place.unanswered >= _MOST_UNANSWERED and place.running == 1:
            place.unanswered = 0
            link.give_up()


class _Progress:
    """Tells how far a call has come, so often and so long and no more."""

    def __init__(self, hear: HearProgress) -> None:
        self._hear = hear
        self._left = _MOST_PROGRESS

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self._left > 0:
            self._left -= 1
            done = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
            await self._hear((message or done)[:_MOST_WORDS])


class McpConnections:
    """The MCP servers of one runner, one connection to each."""

    def __init__(self, *, source: OpenSource, version: str) -> None:
        self._source = source
        self._version = version
        self._servers: dict[McpEndpoint, McpServer] = {}

    def server(self, address: McpEndpoint) -> McpServer:
        """Return the server at an address; nothing is opened yet."""
        if address not in self._servers:
            self._servers[address] = McpServer(address, source=self._source, version=self._version)
        return self._servers[address]

    async def aclose(self) -> None:
        """End every connection, all at the same time."""
        async with asyncio.TaskGroup() as group:
            for server in self._servers.values():
                group.create_task(server.aclose())
