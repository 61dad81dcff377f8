"""OpenAI's responses."""

import re
from collections.abc import Mapping
from typing import Any

from acc.adapters.chat.heard import Heard, count, spent, wanted
from acc.adapters.chat.streams import ServerFault
from acc.adapters.chat.turns import (
    Kept,
    Turn,
    arguments_of,
    as_url,
    instructions,
    is_file,
    plain,
    remembered,
    returned,
    turns,
    words,
)
from acc.adapters.providers.choice import ModelChoice
from acc.adapters.providers.wires.chat import EFFORTS, OPENAI, openai_headers
from acc.adapters.providers.wires.schemas import strict
from acc.adapters.providers.wires.wire import Settings, Shape, as_they_are
from acc.domain.value_objects.content import Part, ToolCall, Usage
from acc.ports.outbound.model_ports import Prompt, ToolSpec

#: Models that think, of which the thoughts are asked for, sealed, to be sent back with calls.
_THINKS = re.compile(r"(?:o\d|gpt-(?!5-chat)(?:[5-9]|\d\d))")
_TEXT = "response.output_text.delta"
_REFUSAL = "response.refusal.delta"
_ITEM = "response.output_item.done"
_ENDS = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)
_FINISHES = {"completed": "stop", "max_output_tokens": "length"}


class ResponsesWire:
    """Responses of one model."""

    home = OPENAI
    streams_always = False
    wants_plain_arguments = False

    def __init__(self, choice: ModelChoice) -> None:
        self._choice = choice

    def path(self, *, streams: bool) -> str:
        """Return where the question goes."""
        return "/responses"

    def headers(self, key: str) -> dict[str, str]:
        """Return what goes with every question."""
        return openai_headers(key)

    def settings(self) -> Settings:
        """Return what the settings of the choice become; a seed is not taken."""
        choice = self._choice
        found = as_they_are(
            choice, temperature="temperature", top_p="top_p", max_tokens="max_output_tokens"
        )
        if choice.thinking:
            effort = EFFORTS.get(choice.thinking, choice.thinking)
            found["thinking"] = {"reasoning": {"effort": effort}}
        if _THINKS.match(choice.model):
            found["include"] = {"include": ["reasoning.encrypted_content"]}
        return found

    def body(self, prompt: Prompt, kept: Kept, *, streams: bool) -> dict[str, Any]:
        """Return a prompt, without the settings."""
        shape = Shape(prompt, native=self._choice.output != "prompted")
        body: dict[str, Any] = {"model": self._choice.model, "input": _input(prompt, kept, shape)}
        instruction = instructions(prompt)
        if instruction:
            body["instructions"] = instruction
        if shape.native is not None:
            bound = strict(shape.native)
            schema = shape.native if bound is None else bound
            form = {"type": "json_schema", "name": "answer", "schema": schema}
            body["text"] = {"format": {**form, "strict": bound is not None}}
        elif shape.is_object:
            body["text"] = {"format": {"type": "json_object"}}
        if prompt.tools:
            body["tools"] = [_tool(spec) for spec in prompt.tools]
        if streams:
            body["stream"] = True
        return body

    def heard(self) -> Heard:
        """Return an answer that is yet to be read."""
        return _Response()


class _Response(Heard):
    """A response while it is being read."""

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, dict[str, Any]] = {}
        self._usage: Mapping[str, Any] = {}

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls that the model wants; arguments that cannot be read are their fault."""
        return tuple(
            wanted(str(item["call_id"]), str(item["name"]), item.get("arguments") or "")
            for _, item in sorted(self._items.items())
            if item["type"] == "function_call"
        )

    @property
    def tokens(self) -> Usage:
        """Return what was spent, as far as the server says so."""
        usage = self._usage
        return spent(
            before=count(usage, "input_tokens"),
            after=count(usage, "output_tokens"),
            cached=count(usage.get("input_tokens_details"), "cached_tokens"),
        )

    def as_said(self) -> list[dict[str, Any]]:
        """Return the model's words in its own form, with all that it may want to hear again."""
        found = [item for _, item in sorted(self._items.items())]
        return [{k: v for k, v in item.items() if v is not None} for item in found]

    def _understood(self, event: Mapping[str, Any], *, whole: bool) -> str:
        if whole:
            return self._ended(event)
        kind = event["type"]
        self.begun = self.begun or kind.startswith("response.")
        if kind == _TEXT:
            self._texts.append(event["delta"])
            return str(event["delta"])
        if kind == _REFUSAL:
            self.refusal += event["delta"]
        elif kind == _ITEM:
            self._items[event["output_index"]] = event["item"]
        elif kind in _ENDS:
            self._ended(event["response"])
        return ""

    def _ended(self, response: Mapping[str, Any]) -> str:
        status = response["status"]
        self.begun = True
        if status == "failed":
            raise ServerFault(response.get("error") or {"message": "the response failed"})
        # Some end a stream with a response that has nothing in it.
        self._items = dict(enumerate(response.get("output") or ())) or self._items
        self._usage = response.get("usage") or {}
        self.written = count(self._usage.get("input_tokens_details"), "cache_write_tokens")
        if status == "incomplete":
            status = (response.get("incomplete_details") or {}).get("reason") or status
        if status not in ("in_progress", "queued", "cancelled"):
            self.finish = _FINISHES.get(status, status)
        parts = [
            part
            for _, item in sorted(self._items.items())
            if item["type"] == "message"
            for part in item["content"]
        ]
        said = [part["text"] for part in parts if part["type"] == "output_text"]
        self._texts = said or self._texts
        self.refusal = "".join(p["refusal"] for p in parts if p["type"] == "refusal")
        return "".join(said)


def _input(prompt: Prompt, kept: Kept, shape: Shape) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if shape.told:
        # The word JSON has to be where it can be seen, for an answer that is bound to be some.
        found.append({"role": "system", "content": shape.told})
    heard = [text for text in (remembered(prompt), prompt.query) if text] or [""]
    found += [{"role": "user", "content": text} for text in heard]
    for turn in turns(prompt):
        found += [
            {"type": "function_call_output", "call_id": r.call_id, "output": returned(r)}
            for r in turn.results
        ]
        if turn.calls:
            found += kept(turn.calls) or _own(turn)
        elif turn.own and turn.text:
            found.append({"role": "assistant", "content": turn.text})
        elif turn.parts and not turn.own:
            found.append({"role": "user", "content": _content(turn)})
    return found


def _own(turn: Turn) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    if turn.text:
        said.append({"role": "assistant", "content": turn.text})
    for call in turn.calls:
        made = {"type": "function_call", "call_id": call.id, "name": call.name}
        said.append({**made, "arguments": plain(dict(call.arguments))})
    return said


def _content(turn: Turn) -> str | list[dict[str, Any]]:
    if not any(is_file(part, "image/", "application/pdf") for part in turn.parts):
        return turn.prefix + turn.text
    found = [_part(part) for part in turn.parts]
    return [{"type": "input_text", "text": turn.prefix}, *found] if turn.prefix else found


def _part(part: Part) -> dict[str, Any]:
    if is_file(part, "image/"):
        return {"type": "input_image", "image_url": as_url(part), "detail": "auto"}
    if is_file(part, "application/pdf"):
        name = part.filename or "file.pdf"
        return {"type": "input_file", "filename": name, "file_data": as_url(part)}
    return {"type": "input_text", "text": words(part)}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    parameters = arguments_of(spec)
    bound = strict(parameters)
    made: dict[str, Any] = {"type": "function", "name": spec.name, "strict": bound is not None}
    made["parameters"] = parameters if bound is None else bound
    if spec.description:
        made["description"] = spec.description
    return made
