"""Summarize the turn records of each agent."""

from collections.abc import Iterable, Mapping

from acc.domain.metrics import summarize
from acc.domain.value_objects.evaluation import AgentEvaluationSummary, AgentTurnEvaluationRecord


class AgentJudgeEvaluationUseCase:
    """Summarizes the turn records of a judge by agent."""

    def summarize(
        self, records: Iterable[AgentTurnEvaluationRecord]
    ) -> Mapping[str, AgentEvaluationSummary]:
        """Return a summary for every agent that has a record, in order of first appearance."""
        listed = list(records)
        names = dict.fromkeys(record.agent_name for record in listed)
        return {name: summarize(name, listed) for name in names}
