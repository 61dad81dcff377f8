"""The reasoning loop of an LlmAgent: its model calls and tool calls in one run."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from acc.application.agents.callbacks import (
    callbacks_of,
    first_result,
    maybe_await,
)
from acc.application.agents.instructions import Instruction, render_instruction
from acc.application.agents.output import (
    INVALID_OUTPUT,
    PartialOutputs,
)
from acc.application.agents.planner import PlanFirst, PlanTool, count_plans
from acc.application.runtime.agent_memory import TurnMemory
from acc.application.runtime.context import UNSET, RunContext
from acc.application.runtime.interrupts import RUN_LEVEL_ERRORS
from acc.application.runtime.json_types import to_builtins
from acc.application.runtime.model_call import call_model
from acc.application.runtime.turn_window import TurnWindow
from acc.application.tools.execution import ToolExecutor, ToolOutcome, ToolRetries
from acc.application.tools.flow_guard import FlowGuard, start_flow_guard
from acc.application.tools.results import ReadResultTool
from acc.application.tools.tool import TRANSFER_TOOL_NAME, BaseTool, TransferTool
from acc.application.tools.toolset import DynamicTools
from acc.domain.errors import ModelOutputInvalid
from acc.domain.value_objects.base import replace
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
from acc.ports.outbound.memory_ports import MemoryView
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from acc.application.agents.llm import LlmAgent

_FINAL_ANSWERS = (EventKind.MESSAGE, EventKind.DRAFT)
_MODEL_RESPONSES = (*_FINAL_ANSWERS, EventKind.TOOL_CALLS, EventKind.FAULT)
_MAX_INVALID_ANSWER_LENGTH = 2_000
#: The author of answers that were not recorded by an agent.
_UNNAMED_AUTHOR = "assistant"


class ReasoningLoop:
    """The model calls and tool calls of one agent in one run."""

    def __init__(self, agent: "LlmAgent[Any, Any]", ctx: RunContext) -> None:
        self._agent = agent
        self._ctx = ctx
        self._model = ctx.services.model(agent.model)
        self._tools = agent.own_tools
        self._specs = agent.own_specs
        self._output = agent.output
        toolsets = agent.toolsets
        targets = {target.name: target for target in agent.transfer_targets()}
        if targets:
            transfer = TransferTool(ctx, targets)
            self._tools = {**self._tools, TRANSFER_TOOL_NAME: transfer}
            self._specs = (*self._specs, transfer.spec)
        self._plan: PlanTool | None = None
        if isinstance(agent.planner, PlanFirst):
            self._plan = PlanTool(agent.planner)
            self._tools = {**self._tools, self._plan.name: self._plan}
        self._dynamic_tools: DynamicTools | None = None
        if toolsets:
            self._dynamic_tools = DynamicTools(ctx, toolsets, frozenset(self._tools))
        sees_contents = agent.include_contents == "default"
        query = ChatMessage(role="user", author="user", parts=ctx.parts)
        #: The message of this turn, and what other agents have said since.
        self._opening = (query, *(_conversation(ctx) if sees_contents else ()))
        self._window = TurnWindow(ctx.config.max_prompt_tokens, ctx.services.tokens)
        self._invalid_responses = 0
        self._attempt = 1
        self._retries = ToolRetries(ctx.config)
        self._memory: TurnMemory | None = None
        self._before_model = callbacks_of(ctx, "before_model_callback")
        self._after_model = callbacks_of(ctx, "after_model_callback")
        #: Whether a response may be replaced after the call, so that it must not be streamed.
        self._may_be_replaced = bool(self._after_model or callbacks_of(ctx, "after_agent_callback"))
        self._guard: FlowGuard | None = None

    async def run(self) -> None:
        """Call the model and tools until there is an answer, a transfer or an escalation."""
        agent, ctx = self._agent, self._ctx
        sees_contents = ctx.history and agent.include_contents == "default"
        if agent.memory is not None and sees_contents:
            self._memory = await ctx.services.memory_cache.get(ctx, agent.memory)
        self._guard = await start_flow_guard(ctx, self._model, self._tools)
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
        prompt, memory_tokens = await self._build_fitting_prompt(view)
        response, usage = await self._call_model(prompt, memory_tokens=memory_tokens)
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

    async def _build_fitting_prompt(self, view: MemoryView | None) -> tuple[ModelRequest, int]:
        """Return a request within `max_prompt_tokens`, and the size of the memory in it.

        The memory is shortened first, then tool results.
        """
        memory, window = self._memory, self._window
        prompt = await self._build_prompt(view)
        size = 0 if memory is None or view is None else view.tokens
        if window.fits(prompt, memory_tokens=size):
            return prompt, size
        if memory is None or view is None:
            if window.fit(prompt, memory_tokens=0, where=self._ctx.path) is not None:
                prompt = await self._build_prompt(view)
            return prompt, 0
        budget = window.memory_budget(prompt, memory_tokens=view.tokens)
        if budget is not None and view.tokens > budget:
            view = memory.reduce_view(budget)
            prompt = await self._build_prompt(view)
        shortened = window.fit(prompt, memory_tokens=view.tokens, where=self._ctx.path)
        if shortened is None:
            return prompt, view.tokens
        if shortened:
            memory.commit_results(shortened, self._agent.name)
            view = await memory.view()
            if view is not None and budget is not None and view.tokens > budget:
                view = memory.reduce_view(budget)
        return await self._build_prompt(view), 0 if view is None else view.tokens

    async def _build_prompt(self, view: MemoryView | None) -> ModelRequest:
        instruction = await self._render(self._agent.instruction)
        if general := await self._render(self._ctx.run.request.root.global_instruction):
            instruction = f"{general}\n\n{instruction}" if instruction else general
        if self._plan is not None and isinstance(self._agent.planner, PlanFirst):
            advice = self._agent.planner.instruction
            instruction = f"{instruction}\n\n{advice}" if instruction else advice
        dynamic = self._dynamic_tools
        earlier = () if view is None else _with_authors(view.messages, self._agent.name)
        messages = (*earlier, *self._turn_messages())
        specs = self._specs if dynamic is None else self._specs + dynamic.specs
        if self._plan is not None:
            # Tools are offered only when there is a plan.
            specs = (self._plan.spec, *specs) if self._has_plan() else (self._plan.spec,)
        numbers = self._window.shortened_results(messages)
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
            output_schema=None if self._output is None else self._output.schema,
            settings=self._agent.model_settings,
            native_tools=tuple(self._agent.native_tools),
        )

    def _has_plan(self) -> bool:
        """Return True if tools may be used: there is a plan in this turn, or none is needed."""
        if self._plan is None:
            return True
        self._plan.plans = count_plans(self._window.messages)
        return self._plan.plans > 0

    async def _render(self, instruction: Instruction[Any]) -> str:
        if isinstance(instruction, str) and "{" not in instruction and "}" not in instruction:
            return instruction
        return await render_instruction(self._ctx, instruction)

    def _turn_messages(self) -> tuple[ChatMessage, ...]:
        """Return the messages of this turn so far."""
        return (*self._opening, *self._window.messages)

    async def _call_model(
        self, prompt: ModelRequest, *, memory_tokens: int
    ) -> tuple[ModelResponse, Usage]:
        ctx = self._ctx
        for before in self._before_model:
            replacement = await maybe_await(before, ctx, prompt)
            if isinstance(replacement, ModelRequest):
                prompt = replacement
            elif (canned := _as_response("before_model_callback", replacement)) is not None:
                return await self._replace_response(canned), Usage()
        ctx.messages = prompt.messages
        partial = None if self._output is None else PartialOutputs(ctx, attempt=self._attempt)
        try:
            response, usage = await call_model(
                ctx,
                self._model,
                prompt,
                memory_tokens=memory_tokens,
                stream=not self._may_be_replaced,
                deltas=partial,
            )
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

    async def _replace_response(self, response: ModelResponse) -> ModelResponse:
        """Return the response as the after callbacks leave it."""
        for after in self._after_model:
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
        if self._plan is not None and not self._has_plan():
            tools = {self._plan.name: self._plan}
            available = tools
        executor = ToolExecutor(
            ctx,
            tools,
            available_names=available,
            retries=self._retries,
            is_replay=is_replay,
            guard=self._guard,
        )
        outcomes = await self._run_tools(executor, event.calls, tools)
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
                # Words of a tool must not become words of the agent in later turns.
                ctx.text = event.text
            return True
        if ctx.transfer_to is None:
            return False
        self._share_tool_results()
        return True

    async def _run_tools(
        self, executor: ToolExecutor, calls: Sequence[ToolCall], tools: Mapping[str, BaseTool]
    ) -> list[ToolOutcome]:
        """Execute the calls; the information-flow policy learns what was read."""
        guard = self._guard
        if guard is None:
            return await executor.run(calls)
        await guard.prepare(calls, tools)
        outcomes = await executor.run(calls)
        for call, outcome in zip(calls, outcomes, strict=True):
            if outcome.executed or not outcome.result.is_error:
                guard.observe(tools.get(call.name), call.arguments, outcome.result)
        return outcomes

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


def _with_authors(messages: tuple[ChatMessage, ...], own: str) -> tuple[ChatMessage, ...]:
    """Return messages of earlier turns with notes that name the other agents among them.

    The note of a turn follows its last message, so that the start of the prompt stays the same.
    """
    ignored = ("", own, _UNNAMED_AUTHOR, RUNTIME_AUTHOR)
    if all(m.role != "assistant" or m.author in ignored for m in messages):
        return messages
    found: list[ChatMessage] = []
    authors: dict[str, None] = {}
    for message in messages:
        if message.role == "user" and authors:
            found.append(_authors_note(authors, own))
            authors = {}
        if message.role == "assistant" and message.author not in ignored:
            authors[message.author] = None
        found.append(message)
    if authors:
        found.append(_authors_note(authors, own))
    return tuple(found)


def _authors_note(authors: Iterable[str], own: str) -> ChatMessage:
    names = ", ".join(authors)
    note = f"The previous messages are from other agents: {names}. You are {own}."
    return ChatMessage(role="user", author=RUNTIME_AUTHOR, parts=text_part(note))


def _conversation(ctx: RunContext) -> tuple[ChatMessage, ...]:
    """Return the messages of other agents in this turn, and a note that names their authors."""
    thread = tuple(ctx.current_branch.thread)
    if not thread:
        return ()
    authors = dict.fromkeys(m.author for m in thread if m.role == "assistant")
    return (*thread, _authors_note(authors, ctx.agent.name))


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
