"""What a server of chat completions sends, whole or piece by piece, as text and calls of ours."""

import re
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import msgspec

from acc.adapters.chat.heard import Heard, count, spent, wanted
from acc.domain.value_objects.content import ToolCall, Usage

_THOUGHT, _THOUGHT_ENDS = "<think>", "</think>"
#: A thought whose beginning stands in the model's prompt, so that only its end is sent.
_UNOPENED = re.compile(rf"(?s).*?\n[ \t]*{_THOUGHT_ENDS}[ \t]*(?:\n\s*|$)")
#: Under which names servers send what a model thinks, which is no part of its answer.
_THOUGHTS = ("reasoning_content", "reasoning")
_OF_A_CALL = frozenset({"index", "id", "type", "function"})


class Answer(Heard):
    """An answer of chat completions while it is being read."""

    no_answer = "it is no chat completion; check the URL"

    def __init__(self) -> None:
        super().__init__()
        self._usage: Mapping[str, Any] = {}
        self._thoughts: dict[str, str] = {}
        self._thinking = _Thinking()
        #: By their index, and by how many came before.
        self._calls: dict[tuple[int, int], dict[str, Any]] = {}
        self._last: dict[int, dict[str, Any]] = {}

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls that the model wants; arguments that cannot be read are their fault."""
        found = enumerate(self._in_order())
        return tuple(wanted(_id(n, call), call["name"], call["arguments"]) for n, call in found)

    @property
    def tokens(self) -> Usage:
        """Return what was spent, as far as the server says so."""
        usage = self._usage
        return spent(
            before=count(usage, "prompt_tokens"),
            after=count(usage, "completion_tokens"),
            cached=count(usage.get("prompt_tokens_details"), "cached_tokens"),
        )

    def close(self) -> str:
        """Return the text that was held back, as it might have been the start of a thought."""
        text = self._thinking.rest()
        self._texts.append(text)
        said = self.text
        thought = _UNOPENED.match(said) if _THOUGHT_ENDS in said else None
        if thought is not None and _THOUGHT not in thought[0]:
            self._texts = [said[thought.end() :]]
        return text

    def as_said(self) -> list[dict[str, Any]]:
        """Return the model's words in its own form, with all that it may want to hear again."""
        calls = []
        for place, found in enumerate(self._in_order()):
            function = {"name": found["name"], "arguments": found["arguments"]}
            call = {"id": _id(place, found), "type": "function", "function": function}
            calls.append({**found["more"], **call})
        said = {"role": "assistant", "content": self.text, **self._thoughts, "tool_calls": calls}
        return [said]

    def _understood(self, event: Mapping[str, Any], *, whole: bool) -> str:
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
            self.written = count(usage.get("prompt_tokens_details"), "cache_write_tokens")
            told = usage.get("cost")
            self.cost = float(told) if isinstance(told, int | float) and told >= 0 else None
        under = "message" if whole else "delta"
        text = ""
        for choice in (event.get("choices") or ())[:1]:
            message = choice.get(under) or {}
            text = self._heard(message)
            self.begun = True
            if choice.get("finish_reason") is not None:
                self.finish = str(choice["finish_reason"])
        self._texts.append(text)
        return text

    def _heard(self, message: Mapping[str, Any]) -> str:
        self.refusal += message.get("refusal") or ""
        for name in _THOUGHTS:
            thought = message.get(name)
            if isinstance(thought, str) and thought:
                self._thoughts[name] = self._thoughts.get(name, "") + thought
        for place, piece in enumerate(message.get("tool_calls") or ()):
            self._heard_call(piece, place)
        content = message.get("content")
        return self._thinking.without(_words(content)) if content else ""

    def _heard_call(self, piece: Mapping[str, Any], place: int) -> None:
        function = piece.get("function") or {}
        index = piece.get("index")
        index = index if isinstance(index, int) else place
        call_id = str(piece.get("id") or "")
        call = self._call_at(index, call_id, is_named=bool(function.get("name")))
        call["id"] = call["id"] or call_id
        call["name"] += function.get("name") or ""
        arguments = function.get("arguments") or ""
        # Some send the arguments as an object.
        call["arguments"] += arguments if isinstance(arguments, str) else _json(arguments)
        call["more"].update({key: piece[key] for key in piece.keys() - _OF_A_CALL})

    def _call_at(self, index: int, call_id: str, *, is_named: bool) -> dict[str, Any]:
        """Return the call that a piece belongs to; some send every call under the same index."""
        held = self._last.get(index)
        # Some send every piece with an id of its own, but only the first with a name.
        is_next = held is not None and is_named and call_id and held["id"] not in ("", call_id)
        if held is None or is_next:
            held = {"id": "", "name": "", "arguments": "", "more": {}}
            self._calls[index, len(self._calls)] = self._last[index] = held
        return held

    def _in_order(self) -> list[dict[str, Any]]:
        return [call for _, call in sorted(self._calls.items(), key=itemgetter(0))]


class _Thinking:
    """Takes out the thought that some models put before their answer, in tags."""

    def __init__(self) -> None:
        self._held: str | None = ""
        self._is_within = False

    def without(self, text: str) -> str:
        """Return what of a text is surely answer."""
        if self._held is None:
            return text
        self._held += text
        started = self._held.lstrip()
        if not self._is_within and not started.startswith((_THOUGHT, _THOUGHT_ENDS)):
            if _THOUGHT.startswith(started) or _THOUGHT_ENDS.startswith(started):
                return ""
            text, self._held = self._held, None
            return text
        self._is_within = True
        _, ends, after = self._held.partition(_THOUGHT_ENDS)
        if after.strip():
            self._held = None
            return after.lstrip()
        # The start of the end may be in it; a long thought is not gone through again each time.
        self._held = ends or self._held[-len(_THOUGHT_ENDS) :]
        return ""

    def rest(self) -> str:
        """Return what was held back; a thought that has no end is no answer."""
        held, self._held = self._held or "", None
        return "" if self._is_within else held


def _id(place: int, found: Mapping[str, Any]) -> str:
    return str(found["id"] or f"call-{place + 1}")


def _words(content: object) -> str:
    """Return the text of a content, which some send in parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError("a content that is no text")  # noqa: TRY004 - it is the server's mistake
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
