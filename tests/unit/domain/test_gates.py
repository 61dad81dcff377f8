import pytest

from acc.domain.errors import InvalidGate
from acc.domain.gates import Gate, Measures

MEASURES: Measures = {"acc": {"drift": 0.05, "outcome": None}, "base-line": {"drift": 0.25}}


@pytest.mark.parametrize(
    ("text", "failed", "explanation"),
    [
        ("acc.drift > 0.04", True, "acc.drift is 0.05"),
        ("acc.drift > 0.05", False, "acc.drift is 0.05"),
        (" acc.drift>=5e-2 ", True, "acc.drift is 0.05"),
        ("acc.drift < base-line.drift", True, "acc.drift is 0.05, base-line.drift is 0.25"),
        ("acc.drift <= -1", False, "acc.drift is 0.05"),
        ("acc.drift == 0.05", True, "acc.drift is 0.05"),
        ("acc.drift != 0.05", False, "acc.drift is 0.05"),
        ("0.1 > acc.drift", True, "acc.drift is 0.05"),
        ("acc.outcome < 8", True, "acc.outcome has no value"),
        ("8 > acc.outcome", True, "acc.outcome has no value"),
        ("acc.missing < 8", True, "acc.missing has no value"),
        ("2 > 1", True, "refers to no agent"),
    ],
)
def test_gate_fails_if_condition_is_true_or_undefined(
    text: str, failed: bool, explanation: str
) -> None:
    result = Gate.parse(text).evaluate(MEASURES)
    assert (result.gate, result.failed, result.explanation) == (text.strip(), failed, explanation)


@pytest.mark.parametrize("text", ["", "acc.drift", "acc.drift = 1", "acc > 1", "a.b > 1 > 2"])
def test_unreadable_gate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidGate, match='for example "acc.drift > 0.05"'):
        Gate.parse(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("ghost.drift > 0.05", "unknown agent 'ghost'; agents: acc, base-line"),
        ("acc.speed > 1", "unknown metric 'speed'; metrics: outcome, relevance, "),
        ("acc.drift > ghost.drift", "unknown agent 'ghost'"),
    ],
)
def test_gate_with_unknown_name_lists_known_names(text: str, fault: str) -> None:
    with pytest.raises(InvalidGate, match=fault):
        Gate.parse(text).check_names(MEASURES)


def test_gate_with_known_names_is_accepted() -> None:
    Gate.parse("acc.drift > 0.05").check_names(MEASURES)
    Gate.parse("3 < base-line.drift").check_names(MEASURES)
