"""Which agents and tools are running now, for the graph of the agents."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from acc.application.agents.base import BaseAgent
from acc.application.agents.workflow import SequentialAgent
from acc.application.console.approvals import pending_in
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.storage_ports import SessionStorePort, StoreCatalogPort

#: The newest events of a run of another process that are read.
_EVENTS_READ = 50
_MAX_SESSIONS = 50


class ActiveStep(NamedTuple):
    """A step that has not ended: a model call or tools of an agent, or an open request."""

    key: SessionKey
    agent: str
    tools: tuple[str, ...] = ()
    is_waiting: bool = False


class Place(NamedTuple):
    """The rectangle of an agent in a drawing."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDrawing:
    """The drawing of an agent tree as SVG; an agent that is used twice has two places."""

    svg: str
    view_box: str
    width: float
    height: float
    places: Mapping[str, Sequence[Place]]


class RunSteps:
    """The running agents and tools of one run, computed from its events."""

    def __init__(self) -> None:
        #: Names by path of agents that have begun and not ended.
        self._agents: dict[str, str] = {}
        #: Names of tools without a result by the path of the agent and the id of the call.
        self._calls: dict[str, dict[str, str]] = {}

    def add(self, event: Event) -> None:
        """Update the running agents and tools with an event."""
        if event.kind is EventKind.SNAPSHOT:
            path = event.detail["path"]
            for below in [one for one in self._agents if one == path or _is_below(one, path)]:
                del self._agents[below]
                self._calls.pop(below, None)
            if event.detail["when"] == "before":
                self._agents[path] = event.author
        elif event.kind is EventKind.TOOL_CALLS:
            path = event.step.rpartition("#")[0]
            self._calls[path] = {call.id: call.name for call in event.calls}
        elif (result := event.result) is not None:
            for calls in self._calls.values():
                calls.pop(result.call_id, None)

    def active(self, key: SessionKey) -> list[ActiveStep]:
        """Return the innermost agents with their tools."""
        return [
            ActiveStep(key, name, tuple(self._calls.get(path, {}).values()))
            for path, name in self._agents.items()
            if not any(_is_below(other, path) for other in self._agents)
        ]


class LiveSteps(Protocol):
    """The runs of this process."""

    def steps_of(self, key: SessionKey) -> RunSteps | None:
        """Return the steps of the run of a session in this process, None if it has none."""
        ...


async def active_steps(
    agent_of: Callable[[str], BaseAgent | None],
    store: SessionStorePort,
    catalog: StoreCatalogPort,
    live: LiveSteps,
) -> list[ActiveStep]:
    """Return the active steps of all sessions whose runs have not ended.

    Runs of this process are known exactly. For a run of another process, the step follows from its
    stored events. `agent_of` returns the agent of an application.
    """
    steps: list[ActiveStep] = []
    for status in (RunStatus.WORKING, RunStatus.INPUT_REQUIRED):
        found = await catalog.list_sessions(status=status, limit=_MAX_SESSIONS)
        for session in found.sessions:
            own = live.steps_of(session.key)
            if own is not None:
                steps += own.active(session.key)
            elif status is RunStatus.INPUT_REQUIRED:
                steps += await _waiting(store, session.key)
            else:
                events = await store.events(session.key, limit=_EVENTS_READ, newest_first=True)
                root = agent_of(session.key.app_name)
                if root is not None:
                    steps += stored_steps(root, session.key, events[::-1])
    return [step for step in steps if step.agent]


async def _waiting(store: SessionStorePort, key: SessionKey) -> list[ActiveStep]:
    session: Session | None = await store.read(key)
    pending = () if session is None else await pending_in(store, session)
    return [
        ActiveStep(
            key, one.request.agent, (one.request.tool,) if one.request.tool else (), is_waiting=True
        )
        for one in pending
    ]


def stored_steps(root: BaseAgent, key: SessionKey, events: Sequence[Event]) -> list[ActiveStep]:
    """Return the active steps of a run by its newest stored events, one per parallel branch."""
    if not events:
        return []
    run_id = events[-1].run_id
    last: dict[str, Event] = {}
    open_calls: dict[str, str] = {}
    for event in events:
        if event.run_id != run_id or event.kind is EventKind.STATE:
            continue
        last[event.branch] = event
        open_calls |= {call.id: call.name for call in event.calls}
        if event.result is not None:
            open_calls.pop(event.result.call_id, None)
    if len(last) > 1:
        last.pop("", None)  # the branches of a parallel agent run inside it
    return [_after(root, key, event, open_calls) for event in last.values()]


def _after(
    root: BaseAgent, key: SessionKey, event: Event, open_calls: Mapping[str, str]
) -> ActiveStep:
    """Return the step that follows an event."""
    if event.author == "user":
        return ActiveStep(key, _first(root).name)
    tools = tuple(call.name for call in event.calls if call.id in open_calls)
    agent = _find(root.walk_all(), event.author)
    if agent is None:  # a run of another agent, which the graph does not contain
        return ActiveStep(key, event.author, tools)
    if event.kind is EventKind.MESSAGE:
        for parent in root.walk_all():
            if isinstance(parent, SequentialAgent) and agent in parent.sub_agents[:-1]:
                following = parent.sub_agents[list(parent.sub_agents).index(agent) + 1]
                return ActiveStep(key, _first(following).name)
    return ActiveStep(key, agent.name, tools)


def _first(agent: BaseAgent) -> BaseAgent:
    """Return the agent that begins when an agent begins."""
    while isinstance(agent, SequentialAgent):
        agent = agent.sub_agents[0]
    return agent


def _find(agents: Iterable[BaseAgent], name: str) -> BaseAgent | None:
    return next((agent for agent in agents if agent.name == name), None)


def _is_below(path: str, other: str) -> bool:
    return path.startswith(f"{other}/")
