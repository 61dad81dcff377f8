"""How far a judge agrees with itself: over its votes, and over the order of the answers."""

from collections.abc import Mapping
from typing import Any

from acc.domain.metrics import spread
from acc.domain.statistics import interval_alpha, nominal_alpha
from acc.domain.value_objects.evaluation import OUTCOME_NAMES, JudgeVotes


class Agreement:
    """Gathers the votes of a run."""

    def __init__(self) -> None:
        self._claims: list[tuple[str, ...]] = []
        self._constraints: list[tuple[str, ...]] = []
        self._scores: dict[str, list[tuple[float, ...]]] = {name: [] for name in OUTCOME_NAMES}
        self._turns: dict[str, list[float]] = {name: [] for name in OUTCOME_NAMES}

    def add(self, votes: JudgeVotes) -> None:
        """Take in the votes on one answer."""
        self._claims += votes.claims
        self._constraints += votes.constraints
        for name in OUTCOME_NAMES:
            for side in (votes.scores, votes.turned):
                self._scores[name].append(tuple(getattr(sheet, name) for sheet in side))
            if votes.scores and votes.turned:
                given, turned = (
                    sum(getattr(sheet, name) for sheet in side) / len(side)
                    for side in (votes.scores, votes.turned)
                )
                self._turns[name].append(given - turned)

    def measured(self) -> dict[str, Any]:
        """Return alpha of verdicts and scores, and what the order changed; empty without votes."""
        found: dict[str, Any] = {}
        if any(len(unit) > 1 for unit in (*self._claims, *self._scores[OUTCOME_NAMES[0]])):
            found["alpha"] = {
                "claims": _alpha(nominal_alpha(self._claims), self._claims),
                "constraints": _alpha(nominal_alpha(self._constraints), self._constraints),
                **{
                    name: _alpha(interval_alpha(self._scores[name]), self._scores[name])
                    for name in OUTCOME_NAMES
                },
            }
        if self._turns[OUTCOME_NAMES[0]]:
            found["order"] = {name: _turned(self._turns[name]) for name in OUTCOME_NAMES}
        return found


def policy_of(summary: Mapping[str, Any]) -> str:
    """Return in a few words who answered and who judged, and what that can show."""
    judge = summary["configuration"]["judge"]
    model = summary["configuration"].get("model", "embedded")
    if judge == "rubric" and model == "embedded":
        return (
            "Embedded model and rubric judge: this shows how memories behave under one fixed "
            "policy, and claims nothing about any language model."
        )
    answered = "" if model == "embedded" else f"The built-in agents answered with {model}. "
    if judge == "rubric":
        return f"{answered}The rubric judge scored their words by fixed rules."
    return (
        f"{answered}Judged by {judge}: a judge errs. How often, on labelled examples, tells "
        f"acc judge check --judge {judge}."
    )


def _alpha(value: float | None, units: Any) -> dict[str, Any]:
    counted = sum(len(unit) > 1 for unit in units)
    return {"value": None if value is None else round(value, 6), "units": counted}


def _turned(differences: list[float]) -> dict[str, Any]:
    found = spread([abs(value) for value in differences])
    return {
        "answers": len(differences),
        "mean_absolute": round(found.mean, 6) if found else None,
        "mean": round(sum(differences) / len(differences), 6),
        "changed": sum(value != 0 for value in differences),
    }
