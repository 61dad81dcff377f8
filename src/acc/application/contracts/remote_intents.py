"""Calls of intents of remote agents over A2A, validated with the contracts on their card."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from acc.application.agents.remote_content import answer_artifact, answer_text, message_text
from acc.application.contracts.claims import read_context
from acc.application.contracts.idempotency import IntentOutputs
from acc.domain.contract_errors import FieldViolation, InvalidInputs, InvalidOutputs, UnknownIntent
from acc.domain.errors import InvalidInput, InvalidResponse, RemoteFailed, RemoteRejected
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.contract import (
    INTENTS_EXTENSION,
    IntentContract,
    contract_from_json,
)
from acc.domain.value_objects.task import INTERRUPTED, Message, Role, Task, TaskState
from acc.ports.outbound.remote_ports import RemoteAgentPort
from acc.ports.outbound.system_ports import SchemaValidatorPort


def contracts_on_card(card: AgentCard) -> Mapping[str, IntentContract]:
    """Return the contracts on a card by intent; none if the agent does not offer the extension."""
    for extension in card.extensions:
        skills = extension.params.get("skills")
        if extension.uri == INTENTS_EXTENSION and isinstance(skills, Mapping):
            try:
                contracts = [contract_from_json(skill) for skill in skills.values()]
            except InvalidInput as error:
                raise InvalidResponse(
                    f"the card of {card.name!r} has an invalid contract: {error}"
                ) from None
            return {contract.name: contract for contract in contracts}
    return {}


def parse_inputs(pairs: Sequence[str], contract: IntentContract | None) -> dict[str, Any]:
    """Return inputs of the form `name=value`; values of declared strings are taken literally."""
    inputs: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InvalidInput(f"{pair!r} is not an input: write NAME=VALUE")
        if name in inputs:
            raise InvalidInput(f"input {name!r} occurs twice")
        fields = {} if contract is None else contract.input_fields
        inputs[name] = _parse_value(text, fields.get(name, {}))
    return inputs


async def call_remote_intent(
    remote: RemoteAgentPort,
    intent: str,
    inputs: Mapping[str, Any],
    *,
    schemas: SchemaValidatorPort,
    message_id: str,
    context: Mapping[str, Any] | None = None,
    marks: Mapping[str, Any] | None = None,
) -> IntentOutputs:
    """Call an intent and return its outputs.

    InvalidInputs and UnknownIntent are raised before anything is sent. An agent that does not offer
    the extension receives the inputs as data; its answer is returned as it is. An agent with an
    extended card may have intents that its card does not list, and validates their inputs itself.
    `marks` are metadata of the inputs.
    """
    card = await remote.card()
    contracts = contracts_on_card(card)
    contract = contracts.get(intent)
    if contract is None and contracts and not card.extended_card:
        raise UnknownIntent(intent, contracts)
    if contract is not None:
        violations = _violations(schemas, contract.input_schema, inputs)
        if violations:
            raise InvalidInputs(intent, violations)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    claims = {"timestamp": now, **read_context(context, intent)}
    entry: dict[str, Any] = {"skill": intent, "context": claims}
    is_offered = bool(contracts)
    result = await remote.send(
        Message(
            message_id=message_id,
            role=Role.USER,
            parts=(Part(data=dict(inputs), media_type="application/json", metadata=marks or {}),),
            extensions=(INTENTS_EXTENSION,) if is_offered else (),
            metadata={INTENTS_EXTENSION: entry} if is_offered else {},
        )
    )
    outputs = _outputs(result, card.name)
    if contract is not None:
        violations = _violations(schemas, contract.output_schema, outputs)
        if violations:
            raise InvalidOutputs(card.name, intent, violations)
    if isinstance(result, Message):
        return IntentOutputs(outputs)
    mark = result.metadata.get(INTENTS_EXTENSION)
    is_repeated = isinstance(mark, Mapping) and mark.get("repeated") is True
    return IntentOutputs(outputs, repeated=is_repeated, task_id=result.id)


def _outputs(result: Task | Message, agent: str) -> dict[str, Any]:
    parts = result.parts if isinstance(result, Message) else ()
    text = message_text(result.parts) if isinstance(result, Message) else ""
    if isinstance(result, Task):
        answer = answer_artifact(result)
        text = answer_text(result, answer)
        if result.state is TaskState.REJECTED:
            raise RemoteRejected(agent, text)
        if result.state is not TaskState.COMPLETED:
            hint = "; answer it with `acc call --task`" if result.state in INTERRUPTED else ""
            raise RemoteFailed(
                f"agent {agent!r}: the task {result.id} is {result.state.value}"
                f"{f': {text}' if text else ''}{hint}",
                remote_code=result.state.value,
            )
        artifacts = result.artifacts if answer is None else (answer,)
        parts = tuple(part for artifact in artifacts for part in artifact.parts)
    for part in parts:
        if isinstance(part.data, Mapping):
            return dict(part.data)
    return {"text": text}


def _violations(
    schemas: SchemaValidatorPort, schema: Mapping[str, Any], value: Mapping[str, Any]
) -> Sequence[FieldViolation]:
    return schemas.violations(schema, dict(value))


def _parse_value(text: str, schema: Mapping[str, Any]) -> Any:
    options = schema.get("anyOf", [schema])
    types = {one.get("type") for one in options if isinstance(one, Mapping)}
    if "string" in types and types <= {"string", "null"}:
        return None if text == "null" and "null" in types else text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
