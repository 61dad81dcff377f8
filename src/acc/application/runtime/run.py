"""One run: its request, its journal, its budget and its recorder."""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from acc.application.runtime.state import State, Written
from acc.application.tracing.spans import span_id_of
from acc.domain.errors import BudgetExceeded, InvalidInput, TransferLoop
from acc.domain.value_objects.approval import InputAnswer
from acc.domain.value_objects.base import Value, replace
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.domain.value_objects.content import NO_USAGE, ChatMessage, Part, Usage
from acc.domain.value_objects.endpoint import RemoteEndpoint
from acc.domain.value_objects.event import NO_ACTIONS, Event, EventActions, EventKind
from acc.domain.value_objects.run import CallContext, RunConfig, RunStatus
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.mcp_ports import McpConnectionsPort
from acc.ports.outbound.memory_ports import MemoryPort, RecallIndexPort
from acc.ports.outbound.model_ports import EmbedderPort, LanguageModelPort, TokenCounterPort
from acc.ports.outbound.remote_ports import FetchFile, IntentCallerPort, RemoteAgentPort
from acc.ports.outbound.storage_ports import (
    ArtifactStorePort,
    BeginTurn,
    SessionStorePort,
    TurnStart,
)
from acc.ports.outbound.system_ports import ClockPort, IdsPort, SchemaValidatorPort, ThreadsPort
from acc.ports.outbound.tracing_ports import SpanPort, TracerPort

if TYPE_CHECKING:
    from acc.application.agents.base import BaseAgent
    from acc.application.agents.callbacks import PluginCallbacks
    from acc.application.runtime.agent_memory import MemoryCache, TurnMemory
    from acc.domain.flow import FlowLedger


_NO_PLUGINS: "PluginCallbacks" = {}
_USER_EVENTS = frozenset({EventKind.MESSAGE, EventKind.INPUT})


class MemoryScope(NamedTuple):
    """The run, the session and the agent for which a memory is being created."""

    services: "Services"
    key: SessionKey
    agent_name: str

    def recall_index(self) -> RecallIndexPort | None:
        """Return the recall index of the agent's memory in the session's store."""
        recall = self.services.recall
        return None if recall is None else recall(self.key, self.agent_name)


#: The scope of a memory that is being created; None outside a run.
memory_scope: ContextVar[MemoryScope | None] = ContextVar("memory_scope", default=None)


@dataclass(slots=True, kw_only=True)
class Services:
    """The ports that a run may use.

    `models`, `memories` and `remote` create objects from names, `fetch` downloads a URL.
    `wrap_model` is applied to model objects of agents, to count their calls. `recall` returns the
    recall index of an agent's memory in a session. Runs are traced if there is a `tracer`.
    """

    sessions: SessionStorePort
    artifacts: ArtifactStorePort
    models: Callable[[str], LanguageModelPort]
    memories: Callable[[str], MemoryPort]
    tokens: Callable[[], TokenCounterPort]
    threads: ThreadsPort
    clock: ClockPort
    ids: IdsPort
    memory_cache: "MemoryCache"
    schemas: SchemaValidatorPort
    remote: Callable[[RemoteEndpoint], RemoteAgentPort] | None = None
    fetch: FetchFile | None = None
    intents: IntentCallerPort | None = None
    mcp: McpConnectionsPort | None = None
    wrap_model: Callable[[LanguageModelPort], LanguageModelPort] | None = None
    recall: Callable[[SessionKey, str], RecallIndexPort] | None = None
    tracer: TracerPort | None = None
    _models: dict[str, LanguageModelPort] = field(default_factory=dict)
    _embedders: dict[str, EmbedderPort] = field(default_factory=dict)

    def model(self, model: "str | LanguageModelPort") -> LanguageModelPort:
        """Return a model by its name, created once, or the given model."""
        if not isinstance(model, str):
            return model if self.wrap_model is None else self.wrap_model(model)
        if model not in self._models:
            self._models[model] = self.models(model)
        return self._models[model]

    def embedder(self, name: str, make: Callable[[str], EmbedderPort]) -> EmbedderPort:
        """Return an embedder by its name, created once, so that sessions share connections."""
        if name not in self._embedders:
            self._embedders[name] = make(name)
        return self._embedders[name]

    async def aclose(self) -> None:
        """Close models, embedders, MCP connections and stores.

        Models and connections are opened again on use; a store on disk stays closed.
        """
        try:
            owned = self.memory_cache.owned()
            for resource in (*self._models.values(), *self._embedders.values(), *owned):
                close = getattr(resource, "aclose", None)
                if close is not None:
                    await close()
            if self.mcp is not None:
                await self.mcp.aclose()
        finally:
            await self.sessions.aclose()


class RunRequest(Value, frozen=True, kw_only=True):
    """What a run was started with.

    `first_seq` is the number of the message in the session, `turn_id` that of the turn.
    """

    run_id: str
    key: SessionKey
    root: "BaseAgent"
    config: RunConfig
    call: CallContext
    message: tuple[Part, ...] = ()
    turn_id: int = 0
    first_seq: int = 1

    @property
    def log_fields(self) -> dict[str, str]:
        """Return the ids of the run for log records."""
        call = self.call
        return {
            "trace_id": call.trace_id,
            "request_id": call.request_id,
            "run_id": self.run_id,
            "caller": call.caller,
        }

    def event(
        self,
        kind: EventKind,
        *,
        at: float,
        parts: tuple[Part, ...] = (),
        actions: EventActions = NO_ACTIONS,
        usage: Usage | None = None,
        answer: InputAnswer | None = None,
        status: RunStatus | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> Event:
        """Return an event of the user or of the root agent, without a number."""
        return Event(
            kind=kind,
            run_id=self.run_id,
            author="user" if kind in _USER_EVENTS else self.root.name,
            at=at,
            request_id=self.call.request_id,
            trace_id=self.call.trace_id,
            caller=self.call.caller,
            parts=parts,
            actions=actions,
            usage=usage,
            answer=answer,
            status=status,
            detail=detail or {},
        )


class Journal:
    """The recorded events of a run that is resumed, and what of them has been replayed.

    A run that is not resumed has an empty journal. `new_answers` are the requests that are answered
    for the first time in this process.
    """

    __slots__ = ("_requests", "_run_id", "answers", "events", "new_answers", "replayed", "steps")

    def __init__(
        self,
        run_id: str,
        events: Sequence[Event] = (),
        *,
        answers: Mapping[str, InputAnswer] | None = None,
    ) -> None:
        self._run_id = run_id
        self._requests = 0
        self.events = tuple(events)
        #: Recorded events by step.
        self.steps: dict[str, Event] = {}
        #: Numbers of the events that were replayed.
        self.replayed: set[int] = set()
        self.answers: dict[str, InputAnswer] = {}
        for event in events:
            if event.step:
                self.steps[event.step] = event
            if event.request is not None:
                self._requests += 1
            if event.answer is not None:
                self.answers[event.answer.request_id] = event.answer
        self.new_answers: Collection[str] = frozenset(answers or ())
        self.answers |= answers or {}

    def next_request_id(self) -> str:
        """Return an id for a new input request of the run."""
        self._requests += 1
        return f"{self._run_id}-{self._requests}"

    @property
    def pause(self) -> Event | None:
        """Return the event that records the last pause."""
        ends = (event for event in reversed(self.events) if event.kind is EventKind.ENDED)
        return next(ends, None)

    def catch_up(self, branch: "Branch") -> None:
        """Apply all recorded events of a branch to its state, before something new happens."""
        state = branch.state
        if state.is_complete:
            return
        for event in self.steps.values():
            if event.seq not in self.replayed and branch.has(event):
                state.rebase(*state_changes(event, branch), seq=event.seq)
        state.complete()


class RunBudget:
    """Counts model calls, tool calls, tokens and transfers, and enforces their limits."""

    __slots__ = (
        "_config",
        "_tool_calls",
        "_transfer_path",
        "model_usage",
        "pending_model_calls",
        "transfers",
    )

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._transfer_path: list[str] = []
        self._tool_calls = 0
        self.transfers = 0
        #: Model calls in progress: parallel branches share the limit too.
        self.pending_model_calls = 0
        self.model_usage = NO_USAGE

    @property
    def usage(self) -> Usage:
        """Return the usage so far."""
        if not self._tool_calls:
            return self.model_usage
        return replace(self.model_usage, tool_calls=self._tool_calls)

    @contextmanager
    def restrict(
        self, *, llm_calls: int | None, tool_calls: int | None, tokens: int | None
    ) -> Iterator[None]:
        """Allow at most so many more model calls, tool calls and tokens inside the block."""
        outer, usage = self._config, self.model_usage
        limits: dict[str, Any] = {}
        if llm_calls is not None:
            limits["max_llm_calls"] = min(outer.max_llm_calls, usage.llm_calls + llm_calls)
        if tool_calls is not None:
            limits["max_tool_calls"] = min(outer.max_tool_calls, self._tool_calls + tool_calls)
        if tokens is not None:
            total = usage.input_tokens + usage.output_tokens + tokens
            limits["token_budget"] = min(outer.token_budget or total, total)
        self._config = dataclasses.replace(outer, **limits) if limits else outer
        try:
            yield
        finally:
            self._config = outer

    def check_model_call(self, where: str) -> None:
        """Raise BudgetExceeded if the budget does not allow another model call."""
        config, usage = self._config, self.model_usage
        if usage.llm_calls + self.pending_model_calls >= config.max_llm_calls:
            raise BudgetExceeded("max_llm_calls", config.max_llm_calls, where)
        if config.token_budget is not None:
            tokens = usage.input_tokens + usage.output_tokens
            if tokens >= config.token_budget:
                raise BudgetExceeded("token_budget", config.token_budget, where)

    def check_tool_calls(self, count: int, where: str) -> None:
        """Raise BudgetExceeded if the budget does not allow so many more tool calls."""
        if self._tool_calls + count > self._config.max_tool_calls:
            raise BudgetExceeded("max_tool_calls", self._config.max_tool_calls, where)

    def add_tool_call(self) -> None:
        """Count a tool call."""
        self._tool_calls += 1

    def add_usage(self, usage: Usage) -> None:
        """Count the usage of a model call."""
        before = self.model_usage
        self.model_usage = usage if before is NO_USAGE else before + usage

    def count_recorded(self, event: Event) -> None:
        """Count what a recorded event cost."""
        if event.usage is not None:
            self.add_usage(event.usage)
        if event.result is not None and event.detail.get("executed", True):
            self.add_tool_call()
        if event.kind is EventKind.TRANSFER:
            self.transfers += 1

    @property
    def transferred(self) -> frozenset[str]:
        """Return the agents that have transferred the conversation in this run."""
        return frozenset(self._transfer_path[:-1])

    def transfer(self, source: str, target: str, *, is_replay: bool) -> Sequence[str]:
        """Count a transfer and return the path of transfers.

        TransferLoop if there are too many, unless the transfer is replayed.
        """
        path = self._transfer_path
        path += [target] if path and path[-1] == source else [source, target]
        self.transfers += 1
        if self.transfers > self._config.max_hops and not is_replay:
            raise TransferLoop(path, self._config.max_hops)
        return path


class RunObserver(Protocol):
    """Follows a run, which waits for each call."""

    @property
    def wants_deltas(self) -> bool:
        """Return True if model responses are to be streamed."""
        ...

    async def on_event(self, event: Event) -> None:
        """Receive an event; one that is stored has been stored before."""
        ...


class EventRecorder:
    """Stores the events of one run and collects them.

    `begin` or `attach` comes first. A subclass may store more in the same transaction by overriding
    `_begin` and `_append`, and receive the events by overriding `_show`.
    """

    def __init__(self, sessions: SessionStorePort, observer: RunObserver | None = None) -> None:
        self._sessions = sessions
        self._observer = observer
        self._key: SessionKey
        self._holder: str
        self._deferred: tuple[Event, ...] = ()
        self.events: list[Event] = []
        #: Number of the last stored event of the session.
        self.last_seq = 0
        #: Whether an observer gets the events.
        self.is_observed = observer is not None
        #: Whether the lease of the session ended with the last event.
        self.is_released = False

    @property
    def wants_deltas(self) -> bool:
        """Return True if model responses are to be streamed."""
        return self._observer is not None and self._observer.wants_deltas

    def detach_observer(self) -> None:
        """Stop showing events; they are still stored."""
        self._observer = None
        self.is_observed = False

    def attach(self, session: Session, *, holder: str) -> None:
        """Append to a session whose lease the holder has acquired."""
        self._key, self._holder, self.last_seq = session.key, holder, session.seq

    async def begin(self, turn: BeginTurn) -> TurnStart:
        """Open the session of a turn and store its message; `show` the events afterwards."""
        self._key, self._holder = turn.key, turn.holder
        start = await self._begin(turn)
        self.last_seq = start.events[-1].seq if start.events else start.session.seq
        return start

    async def record(self, *events: Event, release: bool = False) -> tuple[Event, ...]:
        """Store events together with the deferred ones, all or none, then show and return them.

        `release` ends the lease of the session in the same transaction.
        """
        if self._deferred:
            events, self._deferred = (*self._deferred, *events), ()
        stored = await self._append(events, release=release)
        self.last_seq += len(stored)
        self.is_released = release
        self.events += stored
        if self.is_observed:
            await self._show(stored)
        return stored

    def defer(self, event: Event) -> None:
        """Store an event together with the next one, which must follow immediately."""
        self._deferred = (*self._deferred, event)

    async def show(self, *events: Event) -> None:
        """Show events that are not stored, or that `begin` has stored."""
        if self._deferred:
            await self.record()  # keep the order of the events
        self.events += events
        if self.is_observed:
            await self._show(events)

    async def _show(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._observer is not None:
                await self._observer.on_event(event)

    async def _begin(self, turn: BeginTurn) -> TurnStart:
        return await self._sessions.begin_turn(
            turn.key,
            turn.message,
            holder=turn.holder,
            agent=turn.agent,
            waits_for_runs=turn.waits_for_runs,
        )

    async def _append(self, events: Sequence[Event], *, release: bool) -> tuple[Event, ...]:
        return await self._sessions.append(self._key, events, holder=self._holder, release=release)


class Run:
    """One run of an agent tree."""

    __slots__ = (
        "budget",
        "_unrepeatable_paths",
        "deps",
        "flow",
        "has_engine",
        "journal",
        "memories",
        "plugins",
        "recorder",
        "request",
        "services",
        "span",
        "span_path",
        "unreplayed_paths",
    )

    def __init__(
        self,
        request: RunRequest,
        *,
        services: Services,
        recorder: EventRecorder,
        journal: Journal | None = None,
        deps: Any = None,
        plugins: "PluginCallbacks" = _NO_PLUGINS,
        span: SpanPort | None = None,
        has_engine: bool = False,
    ) -> None:
        #: Whether an engine continues the run after a wait; paths of calls that exclude this.
        self.has_engine = has_engine
        self._unrepeatable_paths: tuple[str, ...] = ()
        #: The span of the run, and the path of the agent whose span it is.
        self.span: SpanPort | None = span
        self.span_path = ""
        #: Dependencies of the application, which are never stored.
        self.deps = deps
        #: Callbacks of plugins, by name.
        self.plugins = plugins
        self.request = request
        self.services = services
        self.recorder = recorder
        self.journal = Journal(request.run_id) if journal is None else journal
        self.budget = RunBudget(request.config)
        #: Memories that agents use in this run, by agent name.
        self.memories: dict[str, TurnMemory] = {}
        #: Prefixes of steps that need not be replayed: their agents failed or were replaced.
        self.unreplayed_paths: tuple[str, ...] = ()
        #: What the agents have read, if one of them has an information-flow policy.
        self.flow: FlowLedger | None = None

    @property
    def log_fields(self) -> dict[str, str]:
        """Return the ids of the run and of its span for log records."""
        return {**self.request.log_fields, "span_id": span_id_of(self.span)}

    def keep_segment(self, path: str) -> None:
        """Wait for remote tasks below a path in this process: its call cannot be repeated."""
        if self.has_engine:
            self._unrepeatable_paths = (*self._unrepeatable_paths, f"{path}/")

    def can_end_segment(self, path: str) -> bool:
        """Return True if an engine can continue the run later at a path."""
        return self.has_engine and not path.startswith(self._unrepeatable_paths)

    def mark_unreplayed(self, path: str) -> None:
        """Accept that recorded steps below a path may not be replayed."""
        self.unreplayed_paths = (*self.unreplayed_paths, f"{path}/", f"{path}#")

    def discard(self, branch: "Branch", *, before: int) -> None:
        """Ignore what a failed branch recorded, except its cost."""
        for event in self.journal.steps.values():
            if (
                branch.contains(event)
                and event.seq < before
                and event.seq not in self.journal.replayed
            ):
                self.journal.replayed.add(event.seq)
                self.budget.count_recorded(event)


class Branch:
    """The main branch of a run, or a parallel branch with a state of its own.

    `path` is that of the agent that started it: a branch of the same name elsewhere is another one.
    """

    __slots__ = ("inherited", "is_main", "name", "path", "published", "state", "thread")

    def __init__(
        self,
        state: State,
        *,
        name: str = "",
        path: str = "",
        thread: Sequence[ChatMessage] = (),
    ) -> None:
        self.state = state
        self.name = name
        self.path = path
        self.is_main = not name
        #: How many messages of the thread were there when the branch started.
        self.inherited = len(thread)
        #: Messages of agents in this run, as later agents see them.
        self.thread = list(thread)
        #: Events that agents of a parallel branch published, which count once it joins.
        self.published: list[CloudEvent] = []

    def without_thread(self) -> "Branch":
        """Return the same branch for an agent that must not see the conversation."""
        branch = Branch(self.state, name=self.name, path=self.path)
        branch.published = self.published
        return branch

    def has(self, event: Event) -> bool:
        """Return True if a recorded event belongs to this branch."""
        return event.branch == self.name and event.step.startswith(f"{self.path}/")

    def contains(self, event: Event) -> bool:
        """Return True if a recorded event belongs to this branch or to one inside it."""
        is_inside = f"{event.branch}.".startswith(f"{self.name}.")
        return is_inside and event.step.startswith(f"{self.path}/")


def state_changes(event: Event, branch: Branch) -> Written:
    """Return what a recorded event wrote to the state of its branch."""
    actions = event.actions
    if branch.is_main:
        return actions.state_delta, actions.state_removed
    return actions.branch_delta, actions.branch_removed


def check_run_options(root: "BaseAgent", config: object, context: object) -> None:
    """Raise InvalidInput for a config or context that a run of this tree cannot have."""
    if not isinstance(config, RunConfig | None):
        raise InvalidInput(f"config must be a RunConfig, got {config!r}")
    if not isinstance(context, CallContext | None):
        raise InvalidInput(f"context must be a CallContext, got {context!r}")
    if config is not None and config.stubs:
        _check_stubs(root, config)


def _check_stubs(root: "BaseAgent", config: RunConfig) -> None:
    """Raise InvalidInput if a stub names neither an agent nor a tool of the tree."""
    agents, tools, has_toolsets = set[str](), set[str](), False
    for agent in root.walk_all():
        agents.add(agent.name)
        tools.update(getattr(agent, "own_tools", ()))
        has_toolsets = has_toolsets or bool(getattr(agent, "toolsets", ()))
    unknown = [str(name) for name in config.stubs if name not in agents | tools]
    if unknown and not has_toolsets:  # the tools of a toolset are not known before the run
        listed = f" and the tools {', '.join(sorted(tools))}" if tools else ""
        raise InvalidInput(
            f"stubs name unknown agents or tools: {', '.join(unknown)}; the agents under "
            f"{root.name!r} are {', '.join(sorted(agents))}{listed}. List agents that your code "
            "runs in sub_agents to stub them"
        )


def user_call_context(run_id: str, user_id: str) -> CallContext:
    """Return the call context of a user who calls the runner."""
    return CallContext(request_id=run_id, trace_id=run_id, caller=f"user://{user_id}")
