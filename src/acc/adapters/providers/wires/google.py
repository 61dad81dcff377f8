"""Google's generateContent."""

import re
from base64 import b64encode
from collections.abc import Mapping
from itertools import groupby
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from acc.adapters.chat.heard import Heard, count, spent, wanted
from acc.adapters.chat.streams import ServerFault
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
from acc.adapters.providers.wires.wire import Settings, Shape, as_they_are
from acc.domain.value_objects.content import Part, ToolCall, ToolResult, Usage
from acc.ports.outbound.model_ports import Prompt, ToolSpec

_READABLE = ("image/", "application/pdf", "audio/", "video/")
_OLD_NAME = re.compile(r"gemini-(?:1|2\.0|2\.5|pro$)|.*gemma")
_THINKS_BY_BUDGET = re.compile(r"gemini-2\.5")
_PRO = re.compile(r"(?!.*flash).*pro")
_BUDGETS = {"minimal": 128, "low": 2_048, "medium": 8_192}
_MOST_THOUGHT = 24_576
_LEVELS = {"xhigh": "high", "max": "high"}
_FINISHES = {"STOP": "stop", "MAX_TOKENS": "length"}
_REFUSED = frozenset(
    {
        "BLOCKLIST",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_SAFETY",
        "PROHIBITED_CONTENT",
        "RECITATION",
        "SAFETY",
        "SPII",
    }
)
#: What a model comes to grief by; what it said before is no answer.
_FAILED = frozenset(
    {
        "LANGUAGE",
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "OTHER",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    }
)
#: What stands for the signature of a thought that nobody has, as Google's documentation says.
_NO_SIGNATURE = b64encode(b"skip_thought_signature_validator").decode()


class GoogleWire:
    """Generated content of one model."""

    home = "https://generativelanguage.googleapis.com"
    streams_always = False
    wants_plain_arguments = False

    def __init__(self, choice: ModelChoice) -> None:
        self._choice = choice
        name = choice.model.removeprefix("models/")
        self._is_old = _OLD_NAME.match(name) is not None
        self._thinks_by_budget = _THINKS_BY_BUDGET.match(name) is not None

    def path(self, *, streams: bool) -> str:
        """Return where the question goes."""
        model = quote(self._choice.model)
        named = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        verb = "streamGenerateContent?alt=sse" if streams else "generateContent"
        return f"/v1/{named}:{verb}"

    def headers(self, key: str) -> dict[str, str]:
        """Return what goes with every question; a key in the URL would be written down."""
        return {"x-goog-api-key": key}

    def settings(self) -> Settings:
        """Return what the settings of the choice become."""
        found = as_they_are(
            self._choice,
            temperature="temperature",
            top_p="topP",
            max_tokens="maxOutputTokens",
            seed="seed",
        )
        if self._choice.thinking:
            found["thinking"] = {"thinkingConfig": self._thinking(self._choice.thinking)}
        return {name: {"generationConfig": setting} for name, setting in found.items()}

    def body(self, prompt: Prompt, kept: Kept, *, streams: bool) -> dict[str, Any]:
        """Return a prompt, without the settings."""
        # The older bind either calls or an answer.
        can = not (self._is_old and prompt.tools)
        shape = Shape(prompt, native=can and self._choice.output != "prompted")
        body: dict[str, Any] = {"contents": _contents(prompt, kept)}
        system = instructions(prompt, shape.told)
        if system:
            body["systemInstruction"] = {"parts": [{"text": system}]}
        if shape.native is not None:
            config = {"responseMimeType": "application/json", "responseJsonSchema": shape.native}
            body["generationConfig"] = config
        elif shape.told and can:
            body["generationConfig"] = {"responseMimeType": "application/json"}
        if prompt.tools:
            body["tools"] = [{"functionDeclarations": [_tool(spec) for spec in prompt.tools]}]
            mode = "VALIDATED" if self._thinks_by_budget or not self._is_old else "AUTO"
            body["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
        return body

    def heard(self) -> Heard:
        """Return an answer that is yet to be read."""
        return _Content()

    def _thinking(self, level: str) -> dict[str, Any]:
        """Return how much a model is to think, in the form that its version takes."""
        is_pro = _PRO.match(self._choice.model) is not None
        if level == "off":
            # The large ones cannot do without.
            if self._is_old:
                return {"thinkingBudget": _BUDGETS["minimal"] if is_pro else 0}
            return {"thinkingLevel": "LOW" if is_pro else "MINIMAL"}
        if level == "on":
            return {"includeThoughts": True}
        if self._is_old:
            budget = _BUDGETS.get(level, _MOST_THOUGHT)
            return {"includeThoughts": True, "thinkingBudget": budget}
        return {"includeThoughts": True, "thinkingLevel": _LEVELS.get(level, level).upper()}


class _Content(Heard):
    """Content while it is being read."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[dict[str, Any]] = []
        self._usage: Mapping[str, Any] = {}

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls that the model wants; arguments that cannot be read are their fault."""
        found = [part["functionCall"] for part in self._parts if "functionCall" in part]
        return tuple(wanted(call["id"], str(call["name"]), call.get("args")) for call in found)

    @property
    def tokens(self) -> Usage:
        """Return what was spent, as far as the server says so."""
        usage = self._usage
        return spent(
            before=count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount"),
            after=count(usage, "candidatesTokenCount") + count(usage, "thoughtsTokenCount"),
            cached=count(usage, "cachedContentTokenCount"),
        )

    def as_said(self) -> list[dict[str, Any]]:
        """Return the model's words in its own form, with all that it may want to hear again."""
        parts: list[dict[str, Any]] = []
        # The pieces of a stream are put together; what is signed stays as it is.
        for kind, found in groupby(self._parts, key=_kind):
            if kind == "other":
                parts += found
            else:
                text = "".join(part["text"] for part in found)
                parts.append({"text": text, "thought": True} if kind == "thought" else _text(text))
        return [{"role": "model", "parts": parts}]

    def _understood(self, event: Mapping[str, Any], *, whole: bool) -> str:
        usage = event.get("usageMetadata")
        if isinstance(usage, dict):
            self._usage = usage
        candidates = event.get("candidates") or ()
        blocked = event.get("promptFeedback") or {}
        self.begun = self.begun or bool(candidates or blocked)
        if not candidates:
            if blocked.get("blockReason"):
                self.finish = "content_filter"
                self.refusal = str(blocked.get("blockReasonMessage") or blocked["blockReason"])
            return ""
        text = "".join(map(self._heard, (candidates[0].get("content") or {}).get("parts") or ()))
        self._texts.append(text)
        self._end(candidates[0])
        return text

    def _heard(self, part: Mapping[str, Any]) -> str:
        held = dict(part)
        if "functionCall" in held:
            # Not every call has an id, and its result is told by one.
            call = held["functionCall"]
            held["functionCall"] = {**call, "id": call.get("id") or f"call_{uuid4().hex}"}
        self._parts.append(held)
        return "" if part.get("thought") else str(part.get("text") or "")

    def _end(self, candidate: Mapping[str, Any]) -> None:
        reason = candidate.get("finishReason")
        if reason in _REFUSED:
            self.finish = "content_filter"
            self.refusal = str(candidate.get("finishMessage") or reason)
        elif reason is not None:
            is_answer = reason in _FINISHES or self.text or self.calls
            if reason in _FAILED or not is_answer:
                raise ServerFault({"message": f"it ended with {reason}"})
            self.finish = _FINISHES.get(reason, "stop")


def _kind(part: Mapping[str, Any]) -> str:
    if part.keys() == {"text"}:
        return "text"
    return "thought" if part.keys() == {"text", "thought"} else "other"


def _contents(prompt: Prompt, kept: Kept) -> list[dict[str, Any]]:
    """Return a prompt as contents, user and model by turns; results stand for themselves."""
    heard = [text for text in (remembered(prompt), prompt.query) if text] or [""]
    found: list[dict[str, Any]] = [{"role": "user", "parts": [_text(text) for text in heard]}]
    for turn in turns(prompt):
        own = kept(turn.calls) if turn.calls else None
        for new in [*_told(turn), *(own or _own(turn))]:
            last = found[-1]
            if new["role"] == last["role"] and _are_results(new) == _are_results(last):
                found[-1] = {**last, "parts": last["parts"] + new["parts"]}
            else:
                found.append(new)
    return found


def _are_results(content: Mapping[str, Any]) -> bool:
    return "functionResponse" in content["parts"][0]


def _told(turn: Turn) -> list[dict[str, Any]]:
    found: list[list[dict[str, Any]]] = [[_result(result) for result in turn.results]]
    if not turn.own:
        parts = [_part(part) for part in turn.parts]
        found.append([_text(turn.prefix), *parts] if turn.prefix and parts else parts)
    return [{"role": "user", "parts": parts} for parts in found if parts]


def _own(turn: Turn) -> list[dict[str, Any]]:
    if not turn.own:
        return []
    parts = [_text(turn.text)] if turn.text else []
    for place, call in enumerate(turn.calls):
        made = {"id": call.id, "name": call.name, "args": dict(call.arguments)}
        signed = {} if place else {"thoughtSignature": _NO_SIGNATURE}
        parts.append({"functionCall": made, **signed})
    return [{"role": "model", "parts": parts}] if parts else []


def _text(text: str) -> dict[str, Any]:
    return {"text": text}


def _result(result: ToolResult) -> dict[str, Any]:
    said = {"error" if result.is_error else "output": plain(result.content)}
    made = {"id": result.call_id, "name": result.name, "response": said}
    return {"functionResponse": made}


def _part(part: Part) -> dict[str, Any]:
    if is_file(part, *_READABLE):
        return {"inlineData": {"mimeType": part.media_type, "data": encoded(part)}}
    return _text(words(part))


def _tool(spec: ToolSpec) -> dict[str, Any]:
    schema = arguments_of(spec)
    made: dict[str, Any] = {"name": spec.name, "parametersJsonSchema": schema}
    return {**made, "description": spec.description} if spec.description else made
