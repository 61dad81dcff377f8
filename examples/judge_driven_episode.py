"""A judge-driven episode: each query is generated from the canonical memory of the judge.

Run it: python examples/judge_driven_episode.py
"""

import asyncio
from collections.abc import Mapping

from acc import EvaluationTurnQuery, LiveMultiAgentEvaluationUseCase, RubricJudge, make_agent


class QueryWriter:
    """States three facts, then asks for each fact in the canonical memory."""

    async def next_query(
        self, turn_id: int, canonical_memory: Mapping[str, object]
    ) -> EvaluationTurnQuery | None:
        """Return the next query, or None at the end."""
        statements = (
            "The on-call lead is Mara Lindqvist.",
            "The error budget is 0.5 %.",
            "Correction: the error budget is now 0.2 %.",
        )
        if turn_id <= len(statements):
            return EvaluationTurnQuery(turn_id=turn_id, query=statements[turn_id - 1])
        facts = canonical_memory["facts"]
        assert isinstance(facts, dict)
        question = turn_id - len(statements) - 1
        if question >= len(facts):
            return None
        text = list(facts.values())[question]["text"]
        subject = text.removeprefix("Correction: ").partition(" is ")[0]
        return EvaluationTurnQuery(turn_id=turn_id, query=f"What is {subject.lower()}?")


async def main() -> None:
    """Run one live episode and print the results."""
    agents = [make_agent("baseline", "transcript"), make_agent("acc", "acc")]
    use_case = LiveMultiAgentEvaluationUseCase(agents=agents, judge=RubricJudge())
    result = await use_case.run_episode(QueryWriter())
    for name, summary in result.summaries.items():
        assert summary.hallucination is not None
        print(f"{name}: {result.turns} turns, hallucination {summary.hallucination.mean:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
