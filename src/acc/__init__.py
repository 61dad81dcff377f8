"""Evaluate, build and connect agents with a bounded memory."""
# ruff: noqa: I001 - explicit re-exports, grouped by module

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acc.adapters.code.sandbox import SandboxedCodeExecutor as SandboxedCodeExecutor
    from acc.adapters.evaluation.rubric_judge import RubricJudge as RubricJudge
    from acc.application.agents.base import BaseAgent as BaseAgent
    from acc.application.agents.callbacks import Plugin as Plugin
    from acc.application.agents.function import FunctionAgent as FunctionAgent
    from acc.application.agents.graph import Edge as Edge, GraphAgent as GraphAgent
    from acc.application.agents.llm import Agent as Agent, LlmAgent as LlmAgent
    from acc.application.agents.output import PartialOutput as PartialOutput
    from acc.application.agents.planner import (
        NativeThinking as NativeThinking,
        PlanFirst as PlanFirst,
    )
    from acc.application.agents.router import RouterAgent as RouterAgent
    from acc.application.agents.workflow import (
        LoopAgent as LoopAgent,
        ParallelAgent as ParallelAgent,
        SequentialAgent as SequentialAgent,
    )
    from acc.application.memory.acc import AccMemory as AccMemory
    from acc.application.memory.baselines import (
        OracleMemory as OracleMemory,
        RetrievalMemory as RetrievalMemory,
        TranscriptMemory as TranscriptMemory,
    )
    from acc.application.runtime.agent_memory import MemoryName as MemoryName
    from acc.application.runtime.context import RunContext as RunContext
    from acc.application.runtime.result import RunResult as RunResult
    from acc.application.runtime.state import filter_memory as filter_memory
    from acc.application.tools.function_tool import (
        FunctionTool as FunctionTool,
        exit_loop as exit_loop,
        tool as tool,
    )
    from acc.application.tools.mcp import McpToolset as McpToolset
    from acc.application.tools.tool import (
        AgentTool as AgentTool,
        BaseTool as BaseTool,
        ToolContext as ToolContext,
    )
    from acc.application.tools.toolset import Toolset as Toolset
    from acc.application.use_cases.live_multi_agent_evaluation import (
        LiveMultiAgentEvaluationUseCase as LiveMultiAgentEvaluationUseCase,
    )
    from acc.bootstrap.a2a_client import RemoteAgent as RemoteAgent
    from acc.bootstrap.agents import Runner as Runner
    from acc.bootstrap.evaluation import make_agent as make_agent
    from acc.bootstrap.memory import acc_memory as acc_memory, make_memory as make_memory
    from acc.bootstrap.models import ProviderModel as ProviderModel
    from acc.bootstrap.tracing import disable_tracing as disable_tracing
    from acc.bootstrap.tracing import enable_tracing as enable_tracing
    from acc.bootstrap.worker import open_worker as open_worker
    from acc.domain.errors import (
        AccError as AccError,
        AgentFailed as AgentFailed,
        BudgetExceeded as BudgetExceeded,
        EmbeddedModelWarning as EmbeddedModelWarning,
        InvalidInput as InvalidInput,
        InvalidTree as InvalidTree,
        ModelFailed as ModelFailed,
        ModelOutputInvalid as ModelOutputInvalid,
        ModelRetry as ModelRetry,
        NoRoute as NoRoute,
        NothingPending as NothingPending,
        OutputUnavailable as OutputUnavailable,
        RemoteFailed as RemoteFailed,
        RunTimedOut as RunTimedOut,
        SessionBusy as SessionBusy,
        SessionWaiting as SessionWaiting,
        StateConflict as StateConflict,
        StorageFailed as StorageFailed,
        ToolFailed as ToolFailed,
        TransferLoop as TransferLoop,
        Unavailable as Unavailable,
    )
    from acc.domain.claim_support import (
        SupportFeatures as SupportFeatures,
        SupportScore as SupportScore,
        support_score as support_score,
    )
    from acc.domain.value_objects.approval import (
        ApprovalDecision as ApprovalDecision,
        InputAnswer as InputAnswer,
        InputRequest as InputRequest,
        RequestKind as RequestKind,
        approve as approve,
        deny as deny,
    )
    from acc.domain.value_objects.ccs import CompressedCognitiveState as CompressedCognitiveState
    from acc.domain.value_objects.code import CodeEnd as CodeEnd, CodeResult as CodeResult
    from acc.domain.value_objects.content import (
        ChatMessage as ChatMessage,
        Part as Part,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
        Usage as Usage,
    )
    from acc.domain.value_objects.evaluation import (
        DriftAudit as DriftAudit,
        HallucinationAudit as HallucinationAudit,
        OutcomeScores as OutcomeScores,
    )
    from acc.domain.value_objects.event import Event as Event, EventKind as EventKind
    from acc.domain.value_objects.flow import ToolLabels as ToolLabels
    from acc.domain.value_objects.live_evaluation import (
        AgentTurnResponse as AgentTurnResponse,
        EvaluationTurnQuery as EvaluationTurnQuery,
        JudgeAgentEvaluation as JudgeAgentEvaluation,
        JudgeTurnResult as JudgeTurnResult,
    )
    from acc.domain.value_objects.memory import (
        ConversationTurn as ConversationTurn,
        TurnSignal as TurnSignal,
    )
    from acc.domain.value_objects.credentials import (
        ApiKey as ApiKey,
        BasicAuth as BasicAuth,
        ClientCredentials as ClientCredentials,
        MutualTls as MutualTls,
        SignedJwt as SignedJwt,
    )
    from acc.domain.value_objects.run import (
        CallContext as CallContext,
        Grant as Grant,
        RunConfig as RunConfig,
        RunStatus as RunStatus,
    )
    from acc.domain.value_objects.session import Session as Session
    from acc.ports.outbound.code_ports import CodeExecutorPort as CodeExecutorPort
    from acc.ports.outbound.memory_ports import MemoryPort as MemoryPort, MemoryView as MemoryView
    from acc.ports.outbound.model_ports import (
        ModelRequest as ModelRequest,
        ModelResponse as ModelResponse,
        ModelSettings as ModelSettings,
        ToolSpec as ToolSpec,
    )

#: The public names by the module that defines them. Type checkers use the block above, which
#: tests/test_public_api.py compares with this table.
_PUBLIC_NAMES = {
    "acc.adapters.code.sandbox": ("SandboxedCodeExecutor",),
    "acc.adapters.evaluation.rubric_judge": ("RubricJudge",),
    "acc.application.agents.base": ("BaseAgent",),
    "acc.application.agents.callbacks": ("Plugin",),
    "acc.application.agents.function": ("FunctionAgent",),
    "acc.application.agents.graph": ("Edge", "GraphAgent"),
    "acc.application.agents.llm": ("Agent", "LlmAgent"),
    "acc.application.agents.output": ("PartialOutput",),
    "acc.application.agents.planner": ("NativeThinking", "PlanFirst"),
    "acc.application.agents.router": ("RouterAgent",),
    "acc.application.agents.workflow": ("LoopAgent", "ParallelAgent", "SequentialAgent"),
    "acc.application.memory.acc": ("AccMemory",),
    "acc.application.memory.baselines": ("OracleMemory", "RetrievalMemory", "TranscriptMemory"),
    "acc.application.runtime.agent_memory": ("MemoryName",),
    "acc.application.runtime.context": ("RunContext",),
    "acc.application.runtime.result": ("RunResult",),
    "acc.application.runtime.state": ("filter_memory",),
    "acc.application.tools.function_tool": ("FunctionTool", "exit_loop", "tool"),
    "acc.application.tools.mcp": ("McpToolset",),
    "acc.application.tools.tool": ("AgentTool", "BaseTool", "ToolContext"),
    "acc.application.tools.toolset": ("Toolset",),
    "acc.application.use_cases.live_multi_agent_evaluation": ("LiveMultiAgentEvaluationUseCase",),
    "acc.bootstrap.a2a_client": ("RemoteAgent",),
    "acc.bootstrap.agents": ("Runner",),
    "acc.bootstrap.evaluation": ("make_agent",),
    "acc.bootstrap.memory": ("acc_memory", "make_memory"),
    "acc.bootstrap.models": ("ProviderModel",),
    "acc.bootstrap.tracing": ("disable_tracing", "enable_tracing"),
    "acc.bootstrap.worker": ("open_worker",),
    "acc.domain.errors": (
        "AccError",
        "AgentFailed",
        "BudgetExceeded",
        "EmbeddedModelWarning",
        "InvalidInput",
        "InvalidTree",
        "ModelFailed",
        "ModelOutputInvalid",
        "ModelRetry",
        "NoRoute",
        "NothingPending",
        "OutputUnavailable",
        "RemoteFailed",
        "RunTimedOut",
        "SessionBusy",
        "SessionWaiting",
        "StateConflict",
        "StorageFailed",
        "ToolFailed",
        "TransferLoop",
        "Unavailable",
    ),
    "acc.domain.claim_support": ("SupportFeatures", "SupportScore", "support_score"),
    "acc.domain.value_objects.approval": (
        "ApprovalDecision",
        "InputAnswer",
        "InputRequest",
        "RequestKind",
        "approve",
        "deny",
    ),
    "acc.domain.value_objects.ccs": ("CompressedCognitiveState",),
    "acc.domain.value_objects.code": ("CodeEnd", "CodeResult"),
    "acc.domain.value_objects.content": ("ChatMessage", "Part", "ToolCall", "ToolResult", "Usage"),
    "acc.domain.value_objects.evaluation": ("DriftAudit", "HallucinationAudit", "OutcomeScores"),
    "acc.domain.value_objects.event": ("Event", "EventKind"),
    "acc.domain.value_objects.flow": ("ToolLabels",),
    "acc.domain.value_objects.live_evaluation": (
        "AgentTurnResponse",
        "EvaluationTurnQuery",
        "JudgeAgentEvaluation",
        "JudgeTurnResult",
    ),
    "acc.domain.value_objects.memory": ("ConversationTurn", "TurnSignal"),
    "acc.domain.value_objects.credentials": (
        "ApiKey",
        "BasicAuth",
        "ClientCredentials",
        "MutualTls",
        "SignedJwt",
    ),
    "acc.domain.value_objects.run": ("CallContext", "Grant", "RunConfig", "RunStatus"),
    "acc.domain.value_objects.session": ("Session",),
    "acc.ports.outbound.code_ports": ("CodeExecutorPort",),
    "acc.ports.outbound.memory_ports": ("MemoryPort", "MemoryView"),
    "acc.ports.outbound.model_ports": (
        "ModelRequest",
        "ModelResponse",
        "ModelSettings",
        "ToolSpec",
    ),
}
_MODULES = {name: module for module, names in _PUBLIC_NAMES.items() for name in names}

__all__ = sorted(_MODULES)


if not TYPE_CHECKING:  # type checkers use the imports above

    def __getattr__(name: str) -> object:
        """Import a public name on first use, so that `import acc` stays fast."""
        if name not in _MODULES:
            advice = ""
            if not name.startswith("_"):
                similar = [known for known in __all__ if known.lower() == name.lower()]
                similar = similar or import_module("difflib").get_close_matches(name, __all__, 1)
                advice = f": did you mean {similar[0]}?" if similar else ""
            raise AttributeError(f"module 'acc' has no attribute {name!r}{advice}")
        value = getattr(import_module(_MODULES[name]), name)
        if _MODULES[name].startswith("acc.application.agents."):
            import_module("acc.bootstrap.agent_runner")  # what `agent.run("hello")` needs
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
