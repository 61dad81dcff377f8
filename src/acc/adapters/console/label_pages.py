"""Pages on which raters label the claims and rules of an evaluation run."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from acc.adapters.console.access_pages import AccessPages, read_form
from acc.adapters.console.renderer import STATIC, Renderer
from acc.adapters.console.security import AccessPolicy, Gate
from acc.domain.errors import AccError
from acc.domain.labels import LabelItem

_VALUES: Mapping[str, bool | None] = {"yes": True, "no": False, "skip": None}


class RaterSession(Protocol):
    """The sample of one rater."""

    @property
    def sample(self) -> Sequence[LabelItem]:
        """Return the items in the order in which they are shown."""
        ...

    def labels(self) -> Mapping[str, bool | None]:
        """Return the labels so far, by item."""
        ...

    def record(self, item: LabelItem, good: bool | None) -> None:
        """Store a label; the last one of an item counts."""
        ...


class RaterSessions(Protocol):
    """Opens the samples of raters."""

    def open(self, rater: str) -> RaterSession:
        """Return the sample of a rater, or raise InvalidInput for an invalid name."""
        ...

    def progress(self) -> Mapping[str, int]:
        """Return the number of labels of each known rater."""
        ...


class LabelSite:
    """Serves the pages; it shows neither agents nor verdicts nor the labels of others."""

    def __init__(self, sessions: RaterSessions, *, policy: AccessPolicy, title: str) -> None:
        self._sessions = sessions
        self._renderer = Renderer(title=title, read_only=False)
        access = AccessPages(policy, self._renderer, home="/")
        routes: list[Route | Mount] = [
            Route("/", self.raters, methods=["GET"]),
            Route("/favicon.ico", self.icon, methods=["GET"]),
            Route("/login", access.login, methods=["GET"]),
            Route("/login", access.submit_token, methods=["POST"]),
            Route("/preferences", access.preferences, methods=["GET"]),
            Route("/label", self.show, methods=["GET"]),
            Route("/label", self.store, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: self._http_error})
        self._app = Gate(app, policy)
        #: Labels are appended to files; two requests must not write at the same time.
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await self._app(scope, receive, send)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        values = {"problem": str(getattr(error, "detail", "")), "title": "Not found"}
        return self._renderer.page(request, "label_problem.html", values, status=status)

    async def icon(self, request: Request) -> Response:
        """Return the icon."""
        return FileResponse(STATIC / "icon.svg")

    async def raters(self, request: Request) -> Response:
        """Return the form for the name of the rater."""
        values = {"raters": self._sessions.progress(), "problem": ""}
        return self._renderer.page(request, "raters.html", values)

    async def show(self, request: Request) -> Response:
        """Return an item of the sample: the one asked for, or the first without a label."""
        rater = request.query_params.get("rater", "").strip()
        try:
            session = self._sessions.open(rater)
        except AccError as error:
            known = {"raters": self._sessions.progress(), "problem": str(error)}
            return self._renderer.page(request, "raters.html", known, status=422)
        labels, total = session.labels(), len(session.sample)
        done = sum(item.id in labels for item in session.sample)
        number = _number(request.query_params.get("number", ""), total)
        if number is None:
            open_items = (n for n, item in enumerate(session.sample, 1) if item.id not in labels)
            number = next(open_items, None)
        item = None if number is None else session.sample[number - 1]
        values: dict[str, object] = {
            "rater": rater,
            "item": item,
            "number": number,
            "total": total,
            "done": done,
            "current": {True: "yes", False: "no", None: "skip"}[labels[item.id]]
            if item is not None and item.id in labels
            else "",
            "previous": _label_url(rater, (number or total + 1) - 1),
        }
        return self._renderer.page(request, "label.html", values)

    async def store(self, request: Request) -> Response:
        """Store a label and go on with the next item."""
        fields = await read_form(request)
        if fields["value"] not in _VALUES:
            raise HTTPException(400, "the label must be yes, no or skip")
        async with self._lock:
            try:
                session = self._sessions.open(fields["rater"])
            except AccError as error:
                raise HTTPException(400, str(error)) from None
            item = next((one for one in session.sample if one.id == fields["item"]), None)
            if item is None:
                raise HTTPException(404, "the sample has no such item")
            session.record(item, _VALUES[fields["value"]])
        return RedirectResponse(_label_url(fields["rater"]), 303)


def _number(text: str, total: int) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and 1 <= int(text) <= total else None


def _label_url(rater: str, number: int | None = None) -> str:
    query = {"rater": rater} if number is None else {"rater": rater, "number": number}
    return f"/label?{urlencode(query)}"
