"""Delegation packets: an intent with success conditions, a fallback, a budget and a deadline."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from acc.application.contracts.claims import CLAIMS
from acc.domain.contract_errors import FieldViolation, InvalidInputs, VaguePacket
from acc.domain.value_objects.contract import MAX_INTENT_NAME_LENGTH, IntentContract

log = logging.getLogger("acc.run")
#: A named check of a delegation: gets the outputs and the state, returns True if it is met.
Condition = Callable[[Mapping[str, Any], Mapping[str, Any]], bool]

#: Keys that only a delegation packet has.
PACKET_ONLY_KEYS = ("delegated_intent", "success_conditions", "fallback", "budget", "deadline")
PACKET_KEYS = (*PACKET_ONLY_KEYS, "context", "inputs", "memory")
#: What the fallback receives beside the inputs of the packet, if its contract names them.
REPORT_FIELDS = ("delegated_intent", "unmet_conditions", "reason")
_BUDGET_KEYS = ("llm_calls", "tool_calls", "tokens")
_MAX_CONDITIONS = 20
_PLACE = "packet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """How a delegated intent is judged, and what happens if it does not succeed.

    `success_conditions` are names of checks. `fallback` is another intent of the same agent.
    `budget` limits model calls, tool calls and tokens, and `deadline` is in seconds since the
    epoch.
    """

    success_conditions: tuple[str, ...]
    fallback: str
    budget: Mapping[str, int] = field(default_factory=dict)
    deadline: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the delegation as JSON data."""
        data: dict[str, Any] = {
            "success_conditions": list(self.success_conditions),
            "fallback": self.fallback,
        }
        if self.budget:
            data["budget"] = dict(self.budget)
        if self.deadline is not None:
            data["deadline"] = datetime.fromtimestamp(self.deadline, UTC).isoformat()
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationPacket:
    """A request that delegates an intent."""

    delegated_intent: str
    inputs: Mapping[str, Any]
    memory: Mapping[str, Any]
    context: Mapping[str, Any]
    delegation: Delegation


def is_packet(data: Mapping[str, Any]) -> bool:
    """Return True if a request is a delegation packet, or tries to be one."""
    if any(key in data for key in PACKET_ONLY_KEYS):
        return True
    return bool(data) and not {"inputs", "context", "memory"}.intersection(data) and "data" in data


def read_packet(data: Mapping[str, Any]) -> DelegationPacket:
    """Return the packet in JSON data; VaguePacket lists all parts that are missing.

    The entries of `context` are inputs of the intent, except for the claims about the request.
    """
    intent, context = data.get("delegated_intent"), data.get("context")
    missing: list[str] = []
    if not _is_name(intent):
        missing.append("delegated_intent: the name of the intent")
    if not isinstance(context, Mapping) or not context:
        missing.append("context: the data that the intent needs, such as an id")
    missing += _missing_parts(data)
    if missing or not isinstance(context, Mapping):
        raise VaguePacket(missing)
    unknown = [key for key in data if key not in PACKET_KEYS]
    violations = [FieldViolation(str(key)[:100], "unknown", "is unknown") for key in unknown[:5]]
    for name in ("inputs", "memory"):
        if not isinstance(data.get(name, {}), Mapping):
            violations.append(FieldViolation(name, "type", "must be an object"))
    if violations:
        raise InvalidInputs(str(intent), violations, place=_PLACE)
    values = {key: value for key, value in context.items() if key not in CLAIMS}
    return DelegationPacket(
        delegated_intent=str(intent),
        inputs={**values, **data.get("inputs", {})},
        memory=data.get("memory", {}),
        context={key: value for key, value in context.items() if key in CLAIMS},
        delegation=read_delegation(data),
    )


def read_delegation(data: Mapping[str, Any]) -> Delegation:
    """Return the conditions, fallback, budget and deadline in JSON data."""
    missing = _missing_parts(data)
    if missing:
        raise VaguePacket(missing)
    violations: list[FieldViolation] = []
    budget, deadline = data.get("budget", {}), data.get("deadline")
    if not isinstance(budget, Mapping) or not all(
        key in _BUDGET_KEYS and isinstance(n, int) and not isinstance(n, bool) and 0 < n < 2**53
        for key, n in budget.items()
    ):
        text = f"must be an object with positive integers: {', '.join(_BUDGET_KEYS)}"
        violations.append(FieldViolation("budget", "type", text))
    until = _timestamp(deadline) if deadline is not None else None
    if deadline is not None and until is None:
        text = "must be a time in the format of RFC 3339, such as 2026-01-31T09:00:00Z"
        violations.append(FieldViolation("deadline", "format", text))
    if len(data["success_conditions"]) > _MAX_CONDITIONS:
        text = f"must have at most {_MAX_CONDITIONS} names"
        violations.append(FieldViolation("success_conditions", "maxItems", text))
    if violations:
        raise InvalidInputs("", violations, place=_PLACE)
    return Delegation(
        success_conditions=tuple(dict.fromkeys(data["success_conditions"])),
        fallback=data["fallback"],
        budget=dict(budget),
        deadline=until,
    )


def check_conditions(
    delegation: Delegation, contract: IntentContract, conditions: Mapping[str, Condition]
) -> None:
    """Raise InvalidInputs if a condition is unknown.

    A condition is a named check of the agent, an output field, or a state key that the contract
    says the intent writes.
    """
    known = (*conditions, *contract.output_fields, *_written_keys(contract))
    violations = [
        FieldViolation(
            "success_conditions",
            "enum",
            f"names the unknown condition {name[:100]!r}; known are: {', '.join(known) or 'none'}",
        )
        for name in delegation.success_conditions
        if name not in known
    ]
    if violations:
        raise InvalidInputs(contract.name, violations, place=_PLACE)


def judge_conditions(
    delegation: Delegation,
    outputs: Mapping[str, Any],
    state: Mapping[str, Any],
    conditions: Mapping[str, Condition],
) -> dict[str, bool]:
    """Return which conditions are met; a check that raises an exception is logged and is not."""
    judged: dict[str, bool] = {}
    for name in delegation.success_conditions:
        check = conditions.get(name)
        if check is None:
            judged[name] = bool(outputs[name] if name in outputs else state.get(name))
            continue
        try:
            judged[name] = bool(check(outputs, state))
        except Exception:
            log.exception("the check of condition %r failed, so the condition is not met", name)
            judged[name] = False
    return judged


def fallback_inputs(
    contract: IntentContract, inputs: Mapping[str, Any], report: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the inputs of the fallback: what its contract names, or everything if it names none.

    `report` says what was delegated and why it did not succeed.
    """
    available = {**report, **inputs}
    fields = contract.input_fields
    return {name: value for name, value in available.items() if not fields or name in fields}


def _missing_parts(data: Mapping[str, Any]) -> list[str]:
    missing = []
    names = data.get("success_conditions")
    if not isinstance(names, list) or not names or not all(map(_is_name, names)):
        missing.append("success_conditions: a list of names of checks")
    if not _is_name(data.get("fallback")):
        missing.append("fallback: the intent that runs if a condition is not met")
    return missing


def _is_name(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= MAX_INTENT_NAME_LENGTH
        and value.isprintable()
        and bool(value.strip())
    )


def _written_keys(contract: IntentContract) -> tuple[str, ...]:
    return tuple(key for key in contract.writes if not set("*?[").intersection(key))


def _timestamp(value: object) -> float | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment is None:
            return None
        # The offset may lead to a year that does not exist.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return None
