"""Pages that every site of the console has: login and preferences; and the fields of forms."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from urllib.parse import parse_qsl, urlsplit

from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from acc.adapters.console.renderer import LANGUAGE_COOKIE, THEME_COOKIE, THEMES, Renderer
from acc.adapters.console.security import AccessPolicy
from acc.adapters.console.texts import LANGUAGES
from acc.domain.value_objects.content import Part

MAX_FORM_BYTES = 1_000_000
#: A message with its files; they are stored with the session.
MAX_UPLOAD_BYTES = 10_000_000
MAX_FILES = 10
_MAX_FIELDS = 20
_MAX_DIGITS = 15
_COOKIE_SECONDS = 365 * 24 * 3600


class AccessPages:
    """The login with the token, and the choice of language and theme."""

    def __init__(self, policy: AccessPolicy, renderer: Renderer, *, home: str) -> None:
        self._policy = policy
        self._renderer = renderer
        self._home = home

    async def login(self, request: Request) -> Response:
        """Return the form for the token, or accept the token of the printed URL."""
        token = request.query_params.get("token")
        if token is None:
            return self._renderer.page(request, "login.html", {"problem": ""})
        return self._log_in(request, token)

    async def submit_token(self, request: Request) -> Response:
        """Accept the token of the form."""
        return self._log_in(request, (await read_form(request)).get("token", "").strip())

    def _log_in(self, request: Request, token: str) -> Response:
        if not self._policy.accepts_token(token):
            values = {"problem": "This token is not valid."}
            return self._renderer.page(request, "login.html", values, status=403)
        response = RedirectResponse(self._home, 303)
        response.set_cookie(
            self._policy.cookie_name,
            self._policy.cookie_value,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def preferences(self, request: Request) -> Response:
        """Store language and theme in cookies."""
        wanted = request.query_params
        following = wanted.get("next", self._home)
        parts = urlsplit(following)
        is_local = following.startswith("/") and not parts.scheme and not parts.netloc
        response = RedirectResponse(following if is_local and "\\" not in following else "/", 303)
        for cookie, name, allowed in (
            (LANGUAGE_COOKIE, "language", LANGUAGES),
            (THEME_COOKIE, "theme", THEMES),
        ):
            if wanted.get(name) in allowed:
                response.set_cookie(
                    cookie, wanted[name], max_age=_COOKIE_SECONDS, httponly=True, samesite="strict"
                )
        return response


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form, or raise HTTPException if it is too large."""
    body = bytearray()
    async for chunk in _bounded(request, MAX_FORM_BYTES):
        body += chunk
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise HTTPException(400, "the form is not valid") from None
    return _Fields(fields)


async def read_upload(request: Request) -> tuple[Mapping[str, str], tuple[Part, ...]]:
    """Return the fields of a form and its files, which may be absent."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        return await read_form(request), ()
    parser = MultiPartParser(
        request.headers,
        _bounded(request, MAX_UPLOAD_BYTES),
        max_files=MAX_FILES,
        max_fields=_MAX_FIELDS,
        max_part_size=MAX_FORM_BYTES,
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError):
        raise HTTPException(400, "the form is not valid") from None
    fields, files = _Fields(), []
    async with AsyncExitStack() as stack:
        stack.push_async_callback(form.close)
        for name, value in form.multi_items():
            if isinstance(value, str):
                fields[name] = value
            elif value.filename:
                media_type = (value.content_type or "").partition(";")[0].strip().lower()
                content = await value.read()
                files.append(Part(raw=content, filename=value.filename, media_type=media_type))
    return fields, tuple(files)


async def _bounded(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    """Yield the body of a request, or raise HTTPException if it is too large or incomplete."""
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise HTTPException(413, f"a form has at most {limit} bytes")
            yield chunk
    except ClientDisconnect:
        raise HTTPException(400, "the request is incomplete") from None


def parse_number(text: str, default: int = 0) -> int:
    """Return the natural number in a parameter or field; the default for any other text."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else default


class _Fields(dict[str, str]):
    """The fields of a form; a missing one is empty."""

    def __missing__(self, name: str) -> str:
        return ""
