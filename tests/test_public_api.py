"""What users may import from `acc`, and what importing it may load."""

import json
import subprocess
import sys

import pytest

import acc

PUBLIC = {
    "AccError",
    "AccMemory",
    "Agent",
    "AgentFailed",
    "AgentTool",
    "AgentTurnResponse",
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
    "ApprovalDecision",
    "acc_memory",
    "approve",
    "deny",
    "exit_loop",
    "make_agent",
    "make_memory",
    "tool",
}


def test_a_new_public_name_is_a_promise_made_on_purpose() -> None:
    assert acc.__all__ == sorted(acc.__all__)
    assert set(acc.__all__) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(acc, name) is not None
    assert name in dir(acc)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Elephant'"):
        _ = acc.Elephant  # type: ignore[attr-defined]


def test_importing_acc_loads_the_standard_library_and_msgspec_at_most() -> None:
    code = (
        "import sys, json; before = set(sys.modules); import acc;"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded - sys.stdlib_module_names - {"acc", "msgspec"} == set()
