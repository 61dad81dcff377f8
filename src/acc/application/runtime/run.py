"""One run: what was asked, what it may use and spend, and where its events go."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from acc.application.runtime.budget import RunBudget
from acc.application.runtime.state import State, Written
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.approval import InputAnswer
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import RemoteEndpoint
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import CallContext, RunConfig
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.mcp_ports import McpConnectionsPort
from acc.ports.outbound.memory_ports import MemoryPort
from acc.ports.outbound.model_ports import (
    EmbedderPort,
    LanguageModelPort,
    PromptMessage,
    TokenCounterPort,
)
from acc.ports.outbound.remote_ports import FetchFile, RemoteAgentPort
from acc.ports.outbound.storage_ports import AlongPort, ArtifactStorePort, SessionStorePort
from acc.ports.outbound.system_ports import ClockPort, IdsPort, SchemaValidatorPort, ThreadsPort

if TYPE_CHECKING:
    from acc.application.agents.base import BaseAgent
    from acc.application.runtime.agent_memory import MemoryCache, TurnMemory


#: Whose connections a memory shares while it is made; nobody's outside of a run.
making_for: ContextVar["Services | None"] = ContextVar("making_for", default=None)


@dataclass(slots=True, kw_only=True)
class Services:
    """The ports that a run may use.

    `models`, `memories` and `remote` turn names into things, `fetch` a URL into a file. `watched`
    is put around a model that an agent holds itself, so that its calls can be counted.
    """

    sessions: SessionStorePort
    artifacts: ArtifactStorePort
    models: Callable[[str], LanguageModelPort]
    memories: Callable[[str], MemoryPort]
    tokens: Callable[[], TokenCounterPort]
    threads: ThreadsPort
    clock: ClockPort
    ids: IdsPort
    shelf: "MemoryCache"
    schemas: SchemaValidatorPort
    remote: Callable[[RemoteEndpoint], RemoteAgentPort] | None = None
    fetch: FetchFile | None = None
    mcp: McpConnectionsPort | None = None
    watched: Callable[[LanguageModelPort], LanguageModelPort] | None = None
    _known: dict[str, LanguageModelPort] = field(default_factory=dict)
    _embedders: dict[str, EmbedderPort] = field(default_factory=dict)

    def model(self, model: "str | LanguageModelPort") -> LanguageModelPort:
        """Return a model by its name, made once, or the model itself."""
        if not isinstance(model, str):
            return model if self.watched is None else self.watched(model)
        if model not in self._known:
            self._known[model] = self.models(model)
        return self._known[model]

    def embedder(self, name: str, make: Callable[[str], EmbedderPort]) -> EmbedderPort:
        """Return an embedder by its name, made once, so that sessions share its connections."""
        if name not in self._embedders:
            self._embedders[name] = make(name)
        return self._embedders[name]

    async def aclose(self) -> None:
        """Let go of what was opened: models, embedders and MCP servers, until they are asked again.

        A store on a disk stays closed, so that who runs further turns makes a new runner.
        """
        try:
            for opened in (*self._known.values(), *self._embedders.values(), *self.shelf.owned()):
                ending = getattr(opened, "aclose", None)
                if ending is not None:
                    await ending()
            if self.mcp is not None:
                await self.mcp.aclose()
        finally:
            await self.sessions.aclose()


class Foreseen(NamedTuple):
    """What is to be stored along with events, and what is to be done once it is."""

    along: AlongPort
    stored: Callable[[], None]


class RunObserver(Protocol):
    """Follows a run, which waits while it hears."""

    @property
    def wants_pieces(self) -> bool:
        """Tell whether models are to be heard piece by piece."""
        ...

    def foresee(self, events: Sequence[Event]) -> Foreseen | None:
        """Return what is to be stored along with events that are about to be stored."""
        ...

    async def hear(self, event: Event) -> None:
        """Take note of an event; those that are stored have been stored before."""
        ...


class Run:
    """One run: what was asked, what may be spent, what is on record, and who listens."""

    __slots__ = (
        "_held",
        "_requests",
        "active",
        "answers",
        "call",
        "config",
        "earlier",
        "events",
        "finished",
        "first_seq",
        "fresh",
        "given_up",
        "holder",
        "is_released",
        "journal",
        "key",
        "ledger",
        "listen",
        "listener",
        "message",
        "replayed",
        "root",
        "run_id",
        "seq",
        "services",
        "streaming",
        "taken",
        "turn_id",
    )

    def __init__(
        self,
        *,
        services: Services,
        key: SessionKey,
        root: "BaseAgent",
        config: RunConfig,
        call: CallContext,
        run_id: str,
    ) -> None:
        self.services = services
        self.key = key
        self.root = root
        self.config = config
        self.call = call
        self.run_id = run_id
        self.holder = run_id
        #: Whether the session was let go of with the last event.
        self.is_released = False
        self.ledger = RunBudget(config)
        self.message: tuple[Part, ...] = ()
        self.turn_id = 0
        self.seq = 0
        self.first_seq = 1
        self.events: list[Event] = []
        self.listen: Callable[[Event], Awaitable[None]] | None = None
        self.listener: RunObserver | None = None
        self.streaming = False
        #: What is on record of a run that is being resumed, by step.
        self.journal: dict[str, Event] = {}
        #: The numbers of the events on record that were come to again.
        self.replayed: set[int] = set()
        self.earlier: tuple[Event, ...] = ()
        self.answers: dict[str, InputAnswer] = {}
        self.fresh: Collection[str] = ()
        #: Where agents were cut off, or others stood in for them, so that not all was come to.
        self.given_up: tuple[str, ...] = ()
        #: Whose memories are to be told of the turn once it is over.
        self.finished: dict[str, TurnMemory] = {}
        self.taken: dict[str, TurnMemory] = {}
        self._requests = 0
        self._held: tuple[Event, ...] = ()

    def listen_with(self, listener: RunObserver | None) -> None:
        """Let someone follow the run."""
        if listener is not None:
            self.listener = listener
            self.listen = listener.hear
            self.streaming = listener.wants_pieces

    def take_over(self, config: RunConfig, call: CallContext) -> None:
        """Go on under the terms that a run began with."""
        self.config = config
        self.call = call
        self.ledger = RunBudget(config)

    def next_request_id(self) -> str:
        """Return an id for a further request of this run."""
        self._requests += 1
        return f"{self.run_id}-{self._requests}"

    def load_journal(self, events: Sequence[Event]) -> None:
        """Take over what is on record of the run so far."""
        self.earlier = tuple(events)
        for event in events:
            if event.step:
                self.journal[event.step] = event
            if event.request is not None:
                self._requests += 1
            if event.answer is not None:
                self.answers[event.answer.request_id] = event.answer

    @property
    def paused(self) -> Event | None:
        """Return how a run that is being resumed came to its last pause."""
        ended = (event for event in reversed(self.earlier) if event.kind is EventKind.ENDED)
        return next(ended, None)

    @property
    def is_old(self) -> bool:
        """Tell whether an earlier version paused the run, which put no edges on record."""
        paused = self.paused
        return paused is not None and not paused.detail.get("edges")

    def give_up(self, path: str) -> None:
        """Note that what is on record below a path may not be come to again."""
        self.given_up = (*self.given_up, f"{path}/", f"{path}#")

    def catch_up(self, line: "Branch") -> None:
        """Let a line know all that is on record of it, before something new happens there."""
        state = line.state
        if state.is_complete:
            return
        for event in self.journal.values():
            if event.seq not in self.replayed and line.has(event):
                state.learn(*written_by(event, line), seq=event.seq)
        state.is_complete = True

    def leave_behind(self, line: "Branch", *, before: int) -> None:
        """Let what is on record of a line that failed be nothing to others but what it cost."""
        for event in self.journal.values():
            if line.holds(event) and event.seq < before and event.seq not in self.replayed:
                self.replayed.add(event.seq)
                self.ledger.passed_over(event)

    async def record(self, *events: Event, release: bool = False) -> None:
        """Store events, all or none, then show them; `release` lets go of the session too."""
        if self._held:
            events, self._held = (*self._held, *events), ()
        try:
            foreseen = self.foreseen(events)
            along = None if foreseen is None else foreseen.along
            await self.services.sessions.append(
                self.key, events, holder=self.holder, release=release, along=along
            )
        except InvalidInput:
            self.seq -= len(events)  # they were refused before they took a number
            raise
        self.is_released = release
        await self.tell(events, foreseen)

    def hold(self, event: Event) -> None:
        """Store an event together with the next one, which must come at once."""
        self._held = (*self._held, event)

    @property
    def held(self) -> int:
        """Return how many events are to be stored with the next one."""
        return len(self._held)

    def foreseen(self, events: Sequence[Event]) -> Foreseen | None:
        """Return what whoever listens wants to be stored along with events."""
        if self.listener is None or self.listen is None:
            return None
        return self.listener.foresee(events)

    async def tell(self, events: Sequence[Event], foreseen: Foreseen | None) -> None:
        """Show events that are stored, after what went along with them."""
        if foreseen is not None:
            foreseen.stored()
        for event in events:
            self.events.append(event)
            if self.listen is not None:
                await self.listen(event)

    async def show(self, event: Event) -> None:
        """Show an event that is not to be stored."""
        if self._held:
            await self.record()  # what came before is shown before
        self.events.append(event)
        if self.listen is not None:
            await self.listen(event)


class Branch:
    """One strand of a run: the main one, or a parallel branch with a state of its own.

    `path` tells whose steps began it: those of the same branch elsewhere are of other strands.
    """

    __slots__ = ("branch", "heard", "main", "path", "state", "thread")

    def __init__(
        self,
        state: State,
        *,
        branch: str = "",
        path: str = "",
        thread: Sequence[PromptMessage] = (),
    ) -> None:
        self.state = state
        self.branch = branch
        self.path = path
        self.main = not branch
        self.heard = len(thread)
        #: What agents have said so far in this run, as those who come after hear it.
        self.thread = list(thread)

    def alone(self) -> "Branch":
        """Return the same strand for someone who hears nothing of the conversation."""
        return Branch(self.state, branch=self.branch, path=self.path)

    def has(self, event: Event) -> bool:
        """Tell whether an event on record is one of this strand."""
        return event.branch == self.branch and event.step.startswith(f"{self.path}/")

    def holds(self, event: Event) -> bool:
        """Tell whether an event on record is one of this strand, or of a branch within it."""
        branches = (f"{event.branch}.").startswith(f"{self.branch}.")
        return branches and event.step.startswith(f"{self.path}/")


def written_by(event: Event, line: Branch) -> Written:
    """Return what an event on record wrote to the state of its line."""
    actions = event.actions
    if line.main:
        return actions.state_delta, actions.state_removed
    return actions.branch_delta, actions.branch_removed


def check_terms(root: "BaseAgent", config: object, context: object) -> None:
    """Refuse terms that a run of this tree cannot have."""
    if not isinstance(config, RunConfig | None):
        raise InvalidInput(f"config is a RunConfig, not {config!r}")
    if not isinstance(context, CallContext | None):
        raise InvalidInput(f"context is a CallContext, not {context!r}")
    if config is not None and config.stubs:
        known = sorted({agent.name for agent in root.walk_all()})
        lost = [str(name) for name in config.stubs if name not in known]
        if lost:
            raise InvalidInput(
                f"nobody under {root.name!r} is called {', '.join(lost)}, for whom something would "
                f"stand in; there are {', '.join(known)}. An agent that code of yours runs is "
                "known where it stands in sub_agents"
            )
