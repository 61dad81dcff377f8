"""The rule about contracts: sections 1.2 (field names) and 2.2 (agents without a clear scope)."""

from typing import Any, Literal, TypedDict

import pytest
from lint_support import findings, rule
from seed_nodes import SummarizeTextNode

from acc import SequentialAgent
from acc.application.lint.structure_rules import Severity
from acc.contracts import Field, IntentAgent, intent


def test_section_2_2_vague_contract_is_reported() -> None:
    @intent
    def handle_request(inputs: dict[str, Any], memory: dict[str, Any]) -> dict[str, Any]:
        if "problem" in inputs.get("query", ""):
            return {"action": "investigate_issue"}
        return {"action": "general_response"}

    root = IntentAgent(name="root", intents=[handle_request, SummarizeTextNode()])
    ((severity, names, text),) = findings(root, "contracts")
    assert (severity, names) == (Severity.WARNING, ("handle_request",))
    assert "handle_request" in text
    assert "outputs are not declared" in text


def test_section_1_2_mismatched_fields_of_a_sequence_are_reported() -> None:
    @intent(inputs={"summary_text": Field(type=str)}, outputs={"translation": Field(type=str)})
    def translate(inputs: dict[str, Any]) -> dict[str, Any]:
        """Translate a summary to Japanese."""
        return {"translation": inputs["summary_text"]}

    root = SequentialAgent(name="root", sub_agents=[SummarizeTextNode(), translate])  # type: ignore[list-item] # nodes are converted
    ((severity, names, text),) = findings(root, "contracts")
    assert severity == Severity.PROBLEM
    assert names == ("translate", "summarize_text")
    assert "'summary_text'" in text
    assert "'summary'" in text


class Note(TypedDict):
    text: str


@pytest.mark.parametrize(
    ("given", "wanted", "matches"),
    [
        (int, str, False),
        (str, list[str], False),
        (Note, str, False),
        (bool, int, False),
        (int | None, str | Note, False),
        (Literal["short", "long"], int, False),
        (int, float, True),
        (float, int, True),
        (str | None, str, True),
        (Note | None, Note, True),
        (Literal["short"], str, True),
        (Any, str, True),
        (int, Any, True),
    ],
)
def test_section_1_2_field_with_another_type_is_reported(
    given: Any, wanted: Any, matches: bool
) -> None:
    @intent(inputs={"text": Field(type=str)}, outputs={"rating": Field(type=given)})
    def rate(inputs: dict[str, Any]) -> dict[str, Any]:
        """Rate the review of a customer."""
        return {"rating": 1}

    @intent(inputs={"rating": Field(type=wanted, required=False)}, outputs={"x": Field(type=str)})
    def publish(inputs: dict[str, Any]) -> dict[str, Any]:
        """Publish the rating of a customer."""
        return {"x": ""}

    root = SequentialAgent(name="root", sub_agents=[rate, publish])  # type: ignore[list-item] # nodes are converted
    found = [one for one in findings(root, "contracts") if "as the input 'rating'" in one[2]]
    assert [(severity, names) for severity, names, _ in found] == (
        [] if matches else [(Severity.PROBLEM, ("publish", "rate"))]
    )


def test_trees_without_contracts_are_not_checked() -> None:
    clear = IntentAgent(name="root", intents=[SummarizeTextNode()])
    assert rule(clear, "contracts").severity is Severity.OK
