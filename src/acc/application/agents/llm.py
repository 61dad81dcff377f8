"""LlmAgent: the reasoning loop with a model and tools, and instruction placeholders."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from acc.application.agents.base import (
    BaseAgent,
    StandardAgent,
    check_callbacks,
    check_model,
    check_parameters,
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
    callbacks_of,
    first_result,
    has_callback,
    maybe_await,
)
from acc.application.agents.dependencies import declared_types
from acc.application.agents.instructions import Instruction, render_instruction
from acc.application.agents.options import DEFAULT_MODEL
from acc.application.agents.output import (
    INVALID_OUTPUT,
    OutputType,
    PartialOutputs,
    make_output_type,
)
from acc.application.memory.messages import READ_RESULT_TOOL, content_text
from acc.application.runtime.agent_memory import MemoryChoice, TurnMemory
from acc.application.runtime.context import UNSET, RunContext
from acc.application.runtime.interrupts import RUN_LEVEL_ERRORS
from acc.application.runtime.json_types import to_builtins
from acc.application.runtime.model_call import call_model
from acc.application.runtime.turn_window import TurnWindow, shortened_results
from acc.application.runtime.type_variables import DepsT, OneOrMore, OutputT
from acc.application.tools.execution import ToolExecutor, ToolRetries
from acc.application.tools.function_tool import as_tool
from acc.application.tools.read_result import ReadResultTool
from acc.application.tools.tool import TRANSFER_TOOL_NAME, AgentTool, BaseTool, TransferTool
from acc.application.tools.toolset import DynamicTools, Toolset, check_toolsets
from acc.domain.call_options import accepts
from acc.domain.errors import InvalidTree, ModelOutputInvalid
from acc.domain.value_objects.base import JsonData, replace
from acc.domain.value_objects.content import (
    CORRECTION_AUTHOR,
    RUNTIME_AUTHOR,
    ChatMessage,
    ChatRole,
    Part,
    ToolCall,
    Usage,
    text_part,
)
from acc.domain.value_objects.event import Event, EventKind
from acc.ports.outbound.memory_ports import MemoryPort, MemoryView
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest, ModelResponse, ToolSpec

if TYPE_CHECKING:
    from typing_extensions import TypeForm

_FINAL_ANSWERS = (EventKind.MESSAGE, EventKind.DRAFT)
_MODEL_RESPONSES = (*_FINAL_ANSWERS, EventKind.TOOL_CALLS, EventKind.FAULT)
_MAX_INVALID_ANSWER_LENGTH = 2_000
_RESERVED_TOOL_NAMES = (TRANSFER_TOOL_NAME, READ_RESULT_TOOL)


def _unset() -> Any:
    """Return the default of an option; Any, so that type checkers do not infer a type from it."""
    return None


@dataclass(kw_only=True, eq=False)
class LlmAgent(StandardAgent[DepsT, OutputT]):
    """An agent that reasons with a model. `Agent` is an alias.

    `Agent[Deps, Output]` has the types of `ctx.deps` and of `result.output`. They can also be
    given as `deps_type` and `output_type`; `output_schema` is another name of `output_type`. The
    answer must then be JSON of the output type: a dataclass, a TypedDict, a msgspec.Struct, a
    pydantic model, a list or a union of them. The default is str.

    `instruction` may contain placeholders such as `{email}`, or be a function of the context. The
    answer is written to the state key `output_key`. `memory` is transcript, retrieval, acc, None,
    or a function that creates a MemoryPort. The agent can transfer to sub-agents, its parent and
    its peers unless this is disallowed. After a transfer the new agent keeps the conversation; an
    agent with `returns_control` returns its answer to the agent that transferred to it. With
    `include_contents="none"` it sees neither earlier turns nor messages of other agents.

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
    _own_tools: dict[str, BaseTool] = field(init=False, repr=False)
    _own_specs: tuple[ToolSpec, ...] = field(init=False, repr=False, default=())
    _toolsets: tuple[Toolset, ...] = field(init=False, repr=False, default=())
    _output: OutputType | None = field(init=False, repr=False, default=None)

    def check(self) -> None:
        """Raise InvalidTree if an option is invalid."""
        self._check_llm_options()
        self._toolsets = tuple(item for item in self.tools if isinstance(item, Toolset))
        check_toolsets(self.name, self._toolsets)
        self._own_tools = {}
        for item in self.tools:
            if isinstance(item, Toolset):
                continue
            tool = as_tool(item)
            if tool.name in self._own_tools or tool.name in _RESERVED_TOOL_NAMES:
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
        is_valid = isinstance(self.instruction, str) or callable(self.instruction)
        require(is_valid, self, "instruction", "a text or a function of the context")
        if not isinstance(self.instruction, str):
            check_parameters(self, "instruction", self.instruction, ("ctx",))
        key = self.output_key
        is_valid = isinstance(key, str) and (not key or bool(key.strip()))
        require(is_valid, self, "output_key", "the name of a state key")
        memory = self.memory
        is_valid = memory is None or isinstance(memory, str | MemoryPort) or callable(memory)
        require(
            is_valid, self, "memory", "a name, a MemoryPort, a function that creates one, or None"
        )
        is_valid = self.include_contents in ("default", "none")
        require(is_valid, self, "include_contents", '"default" or "none"')
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

    def _check_output_type(self) -> None:
        """Set the output type, for which `output_schema` is another name."""
        given, alias = self.output_type, self.output_schema
        if given is not None and alias is not None and given != alias:
            raise InvalidTree(
                f"agent {self.name!r}: output_schema is another name of output_type; set only one"
            )
        option, of = ("output_type", given) if alias is None else ("output_schema", alias)
        try:
            self._output = None if of is None else make_output_type(of)
        except (TypeError, ValueError) as error:
            raise InvalidTree(
                f"agent {self.name!r}: no JSON schema for {option}: {error}"
            ) from None
        resolved: Any = str if of is None else of
        self.output_type = resolved
        self.output_schema = cast("Any", None) if self._output is None else resolved

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
        """Use the types of `Agent[Deps, Output]` for what was not given as an option."""
        if self.deps_type is None:
            self.deps_type = deps
        if self.output_type is str and output not in (Any, str):
            self.output_type = output
            self._check_output_type()

    def _check_agent_tool(self, agent: BaseAgent) -> None:
        if agent is self:
            raise InvalidTree(f"agent {self.name!r} cannot be its own tool")
        if agent.parent is not None:
            raise InvalidTree(
                f"agent {agent.name!r} is a sub-agent of {agent.parent.name!r} and cannot be a tool"
                f" of {self.name!r}; create a second agent with another name"
            )
        for user in agent.walk_all():
            if isinstance(user, LlmAgent) and user.memory not in (None, "transcript"):
                raise InvalidTree(
                    f"agent {user.name!r} is used as a tool and receives only the request, so its "
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
        """Return an answer as a value of `output_type`; one of INVALID_OUTPUT if it is not."""
        return text if self._output is None else self._output.decode(text)

    def read_output(self, ctx: RunContext) -> JsonData:
        """Return the state value at `output_key`."""
        return ctx.state.get(self.output_key) if self.output_key else None

    def write_output(self, ctx: RunContext, text: str) -> None:
        """Write a replacing answer to `output_key`, as text if it has another type."""
        if self.output_key:
            try:
                ctx.state[self.output_key] = to_builtins(self.decode_output(text))
            except INVALID_OUTPUT:
                ctx.state[self.output_key] = text

    async def _run(self, ctx: RunContext) -> None:
        """Call the model and tools until there is an answer, a transfer or an escalation."""
        await _ReasoningLoop(self, ctx).run()


Agent = LlmAgent


class _ReasoningLoop:
    """The model calls and tool calls of one agent in one run."""

    def __init__(self, agent: LlmAgent[Any, Any], ctx: RunContext) -> None:
        self._agent = agent
        self._ctx = ctx
        self._model = ctx.services.model(agent.model)
        self._tools = agent.own_tools
        self._specs = agent.own_specs
        targets = {target.name: target for target in agent.transfer_targets()}
        if targets:
            transfer = TransferTool(ctx, targets)
            self._tools = {**self._tools, TRANSFER_TOOL_NAME: transfer}
            self._specs = (*self._specs, transfer.spec)
        self._dynamic_tools: DynamicTools | None = None
        if agent.toolsets:
            self._dynamic_tools = DynamicTools(ctx, agent.toolsets, frozenset(self._tools))
        sees_contents = agent.include_contents == "default"
        self._conversation = _conversation(ctx) if sees_contents else ()
        self._window = TurnWindow(ctx.config.max_prompt_tokens, ctx.services.tokens)
        self._invalid_responses = 0
        self._attempt = 1
        self._retries = ToolRetries(ctx.config)
        self._memory: TurnMemory | None = None

    async def run(self) -> None:
        agent, ctx = self._agent, self._ctx
        sees_contents = ctx.history and agent.include_contents == "default"
        if agent.memory is not None and sees_contents:
            self._memory = await ctx.services.memory_cache.get(ctx, agent.memory)
        while True:
            event = await self._next_response()
            if event.kind in _FINAL_ANSWERS:
                return
            if event.kind is EventKind.FAULT:
                self._request_correction(event.text, str(event.detail["error"]))
            elif await self._execute_tools(event):
                return

    async def _next_response(self) -> Event:
        """Return the recorded event of the next model response."""
        ctx = self._ctx
        view = None if self._memory is None else await self._memory.view()
        recorded = ctx.next_recorded()
        if recorded is not None and recorded.kind in _MODEL_RESPONSES:
            ctx.run.budget.add_usage(recorded.usage or Usage(llm_calls=1))
            if recorded.kind in _FINAL_ANSWERS:
                return await ctx.finish("", output=self._recorded_output(recorded.text))
            return await ctx.emit(recorded.kind)
        if self._dynamic_tools is not None:
            await self._dynamic_tools.refresh()
        prompt = await self._build_prompt(view)
        tokens = 0 if view is None else view.tokens
        shortened = self._window.fit(prompt, memory_tokens=tokens, where=ctx.path)
        if shortened is not None:
            if self._memory is not None and shortened:
                self._memory.commit_results(shortened, self._agent.name)
                view = await self._memory.view()
            prompt = await self._build_prompt(view)
        response, usage = await self._call_model(prompt)
        error, output = self._check_response(response)
        if error:
            parts = text_part(response.text[:_MAX_INVALID_ANSWER_LENGTH])
            detail = {"error": error}
            return await ctx.emit(EventKind.FAULT, parts=parts, usage=usage, detail=detail)
        if response.calls:
            parts = text_part(response.text) if response.text else ()
            parts += tuple(Part(call=call) for call in response.calls)
            names: Sequence[str] = ()
            if self._dynamic_tools is not None:
                names = self._dynamic_tools.known_names(response.calls)
            return await ctx.emit(
                EventKind.TOOL_CALLS,
                parts=parts,
                usage=usage,
                detail={"dynamic_tools": names} if names else None,
            )
        return await ctx.finish(response.text, usage=usage, output=output)

    def _recorded_output(self, text: str) -> object:
        try:
            return self._agent.decode_output(text)
        except INVALID_OUTPUT:
            return UNSET  # the type has changed, or the text is that of a callback

    async def _build_prompt(self, view: MemoryView | None) -> ModelRequest:
        instruction = self._agent.instruction
        if not isinstance(instruction, str) or "{" in instruction or "}" in instruction:
            instruction = await render_instruction(self._ctx, instruction)
        dynamic = self._dynamic_tools
        earlier = () if view is None else view.messages
        messages = (*earlier, *self._turn_messages())
        specs = self._specs if dynamic is None else self._specs + dynamic.specs
        numbers = shortened_results(messages)
        if numbers:
            reader = ReadResultTool(numbers)
            self._tools = {**self._tools, reader.name: reader}
            specs = (*specs, reader.spec)
        return ModelRequest(
            messages=messages,
            query_index=len(earlier),
            memory="" if view is None else view.text,
            instruction=instruction,
            tools=specs,
            output_schema=self._agent.json_schema,
        )

    def _turn_messages(self) -> tuple[ChatMessage, ...]:
        """Return the messages of this turn so far."""
        query = ChatMessage(role="user", author="user", parts=self._ctx.parts)
        return (query, *self._conversation, *self._window.messages)

    async def _call_model(self, prompt: ModelRequest) -> tuple[ModelResponse, Usage]:
        ctx = self._ctx
        for before in callbacks_of(ctx, "before_model_callback"):
            replacement = await maybe_await(before, ctx, prompt)
            if isinstance(replacement, ModelRequest):
                prompt = replacement
            elif (canned := _as_response("before_model_callback", replacement)) is not None:
                return await self._replace_response(canned), Usage()
        ctx.messages = prompt.messages
        try:
            response, usage = await self._send(prompt)
        except RUN_LEVEL_ERRORS:
            raise
        except Exception as error:
            handlers = callbacks_of(ctx, "on_model_error_callback")
            replacement = await first_result(handlers, ctx, prompt, error) if handlers else None
            handled = _as_response("on_model_error_callback", replacement)
            if handled is None:
                raise
            response, usage = handled, Usage(llm_calls=1)
            ctx.run.budget.add_usage(usage)  # the failed call counts
        return await self._replace_response(response), usage

    async def _send(self, prompt: ModelRequest) -> tuple[ModelResponse, Usage]:
        ctx, output = self._ctx, self._agent.output
        may_be_replaced = has_callback(ctx, "after_model_callback") or has_callback(
            ctx, "after_agent_callback"
        )
        partial = None if output is None else PartialOutputs(ctx, attempt=self._attempt)
        return await call_model(
            ctx,
            self._model,
            prompt,
            memory_tokens=0 if self._memory is None else self._memory.tokens,
            stream=not may_be_replaced,
            deltas=partial,
        )

    async def _replace_response(self, response: ModelResponse) -> ModelResponse:
        """Return the response as the after callbacks leave it."""
        for after in callbacks_of(self._ctx, "after_model_callback"):
            replacement = await maybe_await(after, self._ctx, response)
            response = _as_response("after_model_callback", replacement) or response
        return response

    def _check_response(self, response: ModelResponse) -> tuple[str, object]:
        """Return what is wrong with a response, or the output; write it to `output_key`."""
        if response.calls:
            if all(map(_is_valid_call, response.calls)):
                return "", UNSET
            return "a tool call needs a text id, a text name and named arguments", UNSET
        if not response.text.strip():
            return "the answer is empty", UNSET
        agent = self._agent
        try:
            value = agent.decode_output(response.text)
        except INVALID_OUTPUT as error:
            return f"the answer must be JSON that matches the schema: {error}", UNSET
        if agent.output_key:
            self._ctx.state[agent.output_key] = to_builtins(value)
        return "", value

    def _request_correction(self, text: str, error: str) -> None:
        self._count_invalid_response(error)
        self._attempt += 1
        if text:
            self._add_message("assistant", self._agent.name, (Part(text=text),))
        request = f"That cannot be used: {error}. Answer again."
        self._add_message("user", CORRECTION_AUTHOR, (Part(text=request),))

    async def _execute_tools(self, event: Event) -> bool:
        """Execute the tool calls; return True if the agent has finished."""
        ctx, agent = self._ctx, self._agent
        is_replay = event.step in ctx.run.journal.steps
        if is_replay:  # no request was built, and the memory is not read again
            ctx.messages = self._turn_messages()
        tools = self._tools
        available: Collection[str] = tools
        if self._dynamic_tools is not None:
            names = event.detail.get("dynamic_tools", ())
            if is_replay and names:
                await self._dynamic_tools.refresh_for_replay()
            available = (*tools, *self._dynamic_tools.names)
            tools = {**tools, **self._dynamic_tools.by_name(names)}
        executor = ToolExecutor(
            ctx,
            tools,
            available_names=available,
            retries=self._retries,
            is_replay=is_replay,
        )
        outcomes = await executor.run(event.calls)
        self._add_message("assistant", agent.name, event.parts, event.seq)
        for outcome in outcomes:
            parts = (Part(result=outcome.result),)
            self._add_message("tool", outcome.result.name, parts, outcome.seq)
        if all(outcome.invalid_call for outcome in outcomes):
            self._count_invalid_response(str(outcomes[0].result.content["error"]))
        else:
            self._invalid_responses = 0
        self._retries.count(tools, outcomes)
        if any(outcome.escalate for outcome in outcomes):
            ctx.escalated = True
            if ctx.transfer_to is None:  # after a transfer, the target provides the answer
                content = outcomes[-1].result.content
                ctx.text = event.text or (content if isinstance(content, str) else "")
                ctx.escalation_text = content_text(content)
            return True
        if ctx.transfer_to is None:
            return False
        self._share_tool_results()
        return True

    def _share_tool_results(self) -> None:
        """Show the agent that takes over the tool calls of this agent and their results."""
        for message in self._window.messages:
            parts = tuple(part for part in message.parts if not _is_transfer(part))
            if message.role != "user" and parts:
                self._ctx.current_branch.thread.append(replace(message, parts=parts))

    def _add_message(
        self, role: ChatRole, author: str, parts: tuple[Part, ...], seq: int = 0
    ) -> None:
        self._window.add(ChatMessage(role=role, author=author, parts=parts, seq=seq))

    def _count_invalid_response(self, error: str) -> None:
        self._invalid_responses += 1
        if self._invalid_responses > self._ctx.config.max_repairs:
            raise ModelOutputInvalid(self._agent.name, error, self._invalid_responses)


def _is_transfer(part: Part) -> bool:
    item = part.call or part.result
    return item is not None and item.name == TRANSFER_TOOL_NAME


def _conversation(ctx: RunContext) -> tuple[ChatMessage, ...]:
    """Return the messages of other agents in this turn, and a note that names their authors."""
    thread = tuple(ctx.current_branch.thread)
    if not thread:
        return ()
    authors = ", ".join(dict.fromkeys(m.author for m in thread if m.role == "assistant"))
    note = f"The previous messages are from other agents: {authors}. You are {ctx.agent.name}."
    return (*thread, ChatMessage(role="user", author=RUNTIME_AUTHOR, parts=text_part(note)))


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


def _as_response(callback: str, value: object) -> ModelResponse | None:
    """Return the value of a model callback as a response; None means no replacement."""
    if value is None or isinstance(value, ModelResponse):
        return value
    if isinstance(value, str):
        return ModelResponse(text=value)
    raise TypeError(
        f"{callback} returned {type(value).__name__}; expected str, ModelResponse or None"
    )


def _is_valid_call(call: ToolCall) -> bool:
    has_texts = isinstance(call.id, str) and isinstance(call.name, str)
    return has_texts and isinstance(call.arguments, Mapping)
