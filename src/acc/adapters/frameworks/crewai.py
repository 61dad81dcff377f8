"""ACC memory for crews of CrewAI, as hooks of their model calls."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from crewai.hooks import (
    HookAborted,
    LLMCallHookContext,
    register_after_llm_call_hook,
    register_before_llm_call_hook,
)

from acc.application.memory.history import HistoryMemory
from acc.application.memory.messages import part_text
from acc.application.runtime.background_loop import run_in_background
from acc.domain.errors import AccError, InvalidInput
from acc.domain.value_objects.content import ChatMessage, text_part

logger = logging.getLogger("acc.memory")

Message = dict[str, Any]
_INSTRUCTION_ROLES = ("system", "developer")
#: Agents without native tool calls write their thoughts before it.
_FINAL_ANSWER = "Final Answer:"


class CrewMessages:
    """Translates the messages of CrewAI; implements MessageCodec.

    The memory gets only the words of the user and the answer, so there are no tool calls.
    """

    def is_instruction(self, message: Message) -> bool:
        """Return True for a message of the system."""
        return message["role"] in _INSTRUCTION_ROLES

    def starts_turn(self, message: Message) -> bool:
        """Return True for a message of the user."""
        return bool(message["role"] == "user")

    def decode(self, messages: Sequence[Message]) -> list[ChatMessage]:
        """Return messages of the user and of the crew."""
        return [
            ChatMessage(role=one["role"], author=one["role"], parts=text_part(one["content"]))
            for one in messages
        ]

    def encode(self, messages: Sequence[ChatMessage]) -> list[Message]:
        """Return our messages as those of CrewAI; tool calls of earlier turns are left out."""
        found = [
            {"role": one.role, "content": "\n".join(part_text(part) for part in one.parts)}
            for one in messages
            if one.role != "tool" and not one.calls
        ]
        return [one for one in found if one["content"]]


class CrewMemory:
    """Puts the memory of a conversation before the prompt of each model call.

    A crew starts every kickoff without a history, so `conversation` has the id of the conversation
    and the message of the user. Calls outside a conversation are not changed.
    """

    def __init__(self, *, memory: HistoryMemory) -> None:
        self._memory = memory
        self._codec = CrewMessages()

    @contextmanager
    def conversation(self, session_id: str, message: str) -> Iterator[None]:
        """Continue a conversation with a message of the user during the block."""
        if not session_id or not message.strip():
            raise InvalidInput("a conversation needs a session id and a message of the user")
        current = _Current(self, session_id, message)
        token = _CURRENT.set(current)
        try:
            yield
        finally:
            _CURRENT.reset(token)
        if not current.calls:
            logger.warning(
                "no model call of a crew used ACC memory; import acc.frameworks.crewai before the "
                "first kickoff of the crew"
            )

    def close(self) -> None:
        """Close the store."""
        run_in_background(self._memory.aclose(), instead="another thread")

    def select(self, session_id: str, words: str) -> list[Message]:
        """Return the messages that precede the prompt of the crew."""
        history = [{"role": "user", "content": words}]
        selected = run_in_background(
            self._memory.select(history, self._codec, session_id=session_id),
            instead="another thread",
        )
        return selected[:-1]

    def note_answer(self, session_id: str, words: str, response: str) -> None:
        """Store the newest answer to the words of the user."""
        answer = response.rpartition(_FINAL_ANSWER)[2].strip()
        run_in_background(
            self._memory.note_answer(answer, session_id=session_id, query=words),
            instead="another thread",
        )


@dataclass(slots=True)
class _Current:
    """The conversation of a kickoff, and what was added to the messages of a call."""

    memory: CrewMemory
    session_id: str
    words: str
    calls: int = 0
    #: By the identity of the list of messages.
    added: dict[int, list[Message]] = field(default_factory=dict)

    def remove_added(self, messages: list[Message]) -> None:
        """Restore the messages of the crew."""
        added = {id(one) for one in self.added.pop(id(messages), ())}
        if added:
            messages[:] = [one for one in messages if id(one) not in added]


_CURRENT: ContextVar[_Current | None] = ContextVar("acc_crew_conversation", default=None)


def add_memory(context: LLMCallHookContext) -> None:
    """Add the memory of the current conversation to the messages of a model call."""
    current = _CURRENT.get()
    if current is None:
        return
    current.calls += 1
    messages: list[Message] = context.messages
    current.remove_added(messages)  # a call that failed has no after hook
    try:
        added = current.memory.select(current.session_id, current.words)
    except AccError as error:  # CrewAI ignores any other exception of a hook
        raise HookAborted(f"ACC memory failed: {error}", source="acc") from error
    place = 0
    while place < len(messages) and messages[place]["role"] in _INSTRUCTION_ROLES:
        place += 1
    messages[place:place] = added
    current.added[id(messages)] = added


def note_answer(context: LLMCallHookContext) -> None:
    """Restore the messages of a model call and store its answer."""
    current = _CURRENT.get()
    if current is None:
        return
    current.remove_added(context.messages)
    if isinstance(context.response, str):
        current.memory.note_answer(current.session_id, current.words, context.response)


# A crew copies the hooks when it is used for the first time, so they are registered on import.
register_before_llm_call_hook(add_memory)
register_after_llm_call_hook(note_answer)
