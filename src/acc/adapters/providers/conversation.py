"""A prompt of ours as the messages of a provider, and its answer as one of ours."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from acc.adapters.chat.heard import wanted
from acc.adapters.chat.turns import (
    Turn,
    arguments_of,
    instructions,
    is_file,
    plain,
    remembered,
    turns,
    unfolded,
    words,
)
from acc.domain.value_objects.content import Part, ToolCall, ToolResult
from acc.ports.outbound.model_ports import Prompt, ToolSpec

_READABLE = ("image/", "application/pdf", "audio/", "video/", "text/")
_MOST_KEPT = 512


class Conversation:
    """Turns prompts into messages.

    A provider may want its own words back as they were when it hears what its tool calls brought:
    signed thoughts, for instance. The newest answers with calls are kept for that.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[Sequence[ToolCall], ModelResponse]] = OrderedDict()

    def keep(self, response: ModelResponse, calls: Sequence[ToolCall]) -> None:
        """Remember an answer that asks for tool calls."""
        if calls:
            self._answers[calls[0].id] = (calls, response)
            if len(self._answers) > _MOST_KEPT:
                self._answers.popitem(last=False)

    def messages(self, prompt: Prompt) -> list[ModelMessage]:
        """Return a prompt as messages."""
        told = instructions(prompt) or None
        heard = [text for text in (remembered(prompt), prompt.query) if text] or [""]
        parts: list[ModelRequestPart] = [UserPromptPart(text) for text in heard]
        messages: list[ModelMessage] = [ModelRequest(parts, instructions=told)]
        for turn in turns(prompt):
            new, last = _heard(turn), messages[-1]
            if new and isinstance(last, ModelRequest):
                last.parts = [*last.parts, *new]
            elif new:
                messages.append(ModelRequest(new, instructions=told))
            if turn.own:
                messages.append(self._own_words(turn))
        return messages

    def _own_words(self, turn: Turn) -> ModelResponse:
        """Return what the model itself said: its calls, and an answer that was sent back to it."""
        calls = turn.calls
        # Ids of calls are not unique with every server.
        kept = self._answers.get(calls[0].id) if calls else None
        if kept is not None and list(kept[0]) == calls:
            return kept[1]
        parts: list[ModelResponsePart] = [TextPart(turn.text)] if turn.text else []
        parts += [ToolCallPart(call.name, dict(call.arguments), call.id) for call in calls]
        return ModelResponse(parts)


def _heard(turn: Turn) -> list[ModelRequestPart]:
    """Return what a model is told: results of its calls, people's words, other agents' words."""
    found: list[ModelRequestPart] = [_returned(result) for result in turn.results]
    if turn.own or not turn.parts:
        return found
    content = [_content(part) for part in turn.parts]
    if turn.prefix:
        content.insert(0, turn.prefix.rstrip())
    said = content[0] if len(content) == 1 and isinstance(content[0], str) else content
    return [*found, UserPromptPart(said)]


def _returned(result: ToolResult) -> ToolReturnPart:
    outcome: Any = "failed" if result.is_error else "success"
    return ToolReturnPart(result.name, plain(result.content), result.call_id, outcome=outcome)


def _content(part: Part) -> UserContent:
    if is_file(part, *_READABLE):
        return BinaryContent(part.raw or b"", media_type=part.media_type)
    return words(part)


def parameters(prompt: Prompt, *, native: bool, native_with_tools: bool) -> ModelRequestParameters:
    """Return the tools, and the schema of the answer by the means that the provider has."""
    schema, instruction = prompt.output_schema, instructions(prompt)
    given = [InstructionPart(content=instruction)] if instruction else None
    if schema is None and not prompt.tools:
        return ModelRequestParameters(instruction_parts=given)
    tools = [_tool(spec) for spec in prompt.tools]
    if schema is None:
        return ModelRequestParameters(function_tools=tools, instruction_parts=given)
    is_object = unfolded(schema).get("type") == "object"
    natively = native and is_object and (native_with_tools or not tools)
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="native" if natively else "prompted",
        output_object=OutputObjectDefinition(json_schema=dict(schema), name="answer"),
        instruction_parts=given,
    )


def _tool(spec: ToolSpec) -> ToolDefinition:
    schema = arguments_of(spec)
    return ToolDefinition(
        name=spec.name, parameters_json_schema=schema, description=spec.description or None
    )


def tool_call(part: ToolCallPart) -> ToolCall:
    """Return a call as one of ours; arguments that cannot be read are its fault."""
    return wanted(part.tool_call_id, part.tool_name, part.args)
