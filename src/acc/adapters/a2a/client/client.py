"""Calling agents of other servers over A2A: both generations, both bindings."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import httpx

from acc.adapters.a2a.client.follower import TaskAssembler, TaskFollower, cancel_task, get_task
from acc.adapters.a2a.client.transport import (
    CallFailed,
    Transport,
    Unreachable,
    unsendable,
    wire_for,
)
from acc.adapters.a2a.wire.card_codec import read_card
from acc.application.a2a.projection import INPUT_REQUEST, MEMORY_FOOTPRINT
from acc.application.a2a.requests import SendRequest
from acc.domain.errors import (
    AccError,
    ExtensionRequired,
    PermissionDenied,
    RemoteFailed,
    Unauthenticated,
)
from acc.domain.value_objects.agent_card import AgentCard, Interface
from acc.domain.value_objects.endpoint import RemoteEndpoint, origin_of
from acc.domain.value_objects.task import ACTIVE, Message, PushConfig, Task
from acc.ports.outbound.remote_ports import Hear

_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,9})")
#: Where the server does not say how long a card holds.
_USUAL_AGE = 300.0
_TIMEOUT = 20.0
_RETRYABLE = frozenset({429, 502, 503, 504})


class Fetched(NamedTuple):
    """A card as it was sent, and where it was in the end."""

    url: str
    body: bytes
    etag: str
    fresh_for: float


class CardSource:
    """Fetches the card of one agent.

    The token goes along only where a server refuses to show its card without one, and only to the
    origin that the user named: a redirect elsewhere goes without it.
    """

    def __init__(
        self, url: str, *, token: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._addresses = card_addresses(url)
        self._token = token
        self._clock = clock
        self._held: AgentCard | None = None
        self._found: Fetched | None = None
        self._fresh_until = 0.0

    async def get(self, http: httpx.AsyncClient) -> AgentCard:
        """Return the card; one that is held is shown to the server first once it may be stale.

        A server that cannot be asked just now does not make a card that is held useless.
        """
        if self._held is not None and self._clock() < self._fresh_until:
            return self._held
        try:
            found = await self.fetch(http, known=self._found)
        except CallFailed:
            if self._held is None:
                raise
            return self._held
        if found is not None:
            self._held, self._found = read_card(found.body), found
        assert self._held is not None and self._found is not None  # noqa: S101 - 304 needs one
        self._fresh_until = self._clock() + (found or self._found).fresh_for
        return self._held

    async def fetch(
        self, http: httpx.AsyncClient, *, known: Fetched | None = None
    ) -> Fetched | None:
        """Return the card as its server sends it, None if it is the one known."""
        addresses = self._addresses if known is None else (known.url,)
        missing: list[str] = []
        for address in addresses:
            response = await self._asked(http, address, known)
            if response.status_code == 304 and known is not None:
                return None
            if response.is_success:
                return _fetched(response)
            if response.status_code not in (404, 405, 410):
                raise _failure(response, address)
            missing.append(urlsplit(address).path)
        if known is not None:  # it has moved; look where it may be
            return await self.fetch(http)
        raise RemoteFailed(
            f"{origin_of(self._addresses[0])} has no agent card at {' or '.join(missing)}; give "
            "the URL that its agent is under, or that of the card itself",
            remote_code="no_card",
        )

    async def _asked(
        self, http: httpx.AsyncClient, address: str, known: Fetched | None
    ) -> httpx.Response:
        headers = {"Accept": "application/json"}
        if known is not None and known.etag:
            headers["If-None-Match"] = known.etag
        response = await _get(http, address, headers)
        may_send = origin_of(address) == origin_of(self._addresses[0])
        if response.status_code in (401, 403) and self._token and may_send:
            headers["Authorization"] = f"Bearer {self._token}"
            response = await _get(http, address, headers)
        return response


def card_addresses(url: str) -> tuple[str, ...]:
    """Return where the card of the agent at a URL may be, the likeliest place first."""
    parts = urlsplit(url)
    if parts.path.endswith(".json"):
        return (urlunsplit(parts._replace(fragment="")),)
    base = parts._replace(query="", fragment="")
    return tuple(
        urlunsplit(base._replace(path=f"{parts.path.rstrip('/')}{path}")) for path in _PATHS
    )


async def _get(http: httpx.AsyncClient, url: str, headers: dict[str, str]) -> httpx.Response:
    place = origin_of(url)
    try:
        return await http.get(url, headers=headers, timeout=_TIMEOUT, follow_redirects=True)
    except httpx.TooManyRedirects as error:
        raise RemoteFailed(f"{place} redirects too often") from error
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        said = str(error) or type(error).__name__
        raise Unreachable(f"{place} cannot be reached: {said}", retryable=True) from error
    except httpx.LocalProtocolError:
        raise unsendable(place) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = str(error) or type(error).__name__
        raise CallFailed(
            f"the card of {place} did not come through: {said}", retryable=True
        ) from error


def _fetched(response: httpx.Response) -> Fetched:
    return Fetched(
        url=str(response.url),
        body=response.content,
        etag=response.headers.get("etag", ""),
        fresh_for=_freshness(response.headers.get("cache-control", "").lower()),
    )


def _freshness(control: str) -> float:
    if "no-store" in control or "no-cache" in control:
        return 0.0
    age = _MAX_AGE.search(control)
    return float(age[1]) if age else _USUAL_AGE


def _failure(response: httpx.Response, address: str) -> Exception:
    place, status = origin_of(address), response.status_code
    if status == 401:
        return Unauthenticated(f"{place} shows its card only to those with a token that is good")
    if status == 403:
        return PermissionDenied(f"{place} does not show its card to this caller")
    said = f"{place} answered {status} when asked for its card"
    if status in _RETRYABLE:
        return CallFailed(said, retryable=True)
    return RemoteFailed(said, remote_code=str(status))


_SPOKEN_EXTENSIONS = frozenset({INPUT_REQUEST, MEMORY_FOOTPRINT})
_TO_CANCEL = 5.0
_MOST_BELLS = 1024
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_TRACE_PARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """How calls leave: what opens the guarded HTTP client, and what marks a call as a stream."""

    open: Callable[[], AbstractAsyncContextManager[httpx.AsyncClient]]
    streaming: Mapping[str, Any]


class A2AClient:
    """Calls one remote agent.

    Connections last as long as one message and its task, so that nothing is left open; the card is
    kept. The token goes to the origin of the URL that the user named, and to the origins that the
    user trusts besides. A card may name other addresses; they are called through the same guard,
    but without the token, however alike the hosts look: whoever can change a card could otherwise
    collect tokens, and which hosts belong together cannot be told from their names.
    """

    def __init__(self, address: RemoteEndpoint, *, door: Door, token: str = "") -> None:
        self._address = address
        self._door = door
        self._token = token
        self._cards = CardSource(address.url, token=token)
        self._bells: dict[str, asyncio.Event] = {}

    async def card(self) -> AgentCard:
        """Return the agent's card."""
        async with self._door.open() as http:
            return await self._cards.get(http)

    async def fetch_card(self) -> Fetched:
        """Return the card as its server sends it, whether it can be read or not."""
        async with self._door.open() as http:
            found = await self._cards.fetch(http)
        assert found is not None  # noqa: S101 - nothing is known that it could be the same as
        return found

    async def send(
        self,
        message: Message,
        *,
        hear: Hear | None = None,
        known: Task | None = None,
        push: PushConfig | None = None,
    ) -> Task | Message:
        """Send a message, and return what came of it once its task has ended or waits."""
        follower = TaskAssembler(hear, known)
        async with self._following(follower, _trace_headers(message)) as (exchange, card):
            push = push if card.push_notifications else None
            # A server that returns at once may return a waiting task as it was before the message.
            request = SendRequest(
                message=message, wait=bool(message.task_id), push=push, history_length=0
            )
            if push is None and self._streams(card):
                await exchange.stream(request)
            else:
                await exchange.poll(request, is_told=push is not None)
        return follower.result

    async def follow(self, task_id: str, *, hear: Hear | None = None) -> Task | Message:
        """Return what comes of a task that was begun earlier."""
        follower = TaskAssembler(hear)
        async with self._following(follower, {}) as (exchange, _):
            task = await exchange.retrying(lambda channel: get_task(channel, task_id))
            follower.take_up(task)
            await exchange.poll(None)
        return follower.result

    async def get(self, task_id: str) -> Task:
        """Return a task as it is now."""
        async with self._exchange(TaskAssembler(), {}) as (exchange, _):
            return await exchange.retrying(lambda channel: get_task(channel, task_id))

    async def cancel(self, task_id: str) -> Task:
        """Cancel a task."""
        async with self._exchange(TaskAssembler(), {}) as (exchange, _):
            return await exchange.retrying(lambda channel: cancel_task(channel, task_id))

    def notified(self, task_id: str) -> None:
        """Take note that the server has news of a task, maybe before it has told us its id."""
        self._bell(task_id).set()

    def _bell(self, task_id: str) -> asyncio.Event:
        if task_id not in self._bells and len(self._bells) >= _MOST_BELLS:
            del self._bells[next(iter(self._bells))]
        return self._bells.setdefault(task_id, asyncio.Event())

    @asynccontextmanager
    async def _following(
        self, follower: TaskAssembler, headers: Mapping[str, str]
    ) -> AsyncIterator[tuple[TaskFollower, AgentCard]]:
        """Give an exchange, bounded in time; who leaves it early cancels the remote task."""
        seconds = self._address.timeout
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline, self._exchange(follower, headers) as found:
                yield found
        except TimeoutError:
            await self._give_up(follower)
            if not deadline.expired():
                raise
            raise RemoteFailed(
                f"{self._address.place} did not finish within {seconds:g} seconds",
                remote_code="timed_out",
            ) from None
        except CallFailed:
            raise  # who cannot be reached cannot be told either
        except BaseException:
            await self._give_up(follower)
            raise
        finally:
            if follower.task is not None:
                self._bells.pop(follower.task.id, None)

    async def _give_up(self, follower: TaskAssembler) -> None:
        """Cancel a task that nobody waits for any more, if that can be done in a moment."""
        task = follower.task
        if task is None or task.state not in ACTIVE:
            return
        with suppress(AccError, TimeoutError):
            async with asyncio.timeout(_TO_CANCEL):
                await self.cancel(task.id)

    @asynccontextmanager
    async def _exchange(
        self, follower: TaskAssembler, headers: Mapping[str, str]
    ) -> AsyncIterator[tuple[TaskFollower, AgentCard]]:
        async with self._door.open() as http:
            card = await self._cards.get(http)
            channels = self._channels(http, card, headers)
            yield (
                TaskFollower(
                    channels, follower, retries=self._address.retries, bell=self._wait_for_news
                ),
                card,
            )

    def _channels(
        self, http: httpx.AsyncClient, card: AgentCard, headers: Mapping[str, str]
    ) -> list[Transport]:
        spoken = chosen_interfaces(card)
        extensions = self._extensions(card)
        channels = []
        for interface in spoken:
            told = {**headers, **extensions}
            if self._token:
                if not self._is_trusted(interface):
                    continue
                told["Authorization"] = f"Bearer {self._token}"
            channels.append(
                Transport(http, interface, headers=told, streaming=self._door.streaming)
            )
        if not channels:
            places = ", ".join(dict.fromkeys(origin_of(one.url) for one in spoken))
            raise RemoteFailed(
                f"the card at {self._address.place} names {places}, and the token is not sent to "
                "another origin than the one it was given for; name that URL, or trust the origin",
                remote_code="untrusted_origin",
            )
        return channels

    def _is_trusted(self, interface: Interface) -> bool:
        origin = origin_of(interface.url)
        trusted = {self._address.place, *(origin_of(entry) for entry in self._address.trust)}
        return origin in trusted

    def _extensions(self, card: AgentCard) -> dict[str, str]:
        offered = {extension.uri for extension in card.extensions}
        for extension in card.extensions:
            if extension.required and extension.uri not in _SPOKEN_EXTENSIONS:
                raise ExtensionRequired(
                    f"{card.name!r} requires the extension {extension.uri}, which is not spoken "
                    "here"
                )
        used = ", ".join(sorted(offered & _SPOKEN_EXTENSIONS))
        return {"A2A-Extensions": used, "X-A2A-Extensions": used} if used else {}

    def _streams(self, card: AgentCard) -> bool:
        return card.streaming and self._address.streaming is not False

    async def _wait_for_news(self, task_id: str, seconds: float) -> None:
        bell = self._bell(task_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await bell.wait()
        bell.clear()


def chosen_interfaces(card: AgentCard) -> Sequence[Interface]:
    """Return the interfaces that are spoken here: newer generations first, else as the card says.

    RemoteFailed if there is none.
    """
    known = [interface for interface in card.interfaces if wire_for(interface) is not None]
    spoken = [interface for interface in known if _can_be_called(interface.url)]
    if known and not spoken:
        raise RemoteFailed(
            f"the card of {card.name!r} gives {known[0].url!r} as its address, which is no "
            "absolute URL of http or https; who runs the agent must mend the card",
            remote_code="no_interface",
        )
    if not spoken:
        listed = ", ".join(f"{one.binding} {one.version}" for one in card.interfaces) or "nothing"
        raise RemoteFailed(
            f"the card of {card.name!r} lists {listed}; spoken here are JSONRPC and HTTP+JSON of "
            "1.0 and 0.3",
            remote_code="no_interface",
        )
    return sorted(spoken, key=lambda interface: not interface.version.startswith("1"))


def _can_be_called(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _trace_headers(message: Message) -> dict[str, str]:
    """Return the W3C header of the trace that a message belongs to, if there is one."""
    parent = message.metadata.get("traceparent")
    if isinstance(parent, str) and _TRACE_PARENT.fullmatch(parent):
        return {"traceparent": parent}
    trace = message.metadata.get("traceId")
    if isinstance(trace, str) and _TRACE_ID.fullmatch(trace) and trace.strip("0"):
        span = sha256(message.message_id.encode()).hexdigest()[:16]
        return {"traceparent": f"00-{trace}-{span}-01"}
    return {}
