"""Evaluate, build and connect agents whose memory stays bounded."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acc.adapters.evaluation.rubric_judge import RubricJudge
    from acc.application.memory import (
        AccMemory,
        OracleMemory,
        RetrievalMemory,
        TranscriptMemory,
    )
    from acc.application.use_cases.live_multi_agent_evaluation import (
        LiveMultiAgentEvaluationUseCase,
    )
    from acc.bootstrap import acc_memory, make_agent, make_memory
    from acc.domain.errors import AccError
    from acc.domain.value_objects.ccs import CompressedCognitiveState
    from acc.domain.value_objects.evaluation import (
        DriftAudit,
        HallucinationAudit,
        OutcomeScores,
    )
    from acc.domain.value_objects.live_evaluation import (
        AgentTurnResponse,
        EvaluationTurnQuery,
        JudgeAgentEvaluation,
        JudgeTurnResult,
    )
    from acc.domain.value_objects.turn import Decision, TurnSignal

_HOMES = {
    "AccError": "acc.domain.errors",
    "AccMemory": "acc.application.memory",
    "AgentTurnResponse": "acc.domain.value_objects.live_evaluation",
    "CompressedCognitiveState": "acc.domain.value_objects.ccs",
    "Decision": "acc.domain.value_objects.turn",
    "DriftAudit": "acc.domain.value_objects.evaluation",
    "EvaluationTurnQuery": "acc.domain.value_objects.live_evaluation",
    "HallucinationAudit": "acc.domain.value_objects.evaluation",
    "JudgeAgentEvaluation": "acc.domain.value_objects.live_evaluation",
    "JudgeTurnResult": "acc.domain.value_objects.live_evaluation",
    "LiveMultiAgentEvaluationUseCase": "acc.application.use_cases.live_multi_agent_evaluation",
    "OracleMemory": "acc.application.memory",
    "OutcomeScores": "acc.domain.value_objects.evaluation",
    "RetrievalMemory": "acc.application.memory",
    "RubricJudge": "acc.adapters.evaluation.rubric_judge",
    "TranscriptMemory": "acc.application.memory",
    "TurnSignal": "acc.domain.value_objects.turn",
    "acc_memory": "acc.bootstrap",
    "make_agent": "acc.bootstrap",
    "make_memory": "acc.bootstrap",
}

__all__ = [
    "AccError",
    "AccMemory",
    "AgentTurnResponse",
    "CompressedCognitiveState",
    "Decision",
    "DriftAudit",
    "EvaluationTurnQuery",
    "HallucinationAudit",
    "JudgeAgentEvaluation",
    "JudgeTurnResult",
    "LiveMultiAgentEvaluationUseCase",
    "OracleMemory",
    "OutcomeScores",
    "RetrievalMemory",
    "RubricJudge",
    "TranscriptMemory",
    "TurnSignal",
    "acc_memory",
    "make_agent",
    "make_memory",
]


if not TYPE_CHECKING:  # a type checker shall see the names above and no others

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used, so that `import acc` stays cheap."""
        if name not in _HOMES:
            raise AttributeError(f"module 'acc' has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
