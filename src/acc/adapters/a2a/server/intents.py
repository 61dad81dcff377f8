"""Intents over HTTP: the payloads of `/run` and of JSON-RPC, errors, and the list of contracts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from acc.adapters.a2a.server.asgi import Headers
from acc.adapters.a2a.wire.errors import public_message, wire_error_for
from acc.adapters.a2a.wire.json_fields import decode, encode
from acc.adapters.a2a.wire.jsonrpc import RpcRequest
from acc.application.contracts.packets import is_packet
from acc.application.contracts.payloads import IntentPayload, read_payload
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.domain.contract_errors import (
    FieldViolation,
    IntentNotCompleted,
    InvalidInputs,
    RequestIdReused,
)
from acc.domain.value_objects.contract import IntentContract, contract_to_json
from acc.domain.value_objects.principal import Principal

_MAX_MESSAGE_LENGTH = 1000
_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


class IntentResponse(NamedTuple):
    """Outputs as JSON, and headers that mark those of a repeated request.

    `task_id` is the task, and `trace_id` the trace that the caller named.
    """

    body: bytes
    headers: Headers
    task_id: str
    trace_id: str


async def call_intent(
    serve: ServeA2AUseCase, principal: Principal, body: bytes, *, trace_parent: str = ""
) -> IntentResponse:
    """Execute the intent of a request body and return its outputs as JSON."""
    names = serve.intents.names
    default = names[0] if len(names) == 1 else ""
    payload = read_payload(decode(_ANY, body, "body"), default_intent=default)
    return await _respond(serve, principal, payload, trace_parent)


async def call_rpc_intent(
    serve: ServeA2AUseCase, principal: Principal, call: RpcRequest, *, trace_parent: str = ""
) -> IntentResponse:
    """Execute the intent that is the method of a JSON-RPC request; return its outputs as JSON."""
    params = decode(_ANY, call.params, "params")
    if isinstance(params, dict):
        if "intent" in params:
            violation = FieldViolation("intent", "unknown", "is unknown; the method is the intent")
            raise InvalidInputs(call.method, [violation], place="params")
        name = "delegated_intent" if is_packet(params) else "intent"
        params = {**params, name: call.method}
    return await _respond(serve, principal, read_payload(params), trace_parent)


async def _respond(
    serve: ServeA2AUseCase, principal: Principal, payload: IntentPayload, trace_parent: str
) -> IntentResponse:
    outputs = await serve.call_intent(principal, payload, trace_parent=trace_parent)
    headers = [(b"idempotency-replayed", b"true")] if outputs.repeated else []
    trace_id = payload.context.get("trace_id", "")
    return IntentResponse(encode(dict(outputs)), headers, outputs.task_id, trace_id)


def encode_run_error(error: BaseException) -> tuple[int, bytes]:
    """Return the HTTP status and the body of the response of `/run` for an error."""
    status = wire_error_for(error).http_status
    if isinstance(error, IntentNotCompleted | RequestIdReused):
        status = 409
    message = public_message(error)
    if isinstance(error, InvalidInputs):
        texts = [_describe(one, error.place) for one in error.violations]
        if len(texts) > 1:
            texts = [f"{text.removesuffix('.')}." for text in texts]
        message = " ".join(texts)
    document: dict[str, Any] = {"code": status, "message": message[:_MAX_MESSAGE_LENGTH]}
    return status, encode({"error": document})


def write_contracts(agent: str, version: str, contracts: Sequence[IntentContract]) -> bytes:
    """Return the document at `/contracts`."""
    listed = [contract_to_json(contract) for contract in contracts]
    return encode({"agent": agent, "version": version, "contracts": listed})


def _describe(violation: FieldViolation, place: str) -> str:
    if violation.rule == "required" and place in ("inputs", "request"):
        return f"Missing required field: '{violation.field}'"
    return violation.describe(place)
