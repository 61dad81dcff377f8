"""Memories of agents in sessions: create, restore, cache and update them."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NewType, TypeAlias

from acc.application.memory.messages import count_tokens, fit_messages
from acc.application.runtime.context import RunContext
from acc.application.runtime.conversation import TURN_EVENTS, conversation_turn
from acc.application.runtime.run import MemoryScope, Run, memory_scope
from acc.application.tracing.conventions import SEARCH_MEMORY, UPSERT_MEMORY
from acc.application.tracing.spans import (
    describe_size,
    describe_view,
    note_compaction,
    trace_memory,
)
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.memory import Source, TurnSignal
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.memory_ports import (
    IndexedMemoryPort,
    MemoryPort,
    MemoryView,
    RestorableMemoryPort,
    WindowMemoryPort,
)

log = logging.getLogger("acc.run")
#: A name that type checkers do not know: `MemoryName("acc:openai:gpt-5.2")`.
MemoryName = NewType("MemoryName", str)
#: The name of a memory, a function that creates one, or a memory for a single session.
MemoryChoice: TypeAlias = (
    Literal["transcript", "retrieval", "acc"] | MemoryName | MemoryPort | Callable[[], MemoryPort]
)
_EVENTS_PER_PAGE = 500
#: Turns that leave a view together if it is too large for the prompt.
_TURNS_PER_CHUNK = 8
#: Default number of memories in a process.
MAX_CACHED_MEMORIES = 512


@dataclass(slots=True)
class CachedMemory:
    """An agent's memory of a session, and the last event of the session that it contains."""

    memory: MemoryPort
    last_seq: int = 0
    #: Size of the view of the turn before, if runs are traced.
    tokens: int = 0


class MemoryCache:
    """Caches memories in use; the least recently used are evicted.

    A memory that was evicted, or was in another process, is created again from the turns of the
    session and its last snapshot. So is one that missed turns because another agent answered them.
    """

    def __init__(self, *, max_entries: int = MAX_CACHED_MEMORIES) -> None:
        if not isinstance(max_entries, int) or max_entries < 1:
            raise InvalidInput(
                f"max_cached_memories must be an integer of at least 1, got {max_entries!r}"
            )
        self._cache: OrderedDict[tuple[SessionKey, str], CachedMemory] = OrderedDict()
        self._max_entries = max_entries
        self._owned: dict[int, tuple[SessionKey, CachedMemory]] = {}

    async def get(self, context: RunContext, choice: MemoryChoice) -> "TurnMemory":
        """Return the memory of an agent for this run, with all turns before it."""
        run, agent_name = context.run, context.agent.name
        memory = run.memories.get(agent_name)
        if memory is None:
            cached = await self._load(run, agent_name, choice)
            memory = run.memories[agent_name] = TurnMemory(cached)
        memory.enter(context)
        return memory

    def evict(self, key: SessionKey, *agent_names: str) -> None:
        """Remove memories, which are created again from the recorded events."""
        for name in agent_names:
            self._cache.pop((key, name), None)

    def forget(self, key: SessionKey) -> None:
        """Remove the memories of a session whose turns are deleted."""
        if any(owner == key for owner, _ in self._owned.values()):
            raise InvalidInput(
                f"session {key.session_id!r} has a memory object that cannot forget turns; pass a "
                "function that creates a memory to the agent"
            )
        for place in [place for place in self._cache if place[0] == key]:
            del self._cache[place]

    def owned(self) -> list[MemoryPort]:
        """Return memory objects of single sessions that use resources of the services."""
        memories = [cached.memory for _, cached in self._owned.values()]
        return [memory for memory in memories if getattr(memory, "owned_resources", None)]

    async def _load(self, run: Run, agent_name: str, choice: MemoryChoice) -> CachedMemory:
        request = run.request
        place = (request.key, agent_name)
        cached = self._cache.get(place)
        # A memory with later events belongs to a session that was deleted since.
        if cached is None or cached.last_seq >= request.first_seq:
            cached = self._cache[place] = self._create(run, agent_name, choice)
            if len(self._cache) > self._max_entries:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(place)
        if cached.last_seq < request.first_seq - 1:
            try:
                if await _is_rewound(run, cached):
                    self.forget(request.key)
                    return await self._load(run, agent_name, choice)
                await _catch_up(run, agent_name, cached, before=request.first_seq)
            except BaseException:
                self.evict(request.key, agent_name)
                raise
        return cached

    def _create(self, run: Run, agent_name: str, choice: MemoryChoice) -> CachedMemory:
        # A class has the methods of its instances, so it is checked first.
        if isinstance(choice, str | type) or not isinstance(choice, MemoryPort):
            scope = MemoryScope(run.services, run.request.key, agent_name)
            return CachedMemory(create_memory(scope, choice))
        # It cannot be created again, so it must not get a turn twice.
        key = run.request.key
        owner, cached = self._owned.setdefault(id(choice), (key, CachedMemory(choice)))
        if owner != key:
            raise InvalidInput(
                f"this memory object belongs to session {owner.session_id!r} and cannot be used "
                f"for {key.session_id!r}; pass a function that creates a memory to the agent"
            )
        return cached


class TurnMemory:
    """The memory of one agent in one run, also if the agent runs several times.

    Its view does not change during a run, so that providers can cache the prompt. `commit_results`
    updates it in a long run.
    """

    __slots__ = ("_cached", "_context", "_signal", "_tokens_before", "_view")

    def __init__(self, cached: CachedMemory) -> None:
        self._context: RunContext
        self._signal: TurnSignal
        self._cached = cached
        self._tokens_before = cached.tokens
        self._view: MemoryView | None = None

    def enter(self, context: RunContext) -> None:
        """Start an execution of the agent."""
        self._context = context
        if self._view is None:
            turn_id = context.run.request.turn_id
            self._signal = TurnSignal(turn_id=turn_id, text=context.message)

    def commit_results(self, text: str, author: str) -> None:
        """Update the view with a tool result that the prompt no longer contains in full."""
        step = self._signal.step + 1
        self._signal = TurnSignal(
            turn_id=self._signal.turn_id, text=text, author=author, source=Source.TOOL, step=step
        )
        self._view = None

    def reduce_view(self, budget: int) -> MemoryView:
        """Drop the oldest turns of the view, in chunks, until it has at most `budget` tokens.

        If the last turn is larger, its messages are shortened.
        """
        view = self._view
        assert view is not None  # noqa: S101 - only a view that was shown can be reduced
        count = self._context.services.tokens().count
        starts = [n for n, message in enumerate(view.messages) if message.role == "user"] or [0]
        rest = view.tokens - sum(count_tokens(message, count) for message in view.messages)
        turn, size = 0, view.tokens
        while turn < len(starts) - 1 and size > budget:
            # A multiple of the chunk, so that the start of the prompt changes rarely.
            turn = min(turn + _TURNS_PER_CHUNK, len(starts) - 1)
            shown = view.messages[starts[turn] :]
            size = rest + sum(count_tokens(message, count) for message in shown)
        shown = view.messages[starts[turn] :]
        if size > budget:
            shown, tokens = fit_messages(shown, max(budget - rest, 0), count)
            size = rest + tokens
        self._view = replace(view, messages=shown, tokens=size)
        note_compaction(self._context, before=view.tokens, after=size)
        return self._view

    async def view(self) -> MemoryView | None:
        """Return what the memory contains, None if the model's response is recorded.

        What the memory commits is recorded.
        """
        context = self._context
        recorded = context.next_recorded()
        if recorded is not None and recorded.kind is EventKind.MEMORY:
            await context.emit(EventKind.MEMORY)
            if recorded.usage is not None:
                context.run.budget.add_usage(recorded.usage)
            if isinstance(self._cached.memory, RestorableMemoryPort):
                self._cached.memory.restore(recorded.detail["snapshot"])
        if context.next_recorded() is not None:
            return None
        if self._view is None:
            self._view = await self._compute_view(context)
        return self._view

    async def _compute_view(self, context: RunContext) -> MemoryView:
        memory = self._cached.memory
        with trace_memory(context, memory, SEARCH_MEMORY) as span:
            view = await memory.view(self._signal)
            if span is not None and isinstance(view, MemoryView):
                before, self._cached.tokens = self._cached.tokens, view.tokens
                describe_view(context, span, before=before, after=view.tokens, trace=view.trace)
        if not isinstance(view, MemoryView):
            raise TypeError(
                f"view() of its memory returned {_describe(view)}; expected "
                "MemoryView(text=..., tokens=...)"
            )
        usage = view.usage if view.usage.llm_calls else None
        if usage is not None:
            context.run.budget.add_usage(usage)
        if view.trace is not None:
            detail: dict[str, Any] = {"tokens": view.tokens, **view.detail}
            if "snapshot" not in detail and isinstance(memory, RestorableMemoryPort):
                detail["snapshot"] = memory.snapshot()
            await context.emit(EventKind.MEMORY, usage=usage, detail=detail)
        return view

    async def commit(self, events: Sequence[Event]) -> None:
        """Add the finished turn to the memory."""
        context = self._context
        span = context.run.span
        if span is not None:
            context.span = span  # that of the agent has ended
        memory = self._cached.memory
        with trace_memory(context, memory, UPSERT_MEMORY) as memory_span:
            await memory.record(conversation_turn(events))
            if memory_span is not None:
                describe_size(memory_span, before=self._tokens_before, after=self._cached.tokens)
        self._cached.last_seq = self._context.run.recorder.last_seq


async def commit_memories(run: Run) -> None:
    """Add a turn to all memories that took part in it."""
    if not run.memories:
        return
    # From the recorded events, as after a restart, so that both give the same memory.
    # The recorder may also have closed the interrupted run before this one.
    run_id = run.request.run_id
    events = [
        event
        for event in (*run.journal.events, *run.recorder.events)
        if event.kind in TURN_EVENTS and event.run_id == run_id
    ]
    for name, memory in run.memories.items():
        try:
            await memory.commit(events)
        except BaseException as error:
            # It may contain a part of the turn, so it is created again for the next one.
            run.services.memory_cache.evict(run.request.key, name)
            if not isinstance(error, Exception):
                raise
            log.exception("memory of agent %s failed; the answer is stored", name)
    run.memories.clear()  # breaks the reference cycle with the run


def create_memory(scope: MemoryScope, choice: str | Callable[[], object]) -> MemoryPort:
    """Return a new memory by name or from a function; it uses the models of the services."""
    token = memory_scope.set(scope)
    try:
        memory = scope.services.memories(choice) if isinstance(choice, str) else choice()
    finally:
        memory_scope.reset(token)
    if isinstance(memory, type) or not isinstance(memory, MemoryPort):
        raise TypeError(
            f"the function that creates its memory returned {_describe(memory)}; expected a "
            "MemoryPort with `async view(signal)` and `async record(turn)`"
        )
    return memory


def _describe(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


async def _is_rewound(run: Run, cached: CachedMemory) -> bool:
    """Return True if another process has deleted turns that a memory contains."""
    sessions, key = run.services.sessions, run.request.key
    if not cached.last_seq:
        return False
    markers = await sessions.events(key, after=cached.last_seq, kinds=(EventKind.REWOUND,))
    return any(marker.detail["after"] < cached.last_seq for marker in markers)


async def _catch_up(run: Run, agent_name: str, cached: CachedMemory, *, before: int) -> None:
    """Add the turns of the session that a memory has missed.

    A memory that can be restored gets its last snapshot and the turns since then, a memory of the
    newest turns only these, and any other memory all turns.
    """
    memory, after = cached.memory, cached.last_seq
    if not after:
        if isinstance(memory, WindowMemoryPort):
            await _add_newest_turns(run, memory, before=before)
            cached.last_seq = before - 1
            return
        after = await _restore(run, agent_name, cached, before=before)
    sessions, key = run.services.sessions, run.request.key
    turns: dict[str, list[Event]] = {}
    while after < before:
        page = await sessions.events(
            key, after=after, before=before, limit=_EVENTS_PER_PAGE, kinds=TURN_EVENTS
        )
        after = page[-1].seq if len(page) == _EVENTS_PER_PAGE else before
        for event in page:
            turns.setdefault(event.run_id, []).append(event)
            if is_end_of_turn(event):
                await memory.record(conversation_turn(turns.pop(event.run_id)))
    cached.last_seq = before - 1


async def _restore(run: Run, agent_name: str, cached: CachedMemory, *, before: int) -> int:
    """Restore the last snapshot of a memory; return the number of the last event it covers."""
    sessions, key, memory = run.services.sessions, run.request.key, cached.memory
    if not isinstance(memory, RestorableMemoryPort | IndexedMemoryPort):
        return 0
    newest = await sessions.newest(key, kind=EventKind.MEMORY, author=agent_name)
    if newest is not None:
        cached.tokens = newest.detail.get("tokens", 0)
    if isinstance(memory, RestorableMemoryPort):
        # An agent of another framework may have had the name before.
        if newest is None or newest.seq >= before or "snapshot" not in newest.detail:
            return 0
        memory.restore(newest.detail["snapshot"])
        start = (await sessions.events(key, run_id=newest.run_id, limit=1))[0]
        turn_id = start.detail["turn"]
    else:
        ends = await sessions.events(
            key, before=before, newest_first=True, kinds=(EventKind.MESSAGE,), limit=8
        )
        starts = [event for event in ends if event.author == "user"]
        if len(starts) < 2:
            return 0
        start, turn_id = starts[0], starts[0].detail["turn"]
    # An index may be incomplete, for example after a rewind.
    is_complete = (
        turn_id == 1
        or not isinstance(memory, IndexedMemoryPort)
        or await memory.has_turn(turn_id - 1)
    )
    return start.seq - 1 if is_complete else 0


async def _add_newest_turns(run: Run, memory: WindowMemoryPort, *, before: int) -> None:
    """Add turns from the newest to the oldest until the memory is full."""
    sessions, key = run.services.sessions, run.request.key
    events: dict[str, list[Event]] = {}
    while before > 1:
        page = await sessions.events(
            key, before=before, newest_first=True, limit=_EVENTS_PER_PAGE, kinds=TURN_EVENTS
        )
        if not page:
            return
        for event in page:
            run_events = events.setdefault(event.run_id, [])
            run_events.append(event)
            is_start = event.kind is EventKind.MESSAGE and event.author == "user"
            if not is_start or not is_end_of_turn(run_events[0]):
                continue
            if not memory.add_older(conversation_turn(events.pop(event.run_id)[::-1])):
                return
        before = page[-1].seq


def is_end_of_turn(event: Event) -> bool:
    """Return True if an event ends a run; a pause does not."""
    return event.kind is EventKind.ENDED and event.status is not RunStatus.INPUT_REQUIRED
