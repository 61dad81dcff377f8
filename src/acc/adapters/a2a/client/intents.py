"""Calls of intents over HTTP: POST to `/run`, or JSON-RPC with the intent as method."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec

from acc.adapters.a2a.client.transport import (
    RETRYABLE_STATUS,
    CallFailed,
    PresentedSecrets,
    map_transport_errors,
    unanswered,
)
from acc.adapters.a2a.wire.errors import error_from_http, error_from_rpc
from acc.adapters.http.client import guarded_client
from acc.application.runtime.circuits import circuit_call
from acc.application.tracing.a2a_spans import trace_intent_call
from acc.application.tracing.circuits import report_circuits
from acc.domain.circuit_breaker import CircuitBreaker
from acc.domain.errors import InvalidInput, InvalidResponse, NotFound
from acc.domain.value_objects.endpoint import check_remote_url, origin_of
from acc.ports.outbound.limit_ports import CircuitStorePort
from acc.ports.outbound.tracing_ports import TracerPort

_RUN_PATH = "/run"
MAX_CIRCUITS = 1000
#: Returns the bearer token that a reference such as "env:NAME" stands for.
ResolveToken = Callable[[str], str]


@lru_cache(maxsize=MAX_CIRCUITS)
def _circuit(origin: str, tracer: TracerPort | None) -> CircuitBreaker:
    """Return the circuit breaker of the agents at an origin, which all callers share."""
    return CircuitBreaker(origin, on_change=report_circuits(lambda: tracer))


class HttpIntentCaller:
    """Posts intents to other agents; implements IntentCallerPort.

    After repeated calls without an answer, the circuit of their origin is open, and further calls
    fail at once.
    """

    def __init__(
        self,
        *,
        allow: Sequence[str] = (),
        resolve_token: ResolveToken,
        tracer: TracerPort | None = None,
        circuits: CircuitStorePort | None = None,
    ) -> None:
        self._circuits = circuits
        self._allow = tuple(allow)
        self._tracer = tracer
        self._resolve_token = resolve_token

    async def call(
        self,
        url: str,
        payload: Mapping[str, Any],
        *,
        token: str = "",
        timeout: float = 60.0,  # noqa: ASYNC109 - a limit of the request
        allow: Sequence[str] = (),
        trace_parent: str = "",
    ) -> Mapping[str, Any]:
        """Return the outputs of an intent; failures are raised as subclasses of AccError."""
        check_remote_url(url)
        is_run = urlsplit(url).path.endswith(_RUN_PATH)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        secrets = PresentedSecrets()
        if token:
            headers |= secrets.note({"Authorization": f"Bearer {self._resolve_token(token)}"})
        body = _encode(payload if is_run else _rpc_request(payload))
        intent = str(payload.get("delegated_intent", payload.get("intent", "")))
        with trace_intent_call(self._tracer, intent, url, trace_parent) as parent:
            if parent:
                headers["traceparent"] = parent
            origin = origin_of(url)
            circuit = _circuit(origin, self._tracer)  # type: ignore[arg-type] # a tracer is hashable
            async with (
                circuit_call(circuit, (CallFailed,), self._circuits),
                guarded_client(allow=(*self._allow, *allow), timeout=timeout) as http,
            ):
                with map_transport_errors(origin):
                    response = await http.post(url, content=body, headers=headers)
                if response.status_code in RETRYABLE_STATUS:
                    raise unanswered(origin, response, secrets.hide_in(response.content))
            read_outputs = _run_outputs if is_run else _rpc_outputs
            return read_outputs(response, secrets)


def _rpc_request(payload: Mapping[str, Any]) -> dict[str, Any]:
    name = "delegated_intent" if "delegated_intent" in payload else "intent"
    params = {key: value for key, value in payload.items() if key != name}
    context = params.get("context")
    request_id = context.get("request_id") if isinstance(context, Mapping) else None
    return {
        "jsonrpc": "2.0",
        "id": request_id or "1",
        "method": payload.get(name, ""),
        "params": params,
    }


def _encode(document: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(document)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the payload is not JSON data: {error}") from None


def _decode(response: httpx2.Response) -> Mapping[str, Any]:
    try:
        document = msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InvalidResponse(
            f"{origin_of(str(response.url))} did not answer with a JSON object "
            f"(HTTP status {response.status_code})"
        )
    return document


def _run_outputs(response: httpx2.Response, secrets: PresentedSecrets) -> Mapping[str, Any]:
    if response.is_success:
        return _decode(response)
    error = error_from_http(response.status_code, secrets.hide_in(response.content))
    if response.status_code == 400:
        raise InvalidInput(str(error).removeprefix("the remote agent failed: "))
    if response.status_code == 404:
        raise NotFound(str(error).removeprefix("the remote agent failed: "))
    raise error


def _rpc_outputs(response: httpx2.Response, secrets: PresentedSecrets) -> Mapping[str, Any]:
    if not response.is_success:  # such as 403, whose JSON-RPC code depends on the server
        raise error_from_http(response.status_code, secrets.hide_in(response.content))
    document = _decode(response)
    if "error" in document:
        error = secrets.hide_in(msgspec.json.encode(document["error"]))
        raise error_from_rpc(msgspec.json.decode(error))
    result = document.get("result")
    if not isinstance(result, dict):
        raise InvalidResponse("the result of the intent is not a JSON object")
    return result
