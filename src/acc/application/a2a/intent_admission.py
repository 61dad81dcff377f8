"""Admission of messages that call an intent, before a task is stored."""

import dataclasses
import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from acc.application.contracts.claims import check_caller, check_debug, effective_permissions
from acc.application.contracts.idempotency import RequestKey, request_key
from acc.application.contracts.intents import (
    IntentEntry,
    Intents,
    check_text_message,
    outputs_of,
    read_entry,
    without_entries,
)
from acc.application.contracts.payloads import IntentPayload
from acc.application.runtime.caller_rules import check_granted_memory
from acc.application.runtime.runner import SessionRunner
from acc.domain.contract_errors import FieldViolation, InvalidInputs
from acc.domain.errors import InvalidTree, PermissionDenied
from acc.domain.value_objects.agent_card import Skill
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, text_of
from acc.domain.value_objects.contract import INTENTS_EXTENSION, IntentContract
from acc.domain.value_objects.principal import A2A_CALLER, Principal
from acc.domain.value_objects.task import Message, Role, Task

_ENTRY = f"metadata.{INTENTS_EXTENSION}"


class AdmittedMessage(NamedTuple):
    """A message that may be stored, the contract of its intent, and the intents it may execute.

    The contract is None if the message has no validated inputs. `key` identifies the request, if it
    has an id. `claims` are those of a message that names its intent, and else None.
    """

    message: Message
    contract: IntentContract | None
    intents: tuple[str, ...]
    key: RequestKey | None = None
    claims: Mapping[str, Any] | None = None


class IntentAdmission:
    """Decides which messages call an intent, and rejects calls that violate its contract.

    `skills` are those of the card whose scopes are required. `listed` are the intents that errors
    may name, by default all.
    """

    def __init__(
        self,
        runner: SessionRunner,
        *,
        skills: Sequence[Skill] = (),
        listed: Collection[str] | None = None,
    ) -> None:
        self.intents = Intents(runner.agent, listed=listed)
        self._skills = {skill.id: skill for skill in skills}
        self._root = runner.agent
        self._app_name = runner.app_name
        self._session_key = runner.session_key
        self._services = runner.services
        for agent in self._root.walk():
            if inspect.iscoroutinefunction(agent.authorize_call):  # its result would be true
                raise InvalidTree(
                    f"agent {agent.name!r}: authorize_call must not be async; define it with `def`"
                )

    async def admit(
        self, sender: Principal, message: Message, *, has_extension: bool
    ) -> AdmittedMessage:
        """Return the message to store, or raise an error that explains the rejection.

        `has_extension` is True if the client activated the intents extension. Otherwise the entry
        of the message about intents is ignored. Data for a root agent with a contract need no
        extension. The caller is authorized before the inputs are validated, so that errors do not
        disclose a contract to others.
        """
        has_entry = INTENTS_EXTENSION in message.metadata
        parts = without_entries(message.parts)
        entry = (
            read_entry(message.metadata[INTENTS_EXTENSION])
            if has_entry and has_extension
            else IntentEntry()
        )
        if entry.context:
            check_caller(entry.context, sender)
            check_debug(entry.context, sender)
        skill = self._skill(message, entry, parts)
        contract = self._contract(skill) if skill else None
        names = self._named(skill, entry) if skill else self.addressed(message.metadata)
        for name in names:
            if name in self.intents:
                _check_permissions(self.intents.contract(name), entry.context, sender)
        self.authorize(sender, names)
        caller = f"{A2A_CALLER}{sender.owner.user_id}"
        if skill:
            call = dataclasses.replace(entry, skill=skill)
            check_granted_memory(self._root, skill, entry.memory, caller)
            parts = self.intents.admit(parts, call, self._services.schemas)
        elif self.intents.names and not message.task_id:
            context_id = message.context_id or self._services.ids.new()
            session = self._session_key(sender.owner.user_id, context_id)
            await check_text_message(self.intents, parts, session, self._services.sessions, caller)
        key = None
        if entry.skill:
            key = request_key(entry, parts, self._app_name, sender.owner.user_id)
        if has_entry or parts is not message.parts:
            message = _with_claims(message, parts, entry, key)
        return AdmittedMessage(
            message, contract, names, key, entry.context if entry.skill else None
        )

    def _skill(self, message: Message, entry: IntentEntry, parts: Sequence[Part]) -> str:
        """Return the intent whose inputs a message has, or an empty string."""
        if not message.task_id:
            return entry.skill or self.intents.default(parts)
        if entry.skill:
            violation = FieldViolation("skill", "unexpected", "must be absent: a task continues")
            raise InvalidInputs(entry.skill, [violation], place=_ENTRY)
        return ""

    def _named(self, skill: str, entry: IntentEntry) -> tuple[str, ...]:
        """Return the intents that a call may execute."""
        fallback = "" if entry.delegation is None else entry.delegation.fallback
        return (skill, fallback) if fallback in self.intents else (skill,)

    def addressed(self, metadata: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the intents of a message without inputs: that of the agent, and a named one."""
        named = metadata.get("intent")
        names = (self.intents.own, named if isinstance(named, str) else "")
        return tuple(name for name in dict.fromkeys(names) if name)

    def authorize(self, sender: Principal, intents: Sequence[str]) -> None:
        """Raise PermissionDenied if a caller may not call one of the intents.

        Root and owner of an intent decide, and the scopes of its skill. A message without an intent
        addresses the root agent, whose name is then the intent.
        """
        for name in intents or [self._root.name]:
            agents = [self._root]
            if name in self.intents and self.intents.agent(name) is not self._root:
                agents.append(self.intents.agent(name))
            if not all(agent.authorize_call(name, sender.caller) for agent in agents):
                raise PermissionDenied(f"{sender.caller!r} may not call the intent {name!r}")
        for name in intents:
            if name in self._skills:
                _check_scopes(self._skills[name], sender)

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
            known = ", ".join(self.intents.listed) or "none"
            violation = FieldViolation("skill", "enum", f"is unknown; this agent has: {known}")
            raise InvalidInputs(skill, [violation], place=_ENTRY)
        return self.intents.contract(skill)


def digest_of(task: Task) -> str:
    """Return the digest of the request that created a task; empty if it had no id."""
    entry = task.history[0].metadata.get(INTENTS_EXTENSION) if task.history else None
    return str(entry.get("digest", "")) if isinstance(entry, Mapping) else ""


def outputs_of_task(task: Task, contract: IntentContract) -> Mapping[str, Any]:
    """Return the outputs in the answer of a completed task."""
    for artifact in task.artifacts:
        if artifact.artifact_id == "answer":
            for part in artifact.parts:
                if isinstance(part.data, Mapping):
                    return part.data
            return outputs_of(text_of(artifact.parts), contract)
    return {}


def _with_claims(
    message: Message, parts: tuple[Part, ...], entry: IntentEntry, key: RequestKey | None
) -> Message:
    """Return a message whose metadata has the claims and the digest of its request."""
    stored: dict[str, Any] = {"context": dict(entry.context)} if entry.context else {}
    if key is not None:
        stored["digest"] = key.digest
    metadata = {k: v for k, v in message.metadata.items() if k != INTENTS_EXTENSION}
    if stored:
        metadata[INTENTS_EXTENSION] = stored
    return replace(message, parts=parts, metadata=metadata)


def _check_scopes(skill: Skill, caller: Principal) -> None:
    """Raise InsufficientScope if the caller has the scopes of no alternative of a skill."""
    if skill.is_allowed(caller.permissions):
        return
    first = next(iter(skill.security))
    for scopes in first.values():
        for scope in scopes:
            caller.require(scope)


def _check_permissions(
    contract: IntentContract, context: Mapping[str, Any], sender: Principal
) -> None:
    if not contract.permissions:
        return
    granted = None if sender.permissions is None else frozenset(sender.permissions)
    permissions = effective_permissions(context, granted)
    for permission in contract.permissions:
        sender.require(permission)
        if permissions is not None and permission not in permissions:
            raise PermissionDenied(
                f"intent {contract.name!r} requires the permission {permission!r}, which "
                "context.permissions does not contain"
            )
