"""Map a request to the messages of pydantic-ai, and a response back to ours.

This is the only module that knows both message types.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as dataclass_replace
from hashlib import sha256
from typing import Any

import msgspec
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelRequestPart,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.messages import (
    ModelRequest as PydanticRequest,
)
from pydantic_ai.messages import (
    ModelResponse as PydanticResponse,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import AbstractNativeTool, CodeExecutionTool, WebSearchTool
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from acc.adapters.models.request_json import to_json, to_text
from acc.application.memory.messages import ABOUT_MEMORY, edit_note, file_text, memory_block
from acc.application.models.names import media_types
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import (
    CORRECTION_AUTHOR,
    RUNTIME_AUTHOR,
    ChatMessage,
    Part,
    ToolCall,
    ToolResult,
    is_text_type,
)
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse, NativeTool, ToolSpec

#: Some providers reject empty texts.
_EMPTY = "(nothing)"
#: Requests of the runtime, where a provider requires a message of the user.
_CONTINUE = "<runtime>\nContinue.\n</runtime>"
_NOT_AVAILABLE = "Not available: another agent used this tool."
_BEGINNING = "<runtime>\nThe beginning of the conversation is not shown.\n</runtime>"
#: Authors whose messages have the role `user` but are not words of the user.
_RUNTIME_AUTHORS = (RUNTIME_AUTHOR, CORRECTION_AUTHOR)
_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
_URL_TYPES = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}
_DEFINITIONS = "#/$defs/"
_MAX_RESPONSES = 512
NATIVE_TOOL_TYPES: Mapping[NativeTool, type[AbstractNativeTool]] = {
    "web_search": WebSearchTool,
    "code_execution": CodeExecutionTool,
}


class PreviousResponses:
    """The newest responses with tool calls, as the provider sent them.

    Most providers expect them back unchanged with the results of the calls: signed reasoning, for
    example. A response is found by everything that was said before it, so that it is never shown
    in another conversation; ids of calls are not unique.
    """

    def __init__(self) -> None:
        self._responses: OrderedDict[bytes, tuple[Sequence[ToolCall], PydanticResponse]]
        self._responses = OrderedDict()

    def add(
        self, request: ModelRequest, response: PydanticResponse, calls: Sequence[ToolCall]
    ) -> None:
        """Keep the response to a request, if it asks for tool calls."""
        if calls:
            *_, position = _positions(request, include_end=True)
            self._responses[position] = (calls, response)
            if len(self._responses) > _MAX_RESPONSES:
                self._responses.popitem(last=False)

    def find(self, request: ModelRequest) -> dict[int, PydanticResponse]:
        """Return the known responses of a request by the index of their message."""
        found: dict[int, PydanticResponse] = {}
        if not self._responses:
            return found
        messages, start = request.messages, request.query_index
        indexes = [n for n in range(start, len(messages)) if messages[n].calls]
        for index, position in zip(indexes, _positions(request), strict=True):
            known = self._responses.get(position)
            if known is not None and tuple(known[0]) == messages[index].calls:
                found[index] = known[1]
        return found


def _positions(request: ModelRequest, *, include_end: bool = False) -> Iterator[bytes]:
    """Yield a digest of this turn before each message with calls, and before the end."""
    before = sha256()
    for message in request.messages[request.query_index :]:
        if message.calls:
            yield before.digest()
        before.update(to_json(message))
    if include_end:
        yield before.digest()


def to_messages(
    request: ModelRequest, provider: str, previous: Mapping[int, PydanticResponse]
) -> list[ModelMessage]:
    """Return the conversation as messages of the library; roles are never changed.

    The memory's text comes before the first message. `previous` has responses that are sent back
    unchanged, by the index of their message.
    """
    accepted = media_types(provider)
    messages: list[ModelMessage] = []
    if request.memory:
        messages.append(PydanticRequest([UserPromptPart(memory_block(request.memory))]))
    for index, message in enumerate(request.messages):
        if message.role == "assistant":
            _append_response(messages, previous.get(index) or _response(message))
            _append_files(messages, message, accepted)
        else:
            for part in _request_parts(message, accepted):
                _append(messages, part)
    if not messages or isinstance(messages[-1], PydanticResponse):
        # A conversation that ends with an assistant message would be completed, not answered.
        messages.append(PydanticRequest([UserPromptPart(_CONTINUE)]))
    return messages


def _append(messages: list[ModelMessage], part: ModelRequestPart) -> None:
    """Add a part to the last request.

    The memory, notes of the runtime and messages of the user become separate texts of one message,
    because the templates of many models require that user and assistant alternate.
    """
    if not messages or not isinstance(messages[-1], PydanticRequest):
        messages.append(PydanticRequest([part]))
        return
    last = messages[-1]
    before = last.parts[-1]
    if isinstance(part, UserPromptPart) and isinstance(before, UserPromptPart):
        last.parts = [*last.parts[:-1], UserPromptPart([*_items(before), *_items(part)])]
    else:
        last.parts = [*last.parts, part]


def _append_response(messages: list[ModelMessage], response: PydanticResponse) -> None:
    """Add a response; it is joined with a preceding one, as roles must alternate."""
    if not messages:
        messages.append(PydanticRequest([UserPromptPart(_BEGINNING)]))
    last = messages[-1]
    if isinstance(last, PydanticResponse):
        messages[-1] = dataclass_replace(response, parts=[*last.parts, *response.parts])
    elif response.parts:
        messages.append(response)


def _append_files(
    messages: list[ModelMessage], message: ChatMessage, accepted: tuple[str, ...]
) -> None:
    """Add the files of an agent's answer, which providers accept in requests only."""
    content = [_user_content(part, accepted) for part in message.parts if part.text is None]
    files = [item for item in content if not isinstance(item, str)]
    if files:
        label = _runtime_text(f"Files of the answer of {message.author}:")
        _append(messages, UserPromptPart([label, *files]))


def _items(part: UserPromptPart) -> Sequence[UserContent]:
    return [part.content] if isinstance(part.content, str) else part.content


def _runtime_text(text: str) -> str:
    """Return a note of the runtime in tags, so that it does not look like words of the user."""
    return "<runtime>\n" + text.replace("</runtime", "<\\/runtime") + "\n</runtime>"


def _request_parts(message: ChatMessage, accepted: tuple[str, ...]) -> list[ModelRequestPart]:
    """Return the tool results or the user's message that a model receives."""
    found: list[ModelRequestPart] = [_tool_return(result, accepted) for result in message.results]
    parts = [part for part in message.parts if part.call is None and part.result is None]
    if not parts:
        return found
    content = [_user_content(part, accepted) for part in parts]
    texts = [item for item in content if isinstance(item, str)]
    if len(texts) == len(content):
        text = _join_texts(parts, texts)
        if message.author in _RUNTIME_AUTHORS:
            text = _runtime_text(text)
        return [*found, UserPromptPart(text if text.strip() else _EMPTY)]
    shown = [item for item in content if not isinstance(item, str) or item.strip()]
    return [*found, UserPromptPart(shown)]


def _response(message: ChatMessage) -> PydanticResponse:
    """Return an assistant's message: its text and its calls."""
    content = [part for part in message.parts if part.call is None and part.result is None]
    text = _join_texts(content, list(map(describe, content)))
    parts: list[ModelResponsePart] = [TextPart(text)] if text.strip() else []
    for call in message.calls:
        parts.append(ToolCallPart(call.name, dict(call.arguments), call.id))
    return PydanticResponse(parts)


def _join_texts(parts: Sequence[Part], texts: Sequence[str]) -> str:
    """Return the texts of parts as one; files and data start and end with their line."""
    joined = ""
    is_text = True
    for part, text in zip(parts, texts, strict=True):
        separator = "" if not joined or (is_text and part.text is not None) else "\n"
        joined += separator + text
        is_text = part.text is not None
    return joined


def _tool_return(result: ToolResult, accepted: tuple[str, ...]) -> ToolReturnPart:
    value = result.content
    if result.is_error and isinstance(value, Mapping) and value.keys() == {"error"}:
        # pydantic-ai adds the key where a provider has no field for failed calls.
        value = value["error"]
    text = edit_note(result) + to_text(value)
    outcome: Any = "failed" if result.is_error else "success"
    content: Any = text if text.strip() else _EMPTY
    if result.files:
        content = [content, *(_user_content(file, accepted) for file in result.files)]
    return ToolReturnPart(result.name, content, result.call_id, outcome=outcome)


def without_files(request: ModelRequest) -> ModelRequest:
    """Return a request with names in place of files, except in the message to answer.

    It is the same object if there are none.
    """
    query = request.query_index
    messages = tuple(
        message if index == query else replace(message, parts=tuple(map(_name_file, message.parts)))
        for index, message in enumerate(request.messages)
    )
    return request if messages == request.messages else replace(request, messages=messages)


def _name_file(part: Part) -> Part:
    if part.result is not None and part.result.files:
        files = tuple(map(_name_file, part.result.files))
        return Part(result=replace(part.result, files=files))
    if part.raw is None and part.url is None:
        return part
    if part.raw is not None and is_text_type(part.media_type):
        return part
    name, media_type = part.filename or part.url or "without a name", part.media_type or "file"
    return Part(text=f"[{media_type} {name}: it could not be loaded]")


def _user_content(part: Part, accepted: tuple[str, ...]) -> UserContent:
    media_type = part.media_type.partition(";")[0].strip().lower()
    is_text = part.raw is not None and is_text_type(media_type)
    if is_text or not media_type.startswith(accepted):
        return describe(part, note=", which this model does not accept")
    if part.raw is not None:
        return BinaryContent(part.raw, media_type=media_type)
    if part.url is not None:
        url_type: Any = _URL_TYPES.get(media_type.partition("/")[0], DocumentUrl)
        url: UserContent = url_type(part.url, media_type=media_type)
        return url
    return describe(part)


def describe(part: Part, *, note: str = "") -> str:
    """Return a part as text: a file with its name, and with a note if it is not text."""
    if part.text is not None:
        return part.text
    if part.raw is None:
        return part.url if part.url is not None else to_text(part.data)
    if (text := file_text(part)) is not None:
        return text
    name, media_type = part.filename or "without a name", part.media_type or "unknown type"
    return f"[a file {name}, {media_type}{note}]"


def to_parameters(
    request: ModelRequest, *, native: bool, native_with_tools: bool, declare_called: bool = False
) -> ModelRequestParameters:
    """Return the instructions, the tools and the schema of the answer.

    `native` is whether the provider can bind an answer to a schema; otherwise the instructions
    ask for it. With `declare_called`, tools that were called earlier are declared if there is no
    other tool.
    """
    about_memory = ABOUT_MEMORY if request.memory else ""
    texts = [text for text in (request.instruction, about_memory) if text]
    instructions = [InstructionPart(content="\n\n".join(texts))] if texts else None
    specs = request.tools
    if declare_called and not specs:
        called = dict.fromkeys(call.name for m in request.messages for call in m.calls)
        specs = tuple(ToolSpec(name=name, description=_NOT_AVAILABLE) for name in called)
    tools = [_tool_definition(spec) for spec in specs]
    native_tools = [NATIVE_TOOL_TYPES[name]() for name in request.native_tools]
    if request.output_schema is None:
        return ModelRequestParameters(
            function_tools=tools, native_tools=native_tools, instruction_parts=instructions
        )
    schema = inline_root(request.output_schema)
    is_native = (
        native
        and schema.get("type") == "object"
        and (native_with_tools or not (tools or native_tools))
    )
    return ModelRequestParameters(
        function_tools=tools,
        native_tools=native_tools,
        output_mode="native" if is_native else "prompted",
        output_object=OutputObjectDefinition(json_schema=schema, name="answer"),
        instruction_parts=instructions,
    )


def inline_root(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose root is not a reference, which not every server resolves."""
    reference = schema.get("$ref", "")
    if not isinstance(reference, str) or not reference.startswith(_DEFINITIONS):
        return dict(schema)
    root = schema.get("$defs", {}).get(reference.removeprefix(_DEFINITIONS), {})
    return {**root, **{key: value for key, value in schema.items() if key != "$ref"}}


def _tool_definition(spec: ToolSpec) -> ToolDefinition:
    schema = dict(spec.parameters) or _NO_ARGUMENTS
    if schema.get("type") == "object" and "properties" not in schema:
        schema = {**schema, "properties": {}}  # some providers require the field
    return ToolDefinition(
        name=spec.name, parameters_json_schema=schema, description=spec.description or None
    )


def to_tool_call(part: ToolCallPart) -> ToolCall:
    """Return a tool call; invalid arguments are recorded as its `fault`."""
    call_id, name, arguments = part.tool_call_id, part.tool_name, part.args
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments or "{}")
        except (msgspec.MsgspecError, RecursionError) as error:
            return ToolCall(id=call_id, name=name, fault=f"not JSON: {error}")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        fault = f"arguments must be an object, not {type(arguments).__name__}"
        return ToolCall(id=call_id, name=name, fault=fault)
    return ToolCall(id=call_id, name=name, arguments=arguments)


# Names of tools

#: The argument names that every provider accepts.
_ARGUMENT_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]+")
_MAX_ALIAS_STEM = 40

Aliases = Mapping[str, str]


class ToolNameMap:
    """Replaces names of tools that are not ASCII, which no provider accepts, by stable aliases.

    The original name is put before the description. With `arguments`, names of arguments that not
    every provider accepts are replaced too.
    """

    def __init__(self, request: ModelRequest, *, arguments: bool) -> None:
        self.request = request
        self._tools = _aliases("tool", (spec.name for spec in request.tools), str.isascii)
        self._arguments: dict[str, Aliases] = {}
        for spec in request.tools if arguments else ():
            fields = spec.parameters.get("properties")
            names = fields if isinstance(fields, dict) else ()
            aliases = _aliases("arg", names, _ARGUMENT_NAME.fullmatch)
            if aliases:
                self._arguments[spec.name] = aliases
        if self._tools or self._arguments:
            self.request = replace(
                request,
                tools=tuple(map(self._rename_tool, request.tools)),
                messages=tuple(map(self._rename_message, request.messages)),
            )

    def restore(self, response: ModelResponse) -> ModelResponse:
        """Return a response whose calls have the original names."""
        if not response.calls or not (self._tools or self._arguments):
            return response
        names = {alias: name for name, alias in self._tools.items()}
        return replace(response, calls=tuple(self._restore(call, names) for call in response.calls))

    def _restore(self, call: ToolCall, names: Aliases) -> ToolCall:
        name = names.get(call.name, call.name)
        arguments = {alias: key for key, alias in self._arguments.get(name, {}).items()}
        return replace(call, name=name, arguments=_rename_keys(call.arguments, arguments))

    def _rename_tool(self, spec: ToolSpec) -> ToolSpec:
        alias, arguments = self._tools.get(spec.name), self._arguments.get(spec.name)
        if alias is not None:
            spec = dataclass_replace(
                spec, name=alias, description=_describe(spec.name, spec.description)
            )
        if arguments is None:
            return spec
        return dataclass_replace(spec, parameters=_rename_properties(spec.parameters, arguments))

    def _rename_message(self, message: ChatMessage) -> ChatMessage:
        return replace(message, parts=tuple(map(self._rename_part, message.parts)))

    def _rename_part(self, part: Part) -> Part:
        call, result = part.call, part.result
        if call is not None:
            arguments = _rename_keys(call.arguments, self._arguments.get(call.name, {}))
            name = self._tools.get(call.name, call.name)
            return replace(part, call=replace(call, name=name, arguments=arguments))
        if result is not None and result.name in self._tools:
            return replace(part, result=replace(result, name=self._tools[result.name]))
        return part


def _aliases(kind: str, names: Iterable[str], is_valid: Callable[[str], object]) -> dict[str, str]:
    return {name: _alias(kind, name) for name in names if not is_valid(name)}


def _alias(kind: str, name: str) -> str:
    """Return an ASCII name that is the same in every process."""
    stem = _NOT_ALPHANUMERIC.sub("_", name).strip("_")[:_MAX_ALIAS_STEM]
    digest = sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return "_".join(filter(None, (kind, stem, digest)))


def _rename_properties(schema: Mapping[str, Any], aliases: Aliases) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        if name in aliases and isinstance(field, dict):
            field = {**field, "description": _describe(name, field.get("description", ""))}
        properties[aliases.get(name, name)] = field
    required = [aliases.get(name, name) for name in schema.get("required") or ()]
    return {**schema, "properties": properties, "required": required}


def _describe(name: str, description: object) -> str:
    return f"{name}: {description}" if description else name


def _rename_keys(arguments: Mapping[str, Any], names: Aliases) -> Mapping[str, Any]:
    return {names.get(key, key): value for key, value in arguments.items()} if names else arguments


def first_tokens(response: PydanticResponse) -> tuple[tuple[str, float], ...]:
    """Return the most probable first tokens with their probabilities, if the provider has them."""
    parts = [part.provider_details for part in response.parts if isinstance(part, TextPart)]
    for details in (response.provider_details, *parts):
        listed = (details or {}).get("logprobs") or []
        if listed and isinstance(listed, list) and isinstance(listed[0], dict):
            choices = listed[0].get("top_logprobs") or listed[:1]
            return tuple((str(one["token"]), math.exp(one["logprob"])) for one in choices)
    return ()
