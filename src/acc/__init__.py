"""Evaluate, build and connect agents whose memory stays bounded."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acc.adapters.evaluation.rubric_judge import RubricJudge
    from acc.application.agents.base import BaseAgent
    from acc.application.agents.graph import Edge, GraphAgent
    from acc.application.agents.llm import Agent, LlmAgent
    from acc.application.agents.remote import RemoteAgent
    from acc.application.agents.router import RouterAgent
    from acc.application.agents.workflow import LoopAgent, ParallelAgent, SequentialAgent
    from acc.application.memory.acc import AccMemory
    from acc.application.memory.baselines import OracleMemory, RetrievalMemory, TranscriptMemory
    from acc.application.runtime.context import RunContext, RunResult
    from acc.application.tools.mcp import McpToolset
    from acc.application.tools.tool import AgentTool, FunctionTool, ToolContext, exit_loop, tool
    from acc.application.use_cases.live_multi_agent_evaluation import (
        LiveMultiAgentEvaluationUseCase,
    )
    from acc.bootstrap.agents import Runner
    from acc.bootstrap.evaluation import make_agent
    from acc.bootstrap.memory import acc_memory, make_memory
    from acc.bootstrap.models import ProviderModel
    from acc.domain.errors import (
        AccError,
        AgentFailed,
        BudgetExceeded,
        InvalidInput,
        InvalidTree,
        ModelFailed,
        ModelOutputInvalid,
        NoRoute,
        NothingPending,
        RemoteFailed,
        RunTimedOut,
        SessionBusy,
        SessionWaiting,
        StateConflict,
        StorageFailed,
        TransferLoop,
    )
    from acc.domain.value_objects.approval import (
        ApprovalDecision,
        InputAnswer,
        InputRequest,
        RequestKind,
        approve,
        deny,
    )
    from acc.domain.value_objects.ccs import CompressedCognitiveState
    from acc.domain.value_objects.content import Part, ToolCall, ToolResult, Usage
    from acc.domain.value_objects.evaluation import DriftAudit, HallucinationAudit, OutcomeScores
    from acc.domain.value_objects.event import Event, EventKind
    from acc.domain.value_objects.live_evaluation import (
        AgentTurnResponse,
        EvaluationTurnQuery,
        JudgeAgentEvaluation,
        JudgeTurnResult,
    )
    from acc.domain.value_objects.memory import Decision, TurnSignal
    from acc.domain.value_objects.run import CallContext, Grant, RunConfig, RunStatus
    from acc.ports.outbound.memory_ports import MemoryPort, MemoryView
    from acc.ports.outbound.model_ports import ModelAnswer, Prompt, PromptMessage

_HOMES = {
    "AccError": "acc.domain.errors",
    "AccMemory": "acc.application.memory.acc",
    "Agent": "acc.application.agents.llm",
    "AgentFailed": "acc.domain.errors",
    "AgentTool": "acc.application.tools.tool",
    "AgentTurnResponse": "acc.domain.value_objects.live_evaluation",
    "ApprovalDecision": "acc.domain.value_objects.approval",
    "BaseAgent": "acc.application.agents.base",
    "BudgetExceeded": "acc.domain.errors",
    "CallContext": "acc.domain.value_objects.run",
    "CompressedCognitiveState": "acc.domain.value_objects.ccs",
    "Decision": "acc.domain.value_objects.memory",
    "DriftAudit": "acc.domain.value_objects.evaluation",
    "Edge": "acc.application.agents.graph",
    "EvaluationTurnQuery": "acc.domain.value_objects.live_evaluation",
    "Event": "acc.domain.value_objects.event",
    "EventKind": "acc.domain.value_objects.event",
    "FunctionTool": "acc.application.tools.tool",
    "Grant": "acc.domain.value_objects.run",
    "GraphAgent": "acc.application.agents.graph",
    "HallucinationAudit": "acc.domain.value_objects.evaluation",
    "InputAnswer": "acc.domain.value_objects.approval",
    "InputRequest": "acc.domain.value_objects.approval",
    "InvalidInput": "acc.domain.errors",
    "InvalidTree": "acc.domain.errors",
    "JudgeAgentEvaluation": "acc.domain.value_objects.live_evaluation",
    "JudgeTurnResult": "acc.domain.value_objects.live_evaluation",
    "LiveMultiAgentEvaluationUseCase": "acc.application.use_cases.live_multi_agent_evaluation",
    "LlmAgent": "acc.application.agents.llm",
    "LoopAgent": "acc.application.agents.workflow",
    "McpToolset": "acc.application.tools.mcp",
    "MemoryPort": "acc.ports.outbound.memory_ports",
    "MemoryView": "acc.ports.outbound.memory_ports",
    "ModelAnswer": "acc.ports.outbound.model_ports",
    "ModelFailed": "acc.domain.errors",
    "ModelOutputInvalid": "acc.domain.errors",
    "NoRoute": "acc.domain.errors",
    "NothingPending": "acc.domain.errors",
    "OracleMemory": "acc.application.memory.baselines",
    "OutcomeScores": "acc.domain.value_objects.evaluation",
    "ParallelAgent": "acc.application.agents.workflow",
    "Part": "acc.domain.value_objects.content",
    "Prompt": "acc.ports.outbound.model_ports",
    "PromptMessage": "acc.ports.outbound.model_ports",
    "ProviderModel": "acc.bootstrap.models",
    "RemoteAgent": "acc.application.agents.remote",
    "RemoteFailed": "acc.domain.errors",
    "RequestKind": "acc.domain.value_objects.approval",
    "RetrievalMemory": "acc.application.memory.baselines",
    "RouterAgent": "acc.application.agents.router",
    "RubricJudge": "acc.adapters.evaluation.rubric_judge",
    "RunConfig": "acc.domain.value_objects.run",
    "RunContext": "acc.application.runtime.context",
    "RunResult": "acc.application.runtime.context",
    "RunStatus": "acc.domain.value_objects.run",
    "RunTimedOut": "acc.domain.errors",
    "Runner": "acc.bootstrap.agents",
    "SequentialAgent": "acc.application.agents.workflow",
    "SessionBusy": "acc.domain.errors",
    "SessionWaiting": "acc.domain.errors",
    "StateConflict": "acc.domain.errors",
    "StorageFailed": "acc.domain.errors",
    "ToolCall": "acc.domain.value_objects.content",
    "ToolContext": "acc.application.tools.tool",
    "ToolResult": "acc.domain.value_objects.content",
    "TranscriptMemory": "acc.application.memory.baselines",
    "TransferLoop": "acc.domain.errors",
    "TurnSignal": "acc.domain.value_objects.memory",
    "Usage": "acc.domain.value_objects.content",
    "acc_memory": "acc.bootstrap.memory",
    "approve": "acc.domain.value_objects.approval",
    "deny": "acc.domain.value_objects.approval",
    "exit_loop": "acc.application.tools.tool",
    "make_agent": "acc.bootstrap.evaluation",
    "make_memory": "acc.bootstrap.memory",
    "tool": "acc.application.tools.tool",
}

__all__ = [
    "AccError",
    "AccMemory",
    "Agent",
    "AgentFailed",
    "AgentTool",
    "AgentTurnResponse",
    "ApprovalDecision",
    "BaseAgent",
    "BudgetExceeded",
    "CallContext",
    "CompressedCognitiveState",
    "Decision",
    "DriftAudit",
    "Edge",
    "EvaluationTurnQuery",
    "Event",
    "EventKind",
    "FunctionTool",
    "Grant",
    "GraphAgent",
    "HallucinationAudit",
    "InputAnswer",
    "InputRequest",
    "InvalidInput",
    "InvalidTree",
    "JudgeAgentEvaluation",
    "JudgeTurnResult",
    "LiveMultiAgentEvaluationUseCase",
    "LlmAgent",
    "LoopAgent",
    "McpToolset",
    "MemoryPort",
    "MemoryView",
    "ModelAnswer",
    "ModelFailed",
    "ModelOutputInvalid",
    "NoRoute",
    "NothingPending",
    "OracleMemory",
    "OutcomeScores",
    "ParallelAgent",
    "Part",
    "Prompt",
    "PromptMessage",
    "ProviderModel",
    "RemoteAgent",
    "RemoteFailed",
    "RequestKind",
    "RetrievalMemory",
    "RouterAgent",
    "RubricJudge",
    "RunConfig",
    "RunContext",
    "RunResult",
    "RunStatus",
    "RunTimedOut",
    "Runner",
    "SequentialAgent",
    "SessionBusy",
    "SessionWaiting",
    "StateConflict",
    "StorageFailed",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "TranscriptMemory",
    "TransferLoop",
    "TurnSignal",
    "Usage",
    "acc_memory",
    "approve",
    "deny",
    "exit_loop",
    "make_agent",
    "make_memory",
    "tool",
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
