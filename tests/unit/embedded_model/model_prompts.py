"""Helpers that build prompts for the embedded model and read its responses."""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from acc.adapters.embedded_model.model import EmbeddedModel
from acc.application.tools.function_tool import FunctionTool
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse, ToolSpec


def specs(*functions: Callable[..., Any] | FunctionTool) -> tuple[ToolSpec, ...]:
    return tuple(f.spec if isinstance(f, FunctionTool) else FunctionTool(f).spec for f in functions)


async def ask(query: str, **fields: Any) -> ModelResponse:
    return await EmbeddedModel().complete(ModelRequest.of(query, **fields))


def called_tool(answer: ModelResponse) -> tuple[str, dict[str, Any]] | None:
    if not answer.calls:
        return None
    assert len(answer.calls) == 1, "one tool a step"
    assert answer.calls[0].id
    return answer.calls[0].name, dict(answer.calls[0].arguments)


def tool_exchange(
    name: str, content: Any, *, is_error: bool = False, **arguments: Any
) -> tuple[ChatMessage, ChatMessage]:
    """Return the messages of a tool call and its result."""
    call = ToolCall(id=f"c-{name}", name=name, arguments=arguments)
    result = ToolResult(call_id=call.id, name=name, content=content, is_error=is_error)
    return (
        ChatMessage(role="assistant", author="me", parts=(Part(call=call),)),
        ChatMessage(role="tool", author=name, parts=(Part(result=result),)),
    )


def agent_message(author: str, text: str) -> ChatMessage:
    return ChatMessage(role="assistant", author=author, parts=(Part(text=text),))


def transfer(**described: str) -> ToolSpec:
    listed = "\n".join(f"- {name}: {text}" for name, text in described.items())
    return ToolSpec(
        name="transfer_to_agent",
        description=f"Hand over to the agent that is better suited to answer.\n{listed}",
        parameters={
            "type": "object",
            "properties": {"agent_name": {"type": "string", "enum": list(described)}},
            "required": ["agent_name"],
        },
    )


async def ask_for_object(query: str, kind: Any, **fields: Any) -> Any:
    schema = msgspec.json.schema(kind)
    answer = await ask(query, output_schema=schema, **fields)
    assert answer.calls == ()
    msgspec.json.decode(answer.text, type=kind)
    return json.loads(answer.text)
