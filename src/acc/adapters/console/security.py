"""Who may use the console: host names, the token, the origin of changes, and headers."""

import hashlib
import hmac
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acc.adapters.console.phrases import translate_phrase
from acc.adapters.console.renderer import request_language

#: For every page. Reports and files have policies of their own.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'"
)
_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With no-referrer, browsers send "Origin: null" with forms, and other sites get nothing either.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
#: Files of evaluation runs. Reports have no origin, so that browsers send no cookie for the links
#: in them; the path contains a key of the run instead.
FILES_PREFIX = "/evaluations/files/"
#: What the login page needs.
_PUBLIC = ("/login", "/static/", "/favicon.ico")
_SAFE_METHODS = ("GET", "HEAD")


class AccessPolicy:
    """Decides about requests: the Host header, the cookie of the token, the origin, the method."""

    def __init__(
        self, *, token: str, hosts: Collection[str], cookie_name: str, read_only: bool
    ) -> None:
        self._token = token
        self._hosts = frozenset(host.lower() for host in hosts)
        self.cookie_name = cookie_name
        self.read_only = read_only
        #: Derived from the token, so that it stays valid after a restart with the same token.
        self.cookie_value = hmac.new(token.encode(), b"acc console", hashlib.sha256).hexdigest()

    def accepts_token(self, token: str) -> bool:
        """Return True if the token is right; the time does not depend on it."""
        return hmac.compare_digest(token.encode(errors="replace"), self._token.encode())

    def file_key(self, run: str) -> str:
        """Return what a URL contains that may read the pages of an evaluation run."""
        content = b"acc console run\0" + run.encode(errors="replace")
        return hmac.new(self._token.encode(), content, hashlib.sha256).hexdigest()[:32]

    def accepts_file_key(self, key: str, run: str) -> bool:
        """Return True if a key is that of a run."""
        return hmac.compare_digest(key.encode(errors="replace"), self.file_key(run).encode())

    def accepts_host(self, host: str) -> bool:
        """Return True if a Host header names this console, with any port."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return name is not None and name.lower() in self._hosts

    def is_authenticated(self, headers: Headers) -> bool:
        """Return True if the request has the cookie, or the token as a bearer token."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.accepts_token(token.strip())
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self.cookie_name)
        except CookieError:
            return False
        return morsel is not None and hmac.compare_digest(
            morsel.value.encode(errors="replace"), self.cookie_value.encode()
        )

    def refuse(self, scope: Scope) -> Response | None:
        """Return the response to a request that is not allowed, None if it is allowed."""
        refusal = self._refusal(scope)
        if isinstance(refusal, tuple):
            request = Request(scope)
            text = translate_phrase(refusal[0], request_language(request))
            return PlainTextResponse(f"{text}\n", refusal[1])
        return refusal

    def _refusal(self, scope: Scope) -> "Response | tuple[str, int] | None":
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        if len(headers.getlist("host")) != 1 or not self.accepts_host(headers["host"]):
            return (
                "unknown host: open the URL that the command printed, or add --allow-host NAME",
                421,
            )
        if method not in (*_SAFE_METHODS, "POST"):
            return "method not allowed", 405
        if method == "POST" and not _is_same_origin(headers):
            return "requests of other sites are refused", 403
        if path.startswith(_PUBLIC) or (path.startswith(FILES_PREFIX) and method in _SAFE_METHODS):
            return None
        if not self.is_authenticated(headers):
            if method == "GET" and "text/html" in headers.get("accept", ""):
                return RedirectResponse("/login", 303)
            return "a token is required: see /login", 401
        if self.read_only and method == "POST":
            return "the console is read-only: start it without --read-only", 403
        return None


def _is_same_origin(headers: Headers) -> bool:
    """Return True unless a browser says that a page of another site sent the request."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers["host"].lower()


class Gate:
    """Applies an access policy before the application, and sets headers on every response."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        response = self._policy.refuse(scope)
        await (response or self._app)(scope, receive, send_with_headers)
