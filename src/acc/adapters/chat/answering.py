"""What a server of chat completions sends, whole or piece by piece, as text and calls of ours."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from acc.domain.value_objects.event import ToolCall, Usage

_DATA = b"data:"
_DONE = b"[DONE]"
_THOUGHT, _THOUGHT_ENDS = "<think>", "</think>"
#: Under which names servers send what a model thinks, which is no part of its answer.
_THOUGHTS = ("reasoning_content", "reasoning")
_OF_A_CALL = frozenset({"index", "id", "type", "function"})


class ServerFault(Exception):
    """Report an error that a server told where an answer should have been."""

    def __init__(self, error: object) -> None:
        super().__init__("the server told an error")
        self.error = error


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Give the data of each event of a stream, up to its end.

    Lines end where the protocol says, not where a text of some language has a line's end in it.
    """
    rest = b""
    held: list[bytes] = []
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            line = line.rstrip(b"\r")
            if line.startswith(_DATA):
                held.append(line[len(_DATA) :].strip())
            elif not line and held:
                data, held = b"\n".join(held), []
                if data == _DONE:
                    return
                yield data
    if rest.startswith(_DATA):
        held.append(rest[len(_DATA) :].strip())
    if held and held != [_DONE]:
        yield b"\n".join(held)


class Answer:
    """An answer while it is being read. What cannot be read raises ValueError.

    `finish` is why the model stopped, None while it has not; `refusal` is what it said instead of
    an answer, and `usage` what the server says of tokens and money.
    """

    def __init__(self) -> None:
        self.finish: str | None = None
        self.refusal = ""
        self.usage: Mapping[str, Any] = {}
        self._texts: list[str] = []
        self._thoughts: dict[str, str] = {}
        self._thinking = _Thinking()
        self._calls: dict[int, dict[str, Any]] = {}

    @property
    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._texts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls that the model wants; arguments that cannot be read are their fault."""
        return tuple(_call(place, found) for place, found in sorted(self._calls.items()))

    @property
    def tokens(self) -> Usage:
        """Return what was spent, as far as the server says so."""
        details = self.usage.get("prompt_tokens_details")
        return Usage(
            llm_calls=1,
            input_tokens=_count(self.usage.get("prompt_tokens")),
            output_tokens=_count(self.usage.get("completion_tokens")),
            cached_tokens=_count(details.get("cached_tokens") if isinstance(details, dict) else 0),
        )

    def add(self, data: bytes) -> str:
        """Take in an event of a stream, and return the text that it brings."""
        return self._take(data, "delta")

    def fill(self, data: bytes) -> None:
        """Take in an answer that comes whole."""
        self._take(data, "message")
        self.close()

    def close(self) -> str:
        """Return the text that was held back, as it might have been the start of a thought."""
        text = self._thinking.rest()
        self._texts.append(text)
        return text

    def as_said(self) -> dict[str, Any]:
        """Return the model's message in its own form, with all that it may want to hear again."""
        calls = []
        for place, found in sorted(self._calls.items()):
            function = {"name": found["name"], "arguments": found["arguments"]}
            call = {"id": _id(place, found), "type": "function", "function": function}
            calls.append({**found["more"], **call})
        return {"role": "assistant", "content": self.text, **self._thoughts, "tool_calls": calls}

    def _take(self, data: bytes, under: str) -> str:
        event = msgspec.json.decode(data)
        if isinstance(event, dict) and event.get("error"):
            raise ServerFault(event["error"])
        try:
            return self._understood(event, under)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("not in the form of a chat completion") from error

    def _understood(self, event: Mapping[str, Any], under: str) -> str:
        usage = event.get("usage")
        if isinstance(usage, dict):
            self.usage = usage
        text = ""
        for choice in (event.get("choices") or ())[:1]:
            message = choice.get(under) or {}
            text = self._heard(message)
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
        new: dict[str, Any] = {"id": "", "name": "", "arguments": "", "more": {}}
        index = piece.get("index")
        call = self._calls.setdefault(place if index is None else index, new)
        function = piece.get("function") or {}
        call["id"] = call["id"] or piece.get("id") or ""
        call["name"] += function.get("name") or ""
        arguments = function.get("arguments") or ""
        # Some send the arguments as an object.
        call["arguments"] += arguments if isinstance(arguments, str) else _json(arguments)
        call["more"].update({key: piece[key] for key in piece.keys() - _OF_A_CALL})


class _Thinking:
    """Takes out the thought that some models put before their answer, in tags."""

    def __init__(self) -> None:
        self._held: str | None = ""

    def without(self, text: str) -> str:
        """Return what of a text is surely answer."""
        if self._held is None:
            return text
        self._held += text
        started = self._held.lstrip()
        if started.startswith(_THOUGHT):
            _, ends, after = started.partition(_THOUGHT_ENDS)
            if not ends or not after.strip():
                return ""
            self._held = None
            return after.lstrip()
        if _THOUGHT.startswith(started):
            return ""
        text, self._held = self._held, None
        return text

    def rest(self) -> str:
        """Return what was held back; a thought that has no end is no answer."""
        held, self._held = self._held or "", None
        return "" if held.lstrip().startswith(_THOUGHT) else held


def _call(place: int, found: Mapping[str, Any]) -> ToolCall:
    call_id, name = _id(place, found), found["name"]
    try:
        arguments = msgspec.json.decode(found["arguments"] or "{}")
    except msgspec.MsgspecError as error:
        return ToolCall(id=call_id, name=name, fault=f"not JSON: {error}")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        fault = f"arguments must be an object, not {type(arguments).__name__}"
        return ToolCall(id=call_id, name=name, fault=fault)
    return ToolCall(id=call_id, name=name, arguments=arguments)


def _id(place: int, found: Mapping[str, Any]) -> str:
    return str(found["id"] or f"call-{place + 1}")


def _words(content: object) -> str:
    """Return the text of a content, which some send in parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError("a content that is no text")  # noqa: TRY004 - it is the server's mistake
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))


def _count(number: object) -> int:
    return number if isinstance(number, int) and number > 0 else 0


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
