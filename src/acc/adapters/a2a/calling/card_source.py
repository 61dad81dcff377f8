"""Fetching an agent's card, and keeping it for as long as its server says."""

import re
import time
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import httpx

from acc.adapters.a2a.calling.channel import CallFailed, Unreachable, unsendable
from acc.adapters.a2a.codec.cards import read_card
from acc.domain.errors import PermissionDenied, RemoteFailed, Unauthenticated
from acc.domain.value_objects.card import AgentCard
from acc.domain.value_objects.remote import origin_of

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
