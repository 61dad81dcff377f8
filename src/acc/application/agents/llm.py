"""LlmAgent: the options of an agent with a model and tools."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from acc.application.agents.base import (
    BaseAgent,
    StandardAgent,
    check_below_root,
    check_callbacks,
    check_instruction,
    require,
)
from acc.application.agents.callbacks import (
    MODEL_AND_TOOL_CALLBACKS,
    AfterModelCallback,
    AfterToolCallback,
    BeforeModelCallback,
    BeforeToolCallback,
    ModelErrorCallback,
    ToolErrorCallback,
)
from acc.application.agents.dependencies import declared_types
from acc.application.agents.instructions import Instruction
from acc.application.agents.option_hints import DEFAULT_MODEL
from acc.application.agents.output import (
    INVALID_OUTPUT,
    OutputType,
    make_output_type,
)
from acc.application.agents.planner import PLAN_TOOL_NAME, NativeThinking, PlanFirst, Planner
from acc.application.agents.reasoning_loop import ReasoningLoop
from acc.application.agents.validation import check_model
from acc.application.memory.messages import READ_RESULT_TOOL
from acc.application.memory.registry import check_agent_memory
from acc.application.runtime.agent_memory import MemoryChoice
from acc.application.runtime.context import RunContext
from acc.application.runtime.json_types import to_builtins
from acc.application.runtime.type_variables import DepsT, OneOrMore, OutputT
from acc.application.tools.code import CodeTool
from acc.application.tools.function_tool import as_tool
from acc.application.tools.tool import TRANSFER_TOOL_NAME, AgentTool, BaseTool
from acc.application.tools.toolset import Toolset, check_toolsets
from acc.domain.call_options import accepts
from acc.domain.errors import InvalidInput, InvalidTree
from acc.domain.model_names import has_thinking_conflict
from acc.domain.value_objects.base import JsonData
from acc.ports.outbound.code_ports import CodeExecutorPort
from acc.ports.outbound.memory_ports import MemoryPort
from acc.ports.outbound.model_ports import (
    NATIVE_TOOLS,
    LanguageModelPort,
    ModelSettings,
    NativeTool,
    ToolSpec,
)

if TYPE_CHECKING:
    from typing_extensions import TypeForm

_FLAGS = (
    "disallow_transfer_to_sub_agents",
    "disallow_transfer_to_parent",
    "disallow_transfer_to_peers",
    "returns_control",
)
_RESERVED_TOOL_NAMES = (TRANSFER_TOOL_NAME, READ_RESULT_TOOL, PLAN_TOOL_NAME)


def _unset() -> Any:
    """Return the default of an option; Any, so that type checkers do not infer a type from it."""
    return None


@dataclass(kw_only=True, eq=False)
class LlmAgent(StandardAgent[DepsT, OutputT]):
    """An agent that calls a model and tools. `Agent` is an alias.

    `Agent[Deps, Output]` has the types of `ctx.deps` and of `result.output`. They can also be
    given as `deps_type` and `output_type`; `output_schema` is another name of `output_type`. The
    answer must then be JSON of the output type: a dataclass, a TypedDict, a msgspec.Struct, a
    pydantic model, a list or a union of them. The default is str.

    `model_settings` take precedence over the settings in the name of the model. `instruction` may
    contain placeholders such as `{email}`, or be a function of the context. The answer is written
    to the state key `output_key`. `memory` is transcript, retrieval, acc, None, or a function that
    creates a MemoryPort. `native_tools` are tools that the provider of the model executes itself.
    `planner` is `PlanFirst()`, which requires a plan before tools are used, or `NativeThinking()`.
    `code_executor` gives the agent the tool `run_python`, such as `SandboxedCodeExecutor()`.

    The agent can transfer to sub-agents, its parent and its peers unless this is disallowed. After
    a transfer the new agent keeps the conversation; an agent with `returns_control` returns its
    answer to the agent that transferred to it. With `include_contents="none"` it sees neither
    earlier turns nor messages of other agents.

    A callback option is one function or a list. `before_model_callback(ctx, prompt)` may return a
    text, a ModelResponse or another ModelRequest. `after_model_callback(ctx, response)` may return
    another text or ModelResponse, and `on_model_error_callback(ctx, prompt, error)` one in place of
    an error. `before_tool_callback(tool, arguments, ctx)` may return a result that replaces the
    call, `after_tool_callback(tool, arguments, ctx, result)` another result, and
    `on_tool_error_callback(tool, arguments, ctx, error)` one in place of an error.
    """

    model: str | LanguageModelPort = DEFAULT_MODEL
    instruction: Instruction[DepsT] = ""
    # Parameters of functions and the types in toolsets and agents are checked at run time.
    tools: "Sequence[BaseTool | Toolset | BaseAgent | Callable[..., object]]" = ()
    output_key: str = ""
    deps_type: "TypeForm[DepsT]" = field(default_factory=_unset)
    output_type: "TypeForm[OutputT]" = field(default_factory=_unset)
    output_schema: "TypeForm[OutputT]" = field(default_factory=_unset)
    memory: MemoryChoice | None = "transcript"
    before_model_callback: OneOrMore[BeforeModelCallback[DepsT]] | None = None
    after_model_callback: OneOrMore[AfterModelCallback[DepsT]] | None = None
    on_model_error_callback: OneOrMore[ModelErrorCallback[DepsT]] | None = None
    before_tool_callback: OneOrMore[BeforeToolCallback[DepsT]] | None = None
    after_tool_callback: OneOrMore[AfterToolCallback[DepsT]] | None = None
    on_tool_error_callback: OneOrMore[ToolErrorCallback[DepsT]] | None = None
    disallow_transfer_to_sub_agents: bool = False
    disallow_transfer_to_parent: bool = False
    disallow_transfer_to_peers: bool = False
    returns_control: bool = False
    include_contents: Literal["default", "none"] = "default"
    model_settings: ModelSettings | None = None
    native_tools: Sequence[NativeTool] = ()
    planner: Planner | None = None
    code_executor: CodeExecutorPort | None = None
    _own_tools: dict[str, BaseTool] = field(init=False, repr=False)
    _own_specs: tuple[ToolSpec, ...] = field(init=False, repr=False, default=())
    _toolsets: tuple[Toolset, ...] = field(init=False, repr=False, default=())
    _output: OutputType | None = field(init=False, repr=False, default=None)

    fixed_options: ClassVar[frozenset[str]] = BaseAgent.fixed_options | {
        "tools",
        "output_type",
        "output_schema",
        "code_executor",
    }

    def check(self) -> None:
        """Raise InvalidTree if an option is invalid."""
        self._check_llm_options()
        self._toolsets = tuple(item for item in self.tools if isinstance(item, Toolset))
        check_toolsets(self.name, self._toolsets)
        self._own_tools = {}
        items: list[Any] = [item for item in self.tools if not isinstance(item, Toolset)]
        if self.code_executor is not None:
            items.append(CodeTool(self.code_executor))
        for item in items:
            tool = as_tool(item)
            if tool.name in _RESERVED_TOOL_NAMES:
                raise InvalidTree(
                    f"agent {self.name!r}: {tool.name!r} is the name of a tool of acc; give the "
                    "tool another name, such as @tool(name=...)"
                )
            if tool.name in self._own_tools:
                raise InvalidTree(f"agent {self.name!r} has two tools named {tool.name!r}")
            if isinstance(tool, AgentTool):
                self._check_agent_tool(tool.agent)
            self._own_tools[tool.name] = tool
        self._own_specs = tuple(tool.spec for tool in self._own_tools.values())
        self._check_output_type()
        if types := declared_types(type(self), LlmAgent):
            self._declare(*types)
        if not self.disallow_transfer_to_sub_agents:
            for child in self.sub_agents:
                if not child.description:
                    raise InvalidTree(
                        f"agent {child.name!r} needs a description: the model of {self.name!r} "
                        "chooses transfer targets by description"
                    )

    def _check_llm_options(self) -> None:
        check_model(self, self.model)
        check_callbacks(self, MODEL_AND_TOOL_CALLBACKS)
        check_instruction(self, "instruction")
        key = self.output_key
        is_valid = isinstance(key, str) and (not key or bool(key.strip()))
        require(is_valid, self, "output_key", "the name of a state key")
        memory = self.memory
        is_valid = memory is None or isinstance(memory, str | MemoryPort) or callable(memory)
        require(
            is_valid, self, "memory", "a name, a MemoryPort, a function that creates one, or None"
        )
        is_valid = self.model_settings is None or isinstance(self.model_settings, ModelSettings)
        require(
            is_valid,
            self,
            "model_settings",
            "ModelSettings(...), such as ModelSettings(temperature=0)",
        )
        native = self.native_tools
        is_valid = isinstance(native, list | tuple) and all(name in NATIVE_TOOLS for name in native)
        choices = " or ".join(f'"{name}"' for name in NATIVE_TOOLS)
        require(is_valid, self, "native_tools", f"a list of {choices}")
        self.native_tools = tuple(native)
        is_valid = self.include_contents in ("default", "none")
        require(is_valid, self, "include_contents", '"default" or "none"')
        if isinstance(memory, str):
            try:
                check_agent_memory(memory)
            except InvalidInput as error:
                raise InvalidTree(f"agent {self.name!r}: {error}") from None
        self._check_planner_and_executor()
        for option in _FLAGS:
            require(isinstance(getattr(self, option), bool), self, option, "True or False")
        if memory is not None and (isinstance(memory, type) or not isinstance(memory, MemoryPort)):
            require(
                isinstance(memory, str) or accepts(memory, 0),
                self,
                "memory",
                'a name such as "acc", or a function without arguments that creates a MemoryPort',
            )
        is_valid = isinstance(self.tools, Iterable) and not isinstance(self.tools, str | Mapping)
        require(is_valid, self, "tools", "a list, such as [function]")
        self.tools = tuple(self.tools)

    def _check_planner_and_executor(self) -> None:
        planner, executor = self.planner, self.code_executor
        is_valid = planner is None or isinstance(planner, PlanFirst | NativeThinking)
        require(is_valid, self, "planner", "PlanFirst() or NativeThinking()")
        is_valid = executor is None or isinstance(executor, CodeExecutorPort)
        require(
            is_valid and not isinstance(executor, type),
            self,
            "code_executor",
            "an object with `async execute(code, *, files)`, such as SandboxedCodeExecutor()",
        )
        if isinstance(planner, NativeThinking):
            try:
                self.model_settings = planner.settings(self.model_settings)
            except InvalidInput as error:
                raise InvalidTree(f"agent {self.name!r}: {error}") from None
        settings = self.model_settings or ModelSettings()
        if isinstance(self.model, str) and has_thinking_conflict(
            self.model, temperature=settings.temperature, thinking=settings.thinking
        ):
            raise InvalidTree(
                f"agent {self.name!r}: models of Anthropic do not accept a temperature together "
                "with thinking; remove temperature, or set thinking to off"
            )

    def _check_output_type(self) -> None:
        """Set the output type, for which `output_schema` is another name."""
        annotation, alias = self.output_type, self.output_schema
        if annotation is not None and alias is not None and annotation != alias:
            raise InvalidTree(
                f"agent {self.name!r}: output_schema is another name of output_type; set only one"
            )
        option = "output_type" if alias is None else "output_schema"
        annotation = annotation if alias is None else alias
        try:
            self._output = None if annotation is None else make_output_type(annotation)
        except (TypeError, ValueError) as error:
            raise InvalidTree(
                f"agent {self.name!r}: no JSON schema for {option}: {error}"
            ) from None
        resolved: Any = str if annotation is None else annotation
        schema: Any = None if self._output is None else resolved
        vars(self).update(output_type=resolved, output_schema=schema)

    if not TYPE_CHECKING:

        @property
        def __orig_class__(self) -> object:
            """Return the class with its types, such as `Agent[Deps, Output]`."""
            return self.__dict__["__orig_class__"]

        @__orig_class__.setter
        def __orig_class__(self, alias: object) -> None:
            # Called by typing after `Agent[Deps, Output](...)`.
            self.__dict__["__orig_class__"] = alias
            if len(alias.__args__) == 2:
                self._declare(*alias.__args__)

    def _declare(self, deps: Any, output: Any) -> None:
        """Use the types of `Agent[Deps, Output]` for options that were not set."""
        if self.deps_type is None:
            self.deps_type = deps
        if self.output_type is str and output not in (Any, str):
            vars(self)["output_type"] = output
            self._check_output_type()

    def _check_agent_tool(self, agent: BaseAgent) -> None:
        if agent is self:
            raise InvalidTree(f"agent {self.name!r} cannot be its own tool")
        if agent.parent is not None:
            raise InvalidTree(
                f"agent {agent.name!r} is a sub-agent of {agent.parent.name!r} and cannot be a tool"
                f" of {self.name!r}; create a second agent with another name"
            )
        check_below_root(agent, self)
        for node in agent.walk_all():
            if isinstance(node, LlmAgent) and node.memory not in (None, "transcript"):
                raise InvalidTree(
                    f"agent {node.name!r} is used as a tool and receives only the request, so its "
                    "memory would stay empty; remove memory=, or make it a sub-agent"
                )

    @property
    def own_tools(self) -> Mapping[str, BaseTool]:
        """Return the agent's tools by name, without those of toolsets."""
        return self._own_tools

    @property
    def agent_tools(self) -> tuple[BaseAgent, ...]:
        """Return the agents that this agent uses as tools."""
        return tuple(t.agent for t in self._own_tools.values() if isinstance(t, AgentTool))

    @property
    def own_specs(self) -> tuple[ToolSpec, ...]:
        """Return the specs of the agent's own tools."""
        return self._own_specs

    @property
    def toolsets(self) -> Sequence[Toolset]:
        """Return the toolsets that provide further tools while the agent runs."""
        return self._toolsets

    @property
    def json_schema(self) -> Mapping[str, JsonData] | None:
        """Return the JSON schema of `output_type`, unless it is str."""
        return None if self._output is None else self._output.schema

    @property
    def output(self) -> OutputType | None:
        """Return the output type with its schema and decoder, or None for str."""
        return self._output

    def transfer_targets(self) -> Iterator[BaseAgent]:
        """Yield the agents that this agent may transfer to."""
        if not self.disallow_transfer_to_sub_agents:
            yield from self.sub_agents
        parent = self.parent
        if not isinstance(parent, LlmAgent):
            return
        if not self.disallow_transfer_to_parent:
            yield parent
        if not self.disallow_transfer_to_peers and not parent.disallow_transfer_to_sub_agents:
            yield from (peer for peer in parent.sub_agents if peer is not self)

    def decode_output(self, text: str) -> object:
        """Return an answer as a value of `output_type`, or raise one of INVALID_OUTPUT."""
        return text if self._output is None else self._output.decode(text)

    def read_output(self, ctx: RunContext) -> JsonData:
        """Return the state value at `output_key`."""
        return ctx.state.get(self.output_key) if self.output_key else None

    def write_output(self, ctx: RunContext, text: str) -> None:
        """Write a replacement of the answer to `output_key`, as text if it has another type."""
        if self.output_key:
            try:
                ctx.state[self.output_key] = to_builtins(self.decode_output(text))
            except INVALID_OUTPUT:
                ctx.state[self.output_key] = text

    async def _run(self, ctx: RunContext) -> None:
        """Call the model and tools until there is an answer, a transfer or an escalation."""
        await ReasoningLoop(self, ctx).run()


Agent = LlmAgent


def can_keep_conversation(agent: BaseAgent) -> bool:
    """Return True if an agent can keep the conversation: all its ancestors are LlmAgents."""
    if getattr(agent, "returns_control", False):
        return False
    ancestor = agent.parent
    while ancestor is not None:
        if not isinstance(ancestor, LlmAgent):
            return False
        ancestor = ancestor.parent
    return isinstance(agent, LlmAgent)


def has_memory(root: BaseAgent) -> bool:
    """Return True if an agent of a tree has a memory."""
    return any(isinstance(agent, LlmAgent) and agent.memory is not None for agent in root.walk())
