"""Serve ACC memory to clients that have an agent of their own: remember, recall, rules, explain."""

from collections.abc import Mapping
from typing import Any

from acc.application.agents.llm import LlmAgent
from acc.application.inspection.explanation import explain_statements
from acc.application.memory.messages import part_text
from acc.application.runtime.agent_memory import MemoryName, create_memory
from acc.application.runtime.run import MemoryScope
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.memory import TurnSignal
from acc.domain.value_objects.session import MAX_ID_LENGTH
from acc.ports.outbound.memory_ports import RestorableMemoryPort
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse

USER_ID = "memory"
#: The name of the agent that owns the memories.
AGENT_NAME = "memory"
DEFAULT_CONVERSATION = "default"
MAX_TEXT_LENGTH = 100_000
_NOTED = "Noted."

Json = dict[str, Any]


class AcknowledgingModel:
    """A model that answers every message with a fixed acknowledgement."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the acknowledgement."""
        return ModelResponse(text=_NOTED)


class ServeMemoryUseCase:
    """Remembers texts of conversations, and answers questions about them.

    A text is a message of the user, which is read as in an agent's turn, so rules and facts can be
    set, changed, lifted and corrected. Everything else leaves the memory unchanged.
    """

    def __init__(self, runner: SessionRunner, memory: MemoryName) -> None:
        self._runner = runner
        self._memory = memory

    @staticmethod
    def agent(memory: MemoryName) -> LlmAgent:
        """Return the agent that owns the memories."""
        return LlmAgent(name=AGENT_NAME, model=AcknowledgingModel(), memory=memory)

    async def remember(self, text: str, conversation: str = DEFAULT_CONVERSATION) -> Json:
        """Add a text; return how its sentences were read."""
        _check(text, conversation)
        await self._runner.run(text, user_id=USER_ID, session_id=conversation)
        newest = await self._newest(conversation)
        detail: Mapping[str, Any] = {} if newest is None else newest.detail
        read = [{"text": one["text"], "act": one["act"]} for one in detail.get("read", ())]
        return {"read": read, "dropped": list(detail.get("dropped", ()))}

    async def recall(self, query: str, conversation: str = DEFAULT_CONVERSATION) -> Json:
        """Return what the memory shows for a question; the question is not remembered.

        `tokens` is the size of the whole view, which also has earlier answers.
        """
        _check(query, conversation)
        newest = await self._newest(conversation)
        if newest is None:
            return {"memory": "", "tokens": 0}
        services = self._runner.services
        key = self._runner.session_key(USER_ID, conversation)
        memory = create_memory(MemoryScope(services, key, AGENT_NAME), self._memory)
        if isinstance(memory, RestorableMemoryPort):
            memory.restore(newest.detail["snapshot"])
        session = await services.sessions.read(key)
        turn_id = 1 if session is None else session.turns + 1
        view = await memory.view(TurnSignal(turn_id=turn_id, text=query))
        texts = [
            part_text(part)
            for message in view.messages
            if message.role == "user"
            for part in message.parts
        ]
        return {"memory": "\n".join([view.text, *texts]).strip(), "tokens": view.tokens}

    async def rules(self, conversation: str = DEFAULT_CONVERSATION) -> Json:
        """Return the rules that are active."""
        _check("rules", conversation)
        newest = await self._newest(conversation)
        if newest is None:
            return {"rules": [], "goal": ""}
        state = newest.detail["snapshot"]["ccs"]
        rules = [one["text"] for one in state["constraints"]]
        return {"rules": rules, "goal": state["goal_orientation"]}

    async def explain(self, query: str, conversation: str = DEFAULT_CONVERSATION) -> Json:
        """Return what became of statements, and why."""
        _check(query, conversation)
        key = self._runner.session_key(USER_ID, conversation)
        events = await self._runner.services.sessions.events(key)
        statements = [
            {
                "text": found.text,
                "history": [
                    {"turn": entry.turn, "step": entry.step.value, "reason": entry.reason}
                    for entry in found.entries
                ],
            }
            for found in explain_statements(events, query)
        ]
        return {"statements": statements}

    async def aclose(self) -> None:
        """Close the store."""
        await self._runner.aclose()

    async def _newest(self, conversation: str) -> Event | None:
        key = self._runner.session_key(USER_ID, conversation)
        return await self._runner.services.sessions.newest(
            key, kind=EventKind.MEMORY, author=AGENT_NAME
        )


def _check(text: object, conversation: object) -> None:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("the text must be a string that is not empty")
    if len(text) > MAX_TEXT_LENGTH:
        raise InvalidInput(f"the text has {len(text):,} characters; at most {MAX_TEXT_LENGTH:,}")
    is_name = isinstance(conversation, str) and conversation.strip() and conversation.isprintable()
    if not is_name or len(str(conversation)) > MAX_ID_LENGTH:
        raise InvalidInput(f"conversation must be a name of 1 to {MAX_ID_LENGTH} characters")
