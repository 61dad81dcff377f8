"""One connection to an MCP server, kept by a task of its own for as long as it is wanted.

The SDK wants a connection to be opened and closed by the same task, and runs come and go.
"""

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, Self

import mcp_types
from mcp import Client, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from acc.adapters.mcp_tools.reading import drop_malformed_tools
from acc.domain.errors import AccError, AddressRefused, RemoteFailed

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
