"""Your own agent in the live evaluation.

Run it in the folder of this file, together with the agents of acc:
acc eval --agents baseline,acc,mine=python:my_agent:RecentStatements --scenario it-operations
"""

from collections.abc import Mapping

from acc import AgentTurnResponse, EvaluationTurnQuery


class RecentStatements:
    """Remembers the last three queries and answers with the newest statement in them."""

    def __init__(self) -> None:
        self._queries: list[str] = []

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Answer one turn; acc creates a new object for every episode."""
        self._queries = [*self._queries, query.query][-3:]
        statements = [s for text in self._queries for s in text.split(". ") if "?" not in s]
        return AgentTurnResponse(
            agent_name="mine",
            response_text=statements[-1] if statements else "I have no information yet.",
            memory_tokens=sum(len(text.split()) for text in self._queries),
        )
