"""An agent of your own in the live evaluation.

Run it: acc eval --agents baseline,acc,mine=python:my_agent:LastWords --scenario it-operations
(from the folder of this file; it takes part in every turn beside ours)
"""

from collections.abc import Mapping

from acc import AgentTurnResponse, EvaluationTurnQuery


class LastWords:
    """Remembers the last three queries and answers with the newest statement in them."""

    def __init__(self) -> None:
        self._heard: list[str] = []

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Answer one turn; acc makes a new LastWords for every episode."""
        self._heard = [*self._heard, query.query][-3:]
        statements = [s for text in self._heard for s in text.split(". ") if "?" not in s]
        return AgentTurnResponse(
            agent_name="mine",
            response_text=statements[-1] if statements else "I have heard nothing yet.",
            memory_tokens=sum(len(text.split()) for text in self._heard),
        )
