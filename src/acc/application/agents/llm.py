"""The agent that reasons with a model: ask, use tools, ask again, answer."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from acc.application.agents.base import (
    BaseAgent,
    Callback,
    called,
    check_callbacks,
    check_model,
    refuse_unless,
)
from acc.application.runtime.agent_memory import MemoryChoice, TurnMemory
from acc.application.runtime.context import RunContext
from acc.application.runtime.model_call import call_model
from acc.application.tools.execution import Outcome, ToolCalls
from acc.application.tools.tool import AgentTool, Tool, as_data, as_model, as_tool, json_schema
from acc.application.tools.toolset import DynamicTools, Toolset, check_toolsets
from acc.application.tools.transfer import TRANSFER, TransferTool
from acc.domain.errors import InvalidInput, InvalidTree, ModelOutputInvalid, StateMissing
from acc.domain.value_objects.content import Part, ToolCall, Usage, text_part
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.session import StoredArtifact
from acc.ports.outbound.memory_ports import MemoryPort
from acc.ports.outbound.model_ports import (
    LanguageModelPort,
    ModelAnswer,
    Prompt,
    PromptMessage,
    ToolSpec,
)

#: A text, or a function from the context to one.
Instruction = str | Callable[[RunContext], Any]
_PLACEHOLDER = re.compile(
    r"\{\{|\}\}|\{(?:artifact\.([^{}?]+)|((?:(?:app|user|temp):)?[^\W\d]\w*))(\?)?\}"
)


def placeholders(instruction: Instruction) -> tuple[tuple[str, bool], ...]:
    """Return the state keys that an instruction asks for, and whether each may be absent."""
    if not isinstance(instruction, str) or "{" not in instruction:
        return ()
    found = _PLACEHOLDER.finditer(instruction)
    return tuple((match[2], bool(match[3])) for match in found if match[2])


async def resolve(ctx: RunContext, instruction: Instruction) -> str:
    """Return the instruction with its placeholders filled from state and artifacts."""
    if not isinstance(instruction, str):
        found = await called(instruction, ctx)
        if not isinstance(found, str):
            kind = type(found).__name__
            raise TypeError(f"its instruction is a function, which returned a {kind} and no text")
        return found
    pieces: list[str] = []
    end = opened = 0
    for match in _PLACEHOLDER.finditer(instruction):
        pieces.append(instruction[end : match.start()])
        end = match.end()
        if match[0] == "{{":
            opened += 1
            pieces.append("{")
        elif match[0] == "}}":
            # What nobody opened is no escape: two things end here, as in JSON.
            pieces.append("}" if opened else "}}")
            opened = max(opened - 1, 0)
        else:
            pieces.append(await _filled(ctx, match))
    pieces.append(instruction[end:])
    return "".join(pieces)


async def _filled(ctx: RunContext, match: re.Match[str]) -> str:
    if match[1] is not None:
        stored = await ctx.artifacts.load(match[1])
        if stored is not None:
            return _text_of(stored)
        if match[3]:
            return ""
        raise StateMissing(ctx.agent.name, f"artifact.{match[1]}", await ctx.artifacts.names())
    key = match[2]
    if key not in ctx.state:
        if match[3]:
            return ""
        raise StateMissing(ctx.agent.name, key, list(ctx.state))
    value = ctx.state[key]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _text_of(stored: StoredArtifact) -> str:
    try:
        return stored.text
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{{artifact.{stored.name}}} in an instruction stands for text, and the file is "
            f"{stored.media_type} that is none"
        ) from None


_FENCE = "```"
_BYTE_ORDER_MARK = "\ufeff"
_LAST_WORDS = (EventKind.MESSAGE, EventKind.DRAFT)
_MODEL_ANSWERS = (*_LAST_WORDS, EventKind.TOOL_CALLS, EventKind.FAULT)
_MOST_FAULTY = 2_000
_UNFIT = (msgspec.MsgspecError, UnicodeEncodeError)
_EMPTY = "the answer is empty"
_UNSOUND = "a call needs an id and a name, which are texts, and named arguments"


@dataclass(kw_only=True, eq=False)
class LlmAgent(BaseAgent):
    """An agent that reasons with a model; `Agent` is the same.

    `instruction` may hold placeholders such as `{email}`, or be a function of the context. What it
    answers goes to the state under `output_key`; with `output_schema`, a type such as a dataclass,
    the answer must be JSON of that type. `memory` is transcript, retrieval, acc, None, or a
    function that makes a MemoryPort. Sub-agents, the parent and peers can be transferred to, unless
    it is disallowed; a `returns_control` agent that was transferred to hands its answer back, any
    other keeps the conversation.

    `before_model_callback(ctx, prompt)` may return a text, a ModelAnswer or another Prompt,
    `after_model_callback(ctx, answer)` another text or answer,
    `before_tool_callback(tool, arguments, ctx)` a result in place of the call,
    `after_tool_callback(tool, arguments, ctx, result)` another one.
    """

    model: str | LanguageModelPort = "embedded"
    instruction: Instruction = ""
    tools: Sequence[Tool | Toolset | BaseAgent | Callable[..., Any]] = ()
    output_key: str = ""
    output_schema: Any = None
    memory: MemoryChoice | None = "transcript"
    before_model_callback: Callback | None = None
    after_model_callback: Callback | None = None
    before_tool_callback: Callback | None = None
    after_tool_callback: Callback | None = None
    disallow_transfer_to_sub_agents: bool = False
    disallow_transfer_to_parent: bool = False
    disallow_transfer_to_peers: bool = False
    returns_control: bool = False
    _own_tools: dict[str, Tool] = field(init=False, repr=False)
    _own_specs: tuple[ToolSpec, ...] = field(init=False, repr=False, default=())
    _toolsets: tuple[Toolset, ...] = field(init=False, repr=False, default=())
    _schema: Mapping[str, Any] | None = field(init=False, repr=False, default=None)

    def check(self) -> None:
        """Refuse what cannot work."""
        self._check_fields()
        self._own_tools = {}
        self._toolsets = tuple(item for item in self.tools if isinstance(item, Toolset))
        check_toolsets(self.name, self._toolsets)
        own = [item for item in self.tools if not isinstance(item, Toolset)]
        for item in map(as_tool, own):
            if item.name in self._own_tools or item.name == TRANSFER:
                raise InvalidTree(f"{self.name!r} has two tools called {item.name!r}")
            if isinstance(item, AgentTool):
                _check_agent_tool(self, item.agent)
            self._own_tools[item.name] = item
        self._own_specs = tuple(item.spec for item in self._own_tools.values())
        if self.output_schema is not None:
            self._schema = _schema_of(self)
        if not self.disallow_transfer_to_sub_agents:
            for child in self.sub_agents:
                if not child.description:
                    raise InvalidTree(
                        f"{child.name!r} needs a description: the model of {self.name!r} chooses by"
                        " it whom to transfer to"
                    )

    def _check_fields(self) -> None:
        check_model(self, self.model)
        check_callbacks(
            self,
            "before_model_callback",
            "after_model_callback",
            "before_tool_callback",
            "after_tool_callback",
        )
        fits = isinstance(self.instruction, str) or callable(self.instruction)
        refuse_unless(fits, self, "instruction", "a text, or a function of the context")
        key = self.output_key
        fits = isinstance(key, str) and (not key or bool(key.strip()))
        refuse_unless(fits, self, "output_key", "the name of a key")
        held = self.memory
        fits = held is None or isinstance(held, str | MemoryPort) or callable(held)
        refuse_unless(
            fits, self, "memory", "a name, a MemoryPort, a function that makes one, or None"
        )
        refuse_unless(isinstance(self.tools, Iterable), self, "tools", "a list")
        self.tools = tuple(self.tools)

    @property
    def own_tools(self) -> Mapping[str, Tool]:
        """Return the agent's tools by name, but for those that a toolset offers."""
        return self._own_tools

    @property
    def agent_tools(self) -> tuple[BaseAgent, ...]:
        """Return the agents that this one uses as tools."""
        return tuple(t.agent for t in self._own_tools.values() if isinstance(t, AgentTool))

    @property
    def own_specs(self) -> tuple[ToolSpec, ...]:
        """Return what a model is told of the agent's own tools."""
        return self._own_specs

    @property
    def toolsets(self) -> Sequence[Toolset]:
        """Return who offers the agent further tools while it runs."""
        return self._toolsets

    @property
    def json_schema(self) -> Mapping[str, Any] | None:
        """Return the JSON schema that answers must fit, if there is one."""
        return self._schema

    def transfer_targets(self) -> Iterator[BaseAgent]:
        """Give the agents that this one may transfer to."""
        if not self.disallow_transfer_to_sub_agents:
            yield from self.sub_agents
        parent = self.parent
        if not isinstance(parent, LlmAgent):
            return
        if not self.disallow_transfer_to_parent:
            yield parent
        if not self.disallow_transfer_to_peers and not parent.disallow_transfer_to_sub_agents:
            yield from (peer for peer in parent.sub_agents if peer is not self)

    def read(self, text: str) -> Any:
        """Return an answer as the state has it, of which the schema must be kept to."""
        if self.output_schema is None:
            return text
        body = without_fence(text)
        return as_data(msgspec.json.decode(body, type=self.output_schema, dec_hook=as_model))

    def kept_answer(self, ctx: RunContext) -> Any:
        """Return what the state has under the agent's key."""
        return ctx.state.get(self.output_key) if self.output_key else None

    def keep_answer(self, ctx: RunContext, text: str) -> None:
        """Put what was said in place of this agent into the state; as a text, if it is no more."""
        if self.output_key:
            try:
                ctx.state[self.output_key] = self.read(text)
            except _UNFIT:
                ctx.state[self.output_key] = text

    async def run(self, ctx: RunContext) -> None:
        """Reason until there is an answer, a transfer or an escalation."""
        await _Reasoning(self, ctx).run()


def _check_agent_tool(agent: LlmAgent, used: BaseAgent) -> None:
    if used is agent:
        raise InvalidTree(f"{agent.name!r} cannot be its own tool")
    if used.parent is not None:
        raise InvalidTree(
            f"{used.name!r} already belongs to {used.parent.name!r} and cannot be a tool of "
            f"{agent.name!r} too; make a second agent with a name of its own"
        )
    for one in used.everyone():
        if isinstance(one, LlmAgent) and one.memory not in (None, "transcript"):
            raise InvalidTree(
                f"{one.name!r} is used as a tool: it hears only the request, so its memory would "
                "stay empty; leave memory out, or make it a sub-agent"
            )


def _schema_of(agent: LlmAgent) -> Mapping[str, Any]:
    try:
        return json_schema(agent.output_schema)
    except (TypeError, ValueError) as error:
        raise InvalidTree(f"{agent.name!r}: output_schema has no JSON schema: {error}") from None


class _Reasoning:
    """One agent's way through one run."""

    def __init__(self, agent: LlmAgent, ctx: RunContext) -> None:
        self._agent = agent
        self._ctx = ctx
        self._model = ctx.services.model(agent.model)
        self._tools = agent.own_tools
        self._specs = agent.own_specs
        targets = {target.name: target for target in agent.transfer_targets()}
        if targets:
            transfer = TransferTool(ctx, targets)
            self._tools = {**self._tools, TRANSFER: transfer}
            self._specs = (*self._specs, transfer.spec)
        self._offered: DynamicTools | None = None
        if agent.toolsets:
            self._offered = DynamicTools(ctx, agent.toolsets, frozenset(self._tools))
        self._heard = tuple(ctx.current_branch.thread)
        self._steps: list[PromptMessage] = []
        self._faults = 0
        self._memory: TurnMemory | None = None

    async def run(self) -> None:
        agent, ctx = self._agent, self._ctx
        if agent.memory is not None and ctx.history:
            self._memory = await ctx.services.memory_cache.get(ctx, agent.memory)
        while True:
            event = await self._ask()
            if event.kind in _LAST_WORDS:
                if self._memory is not None:
                    self._memory.finish()
                return
            if event.kind is EventKind.FAULT:
                self._complain(event.text, str(event.detail["fault"]))
            elif await self._use_tools(event):
                return

    async def _ask(self) -> Event:
        """Return the model's next answer as it is on record."""
        ctx = self._ctx
        memory = "" if self._memory is None else await self._memory.view()
        recorded = ctx.next_recorded()
        if recorded is not None and recorded.kind in _MODEL_ANSWERS:
            ctx.run.budget.add_usage(recorded.usage or Usage(llm_calls=1))
            if recorded.kind in _LAST_WORDS:
                return await ctx.finish("")
            return await ctx.emit(recorded.kind)
        if self._offered is not None:
            await self._offered.look()
        answer, usage = await self._answer(await self._prompt(memory))
        fault = self._fault(answer)
        if fault:
            said = text_part(answer.text[:_MOST_FAULTY])
            wrong = {"fault": fault}
            return await ctx.emit(EventKind.FAULT, parts=said, usage=usage, detail=wrong)
        if answer.calls:
            said = text_part(answer.text) if answer.text else ()
            parts = said + tuple(Part(call=call) for call in answer.calls)
            names = None if self._offered is None else self._offered.called(answer.calls)
            detail = {"offered": names} if names else None
            return await ctx.emit(EventKind.TOOL_CALLS, parts=parts, usage=usage, detail=detail)
        return await ctx.finish(answer.text, usage=usage)

    async def _prompt(self, memory: str) -> Prompt:
        instruction = self._agent.instruction
        if not isinstance(instruction, str) or "{" in instruction or "}" in instruction:
            instruction = await resolve(self._ctx, instruction)
        return Prompt(
            query=self._ctx.message,
            memory=memory,
            instruction=instruction,
            messages=(*self._heard, *self._steps),
            tools=self._specs if self._offered is None else self._specs + self._offered.specs,
            output_schema=self._agent.json_schema,
        )

    async def _answer(self, prompt: Prompt) -> tuple[ModelAnswer, Usage]:
        agent, ctx = self._agent, self._ctx
        answer: ModelAnswer | None = None
        usage = Usage()
        if agent.before_model_callback is not None:
            found = await called(agent.before_model_callback, ctx, prompt)
            if isinstance(found, Prompt):
                prompt = found
            else:
                answer = _given("before_model_callback", found)
        if answer is None:
            tokens = 0 if self._memory is None else self._memory.tokens
            held = agent.after_model_callback is not None or agent.after_agent_callback is not None
            answer, usage = await call_model(
                ctx, self._model, prompt, memory_tokens=tokens, stream=not held
            )
        if agent.after_model_callback is not None:
            found = await called(agent.after_model_callback, ctx, answer)
            answer = _given("after_model_callback", found) or answer
        return answer, usage

    def _fault(self, answer: ModelAnswer) -> str:
        """Return what is wrong with an answer; a good one goes to the state where it should."""
        if answer.calls:
            return "" if all(map(_is_sound, answer.calls)) else _UNSOUND
        if not answer.text.strip():
            return _EMPTY
        agent = self._agent
        if not agent.output_key and agent.output_schema is None:
            return ""
        try:
            value = agent.read(answer.text)
        except _UNFIT as error:
            return f"the answer must be JSON that fits the schema: {error}"
        if agent.output_key:
            self._ctx.state[agent.output_key] = value
        return ""

    def _complain(self, said: str, fault: str) -> None:
        self._count_fault(fault)
        if said:
            self._note("agent", self._agent.name, (Part(text=said),))
        self._note("user", "system", (Part(text=f"That cannot be used: {fault}. Answer again."),))

    async def _use_tools(self, event: Event) -> bool:
        """Carry out the calls, and tell whether the agent's part in this is over."""
        ctx, agent = self._ctx, self._agent
        again = event.step in ctx.run.journal.steps
        tools = self._tools
        offered: Collection[str] = tools
        if self._offered is not None:
            names = event.detail.get("offered", ())
            if again and names:
                await self._offered.look_again()
            offered = (*tools, *self._offered.names)
            tools = {**tools, **self._offered.by_name(names)}
        calls = ToolCalls(
            ctx,
            tools,
            offered=offered,
            before=agent.before_tool_callback,
            after=agent.after_tool_callback,
        )
        outcomes = await calls.run(event.calls, again=again)
        self._note("agent", agent.name, event.parts)
        for outcome in outcomes:
            self._note("tool", outcome.result.name, (Part(result=outcome.result),))
            if self._memory is not None and outcome.result.name != TRANSFER:
                self._memory.add_tool_result(outcome.result)
        if all(outcome.at_fault for outcome in outcomes):
            self._count_fault(str(outcomes[0].result.content["error"]))
        else:
            self._faults = 0
        if any(outcome.escalate for outcome in outcomes):
            ctx.escalated = True
            if ctx.transfer_to is None:  # else the last word is that of who takes over
                ctx.text = event.text or _last_text(outcomes, alone=not ctx.current_branch.thread)
            return True
        return ctx.transfer_to is not None

    def _note(self, role: str, author: str, parts: tuple[Part, ...]) -> None:
        self._steps.append(PromptMessage(role=role, author=author, parts=parts))

    def _count_fault(self, fault: str) -> None:
        self._faults += 1
        if self._faults > self._ctx.config.max_repairs:
            raise ModelOutputInvalid(self._agent.name, fault, self._faults)


def without_fence(text: str) -> str:
    """Return what an answer holds in a fence that ends it, also after words; else all of it.

    Two fences are one too many: what is between them is no JSON, and the model is told so.
    """
    text = text.strip().removeprefix(_BYTE_ORDER_MARK).strip()
    _, fence, fenced = text.removesuffix(_FENCE).partition(_FENCE)
    if not fence or not text.endswith(_FENCE):
        return text
    body = fenced.strip()
    return body[4:] if body[:4].lower() == "json" else body


def _given(callback: str, found: object) -> ModelAnswer | None:
    """Return what a callback gave as a model's answer, of which a text is the words."""
    if found is None or isinstance(found, ModelAnswer):
        return found
    if isinstance(found, str):
        return ModelAnswer(text=found)
    raise TypeError(f"{callback} returned a {type(found).__name__}, which is no answer")


def _is_sound(call: ToolCall) -> bool:
    texts = isinstance(call.id, str) and isinstance(call.name, str)
    return texts and isinstance(call.arguments, Mapping)


def _last_text(outcomes: Sequence[Outcome], *, alone: bool) -> str:
    """Return what a tool that ended a loop said; data only where nobody has said anything."""
    content = outcomes[-1].result.content
    if isinstance(content, str):
        return content
    return msgspec.json.encode(content).decode() if alone else ""


def can_keep(agent: BaseAgent) -> bool:
    """Tell whether an agent can keep the conversation: only models pass it on down to it."""
    if getattr(agent, "returns_control", False):
        return False
    above = agent.parent
    while above is not None:
        if not isinstance(above, LlmAgent):
            return False
        above = above.parent
    return isinstance(agent, LlmAgent)


def has_memory(root: BaseAgent) -> bool:
    """Tell whether an agent of a tree keeps a memory, whose size can then be told."""
    return any(isinstance(one, LlmAgent) and one.memory is not None for one in root.walk())


Agent = LlmAgent
