"""What the server sends, piece by piece, as text and at the end an answer of ours."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from acc.domain.errors import ModelFailed
from acc.domain.value_objects.event import ToolCall, Usage
from acc.ports.outbound.model_ports import ModelAnswer

_DATA = "data:"
_DONE = "[DONE]"


class Answer:
    """An answer while it is being written."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._texts: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._usage = Usage()
        self._finished = False

    async def pieces(self, lines: AsyncIterator[str]) -> AsyncIterator[str]:
        """Give the text that the lines of an event stream bring."""
        async for line in lines:
            if not line.startswith(_DATA):
                continue
            data = line.removeprefix(_DATA).strip()
            if data == _DONE:
                return
            text = self._read(msgspec.json.decode(data))
            if text:
                self._texts.append(text)
                yield text

    def whole(self) -> ModelAnswer:
        """Return the answer, or say that it has no end."""
        if not self._finished:
            raise ModelFailed(
                f"{self._name}: the local server stopped in the middle of the answer, which was "
                "thrown away; it is started again with the next question"
            )
        calls = tuple(_call(place, found) for place, found in sorted(self._calls.items()))
        return ModelAnswer(text="".join(self._texts), calls=calls, usage=self._usage)

    def _read(self, event: dict[str, Any]) -> str:
        if "error" in event:
            raise ModelFailed(f"{self._name}: {fault_in(event)}")
        usage = event.get("usage")
        if usage:
            self._usage = Usage(
                llm_calls=1,
                input_tokens=usage["prompt_tokens"],
                output_tokens=usage["completion_tokens"],
            )
        text = ""
        for part in event.get("choices", ()):
            self._finished = self._finished or part.get("finish_reason") is not None
            delta = part.get("delta", {})
            text += delta.get("content") or ""
            for call in delta.get("tool_calls") or ():
                self._add(call)
        return text

    def _add(self, piece: dict[str, Any]) -> None:
        empty = {"id": "", "name": "", "arguments": ""}
        call = self._calls.setdefault(piece.get("index", 0), empty)
        function = piece.get("function", {})
        call["id"] += piece.get("id") or ""
        call["name"] += function.get("name") or ""
        call["arguments"] += function.get("arguments") or ""


def _call(place: int, found: dict[str, str]) -> ToolCall:
    call_id = found["id"] or f"call-{place + 1}"
    try:
        arguments = msgspec.json.decode(found["arguments"] or "{}", type=dict[str, Any])
    except msgspec.MsgspecError as error:
        return ToolCall(id=call_id, name=found["name"], fault=f"the arguments: {error}")
    return ToolCall(id=call_id, name=found["name"], arguments=arguments)


def fault_in(body: dict[str, Any]) -> str:
    """Return what the server says went wrong, and what to do about it."""
    error = body.get("error")
    if not isinstance(error, dict):
        return str(error)
    if error.get("type") == "exceed_context_size_error":
        return (
            f"the prompt has {error.get('n_prompt_tokens')} tokens and its window only "
            f"{error.get('n_ctx')}: give it less to read (memory, instruction, tools), or a larger "
            "window with ?context="
        )
    return str(error.get("message", "the local server refused the request"))
