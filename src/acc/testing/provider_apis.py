"""The response formats of providers' HTTP APIs, for `acc.testing.providers`.

Each is in the form that the provider's official client library accepts.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

#: Words, or up to four characters of Japanese.
_PIECES = re.compile(r"[\x00-\x7f]+?(?:\s+|$|(?=[^\x00-\x7f]))|[^\x00-\x7f]{1,4}")
#: Stands for signatures and encrypted reasoning.
SIGNATURE = "c2VhbGVk"


@dataclass(frozen=True, kw_only=True)
class ProviderRequest:
    """A request as it was received; `api` is openai, openai-chat, anthropic or google."""

    api: str
    model: str
    stream: bool
    body: Mapping[str, Any]
    key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Return the body as text."""
        return json.dumps(self.body, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A reply: text, tool calls, a refusal or an error.

    `cut_after` aborts the connection after that many events of a stream, or in the middle of a
    whole response. `end_after` ends the stream there without the closing events, and
    `error_after` sends an error event there. `invalid_json` sends broken JSON. `delay` waits
    before the reply, `event_delay` before each event. `thinking` is sent as reasoning, signed if
    the API does so. `error_param` is the parameter that an error is about, `error_details` are
    those of Google.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    refusal: str = ""
    finish: str = ""
    status: int = 200
    message: str = "the test server was told to fail"
    error_code: str = ""
    error_param: str | None = None
    error_details: tuple[Mapping[str, Any], ...] = ()
    retry_after: float | str | None = None
    cut_after: int | None = None
    end_after: int | None = None
    error_after: int | None = None
    invalid_json: bool = False
    first_tokens: tuple[tuple[str, float], ...] = ()
    delay: float = 0.0
    event_delay: float = 0.0
    tokens: tuple[int, int, int] = (11, 7, 0)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def pieces(self) -> list[str]:
        """Return the text as it is streamed."""
        return _PIECES.findall(self.text)

    @property
    def finish_reason(self) -> str:
        """Return stop, length, content_filter or tool_calls."""
        return self.finish or ("tool_calls" if self.calls else "stop")


Event = tuple[str, dict[str, Any] | str]


class ProviderApi(Protocol):
    """The response format of one API."""

    name: str

    def response(self, request: ProviderRequest, reply: Reply) -> dict[str, Any]:
        """Return a whole response."""
        ...

    def events(self, request: ProviderRequest, reply: Reply) -> Iterator[Event]:
        """Yield the events of a stream: their name, which may be empty, and their data."""
        ...

    def error(self, reply: Reply) -> dict[str, Any]:
        """Return the body of an error."""
        ...

    def error_event(self, reply: Reply) -> Event:
        """Return the event of an error within a stream."""
        ...


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _chunks(text: str, size: int = 6) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


class ChatCompletions:
    """OpenAI's chat completions, which most servers imitate."""

    name = "openai-chat"

    def response(self, request: ProviderRequest, reply: Reply) -> dict[str, Any]:
        """Return a whole response."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.refusal:
            message["refusal"] = reply.refusal
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if reply.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": _to_json(arguments)},
                }
                for number, (name, arguments) in enumerate(reply.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
        choice |= self._logprobs(request, reply)
        return {**self._head(request, ""), "choices": [choice], "usage": self._usage(reply)}

    def events(self, request: ProviderRequest, reply: Reply) -> Iterator[Event]:
        """Yield the events of a stream."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if reply.thinking:
            deltas.append({"reasoning_content": reply.thinking})
        if reply.refusal:
            deltas.append({"refusal": reply.refusal})
        deltas += [{"content": text} for text in reply.pieces]
        for number, (name, arguments) in enumerate(reply.calls):
            call = {"index": number, "id": f"call_{number}", "type": "function"}
            deltas.append({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
            for chunk in _chunks(_to_json(arguments)):
                part = {"index": number, "function": {"arguments": chunk}}
                deltas.append({"tool_calls": [part]})
        for delta in deltas:
            yield self._chunk(request, delta)
        if logprobs := self._logprobs(request, reply):
            yield self._chunk(request, {"content": ""}, **logprobs)
        yield self._chunk(request, {}, reply.finish_reason)
        yield "", {**self._head(request, ".chunk"), "choices": [], "usage": self._usage(reply)}
        yield "", "[DONE]"

    def error(self, reply: Reply) -> dict[str, Any]:
        """Return the body of an error."""
        code = reply.error_code
        error = {"message": reply.message, "type": code or "error", "code": code}
        return {"error": {**error, "param": reply.error_param}}

    def error_event(self, reply: Reply) -> Event:
        """Return the event of an error within a stream."""
        return "", self.error(reply)

    def _head(self, request: ProviderRequest, suffix: str) -> dict[str, Any]:
        head = {"id": "chatcmpl-1", "object": f"chat.completion{suffix}", "created": 1_700_000_000}
        return {**head, "model": request.model}

    def _logprobs(self, request: ProviderRequest, reply: Reply) -> dict[str, Any]:
        if not reply.first_tokens or not request.body.get("logprobs"):
            return {}
        choices = [
            {"token": token, "logprob": math.log(probability), "bytes": None}
            for token, probability in reply.first_tokens[: request.body["top_logprobs"]]
        ]
        return {"logprobs": {"content": [{**choices[0], "top_logprobs": choices}]}}

    def _chunk(
        self,
        request: ProviderRequest,
        delta: dict[str, Any],
        finish: str | None = None,
        **fields: Any,
    ) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, **fields}
        return "", {**self._head(request, ".chunk"), "choices": [choice]}

    def _usage(self, reply: Reply) -> dict[str, Any]:
        prompt, completion, cached = reply.tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


class Responses:
    """OpenAI's Responses."""

    name = "openai"

    def response(self, request: ProviderRequest, reply: Reply) -> dict[str, Any]:
        """Return a whole response."""
        return self._response(request, reply, self._items(reply))

    def events(self, request: ProviderRequest, reply: Reply) -> Iterator[Event]:
        """Yield the events of a stream."""
        for number, (kind, body) in enumerate(self._numbered_events(request, reply)):
            yield kind, {"type": kind, "sequence_number": number, **body}

    def error(self, reply: Reply) -> dict[str, Any]:
        """Return the body of an error."""
        return ChatCompletions().error(reply)

    def error_event(self, reply: Reply) -> Event:
        """Return the event of an error within a stream."""
        request = ProviderRequest(api=self.name, model="any", stream=True, body={})
        error = {"code": reply.error_code or "server_error", "message": reply.message}
        failed = {**self._response(request, reply, [], "failed"), "error": error}
        event = {"type": "response.failed", "sequence_number": 0, "response": failed}
        return "response.failed", event

    def _numbered_events(
        self, request: ProviderRequest, reply: Reply
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        started = self._response(request, reply, [], "in_progress")
        yield "response.created", {"response": started}
        yield "response.in_progress", {"response": started}
        for number, item in enumerate(self._items(reply)):
            place: dict[str, Any] = {"output_index": number, "item_id": item["id"]}
            empty: dict[str, Any] = {
                "encrypted_content": None,
                "summary": [],
                "content": [],
                "arguments": "",
            }
            bare = {**item, **{key: value for key, value in empty.items() if key in item}}
            yield "response.output_item.added", {"output_index": number, "item": bare}
            if item["type"] == "reasoning":
                place["summary_index"] = 0
                summary = {"type": "summary_text", "text": ""}
                yield "response.reasoning_summary_part.added", {**place, "part": summary}
                delta = {**place, "delta": reply.thinking}
                yield "response.reasoning_summary_text.delta", delta
            elif item["type"] == "message":
                yield from self._message_events(reply, item, {**place, "content_index": 0})
            elif item["type"] == "function_call":
                for chunk in _chunks(item["arguments"]):
                    yield "response.function_call_arguments.delta", {**place, "delta": chunk}
                done = {**place, "arguments": item["arguments"], "name": item["name"]}
                yield "response.function_call_arguments.done", done
            yield "response.output_item.done", {"output_index": number, "item": item}
        final = self._response(request, reply, self._items(reply))
        yield f"response.{final['status']}", {"response": final}

    def _message_events(
        self, reply: Reply, item: dict[str, Any], place: dict[str, Any]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        content = item["content"][0]
        empty = {**content, ("refusal" if reply.refusal else "text"): ""}
        yield "response.content_part.added", {**place, "part": empty}
        if reply.refusal:
            yield "response.refusal.delta", {**place, "delta": reply.refusal}
            yield "response.refusal.done", {**place, "refusal": reply.refusal}
        else:
            for text in reply.pieces:
                yield "response.output_text.delta", {**place, "delta": text, "logprobs": []}
            yield "response.output_text.done", {**place, "text": reply.text, "logprobs": []}
        yield "response.content_part.done", {**place, "part": content}

    def _items(self, reply: Reply) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        if reply.thinking:
            summary = [{"type": "summary_text", "text": reply.thinking}]
            item = {"id": "rs_1", "type": "reasoning", "summary": summary}
            items.append({**item, "encrypted_content": SIGNATURE})
        if reply.text or reply.refusal:
            content: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": []}
            if reply.refusal:
                content = {"type": "refusal", "refusal": reply.refusal}
            head = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
            items.append({**head, "content": [content]})
        for number, (name, arguments) in enumerate(reply.calls):
            call = {"id": f"fc_{number}", "type": "function_call", "call_id": f"call_{number}"}
            items.append(
                {**call, "name": name, "arguments": _to_json(arguments), "status": "completed"}
            )
        return items

    def _response(
        self, request: ProviderRequest, reply: Reply, items: list[dict[str, Any]], status: str = ""
    ) -> dict[str, Any]:
        prompt, completion, cached = reply.tokens
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        reason = None if status else reasons.get(reply.finish_reason)
        usage = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + completion,
        }
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1_700_000_000,
            "status": status or ("incomplete" if reason else "completed"),
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "model": request.model,
            "output": items,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": None if status else usage,
        }


class Messages:
    """Anthropic's Messages."""

    name = "anthropic"
    _FINISH = {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "content_filter": "refusal",
    }
    _ERRORS = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        429: "rate_limit_error",
        529: "overloaded_error",
    }

    def response(self, request: ProviderRequest, reply: Reply) -> dict[str, Any]:
        """Return a whole response."""
        return {
            **self._head(request),
            "content": self._blocks(reply),
            "stop_reason": self._stop_reason(reply),
            "usage": self._usage(reply),
        }

    def events(self, request: ProviderRequest, reply: Reply) -> Iterator[Event]:
        """Yield the events of a stream."""
        head = {**self._head(request), "content": [], "stop_reason": None}
        usage = {**self._usage(reply), "output_tokens": 1}
        yield self._event("message_start", message={**head, "usage": usage})
        for index, block in enumerate(self._blocks(reply)):
            empty = {"text": "", "thinking": "", "signature": "", "input": {}}
            bare = {**block, **{key: value for key, value in empty.items() if key in block}}
            yield self._event("content_block_start", index=index, content_block=bare)
            for delta in self._deltas(reply, block):
                yield self._event("content_block_delta", index=index, delta=delta)
            yield self._event("content_block_stop", index=index)
        delta = {"stop_reason": self._stop_reason(reply), "stop_sequence": None}
        usage = {"output_tokens": reply.tokens[1]}
        yield self._event("message_delta", delta=delta, usage=usage)
        yield self._event("message_stop")

    def error(self, reply: Reply) -> dict[str, Any]:
        """Return the body of an error."""
        kind = reply.error_code or self._ERRORS.get(reply.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": reply.message}}

    def error_event(self, reply: Reply) -> Event:
        """Return the event of an error within a stream."""
        return "error", self.error(reply)

    def _event(self, kind: str, **body: Any) -> Event:
        return kind, {"type": kind, **body}

    def _deltas(self, reply: Reply, block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if block["type"] == "text":
            yield from ({"type": "text_delta", "text": text} for text in reply.pieces)
        elif block["type"] == "thinking":
            yield {"type": "thinking_delta", "thinking": reply.thinking}
            yield {"type": "signature_delta", "signature": SIGNATURE}
        else:
            for chunk in _chunks(_to_json(block["input"])):
                yield {"type": "input_json_delta", "partial_json": chunk}

    def _head(self, request: ProviderRequest) -> dict[str, Any]:
        head = {"id": "msg_1", "type": "message", "role": "assistant", "stop_sequence": None}
        return {**head, "model": request.model}

    def _blocks(self, reply: Reply) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if reply.thinking:
            thinking = {"type": "thinking", "thinking": reply.thinking, "signature": SIGNATURE}
            blocks.append(thinking)
        if reply.text:
            blocks.append({"type": "text", "text": reply.text})
        for number, (name, arguments) in enumerate(reply.calls):
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": name}
            blocks.append({**call, "input": dict(arguments)})
        return blocks

    def _stop_reason(self, reply: Reply) -> str:
        return "refusal" if reply.refusal else self._FINISH[reply.finish_reason]

    def _usage(self, reply: Reply) -> dict[str, Any]:
        prompt, completion, cached = reply.tokens
        return {
            "input_tokens": prompt - cached,
            "output_tokens": completion,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
        }


class GenerateContent:
    """Google's generateContent."""

    name = "google"
    _FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
    _ERRORS = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        503: "UNAVAILABLE",
    }

    def response(self, request: ProviderRequest, reply: Reply) -> dict[str, Any]:
        """Return a whole response."""
        text = [{"text": reply.text}] if reply.text else []
        parts = self._thoughts(reply) + text + self._calls(reply)
        return self._candidate(request, reply, parts, self._finish_reason(reply))

    def events(self, request: ProviderRequest, reply: Reply) -> Iterator[Event]:
        """Yield the events of a stream."""
        if reply.thinking:
            yield "", self._candidate(request, reply, self._thoughts(reply))
        for text in reply.pieces:
            yield "", self._candidate(request, reply, [{"text": text}])
        finish = self._finish_reason(reply)
        yield "", self._candidate(request, reply, self._calls(reply), finish)

    def error(self, reply: Reply) -> dict[str, Any]:
        """Return the body of an error."""
        status = reply.error_code or self._ERRORS.get(reply.status, "INTERNAL")
        error = {"code": reply.status, "message": reply.message, "status": status}
        return {"error": {**error, "details": list(reply.error_details)}}

    def error_event(self, reply: Reply) -> Event:
        """Return the event of an error within a stream."""
        return "", self.error(replace(reply, status=500))

    def _calls(self, reply: Reply) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]]
        calls = [{"functionCall": {"name": n, "args": dict(a)}} for n, a in reply.calls]
        if calls and reply.thinking:
            calls[0]["thoughtSignature"] = SIGNATURE
        return calls

    def _thoughts(self, reply: Reply) -> list[dict[str, Any]]:
        return [{"text": reply.thinking, "thought": True}] if reply.thinking else []

    def _finish_reason(self, reply: Reply) -> str:
        return "SAFETY" if reply.refusal else self._FINISH.get(reply.finish_reason, "STOP")

    def _candidate(
        self,
        request: ProviderRequest,
        reply: Reply,
        parts: list[dict[str, Any]],
        finish: str = "",
    ) -> dict[str, Any]:
        prompt, completion, cached = reply.tokens
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        usage = {"promptTokenCount": prompt, "candidatesTokenCount": completion}
        usage |= {"totalTokenCount": prompt + completion}
        usage |= {"cachedContentTokenCount": cached} if cached else {}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": request.model}
