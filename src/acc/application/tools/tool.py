"""What a tool is, what it is given, and agents as tools.

Functions as tools are in `function_tool`, tools of MCP servers in `mcp`.
"""

import math
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic

import msgspec

from acc.application.agents.base import BaseAgent, Confirm, check_is_agent, check_name
from acc.application.runtime.artifacts import Artifacts
from acc.application.runtime.context import RunContext
from acc.application.runtime.json_types import convert_object, encode_json, object_schema
from acc.application.runtime.state import StateView
from acc.application.runtime.type_variables import (
    AnyDepsT,
    ContextDepsT,
    GenericDefaults,
)
from acc.application.tracing.conventions import EXECUTE_TOOL
from acc.domain.call_options import accepts, check_call, explain_attributes, explains_call
from acc.domain.errors import InvalidInput, InvalidTree
from acc.domain.value_objects.approval import InputAnswer
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.content import ChatMessage, Part, Usage
from acc.domain.value_objects.endpoint import DownloadLimits
from acc.domain.value_objects.event import EventActions, EventKind
from acc.domain.value_objects.flow import ToolLabels
from acc.ports.outbound.model_ports import ToolSpec

TRANSFER_TOOL_NAME = "transfer_to_agent"
_ALREADY_TRANSFERRED = " (has already handed over)"
_DEFAULT_LIMITS = DownloadLimits()


#: Attributes of a tool context by the names that other libraries have for them.
_CONTEXT_HINTS = {
    "tool_call_id": "call_id",
    "context": "deps",
    "dependencies": "deps",
    "request_input": "ask",
    "history": "messages",
    "retry": "retry_count",
    "session": "use ctx.state for its state and ctx.session_id for its id",
    "agent_name": "use ctx.run_context.agent.name",
    "user_content": "use ctx.run_context.message",
}


@dataclass(slots=True)
class ToolActions:
    """Requests of a tool to the run. `escalate` ends the innermost loop."""

    escalate: bool = False


@explains_call({"tool_call_id": "call_id"}, advice="runners create it")
@explain_attributes(_CONTEXT_HINTS)
class ToolContext(Generic[ContextDepsT]):
    """What a tool may use besides its arguments: dependencies, state, artifacts, identifiers.

    `ToolContext[Deps]` has the type of `ctx.deps`. `retry_count` is how often the tool has failed
    in a row before this call.
    """

    __slots__ = (
        "_staged_artifacts",
        "_state",
        "actions",
        "call_id",
        "retry_count",
        "run_context",
        "tool_name",
    )

    def __init__(
        self,
        context: RunContext[ContextDepsT],
        call_id: str,
        *,
        tool_name: str = "",
        retry_count: int = 0,
    ) -> None:
        #: The context of the agent, in the scope of this call.
        self.run_context = context
        self._state = StateView(context.state)
        self._staged_artifacts: list[tuple[str, str | bytes, str]] = []
        self.call_id = call_id
        self.tool_name = tool_name
        self.retry_count = retry_count
        self.actions = ToolActions()

    @property
    def deps(self) -> ContextDepsT:
        """Return the dependencies that the run was started with; they are never stored."""
        return self.run_context.deps

    @property
    def state(self) -> MutableMapping[str, JsonData]:
        """Return the session state, restricted to the keys granted to the agent."""
        return self._state

    @property
    def messages(self) -> Sequence[ChatMessage]:
        """Return the messages that the model was sent when it called the tool.

        In a resumed run these are the messages of this turn.
        """
        return self.run_context.messages

    @property
    def usage(self) -> Usage:
        """Return the usage of the run so far."""
        return self.run_context.usage

    @property
    def function_call_id(self) -> str:
        """Return the id of the call, under its name in ADK."""
        return self.call_id

    @property
    def invocation_id(self) -> str:
        """Return the id of the run, under its name in ADK."""
        return self.run_id

    async def ask(
        self,
        message: str,
        *,
        schema: Mapping[str, JsonData] | None = None,
        expires_after: float | None = None,
    ) -> InputAnswer:
        """Return a person's answer; the run pauses here until there is one.

        `schema` is a JSON schema of the answer's value. When the run is resumed, the tool is called
        again from its start, and `ask` returns the answers. So what the tool does before its last
        `ask` may be done several times and must be deterministic; what follows is done once.
        """
        context = self.run_context
        answer = await context.request_input(
            message, tool=self.tool_name, schema=schema, expires_after=expires_after
        )
        # If the process dies after this, the tool is not called again: it may have had effects.
        recorded = context.next_recorded()
        if recorded is None or "continued" in recorded.detail:
            await context.emit(EventKind.STATE, detail={"continued": self.tool_name})
        return answer

    @property
    def artifacts(self) -> Artifacts:
        """Return the files that the agents of this session share."""
        return self.run_context.artifacts

    async def fetch(
        self,
        source: Part | str,
        *,
        types: Sequence[str] = _DEFAULT_LIMITS.types,
        max_bytes: int = _DEFAULT_LIMITS.max_bytes,
        timeout: float = _DEFAULT_LIMITS.timeout,  # noqa: ASYNC109 - a limit of the download
    ) -> Part:
        """Download the file that a part or a URL refers to, like `RunContext.fetch`."""
        return await self.run_context.fetch(
            source, types=types, max_bytes=max_bytes, timeout=timeout
        )

    @property
    def agent_name(self) -> str:
        """Return the name of the agent that called the tool."""
        return self.run_context.agent.name

    @property
    def run_id(self) -> str:
        """Return the id of the run."""
        return self.run_context.run_id

    @property
    def session_id(self) -> str:
        """Return the id of the session."""
        return self.run_context.session_id

    @property
    def user_id(self) -> str:
        """Return the id of the user, or an empty string if it is not granted."""
        return self.run_context.user_id

    @property
    def request_id(self) -> str:
        """Return the id of the request."""
        return self.run_context.call.request_id

    @property
    def trace_id(self) -> str:
        """Return the id shared by all log entries of this request."""
        return self.run_context.call.trace_id

    @property
    def caller(self) -> str:
        """Return the caller on whose behalf the agent works."""
        return self.run_context.call.caller

    @property
    def permissions(self) -> Collection[str] | None:
        """Return the permissions of the call; None means all permissions."""
        return self.run_context.call.permissions

    def save_artifact(
        self,
        filename: str,
        artifact: str | bytes | Part,
        *,
        media_type: str = "text/plain; charset=utf-8",
    ) -> None:
        """Save a new version of a file after the tool has returned, without an await."""
        if isinstance(artifact, Part):
            media_type = artifact.media_type or media_type
            content = artifact.text if artifact.text is not None else artifact.raw
            if content is None:
                raise InvalidInput(
                    f"artifact {filename!r}: the part has neither text nor raw bytes"
                )
            artifact = content
        self._staged_artifacts.append((filename, artifact, media_type))

    def publish(self, event_type: str, payload: JsonData) -> str:
        """Publish an event to other agents together with the result; return its message id.

        The event, the result and the state changes are stored in one transaction.
        """
        self._state.check_open()
        return self.run_context.publish(event_type, payload)

    async def progress(self, text: str, *, detail: Mapping[str, JsonData] | None = None) -> None:
        """Report the progress of the tool; the report is not stored."""
        await self.run_context.progress(text, detail=detail)

    async def save_staged_artifacts(self) -> None:
        """Store the files passed to `save_artifact`."""
        for name, content, media_type in self._staged_artifacts:
            await self.artifacts.save(name, content, media_type=media_type)

    def close(self) -> None:
        """Reject further state writes, for example from a thread that timed out."""
        self._state.close()


@explains_call(advice="a tool is a subclass that defines `invoke`")
class BaseTool(GenericDefaults, Generic[AnyDepsT]):
    """Base class of tools. A subclass defines `invoke`; `BaseTool[Deps]` types its context.

    `parameters` is the JSON schema of the arguments. `confirm` requests approval before a call:
    True, a question, or a predicate over the arguments. `requires` names a permission. After more
    than `retries` failures in a row the run fails; None means `RunConfig.max_tool_retries`. A
    `long_running` tool only starts the work: the run pauses until its outcome is reported. With
    `parallel=False` a call never runs concurrently with other calls of the same model response. A
    `replayable` tool is invoked again when a run is resumed, because everything it does is
    recorded. An `idempotent` tool may be invoked again if the process died during a call. `labels`
    declare for the information-flow policy what the tool does with data.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, JsonData] = {}
    confirm: Confirm = False
    confirm_expires: float | None = None
    requires: str = ""
    timeout: float | None = None
    retries: int | None = None
    long_running: bool = False
    parallel: bool = True
    replayable: bool = False
    idempotent: bool = False
    labels: ToolLabels | None = None
    #: Whether debug mode calls the tool, because it belongs to the runtime.
    runs_in_debug: ClassVar[bool] = False
    #: What a call is in a trace: the call of a tool, or the plan of the agent.
    operation: ClassVar[str] = EXECUTE_TOOL

    def __init__(
        self,
        *,
        name: str,
        description: str,
        parameters: Mapping[str, JsonData] | None = None,
        confirm: Confirm = False,
        confirm_expires: float | None = None,
        requires: str = "",
        timeout: float | None = None,
        retries: int | None = None,
        long_running: bool = False,
        parallel: bool = True,
        idempotent: bool = False,
        labels: ToolLabels | None = None,
    ) -> None:
        check_name(name, "a tool")
        self.name = name
        self.description = description
        if parameters is not None:
            self.parameters = parameters
        self.confirm = confirm
        self.confirm_expires = confirm_expires
        self.requires = requires
        self.timeout = timeout
        self.retries = retries
        self.long_running = long_running
        self.parallel = parallel
        self.idempotent = idempotent
        if labels is not None:
            self.labels = labels
        check_tool_options(self)

    @property
    def spec(self) -> ToolSpec:
        """Return the name, description and schema that the model receives."""
        parameters = self.parameters or {"type": "object", "properties": {}}
        return ToolSpec(name=self.name, description=self.description, parameters=parameters)

    def validate(self, arguments: Mapping[str, JsonData]) -> dict[str, JsonData]:
        """Return converted arguments, or raise ValueError, TypeError or ValidationError.

        The arguments of a tool that does not define this method are validated with the schema of
        its `spec`.
        """
        return dict(arguments)

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext[AnyDepsT]) -> object:
        """Execute the tool with validated arguments and return a result that fits JSON."""
        raise NotImplementedError(
            f"{type(self).__name__} must define `async def invoke(self, arguments, ctx)`"
        )


def check_tool_options(tool: BaseTool) -> None:
    """Raise InvalidTree if an option of a tool has the wrong type or value."""
    for option, text in (("description", tool.description), ("requires", tool.requires)):
        if not isinstance(text, str):
            raise InvalidTree(f"tool {tool.name!r}: {option} must be a text, got {text!r}")
    _check_confirm(tool)
    for option, seconds in (("timeout", tool.timeout), ("confirm_expires", tool.confirm_expires)):
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            raise InvalidTree(
                f"tool {tool.name!r}: {option} must be a positive number, got {seconds!r}"
            )
    retries = tool.retries
    is_count = isinstance(retries, int) and not isinstance(retries, bool) and retries >= 0
    if retries is not None and not is_count:
        raise InvalidTree(
            f"tool {tool.name!r}: retries must be an integer of at least 0, got {retries!r}"
        )
    if tool.labels is not None and not isinstance(tool.labels, ToolLabels):
        raise InvalidTree(
            f"tool {tool.name!r}: labels must be ToolLabels(...), got {tool.labels!r}"
        )
    _check_schema(tool)
    if type(tool).invoke is BaseTool.invoke:
        raise InvalidTree(
            f"tool {tool.name!r}: {type(tool).__name__} must define "
            "`async def invoke(self, arguments, ctx)`"
        )
    if not accepts(tool.invoke, 2):
        raise InvalidTree(
            f"tool {tool.name!r}: {type(tool).__name__}.invoke is called with (arguments, ctx): "
            "write `async def invoke(self, arguments, ctx)`"
        )


def _check_confirm(tool: BaseTool) -> None:
    """Raise InvalidTree if `confirm` has the wrong type, or is an empty question."""
    if not (isinstance(tool.confirm, bool | str) or callable(tool.confirm)):
        raise InvalidTree(
            f"tool {tool.name!r}: confirm must be a bool, a question or a function, "
            f"got {tool.confirm!r}"
        )
    if isinstance(tool.confirm, str) and not tool.confirm.strip():
        raise InvalidTree(
            f"tool {tool.name!r}: confirm is an empty question: write the question, or True to ask "
            "without one"
        )
    if callable(tool.confirm) and not accepts(tool.confirm, 1):
        raise InvalidTree(
            f"tool {tool.name!r}: confirm is called with the arguments of the tool as a dict: "
            "write def confirm(arguments)"
        )


def _check_schema(tool: BaseTool) -> None:
    """Raise InvalidTree if the schema of the arguments is not a mapping."""
    parameters: object = getattr(tool, "parameters", None)
    if not isinstance(parameters, Mapping | None):
        raise InvalidTree(
            f"tool {tool.name!r}: parameters must be a JSON schema, such as "
            '{"type": "object", "properties": {"x": {"type": "integer"}}}, got '
            f"{parameters!r}"
        )


class _AgentToolArguments(msgspec.Struct, forbid_unknown_fields=True):
    request: str


@explains_call()
@dataclass(eq=False, kw_only=True)
class AgentTool(BaseTool):
    """An agent as a tool: it receives a request, and its answer is the result.

    If the agent has an `input_schema`, its fields are the arguments, and the request is their JSON.
    Its events are part of the run. It shares the state but not the conversation. An escalation
    inside the agent does not leave it.
    """

    agent: BaseAgent
    name: str = ""
    description: str = ""
    confirm: Confirm = False
    confirm_expires: float | None = None
    requires: str = ""
    timeout: float | None = math.inf
    retries: int | None = None
    long_running: bool = field(default=False, init=False)
    parallel: bool = True
    replayable: bool = field(default=True, init=False)
    idempotent: bool = field(default=False, init=False)
    labels: ToolLabels | None = None
    _input_schema: Mapping[str, JsonData] | None = field(default=None, init=False, repr=False)

    if not TYPE_CHECKING:

        def __new__(cls, *arguments: object, **options: object) -> "AgentTool":
            """Raise InvalidTree for options that the class does not have."""
            if arguments or options:  # copies are created without them
                check_call(cls, arguments, options, error=InvalidTree)
            return super().__new__(cls)

    def __post_init__(self) -> None:
        try:
            check_is_agent(self.agent)
        except InvalidInput as error:
            raise InvalidTree(f"AgentTool: {error}") from None
        declared = self.agent.input_schema
        if declared is not None and not isinstance(declared, Mapping):
            self._input_schema = object_schema(declared)
        self.name = self.name or self.agent.name
        check_name(self.name, "a tool")
        check_tool_options(self)
        self.description = self.description or self.agent.description
        if not self.description:
            raise InvalidTree(
                f"agent {self.name!r} needs a description to be used as a tool: models choose tools"
                " by description"
            )

    @property
    def spec(self) -> ToolSpec:
        """Return the name, description and schema that the model receives."""
        if self._input_schema is not None:
            return ToolSpec(
                name=self.name, description=self.description, parameters=self._input_schema
            )
        request = {"type": "string", "description": "What the agent is asked to do"}
        parameters = {"type": "object", "properties": {"request": request}, "required": ["request"]}
        return ToolSpec(name=self.name, description=self.description, parameters=parameters)

    def validate(self, arguments: Mapping[str, JsonData]) -> dict[str, JsonData]:
        """Return the valid arguments, or raise ValueError or msgspec.ValidationError."""
        if self._input_schema is not None:
            return convert_object(self.agent.input_schema, arguments, self._input_schema)
        return {"request": msgspec.convert(arguments, _AgentToolArguments).request}

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext) -> object:
        """Run the agent without the conversation and return its answer."""
        isolated = ctx.run_context.fork("alone", history=False)
        is_typed = self._input_schema is not None
        message = encode_json(arguments) if is_typed else arguments["request"]
        return (await isolated.run_agent(self.agent, message=message)).text


class _TransferArguments(msgspec.Struct, forbid_unknown_fields=True):
    agent_name: str


class TransferTool(BaseTool):
    """Transfers the conversation to one of the given agents."""

    name = TRANSFER_TOOL_NAME
    description = "Hand over to the agent that is better suited to answer."
    timeout: float | None = math.inf
    parallel = False
    replayable = True
    labels = ToolLabels(effect="none")

    def __init__(self, owner: RunContext, targets: Mapping[str, BaseAgent]) -> None:
        self._owner = owner
        self._targets = targets

    @property
    def spec(self) -> ToolSpec:
        """Return the tool with the descriptions of the agents that can take over."""
        transferred = self._owner.run.budget.transferred
        choices = "\n".join(
            f"- {name}: {agent.description}{_ALREADY_TRANSFERRED if name in transferred else ''}"
            for name, agent in self._targets.items()
        )
        agent_name = {"type": "string", "enum": list(self._targets)}
        return ToolSpec(
            name=self.name,
            description=f"{self.description}\n{choices}",
            parameters={
                "type": "object",
                "properties": {"agent_name": agent_name},
                "required": ["agent_name"],
            },
        )

    def validate(self, arguments: Mapping[str, JsonData]) -> dict[str, JsonData]:
        """Return the arguments, or raise ValueError if the agent is not a valid target."""
        name = msgspec.convert(arguments, _TransferArguments).agent_name
        if name not in self._targets:
            targets = ", ".join(self._targets)
            raise ValueError(f"agent {name!r} is not a transfer target; choose one of: {targets}")
        return {"agent_name": name}

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext) -> object:
        """Record the transfer; a target that returns control is run immediately."""
        context, owner = ctx.run_context, self._owner
        target = self._targets[arguments["agent_name"]]
        if owner.transfer_to is not None:
            raise ValueError(
                f"the conversation was already transferred to {owner.transfer_to.name}"
            )
        is_replay = context.next_recorded() is not None
        path = context.run.budget.transfer(owner.agent.name, target.name, is_replay=is_replay)
        actions = EventActions(transfer_to_agent=target.name)
        await context.emit(EventKind.TRANSFER, actions=actions, detail={"path": list(path)})
        if getattr(target, "returns_control", False):
            return (await context.run_agent(target)).text
        owner.transfer_to = target
        return f"{target.name} takes over."
