"""The messages of one agent in the current turn, bounded in size."""

from collections.abc import Callable, Sequence

import msgspec

from acc.application.memory.messages import (
    FILE_TOKENS,
    MESSAGE_TOKENS,
    content_text,
    count_tokens,
    part_text,
    shorten_message,
)
from acc.domain.errors import BudgetExceeded
from acc.domain.value_objects.content import RUNTIME_AUTHOR, ChatMessage, text_part
from acc.ports.outbound.model_ports import ModelRequest, TokenCounterPort

#: How much of the room is used after messages are shortened, so that this happens rarely and the
#: start of the prompt stays the same for many calls.
_REMAINING_SHARE = 0.6
#: Characters that remain of a shortened result, in the order in which they are tried.
_LENGTHS = (1_200, 300)
_MAX_COMMITTED_LENGTH = 4_000
#: More than a usual tool has in the prompt.
_TOOL_TOKENS = 1_000
#: For the note about calls that are not shown, and for the tool that reads shortened results.
_RESERVED_TOKENS = 200
#: Bytes of a character in UTF-8.
_MAX_BYTES = 4
_ENCODER = msgspec.json.Encoder(enc_hook=str)


class TurnWindow:
    """Collects the messages of a turn; older tool results are shortened to respect a limit.

    The newest exchange is shortened last. If short results do not fit, the oldest exchanges are
    left out, and a note says how many.
    """

    def __init__(self, limit: int, tokens: Callable[[], TokenCounterPort]) -> None:
        self._limit = limit
        self._tokens = tokens
        #: The messages as they are shown, and as they were added.
        self._messages: list[ChatMessage] = []
        self._originals: list[ChatMessage] = []
        self._left_out = 0
        self._bytes = 0

    def add(self, message: ChatMessage) -> None:
        """Append a message."""
        self._messages.append(message)
        self._originals.append(message)
        self._bytes += message_bytes(message)

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """Return the messages, after a note about those that are left out."""
        if not self._left_out:
            return tuple(self._messages)
        note = f"[{self._left_out} earlier tool calls of this turn are not shown.]"
        return (
            ChatMessage(role="user", author=RUNTIME_AUTHOR, parts=text_part(note)),
            *self._messages,
        )

    def fit(self, request: ModelRequest, *, memory_tokens: int, where: str) -> str | None:
        """Shorten messages if a request with them exceeds the limit.

        `memory_tokens` is the size of the memory in the request. Return the text of the results
        that are no longer shown in full, None if nothing changed. Raise BudgetExceeded if the
        request is too large without them.
        """
        end = len(request.messages) - len(self.messages)
        others = request.messages[request.query_index : end]
        # Most requests need not be counted: a character has at most four tokens.
        bound = 4 * len(request.instruction) + _TOOL_TOKENS * len(request.tools)
        for message in others:
            bound += message_bytes(message)
        if bound + memory_tokens + self._bytes <= self._limit:
            return None
        count = self._tokens().count
        specs = (f"{tool.name} {tool.description} {tool.parameters}" for tool in request.tools)
        used = memory_tokens + count(request.instruction) + sum(map(count, specs))
        used += sum(count_tokens(message, count) for message in others)
        available = self._limit - used - _RESERVED_TOKENS
        sizes = [count_tokens(message, count) for message in self._messages]
        if sum(sizes) <= available + _RESERVED_TOKENS and not self._left_out:
            return None
        if sum(sizes) <= available:
            return None
        if available <= 0:
            raise BudgetExceeded("max_prompt_tokens", self._limit, where)
        return self._shorten(sizes, available, count)

    def _shorten(self, sizes: list[int], available: int, count: Callable[[str], int]) -> str:
        goal = int(available * _REMAINING_SHARE)
        shortened: list[str] = []
        newest = self._newest_exchange()
        for length in _LENGTHS:
            for index in range(newest):
                if sum(sizes) > goal:
                    self._shorten_one(index, length, sizes, shortened, count)
        while sum(sizes) > goal and newest > 0:
            newest -= self._leave_out_oldest(sizes, shortened)
        for length in (20_000, 5_000, *_LENGTHS):
            for index in range(newest, len(self._messages)):
                if sum(sizes) > available:
                    self._shorten_one(index, length, sizes, shortened, count)
        self._bytes = sum(message_bytes(message) for message in self._messages)
        return "\n".join(shortened)[:_MAX_COMMITTED_LENGTH]

    def _shorten_one(
        self,
        index: int,
        length: int,
        sizes: list[int],
        shortened: list[str],
        count: Callable[[str], int],
    ) -> None:
        original = self._originals[index]
        shorter = shorten_message(original, length)
        if shorter is not original:
            if not self._messages[index].is_shortened:
                shortened += [content_text(result.content) for result in original.results]
            self._messages[index] = shorter
            sizes[index] = count_tokens(shorter, count)

    def _newest_exchange(self) -> int:
        """Return the index of the last message with calls."""
        calls = (n for n in range(len(self._messages) - 1, -1, -1) if self._messages[n].calls)
        return next(calls, 0)

    def _leave_out_oldest(self, sizes: list[int], shortened: list[str]) -> int:
        """Remove the oldest exchange, calls and results together; return how many messages."""
        end = 1
        while end < len(self._messages) and self._messages[end].role == "tool":
            end += 1
        for message in self._messages[:end]:
            self._left_out += len(message.calls)
            if not message.is_shortened:
                shortened += [content_text(result.content) for result in message.results]
        del self._messages[:end]
        del self._originals[:end]
        del sizes[:end]
        return end


def shortened_results(messages: Sequence[ChatMessage]) -> frozenset[int]:
    """Return the numbers of the tool results that messages do not show in full."""
    return frozenset([m.seq for m in messages if m.is_shortened and m.seq and m.role == "tool"])


def message_bytes(message: ChatMessage) -> int:
    """Return an upper bound of the size in bytes, which is not smaller than that in tokens."""
    size = MESSAGE_TOKENS
    for part in message.parts:
        call, result = part.call, part.result
        if part.text is not None:
            size += _MAX_BYTES * len(part.text)
        elif call is not None:
            size += _MAX_BYTES * len(call.name) + len(_ENCODER.encode(call.arguments))
        elif result is not None:
            content = result.content
            is_text = isinstance(content, str)
            size += _MAX_BYTES * len(content) if is_text else len(_ENCODER.encode(content))
            size += FILE_TOKENS * len(result.files)
        else:
            size += _MAX_BYTES * len(part_text(part)) + FILE_TOKENS
    return size
