"""The console as an ASGI application: routes and the actions behind forms."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from urllib.parse import urlencode

from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from acc.adapters.console.access_pages import AccessPages, read_form, read_upload
from acc.adapters.console.agent_pages import AgentPages
from acc.adapters.console.approval_pages import ApprovalPages
from acc.adapters.console.chat_pages import SIDES, ChatPages, compared_keys, read_message
from acc.adapters.console.evaluation_pages import EvaluationPages
from acc.adapters.console.event_views import visible
from acc.adapters.console.pages import ConsoleServices, SessionPages, check_can_run, session_key
from acc.adapters.console.phrases import describe_error, translate_phrase
from acc.adapters.console.renderer import STATIC, Renderer, request_language, session_url
from acc.adapters.console.security import AccessPolicy, Gate
from acc.adapters.console.stream import Position, SessionStream
from acc.adapters.console.task_pages import ServerChecks, TaskPages
from acc.application.console.approvals import StaleApproval, find_pending, make_answer
from acc.application.console.served_tasks import TaskStores
from acc.application.runtime.inputs import Message
from acc.domain.errors import (
    AccError,
    InvalidInput,
    NotFound,
    NothingPending,
    SessionBusy,
    SessionWaiting,
)
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.session import SessionKey

STOP_GRACE_SECONDS = 2.0
_CONFLICTS = (StaleApproval, SessionBusy, SessionWaiting, NothingPending)

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
            problem = describe_error(error, request_language(request))
            values = {"problem": problem, "title": "Problem"}
            status = _status_of(error)
            return self.renderer.page(request, "problem.html", values, status=status)

    return handle


class Console:
    """Serves the pages; runs that it starts belong to it and not to a request."""

    def __init__(
        self,
        services: ConsoleServices,
        *,
        policy: AccessPolicy,
        title: str,
        stores: TaskStores,
        checks: ServerChecks,
        addresses: Sequence[str],
    ) -> None:
        self.services = services
        self.policy = policy
        self.renderer = Renderer(title=title, read_only=policy.read_only)
        self.access = AccessPages(policy, self.renderer, home="/sessions")
        self.pages = SessionPages(services, self.renderer)
        self.agents = AgentPages(services, self.renderer)
        self.approvals = ApprovalPages(services, self.renderer)
        self.chat = ChatPages(services, self.renderer, self.pages)
        self.tasks = TaskPages(
            services, self.renderer, stores=stores, checks=checks, addresses=addresses
        )
        self.evaluations = EvaluationPages(
            services.evaluations, self.renderer, policy, is_open=lambda: services.runs.is_open
        )
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
            "/session/stream": self.stream,
        }
        shown = {
            "/sessions": self.pages.sessions,
            "/approvals": self.approvals.approvals,
            "/approvals/stream": self.approvals.stream,
            "/chat": self.chat.new_chat,
            "/compare": self.chat.compare,
            "/agents": self.agents.agents,
            "/agents.svg": self.agents.graph,
            "/agents/stream": self.agents.stream,
            "/tasks": self.tasks.tasks,
            "/tasks/task": self.tasks.task,
            "/servers": self.tasks.servers,
            "/session": self.pages.conversation,
            "/session/events": self.pages.events,
            "/session/event": self.pages.event,
            "/session/state": self.pages.state,
            "/session/files": self.pages.files,
            "/session/file": self.pages.file,
            "/session/part": self.pages.part,
            "/session/edit": self.chat.edit,
            "/session/memory": self.pages.memory,
            "/session/timeline": self.pages.timeline,
            **self.evaluations.pages(),
        }
        actions: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/login": self.access.submit_token,
            "/sessions/delete": self.delete,
            "/session/send": self.send,
            "/compare/send": self.send_to_both,
            "/session/stop": self.stop_run,
            "/session/resume": self.resume,
            "/session/abandon": self.abandon,
            "/session/answer": self.answer,
        }
        shown_actions = {
            "/chat": self.chat.begin,
            "/session/fork": self.chat.fork,
            "/servers": self.tasks.check_server,
            **self.evaluations.actions(),
        }
        return [
            *(Route(path, handler, methods=["GET"]) for path, handler in pages.items()),
            *(Route(path, self._shown(h), methods=["GET"]) for path, h in shown.items()),
            *(Route(path, self._shown(h), methods=["POST"]) for path, h in shown_actions.items()),
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
        problem = translate_phrase(str(getattr(error, "detail", "")), request_language(request))
        values = {"problem": problem, "title": "Not found" if status == 404 else "Problem"}
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

    async def stream(self, request: Request) -> Response:
        """Follow a session."""
        try:
            key = session_key(request.query_params)
        except InvalidInput as error:
            problem = describe_error(error, request_language(request))
            return Response(problem, 422, media_type="text/plain; charset=utf-8")
        side = request.query_params.get("side", "")
        side = side if side in SIDES else ""
        last = request.headers.get("last-event-id") or request.query_params.get("after", "")

        async def render_event(event: Event) -> str:
            view = await self.pages.event_view(key, event)
            if view is None:
                return ""
            values = {"view": view, "key": key, "side": side}
            return self.renderer.fragment(request, "_item.html", values)

        stream = SessionStream(
            key,
            Position.parse(last) or Position(0, ""),
            store=self.services.store,
            runs=self.services.runs,
            render_event=render_event,
            render_controls=lambda: self.pages.controls(request, key),
            render_facts=lambda: self.pages.facts(request, key),
            render_draft=lambda text: str(escape(visible(text))),
            side=side,
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
        form, files = await read_upload(request)
        message = read_message(form["message"], files)
        return await self._act(request, form, lambda key: self._start(key, message))

    async def send_to_both(self, request: Request) -> Response:
        """Start a turn with the same message in two sessions."""
        form, files = await read_upload(request)
        message = read_message(form["message"], files)

        async def start(_: SessionKey) -> None:
            keys = compared_keys(form)
            for key in keys:
                if self.services.runs.get(key) is not None:
                    raise SessionBusy("one of the two sessions has a run; wait until it ends")
            for key in keys:
                await self._start(key, message)

        return await self._act(request, {**form, "app": form["left"]}, start)

    async def _start(self, key: SessionKey, message: Message) -> None:
        await self.services.runs.start(check_can_run(self.services, key), key, message=message)

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
            await self.services.runs.abandon(check_can_run(self.services, key), key)

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
            problem = describe_error(error, request_language(request))
            if is_fragment:
                notice = Markup('<p class="notice" role="alert">{}</p>').format(visible(problem))
                html = f'<hx-partial hx-target="#notice" hx-swap="innerHTML">{notice}</hx-partial>'
                return Response(html, status, media_type="text/html; charset=utf-8")
            values = {"problem": problem, "title": "Problem"}
            if form.get("from") == "approvals":
                return await self.approvals.approvals(request, problem=problem, status=status)
            return self.renderer.page(request, "problem.html", values, status=status)
        if is_fragment:
            return Response(status_code=204)
        return RedirectResponse(_following(form, key), 303)


def _following(form: Mapping[str, str], key: SessionKey) -> str:
    """Return the page that follows an action without JavaScript."""
    if form.get("from") == "approvals":
        return "/approvals"
    if form.get("right"):
        names = {name: form[name] for name in ("id", "left", "right")}
        return f"/compare?{urlencode(names)}"
    return session_url("/session", key)
