"""Turn records in, one summary an agent out."""

from collections.abc import Iterable, Mapping

from acc.domain.metrics import summarize
from acc.domain.value_objects.evaluation import AgentEvaluationSummary, AgentTurnEvaluationRecord


class AgentJudgeEvaluationUseCase:
    """Adds up what a judge found, agent by agent."""

    def summarize(
        self, records: Iterable[AgentTurnEvaluationRecord]
    ) -> Mapping[str, AgentEvaluationSummary]:
        """Return a summary for every agent that has a record, in order of first appearance."""
        listed = list(records)
        names = dict.fromkeys(record.agent_name for record in listed)
        return {name: summarize(name, listed) for name in names}
