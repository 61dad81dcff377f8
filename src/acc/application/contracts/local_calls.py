"""Calls of intents in this process."""

from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from acc.application.contracts.idempotency import IntentOutputs, RecordedRequests, request_key
from acc.application.contracts.intents import DELEGATED, Intents, outputs_of
from acc.application.contracts.payloads import IntentPayload, find_contract, read_payload
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import InvalidInput, NothingPending, PermissionDenied
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.contract import INTENTS_EXTENSION, IntentContract
from acc.domain.value_objects.run import CallContext, RunStatus

_RECORDED: WeakKeyDictionary[SessionRunner, RecordedRequests] = WeakKeyDictionary()


async def run_payload(runner: SessionRunner, data: object) -> IntentOutputs:
    """Execute a payload in this process and return the outputs.

    `context.session_id` names the session; without it every call has one of its own. A request with
    a known `context.request_id` is not executed again.
    """
    intents = Intents(runner.agent)
    names = intents.names
    payload = read_payload(data, default_intent=names[0] if len(names) == 1 else "")
    contract = find_contract(intents, payload)
    request = request_key(payload.entry, [payload.part()], payload.context.get("user_id", ""))
    part = _storable(payload)
    intents.admit([part], payload.entry, runner.services.schemas)
    _check_permissions(payload, contract)
    if request is None:
        return IntentOutputs(await _execute(runner, payload, contract, part))
    recorded = _RECORDED.setdefault(runner, RecordedRequests())
    return await recorded.once(request, lambda: _execute(runner, payload, contract, part))


def _check_permissions(payload: IntentPayload, contract: IntentContract) -> None:
    permissions = payload.context.get("permissions")
    for permission in contract.permissions:
        if permissions is not None and permission not in permissions:
            raise PermissionDenied(
                f"intent {contract.name!r} requires the permission {permission!r}; add it to the "
                "permissions of the context"
            )


async def _execute(
    runner: SessionRunner, payload: IntentPayload, contract: IntentContract, part: Part
) -> dict[str, Any]:
    context, run_id = payload.context, runner.services.ids.new()
    user_id = context.get("user_id", "anonymous")
    call = CallContext(
        request_id=context.get("request_id", run_id),
        trace_id=context.get("trace_id", run_id),
        caller=context.get("caller", f"user://{user_id}"),
        permissions=context.get("permissions"),
        metadata={INTENTS_EXTENSION: {"context": dict(context)}} if context else {},
    )
    result = await runner.run(
        user_id=user_id,
        session_id=context.get("session_id", run_id),
        message=part,
        context=call,
    )
    if result.status is RunStatus.INPUT_REQUIRED:
        questions = "; ".join(request.question for request in result.requests)
        raise NothingPending(
            f"intent {payload.intent!r} needs input: {questions}; use Runner.run(...) and resume"
        )
    if result.status is RunStatus.REJECTED:
        raise PermissionDenied(result.text)
    return outputs_of(result.text, contract if payload.delegation is None else DELEGATED)


def _storable(payload: IntentPayload) -> Part:
    try:
        msgspec.json.encode(payload.inputs)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the inputs are not JSON data: {error}") from None
    return payload.part()
