"""What is served as it stands: the cards, the description of the HTTP side, keys and health."""

from hashlib import sha256

from acc.adapters.a2a.serving.http import JSON, HttpRequest, Send, respond
from acc.adapters.a2a.serving.reception import OLD, Reception, asked_version

_CARD_PATHS = frozenset({"/.well-known/agent-card.json", "/.well-known/agent.json"})
_KEYS_PATH = "/.well-known/jwks.json"
_OLD_EXTENDED_CARD = "/agent/authenticatedExtendedCard"


def etag_of(document: bytes) -> str:
    """Return the tag by which a client tells whether a document has changed."""
    return f'"{sha256(document).hexdigest()[:32]}"'


async def serve_document(reception: Reception, request: HttpRequest, send: Send) -> bool:
    """Send the document at an address, and return whether there is one."""
    path = request.path
    if path in _CARD_PATHS:
        request.only("GET", "HEAD")
        await _send_card(reception, request, send)
    elif path == "/openapi.json":
        request.only("GET", "HEAD")
        await _send_unless_known(request, send, reception.documents.openapi)
    elif path == _KEYS_PATH and reception.documents.keys:
        request.only("GET", "HEAD")
        await _send_unless_known(request, send, reception.documents.keys)
    elif path == "/health":
        request.only("GET", "HEAD")
        await respond(send, 200, b'{"status":"ok"}')
    elif path == _OLD_EXTENDED_CARD:
        request.only("GET", "HEAD")
        principal = await reception.principal(request)
        await respond(send, 200, OLD.write_card(reception.extended_card(principal)))
    elif path in ("", "/"):
        request.only("POST")
    else:
        return False
    return True


async def _send_card(reception: Reception, request: HttpRequest, send: Send) -> None:
    documents = reception.documents
    card = documents.modern_card if asked_version(request) == "1.0" else documents.card
    headers = [(b"vary", b"a2a-version"), (b"last-modified", documents.modified)]
    await _send_unless_known(request, send, card, *headers)


async def _send_unless_known(
    request: HttpRequest, send: Send, document: bytes, *more: tuple[bytes, bytes]
) -> None:
    etag = etag_of(document)
    headers = [(b"etag", etag.encode()), (b"cache-control", b"public, max-age=300"), *more]
    known = [tag.strip().removeprefix("W/") for tag in request.header(b"if-none-match").split(",")]
    if etag in known or "*" in known:
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    await respond(send, 200, document, JSON, headers)
