"""Wrong calls of public classes, functions and enumerations name the problem and the fix."""

from collections.abc import Callable
from typing import Any

import pytest

import acc
from acc import AccError, Plugin, RunStatus, Toolset, exit_loop, tool

ANY: Any = acc  # mistakes that type checkers would find
#: A call with an unknown option, and the option that the error suggests.
MISSPELLED: dict[str, tuple[str, str]] = {
    "AccMemory": ("max_tokens", "budget"),
    "AgentTool": ("agents", "agent"),
    "BaseTool": ("names", "name"),
    "CodeResult": ("exit_code", "exit_status"),
    "CompressedCognitiveState": ("constraint", "constraints"),
    "Event": ("autor", "author"),
    "InputRequest": ("kinds", "kind"),
    "LiveMultiAgentEvaluationUseCase": ("judges", "judge"),
    "ModelRequest": ("system_prompt", "instruction"),
    "MutualTls": ("certs", "cert"),
    "PartialOutput": ("autor", "author"),
    "RubricJudge": ("scenarios", "scenario"),
    "RunContext": ("agents", "agent"),
    "RunResult": ("run_ids", "run_id"),
    "Session": ("keys", "key"),
    "SupportFeatures": ("number", "numbers"),
    "SupportScore": ("scores", "score"),
    "ToolCall": ("args", "arguments"),
    "ToolContext": ("tool_call_id", "call_id"),
    "ToolResult": ("tool_call_id", "call_id"),
    "Usage": ("prompt_tokens", "input_tokens"),
    "exit_loop": ("context", "ctx"),
    "filter_memory": ("rule", "rules"),
    "open_worker": ("engines", "engine"),
}


def explained(call: Callable[[], object]) -> str:
    with pytest.raises(AccError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", MISSPELLED)
def test_unknown_option_names_the_nearest_one(name: str) -> None:
    option, expected = MISSPELLED[name]
    message = explained(lambda: getattr(ANY, name)(**{option: 1}))
    assert name in message
    assert f"{option!r}: use {expected}=..." in message


@pytest.mark.parametrize("name", sorted(MISSPELLED))
def test_option_without_similar_name_lists_the_valid_ones(name: str) -> None:
    message = explained(lambda: getattr(ANY, name)(zzz=1))
    assert "'zzz': choose from" in message
    assert MISSPELLED[name][1] in message


@pytest.mark.parametrize("name", sorted(MISSPELLED))
def test_too_many_arguments_are_explained(name: str) -> None:
    assert "options have names" in explained(lambda: getattr(ANY, name)(*range(20)))


@pytest.mark.parametrize(
    "name", sorted(set(MISSPELLED) - {"CompressedCognitiveState", "RubricJudge", "Usage"})
)
def test_missing_options_are_named(name: str) -> None:
    assert "needs " in explained(lambda: getattr(ANY, name)())


@pytest.mark.parametrize("name", ["Plugin", "Toolset", "disable_tracing"])
def test_callables_without_options_say_so(name: str) -> None:
    assert "no options" in explained(lambda: getattr(ANY, name)(model="x"))
    assert "takes no arguments" in explained(lambda: getattr(ANY, name)(1))


def test_subclasses_of_plugins_and_toolsets_may_have_constructors() -> None:
    class Named:
        def __init__(self, label: str) -> None:
            self.label = label

    class Own(Plugin[None]):
        def __init__(self, label: str) -> None:
            super().__init__()
            self.label = label

    class Mixed(Toolset[None], Named):
        name = "mixed"

    assert Own("a").label == "a"
    assert Mixed("b").label == "b"


@pytest.mark.parametrize(
    "name", ["ApprovalDecision", "CodeEnd", "EventKind", "RequestKind", "RunStatus"]
)
def test_enumerations_name_their_members(name: str) -> None:
    enumeration = getattr(ANY, name)
    first = next(iter(enumeration))
    message = explained(lambda: enumeration("zzz"))
    assert name in message
    assert first.value in message
    with pytest.raises(AttributeError, match=f"{name} has no member ZZZ: .*{first.name}"):
        _ = enumeration.ZZZ


def test_misspelled_member_names_the_nearest_one() -> None:
    assert "use completed" in explained(lambda: RunStatus("complete"))
    with pytest.raises(AttributeError, match="use COMPLETED"):
        _ = ANY.RunStatus.COMPLETE


def test_tool_that_is_called_in_the_list_of_tools_is_explained() -> None:
    assert "tools=[exit_loop]" in explained(lambda: ANY.Agent(name="a", tools=[exit_loop()]))  # type: ignore[call-arg]


def test_type_error_inside_of_a_tool_is_not_explained_away() -> None:
    @tool
    def add(x: int) -> int:
        """Add one."""
        return x + "1"  # type: ignore[operator]

    with pytest.raises(TypeError, match="unsupported operand"):
        add(1)
