"""Render the templates of the console."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from acc.adapters.console.event_views import visible
from acc.adapters.console.phrases import translate_phrase
from acc.adapters.console.texts import LANGUAGES, language_of, translate
from acc.domain.value_objects.session import SessionKey

STATIC = Path(__file__).parent / "static"
THEMES = ("system", "light", "dark")
LANGUAGE_COOKIE, THEME_COOKIE = "acc_console_language", "acc_console_theme"


def session_url(path: str, key: SessionKey, **query: object) -> str:
    """Return the URL of a page of a session."""
    names = {"app": key.app_name, "user": key.user_id, "id": key.session_id}
    return f"{path}?{urlencode({**names, **query})}"


def request_language(request: Request) -> str:
    """Return the language of a request."""
    cookie = request.cookies.get(LANGUAGE_COOKIE, "")
    return language_of(cookie, request.headers.get("accept-language", ""))


def format_time(seconds: float) -> str:
    """Return a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


class Renderer:
    """Renders pages and fragments in the language and theme of a request."""

    def __init__(self, *, title: str, read_only: bool) -> None:
        self._environment = Environment(
            loader=PackageLoader(__package__),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {"time": format_time}
        self._environment.globals |= {
            "site": title,
            "read_only": read_only,
            "session_url": session_url,
            "languages": LANGUAGES,
            "themes": THEMES,
        }

    def page(
        self, request: Request, template: str, values: Mapping[str, Any], *, status: int = 200
    ) -> HTMLResponse:
        """Return a page."""
        return HTMLResponse(self.fragment(request, template, values), status)

    def fragment(self, request: Request, template: str, values: Mapping[str, Any]) -> str:
        """Return the HTML of a template."""
        language = request_language(request)
        theme = request.cookies.get(THEME_COOKIE, "")
        path = request.url.path
        if request.method == "POST":  # actions have no page of their own
            area = "/" + path.split("/")[1]
            path = values.get("path", "/sessions" if area in ("/session", "/compare") else area)
        query = request.url.query if request.method == "GET" else ""
        shown = {
            **values,
            "t": partial(translate, language=language),
            "phrase": partial(translate_phrase, language=language),
            "language": language,
            "theme": theme if theme in THEMES else "system",
            "path": path,
            "here": path + (f"?{query}" if query else ""),
        }
        return self._environment.get_template(template).render(shown)
