"""The memories of running conversations: made when needed, told what they missed, let go."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acc.application.runtime.context import RunContext
from acc.application.runtime.run import Run, making_for
from acc.application.tools.tool import TRANSFER_TOOL_NAME
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import ToolResult
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.memory import Decision, Source, TurnSignal
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.memory_ports import MemoryPort, MemoryView, RestorableMemoryPort

log = logging.getLogger("acc.run")
#: A memory by name, a function that makes one, or one that serves a single session.
MemoryChoice = str | MemoryPort | Callable[[], MemoryPort]
_TOLD = (EventKind.MESSAGE, EventKind.TOOL_RESULT, EventKind.ENDED)
_MOST_TOOL_TEXT = 4_000
_PAGE = 500


@dataclass(slots=True)
class CachedMemory:
    """One agent's memory of one session, and how much of the session it has been told."""

    memory: MemoryPort
    seen: int = 0


class MemoryCache:
    """Holds the memories in use, the least used given up first.

    A memory that was given up, or was in a process that is gone, is made anew: it is told the
    session's turns, and a state that it wrote down is taken up. So is one that missed turns because
    another agent answered them.
    """

    def __init__(self, *, most: int = 512) -> None:
        self._kept: OrderedDict[tuple[SessionKey, str], CachedMemory] = OrderedDict()
        self._most = most
        self._owned: dict[int, tuple[SessionKey, CachedMemory]] = {}

    async def take(self, context: RunContext, choice: MemoryChoice) -> "TurnMemory":
        """Return what an agent does with its memory in this run, told everything before it."""
        run, agent_name = context.run, context.agent.name
        remembering = run.taken.get(agent_name)
        if remembering is None:
            kept = await self._take(run, agent_name, choice)
            remembering = run.taken[agent_name] = TurnMemory(kept)
        remembering.enter(context)
        return remembering

    async def _take(self, run: Run, agent_name: str, choice: MemoryChoice) -> CachedMemory:
        place = (run.key, agent_name)
        kept = self._kept.get(place)
        # One that knows of later events knew a session that was deleted since.
        if kept is None or kept.seen >= run.first_seq:
            kept = self._kept[place] = self._make(run, choice)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(place)
        if kept.seen < run.first_seq - 1:
            try:
                await _catch_up(run, agent_name, kept, before=run.first_seq)
            except BaseException:
                self.forget(run.key, agent_name)
                raise
        return kept

    def forget(self, key: SessionKey, agent_name: str) -> None:
        """Give a memory up; it is made anew from what is on record."""
        self._kept.pop((key, agent_name), None)

    def owned(self) -> list[MemoryPort]:
        """Return what was given as it is, for a single session, and has opened things of ours."""
        memories = [kept.memory for _, kept in self._owned.values()]
        return [memory for memory in memories if getattr(memory, "owned_resources", None)]

    def _make(self, run: Run, choice: MemoryChoice) -> CachedMemory:
        if isinstance(choice, str):
            return CachedMemory(run.services.memories(choice))
        # A class has the methods of what it makes, and is none itself.
        if isinstance(choice, type) or not isinstance(choice, MemoryPort):
            return CachedMemory(_made(run, choice))
        # It cannot be made anew, so what it has been told is told only once.
        owner, kept = self._owned.setdefault(id(choice), (run.key, CachedMemory(choice)))
        if owner != run.key:
            raise InvalidInput(
                f"this memory already serves session {owner.session_id!r} and must not be shown"
                f" to {run.key.session_id!r}; give the agent a function that makes one"
            )
        return kept


def _made(run: Run, make: Callable[[], object]) -> MemoryPort:
    """Return what a function made; what it opens by name is the run's, and shared by sessions."""
    before = making_for.set(run.services)
    try:
        return _checked(make())
    finally:
        making_for.reset(before)


def _checked(made: object) -> MemoryPort:
    """Return what a function of anyone's made, if it is a memory."""
    if isinstance(made, type) or not isinstance(made, MemoryPort):
        raise TypeError(
            f"the function that makes its memory returned {_kind(made)}: a MemoryPort is wanted, "
            "with `async view(signal)` and `async keep(signal, decision)`"
        )
    return made


def _kind(found: object) -> str:
    """Return what something is, in words for whoever wrote what returned it."""
    return f"the class {found.__name__}" if isinstance(found, type) else type(found).__name__


async def _catch_up(run: Run, agent_name: str, kept: CachedMemory, *, before: int) -> None:
    sessions = run.services.sessions
    turns: dict[str, list[Event]] = {}
    after = kept.seen
    while after < before:
        page = await sessions.events(run.key, after=after, limit=_PAGE, kinds=_TOLD)
        after = page[-1].seq if page else before
        for event in page:
            if event.seq >= before:
                break
            turns.setdefault(event.run_id, []).append(event)
            if event.kind is EventKind.ENDED and event.status is not RunStatus.INPUT_REQUIRED:
                await _tell_turn(kept, agent_name, turns.pop(event.run_id))
    if isinstance(kept.memory, RestorableMemoryPort):
        newest = await sessions.newest(run.key, kind=EventKind.MEMORY, author=agent_name)
        if newest is not None and newest.seq < before:
            kept.memory.restore(newest.detail["snapshot"])
    kept.seen = before - 1


async def _tell_turn(kept: CachedMemory, agent_name: str, events: Sequence[Event]) -> None:
    if events[-1].status is not RunStatus.COMPLETED:
        return
    signals: list[TurnSignal] = []
    text = events[-1].text
    for event in events:
        if event.kind is EventKind.MESSAGE and event.author == "user":
            signals.append(TurnSignal(turn_id=event.detail["turn"], text=event.text))
        elif event.kind is EventKind.MESSAGE and event.author == agent_name:
            text = event.text
        elif event.author != agent_name or (result := event.result) is None:
            continue
        elif result.name != TRANSFER_TOOL_NAME:
            signals.append(tool_signal(signals[0], len(signals), result))
    await tell(kept.memory, signals, text)


async def tell(memory: MemoryPort, signals: Sequence[TurnSignal], text: str) -> None:
    """Tell a memory what an agent was faced with in a turn, and what it answered in the end."""
    last = len(signals) - 1
    for number, signal in enumerate(signals):
        said = text if number == last else ""
        await memory.record(signal, Decision(turn_id=signal.turn_id, text=said))


def tool_signal(first: TurnSignal, step: int, result: ToolResult) -> TurnSignal:
    """Return a tool's result as what the agent is faced with next."""
    content = result.content if isinstance(result.content, str) else _one_line(result.content)
    return TurnSignal(
        turn_id=first.turn_id,
        text=content[:_MOST_TOOL_TEXT],
        author=result.name,
        source=Source.TOOL,
        step=step,
    )


def _one_line(content: Any) -> str:
    if isinstance(content, Mapping):
        return "; ".join(f"{key}: {value}" for key, value in content.items())
    return str(content)


class TurnMemory:
    """What one agent does with its memory in one run, also where it is run several times."""

    __slots__ = ("_context", "_kept", "_signals", "tokens")

    def __init__(self, kept: CachedMemory) -> None:
        self._context: RunContext
        self._kept = kept
        self._signals: list[TurnSignal] = []
        self.tokens = 0

    def enter(self, context: RunContext) -> None:
        """Begin a round of the agent's work."""
        self._context = context
        if not self._signals:
            self._signals.append(TurnSignal(turn_id=context.run.turn_id, text=context.message))

    def face(self, result: ToolResult) -> None:
        """Note a tool's result as what the agent is faced with next."""
        self._signals.append(tool_signal(self._signals[0], len(self._signals), result))

    async def view(self) -> str:
        """Return what is remembered in the face of the newest signal; a commit is on record."""
        context = self._context
        recorded = context.upcoming()
        if recorded is not None and recorded.kind is EventKind.MEMORY:
            await context.emit(EventKind.MEMORY)
            if recorded.usage is not None:
                context.run.ledger.spent(recorded.usage)
            if isinstance(self._kept.memory, RestorableMemoryPort):
                self._kept.memory.restore(recorded.detail["snapshot"])
        if context.upcoming() is not None:
            return ""  # the model's answer is on record too, so nobody will read this
        view = await self._kept.memory.view(self._signals[-1])
        if not isinstance(view, MemoryView):
            wanted = "MemoryView(text=..., tokens=...)"
            raise TypeError(f"its memory's view returned {_kind(view)}: {wanted} is wanted")
        self.tokens = view.tokens
        usage = view.usage if view.usage.llm_calls else None
        if usage is not None:
            context.run.ledger.spent(usage)
        if view.trace is not None:
            detail = _detail(self._kept.memory, view)
            await context.emit(EventKind.MEMORY, usage=usage, detail=detail)
        return view.text

    def finish(self) -> None:
        """Have the memory told the turn, once the whole run has succeeded."""
        context = self._context
        context.run.finished[context.agent.name] = self

    async def tell(self) -> None:
        """Tell the memory the turn."""
        run, name = self._context.run, self._context.agent.name
        # From the record, as after a restart, so that nothing depends on whether there was one.
        await _tell_turn(self._kept, name, [*run.earlier, *run.events])
        self._kept.seen = run.seq


async def tell_memories(run: Run) -> None:
    """Tell a turn that has succeeded to all memories that took part in it."""
    for name, remembering in run.finished.items():
        try:
            await remembering.tell()
        except BaseException as error:
            # It was told half of the turn: the next one finds it made anew.
            run.services.shelf.forget(run.key, name)
            if not isinstance(error, Exception):
                raise
            log.exception("the memory of %s failed; the answer is on record", name)
    # They hold on to the run, which would else stay until cycles are looked for.
    run.finished.clear()
    run.taken.clear()


def _detail(memory: MemoryPort, view: MemoryView) -> dict[str, Any]:
    detail: dict[str, Any] = {"tokens": view.tokens, **view.detail}
    if isinstance(memory, RestorableMemoryPort):
        detail["snapshot"] = memory.snapshot()
    return detail
