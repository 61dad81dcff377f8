"""Admission of messages that call an intent, before a task is stored."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from acc.application.contracts.claims import check_caller, check_debug, effective_permissions
from acc.application.contracts.intents import (
    IntentEntry,
    Intents,
    outputs_of,
    read_entry,
    without_entries,
)
from acc.application.contracts.payloads import IntentPayload
from acc.application.runtime.runner import SessionRunner
from acc.domain.contract_errors import FieldViolation, InvalidInputs
from acc.domain.errors import PermissionDenied
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, text_of
from acc.domain.value_objects.contract import INTENTS_EXTENSION, IntentContract
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.task import Message, Role, Task

_ENTRY = f"metadata.{INTENTS_EXTENSION}"


class AdmittedMessage(NamedTuple):
    """A message that may be stored, and the contract of its intent, if it calls one."""

    message: Message
    contract: IntentContract | None


class IntentAdmission:
    """Decides which messages call an intent, and rejects calls that violate its contract."""

    def __init__(self, runner: SessionRunner) -> None:
        self.intents = Intents(runner.agent)
        self._schemas = runner.services.schemas

    def admit(self, sender: Principal, message: Message, *, is_active: bool) -> AdmittedMessage:
        """Return the message to store, or raise an error that explains the rejection.

        `is_active` is True if the client activated the extension; otherwise what the message says
        about intents is ignored. Data for a root agent with a contract need no extension.
        """
        has_entry = INTENTS_EXTENSION in message.metadata
        parts = without_entries(message.parts)
        entry = (
            read_entry(message.metadata[INTENTS_EXTENSION])
            if has_entry and is_active
            else IntentEntry()
        )
        if entry.context:
            check_caller(entry.context, sender)
            check_debug(entry.context, sender)
        skill = entry.skill
        contract = None
        if not message.task_id:
            skill = skill or self.intents.default(parts)
        elif skill:
            violation = FieldViolation("skill", "unexpected", "must be absent: a task continues")
            raise InvalidInputs(skill, [violation], place=_ENTRY)
        if skill:
            contract = self._contract(skill)
            _check_permissions(contract, entry.context, sender)
            fallback = entry.delegation and entry.delegation.fallback
            if fallback and fallback in self.intents:
                _check_permissions(self.intents.contract(fallback), entry.context, sender)
            parts = self.intents.admit(parts, _named(entry, skill), self._schemas)
        if not has_entry and parts is message.parts:
            return AdmittedMessage(message, contract)
        metadata = {k: v for k, v in message.metadata.items() if k != INTENTS_EXTENSION}
        if entry.context:
            metadata[INTENTS_EXTENSION] = {"context": dict(entry.context)}
        return AdmittedMessage(replace(message, parts=parts, metadata=metadata), contract)

    def message(self, payload: IntentPayload, message_id: str) -> Message:
        """Return a payload as the message of a client that activated the extension."""
        entry: dict[str, Any] = {"skill": payload.intent}
        if payload.memory:
            entry["memory"] = payload.memory
        if payload.context:
            entry["context"] = payload.context
        if payload.delegation is not None:
            entry["delegation"] = payload.delegation.to_json()
        return Message(
            message_id=message_id,
            role=Role.USER,
            parts=(Part(data=dict(payload.inputs), media_type="application/json"),),
            context_id=payload.context.get("session_id", ""),
            metadata={INTENTS_EXTENSION: entry},
        )

    def _contract(self, skill: str) -> IntentContract:
        if skill not in self.intents:
            known = ", ".join(self.intents.names) or "none"
            violation = FieldViolation("skill", "enum", f"is unknown; this agent has: {known}")
            raise InvalidInputs(skill, [violation], place=_ENTRY)
        return self.intents.contract(skill)


def outputs_of_task(task: Task, contract: IntentContract) -> Mapping[str, Any]:
    """Return the outputs in the answer of a completed task."""
    for artifact in task.artifacts:
        if artifact.artifact_id == "answer":
            for part in artifact.parts:
                if isinstance(part.data, Mapping):
                    return part.data
            return outputs_of(text_of(artifact.parts), contract)
    return {}


def _named(entry: IntentEntry, skill: str) -> IntentEntry:
    return IntentEntry(
        skill=skill, memory=entry.memory, context=entry.context, delegation=entry.delegation
    )


def _check_permissions(
    contract: IntentContract, context: Mapping[str, Any], sender: Principal
) -> None:
    if not contract.permissions:
        return
    granted = None if sender.permissions is None else frozenset(sender.permissions)
    permissions = effective_permissions(context, granted)
    for permission in contract.permissions:
        if permissions is not None and permission not in permissions:
            raise PermissionDenied(
                f"intent {contract.name!r} requires the permission {permission!r}"
            )
