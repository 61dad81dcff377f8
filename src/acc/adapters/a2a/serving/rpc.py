"""The JSON-RPC side of the server."""

import msgspec

from acc.adapters.a2a.codec.envelope import CallId, call_id, read_call
from acc.adapters.a2a.codec.faults import UnknownMethod, fault_of, rpc_error
from acc.adapters.a2a.codec.wire import Operation, Wire
from acc.adapters.a2a.serving.events import STREAMING, send_events
from acc.adapters.a2a.serving.http import JSON, HttpFault, HttpRequest, Send, respond
from acc.adapters.a2a.serving.reception import NEW, OLD, WIRES, Reception, challenge, note
from acc.application.serving.streams import TaskStream
from acc.domain.errors import VersionNotSupported

#: What is told by the HTTP status in JSON-RPC too, for those who stand in between.
_NEVER_200 = frozenset({401, 403, 429})
_encode = msgspec.json.Encoder().encode
_STREAMED = frozenset({Operation.STREAM, Operation.SUBSCRIBE})


async def answer_rpc(reception: Reception, request: HttpRequest, send: Send) -> None:
    """Answer a call of a method, or say in JSON-RPC's words why not."""
    name: CallId = None
    operation: Operation | None = None
    body = b""
    wire = NEW
    try:
        spoken = _spoken(reception, request)
        wire = NEW if isinstance(spoken, VersionNotSupported) else spoken
        request.check_json()
        # Before the body, so that strangers can fill no memory.
        principal = await reception.principal(request)
        body = await request.body()
        # Not before the body, so that the answer has the id of the call.
        _check_spoken(spoken)
        call = read_call(body)
        name = call.id
        headers = reception.extensions(request)
        operation = _operation(call.method, wire)
        asked = wire.read_request(operation, call.params)
        answer = await reception.perform(wire, operation, principal, asked, request)
    except Exception as error:  # noqa: BLE001 - the edge: whatever it is gets an answer
        note(error)
        name = call_id(body) if name is None else name
        await send_rpc_error(send, error, name=name, wire=wire, operation=operation)
        return
    prefix = b'{"jsonrpc":"2.0","id":%b,"result":' % _encode(name)
    if isinstance(answer, TaskStream):
        await send_events(request, send, wire, answer, around=(prefix, b"}"), headers=headers)
    else:
        await respond(send, 200, prefix + answer + b"}", JSON, headers)


async def send_rpc_error(
    send: Send,
    error: BaseException,
    *,
    name: CallId = None,
    wire: Wire = NEW,
    operation: Operation | None = None,
) -> None:
    """Send the answer to a call that failed."""
    told = rpc_error(error, name, wire.version)
    if isinstance(error, HttpFault):
        await respond(send, error.status, told, JSON, error.headers)
        return
    status = fault_of(error).http
    status = status if status in _NEVER_200 else 200
    if wire is OLD and operation in _STREAMED and status == 200:
        # Clients of 0.3 that asked for a stream read the error from one.
        await send({"type": "http.response.start", "status": 200, "headers": STREAMING})
        await send({"type": "http.response.body", "body": b"data: %b\n\n" % told})
        return
    await respond(send, status, told, JSON, challenge(status))


def _spoken(reception: Reception, request: HttpRequest) -> Wire | VersionNotSupported:
    try:
        return reception.wire(request, WIRES)
    except VersionNotSupported as fault:
        return fault


def _check_spoken(spoken: Wire | VersionNotSupported) -> None:
    if isinstance(spoken, VersionNotSupported):
        raise spoken


def _operation(method: str, wire: Wire) -> Operation:
    operation = wire.methods.get(method)
    if operation is not None:
        return operation
    hint = ""
    if wire is OLD and method in NEW.methods:
        hint = "; it is of generation 1.0: send the header A2A-Version: 1.0"
    elif wire is NEW and method in OLD.methods:
        hint = "; it is of generation 0.3: send no A2A-Version header, or 0.3"
    raise UnknownMethod(f"there is no method {method[:100]!r}{hint}")
