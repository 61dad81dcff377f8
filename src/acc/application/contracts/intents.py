"""Intents of an agent tree: which there are, admission of calls, and their execution."""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, ClassVar, cast

import msgspec

from acc.application.agents.base import BaseAgent
from acc.application.agents.output import strip_code_fence
from acc.application.contracts.claims import read_context
from acc.application.contracts.node_agents import (
    NodeAgent,
    TreeNode,
    check_permissions,
    missing_inputs,
)
from acc.application.contracts.packets import (
    REPORT_FIELDS,
    Condition,
    Delegation,
    check_conditions,
    fallback_inputs,
    judge_conditions,
    read_delegation,
)
from acc.application.contracts.schemas import (
    TEXT_OUTPUT,
    check_fields,
    check_type,
    contract_of_agent,
    type_of_inputs,
    with_defaults,
)
from acc.application.runtime.caller_rules import check_granted_memory, readable_state
from acc.application.runtime.context import RunContext
from acc.application.runtime.interrupts import RUN_LEVEL_ERRORS
from acc.application.runtime.run import RunRequest, Services
from acc.application.runtime.state import State, StateView
from acc.domain.contract_errors import FieldViolation, InvalidInputs, InvalidOutputs, UnknownIntent
from acc.domain.errors import (
    AccError,
    BudgetExceeded,
    InvalidTree,
    PermissionDenied,
    StateNotStorable,
)
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, text_of
from acc.domain.value_objects.contract import INTENTS_EXTENSION, IntentContract
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.flow import TRUSTED_METADATA, UNTRUSTED_METADATA
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.storage_ports import SessionStorePort
from acc.ports.outbound.system_ports import SchemaValidatorPort

log = logging.getLogger("acc.run")

_JSON = "application/json"
#: State keys with a meaning for the runtime, or of other sessions; callers cannot set them.
_RESERVED_KEYS = ("user:", "app:", "temp:", "_", "remote.")
MAX_MEMORY_KEYS = 100
#: What the caller says about the provenance of inputs.
_MARKS = (UNTRUSTED_METADATA, TRUSTED_METADATA)
_TEXT_HINT = (
    "A text message can only be one missing text field; send the inputs as data, with acc call URL "
    "--intent NAME --input FIELD=VALUE or with run_agent in Python."
)
_ENTRY_PLACE = f"metadata.{INTENTS_EXTENSION}"
_ENTRY_FIELDS = ("skill", "memory", "context", "delegation")


@dataclass(kw_only=True, eq=False)
class IntentAgent(BaseAgent):
    """An agent that answers intents, each with a node or an agent that has a contract.

    A message that names no intent is for the only one; with several it is rejected. `conditions`
    are the checks that delegation packets may name as success conditions: functions that get the
    outputs and the state, and return True if the condition is met.
    """

    intents: Sequence[TreeNode | BaseAgent] = ()
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    input_modes: ClassVar[tuple[str, ...]] = (_JSON, "text/plain")
    output_modes: ClassVar[tuple[str, ...]] = (_JSON, "text/plain")

    def __post_init__(self) -> None:
        # The base class converts nodes to agents.
        self.sub_agents = (*self.sub_agents, *cast(Sequence[BaseAgent], self.intents))
        super().__post_init__()

    def check(self) -> None:
        """Raise InvalidTree if an intent has no contract."""
        if not self.sub_agents:
            raise InvalidTree(f"agent {self.name!r} needs at least one intent")
        for agent in self.sub_agents:
            if contract_of_agent(agent) is None:
                raise InvalidTree(
                    f"agent {self.name!r}: {agent.name!r} has no contract; set its input_schema"
                )
        Intents(self)  # names are unique

    async def run(self, ctx: RunContext) -> None:
        """Run the only intent."""
        if len(self.sub_agents) > 1:
            raise unnamed_intent(Intents(self).names)
        ctx.text = (await ctx.run_agent(self.sub_agents[0])).text


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentEntry:
    """What a message says about its intent; `skill` is empty if it names none."""

    skill: str = ""
    memory: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    delegation: Delegation | None = None


#: The contract of the answer to a delegation packet, which no single intent has.
DELEGATED = IntentContract(name="delegation")


class Intents:
    """The intents of an agent tree: those of the root and of its direct sub-agents.

    Errors name only those of `listed`, by default all.
    """

    def __init__(self, root: BaseAgent, *, listed: Collection[str] | None = None) -> None:
        self.root = root
        self._listed = listed
        self._agents: dict[str, tuple[IntentContract, BaseAgent]] = {}
        for agent in (root, *root.sub_agents):
            contract = contract_of_agent(agent)
            if contract is None:
                continue
            if contract.name in self._agents:
                raise InvalidTree(
                    f"two agents of {root.name!r} have the intent {contract.name!r}; intents must "
                    "be unique"
                )
            self._agents[contract.name] = (contract, agent)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the intents."""
        return tuple(self._agents)

    @property
    def listed(self) -> tuple[str, ...]:
        """Return the names of the intents that errors may name."""
        return tuple(name for name in self._agents if self._listed is None or name in self._listed)

    @property
    def contracts(self) -> tuple[IntentContract, ...]:
        """Return the contracts of all intents."""
        return tuple(contract for contract, _ in self._agents.values())

    def __contains__(self, name: str) -> bool:
        return name in self._agents

    def contract(self, name: str) -> IntentContract:
        """Return the contract of an intent, or raise UnknownIntent."""
        return self._find(name)[0]

    def agent(self, name: str) -> BaseAgent:
        """Return the agent that answers an intent, or raise UnknownIntent."""
        return self._find(name)[1]

    def default(self, parts: Sequence[Part]) -> str:
        """Return the intent of a message that names none but has data, or an empty string."""
        return self.own if any(isinstance(part.data, Mapping) for part in parts) else ""

    @property
    def own(self) -> str:
        """Return the intent of a message that names none: that of the root, if it has one.

        An agent with a single intent has this one.
        """
        if isinstance(self.root, IntentAgent) and len(self.names) == 1:
            return self.names[0]
        own = contract_of_agent(self.root)
        return "" if own is None else own.name

    def _find(self, name: str) -> tuple[IntentContract, BaseAgent]:
        found = self._agents.get(name)
        if found is None:
            raise UnknownIntent(name, self.listed)
        return found

    def admit(
        self, parts: Sequence[Part], entry: IntentEntry, schemas: SchemaValidatorPort
    ) -> tuple[Part, ...]:
        """Return the message of a valid call of an intent.

        Raises UnknownIntent or InvalidInputs if the call must not be executed. The result has one
        part with all inputs and the entry in its metadata.
        """
        contract = self.contract(entry.skill)
        inputs: dict[str, Any] = {}
        marks: dict[str, Any] = {}
        if entry.context.get(UNTRUSTED_METADATA):
            marks[UNTRUSTED_METADATA] = True
        if entry.delegation is not None:  # its context has inputs that are also claims
            inputs |= {k: v for k, v in entry.context.items() if k in contract.input_fields}
        others: list[Part] = []
        for part in parts:
            if isinstance(part.data, Mapping):
                inputs |= part.data
                marks |= {key: part.metadata[key] for key in _MARKS if key in part.metadata}
            elif part.data is not None or part.is_null:
                violation = FieldViolation("", "type", "must be an object")
                raise InvalidInputs(contract.name, [violation])
            else:
                others.append(part)
        violations = self._check(entry.skill, inputs, schemas)
        if violations:
            raise InvalidInputs(contract.name, violations)
        check_memory(entry.memory, contract)
        if entry.delegation is not None:
            self._check_delegation(entry.delegation, contract, inputs, schemas)
        admitted = inputs_part(with_defaults(contract, inputs), entry)
        return (replace(admitted, metadata={**admitted.metadata, **marks}), *others)

    @property
    def conditions(self) -> Mapping[str, Condition]:
        """Return the checks that delegation packets may name."""
        declared = getattr(self.root, "conditions", None)
        return declared if isinstance(declared, Mapping) else {}

    def _check(
        self, name: str, inputs: Mapping[str, Any], schemas: SchemaValidatorPort
    ) -> tuple[FieldViolation, ...]:
        contract, agent = self._find(name)
        if isinstance(agent, NodeAgent):
            declared = agent.node.input_type
        else:
            declared = type_of_inputs(agent.input_schema)
        return check_fields(schemas, contract.input_schema, inputs) or check_type(declared, inputs)

    def _check_delegation(
        self,
        delegation: Delegation,
        contract: IntentContract,
        inputs: Mapping[str, Any],
        schemas: SchemaValidatorPort,
    ) -> None:
        """Raise InvalidInputs if a condition or the fallback of a packet cannot be used."""
        check_conditions(delegation, contract, self.conditions)
        name = delegation.fallback
        if name not in self._agents or name == contract.name:
            others = ", ".join(one for one in self.listed if one != contract.name) or "none"
            text = f"must be another intent of this agent, which has: {others}"
            raise InvalidInputs(
                contract.name, [FieldViolation("fallback", "enum", text)], place="packet"
            )
        fallback = self._agents[name][0]
        report = dict.fromkeys(REPORT_FIELDS, "") | {"unmet_conditions": [""]}
        given = fallback_inputs(fallback, inputs, report)
        violations = self._check(name, given, schemas)
        if violations:
            raise InvalidInputs(name, violations, place=f"inputs of the fallback {name!r}")


def inputs_part(inputs: Mapping[str, Any], entry: IntentEntry) -> Part:
    """Return inputs as the part of a message that calls an intent."""
    stored: dict[str, Any] = {"skill": entry.skill}
    if entry.memory:
        stored["memory"] = dict(entry.memory)
    if entry.context:
        stored["context"] = dict(entry.context)
    if entry.delegation is not None:
        stored["delegation"] = entry.delegation.to_json()
    metadata = {INTENTS_EXTENSION: stored}
    return Part(data=dict(inputs), media_type=_JSON, metadata=metadata)


def intent_message(
    intent: str,
    inputs: Mapping[str, Any],
    *,
    memory: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    delegation: Mapping[str, Any] | None = None,
) -> tuple[Part, ...]:
    """Return the message for `Runner.run` that calls an intent.

    `delegation` has the `success_conditions` and the `fallback` of a delegation packet, and
    optionally its `budget` and `deadline`.
    """
    entry = IntentEntry(
        skill=intent,
        memory=memory or {},
        context=read_context(context, intent),
        delegation=None if delegation is None else read_delegation(delegation),
    )
    return (inputs_part(inputs, entry),)


def read_entry(data: object) -> IntentEntry:
    """Return the entry of a message, or raise InvalidInputs."""
    if not isinstance(data, Mapping):
        raise _invalid_entry("", "must be an object")
    for name in data:
        if name not in _ENTRY_FIELDS:
            raise _invalid_entry(
                str(name), f"is unknown; expected one of {', '.join(_ENTRY_FIELDS)}"
            )
    skill, memory = data.get("skill", ""), data.get("memory", {})
    if not isinstance(skill, str):
        raise _invalid_entry("skill", "must be a string")
    if not isinstance(memory, Mapping):
        raise _invalid_entry("memory", "must be an object")
    delegation = data.get("delegation")
    if delegation is not None and not isinstance(delegation, Mapping):
        raise _invalid_entry("delegation", "must be an object")
    return IntentEntry(
        skill=skill,
        memory=memory,
        context=read_context(data.get("context"), skill),
        delegation=None if delegation is None else read_delegation(delegation),
    )


def entry_in(parts: Sequence[Part]) -> IntentEntry | None:
    """Return the entry of an admitted message, or None."""
    for part in parts:
        if part.metadata and INTENTS_EXTENSION in part.metadata:
            return read_entry(part.metadata[INTENTS_EXTENSION])
    return None


def without_entries(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return parts without entries, which only an admitted message may have."""
    if not any(INTENTS_EXTENSION in part.metadata for part in parts):
        return tuple(parts)
    return tuple(
        replace(part, metadata={k: v for k, v in part.metadata.items() if k != INTENTS_EXTENSION})
        for part in parts
    )


def check_memory(memory: Mapping[str, Any], contract: IntentContract) -> None:
    """Raise InvalidInputs if a caller must not set one of the memory keys."""
    violations = []
    if len(memory) > MAX_MEMORY_KEYS:
        text = f"must have at most {MAX_MEMORY_KEYS} keys"
        violations.append(FieldViolation("", "maxProperties", text))
    scratch = State({})
    for key in list(memory)[:MAX_MEMORY_KEYS]:
        if not isinstance(key, str) or key.startswith(_RESERVED_KEYS) or not key.isprintable():
            violations.append(FieldViolation(str(key)[:100], "reserved", "is a reserved key"))
        elif not any(pattern == "*" or fnmatchcase(key, pattern) for pattern in contract.reads):
            violations.append(FieldViolation(key[:100], "unknown", "is not read by this intent"))
        else:
            try:
                scratch[key] = memory[key]
            except StateNotStorable:
                violations.append(FieldViolation(key[:100], "type", "cannot be stored as state"))
    if violations:
        raise InvalidInputs(contract.name, violations, place="memory")


@dataclass(kw_only=True, eq=False)
class IntentCall(BaseAgent):
    """Executes one call of an intent: memory, the agent, and validation of its outputs."""

    target: BaseAgent
    contract: IntentContract
    entry: IntentEntry
    runs_in_debug: ClassVar[bool] = True

    async def run(self, ctx: RunContext) -> None:
        """Run the agent of the intent."""
        ctx.text = (await self.call(ctx))[0]

    async def call(self, ctx: RunContext) -> tuple[str, Mapping[str, Any]]:
        """Return the answer of the agent and its valid outputs."""
        check_permissions(ctx, self.contract)
        for key, value in self.entry.memory.items():
            ctx.state[key] = value
        return await self.call_target(ctx)

    async def call_target(self, ctx: RunContext) -> tuple[str, Mapping[str, Any]]:
        """Return the answer of the agent of the intent and its valid outputs."""
        text = (await ctx.run_agent(self.target)).text
        outputs = outputs_of(text, self.contract)
        violations = check_fields(ctx.services.schemas, self.contract.output_schema, outputs)
        if violations:
            raise InvalidOutputs(self.target.name, self.contract.name, violations)
        return text, outputs


@dataclass(kw_only=True, eq=False)
class DelegatedCall(IntentCall):
    """Executes a delegation packet: the intent, its conditions, and the fallback.

    The result of the delegation is recorded as an event before the fallback runs.
    """

    fallback: IntentCall
    delegation: Delegation
    conditions: Mapping[str, Condition]

    async def run(self, ctx: RunContext) -> dict[str, Any]:  # type: ignore[override] # an object
        """Run the intent and return its outputs, or those of the fallback."""
        check_permissions(ctx, self.contract)
        check_permissions(ctx, self.fallback.contract)
        for key, value in self.entry.memory.items():
            ctx.state[key] = value
        scope = ctx.fork("delegated")
        recorded = ctx.next_recorded()
        if recorded is None:
            outputs, reason = await self._attempt(scope)
            state = StateView(ctx.state, ("*",), ())
            met = dict.fromkeys(self.delegation.success_conditions, False)
            if not reason:
                met = judge_conditions(self.delegation, outputs, state, self.conditions)
            unmet = [name for name, is_met in met.items() if not is_met]
            if unmet and not reason:
                reason = f"unmet conditions: {', '.join(unmet)}"
            detail: dict[str, Any] = {
                "delegated_intent": self.contract.name,
                "status": "fallback" if reason else "fulfilled",
                "conditions": met,
            }
            if reason:
                detail |= {"fallback": self.delegation.fallback, "reason": reason}
            else:
                detail["outputs"] = dict(outputs)
        else:
            await scope.skip_recorded()
            detail = dict(recorded.detail)
        await ctx.emit(EventKind.DELEGATION, detail=detail)
        if detail["status"] == "fulfilled":
            return detail
        return {**detail, "outputs": dict(await self._fall_back(ctx, detail))}

    async def _attempt(self, scope: RunContext) -> tuple[Mapping[str, Any], str]:
        """Return the outputs of the intent, and why it failed."""
        budget, deadline = self.delegation.budget, self.delegation.deadline
        remaining = None if deadline is None else deadline - scope.services.clock.now()
        if remaining is not None and remaining <= 0:
            return {}, "the deadline has passed"
        try:
            with scope.run.budget.restrict(
                llm_calls=budget.get("llm_calls"),
                tool_calls=budget.get("tool_calls"),
                tokens=budget.get("tokens"),
            ):
                async with asyncio.timeout(remaining):
                    return (await self.call_target(scope))[1], ""
        except TimeoutError:
            return {}, "the deadline has passed"
        except BudgetExceeded as error:
            return {}, str(error)
        except RUN_LEVEL_ERRORS:
            raise
        except PermissionDenied:
            raise
        except (InvalidInputs, InvalidOutputs) as error:
            return {}, f"the intent failed: {error}"
        except AccError as error:
            # The reason is sent to the caller, and other errors may quote internal data.
            log.warning("%s: a delegated intent failed: %s", scope.path, error)
            return {}, f"the intent failed ({error.code})"

    async def _fall_back(self, ctx: RunContext, detail: Mapping[str, Any]) -> Mapping[str, Any]:
        inputs: dict[str, Any] = {}
        for part in ctx.parts:
            if isinstance(part.data, Mapping):
                inputs |= part.data
        report = {
            "delegated_intent": self.contract.name,
            "unmet_conditions": [name for name, met in detail["conditions"].items() if not met],
            "reason": detail["reason"],
        }
        contract = self.fallback.contract
        given = with_defaults(contract, fallback_inputs(contract, inputs, report))
        # Without the conversation, the fallback sees only what its contract names.
        scope = ctx.fork("fallback", history=False)
        scope.parts = (Part(data=given, media_type=_JSON),)
        return (await self.fallback.call_target(scope))[1]


def outputs_of(text: str, contract: IntentContract) -> dict[str, Any]:
    """Return the outputs in an answer: a JSON object, or the fields `result` or `text`."""
    if contract.output_schema == TEXT_OUTPUT:
        return {"text": text}
    try:
        data = msgspec.json.decode(strip_code_fence(text))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {"text": text}
    if isinstance(data, dict) and list(contract.output_fields) != ["result"]:
        return data
    return data if isinstance(data, dict) and set(data) == {"result"} else {"result": data}


def find_call(intents: Intents, parts: Sequence[Part]) -> IntentCall | None:
    """Return the agent that executes the intent of an admitted message, or None."""
    entry = entry_in(parts)
    if entry is None or not entry.skill:
        return None
    call = _intent_call(intents, entry.skill, entry)
    if entry.delegation is None:
        return call
    return DelegatedCall(
        name=call.name,
        target=call.target,
        contract=call.contract,
        entry=entry,
        fallback=_intent_call(intents, entry.delegation.fallback, entry),
        delegation=entry.delegation,
        conditions=intents.conditions,
    )


def _intent_call(intents: Intents, name: str, entry: IntentEntry) -> IntentCall:
    target = intents.agent(name)
    return IntentCall(name=target.name, target=target, contract=intents.contract(name), entry=entry)


async def admit_message(intents: Intents, request: RunRequest, services: Services) -> RunRequest:
    """Return the request of a run; the inputs of an intent are validated before it is stored."""
    parts, caller = request.message, request.call.caller
    entry = entry_in(parts)
    if entry is None:
        if not any(isinstance(part.data, Mapping) for part in parts):
            await check_text_message(intents, parts, request.key, services.sessions, caller)
            return request
        entry = IntentEntry(skill=intents.default(parts))
    if not entry.skill:
        return request
    check_granted_memory(intents.root, entry.skill, entry.memory, caller)
    return replace(request, message=intents.admit(parts, entry, services.schemas))


async def check_text_message(
    intents: Intents,
    parts: Sequence[Part],
    key: SessionKey,
    sessions: SessionStorePort,
    caller: str,
) -> None:
    """Raise InvalidInputs if a message without data lacks required inputs of the root's intent.

    The session state may have them, as far as the caller may read it. A callback may add them
    later, so an agent that has one is not checked here but when its node is executed.
    """
    root = intents.root
    if not intents.own:
        if isinstance(root, IntentAgent):
            raise unnamed_intent(intents.listed)
        return
    agent = intents.agent(intents.own)
    if (
        not isinstance(agent, NodeAgent)
        or root.before_agent_callback
        or agent.before_agent_callback
    ):
        return
    text = text_of(parts)
    if not missing_inputs(agent.contract, (), text):
        return
    session = await sessions.read(key)
    if session is None:
        state = await sessions.shared_state(key.app_name, key.user_id)
    else:
        state = session.state
    missing = missing_inputs(agent.contract, readable_state(root, state, caller), text)
    if missing:
        violations = [FieldViolation(name, "required", "is required") for name in missing]
        raise InvalidInputs(agent.contract.name, violations, hint=_TEXT_HINT)


def contracts_of(root: BaseAgent) -> Iterator[tuple[BaseAgent, IntentContract]]:
    """Yield all agents of a tree that have a contract."""
    for agent in root.walk():
        contract = contract_of_agent(agent)
        if contract is not None:
            yield agent, contract


def unnamed_intent(names: Sequence[str]) -> InvalidInputs:
    """Return the error for a message to an agent with several intents that names none of them."""
    known = ", ".join(names) or "none"
    text = (
        f"is required: the message names no intent; this agent has: {known}. Name one with acc "
        "call URL --intent NAME, or with run_agent in Python"
    )
    return InvalidInputs("", [FieldViolation("skill", "enum", text)], place=_ENTRY_PLACE)


def _invalid_entry(field_name: str, text: str) -> InvalidInputs:
    return InvalidInputs("", [FieldViolation(field_name, "type", text)], place=_ENTRY_PLACE)
