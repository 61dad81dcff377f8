"""ACC memory over the message history of another framework."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from acc.application.memory.messages import ABOUT_MEMORY, memory_block, part_text
from acc.domain.value_objects.content import ChatMessage, user_message
from acc.domain.value_objects.event import Event, EventActions, EventKind
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal
from acc.domain.value_objects.session import MAX_ID_LENGTH, SessionKey
from acc.ports.outbound.memory_ports import MemoryPort, MemoryView, RestorableMemoryPort
from acc.ports.outbound.storage_ports import SessionStorePort
from acc.ports.outbound.system_ports import ClockPort, IdsPort

MessageT = TypeVar("MessageT")
#: The key of the session's state under which a memory is stored.
STATE_KEY = "acc.memory"
#: Conversations of a process that are kept ready; others are restored from the store.
MAX_CONVERSATIONS = 512
#: Fingerprints of the newest turns, by which a shortened history is recognised.
_MAX_FINGERPRINTS = 8


class MessageCodec(Protocol[MessageT]):
    """Translates the messages of a framework."""

    def is_instruction(self, message: MessageT) -> bool:
        """Return True for a message of the developer, which is always sent."""
        ...

    def starts_turn(self, message: MessageT) -> bool:
        """Return True for a message of the user."""
        ...

    def decode(self, messages: Sequence[MessageT]) -> list[ChatMessage]:
        """Return messages of the framework as ours."""
        ...

    def encode(self, messages: Sequence[ChatMessage]) -> list[MessageT]:
        """Return our messages as those of the framework."""
        ...


class HistoryMemoryPort(MemoryPort, RestorableMemoryPort, Protocol):
    """A memory whose state can be stored."""


@dataclass(slots=True)
class _Conversation:
    """The memory of one conversation, and which turns of the history it contains."""

    memory: HistoryMemoryPort
    generation: int
    #: Number of turns in the memory, and fingerprints of the newest.
    turns: int = 0
    fingerprints: list[str] = field(default_factory=list)
    #: The message that the view answers, its answer if known, and the memory before it.
    query: str | None = None
    answer: str = ""
    before: Mapping[str, object] = field(default_factory=dict)
    view: MemoryView | None = None
    #: Whether the memory comes from the store and has not seen the last exchange.
    is_restored: bool = False


class HistoryMemory:
    """Replaces the history that a framework sends to a model by a bounded memory.

    The history itself is not changed. Turns that the memory does not contain yet are added to it;
    if the history was rewritten, the memory is built again from it. The state is stored with a
    session of acc, so a conversation that starts without a history continues where it ended.
    """

    def __init__(
        self,
        *,
        sessions: SessionStorePort,
        create: Callable[[SessionKey, str], HistoryMemoryPort],
        ids: IdsPort,
        clock: ClockPort,
        app_name: str,
    ) -> None:
        self._sessions = sessions
        self._create = create
        self._ids = ids
        self._clock = clock
        self._app_name = app_name
        self._conversations: OrderedDict[SessionKey, _Conversation] = OrderedDict()
        self._locks: dict[SessionKey, asyncio.Lock] = {}

    async def select(
        self,
        history: Sequence[MessageT],
        codec: MessageCodec[MessageT],
        *,
        session_id: str = "",
        user_id: str = "",
        is_complete: bool = False,
    ) -> list[MessageT]:
        """Return what a model gets: instructions, memory, and the messages of this turn.

        Without a session id the conversation is known by its history only. If the history is known
        to be complete, or there is no session id, a history of one message starts a new
        conversation.
        """
        starts = [index for index, one in enumerate(history) if codec.starts_turn(one)]
        if not starts:
            return list(history)
        past = [history[start:end] for start, end in pairwise(starts)]
        current = history[starts[-1] :]
        key = self._key(session_id, user_id)
        query = codec.decode(current[:1])[0].text
        async with self._locks.setdefault(key, asyncio.Lock()):
            try:
                conversation = await self._catch_up(
                    key,
                    past,
                    codec,
                    query,
                    is_new=(is_complete or not session_id) and not past,
                )
                view = await self._view(key, conversation, query)
            except BaseException:
                self._conversations.pop(key, None)  # it may contain a part of a turn
                raise
        instructions = [one for one in history[: starts[-1]] if codec.is_instruction(one)]
        # A greeting belongs to no turn, so the memory does not contain it.
        greeting = [
            one
            for one in codec.decode(history[: starts[0]])
            if one.role == "assistant" and not one.calls
        ]
        return [*instructions, *codec.encode([*greeting, *_as_messages(view)]), *current]

    async def compact(
        self, history: Sequence[MessageT], codec: MessageCodec[MessageT], *, user_id: str = ""
    ) -> tuple[str, list[MessageT]]:
        """Return the state after a complete history as text, and the last exchange."""
        starts = [index for index, one in enumerate(history) if codec.starts_turn(one)]
        past = [history[start:end] for start, end in pairwise([*starts, len(history)])]
        key = self._key(self._ids.new(), user_id)
        try:
            conversation = await self._catch_up(key, past, codec, "", is_new=False)
            signal = TurnSignal(turn_id=conversation.turns + 1, text="")
            view = await conversation.memory.view(signal)
        finally:
            self._conversations.pop(key, None)
            await self._sessions.delete(key)
        return view.text, codec.encode(complete_exchanges(view.messages))

    async def _catch_up(
        self,
        key: SessionKey,
        past: Sequence[Sequence[MessageT]],
        codec: MessageCodec[MessageT],
        query: str,
        *,
        is_new: bool,
    ) -> _Conversation:
        """Return the conversation after the turns that its memory did not contain."""
        conversation = await self._load(key)
        new = _new_turns(conversation, past, codec)
        if new is None or (is_new and (conversation.turns or conversation.query != query)):
            conversation = self._reset(key, conversation.generation + 1)
            new = past
        if not past:
            # The framework has no history: what was asked and answered is all there is.
            await self._add_asked(conversation, query)
        elif not new and conversation.is_restored:
            last = tuple(complete_exchanges(codec.decode(past[-1])))
            await conversation.memory.record(
                ConversationTurn(turn_id=conversation.turns, messages=last)
            )
        conversation.is_restored = False
        for turn in new:
            await _add(conversation, codec.decode(turn), self._clock.now())
        return conversation

    async def note_answer(
        self, text: str, *, session_id: str = "", user_id: str = "", query: str | None = None
    ) -> None:
        """Store the answer of the current turn, for frameworks without a history.

        An answer to another message than the current one, given by `query`, is not stored.
        """
        key = self._key(session_id, user_id)
        async with self._locks.setdefault(key, asyncio.Lock()):
            conversation = self._conversations.get(key)
            if conversation is None or not text or not session_id:
                return
            if query is not None and conversation.query != query:
                return
            conversation.answer = text
            await self._save(key, conversation)

    async def aclose(self) -> None:
        """Close the store."""
        await self._sessions.aclose()

    def _key(self, session_id: str, user_id: str) -> SessionKey:
        # Ids of other frameworks may be of any form.
        names = (_valid_id(user_id or "user"), _valid_id(session_id or "default"))
        return SessionKey(app_name=self._app_name, user_id=names[0], session_id=names[1])

    async def _load(self, key: SessionKey) -> _Conversation:
        conversation = self._conversations.get(key)
        if conversation is not None:
            self._conversations.move_to_end(key)
            return conversation
        session = await self._sessions.read(key)
        stored: Any = None if session is None else session.state.get(STATE_KEY)
        if session is None:
            await self._write(key, None)  # the index of a memory belongs to a session
        generation = 0 if stored is None else stored["generation"]
        conversation = _Conversation(self._create(key, f"memory{generation}"), generation)
        if stored is not None:
            conversation.memory.restore(stored["memory"])
            conversation.turns = stored["turns"]
            conversation.fingerprints = list(stored["fingerprints"])
            conversation.query, conversation.answer = stored["query"], stored["answer"]
            conversation.before = stored["memory"]
            conversation.is_restored = True
        self._remember(key, conversation)
        return conversation

    def _reset(self, key: SessionKey, generation: int) -> _Conversation:
        conversation = _Conversation(self._create(key, f"memory{generation}"), generation)
        self._remember(key, conversation)
        return conversation

    def _remember(self, key: SessionKey, conversation: _Conversation) -> None:
        self._conversations[key] = conversation
        if len(self._conversations) > MAX_CONVERSATIONS:
            oldest, _ = self._conversations.popitem(last=False)
            self._locks.pop(oldest, None)

    async def _add_asked(self, conversation: _Conversation, query: str) -> None:
        asked = conversation.query
        if asked is None or (asked == query and not conversation.answer):
            return  # the same turn again
        turn = ConversationTurn.of(conversation.turns + 1, asked, conversation.answer)
        await _add(conversation, list(turn.messages), self._clock.now())

    async def _view(self, key: SessionKey, conversation: _Conversation, query: str) -> MemoryView:
        """Return the view for a message; it does not change during the turn."""
        if conversation.view is not None and conversation.query == query:
            return conversation.view
        memory = conversation.memory
        if conversation.query is not None:
            memory.restore(conversation.before)
        conversation.before = memory.snapshot()
        signal = TurnSignal(turn_id=conversation.turns + 1, text=query)
        conversation.query, conversation.answer = query, ""
        conversation.view = await memory.view(signal)
        await self._save(key, conversation)
        return conversation.view

    async def _save(self, key: SessionKey, conversation: _Conversation) -> None:
        state = {
            "generation": conversation.generation,
            "turns": conversation.turns,
            "fingerprints": conversation.fingerprints,
            "query": conversation.query,
            "answer": conversation.answer,
            "memory": dict(conversation.before),
        }
        await self._write(key, state)

    async def _write(self, key: SessionKey, state: Mapping[str, Any] | None) -> None:
        holder = self._ids.new()
        await self._sessions.open(key, holder=holder)
        if state is None:
            await self._sessions.release(key, holder=holder)
            return
        event = Event(
            kind=EventKind.STATE,
            run_id=holder,
            author="memory",
            at=self._clock.now(),
            actions=EventActions(state_delta={STATE_KEY: state}),
        )
        await self._sessions.append(key, [event], holder=holder, release=True)


def _new_turns(
    conversation: _Conversation,
    past: Sequence[Sequence[MessageT]],
    codec: MessageCodec[MessageT],
) -> Sequence[Sequence[MessageT]] | None:
    """Return the turns that the memory does not contain; None if the history was rewritten."""
    count, known = conversation.turns, conversation.fingerprints
    if not count or not past:
        return past
    if len(past) >= count and _fingerprint(codec.decode(past[count - 1])) == known[-1]:
        return past[count:]
    for index in range(len(past) - 1, max(-1, len(past) - 1 - _MAX_FINGERPRINTS), -1):
        if _fingerprint(codec.decode(past[index])) == known[-1]:
            return past[index + 1 :]
    return None


async def _add(conversation: _Conversation, messages: list[ChatMessage], now: float) -> None:
    """Add a finished turn; its message is read first, unless that is done already."""
    memory, turn_id = conversation.memory, conversation.turns + 1
    query = messages[0].text
    if conversation.query != query or conversation.view is None:
        if conversation.query is not None:
            memory.restore(conversation.before)
        await memory.view(TurnSignal(turn_id=turn_id, text=query))
    complete = tuple(complete_exchanges(messages))
    await memory.record(ConversationTurn(turn_id=turn_id, messages=complete, at=now))
    conversation.turns = turn_id
    conversation.fingerprints.append(_fingerprint(messages))
    del conversation.fingerprints[:-_MAX_FINGERPRINTS]
    conversation.query, conversation.answer, conversation.view = None, "", None


def complete_exchanges(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return messages without calls that have no result and results that have no call."""
    results = {result.call_id for message in messages for result in message.results}
    open_calls: set[str] = set()
    complete: list[ChatMessage] = []
    for message in messages:
        if message.role == "tool":
            parts = tuple(p for p in message.parts if p.result and p.result.call_id in open_calls)
            open_calls -= {p.result.call_id for p in parts if p.result}
        else:
            parts = tuple(p for p in message.parts if p.call is None or p.call.id in results)
            open_calls |= {p.call.id for p in parts if p.call is not None}
        if parts:
            complete.append(
                ChatMessage(role=message.role, author=message.author, parts=parts, seq=message.seq)
            )
    return complete


def _as_messages(view: MemoryView) -> list[ChatMessage]:
    """Return a view as messages; the state comes first, marked as information."""
    messages: list[ChatMessage] = []
    if view.text:
        messages.append(user_message(f"{ABOUT_MEMORY}\n{memory_block(view.text)}"))
    return [*messages, *complete_exchanges(view.messages)]


def _fingerprint(messages: Sequence[ChatMessage]) -> str:
    digest = sha256()
    for message in messages:
        digest.update(message.role.encode())
        for part in message.parts:
            digest.update(f"\n{part_text(part)}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def _valid_id(value: str) -> str:
    is_valid = value.strip() and value.isprintable() and len(value) <= MAX_ID_LENGTH
    return value if is_valid else sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
