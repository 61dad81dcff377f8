"""The messages of one agent in the current turn, bounded in size."""

from collections.abc import Callable, Sequence

import msgspec

from acc.application.memory.messages import (
    FILE_TOKENS,
    MESSAGE_TOKENS,
    READ_RESULT_TOOL,
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
_RESERVED_TOKENS = 260
#: Numbers of results in the note about calls that are not shown.
_MAX_LISTED = 12
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
        #: Numbers of the results that are left out.
        self._left_out_results: list[int] = []
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
        note = f"{self._left_out} earlier tool calls of this turn are not shown."
        if numbers := self._left_out_results:
            note += f" {READ_RESULT_TOOL}(number=N) returns their results: {_ranges(numbers)}."
        return (
            ChatMessage(role="user", author=RUNTIME_AUTHOR, parts=text_part(note)),
            *self._messages,
        )

    def shortened_results(self, messages: Sequence[ChatMessage]) -> frozenset[int]:
        """Return the numbers of the results that messages do not show in full, or leave out."""
        shown = (m.seq for m in messages if m.is_shortened and m.seq and m.role == "tool")
        return frozenset((*shown, *self._left_out_results))

    def fits(self, request: ModelRequest, *, memory_tokens: int) -> bool:
        """Return True if a request is so small that its tokens need not be counted.

        A character has at most four tokens.
        """
        bound = 4 * len(request.instruction) + _TOOL_TOKENS * len(request.tools)
        bound += sum(map(message_bytes, self._others(request)))
        return bound + memory_tokens + self._bytes <= self._limit

    def memory_budget(self, request: ModelRequest, *, memory_tokens: int) -> int | None:
        """Return the tokens that the memory may use, None if a request with it is small enough.

        It is half of what the instruction, the tools and the message leave, so that a memory that
        is larger than the limit cannot block a session.
        """
        count = self._tokens().count
        used = self._fixed_tokens(request, count) + _RESERVED_TOKENS
        current = sum(count_tokens(message, count) for message in self._messages)
        if used + memory_tokens + current <= self._limit:
            return None
        return max((self._limit - used) // 2, 0)

    def fit(self, request: ModelRequest, *, memory_tokens: int, where: str) -> str | None:
        """Shorten messages if a request with them exceeds the limit.

        `memory_tokens` is the size of the memory in the request. Return the text of the results
        that are no longer shown in full, None if nothing changed. Raise BudgetExceeded if the
        request is too large without them.
        """
        count = self._tokens().count
        used = memory_tokens + self._fixed_tokens(request, count)
        available = self._limit - used - _RESERVED_TOKENS
        sizes = [count_tokens(message, count) for message in self._messages]
        if sum(sizes) <= available + _RESERVED_TOKENS and not self._left_out:
            return None
        if sum(sizes) <= available:
            return None
        if available <= 0:
            reason = (
                f"the message, the instruction, the tools and the memory have about {used:,} "
                "tokens; shorten them, or set a higher limit in RunConfig"
            )
            raise BudgetExceeded("max_prompt_tokens", self._limit, where, reason=reason)
        return self._shorten(sizes, available, count)

    def _others(self, request: ModelRequest) -> Sequence[ChatMessage]:
        """Return the messages of the turn that are not in the window."""
        end = len(request.messages) - len(self.messages)
        return request.messages[request.query_index : end]

    def _fixed_tokens(self, request: ModelRequest, count: Callable[[str], int]) -> int:
        specs = (f"{tool.name} {tool.description} {tool.parameters}" for tool in request.tools)
        fixed = count(request.instruction) + sum(map(count, specs))
        return fixed + sum(count_tokens(message, count) for message in self._others(request))

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
            if message.role == "tool" and message.seq:
                self._left_out_results.append(message.seq)
            if not message.is_shortened:
                shortened += [content_text(result.content) for result in message.results]
        del self._messages[:end]
        del self._originals[:end]
        del sizes[:end]
        return end


def _ranges(numbers: Sequence[int]) -> str:
    """Return the newest numbers as a list that stays short: `5, 7, 9`, or `5 ... 90 (40)`."""
    if len(numbers) <= _MAX_LISTED:
        return ", ".join(map(str, numbers))
    newest = ", ".join(map(str, numbers[-_MAX_LISTED:]))
    return f"{numbers[0]} (the first), ..., {newest}"


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
