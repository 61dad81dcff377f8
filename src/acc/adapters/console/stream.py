"""Server-sent events of a session: stored events by number, and text that is being generated."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from acc.application.console.live_runs import Draft, LiveRuns
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.storage_ports import SessionStorePort

#: Runs of other processes are found by reading the store.
POLL_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0
_EVENTS_PER_READ = 200
_MAX_DIGITS = 15


class Position(NamedTuple):
    """What a page shows: the number of the last event, and a digest of its controls.

    It is the id of the events, so a browser sends it back when it reconnects.
    """

    seq: int
    controls: str

    @classmethod
    def parse(cls, text: str) -> "Position | None":
        """Return the position in a Last-Event-ID, None if it is not one."""
        number, _, controls = text.partition("-")
        if not number.isascii() or not number.isdigit() or len(number) > _MAX_DIGITS:
            return None
        return cls(int(number), controls)

    def __str__(self) -> str:
        return f"{self.seq}-{self.controls}"


class Controls(NamedTuple):
    """The controls of a session as HTML, and a digest of what they depend on."""

    digest: str
    html: str


class SessionStream:
    """Follows one session from a position, for one page."""

    def __init__(
        self,
        key: SessionKey,
        position: Position,
        *,
        store: SessionStorePort,
        runs: LiveRuns,
        render_event: Callable[[Event], Awaitable[str]],
        render_controls: Callable[[], Awaitable[Controls]],
        render_facts: Callable[[], Awaitable[str]],
        render_draft: Callable[[str], str],
        side: str = "",
    ) -> None:
        self._key = key
        self._position = position
        self._store = store
        self._runs = runs
        self._render_event = render_event
        self._render_controls = render_controls
        self._render_facts = render_facts
        self._render_draft = render_draft
        self._side = side
        self._shown = Draft(-1, "", "")

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield messages until the console stops."""
        yield b"retry: 500\n\n"
        idle = 0.0
        while self._runs.is_open:
            changed = self._runs.changed
            sent = False
            for message in await self._stored():
                sent = True
                yield message
            draft = self._draft()
            if draft:
                sent = True
                yield encode_message(draft)
            idle = 0.0 if sent else idle + POLL_SECONDS
            if idle >= HEARTBEAT_SECONDS:
                idle = 0.0
                yield b": heartbeat\n\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await changed.wait()

    async def _stored(self) -> list[bytes]:
        """Return messages for new events and changed controls."""
        messages: list[bytes] = []
        events = await self._store.events(
            self._key, after=self._position.seq, limit=_EVENTS_PER_READ
        )
        for event in events:
            self._position = self._position._replace(seq=event.seq)
            html = await self._render_event(event)
            messages.append(
                encode_message(html and self._partial("conversation", "beforeend", html), self._id)
            )
        controls = await self._render_controls()
        if controls.digest != self._position.controls:
            self._position = self._position._replace(controls=controls.digest)
            html = self._partial("controls", "innerHTML", controls.html)
            if not self._side:  # a page with two sessions shows no facts
                html += self._partial("facts", "innerHTML", await self._render_facts())
            messages.append(encode_message(html, self._id))
        return messages

    def _partial(self, target: str, swap: str, html: str) -> str:
        """Return HTML for an element of the page; a page with two sessions has it twice."""
        return partial_html(f"{target}{self._side}", swap, html)

    @property
    def _id(self) -> str:
        return str(self._position)

    def _draft(self) -> str:
        """Return a partial with the text that was generated since the last call."""
        run = self._runs.get(self._key)
        draft = Draft(0, "", "") if run is None else run.draft
        shown, self._shown = self._shown, draft
        if draft == shown or (not draft.text and not shown.text and shown.number >= 0):
            return ""
        if draft.number == shown.number and draft.text.startswith(shown.text):
            return self._partial(
                "draft", "beforeend", self._render_draft(draft.text[len(shown.text) :])
            )
        return self._partial("draft", "innerHTML", self._render_draft(draft.text))


async def follow(runs: LiveRuns, update: Callable[[], Awaitable[bytes]]) -> AsyncIterator[bytes]:
    """Yield the updates of a page until the console stops; an empty one is not sent."""
    yield b"retry: 500\n\n"
    idle = 0.0
    while runs.is_open:
        changed = runs.changed
        message = await update()
        if message:
            idle = 0.0
            yield message
        elif idle >= HEARTBEAT_SECONDS:
            idle = 0.0
            yield b": heartbeat\n\n"
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await changed.wait()
                continue
        idle += POLL_SECONDS


def partial_html(target: str, swap: str, html: str) -> str:
    """Return HTML that replaces or extends an element of the page."""
    return f'<hx-partial hx-target="#{target}" hx-swap="{swap}">{html}</hx-partial>'


def encode_message(html: str, event_id: str = "") -> bytes:
    """Return a server-sent event."""
    lines = [f"id: {event_id}"] if event_id else []
    if html:
        lines += [f"data: {line}" for line in html.split("\n")]
    return ("\n".join(lines) + "\n\n").encode()
