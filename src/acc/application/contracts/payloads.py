"""Payloads that call an intent: `intent`, `inputs`, `memory` and `context`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acc.application.contracts.claims import read_context
from acc.application.contracts.intents import (
    IntentEntry,
    Intents,
    inputs_part,
)
from acc.application.contracts.packets import Delegation, is_packet, read_packet
from acc.domain.contract_errors import FieldViolation, InvalidInputs
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.contract import IntentContract

#: The keys of a payload.
PAYLOAD_KEYS = ("intent", "inputs", "memory", "context")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentPayload:
    """A request that calls an intent."""

    intent: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    memory: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    delegation: Delegation | None = None

    @property
    def entry(self) -> IntentEntry:
        """Return what a message has to say about the intent."""
        return IntentEntry(
            skill=self.intent,
            memory=self.memory,
            context=self.context,
            delegation=self.delegation,
        )

    def part(self) -> Part:
        """Return the inputs as the part of a message."""
        return inputs_part(self.inputs, self.entry)


def read_payload(data: object, *, default_intent: str = "") -> IntentPayload:
    """Return the payload or delegation packet in JSON data, or raise InvalidInputs."""
    if not isinstance(data, Mapping):
        raise InvalidInputs("", [FieldViolation("", "type", "must be an object")], place="request")
    if is_packet(data):
        packet = read_packet(data)
        return IntentPayload(
            intent=packet.delegated_intent,
            inputs=packet.inputs,
            memory=packet.memory,
            context=read_context(packet.context, packet.delegated_intent),
            delegation=packet.delegation,
        )
    unknown = [key for key in data if key not in PAYLOAD_KEYS]
    rule = f"is unknown; expected {', '.join(PAYLOAD_KEYS)}"
    violations = [FieldViolation(str(key)[:100], "unknown", rule) for key in unknown[:5]]
    intent = data.get("intent", default_intent)
    if not isinstance(intent, str):
        violations.append(FieldViolation("intent", "type", "must be a string"))
    elif not intent:
        violations.append(FieldViolation("intent", "required", "is required"))
    for name in ("inputs", "memory"):
        if not isinstance(data.get(name, {}), Mapping):
            violations.append(FieldViolation(name, "type", "must be an object"))
    if violations:
        raise InvalidInputs(str(intent), violations, place="request")
    return IntentPayload(
        intent=intent,
        inputs=data.get("inputs", {}),
        memory=data.get("memory", {}),
        context=read_context(data.get("context"), intent),
    )


def find_contract(intents: Intents, payload: IntentPayload) -> IntentContract:
    """Return the contract of the intent of a payload.

    Raises UnknownIntent, or InvalidInputs if the unknown intent is a part of a delegation packet.
    """
    if payload.delegation is not None and payload.intent not in intents:
        known = ", ".join(intents.listed) or "none"
        text = f"is an unknown intent; this agent has: {known}"
        violation = FieldViolation("delegated_intent", "enum", text)
        raise InvalidInputs(payload.intent, [violation], place="packet")
    return intents.contract(payload.intent)
