"""The HTTP+JSON side of the server."""

from acc.adapters.a2a.codec.faults import fault_of, http_error
from acc.adapters.a2a.codec.wire import Wire
from acc.adapters.a2a.serving.events import send_events
from acc.adapters.a2a.serving.http import A2A_JSON, JSON, HttpFault, HttpRequest, Send, respond
from acc.adapters.a2a.serving.reception import NEW, REST_WIRES, Reception, challenge, note
from acc.adapters.a2a.serving.routes import Route, find_route
from acc.application.serving.streams import TaskStream


async def answer_rest(reception: Reception, request: HttpRequest, send: Send) -> None:
    """Answer a request to an address, or say in the protocol's words why not."""
    wire = NEW
    kind = answer_type(request)
    try:
        wire = reception.wire(request, REST_WIRES)
        route = _routed(request)
        principal = await reception.principal(request)
        headers = reception.extensions(request)
        if route.has_body:
            body = await request.body()
            if body:
                request.check_json()
            asked = wire.read_request(route.operation, body, route.path)
        else:
            asked = wire.read_query(route.operation, route.path, request.query())
        answer = await reception.perform(wire, route.operation, principal, asked, request)
    except Exception as error:  # noqa: BLE001 - the edge: whatever it is gets an answer
        note(error)
        await send_http_error(send, error, wire, kind)
        return
    if isinstance(answer, TaskStream):
        await send_events(request, send, wire, answer, headers=headers)
    else:
        await respond(send, 200, answer, kind, headers)


async def send_http_error(
    send: Send, error: BaseException, wire: Wire = NEW, kind: bytes = JSON
) -> None:
    """Send the answer to a request that failed."""
    status = fault_of(error).http
    headers = error.headers if isinstance(error, HttpFault) else challenge(status)
    await respond(send, status, http_error(error, wire.version), kind, headers)


def answer_type(request: HttpRequest) -> bytes:
    """Return the media type of answers: the protocol's own for clients that name it."""
    asked = request.headers.get(b"accept", b"") + request.headers.get(b"content-type", b"")
    return A2A_JSON if A2A_JSON in asked else JSON


def _routed(request: HttpRequest) -> Route:
    route = find_route(request.method, request.path)
    if isinstance(route, Route):
        return route
    if not route.allowed:
        raise HttpFault(404, "there is nothing at this address")
    request.only(*route.allowed)
    raise AssertionError(request.method)  # pragma: no cover - routes and `only` agree
