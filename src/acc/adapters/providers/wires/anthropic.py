"""Anthropic's messages."""

import re
from collections.abc import Mapping
from typing import Any

from acc.adapters.chat.heard import Heard, count, spent, wanted
from acc.adapters.chat.turns import (
    Kept,
    Turn,
    arguments_of,
    encoded,
    instructions,
    is_file,
    plain,
    remembered,
    turns,
    words,
)
from acc.adapters.providers.choice import ModelChoice
from acc.adapters.providers.wires.schemas import closed
from acc.adapters.providers.wires.wire import Settings, Shape, as_they_are, merged
from acc.domain.value_objects.content import Part, ToolCall, ToolResult, Usage
from acc.ports.outbound.model_ports import Prompt, ToolSpec

_VERSION = "2026-10-21"
_NAMED = re.compile(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?![0-9])")
_OLD_NAME = re.compile(r"claude-\d")
_OLD, _UNKNOWN = (3, 0), (0, 0)
#: From which version on a model does what.
_BINDS, _ADAPTS, _TOP_EFFORT, _THINKS_UNASKED = (4, 5), (4, 6), (4, 7), (5, 0)
_BINDS_TOO = (4, 1)
#: The most that a model writes, where nobody says less: the newest that is old enough counts.
_MOST_WRITTEN = (((4, 6), 128_000), ((4, 5), 64_000), (_OLD, 4_096), (_UNKNOWN, 16_384))
_IMAGES = ("image/gif", "image/jpeg", "image/png", "image/webp")
_NOTHING = "(nothing)"
_THOUGHTS = ("thinking", "redacted_thinking")
#: What takes longer than some minutes to write has to be streamed.
_MOST_AT_ONCE = 20_000
#: How much an older model may think, and what is left for its answer.
_BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 10_000, "high": 16_384}
_MOST_THOUGHT = 32_768
_FOR_THE_ANSWER = 4_096
_FINISHES = {
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
#: The pieces of a block, by the kind of the event that brings them: where they go.
_GROWS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


class AnthropicWire:
    """Messages of one model."""

    home = "https://api.anthropic.com"
    wants_plain_arguments = True

    def __init__(self, choice: ModelChoice) -> None:
        self._choice = choice
        self._version = _version(choice.model)
        self._thinking = _thinking(choice.thinking, self._version)
        budget = self._thinking.get("thinking", {}).get("budget_tokens", 0)
        usual = next(most for version, most in _MOST_WRITTEN if self._version >= version)
        least = budget + _FOR_THE_ANSWER if budget else 0
        self._most = choice.max_tokens or max(usual, least)
        self.streams_always = choice.max_tokens is None and self._most > _MOST_AT_ONCE

    def path(self, *, streams: bool) -> str:
        """Return where the question goes."""
        return "/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        """Return what goes with every question."""
        return {"Authorization": f"Bearer {key}", "anthropic-version": _VERSION}

    def settings(self) -> Settings:
        """Return what the settings of the choice become; a seed is not taken."""
        found = as_they_are(self._choice, temperature="temperature", top_p="top_p")
        found["max_tokens"] = {"max_tokens": self._most}
        if self._choice.thinking:
            found["thinking"] = self._thinking
        return found

    def body(self, prompt: Prompt, kept: Kept, *, streams: bool) -> dict[str, Any]:
        """Return a prompt, without the settings."""
        output = self._choice.output
        can = self._version >= _BINDS or self._version == _BINDS_TOO
        shape = Shape(prompt, native=output == "native" or (can and output == "auto"))
        bound = None if shape.native is None else closed(shape.native)
        if shape.native is not None and bound is None:
            shape = Shape(prompt, native=False)
        body: dict[str, Any] = {"model": self._choice.model, "messages": _messages(prompt, kept)}
        system = instructions(prompt, shape.told)
        if system:
            body["system"] = system
        if bound is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": bound}}
        if prompt.tools:
            body["tools"] = [_tool(spec) for spec in prompt.tools]
        if streams:
            body["stream"] = True
        if _has_to_think(self._thinking) and _lacks_thoughts(body["messages"]):
            body["thinking"] = None
        return body

    def heard(self) -> Heard:
        """Return an answer that is yet to be read."""
        return _Message()


class _Message(Heard):
    """A message while it is being read."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._usage: dict[str, Any] = {}

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls that the model wants; arguments that cannot be read are their fault."""
        return tuple(
            wanted(str(block["id"]), str(block["name"]), self._arguments(place))
            for place, block in sorted(self._blocks.items())
            if block["type"] == "tool_use"
        )

    @property
    def tokens(self) -> Usage:
        """Return what was spent, as far as the server says so."""
        usage = self._usage
        cached = count(usage, "cache_read_input_tokens")
        return spent(
            before=count(usage, "input_tokens") + cached + self.written,
            after=count(usage, "output_tokens"),
            cached=cached,
        )

    def as_said(self) -> list[dict[str, Any]]:
        """Return the model's words in its own form, with all that it may want to hear again."""
        calls = {call.id: call for call in self.calls}
        found = []
        for place, block in sorted(self._blocks.items()):
            grown = {
                name: "".join(self._pieces[place, name])
                for name in ("text", "thinking", "signature")
                if (place, name) in self._pieces
            }
            made = {**block, **grown}
            if block["type"] == "tool_use":
                made["input"] = dict(calls[block["id"]].arguments)
            if block["type"] != "text" or made["text"].strip():
                found.append({k: v for k, v in made.items() if v is not None})
        return [{"role": "assistant", "content": found}]

    def _understood(self, event: Mapping[str, Any], *, whole: bool) -> str:
        kind = event["type"]
        if whole:
            self._begins(event)
            self._ends(event)
        elif kind == "message_start":
            self._begins(event["message"])
        elif kind == "content_block_start":
            return self._opened(event["index"], event["content_block"])
        elif kind == "content_block_delta":
            return self._grown(event["index"], event["delta"])
        elif kind == "message_delta":
            self._ends({**event["delta"], "usage": event.get("usage")})
        return ""

    def _begins(self, message: Mapping[str, Any]) -> None:
        blocks = message["content"]
        self.begun = True
        for place, block in enumerate(blocks):
            self._opened(place, block)
        self._usage = dict(message.get("usage") or {})

    def _ends(self, message: Mapping[str, Any]) -> None:
        reason = message.get("stop_reason")
        if reason is not None:
            self.finish = _FINISHES.get(reason, str(reason))
        details = message.get("stop_details")
        if isinstance(details, dict) and self.finish == "content_filter":
            self.refusal = str(details.get("explanation") or "")
        told = message.get("usage") or {}
        self._usage |= {name: number for name, number in told.items() if number is not None}
        self.written = count(self._usage, "cache_creation_input_tokens")

    def _opened(self, place: int, block: Mapping[str, Any]) -> str:
        self._blocks[place] = dict(block)
        text = block["text"] if block["type"] == "text" else ""
        self._texts.append(text)
        for name in ("text", "thinking", "signature"):
            if block.get(name):
                self._pieces[place, name] = [block[name]]
        return str(text)

    def _grown(self, place: int, delta: Mapping[str, Any]) -> str:
        name = _GROWS.get(delta["type"])
        if name is None:
            return ""
        self._pieces.setdefault((place, name), []).append(delta[name])
        if name != "text":
            return ""
        self._texts.append(delta["text"])
        return str(delta["text"])

    def _arguments(self, place: int) -> object:
        written = self._pieces.get((place, "partial_json"))
        return self._blocks[place].get("input") if written is None else "".join(written)


def _version(model: str) -> tuple[int, int]:
    """Return the version that a model's name tells, of which much depends."""
    found = _NAMED.match(model)
    if found is not None:
        return int(found[1]), int(found[2] or 0)
    return _OLD if _OLD_NAME.match(model) else _UNKNOWN


def _thinking(level: str, version: tuple[int, int]) -> dict[str, Any]:
    """Return how much a model is to think, in the form that its version takes."""
    if not level:
        return {}
    if level == "off":
        return {"thinking": {"type": "disabled"}} if version >= _THINKS_UNASKED else {}
    if version != _UNKNOWN and version < _ADAPTS:
        usual = _BUDGETS["medium"] if level == "on" else _MOST_THOUGHT
        budget = _BUDGETS.get(level, usual)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    adaptive: dict[str, Any] = {"thinking": {"type": "adaptive"}}
    if level == "on":
        return adaptive
    nearest = {"minimal": "low"} if version >= _TOP_EFFORT else {"minimal": "low", "xhigh": "max"}
    return merged(adaptive, {"output_config": {"effort": nearest.get(level, level)}})


def _has_to_think(thinking: Mapping[str, Any]) -> bool:
    """Tell whether each call must come with the thoughts that led to it."""
    return bool(thinking.get("thinking", {}).get("type") == "enabled")


def _lacks_thoughts(messages: list[dict[str, Any]]) -> bool:
    """Tell whether the last calls have lost their thoughts, as in another process they have.

    A model that has to think refuses them then, unless it is asked to go on without thinking.
    """
    own = [message["content"] for message in messages if message["role"] == "assistant"]
    calls = any(block["type"] == "tool_use" for block in own[-1]) if own else False
    return calls and own[-1][0]["type"] not in _THOUGHTS


def _messages(prompt: Prompt, kept: Kept) -> list[dict[str, Any]]:
    """Return a prompt as messages, user and assistant by turns."""
    heard = [text for text in (remembered(prompt), prompt.query) if text.strip()]
    asked = [_text(text) for text in heard or [_NOTHING]]
    found: list[dict[str, Any]] = [{"role": "user", "content": asked}]
    for turn in turns(prompt):
        own = kept(turn.calls) if turn.calls else None
        for new in [*_told(turn), *(own or _own(turn))]:
            if new["role"] == found[-1]["role"]:
                found[-1] = {**new, "content": found[-1]["content"] + new["content"]}
            else:
                found.append(new)
    return found


def _told(turn: Turn) -> list[dict[str, Any]]:
    content = [_result(result) for result in turn.results]
    if not turn.own and turn.parts:
        parts = [_part(part) for part in turn.parts if words(part).strip()]
        content += [_text(turn.prefix.rstrip()), *parts] if turn.prefix else parts
    return [{"role": "user", "content": content}] if content else []


def _own(turn: Turn) -> list[dict[str, Any]]:
    if not turn.own:
        return []
    content = [_text(turn.text)] if turn.text.strip() else []
    for call in turn.calls:
        made: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": call.name}
        content.append({**made, "input": dict(call.arguments)})
    return [{"role": "assistant", "content": content}] if content else []


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _result(result: ToolResult) -> dict[str, Any]:
    # A text without words is refused, and the whole question with it.
    said = plain(result.content)
    content = [_text(said if said.strip() else _NOTHING)]
    made = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    return {**made, "is_error": result.is_error}


def _part(part: Part) -> dict[str, Any]:
    kind = "image" if is_file(part, *_IMAGES) else "document"
    if kind == "image" or is_file(part, "application/pdf"):
        source = {"type": "base64", "media_type": part.media_type, "data": encoded(part)}
        return {"type": kind, "source": source}
    return _text(words(part))


def _tool(spec: ToolSpec) -> dict[str, Any]:
    made = {"name": spec.name, "input_schema": arguments_of(spec)}
    return {**made, "description": spec.description} if spec.description else made
