"""Pages on which raters label the claims and rules of an evaluation run."""

import asyncio
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from acc.adapters.console.access_pages import AccessPages, parse_number, read_form
from acc.adapters.console.phrases import describe_error, translate_phrase
from acc.adapters.console.renderer import STATIC, Renderer, request_language
from acc.adapters.console.security import AccessPolicy, Gate
from acc.application.console.evaluations import RaterSessions
from acc.domain.errors import AccError, InvalidInput

_VALUES: Mapping[str, bool | None] = {"yes": True, "no": False, "skip": None}


class OpenSessions(Protocol):
    """Returns the samples of a run."""

    async def __call__(self, run: str, /) -> RaterSessions:
        """Return them, or raise NotFound."""
        ...


class LabelPages:
    """The pages of raters; they show neither agents nor verdicts nor the labels of others.

    `home` and `action` are their paths. A site of one run has no other pages.
    """

    def __init__(
        self,
        sessions: OpenSessions,
        renderer: Renderer,
        *,
        home: str,
        action: str,
        is_site: bool,
    ) -> None:
        self._sessions = sessions
        self._renderer = renderer
        self._paths = {"home": home, "action": action, "is_site": is_site}
        #: Labels are appended to files; two requests must not write at the same time.
        self._lock = asyncio.Lock()

    async def raters(self, request: Request, *, problem: str = "", status: int = 200) -> Response:
        """Return the form for the name of the rater."""
        run = request.query_params.get("run", "")
        known = (await self._sessions(run)).progress()
        values = {"raters": known, "problem": problem, "run": run, **self._paths}
        return self._renderer.page(request, "raters.html", values, status=status)

    async def show(self, request: Request) -> Response:
        """Return an item of the sample: the one asked for, or the first without a label."""
        rater = request.query_params.get("rater", "").strip()
        run = request.query_params.get("run", "")
        try:
            session = (await self._sessions(run)).open(rater)
        except InvalidInput as error:
            problem = describe_error(error, request_language(request))
            return await self.raters(request, problem=problem, status=422)
        labels, total = session.labels(), len(session.sample)
        done = sum(item.id in labels for item in session.sample)
        number: int | None = parse_number(request.query_params.get("number", ""))
        if number not in range(1, total + 1):
            open_items = (n for n, item in enumerate(session.sample, 1) if item.id not in labels)
            number = next(open_items, None)
        item = None if number is None else session.sample[number - 1]
        values: dict[str, object] = {
            "rater": rater,
            "run": run,
            "item": item,
            "number": number,
            "total": total,
            "done": done,
            "current": {True: "yes", False: "no", None: "skip"}[labels[item.id]]
            if item is not None and item.id in labels
            else "",
            "previous": self._url(run, rater, (number or total + 1) - 1),
            **self._paths,
        }
        return self._renderer.page(request, "label.html", values)

    async def store(self, request: Request) -> Response:
        """Store a label and go on with the next item."""
        fields = await read_form(request)
        if fields["value"] not in _VALUES:
            raise HTTPException(400, "the label must be yes, no or skip")
        async with self._lock:
            try:
                session = (await self._sessions(fields["run"])).open(fields["rater"])
            except AccError as error:
                raise HTTPException(400, str(error)) from None
            item = next((one for one in session.sample if one.id == fields["item"]), None)
            if item is None:
                raise HTTPException(404, "the sample has no such item")
            session.record(item, _VALUES[fields["value"]])
        return RedirectResponse(self._url(fields["run"], fields["rater"]), 303)

    def _url(self, run: str, rater: str, number: int | None = None) -> str:
        query = {"run": run, "rater": rater, "number": number or ""}
        return f"{self._paths['action']}?{urlencode({k: v for k, v in query.items() if v})}"


class LabelSite:
    """Serves the pages of one run."""

    def __init__(self, sessions: RaterSessions, *, policy: AccessPolicy, title: str) -> None:
        self._renderer = Renderer(title=title, read_only=False)
        access = AccessPages(policy, self._renderer, home="/")

        async def open_sessions(_: str) -> RaterSessions:
            return sessions

        pages = LabelPages(open_sessions, self._renderer, home="/", action="/label", is_site=True)
        routes: list[Route | Mount] = [
            Route("/", pages.raters, methods=["GET"]),
            Route("/favicon.ico", self.icon, methods=["GET"]),
            Route("/login", access.login, methods=["GET"]),
            Route("/login", access.submit_token, methods=["POST"]),
            Route("/preferences", access.preferences, methods=["GET"]),
            Route("/label", pages.show, methods=["GET"]),
            Route("/label", pages.store, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: self._http_error})
        self._app = Gate(app, policy)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await self._app(scope, receive, send)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        problem = translate_phrase(str(getattr(error, "detail", "")), request_language(request))
        values = {"problem": problem, "title": "Not found" if status == 404 else "Problem"}
        return self._renderer.page(request, "label_problem.html", values, status=status)

    async def icon(self, request: Request) -> Response:
        """Return the icon."""
        return FileResponse(STATIC / "icon.svg")
