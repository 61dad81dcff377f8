"""Agents under evaluation: one model, one memory."""

from collections.abc import Mapping

from acc.domain.ccs_schema import as_payload
from acc.domain.ccs_text import parse_text
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, EvaluationTurnQuery
from acc.domain.value_objects.turn import Decision, TurnSignal
from acc.ports.outbound.memory_ports import (
    CanonicalReaderPort,
    MemoryPort,
    MemoryView,
    RestorableMemoryPort,
)
from acc.ports.outbound.model_ports import LanguageModelPort, Prompt


class MemoryAgentRunner:
    """Answers with a model that sees what a memory shows it; the memory is the only difference."""

    def __init__(
        self,
        *,
        agent_name: str,
        model: LanguageModelPort,
        memory: MemoryPort,
        instruction: str = "",
    ) -> None:
        self._agent_name = agent_name
        self._model = model
        self._memory = memory
        self._instruction = instruction

    @property
    def agent_name(self) -> str:
        """Return the name under which its answers are recorded."""
        return self._agent_name

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Answer one turn from the memory's view and the query."""
        signal, view = await self._view(query, canonical_memory)
        prompt = Prompt(query=query.query, memory=view.text, instruction=self._instruction)
        answer = (await self._model.complete(prompt)).text
        await self._memory.keep(signal, Decision(turn_id=query.turn_id, text=answer))
        return AgentTurnResponse(
            agent_name=self._agent_name,
            response_text=answer,
            memory_tokens=view.tokens,
            trace=view.detail,
        )

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Bring the memory to where it was after a recorded turn; the model is not asked.

        A state that is on record is taken up; only where a turn failed is it worked out again.
        """
        signal = TurnSignal(turn_id=query.turn_id, text=query.query)
        recorded = response.trace.get("ccs")
        if isinstance(self._memory, RestorableMemoryPort) and isinstance(recorded, str):
            self._memory.restore(as_payload(parse_text(recorded)))
        else:
            await self._view(query, canonical_memory)
        if not response.error:
            await self._memory.keep(
                signal, Decision(turn_id=query.turn_id, text=response.response_text)
            )

    async def _view(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> tuple[TurnSignal, MemoryView]:
        if isinstance(self._memory, CanonicalReaderPort):
            self._memory.read_canonical(canonical_memory)
        signal = TurnSignal(turn_id=query.turn_id, text=query.query)
        return signal, await self._memory.view(signal)
