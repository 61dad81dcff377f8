"""Stored responses of the Responses API, each a link to the one before it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from acc.adapters.proxy.chat_messages import CODEC, Message
from acc.domain.errors import SessionBusy
from acc.domain.value_objects.event import Event, EventActions, EventKind
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.storage_ports import SessionStorePort
from acc.ports.outbound.system_ports import ClockPort, IdsPort

_APP_NAME = "proxy-responses"
_RECORD = "record"
_NEWEST = "newest"
#: The turns of a record: the current one, and the last one that the memory contains.
_RECENT_TURNS = 2


class ResponseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A response and what is needed to continue after it.

    `conversation` is the id of the memory. `instructions` are messages of the developer in the
    input so far. `recent` are the messages of the newest turns, and `added` those of this request
    and its answer, from which the conversation can be built again.
    """

    response: dict[str, Any]
    conversation: str
    previous: str
    instructions: list[Message]
    recent: list[Message]
    added: list[Message]


class ResponseChains:
    """Stores responses, and which of them is the newest of a conversation.

    Each response is a session of its own, so that it is found by its id and deleted alone.
    """

    def __init__(self, *, sessions: SessionStorePort, clock: ClockPort, ids: IdsPort) -> None:
        self._sessions = sessions
        self._clock = clock
        self._ids = ids

    async def read(self, caller: str, response_id: str) -> ResponseRecord | None:
        """Return the response of a caller, or None."""
        session = await self._sessions.read(_key(caller, response_id))
        stored = None if session is None else session.state.get(_RECORD)
        return None if stored is None else msgspec.convert(stored, ResponseRecord)

    async def write(self, caller: str, record: ResponseRecord) -> None:
        """Store a response."""
        key, holder = _key(caller, record.response["id"]), self._ids.new()
        await self._sessions.open(key, holder=holder)
        await self._append(key, {_RECORD: msgspec.to_builtins(record)}, holder)

    async def delete(self, caller: str, response_id: str) -> bool:
        """Delete a response; return False if there is none."""
        if await self.read(caller, response_id) is None:
            return False
        await self._sessions.delete(_key(caller, response_id))
        return True

    async def advance(self, caller: str, conversation: str, *, old: str, new: str) -> bool:
        """Make `new` the newest response of a conversation; return False if `old` is not it."""
        key, holder = _key(caller, conversation), self._ids.new()
        try:
            session = await self._sessions.open(key, holder=holder)
        except SessionBusy:
            return False
        if session.state.get(_NEWEST, "") != old:
            await self._sessions.release(key, holder=holder)
            return False
        await self._append(key, {_NEWEST: new}, holder)
        return True

    async def messages(self, caller: str, record: ResponseRecord) -> list[Message]:
        """Return all messages up to a response, oldest first; deleted responses are left out."""
        added = [record.added]
        previous: ResponseRecord | None = record
        while previous is not None and previous.previous:
            previous = await self.read(caller, previous.previous)
            if previous is not None:
                added.append(previous.added)
        return [message for messages in reversed(added) for message in messages]

    async def _append(self, key: SessionKey, delta: dict[str, Any], holder: str) -> None:
        event = Event(
            kind=EventKind.STATE,
            run_id=holder,
            author="proxy",
            at=self._clock.now(),
            actions=EventActions(state_delta=delta),
        )
        await self._sessions.append(key, [event], holder=holder, release=True)


def recent_turns(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of the newest turns, without instructions."""
    turns = [one for one in messages if not CODEC.is_instruction(one)]
    starts = [index for index, one in enumerate(turns) if CODEC.starts_turn(one)]
    return turns[starts[-_RECENT_TURNS] :] if len(starts) > _RECENT_TURNS else turns


def _key(caller: str, session_id: str) -> SessionKey:
    return SessionKey(app_name=_APP_NAME, user_id=caller, session_id=session_id)
