"""Messages of the chat completions API, for ACC memory."""

import json
from collections.abc import Sequence
from typing import Any

from acc.application.memory.messages import content_text, part_text
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult, text_part

Message = dict[str, Any]
_INSTRUCTIONS = ("system", "developer")
_ROLES = (*_INSTRUCTIONS, "user", "assistant", "tool")


class ChatCompletionMessages:
    """Translates messages of chat completions; implements MessageCodec."""

    def is_instruction(self, message: Message) -> bool:
        """Return True for a message of the system or the developer."""
        return message["role"] in _INSTRUCTIONS

    def starts_turn(self, message: Message) -> bool:
        """Return True for a message of the user."""
        return bool(message["role"] == "user")

    def decode(self, messages: Sequence[Message]) -> list[ChatMessage]:
        """Return the messages of a turn; instructions are left out."""
        names: dict[str, str] = {}
        decoded: list[ChatMessage] = []
        for message in messages:
            role = message["role"]
            if role in _INSTRUCTIONS:
                continue
            parts: tuple[Part, ...]
            if role == "tool":
                parts = (_decode_result(message, names),)
            else:
                calls = [_decode_call(call) for call in message.get("tool_calls") or ()]
                names |= {call.id: call.name for call in calls}
                parts = (
                    *_decode_content(message),
                    *(Part(call=call) for call in calls),
                )
            decoded.append(ChatMessage(role=role, author=role, parts=parts))
        return decoded

    def encode(self, messages: Sequence[ChatMessage]) -> list[Message]:
        """Return our messages as messages of chat completions."""
        return [one for message in messages for one in _encode(message)]


#: The codec has no state.
CODEC = ChatCompletionMessages()


def tool_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """Return a tool call of an assistant's message; `arguments` is JSON."""
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def check_messages(messages: object) -> list[Message]:
    """Return the messages of a request; InvalidInput names what is wrong."""
    if not isinstance(messages, list) or not messages:
        raise InvalidInput("messages must be a list with at least one message")
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise InvalidInput(f"{where} must be an object with a role: {', '.join(_ROLES)}")
        content = message.get("content")
        if not isinstance(content, str | list | None):
            raise InvalidInput(f"{where}.content must be a string or a list of parts")
        if isinstance(content, list) and not all(isinstance(one, dict) for one in content):
            raise InvalidInput(f"{where}.content must be a list of objects")
        if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
            raise InvalidInput(f"{where} of the role tool needs a tool_call_id")
        _check_calls(message.get("tool_calls"), where)
    return messages


def _check_calls(calls: object, where: str) -> None:
    if calls is None:
        return
    if not isinstance(calls, list):
        raise InvalidInput(f"{where}.tool_calls must be a list")
    for call in calls:
        named = isinstance(call, dict) and (call.get("function") or call.get("custom"))
        if not (isinstance(named, dict) and isinstance(named.get("name"), str)) or not isinstance(
            call.get("id"), str
        ):
            raise InvalidInput(f"{where}.tool_calls needs objects with id and function.name")


def _decode_call(call: dict[str, Any]) -> ToolCall:
    function = call.get("function")
    if function is None:
        custom = call["custom"]
        return ToolCall(
            id=call["id"], name=custom["name"], arguments={"input": custom.get("input", "")}
        )
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (ValueError, TypeError, RecursionError):
        arguments = {"input": str(function.get("arguments"))}
    if not isinstance(arguments, dict):
        arguments = {"input": arguments}
    return ToolCall(id=call["id"], name=function["name"], arguments=arguments)


def _decode_result(message: Message, names: dict[str, str]) -> Part:
    call_id = message["tool_call_id"]
    content = "".join(part_text(part) for part in _decode_content(message))
    result = ToolResult(call_id=call_id, name=names.get(call_id, "tool"), content=content)
    return Part(result=result)


def _decode_content(message: Message) -> tuple[Part, ...]:
    """Return the text of a message; another part becomes a note such as `[file]`."""
    content = message.get("content")
    content = message.get("refusal") if content is None else content
    if content is None:
        return ()
    texts = [content] if isinstance(content, str) else [_part_text(part) for part in content]
    return text_part("\n".join(texts))


def _part_text(part: dict[str, Any]) -> str:
    if isinstance(text := part.get("text", part.get("refusal")), str):
        return text
    kind, image = part.get("type", "file"), part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else None
    is_short = isinstance(url, str) and not url.startswith("data:")
    return f"[{kind} {url}]" if is_short else f"[{kind}]"


def _encode(message: ChatMessage) -> list[Message]:
    if message.role == "tool":
        return [
            {"role": "tool", "tool_call_id": one.call_id, "content": content_text(one.content)}
            for one in message.results
        ]
    texts = [part_text(part) for part in message.parts if part.call is None]
    encoded: Message = {"role": message.role, "content": "\n".join(texts) if texts else None}
    if message.calls:
        encoded["tool_calls"] = [
            tool_call(
                call.id, call.name, json.dumps(call.arguments, ensure_ascii=False, default=str)
            )
            for call in message.calls
        ]
    return [encoded] if texts or message.calls else []
