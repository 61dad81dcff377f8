"""BaseAgent: name, sub-agents, callbacks, confirmation, and checks of an agent tree."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, overload

from acc.application.agents.agent_runner import OwnRunner, accept_messages, check_init, runner_of
from acc.application.agents.callbacks import (
    AGENT_CALLBACKS,
    AfterAgentCallback,
    AgentErrorCallback,
    BeforeAgentCallback,
    Callback,
    as_callbacks,
    callbacks_of,
    first_result,
    maybe_await,
)
from acc.application.agents.instructions import Instruction
from acc.application.agents.option_hints import (
    ATTRIBUTE_HINTS,
    apply_class_options,
    check_agent_call,
    reject_assignment,
)
from acc.application.runtime.call_guards import explains_options
from acc.application.runtime.caller_rules import CallerRules, check_caller_rules
from acc.application.runtime.context import RunContext
from acc.application.runtime.inputs import Message
from acc.application.runtime.interrupts import (
    RUN_LEVEL_ERRORS,
    RunRejected,
    is_control_flow,
    paused_in_group,
)
from acc.application.runtime.json_types import object_schema
from acc.application.runtime.result import RunResult
from acc.application.runtime.type_variables import (
    AnyDepsT,
    AnyOutputT,
    GenericDefaults,
    MaybeAwaitable,
    OneOrMore,
)
from acc.application.tracing.spans import end_span, span_id_of, start_agent
from acc.domain.call_options import accepts, explain_attributes
from acc.domain.errors import AccError, AgentFailed, InvalidInput, InvalidTree
from acc.domain.value_objects.approval import ApprovalDecision, RequestKind
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.flow import FLOW_MODES, FlowMode
from acc.domain.value_objects.run import CallContext, Grant, RunConfig
from acc.domain.value_objects.session import DEFAULT_SESSION_ID, DEFAULT_USER_ID

log = logging.getLogger("acc.run")

MAX_NAME_LENGTH = 64
_RESERVED_NAMES = frozenset({"user"})

#: Whether approval is required: a bool, a question, or a predicate that returns one of these.
Confirm: TypeAlias = (
    bool | str | Callable[[Mapping[str, JsonData]], MaybeAwaitable[bool | str | None]]
)
ConfirmAgent: TypeAlias = (
    bool | str | Callable[[RunContext[AnyDepsT]], MaybeAwaitable[bool | str | None]]
)


@explain_attributes(ATTRIBUTE_HINTS)
@dataclass(kw_only=True, eq=False)
class BaseAgent(CallerRules, GenericDefaults, Generic[AnyDepsT, AnyOutputT]):
    """Base class of agents. A subclass defines `async def run(self, ctx)` and returns its answer.

    `BaseAgent[Deps, Output]` has the types of `ctx.deps` and of the answer. An answer that is not a
    str is stored as JSON. `confirm` requests approval before the agent runs. `grants` restricts, by
    name, what a sub-agent can access. `callers` of the root restricts, by name or pattern of the
    caller, what a run can access; a caller that no pattern matches gets nothing. `input_schema`, a
    type with fields such as a dataclass, makes the agent an intent: data that it is sent are
    validated before it runs. As a tool, the agent has these fields as arguments.
    `global_instruction` of the root precedes the instruction of every agent with a model, in the
    tree and in its tools. `flow` is the information-flow policy for tool calls: "ask" requests
    approval of a violation, "strict" refuses it, "off" allows it. The default is that of the
    parent, or of the root for agents that are used as tools, and "off" for the root.

    A callback option is one function or a list. If `before_agent_callback(ctx)` returns a string,
    it becomes the answer and the agent does not run. If `after_agent_callback(ctx, text)` returns a
    string, it replaces the answer. If the agent fails and `on_agent_error_callback(ctx, error)`
    returns a string, it becomes the answer.
    """

    if TYPE_CHECKING:
        name: str
    else:
        name: str = ""  # so that a missing name is our error and not one of Python
    description: str = ""
    sub_agents: "Sequence[BaseAgent]" = ()
    grants: Mapping[str, Grant] = field(default_factory=dict)
    callers: Mapping[str, Grant] | None = None
    confirm: ConfirmAgent[AnyDepsT] = False
    input_schema: object = None
    global_instruction: Instruction[AnyDepsT] = ""
    flow: FlowMode | None = None
    before_agent_callback: OneOrMore[BeforeAgentCallback[AnyDepsT]] | None = None
    after_agent_callback: OneOrMore[AfterAgentCallback[AnyDepsT]] | None = None
    on_agent_error_callback: OneOrMore[AgentErrorCallback[AnyDepsT]] | None = None
    parent: "BaseAgent | None" = field(default=None, init=False, repr=False)
    _own_runner: OwnRunner = field(default_factory=OwnRunner, init=False, repr=False)

    #: Media types that the agent accepts and returns when it is served over A2A.
    input_modes: ClassVar[tuple[str, ...]] = ("text/plain", "application/json")
    output_modes: ClassVar[tuple[str, ...]] = ("text/plain",)
    #: Whether it may answer an A2A request with a message instead of a task (`ctx.reply`). The
    #: server then waits for the first event of the run before it responds.
    replies_directly: ClassVar[bool] = False
    #: Whether it runs in debug mode, in which it does not call others.
    runs_in_debug: ClassVar[bool] = False
    #: Options that are read when the agent is built, so that a later assignment has no effect.
    fixed_options: ClassVar[frozenset[str]] = frozenset({"sub_agents"})
    _is_built: ClassVar[bool] = False

    def __post_init__(self) -> None:
        vars(self)["_is_built"] = False
        apply_class_options(self)
        check_name(self.name, "an agent")
        if isinstance(self.sub_agents, BaseAgent) or not isinstance(self.sub_agents, Iterable):
            raise InvalidTree(f"agent {self.name!r}: sub_agents must be a list of agents")
        items: Iterable[Any] = self.sub_agents  # may contain nodes with contracts
        self.sub_agents = tuple(
            item.as_agent() if hasattr(type(item), "as_agent") else item for item in items
        )
        for child in self.sub_agents:
            try:
                check_is_agent(child)
            except InvalidInput as error:
                raise InvalidTree(f"agent {self.name!r}: sub_agents: {error}") from None
            if child.parent is not None:
                raise InvalidTree(
                    f"agent {child.name!r} is a sub-agent of {child.parent.name!r} and cannot be "
                    f"added to {self.name!r}; create a second agent with another name"
                )
            check_below_root(child, self)
        self._check_options()
        names = {child.name for child in self.sub_agents}
        for name in self.grants:
            if name not in names:
                raise InvalidTree(
                    f"agent {self.name!r}: grants names {name!r}, which is not a sub-agent"
                )
        self.check()
        self._check_unique_names()
        for child in self.sub_agents:
            child.parent = self
        vars(self)["_is_built"] = True

    def check(self) -> None:
        """Raise InvalidTree if the options are invalid; subclasses add their checks here."""

    if not TYPE_CHECKING:  # the declared options are those of the fields

        def __new__(cls, *arguments: object, **options: object) -> "BaseAgent":
            """Raise InvalidTree for options that the class does not have."""
            check_agent_call(cls, arguments, options)
            return super().__new__(cls)

        def __setattr__(self, name: str, value: object) -> None:
            """Raise InvalidTree for an option that would have no effect any more."""
            if self._is_built and name in self.fixed_options:
                reject_assignment(self.name, name)
            super().__setattr__(name, value)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        accept_messages(cls)

    async def run(self, ctx: RunContext[AnyDepsT]) -> AnyOutputT | None:
        """Do the work of the agent and return its answer, if it has one.

        Subclasses define this method. At run time it also takes a message in place of the context,
        as `StandardAgent.run` does: `await agent.run("hello")`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `async def run(self, ctx)`")

    @explains_options
    def run_sync(
        self,
        message: Message,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        config: RunConfig | None = None,
        context: CallContext | None = None,
        deps: AnyDepsT | None = None,
    ) -> RunResult[AnyOutputT]:
        """Answer a message without `await`: in scripts, and in cells of notebooks.

        The sessions of `run` and `run_sync` of an agent are in memory; a call without ids continues
        the default session. A `Runner` has further options.
        """
        return runner_of(self).run_sync(
            message,
            user_id=user_id,
            session_id=session_id,
            config=config,
            context=context,
            deps=deps,
        )

    def decode_output(self, text: str) -> object:
        """Return an answer as a value of the agent's output type, which is str by default."""
        return text

    def read_output(self, ctx: RunContext) -> JsonData:
        """Return the state value that holds this agent's answer, if it has one."""
        return None

    def write_output(self, ctx: RunContext, text: str) -> None:
        """Write an answer that replaces this agent's answer to the state."""

    def walk(self) -> Iterator["BaseAgent"]:
        """Yield this agent and its descendants, top down."""
        yield self
        for child in self.sub_agents:
            yield from child.walk()

    @property
    def agent_tools(self) -> Sequence["BaseAgent"]:
        """Return the agents that this agent uses as tools."""
        return ()

    def walk_all(self) -> Iterator["BaseAgent"]:
        """Yield this agent, its descendants and the agents they use as tools, each once."""
        visited: set[int] = set()
        remaining: list[BaseAgent] = [self]
        while remaining:
            agent = remaining.pop(0)
            if id(agent) not in visited:
                visited.add(id(agent))
                yield agent
                remaining = [*agent.sub_agents, *agent.agent_tools, *remaining]

    def find(self, name: str) -> "BaseAgent | None":
        """Return the agent with that name in this tree."""
        return next((agent for agent in self.walk() if agent.name == name), None)

    async def execute(self, ctx: RunContext) -> None:
        """Run with stubs, confirmation, callbacks, state snapshots and logs."""
        is_logged = log.isEnabledFor(logging.INFO)
        if is_logged:
            _log(ctx, "agent started")
        config = ctx.config
        if config.snapshots:
            await _emit_snapshot(ctx, "before")
        span = None if ctx.services.tracer is None else start_agent(ctx)
        try:
            await self._execute(ctx)
        except BaseException as error:
            ctx.run.mark_unreplayed(ctx.path)
            if span is not None:
                end_span(span, error)
            raise
        if span is not None:
            span.end()
        if ctx.current_branch.state.pending or ctx.unpublished or ctx.run.journal.steps:
            await _flush_state(ctx)
        if config.snapshots:
            await _emit_snapshot(ctx, "after")
        if is_logged:
            _log(ctx, "agent finished")

    async def _execute(self, ctx: RunContext[Any]) -> None:
        try:
            await self._answer(ctx)
        except BaseException as error:
            if is_control_flow(error):
                raise
            if isinstance(error, AccError):
                if not await _answer_error(ctx, error):
                    raise
                return
            failure = AgentFailed(self.name, f"{type(error).__name__}: {error}")
            failure.__cause__ = error
            pause = paused_in_group(error)
            if pause is not None or not await _answer_error(ctx, failure):
                raise (pause or failure) from error

    async def _answer(self, ctx: RunContext[Any]) -> None:
        """Run with stubs, confirmation and callbacks."""
        config = ctx.config
        if (config.stubs or config.debug) and await _answer_with(ctx, _stub):
            ctx.run.mark_unreplayed(ctx.path)
            return
        if self.confirm:
            await _require_approval(ctx)
        for before in callbacks_of(ctx, "before_agent_callback"):
            if await _answer_with(ctx, before):
                return
        thread_length = len(ctx.current_branch.thread)
        answer: object = await self.run(ctx)
        if answer is not None:
            await ctx.finish(answer)
        if after := callbacks_of(ctx, "after_agent_callback"):
            await _finish_with(ctx, after, thread_length)

    def _check_options(self) -> None:
        """Raise InvalidTree if an option that every agent has is invalid."""
        require(isinstance(self.description, str), self, "description", "a text")
        grants = self.grants
        is_valid = isinstance(grants, Mapping) and all(
            isinstance(grant, Grant) for grant in grants.values()
        )
        require(is_valid, self, "grants", "a mapping from sub-agent names to Grant")
        is_question = isinstance(self.confirm, str) and bool(self.confirm.strip())
        is_valid = is_question or isinstance(self.confirm, bool) or callable(self.confirm)
        require(is_valid, self, "confirm", "a bool, a question (not empty) or a function")
        if callable(self.confirm):
            check_parameters(self, "confirm", self.confirm, ("ctx",))
        is_valid = self.flow is None or self.flow in FLOW_MODES
        require(is_valid, self, "flow", '"strict", "ask" or "off"')
        check_caller_rules(self)
        check_callbacks(self, AGENT_CALLBACKS)
        check_instruction(self, "global_instruction")
        if self.input_schema is not None and not isinstance(self.input_schema, Mapping):
            try:
                object_schema(self.input_schema)
            except (TypeError, ValueError) as error:
                raise InvalidTree(f"agent {self.name!r}: input_schema: {error}") from None

    def _check_unique_names(self) -> None:
        """Raise InvalidTree if a name or an agent occurs twice; agent tools may be shared."""
        by_name: dict[str, BaseAgent] = {}
        for agent in self.walk():
            self._check_unique_name(agent, by_name)
        in_tree = {id(agent) for agent in by_name.values()}
        for user in self.walk_all():
            for agent in (found for tool in user.agent_tools for found in tool.walk()):
                if id(agent) in in_tree or by_name.get(agent.name) is not agent:
                    self._check_unique_name(agent, by_name)

    def _check_unique_name(self, agent: "BaseAgent", by_name: "dict[str, BaseAgent]") -> None:
        if by_name.get(agent.name) is agent:
            raise InvalidTree(
                f"agent {agent.name!r} occurs twice in the tree of {self.name!r}; create a second "
                "agent with another name"
            )
        if agent.name in by_name:
            raise InvalidTree(
                f"two agents in the tree of {self.name!r} have the name {agent.name!r}; names must "
                "be unique in a tree"
            )
        by_name[agent.name] = agent


@dataclass(kw_only=True, eq=False)
class StandardAgent(BaseAgent[AnyDepsT, AnyOutputT]):
    """Base class of the agents of acc, whose `run` is declared to take a message too."""

    @overload
    async def run(self, ctx: RunContext[AnyDepsT]) -> AnyOutputT | None: ...

    @overload
    async def run(
        self,
        message: Message,
        /,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        config: RunConfig | None = None,
        context: CallContext | None = None,
        deps: AnyDepsT | None = None,
    ) -> RunResult[AnyOutputT]: ...

    async def run(self, ctx: Any, **options: Any) -> Any:
        """Answer a message, in a session in memory; or do the work of the agent in a run.

        A call without ids continues the default session. A `Runner` has further options.
        """
        return await self._run(ctx)

    async def _run(self, ctx: RunContext[AnyDepsT]) -> AnyOutputT | None:
        """Do the work of the agent and return its answer, if it has one."""
        raise NotImplementedError


def check_is_agent(value: object) -> None:
    """Raise InvalidInput if a value is not an agent that was constructed."""
    if isinstance(value, type) and issubclass(value, BaseAgent):
        name = value.__name__.removeprefix("Llm")
        raise InvalidInput(f"expected an agent, got the class: write {name}(name=...)")
    if not isinstance(value, BaseAgent):
        shown = repr(value) if isinstance(value, str | int | None) else type(value).__name__
        raise InvalidInput(f"expected an agent such as Agent(name=...), got {shown}")
    check_init(value)


def require(is_valid: bool, agent: BaseAgent, option: str, expected: str) -> None:
    """Raise InvalidTree if an option of an agent is invalid."""
    if not is_valid:
        value = getattr(agent, option)
        raise InvalidTree(f"agent {agent.name!r}: {option} must be {expected}, got {value!r}")


def check_instruction(agent: BaseAgent, option: str) -> None:
    """Raise InvalidTree if an instruction is neither a text nor a function of the context."""
    instruction = getattr(agent, option)
    is_valid = isinstance(instruction, str) or callable(instruction)
    require(is_valid, agent, option, "a text or a function of the context")
    if not isinstance(instruction, str):
        check_parameters(agent, option, instruction, ("ctx",))


def check_below_root(agent: BaseAgent, user: BaseAgent) -> None:
    """Raise InvalidTree if an agent that another one uses has an option of the root."""
    if agent.global_instruction:
        raise InvalidTree(
            f"agent {agent.name!r} has a global_instruction and is used by {user.name!r}: only the "
            "root has one; set it there, or use instruction"
        )
    if agent.callers is not None or agent.has_memory_filter:
        raise InvalidTree(
            f"agent {agent.name!r} has callers or filter_memory and is used by {user.name!r}: only "
            "the root has them; set them there, or restrict the agent with grants"
        )


def check_callbacks(agent: BaseAgent, parameters_by_name: Mapping[str, Sequence[str]]) -> None:
    """Raise InvalidTree if a callback is not callable with its arguments."""
    for name, parameters in parameters_by_name.items():
        callbacks = as_callbacks(getattr(agent, name))
        require(all(map(callable, callbacks)), agent, name, "a function or a list of functions")
        for callback in callbacks:
            check_parameters(agent, name, callback, parameters)


def check_parameters(
    agent: BaseAgent, option: str, function: Callable[..., Any], parameters: Sequence[str]
) -> None:
    """Raise InvalidTree if a function cannot be called with the arguments that it will get."""
    if not accepts(function, len(parameters)):
        name = getattr(function, "__name__", type(function).__name__)
        raise InvalidTree(
            f"agent {agent.name!r}: {option}={name} is called with ({', '.join(parameters)}): "
            f"write def {option}({', '.join(parameters)})"
        )


def check_count(agent: BaseAgent, option: str) -> None:
    """Raise InvalidTree if an optional count is not an integer of at least 1."""
    count = getattr(agent, option)
    is_valid = count is None or is_positive_int(count)
    require(is_valid, agent, option, "an integer of at least 1")


def is_positive_int(value: object) -> bool:
    """Return True if a value is an integer of at least 1 and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def check_name(name: object, what: str) -> None:
    """Raise InvalidTree if a name cannot be used in paths, branches and tool calls."""
    if name is None or name == "":
        raise InvalidTree(f'{what} needs a name: name="helper"')
    if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
        raise InvalidTree(
            f"{name!r} is not a valid name for {what}: use letters, digits, _ and -, and do not "
            "start with a digit"
        )
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTree(f"the name {name!r} is longer than {MAX_NAME_LENGTH} characters")
    if name in _RESERVED_NAMES:
        raise InvalidTree(f"the name {name!r} is reserved for messages of people")


async def _answer_with(ctx: RunContext, callback: Callback) -> bool:
    """Answer with the text that a callback returns; return False if it returns None."""
    answer = await maybe_await(callback, ctx)
    if answer is None:
        return False
    # A before callback must not overwrite an answer that is already in the state.
    write = callback is _stub or ctx.agent.read_output(ctx) is None
    await _say(ctx, callback, answer, write=write)
    return True


async def _finish_with(ctx: RunContext, callbacks: Sequence[Callback], thread_length: int) -> None:
    """Answer with the draft or, if a callback returns a text, replace the answer with it.

    Each callback receives the text as the callbacks before it left it. A replaced answer is removed
    from the conversation, which had `thread_length` messages before the agent ran.
    """
    thread, draft = ctx.current_branch.thread, ctx.text
    end = len(thread)
    output = deepcopy(ctx.agent.read_output(ctx))
    callback: Callback | None = None
    answer: object = None
    for candidate in callbacks:
        replacement = await maybe_await(candidate, ctx, draft if answer is None else answer)
        if replacement is not None:
            callback, answer = candidate, replacement
            if not isinstance(answer, str):
                break
    if callback is not None:
        authors = {agent.name for agent in ctx.agent.walk()}
        messages = thread[thread_length:end]
        thread[thread_length:end] = [m for m in messages if m.author not in authors]
        # Do not overwrite an output that the callback wrote itself.
        await _say(ctx, callback, answer, write=ctx.agent.read_output(ctx) == output)
    elif ctx.is_draft:
        await ctx.say(draft, output=ctx.output)


async def _answer_error(ctx: RunContext, error: Exception) -> bool:
    """Answer with what an error callback returns; return False if the error is to be raised.

    Errors that end the run are shown to the callbacks but cannot be replaced by an answer.
    """
    callbacks = callbacks_of(ctx, "on_agent_error_callback")
    try:
        answer = await first_result(callbacks, ctx, error) if callbacks else None
        if answer is None or isinstance(error, RUN_LEVEL_ERRORS):
            return False
        await _say(ctx, callbacks[0], answer, write=True)
    except Exception as fault:
        if isinstance(fault, AccError) or is_control_flow(fault):
            raise
        raise AgentFailed(ctx.agent.name, f"{type(fault).__name__}: {fault}") from fault
    return True


async def _say(ctx: RunContext, callback: Callback, answer: object, *, write: bool) -> None:
    if not isinstance(answer, str):
        name = "the stub" if callback is _stub else getattr(callback, "__name__", "the callback")
        raise TypeError(f"{name} returned {type(answer).__name__}; expected str or None")
    if write:
        ctx.agent.write_output(ctx, answer)
    await ctx.say(answer)


async def _flush_state(ctx: RunContext) -> None:
    """Record state writes and published events that no event has recorded yet."""
    recorded = ctx.next_recorded()
    if (
        ctx.current_branch.state.pending
        or ctx.unpublished
        or (recorded is not None and recorded.kind is EventKind.STATE)
    ):
        await ctx.emit(EventKind.STATE)


async def _require_approval(ctx: RunContext) -> None:
    """Request approval for the agent; if it is denied or expires, the run is rejected."""
    agent = ctx.agent
    scope = ctx.fork("confirm")
    confirm: Any = agent.confirm
    if callable(confirm):
        confirm = scope.next_recorded() is not None or await maybe_await(confirm, ctx)
        if not confirm:
            return
    question = confirm if isinstance(confirm, str) else f"May {agent.name!r} go ahead?"
    answer = await scope.request_input(question, kind=RequestKind.CONFIRMATION)
    if answer.verdict is not ApprovalDecision.APPROVE:
        raise RunRejected(agent.name, answer.reason or answer.verdict.value)


def _stub(ctx: RunContext) -> Any:
    """Return the answer that `RunConfig.stubs` or debug mode uses instead of the agent."""
    config = ctx.config
    agent = ctx.agent
    if agent.name in config.stubs:
        stub = config.stubs[agent.name]
        return stub if isinstance(stub, str) else stub(ctx)
    uses_model = not agent.sub_agents or hasattr(agent, "instruction")
    uses_model = uses_model and not agent.runs_in_debug
    if config.debug and agent is not ctx.run.request.root and uses_model:
        return f"[debug] {agent.name} would answer: {ctx.message}"
    return None


async def _emit_snapshot(ctx: RunContext, when: str) -> None:
    state = ctx.current_branch.state.copy()
    granted = {key: value for key, value in state.items() if key in ctx.state}
    detail = {"when": when, "path": ctx.path, "state": granted}
    await ctx.emit(EventKind.SNAPSHOT, detail=detail)


def _log(ctx: RunContext, message: str) -> None:
    log.info(
        message,
        extra={
            **ctx.run.request.log_fields,
            "span_id": span_id_of(ctx.span),
            "agent": ctx.agent.name,
            "path": ctx.path,
            "branch": ctx.branch,
        },
    )
