"""The HTTP of providers, as a stand-in speaks it: whole answers, streams and errors."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from acc.testing.replies import Asked, Reply

Piece = tuple[str, dict[str, Any] | str]


class Wire(Protocol):
    """One provider's way of putting things."""

    name: str

    def whole(self, asked: Asked, reply: Reply) -> dict[str, Any]:
        """Return an answer in one piece."""
        ...

    def pieces(self, asked: Asked, reply: Reply) -> Iterator[Piece]:
        """Give the events of a stream, each with its name, which may be empty."""
        ...

    def fault(self, reply: Reply) -> dict[str, Any]:
        """Return an error's body."""
        ...

    def breaking(self, reply: Reply) -> Piece:
        """Return the event that tells an error within a stream."""
        ...


#: What stands for a signature.
_SEAL = "c2VhbGVk"


def _arguments(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False)


class OpenAIChat:
    """OpenAI's chat completions, which most others imitate."""

    name = "openai-chat"

    def whole(self, asked: Asked, reply: Reply) -> dict[str, Any]:
        """Return an answer in one piece."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.refusal:
            message["refusal"] = reply.refusal
        if reply.thought:
            message["reasoning_content"] = reply.thought
        if reply.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": _arguments(arguments)},
                }
                for number, (name, arguments) in enumerate(reply.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": reply.ending, "logprobs": None}
        return {**self._head(asked, ""), "choices": [choice], "usage": self._usage(reply)}

    def pieces(self, asked: Asked, reply: Reply) -> Iterator[Piece]:
        """Give the events of a stream, each with its name, which may be empty."""
        yield self._chunk(asked, {"role": "assistant", "content": ""})
        if reply.thought:
            yield self._chunk(asked, {"reasoning_content": reply.thought})
        if reply.refusal:
            yield self._chunk(asked, {"refusal": reply.refusal})
        for text in reply.pieces:
            yield self._chunk(asked, {"content": text})
        for number, (name, arguments) in enumerate(reply.calls):
            written = _arguments(arguments)
            function: dict[str, Any] = {"name": name, "arguments": ""}
            call = {"index": number, "id": f"call_{number}", "type": "function"}
            yield self._chunk(asked, {"tool_calls": [{**call, "function": function}]})
            for start in range(0, len(written), 6):
                part = {"index": number, "function": {"arguments": written[start : start + 6]}}
                yield self._chunk(asked, {"tool_calls": [part]})
        yield self._chunk(asked, {}, reply.ending)
        usage = {**self._head(asked, ".chunk"), "choices": [], "usage": self._usage(reply)}
        yield "", usage
        yield "", "[DONE]"

    def fault(self, reply: Reply) -> dict[str, Any]:
        """Return an error's body."""
        error = {"message": reply.message, "type": reply.kind or "error", "code": reply.kind}
        return {"error": {**error, "param": reply.param}}

    def breaking(self, reply: Reply) -> Piece:
        """Return the event that tells an error within a stream."""
        return "", self.fault(reply)

    def _head(self, asked: Asked, suffix: str) -> dict[str, Any]:
        head = {"id": "chatcmpl-1", "object": f"chat.completion{suffix}", "created": 1_700_000_000}
        return {**head, "model": asked.model}

    def _chunk(self, asked: Asked, delta: dict[str, Any], finish: str | None = None) -> Piece:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "", {**self._head(asked, ".chunk"), "choices": [choice]}

    def _usage(self, reply: Reply) -> dict[str, Any]:
        before, after, cached = reply.tokens
        return {
            "prompt_tokens": before,
            "completion_tokens": after,
            "total_tokens": before + after,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


class OpenAIResponses:
    """OpenAI's responses."""

    name = "openai"

    def whole(self, asked: Asked, reply: Reply) -> dict[str, Any]:
        """Return an answer in one piece."""
        return self._response(asked, reply, self._items(reply))

    def pieces(self, asked: Asked, reply: Reply) -> Iterator[Piece]:
        """Give the events of a stream, each with its name, which may be empty."""
        for count, (kind, body) in enumerate(self._events(asked, reply)):
            yield kind, {"type": kind, "sequence_number": count, **body}

    def fault(self, reply: Reply) -> dict[str, Any]:
        """Return an error's body."""
        return OpenAIChat().fault(reply)

    def breaking(self, reply: Reply) -> Piece:
        """Return the event that tells an error within a stream."""
        error = {"code": reply.kind or "server_error", "message": reply.message}
        failed = {"id": "resp_1", "object": "response", "status": "failed", "output": []}
        return "response.failed", {"type": "response.failed", "response": failed | {"error": error}}

    def _events(self, asked: Asked, reply: Reply) -> Iterator[tuple[str, dict[str, Any]]]:
        begun = self._response(asked, reply, [], "in_progress")
        yield "response.created", {"response": begun}
        yield "response.in_progress", {"response": begun}
        for number, item in enumerate(self._items(reply)):
            place = {"output_index": number, "item_id": item["id"]}
            if item["type"] == "reasoning":
                bare = {**item, "encrypted_content": None}
                yield "response.output_item.added", {"output_index": number, "item": bare}
                yield "response.output_item.done", {"output_index": number, "item": item}
                continue
            bare = {**item, "status": "in_progress"}
            bare["content" if item["type"] == "message" else "arguments"] = (
                [] if item["type"] == "message" else ""
            )
            yield "response.output_item.added", {"output_index": number, "item": bare}
            if item["type"] == "message":
                yield from self._message_events(reply, item, {**place, "content_index": 0})
            else:
                written = item["arguments"]
                for start in range(0, len(written), 6):
                    piece = {**place, "delta": written[start : start + 6]}
                    yield "response.function_call_arguments.delta", piece
                done = {**place, "arguments": written, "name": item["name"]}
                yield "response.function_call_arguments.done", done
            yield "response.output_item.done", {"output_index": number, "item": item}
        final = self._response(asked, reply, self._items(reply))
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
        if reply.thought:
            summary = [{"type": "summary_text", "text": reply.thought}]
            made = {"id": "rs_1", "type": "reasoning", "summary": summary}
            items.append({**made, "encrypted_content": _SEAL})
        if reply.text or reply.refusal:
            content: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": []}
            if reply.refusal:
                content = {"type": "refusal", "refusal": reply.refusal}
            head = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
            items.append({**head, "content": [content]})
        for number, (name, arguments) in enumerate(reply.calls):
            call = {"id": f"fc_{number}", "type": "function_call", "call_id": f"call_{number}"}
            made = {"name": name, "arguments": _arguments(arguments), "status": "completed"}
            items.append({**call, **made})
        return items

    def _response(
        self, asked: Asked, reply: Reply, items: list[dict[str, Any]], status: str = ""
    ) -> dict[str, Any]:
        before, after, cached = reply.tokens
        short = {"length": "max_output_tokens", "content_filter": "content_filter"}
        why = short.get(reply.ending)
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1_700_000_000,
            "status": status or ("incomplete" if why else "completed"),
            "error": None,
            "incomplete_details": {"reason": why} if why and not status else None,
            "model": asked.model,
            "output": items,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": None
            if status
            else {
                "input_tokens": before,
                "input_tokens_details": {"cached_tokens": cached},
                "output_tokens": after,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": before + after,
            },
        }


class Anthropic:
    """Anthropic's messages."""

    name = "anthropic"
    _ENDINGS = {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "content_filter": "refusal",
    }
    _FAULTS = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        429: "rate_limit_error",
        529: "overloaded_error",
    }

    def whole(self, asked: Asked, reply: Reply) -> dict[str, Any]:
        """Return an answer in one piece."""
        return {
            **self._head(asked, reply),
            "content": self._blocks(reply),
            "stop_reason": self._ending(reply),
            "usage": self._usage(reply),
        }

    def pieces(self, asked: Asked, reply: Reply) -> Iterator[Piece]:
        """Give the events of a stream, each with its name, which may be empty."""
        for kind, body in self._events(asked, reply):
            yield kind, {"type": kind, **body}

    def fault(self, reply: Reply) -> dict[str, Any]:
        """Return an error's body."""
        kind = reply.kind or self._FAULTS.get(reply.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": reply.message}}

    def breaking(self, reply: Reply) -> Piece:
        """Return the event that tells an error within a stream."""
        return "error", self.fault(reply)

    def _events(self, asked: Asked, reply: Reply) -> Iterator[tuple[str, dict[str, Any]]]:
        head = {**self._head(asked, reply), "content": [], "stop_reason": None}
        usage = self._usage(reply)
        yield "message_start", {"message": {**head, "usage": {**usage, "output_tokens": 1}}}
        for number, block in enumerate(self._blocks(reply)):
            emptied = {"text": "", "thinking": "", "signature": "", "input": {}}
            bare = {**block, **{k: v for k, v in emptied.items() if k in block}}
            yield "content_block_start", {"index": number, "content_block": bare}
            for delta in self._deltas(reply, block):
                yield "content_block_delta", {"index": number, "delta": delta}
            yield "content_block_stop", {"index": number}
        ended = {"stop_reason": self._ending(reply), "stop_sequence": None}
        yield "message_delta", {"delta": ended, "usage": {"output_tokens": reply.tokens[1]}}
        yield "message_stop", {}

    def _deltas(self, reply: Reply, block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if block["type"] == "text":
            for text in reply.pieces:
                yield {"type": "text_delta", "text": text}
        elif block["type"] == "thinking":
            yield {"type": "thinking_delta", "thinking": reply.thought}
            yield {"type": "signature_delta", "signature": _SEAL}
        else:
            written = _arguments(block["input"])
            for start in range(0, len(written), 6):
                yield {"type": "input_json_delta", "partial_json": written[start : start + 6]}

    def _head(self, asked: Asked, reply: Reply) -> dict[str, Any]:
        head = {"id": "msg_1", "type": "message", "role": "assistant", "stop_sequence": None}
        return {**head, "model": asked.model}

    def _blocks(self, reply: Reply) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if reply.thought:
            blocks.append({"type": "thinking", "thinking": reply.thought, "signature": _SEAL})
        if reply.text:
            blocks.append({"type": "text", "text": reply.text})
        for number, (name, arguments) in enumerate(reply.calls):
            use = {"type": "tool_use", "id": f"toolu_{number}", "name": name}
            blocks.append({**use, "input": dict(arguments)})
        return blocks

    def _ending(self, reply: Reply) -> str:
        return "refusal" if reply.refusal else self._ENDINGS[reply.ending]

    def _usage(self, reply: Reply) -> dict[str, Any]:
        before, after, cached = reply.tokens
        return {
            "input_tokens": before - cached,
            "output_tokens": after,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
        }


class Gemini:
    """Google's generateContent."""

    name = "google"
    _ENDINGS = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
    _FAULTS = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        503: "UNAVAILABLE",
    }

    def whole(self, asked: Asked, reply: Reply) -> dict[str, Any]:
        """Return an answer in one piece."""
        parts = [{"text": reply.text}] if reply.text else []
        said = self._thoughts(reply) + parts + self._calls(reply)
        return self._part(asked, reply, said, self._ending(reply))

    def pieces(self, asked: Asked, reply: Reply) -> Iterator[Piece]:
        """Give the events of a stream, each with its name, which may be empty."""
        if reply.thought:
            yield "", self._part(asked, reply, self._thoughts(reply))
        for text in reply.pieces:
            yield "", self._part(asked, reply, [{"text": text}])
        yield "", self._part(asked, reply, self._calls(reply), self._ending(reply))

    def fault(self, reply: Reply) -> dict[str, Any]:
        """Return an error's body."""
        status = reply.kind or self._FAULTS.get(reply.status, "INTERNAL")
        return {"error": {"code": reply.status, "message": reply.message, "status": status}}

    def breaking(self, reply: Reply) -> Piece:
        """Return the event that tells an error within a stream."""
        return "", self.fault(replace(reply, status=500))

    def _calls(self, reply: Reply) -> list[dict[str, Any]]:
        found: list[dict[str, Any]]
        found = [{"functionCall": {"name": n, "args": dict(a)}} for n, a in reply.calls]
        if found and reply.thought:
            found[0]["thoughtSignature"] = _SEAL
        return found

    def _thoughts(self, reply: Reply) -> list[dict[str, Any]]:
        return [{"text": reply.thought, "thought": True}] if reply.thought else []

    def _ending(self, reply: Reply) -> str:
        return "SAFETY" if reply.refusal else self._ENDINGS.get(reply.ending, "STOP")

    def _part(
        self, asked: Asked, reply: Reply, parts: list[dict[str, Any]], finish: str = ""
    ) -> dict[str, Any]:
        before, after, cached = reply.tokens
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        usage = {"promptTokenCount": before, "candidatesTokenCount": after}
        usage |= {"totalTokenCount": before + after}
        usage |= {"cachedContentTokenCount": cached} if cached else {}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": asked.model}
