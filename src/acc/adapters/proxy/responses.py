"""The Responses API in terms of chat completions: requests, responses and streams."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acc.adapters.proxy.chat_messages import Message, tool_call
from acc.domain.errors import InvalidInput, InvalidResponse

Json = dict[str, Any]
#: Options with the same name and meaning in both APIs.
_SAME_OPTIONS = (
    *("model", "temperature", "top_p", "parallel_tool_calls", "user", "seed", "stream"),
    *("service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
)
_UNSUPPORTED_OPTIONS = ("background", "conversation", "prompt")
#: The name of a field at the start of a line, and the kind of an item around its text.
_FIELD = re.compile(r"^[a-z_]+: ")
_ITEM = re.compile(r"^[a-z_]+\((.*)\)$", re.DOTALL)
_OBJECTS = (("metadata", dict), ("text", dict), ("reasoning", dict))
_ITEM_TYPES = "message, function_call, function_call_output, reasoning, compaction"


def check_options(body: Mapping[str, Any]) -> None:
    """Raise InvalidInput for options that chat completions do not have."""
    for name in _UNSUPPORTED_OPTIONS:
        if body.get(name):
            raise InvalidInput(f"the proxy does not support {name}; omit it")
    if not isinstance(body.get("model"), str):
        raise InvalidInput("model must be the name of a model")
    for name, kind in (("previous_response_id", str), ("instructions", str), *_OBJECTS):
        if not isinstance(body.get(name), kind | None):
            raise InvalidInput(f"{name} must be {'a string' if kind is str else 'an object'}")
    if not isinstance((body.get("text") or {}).get("format"), dict | None):
        raise InvalidInput("text.format must be an object")
    if not isinstance(body.get("tools"), list | None):
        raise InvalidInput("tools must be a list")


def chat_request(body: Mapping[str, Any], messages: Sequence[Message]) -> Json:
    """Return the chat completions request for a Responses request with these messages."""
    request: Json = {"messages": list(messages)}
    request |= {name: body[name] for name in _SAME_OPTIONS if body.get(name) is not None}
    if (limit := body.get("max_output_tokens")) is not None:
        request["max_completion_tokens"] = limit
    effort = (body.get("reasoning") or {}).get("effort")
    if effort is not None:
        request["reasoning_effort"] = effort
    if body.get("tools"):
        request["tools"] = [_chat_tool(tool) for tool in body["tools"]]
        if (choice := body.get("tool_choice")) is not None:
            request["tool_choice"] = _tool_choice(choice)
    if (verbosity := (body.get("text") or {}).get("verbosity")) is not None:
        request["verbosity"] = verbosity
    text_format = (body.get("text") or {}).get("format")
    if text_format and text_format.get("type") == "json_schema":
        schema = {key: value for key, value in text_format.items() if key != "type"}
        request["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif text_format and text_format.get("type") != "text":
        request["response_format"] = text_format
    if request.get("stream"):
        request["stream_options"] = {"include_usage": True}
    return request


def _tool_choice(choice: Any) -> Any:
    if isinstance(choice, str):
        return choice
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if kind == "function" and isinstance(choice.get("name"), str):
        return {"type": "function", "function": {"name": choice["name"]}}
    if kind == "allowed_tools" and isinstance(choice.get("tools"), list):
        tools = [_chat_tool(tool) for tool in choice["tools"]]
        allowed = {"mode": choice.get("mode") or "auto", "tools": tools}
        return {"type": "allowed_tools", "allowed_tools": allowed}
    raise InvalidInput(
        f"tool_choice is {kind!r}; use auto, none, required, or an object of the type function "
        "with a name or allowed_tools with tools"
    )


def _chat_tool(tool: Any) -> Json:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        kind = tool.get("type") if isinstance(tool, dict) else tool
        raise InvalidInput(f"the proxy supports tools of the type function only, got {kind!r}")
    function = {key: value for key, value in tool.items() if key != "type" and value is not None}
    return {"type": "function", "function": function}


def chat_messages(given: object) -> list[Message]:
    """Return the input of a Responses request as messages."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise InvalidInput("input must be a text or a list with at least one item")
    messages: list[Message] = []
    for index, item in enumerate(given):
        if not isinstance(item, dict):
            raise InvalidInput(f"input[{index}] must be an object")
        message = _chat_message(item, f"input[{index}]")
        previous = messages[-1] if messages else None
        if message and message.get("tool_calls") and previous and previous["role"] == "assistant":
            calls = [*previous.get("tool_calls", ()), *message["tool_calls"]]
            messages[-1] = {**previous, "tool_calls": calls}
        elif message:
            messages.append(message)
    if not messages:
        raise InvalidInput("input has no message")
    return messages


def _chat_message(item: Json, where: str) -> Message | None:
    kind = item.get("type", "message")
    if kind == "message" and isinstance(item.get("role"), str):
        return {"role": item["role"], "content": _chat_content(item.get("content"), where)}
    if kind in ("function_call", "function_call_output"):
        if not isinstance(item.get("call_id"), str):
            raise InvalidInput(f"{where} needs a call_id")
        if kind == "function_call_output":
            content = _chat_content(item.get("output"), where)
            return {"role": "tool", "tool_call_id": item["call_id"], "content": content}
        call = tool_call(item["call_id"], item.get("name", ""), item.get("arguments") or "{}")
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if kind == "compaction":
        if not isinstance(item.get("encrypted_content"), str):
            raise InvalidInput(f"{where} needs encrypted_content, the text of the state")
        return {"role": "user", "content": plain_state(item["encrypted_content"])}
    if kind == "reasoning":
        return None
    raise InvalidInput(f"{where} has the type {kind!r}; the proxy supports {_ITEM_TYPES}")


def plain_state(text: str) -> str:
    """Return the sentences of a compacted state, without the names of its fields.

    They are read again as words of the user, so that a state in a state does not nest.
    """
    sentences: list[str] = []
    for line in text.splitlines():
        items = _FIELD.sub("", line).split(" | ")
        sentences += [_ITEM.sub(r"\1", item.strip()) for item in items if item.strip()]
    return "\n".join(dict.fromkeys(sentences))


def _chat_content(content: object, where: str) -> str | list[Json]:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidInput(f"{where} needs content: a text or a list of parts")
    parts = [_chat_part(part, where) for part in content]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _chat_part(part: Any, where: str) -> Json:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text", "text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return {"type": "text", "text": part["refusal"]}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        image = {"url": part["image_url"], "detail": part.get("detail") or "auto"}
        return {"type": "image_url", "image_url": image}
    if kind == "input_file":
        names = ("file_data", "file_id", "filename")
        return {"type": "file", "file": {name: part[name] for name in names if part.get(name)}}
    raise InvalidInput(
        f"{where} has a part that the proxy does not support: {kind!r}; use input_text, "
        "input_image with image_url, or input_file"
    )


def response_items(messages: Sequence[Message]) -> list[Json]:
    """Return messages as items that are an output of the Responses API and can be its input.

    Texts of the user have the type of an output too, which is the only one that clients expect.
    """
    items: list[Json] = []
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "tool":
            output = {"call_id": message["tool_call_id"], "output": content}
            items.append({"type": "function_call_output", **output})
            continue
        if content:
            text = content if isinstance(content, str) else json.dumps(content)
            parts = [{"type": "output_text", "text": text, "annotations": []}]
            item = {"id": f"msg_{len(items)}", "status": "completed", "content": parts}
            items.append({"type": "message", "role": role, **item})
        items += [_call_item(call) for call in message.get("tool_calls", ())]
    return items


def _call_item(call: Json) -> Json:
    function = call["function"]
    named = {"name": function["name"], "arguments": function["arguments"]}
    return {"type": "function_call", "call_id": call["id"], **named}


class ResponseBuilder:
    """Builds a response from a chat completion or from its chunks, with the events of a stream."""

    def __init__(self, body: Mapping[str, Any], *, response_id: str, created_at: int) -> None:
        self._sequence = 0
        self._text = ""
        self._is_open = False
        self._is_finished = False
        #: The output items; calls by the index that the chunks give them.
        self._items: list[Json] = []
        self._calls: dict[int, Json] = {}
        self.response: Json = {
            "id": response_id,
            "object": "response",
            "created_at": created_at,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "metadata": body.get("metadata") or {},
            "model": body["model"],
            "output": [],
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "previous_response_id": body.get("previous_response_id"),
            "store": body.get("store", True),
            "temperature": body.get("temperature"),
            "text": body.get("text") or {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools") or [],
            "top_p": body.get("top_p"),
            "usage": None,
        }

    @property
    def message(self) -> Message:
        """Return the answer as a message of chat completions."""
        message: Message = {"role": "assistant", "content": self._text or None}
        calls = [item for item in self._items if item["type"] == "function_call"]
        if calls:
            message["tool_calls"] = [
                tool_call(item["call_id"], item["name"], item["arguments"]) for item in calls
            ]
        return message

    def start(self) -> Iterator[Json]:
        """Return the events at the start of a stream."""
        yield self._event("response.created", response=dict(self.response))
        yield self._event("response.in_progress", response=dict(self.response))

    def add_completion(self, completion: Json) -> None:
        """Add a chat completion."""
        choice = completion["choices"][0]
        delta = dict(choice["message"])
        calls = delta.get("tool_calls") or ()
        delta["tool_calls"] = [{**call, "index": index} for index, call in enumerate(calls)]
        choices = [{"delta": delta, "finish_reason": choice.get("finish_reason") or "stop"}]
        for _ in self.add_chunk({**completion, "choices": choices}):
            pass
        for _ in self.finish():
            pass

    def add_chunk(self, chunk: Json) -> Iterator[Json]:
        """Add a chunk of a streamed chat completion; return its events."""
        if error := chunk.get("error"):
            message = error.get("message") if isinstance(error, dict) else error
            raise InvalidResponse(f"the upstream server reported an error: {message}")
        if usage := chunk.get("usage"):
            self.response["usage"] = _usage(usage)
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            if text := delta.get("content") or delta.get("refusal"):
                yield from self._add_text(text)
            for call in delta.get("tool_calls") or ():
                yield from self._add_call(call)
            self._is_finished = self._is_finished or bool(choice.get("finish_reason"))
            reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
            if reason := reasons.get(choice.get("finish_reason") or ""):
                self.response["incomplete_details"] = {"reason": reason}

    def finish(self) -> Iterator[Json]:
        """Return the events of finished items, and set the status of the response."""
        if not self._is_finished:
            raise InvalidResponse("the upstream stream ended before the answer was complete")
        yield from self._finish_text()
        for index, item in enumerate(self._items):
            if item["type"] == "function_call":
                item["status"] = "completed"
                at = {"item_id": item["id"], "output_index": index}
                yield self._event(
                    "response.function_call_arguments.done",
                    **at,
                    name=item["name"],
                    arguments=item["arguments"],
                )
                yield self._event("response.output_item.done", output_index=index, item=item)
        is_complete = self.response["incomplete_details"] is None
        self.response["status"] = "completed" if is_complete else "incomplete"
        self.response["output"] = self._items

    def end(self) -> Json:
        """Return the last event of a stream."""
        return self._event(f"response.{self.response['status']}", response=self.response)

    def fail(self, message: str) -> Json:
        """Return the last event of a stream that failed."""
        self.response["status"] = "failed"
        self.response["error"] = {"code": "server_error", "message": message}
        return self._event("response.failed", response=self.response)

    def _event(self, kind: str, **fields: Any) -> Json:
        event = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return event

    def _add_text(self, text: str) -> Iterator[Json]:
        if not self._is_open:
            self._is_open = True
            item = {
                "id": f"msg_{self.response['id'].removeprefix('resp_')}",
                "type": "message",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
            self._items.append(item)
            yield self._event(
                "response.output_item.added",
                output_index=len(self._items) - 1,
                item={**item, "content": []},
            )
            part = {"type": "output_text", "text": "", "annotations": []}
            yield self._event("response.content_part.added", **self._text_place(), part=part)
        self._text += text
        yield self._event(
            "response.output_text.delta", **self._text_place(), delta=text, logprobs=[]
        )

    def _finish_text(self) -> Iterator[Json]:
        if not self._is_open:
            return
        self._is_open = False
        place = self._text_place()
        part = {"type": "output_text", "text": self._text, "annotations": []}
        item = self._items[place["output_index"]]
        item |= {"status": "completed", "content": [part]}
        yield self._event("response.output_text.done", **place, text=self._text, logprobs=[])
        yield self._event("response.content_part.done", **place, part=part)
        yield self._event(
            "response.output_item.done", output_index=place["output_index"], item=item
        )

    def _text_place(self) -> Json:
        index = next(i for i, item in enumerate(self._items) if item["type"] == "message")
        return {"item_id": self._items[index]["id"], "output_index": index, "content_index": 0}

    def _add_call(self, call: Json) -> Iterator[Json]:
        number = call.get("index", len(self._calls))
        function = call.get("function") or {}
        item = self._calls.get(number)
        if item is None:
            call_id = call.get("id") or f"call_{self.response['id']}_{number}"
            item = {
                "id": f"fc_{self.response['id'].removeprefix('resp_')}_{number}",
                "type": "function_call",
                "call_id": call_id,
                "name": function.get("name") or "",
                "arguments": "",
                "status": "in_progress",
            }
            self._calls[number] = item
            self._items.append(item)
            yield self._event(
                "response.output_item.added",
                output_index=len(self._items) - 1,
                item=dict(item),
            )
        if delta := function.get("arguments"):
            item["arguments"] += delta
            yield self._event(
                "response.function_call_arguments.delta",
                item_id=item["id"],
                output_index=self._items.index(item),
                delta=delta,
            )


def _usage(usage: Json) -> Json:
    given, produced = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": produced,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": usage.get("total_tokens", given + produced),
    }
