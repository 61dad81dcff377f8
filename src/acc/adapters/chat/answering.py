"""What a server of chat completions sends, whole or piece by piece, as text and calls of ours."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from acc.domain.value_objects.event import ToolCall, Usage

_DATA = b"data:"
_NAME = b"event:"
_DONE = b"[DONE]"
_THOUGHT, _THOUGHT_ENDS = "<think>", "</think>"
#: A thought whose beginning stands in the model's prompt, so that only its end is sent.
_UNOPENED = re.compile(rf"(?s).*?\n[ \t]*{_THOUGHT_ENDS}[ \t]*(?:\n\s*|$)")
#: Under which names servers send what a model thinks, which is no part of its answer.
_THOUGHTS = ("reasoning_content", "reasoning")
_OF_A_CALL = frozenset({"index", "id", "type", "function"})
#: The most bytes of a whole answer or one event, and of all the events of a stream.
MOST_AT_ONCE = 16 * 1024 * 1024
MOST_STREAMED = 16 * MOST_AT_ONCE
#: A server that tells of more tokens has miscounted.
_MOST_TOKENS = 10**9


#: What is said of an answer of which nothing can be understood.
NO_COMPLETION = "it is no chat completion; check the URL"


class ServerFault(Exception):
    """Report an error that a server told where an answer should have been."""

    def __init__(self, error: object) -> None:
        super().__init__("the server told an error")
        self.error = error


class Unreadable(ValueError):
    """Report what is no answer of a chat completion, in words for people."""


async def bounded(chunks: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """Give what comes, up to as much as may come."""
    taken = 0
    async for chunk in chunks:
        taken += len(chunk)
        if taken > most:
            raise Unreadable(f"it has more than {most} bytes")
        yield chunk


async def whole(chunks: AsyncIterator[bytes], most: int = MOST_AT_ONCE) -> bytes:
    """Return all that comes, if it is not too much."""
    return b"".join([chunk async for chunk in bounded(chunks, most)])


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Give the data of each event of a stream, up to its end; one that is an error is raised.

    Lines end where the protocol says, not where a text of some language has a line's end in it.
    """
    event = _Event()
    rest = bytearray()
    async for chunk in bounded(chunks, MOST_STREAMED):
        first, *others = chunk.split(b"\n")
        rest += first
        if len(rest) + event.size > MOST_AT_ONCE:
            raise Unreadable(f"one event has more than {MOST_AT_ONCE} bytes")
        for following in others:
            data = event.ended_by(bytes(rest))
            if data == _DONE:
                return
            if data:
                yield data
            rest[:] = following
    event.ended_by(bytes(rest))
    data = event.ended_by(b"")
    if data and data != _DONE:
        yield data


class _Event:
    """An event of a stream while its lines come in."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._is_fault = False

    @property
    def size(self) -> int:
        """Return how many bytes have come in."""
        return sum(map(len, self._held))

    def ended_by(self, line: bytes) -> bytes:
        """Take in a line, and return the data if the event ends with it."""
        line = line.rstrip(b"\r")
        if line.startswith(_DATA):
            self._held.append(line[len(_DATA) :].strip())
        elif line.startswith(_NAME):
            self._is_fault = line[len(_NAME) :].strip() == b"error"
        elif not line:
            data, is_fault = b"\n".join(self._held), self._is_fault
            self._held, self._is_fault = [], False
            if data and is_fault:
                raise ServerFault(_fault_in(data))
            return data
        return b""


class Answer:
    """An answer while it is being read. What cannot be read raises ValueError.

    `finish` is why the model stopped, None while it has not; `refusal` is what it said instead of
    an answer, and `usage` what the server says of tokens and money. `begun` tells whether anything
    came that is of a chat completion.
    """

    def __init__(self) -> None:
        self.begun = False
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
        said = self.text
        thought = _UNOPENED.match(said) if _THOUGHT_ENDS in said else None
        if thought is not None and _THOUGHT not in thought[0]:
            self._texts = [said[thought.end() :]]
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
        try:
            event = msgspec.json.decode(data)
            if isinstance(event, dict) and (event.get("error") or event.get("object") == "error"):
                raise ServerFault(event.get("error") or event)
            return self._understood(event, under)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise Unreadable("" if self.begun else NO_COMPLETION) from error

    def _understood(self, event: Mapping[str, Any], under: str) -> str:
        usage = event.get("usage")
        if isinstance(usage, dict):
            self.usage = usage
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
        new: dict[str, Any] = {"id": "", "name": "", "arguments": "", "more": {}}
        index = piece.get("index")
        call = self._calls.setdefault(index if isinstance(index, int) else place, new)
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


def _call(place: int, found: Mapping[str, Any]) -> ToolCall:
    call_id, name = _id(place, found), found["name"]
    try:
        arguments = msgspec.json.decode(found["arguments"] or "{}")
    except (msgspec.MsgspecError, RecursionError) as error:
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
    return number if isinstance(number, int) and 0 < number <= _MOST_TOKENS else 0


def _fault_in(data: bytes) -> object:
    """Return the error in an event that is one."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return data.decode(errors="replace")
    return found.get("error", found) if isinstance(found, dict) else found


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
