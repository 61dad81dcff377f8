"""The results of an evaluation: their values, and the sentences that explain them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from acc.application.evaluation.configuration import PYTHON_REFERENCE, REMOTE_REFERENCE
from acc.domain.cost import Account, Accounts
from acc.domain.gates import GateResult

#: Metrics that are shown in percent.
RATES = frozenset({"hallucination", "drift"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResults:
    """The summary, the gates, the first error of each agent, and the report page."""

    summary: dict[str, Any]
    gates: tuple[GateResult, ...]
    first_errors: Mapping[str, str]
    report: Path


def cost_fields(accounts: Accounts, agents: Sequence[str]) -> dict[str, Any]:
    """Return the costs as plain data, per category and in total; `agents` gives the order."""
    rows = [
        {"category": category.value, "agent": agent, **_account_fields(account)}
        for category, agent, account in accounts.rows(agents)
    ]
    return {"currency": "USD", "spent": rows, "total": _account_fields(accounts.total)}


def _account_fields(account: Account) -> dict[str, Any]:
    cost = None if account.cost is None else round(account.cost, 9)
    return {**msgspec.to_builtins(account), "cost": cost}


def account_from_fields(fields: Mapping[str, Any]) -> Account:
    """Return the account of a row or total made by `cost_fields`."""
    return msgspec.convert(
        {name: value for name, value in fields.items() if name not in ("category", "agent")},
        Account,
    )


def fallback_notes(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every agent whose memory could not use its model."""
    counts = {agent: measures.get("fallbacks", 0) for agent, measures in summary["agents"].items()}
    return [
        f"{agent}: the rules wrote the memory of {count} turns because its model failed."
        for agent, count in counts.items()
        if count
    ]


def claimless_notes(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every agent in whose answers the judge found no claim."""
    return [
        f"{agent}: the judge found no claim in any of {measures['scored']} answers; its "
        "hallucination of 0 % is not meaningful."
        for agent, measures in summary["agents"].items()
        if measures["scored"] and measures.get("claims") == 0
    ]


def metric_text(metric: str, value: float | None, *, missing: str = "-") -> str:
    """Return the value of a metric with its unit; `missing` if it is not measured."""
    if value is None:
        return "not reported" if metric.endswith("memory_tokens") else missing
    if metric in RATES:
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if metric.endswith("memory_tokens") else f"{value:.2f}"


def describe_policy(summary: Mapping[str, Any]) -> str:
    """Return which model answered and which judge scored, and what the results can show."""
    configuration = summary["configuration"]
    judge, model = configuration["judge"], configuration["model"]
    own_code = (PYTHON_REFERENCE, REMOTE_REFERENCE)
    are_built_in = [not agent["kind"].startswith(own_code) for agent in configuration["agents"]]
    if judge == "rubric" and model == "embedded" and all(are_built_in):
        return (
            "Embedded model and rubric judge: this shows how memories behave under one fixed "
            "policy, and claims nothing about any language model."
        )
    answered = ""
    if any(are_built_in):
        name = "the embedded model, which is not a language model" if model == "embedded" else model
        answered = f"The built-in agents answered with {name}. "
    if judge == "rubric":
        return f"{answered}The rubric judge scored the answers by fixed rules."
    return (
        f"{answered}Judged by {judge}, which can be wrong; acc judge check --judge {judge} "
        "measures how often, on labelled examples."
    )
