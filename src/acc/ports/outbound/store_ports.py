"""Where sessions, their events and their artifacts are kept."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.session import Session, SessionKey, StoredArtifact


class AlongPort(Protocol):
    """Something for another store that is to be stored along with a session's events."""

    async def store(self) -> None:
        """Store it by itself; whether it was refused is for whoever made it to ask."""
        ...


class SessionStorePort(Protocol):
    """Keeps sessions and their events, one writer at a time.

    A run holds its session from `open` to `release`; events are numbered from 1 by the holder, and
    an append that does not continue the numbers, or comes from someone who no longer holds the
    session, is refused with SessionConflict. Every call that the disk refuses raises StorageFailed.
    """

    async def open(self, key: SessionKey, *, holder: str) -> Session:
        """Take hold of a session and return it, made anew if need be; SessionBusy if it is held.

        A holder that is known to be dead, or has been silent for longer than its lease, is put out.
        Events are not read.
        """
        ...

    async def begin(
        self,
        key: SessionKey,
        first: Callable[[Session], Sequence[Event]],
        *,
        holder: str,
        along: AlongPort | None = None,
    ) -> tuple[Session, tuple[Event, ...]]:
        """Open a session and store the events that a run of it begins with, in one go.

        `first` tells them, given the session, and must do nothing else: it may be called in another
        thread, and again. Returned are the session as it was and the events. The rest is as in
        `open` and `append`; without events, nothing goes along either.
        """
        ...

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        holder: str,
        release: bool = False,
        along: AlongPort | None = None,
    ) -> None:
        """Store events, all or none, and apply their state deltas; returning acknowledges them.

        The keys of a state delta go to the scope that their prefix names; `temp:` keys go nowhere.
        A user's MESSAGE starts a run and counts a turn; ENDED sets the session's status. Once this
        is called, the events are stored even if the caller is cancelled while it waits. With
        `release` the session is let go of together with them. What goes `along` is stored with
        them, in one transaction where both are in one file and right after them elsewhere; not at
        all if they are refused. They stay if it is refused.
        """
        ...

    async def renew(self, key: SessionKey, *, holder: str) -> None:
        """Keep hold for another lease."""
        ...

    async def release(self, key: SessionKey, *, holder: str) -> None:
        """Let go of the session; harmless if it is not held."""
        ...

    async def read(self, key: SessionKey) -> Session | None:
        """Return a session as it is now, held by someone or not."""
        ...

    async def events(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        limit: int | None = None,
        kinds: Collection[EventKind] | None = None,
        run_id: str = "",
    ) -> tuple[Event, ...]:
        """Return stored events in order, those that pass all the filters given."""
        ...

    async def newest(self, key: SessionKey, *, kind: EventKind, author: str) -> Event | None:
        """Return the last event of one kind and author."""
        ...

    async def sessions(self, app_name: str, user_id: str) -> tuple[Session, ...]:
        """Return a user's sessions, the last used first, without their state."""
        ...

    async def delete(self, key: SessionKey) -> None:
        """Forget a session, its events and artifacts; state of user and app stays."""
        ...

    async def delete_unused(
        self, keys: Collection[SessionKey], *, since: float
    ) -> frozenset[SessionKey]:
        """Forget sessions that nobody holds or has used since a time; return those that stay.

        Whether a session is in use is found out together with its deletion, so that nobody loses
        one by it.
        """
        ...

    async def aclose(self) -> None:
        """Let go of files and threads."""
        ...


class ArtifactStorePort(Protocol):
    """Keeps versioned files. A name that begins with `user:` is shared by the user's sessions."""

    async def save(self, key: SessionKey, name: str, data: bytes, media_type: str) -> int:
        """Store a further version and return its number, from 1 on."""
        ...

    async def load(
        self, key: SessionKey, name: str, version: int | None = None
    ) -> StoredArtifact | None:
        """Return a version, the newest if none is named."""
        ...

    async def names(self, key: SessionKey) -> tuple[str, ...]:
        """Return the names that can be loaded, sorted."""
        ...

    async def versions(self, key: SessionKey, name: str) -> tuple[int, ...]:
        """Return the version numbers of one name."""
        ...
