"""The console as an ASGI application: routes and the actions behind forms."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import wraps

from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from acc.adapters.console.access_pages import AccessPages, read_form
from acc.adapters.console.evaluations import list_evaluations, read_report
from acc.adapters.console.event_views import visible
from acc.adapters.console.pages import ConsoleServices, SessionPages, check_can_run, session_key
from acc.adapters.console.renderer import (
    STATIC,
    Renderer,
    session_url,
)
from acc.adapters.console.security import AccessPolicy, Gate
from acc.adapters.console.stream import Position, SessionStream
from acc.application.console.approvals import StaleApproval, find_pending, make_answer
from acc.domain.errors import (
    AccError,
    InvalidInput,
    NotFound,
    NothingPending,
    SessionBusy,
    SessionWaiting,
)
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.session import DEFAULT_USER_ID, SessionKey

STOP_GRACE_SECONDS = 2.0
_CONFLICTS = (StaleApproval, SessionBusy, SessionWaiting, NothingPending)
#: The report has a policy of its own for its inline script; here it gets no origin.
_REPORT_POLICY = "sandbox allow-scripts allow-downloads"
_GRAPH_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

Handler = Callable[["Console", Request], Awaitable[Response]]


def _status_of(error: AccError) -> int:
    if isinstance(error, _CONFLICTS):
        return 409
    return 404 if isinstance(error, NotFound) else 422


def _shows_errors(handler: Handler) -> Handler:
    """Show errors of a page as a page."""

    @wraps(handler)
    async def handle(self: "Console", request: Request) -> Response:
        try:
            return await handler(self, request)
        except AccError as error:
            values = {"problem": str(error), "title": "Problem"}
            status = _status_of(error)
            return self.renderer.page(request, "problem.html", values, status=status)

    return handle


class Console:
    """Serves the pages; runs that it starts belong to it and not to a request."""

    def __init__(self, services: ConsoleServices, *, policy: AccessPolicy, title: str) -> None:
        self.services = services
        self.policy = policy
        self.renderer = Renderer(title=title, read_only=policy.read_only)
        self.access = AccessPages(policy, self.renderer, home="/sessions")
        self.pages = SessionPages(services, self.renderer)
        app = Starlette(
            routes=self._routes(),
            lifespan=self._lifespan,
            exception_handlers={HTTPException: self._http_error},
        )
        self._app = Gate(app, policy)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await self._app(scope, receive, send)

    async def stop(self) -> None:
        """End runs and streams before connections are closed."""
        await self.services.runs.close(grace=STOP_GRACE_SECONDS)

    def _routes(self) -> list[Route | Mount]:
        pages: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/": self.home,
            "/favicon.ico": self.icon,
            "/login": self.access.login,
            "/preferences": self.access.preferences,
            "/chat": self.new_chat,
            "/agents.svg": self.graph,
            "/evaluations": self.evaluations,
            "/evaluations/report": self.report,
            "/session/stream": self.stream,
        }
        shown = {
            "/sessions": self.pages.sessions,
            "/approvals": self.pages.approvals,
            "/agents": self.pages.agents,
            "/tasks": self.pages.tasks,
            "/session": self.pages.conversation,
            "/session/events": self.pages.events,
            "/session/event": self.pages.event,
            "/session/state": self.pages.state,
            "/session/files": self.pages.files,
            "/session/file": self.pages.file,
            "/session/memory": self.pages.memory,
            "/session/timeline": self.pages.timeline,
        }
        actions: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/login": self.access.submit_token,
            "/sessions/delete": self.delete,
            "/session/send": self.send,
            "/session/stop": self.stop_run,
            "/session/resume": self.resume,
            "/session/abandon": self.abandon,
            "/session/answer": self.answer,
        }
        return [
            *(Route(path, handler, methods=["GET"]) for path, handler in pages.items()),
            *(Route(path, self._shown(handler)) for path, handler in shown.items()),
            *(Route(path, handler, methods=["POST"]) for path, handler in actions.items()),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    def _shown(
        self, handler: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        @_shows_errors
        async def show(_: Console, request: Request) -> Response:
            return await handler(request)

        async def page(request: Request) -> Response:
            return await show(self, request)

        return page

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            self.services.runs.open(group)
            try:
                yield
            finally:
                await self.stop()

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        values = {"problem": str(getattr(error, "detail", "")), "title": "Not found"}
        return self.renderer.page(request, "problem.html", values, status=status)

    # Access

    async def home(self, request: Request) -> Response:
        """Redirect to the list of sessions."""
        return RedirectResponse("/sessions", 303)

    # Pages outside of sessions

    async def icon(self, request: Request) -> Response:
        """Return the icon, also to reports, which have no origin."""
        headers = {"cross-origin-resource-policy": "cross-origin"}
        return FileResponse(STATIC / "icon.svg", headers=headers)

    async def new_chat(self, request: Request) -> Response:
        """Redirect to a session that does not exist yet."""
        key = SessionKey(
            app_name=self.services.app_name,
            user_id=DEFAULT_USER_ID,
            session_id=self.services.new_id(),
        )
        return RedirectResponse(session_url("/session", key), 303)

    async def graph(self, request: Request) -> Response:
        """Return the drawing of the agents."""
        headers = {"content-security-policy": _GRAPH_POLICY}
        return Response(self.services.graph, media_type="image/svg+xml", headers=headers)

    async def evaluations(self, request: Request) -> Response:
        """Return the list of evaluation runs."""
        folder = self.services.evaluations
        runs = [] if folder is None else await asyncio.to_thread(list_evaluations, folder)
        values = {"folder": folder, "runs": runs}
        return self.renderer.page(request, "evaluations.html", values)

    @_shows_errors
    async def report(self, request: Request) -> Response:
        """Return the report of an evaluation run."""
        name = request.query_params.get("run", "")
        page = await asyncio.to_thread(read_report, self.services.evaluations, name)
        headers = {"content-security-policy": _REPORT_POLICY}
        return Response(page, media_type="text/html; charset=utf-8", headers=headers)

    async def stream(self, request: Request) -> Response:
        """Follow a session."""
        try:
            key = session_key(request.query_params)
        except InvalidInput as error:
            return Response(str(error), 422, media_type="text/plain")
        last = request.headers.get("last-event-id") or request.query_params.get("after", "")

        async def render_event(event: Event) -> str:
            view = await self.pages.event_view(key, event)
            if view is None:
                return ""
            return self.renderer.fragment(request, "_item.html", {"view": view, "key": key})

        stream = SessionStream(
            key,
            Position.parse(last) or Position(0, ""),
            store=self.services.store,
            runs=self.services.runs,
            render_event=render_event,
            render_controls=lambda: self.pages.controls(request, key),
            render_draft=lambda text: str(escape(visible(text))),
        )
        return StreamingResponse(stream.messages(), media_type="text/event-stream")

    # Actions

    @_shows_errors
    async def delete(self, request: Request) -> Response:
        """Delete a session."""
        key = session_key(await read_form(request))
        runner = check_can_run(self.services, key)
        if self.services.runs.get(key) is not None:
            raise SessionBusy("the session has a run; stop it first")
        await runner.sessions.delete(key.session_id, user_id=key.user_id)
        return RedirectResponse("/sessions", 303)

    async def send(self, request: Request) -> Response:
        """Start a turn with a message."""
        form = await read_form(request)
        return await self._act(request, form, lambda key: self._start(key, form["message"]))

    async def _start(self, key: SessionKey, message: str) -> None:
        runner = check_can_run(self.services, key)
        await self.services.runs.start(runner, key, message=message.replace("\r\n", "\n"))

    async def resume(self, request: Request) -> Response:
        """Resume a run whose process died."""
        form = await read_form(request)

        async def resume(key: SessionKey) -> None:
            await self.services.runs.start(check_can_run(self.services, key), key)

        return await self._act(request, form, resume)

    async def stop_run(self, request: Request) -> Response:
        """Cancel the run of a session."""
        form = await read_form(request)

        async def stop(key: SessionKey) -> None:
            if not self.services.runs.stop(key):
                raise NothingPending("this console runs nothing in the session")

        return await self._act(request, form, stop)

    async def abandon(self, request: Request) -> Response:
        """Cancel a run that waits for an answer."""
        form = await read_form(request)

        async def abandon(key: SessionKey) -> None:
            runner = check_can_run(self.services, key)
            await runner.abandon(user_id=key.user_id, session_id=key.session_id)
            self.services.runs.notify()

        return await self._act(request, form, abandon)

    async def answer(self, request: Request) -> Response:
        """Answer a request, if it is still what the page showed."""
        form = await read_form(request)

        async def answer(key: SessionKey) -> None:
            runner = check_can_run(self.services, key)
            asked = await find_pending(
                self.services.store, key, form.get("request", ""), form.get("digest", "")
            )
            given = make_answer(
                asked,
                form.get("decision", ""),
                arguments=form.get("arguments", ""),
                value=form.get("value", ""),
                reason=form.get("reason", ""),
            )
            await self.services.runs.start(runner, key, answers=(given,))

        return await self._act(request, form, answer)

    async def _act(
        self,
        request: Request,
        form: Mapping[str, str],
        action: Callable[[SessionKey], Awaitable[None]],
    ) -> Response:
        """Perform an action on a session and return to the page that it came from."""
        is_fragment = request.headers.get("hx-request") == "true"
        key: SessionKey | None = None
        try:
            key = session_key(form)
            await action(key)
        except AccError as error:
            status = _status_of(error)
            if is_fragment:
                notice = Markup('<p class="notice" role="alert">{}</p>').format(visible(str(error)))
                html = f'<hx-partial hx-target="#notice" hx-swap="innerHTML">{notice}</hx-partial>'
                return Response(html, status, media_type="text/html; charset=utf-8")
            values = {"problem": str(error), "title": "Problem"}
            if form.get("from") == "approvals":
                return await self.pages.approvals(request, problem=str(error), status=status)
            return self.renderer.page(request, "problem.html", values, status=status)
        if is_fragment:
            return Response(status_code=204)
        following = (
            "/approvals" if form.get("from") == "approvals" else session_url("/session", key)
        )
        return RedirectResponse(following, 303)
