"""The rule about contracts of intents: vague contracts, and fields that do not match."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from acc.application.agents.base import BaseAgent
from acc.application.agents.workflow import SequentialAgent
from acc.application.contracts.schemas import contract_of_agent
from acc.application.lint.structure_rules import RuleResult, problem, warning
from acc.domain.contract_changes import field_types
from acc.domain.value_objects.contract import IntentContract

#: Names and words that say nothing about what an intent does.
_VAGUE_WORDS = frozenset(
    (
        *("do", "handle", "handler", "process", "manage", "run", "execute", "call", "work", "it"),
        *("request", "requests", "task", "job", "thing", "things", "stuff", "data", "input"),
        *("something", "anything", "general", "generic", "misc", "main"),
    )
)
_VAGUE_JAPANESE = ("処理する", "処理を行", "対応する", "いろいろ", "何でも", "なんでも", "汎用")
_WORDS = re.compile(r"[a-z]+")
_MIN_DESCRIPTION_WORDS = 3
_MAX_VAGUE_CHARACTERS = 14
_MIN_DESCRIPTION_CHARACTERS = 8


class FieldMismatch(NamedTuple):
    """An input field that no earlier agent provides, and a similar output field."""

    consumer: str
    field: str
    producer: str
    similar: str


class TypeMismatch(NamedTuple):
    """An input field whose value, from an earlier agent, has none of the accepted JSON types."""

    consumer: str
    field: str
    wanted: frozenset[str]
    producer: str
    given: frozenset[str]


def check_contracts(agents: Sequence[BaseAgent]) -> RuleResult:
    """Find vague contracts, and inputs whose name differs from the output that provides them."""
    contracts = {agent.name: contract for agent in agents if (contract := contract_of_agent(agent))}
    findings = [
        warning(
            f"the contract of intent {contract.name!r} is vague: {'; '.join(vague)}",
            name,
            fix="name what the intent does, describe it, and declare its inputs and outputs",
        )
        for name, contract in contracts.items()
        if (vague := vague_parts(contract))
    ]
    for agent in agents:
        if isinstance(agent, SequentialAgent):
            steps = [
                (one.name, contracts[one.name]) for one in agent.sub_agents if one.name in contracts
            ]
            findings += [
                problem(
                    f"requires the input {found.field!r}, but {found.producer!r} provides "
                    f"{found.similar!r}",
                    found.consumer,
                    found.producer,
                    fix=f"use the name {found.similar!r} in both contracts",
                )
                for found in find_mismatches(steps)
            ]
            findings += [
                problem(
                    f"requires {_join(found.wanted)} as the input {found.field!r}, but "
                    f"{found.producer!r} provides {_join(found.given)}",
                    found.consumer,
                    found.producer,
                    fix=f"declare the same type of {found.field!r} in both contracts",
                )
                for found in find_type_mismatches(steps)
            ]
    return RuleResult(applies=bool(contracts), findings=tuple(findings))


def vague_parts(contract: IntentContract) -> tuple[str, ...]:
    """Return what a contract leaves open; an empty tuple if it is precise."""
    found: list[str] = []
    words = _WORDS.findall(contract.name.lower())
    if words and all(word in _VAGUE_WORDS for word in words):
        found.append(f"the name {contract.name!r} does not say what is done")
    if not _is_clear(contract.description):
        found.append("the description does not say what the intent does")
    if not contract.input_fields:
        found.append("the inputs are not declared")
    if not contract.output_fields:
        found.append("the outputs are not declared")
    untyped = [
        name
        for fields in (contract.input_fields, contract.output_fields)
        for name, schema in fields.items()
        if not _constraints(schema)
    ]
    if untyped:
        found.append(f"fields without a type: {', '.join(untyped)}")
    return tuple(found)


def find_mismatches(
    steps: Sequence[tuple[str, IntentContract]], provided: Sequence[str] = ()
) -> tuple[FieldMismatch, ...]:
    """Return required inputs of later steps that resemble an output but do not match it.

    `steps` are the agents of a sequence with their contracts, `provided` the names of state keys.
    """
    mismatches: list[FieldMismatch] = []
    available: dict[str, str] = dict.fromkeys(provided, "")
    for number, (consumer, contract) in enumerate(steps):
        for field in contract.required_inputs:
            if number == 0 or field in available:
                continue
            similar = _similar(field, available)
            if similar:
                mismatches.append(FieldMismatch(consumer, field, available[similar], similar))
        available |= dict.fromkeys(contract.input_fields, consumer)
        available |= dict.fromkeys(contract.output_fields, consumer)
    return tuple(mismatches)


def find_type_mismatches(
    steps: Sequence[tuple[str, IntentContract]],
) -> tuple[TypeMismatch, ...]:
    """Return inputs of later steps that cannot accept the output of the same name."""
    mismatches: list[TypeMismatch] = []
    given: dict[str, tuple[str, frozenset[str]]] = {}
    for consumer, contract in steps:
        for field in contract.input_fields:
            producer, provided = given.get(field, ("", frozenset[str]()))
            wanted = field_types(contract.input_schema, field)
            if provided and wanted and not _numeric(provided) & _numeric(wanted):
                mismatches.append(TypeMismatch(consumer, field, wanted, producer, provided))
        for field in contract.output_fields:
            given[field] = (consumer, field_types(contract.output_schema, field))
    return tuple(mismatches)


def _numeric(types: frozenset[str]) -> frozenset[str]:
    """Return types with integers as numbers: a number may be an integer."""
    return frozenset("number" if one == "integer" else one for one in types)


def _join(types: frozenset[str]) -> str:
    return " or ".join(sorted(types))


def _constraints(schema: Mapping[str, Any]) -> bool:
    return any(
        key in schema for key in ("type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref")
    )


def _is_clear(description: str) -> bool:
    text = description.strip()
    if (
        any(phrase in text for phrase in _VAGUE_JAPANESE)
        and len(text) < 2 * _MIN_DESCRIPTION_WORDS + 8
    ):
        return False
    if not text.isascii():
        return len(text) >= _MIN_DESCRIPTION_CHARACTERS
    words = _WORDS.findall(text.lower())
    return len([word for word in words if word not in _VAGUE_WORDS]) >= _MIN_DESCRIPTION_WORDS


def _similar(field: str, available: dict[str, str]) -> str:
    """Return the available name that probably means the same field, or an empty string."""
    wanted = _key(field)
    latest = list(reversed(available))
    for name in latest:
        key = _key(name)
        if key == wanted or (min(len(key), len(wanted)) > 2 and (key in wanted or wanted in key)):
            return name
    return next((name for name in latest if _distance(wanted, _key(name)) <= 2), "")


def _key(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(".", "").lower()


def _distance(first: str, second: str) -> int:
    """Return the edit distance of two names; long differences count as 3."""
    if abs(len(first) - len(second)) > 2 or min(len(first), len(second)) < 4:
        return 3
    row = list(range(len(second) + 1))
    for number, letter in enumerate(first, start=1):
        previous, row[0] = row[0], number
        for column, other in enumerate(second, start=1):
            cost = previous if letter == other else previous + 1
            previous, row[column] = row[column], min(cost, row[column] + 1, row[column - 1] + 1)
    return min(row[-1], 3)
