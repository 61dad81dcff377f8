"""The JSON-RPC envelope: requests, results and responses."""

from typing import Any, NamedTuple

import msgspec

from acc.adapters.a2a.wire.errors import InvalidRpcRequest
from acc.adapters.a2a.wire.json_fields import MAX_DEPTH, invalid_json
from acc.domain.errors import RemoteFailed

RequestId = str | int | float | None


class _WireRequest(msgspec.Struct, gc=False):
    jsonrpc: str
    method: str
    id: str | int | float | None | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _WireResponse(msgspec.Struct, gc=False):
    id: Any = None
    result: msgspec.Raw = msgspec.Raw()
    error: Any = None


_request_decoder = msgspec.json.Decoder(_WireRequest)
_response_decoder = msgspec.json.Decoder(_WireResponse)


class RpcRequest(NamedTuple):
    """A method call; the params are encoded JSON. A notification has no id, not even null."""

    method: str
    id: RequestId
    params: bytes
    is_notification: bool = False


class RpcResponse(NamedTuple):
    """The response of a server: a result as encoded JSON, or an error object."""

    result: bytes
    error: Any


def decode_rpc_request(body: bytes) -> RpcRequest:
    """Decode a request; raise InvalidJson or InvalidRpcRequest if it is invalid."""
    try:
        request = _request_decoder.decode(body)
    except msgspec.ValidationError as error:
        _check_json(body)
        raise InvalidRpcRequest(_envelope_error(str(error))) from None
    except RecursionError:
        raise InvalidRpcRequest(
            f"body: is nested too deeply; use at most {MAX_DEPTH} levels"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise invalid_json("body", body) from None
    if request.jsonrpc != "2.0":
        raise InvalidRpcRequest('jsonrpc: must be "2.0"')
    params = bytes(request.params)
    params = b"{}" if params == b"null" else params
    if isinstance(request.id, msgspec.UnsetType):
        return RpcRequest(request.method, None, params, is_notification=True)
    return RpcRequest(request.method, request.id, params)


def find_request_id(body: bytes) -> RequestId:
    """Return the id of an invalid request; None if it has no valid id."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    request_id = document.get("id") if isinstance(document, dict) else None
    is_valid = isinstance(request_id, str | int | float) and not isinstance(request_id, bool)
    return request_id if is_valid else None


def _check_json(body: bytes) -> None:
    # msgspec stops at the first invalid field; the rest may not be JSON.
    try:
        msgspec.json.decode(body)
    except RecursionError:
        return
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise invalid_json("body", body) from None


def _envelope_error(reason: str) -> str:
    if "`$.id`" in reason:
        return "id: must be a string, a number or null"
    if "`method`" in reason or "`$.method`" in reason:
        return "method: is required and must be a string"
    if "jsonrpc" in reason:
        return 'jsonrpc: is required and must be "2.0"'
    return "body: must be one object with jsonrpc, id, method and params; batches are not supported"


def encode_rpc_request(method: str, request_id: RequestId, params: bytes) -> bytes:
    """Encode a request."""
    head = msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "method": method})
    return head[:-1] + b',"params":' + params + b"}"


def encode_rpc_result(request_id: RequestId, result: bytes) -> bytes:
    """Encode a successful response."""
    return rpc_result_prefix(request_id) + result + b"}"


def rpc_result_prefix(request_id: RequestId) -> bytes:
    """Return a successful response up to its result; a closing brace follows the result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":' % msgspec.json.encode(request_id)


def decode_rpc_response(body: bytes, request_id: RequestId) -> RpcResponse:
    """Decode the response to a request; raise RemoteFailed if it is invalid."""
    try:
        response = _response_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RemoteFailed("the response of the remote agent is not JSON-RPC") from None
    is_same_id = response.id == request_id and not isinstance(response.id, bool)
    # A server that cannot read the id of a request reports that without an id.
    if not is_same_id and (response.error is None or response.id is not None):
        raise RemoteFailed("the response of the remote agent has the id of another request")
    result = bytes(response.result)
    if response.error is None and not result:
        raise RemoteFailed("the response of the remote agent has neither a result nor an error")
    return RpcResponse(result, response.error)
