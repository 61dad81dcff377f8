"""Agents of the OpenAI Agents SDK as agents of acc, and ACC memory as their input filter."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from acc.application.agents.framework import (
    FrameworkAgent,
    FrameworkEvents,
    FrameworkRequest,
    FrameworkResult,
    FrameworkTurn,
    agent_name,
)
from acc.application.memory.history import HistoryMemory
from acc.application.memory.messages import content_text, part_text
from acc.domain.errors import InvalidTree
from acc.domain.value_objects.approval import ApprovalDecision, RequestKind
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult, text_part

# Not by an import statement: to a type checker the name is that of a folder of tests.
_sdk: Any = import_module("agents")
_run: Any = import_module("agents.run")
_TEXT_DELTA = "response.output_text.delta"


class InputItems:
    """Translates the input items of the OpenAI Agents SDK; implements MessageCodec."""

    def is_instruction(self, message: Any) -> bool:
        """Return True for a message of the system or the developer."""
        return message.get("role") in ("system", "developer")

    def starts_turn(self, message: Any) -> bool:
        """Return True for a message of the user."""
        return message.get("role") == "user"

    def decode(self, messages: Sequence[Any]) -> list[ChatMessage]:
        """Return items as messages; calls in a row are one message."""
        decoded: list[ChatMessage] = []
        for item in messages:
            message = _decode(item)
            if message is None:
                continue
            previous = decoded[-1] if decoded else None
            if message.calls and previous is not None and previous.role == "assistant":
                decoded[-1] = ChatMessage(
                    role="assistant",
                    author=previous.author,
                    parts=(*previous.parts, *message.parts),
                )
            else:
                decoded.append(message)
        return decoded

    def encode(self, messages: Sequence[ChatMessage]) -> list[Any]:
        """Return messages as items."""
        return [item for message in messages for item in _encode(message)]


def _decode(item: Any) -> ChatMessage | None:
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "function_call":
        try:
            arguments = json.loads(item["arguments"] or "{}")
        except ValueError:
            arguments = {}
        call = ToolCall(
            id=item["call_id"],
            name=item["name"],
            arguments=arguments if isinstance(arguments, dict) else {"input": arguments},
        )
        return ChatMessage(role="assistant", author="assistant", parts=(Part(call=call),))
    if kind == "function_call_output":
        result = ToolResult(
            call_id=item["call_id"], name="tool", content=_content_text(item.get("output"))
        )
        return ChatMessage(role="tool", author="tool", parts=(Part(result=result),))
    if kind == "message" and role in ("user", "assistant"):
        parts = text_part(_content_text(item.get("content")))
        return ChatMessage(role=role, author=role, parts=parts)
    return None


def _content_text(content: Any) -> str:
    if isinstance(content, list):
        # An image or file becomes a note such as `[input_image]`.
        return "\n".join(str(one.get("text") or f"[{one.get('type')}]") for one in content)
    return content_text("" if content is None else content)


def _encode(message: ChatMessage) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        for result in message.results:
            output = content_text(result.content)
            yield {"type": "function_call_output", "call_id": result.call_id, "output": output}
        return
    texts = [part_text(part) for part in message.parts if part.call is None]
    if texts:
        yield {"role": message.role, "content": "\n".join(texts)}
    for call in message.calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.arguments, ensure_ascii=False, default=str),
        }


class AccInputFilter:
    """Replaces the input of a model call by a bounded memory."""

    def __init__(self, *, memory: HistoryMemory, session_id: str | Callable[[Any], str]) -> None:
        self._memory = memory
        self._session_id = session_id
        self._codec = InputItems()

    async def __call__(self, data: Any) -> Any:
        """Return the input with the memory; the items of the run are not changed."""
        session_id = self._session_id
        if callable(session_id):
            session_id = session_id(data.context)
        items = await self._memory.select(data.model_data.input, self._codec, session_id=session_id)
        return _run.ModelInputData(input=items, instructions=data.model_data.instructions)


@dataclass(kw_only=True, eq=False)
class OpenAIAgentsAgent(FrameworkAgent):
    """An agent of the OpenAI Agents SDK as an agent of acc, anywhere in an agent tree.

    Tools that need approval pause the run. `deps` of the run are the context of the agent. The
    limits of acc replace `max_turns`. `run_config` is a `RunConfig` of the SDK. `name` is that of
    the agent by default.
    """

    framework = "openai-agents"

    agent: Any = field(default=None, kw_only=False)
    run_config: Any = None
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.agent, _sdk.Agent):
            raise InvalidTree(
                "OpenAIAgentsAgent needs an agent of the OpenAI Agents SDK, such as "
                f"agents.Agent(...), got {type(self.agent).__name__}"
            )
        self.name = self.name or agent_name(self.agent.name, "agent")
        super().__post_init__()

    async def invoke(self, turn: FrameworkTurn, events: FrameworkEvents) -> FrameworkResult:
        """Run the agent until it answers or asks."""
        stored = turn.checkpoint or {}
        given: Any = [*stored.get("items", ()), {"role": "user", "content": turn.message}]
        if turn.answers:
            given = await _sdk.RunState.from_json(
                self.agent, stored["state"], context_override=_sdk.RunContextWrapper(turn.deps)
            )
            _answer(given, turn)
        options: dict[str, Any] = {
            "hooks": _Hooks(events),
            "max_turns": None,
            "run_config": self.run_config or _sdk.RunConfig(),
        }
        if not turn.answers:
            options["context"] = turn.deps
        if turn.is_streamed:
            result: Any = _sdk.Runner.run_streamed(self.agent, given, **options)
            async for event in result.stream_events():
                if event.type == "raw_response_event" and event.data.type == _TEXT_DELTA:
                    events.delta(event.data.delta)
        else:
            result = await _sdk.Runner.run(self.agent, given, **options)
        if result.interruptions:
            # The context is that of the runner in every call, so it is not stored.
            result.context_wrapper.context = None
            return FrameworkResult(
                checkpoint={"state": result.to_state().to_json()},
                requests=tuple(map(_request, result.interruptions)),
            )
        return FrameworkResult(
            answer=result.final_output, checkpoint={"items": _plain_items(result.to_input_list())}
        )


class _Hooks(_sdk.RunHooks):
    """Reports model calls and tool calls of a run."""

    def __init__(self, events: FrameworkEvents) -> None:
        self._events = events

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]
    ) -> None:
        codec = InputItems()
        starts = [i for i, item in enumerate(input_items) if codec.starts_turn(item)]
        earlier = input_items[: starts[-1]] if starts else input_items
        texts = [part_text(p) for message in codec.decode(earlier) for p in message.parts]
        self._events.model_started([system_prompt or "", *texts])

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        usage = response.usage
        details = usage.input_tokens_details
        self._events.model_ended(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached=getattr(details, "cached_tokens", 0) or 0,
        )

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        try:
            arguments = json.loads(context.tool_arguments or "{}")
        except ValueError:
            arguments = {"input": context.tool_arguments}
        self._events.tool_started(context.tool_call_id, tool.name, arguments)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
        self._events.tool_ended(context.tool_call_id, result)


def _plain_items(items: Sequence[Any]) -> list[Any]:
    """Return items as JSON data."""
    plain: list[Any] = json.loads(json.dumps(items, default=lambda one: one.model_dump()))
    return plain


def _request(item: Any) -> FrameworkRequest:
    try:
        arguments = json.loads(item.arguments or "{}")
    except ValueError:
        arguments = {"input": item.arguments}
    return FrameworkRequest(
        key=item.call_id,
        kind=RequestKind.CONFIRMATION,
        message=f"May {item.name!r} be called?",
        tool=item.name or "",
        arguments=arguments,
    )


def _answer(state: Any, turn: FrameworkTurn) -> None:
    """Approve or reject the calls that a run waits for."""
    items = {item.call_id: item for item in state.get_interruptions()}
    for request, answer in turn.answers:
        item = items[request.key]
        if answer.verdict is ApprovalDecision.APPROVE:
            state.approve(item)
        else:
            state.reject(item, rejection_message=answer.reason or answer.verdict.value)
