"""The envelope of JSON-RPC: calls as they come in, and results and answers around them."""

from typing import Any, NamedTuple

import msgspec

from acc.adapters.a2a.wire.errors import InvalidRpcRequest
from acc.adapters.a2a.wire.json_fields import MAX_DEPTH, invalid_json
from acc.domain.errors import RemoteFailed

RequestId = str | int | float | None


class _CallShape(msgspec.Struct, gc=False):
    jsonrpc: str
    method: str
    id: str | int | float | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _AnswerShape(msgspec.Struct, gc=False):
    id: Any = None
    result: msgspec.Raw = msgspec.Raw()
    error: Any = None


_call = msgspec.json.Decoder(_CallShape)
_answer = msgspec.json.Decoder(_AnswerShape)


class RpcRequest(NamedTuple):
    """A call of a method; the params are JSON still."""

    method: str
    id: RequestId
    params: bytes


class RpcResponse(NamedTuple):
    """What a server answered: a result as JSON, or an error object."""

    result: bytes
    error: Any


def decode_rpc_request(body: bytes) -> RpcRequest:
    """Return a call; BrokenJson if the body is no JSON, InvalidCall if it is no call."""
    try:
        shape = _call.decode(body)
    except msgspec.ValidationError as error:
        _check_json(body)
        raise InvalidRpcRequest(_advice(str(error))) from None
    except RecursionError:
        raise InvalidRpcRequest(
            f"body: is nested too deeply; use at most {MAX_DEPTH} levels"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise invalid_json("body", body) from None
    if shape.jsonrpc != "2.0":
        raise InvalidRpcRequest('jsonrpc: must be "2.0"')
    params = bytes(shape.params)
    return RpcRequest(shape.method, shape.id, b"{}" if params == b"null" else params)


def find_request_id(body: bytes) -> RequestId:
    """Return the id of a call that is wrong otherwise, None if it has none that can be told."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    found = document.get("id") if isinstance(document, dict) else None
    is_id = isinstance(found, str | int | float) and not isinstance(found, bool)
    return found if is_id else None


def _check_json(body: bytes) -> None:
    try:
        msgspec.json.decode(body)
    except RecursionError:
        return
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise invalid_json("body", body) from None


def _advice(fault: str) -> str:
    if "`$.id`" in fault:
        return "id: must be a string, a number or null"
    if "`method`" in fault or "`$.method`" in fault:
        return "method: is required and must be a string"
    if "jsonrpc" in fault:
        return 'jsonrpc: is required and must be "2.0"'
    return "body: must be one JSON object with jsonrpc, id, method and params; send no batches"


def encode_rpc_request(method: str, call_id: RequestId, params: bytes) -> bytes:
    """Return the body of a call."""
    head = msgspec.json.encode({"jsonrpc": "2.0", "id": call_id, "method": method})
    return head[:-1] + b',"params":' + params + b"}"


def encode_rpc_result(call_id: RequestId, result: bytes) -> bytes:
    """Return the answer to a call."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (msgspec.json.encode(call_id), result)


def decode_rpc_response(body: bytes, call_id: RequestId) -> RpcResponse:
    """Return what a server answered to a call; RemoteFailed if it is no answer to that."""
    try:
        shape = _answer.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RemoteFailed("the remote agent's answer is no JSON-RPC answer") from None
    is_ours = shape.id == call_id and not isinstance(shape.id, bool)
    # Who could not read the id of a call tells of that without one.
    if not is_ours and (shape.error is None or shape.id is not None):
        raise RemoteFailed("the remote agent answered another call: the id is not that of ours")
    result = bytes(shape.result)
    if shape.error is None and not result:
        raise RemoteFailed("the remote agent's answer has neither a result nor an error")
    return RpcResponse(result, shape.error)
