import pytest

from acc.domain import errors


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (errors.AccError("x"), "internal", "x"),
        (errors.InvalidInput("x"), "invalid_input", "x"),
        (errors.InvalidState("constraints[2]", "is empty"), "invalid_state", "constraints[2]: is"),
        (
            errors.InvalidScenario("a.toml", ["turn 1: x", "turn 2: y"]),
            "invalid_scenario",
            "a.toml",
        ),
        (errors.InvalidTurnOrder(2, 4), "invalid_turn_order", "expected 2, got 4"),
        (errors.InvalidGate("x"), "invalid_gate", "x"),
        (errors.JudgeContractBroken(3, {"b", "a"}, {"c"}), "judge_contract_broken", "['a', 'b']"),
        (errors.RunMismatch("out", ["seed: 0, not 1"]), "run_mismatch", "  seed: 0, not 1"),
        (errors.RunDamaged("x"), "run_damaged", "x"),
        (errors.StorageFailed("x"), "storage_failed", "x"),
        (errors.InvalidResponse("x"), "answer_unreadable", "x"),
        (errors.RemoteRejected("shop", "no stock"), "remote_rejected", "is rejected: no stock"),
    ],
)
def test_error_has_stable_code_and_message(error: errors.AccError, code: str, message: str) -> None:
    assert error.code == code
    assert message in str(error)


def test_scenario_error_prefixes_every_fault_with_file() -> None:
    error = errors.InvalidScenario("a.toml", ["turn 1: x", "turn 2: y"])
    assert str(error).splitlines() == ["a.toml: turn 1: x", "a.toml: turn 2: y"]
    assert error.faults == ("turn 1: x", "turn 2: y")


def test_model_failure_needs_fix_depends_on_reason() -> None:
    assert errors.ModelFailed("no", reason="key_refused").is_configuration_error
    assert not errors.ModelFailed("no", reason="rate_limit").is_configuration_error
    assert not errors.ModelFailed("no").is_configuration_error
