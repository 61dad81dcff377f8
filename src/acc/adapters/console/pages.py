"""The pages about sessions: list, conversation, events, state, files, memory and timeline."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from acc.adapters.console.access_pages import parse_number
from acc.adapters.console.charts import draw_waterfall
from acc.adapters.console.event_views import (
    CONVERSATION,
    IMAGE_SUFFIXES,
    IMAGE_TYPES,
    EventView,
    as_json,
    is_in_conversation,
    shorten,
    summary,
    view_event,
)
from acc.adapters.console.renderer import Renderer, request_language, session_url
from acc.adapters.console.stream import Controls, Position
from acc.application.console.active_steps import AgentDrawing
from acc.application.console.approvals import pending_in
from acc.application.console.evaluations import EvaluationFolder
from acc.application.console.live_runs import LiveRuns
from acc.application.console.memory_history import Terms, describe_turns, explain
from acc.application.console.partners import Partners
from acc.application.console.timeline import Span, SpanKind, build_timeline
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import InvalidInput, NotFound
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import NO_USAGE, Usage
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.storage_ports import (
    ArtifactStorePort,
    SessionStorePort,
    StoreCatalogPort,
)

SESSIONS_PER_PAGE = 25
MESSAGES_PER_PAGE = 30
EVENTS_PER_PAGE = 50
TASKS_PER_PAGE = 50
SPANS_PER_PAGE = 60
#: Turns of a memory that are listed and searched.
MEMORY_TURNS = 40
_MAX_SOURCES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleServices:
    """What the console needs from outside."""

    store: SessionStorePort
    artifacts: ArtifactStorePort
    catalog: StoreCatalogPort
    runs: LiveRuns
    partners: Partners
    terms: Terms
    drawings: Sequence[AgentDrawing]
    memory_budget: int
    evaluations: EvaluationFolder | None
    new_id: "NewId"
    now: "Now"


class Now(Protocol):
    """Returns the time."""

    def __call__(self) -> float:
        """Return seconds since 1970."""
        ...


class NewId(Protocol):
    """Returns a new id."""

    def __call__(self) -> str:
        """Return the id."""
        ...


def session_key(values: Mapping[str, str]) -> SessionKey:
    """Return the session that the parameters of a request name."""
    return SessionKey(
        app_name=values.get("app", ""),
        user_id=values.get("user", ""),
        session_id=values.get("id", ""),
    )


def number(request: Request, name: str, default: int) -> int:
    """Return a parameter that is a natural number."""
    return parse_number(request.query_params.get(name, ""), default)


class StateChange(NamedTuple):
    """A change of a key of the state; `value` is None if it was removed."""

    seq: int
    author: str
    value: str | None


class SessionPages:
    """Renders what the store contains."""

    def __init__(self, services: ConsoleServices, renderer: Renderer) -> None:
        self._services = services
        self._renderer = renderer

    # Lists

    async def sessions(self, request: Request) -> Response:
        """Return the list of sessions."""
        text, page = request.query_params.get("q", "").strip(), number(request, "page", 0)
        found = await self._services.catalog.list_sessions(
            text=text, limit=SESSIONS_PER_PAGE, skip=page * SESSIONS_PER_PAGE
        )
        values = {
            "text": text,
            "page_number": page,
            "found": found,
            "has_older": (page + 1) * SESSIONS_PER_PAGE < found.total,
        }
        return self._renderer.page(request, "sessions.html", values)

    # One session

    async def conversation(self, request: Request) -> Response:
        """Return the conversation of a session; the newest page follows the session."""
        values = await self._session_values(request, "conversation", may_be_new=True)
        before = number(request, "before", 0) or None
        values |= await self.conversation_values(request, values["key"], before=before)
        return self._renderer.page(request, "session.html", values)

    async def conversation_values(
        self, request: Request, key: SessionKey, *, before: int | None = None, side: str = ""
    ) -> dict[str, Any]:
        """Return what the template of a conversation needs; `side` ends the ids of elements."""
        events = await self._services.store.events(
            key,
            before=before,
            limit=MESSAGES_PER_PAGE + 1,
            kinds=CONVERSATION,
            newest_first=True,
        )
        shown = events[:MESSAGES_PER_PAGE][::-1]
        return {
            "key": key,
            "side": side,
            "views": [view for event in shown if (view := await self.event_view(key, event))],
            "older": shown[0].seq if len(events) > MESSAGES_PER_PAGE else 0,
            "is_live": before is None,
            "controls": (controls := await self.controls(request, key)),
            "position": Position(events[0].seq if events else 0, controls.digest),
            "can_run": self._services.partners.runner(key.app_name) is not None,
            "partner": self._services.partners.name_of(key.app_name),
        }

    async def event_view(self, key: SessionKey, event: Event) -> EventView | None:
        """Return an event of the conversation, None if it is not part of it."""
        messages: tuple[Event, ...] = ()
        if event.kind is EventKind.ENDED and event.status is RunStatus.COMPLETED and event.text:
            messages = await self._services.store.events(
                key, run_id=event.run_id, kinds=(EventKind.MESSAGE,)
            )
            messages = tuple(message for message in messages if message.author != "user")
        if not is_in_conversation(event, messages):
            return None
        return view_event(event, with_state=False)

    async def controls(self, request: Request, key: SessionKey) -> Controls:
        """Return the status of a session and what a person can do about it."""
        session = await self._services.store.read(key)
        is_live = self._services.runs.get(key) is not None
        pending = (
            () if session is None or is_live else await pending_in(self._services.store, session)
        )
        values = {
            "key": key,
            "status": "" if session is None else session.status.value,
            "is_live": is_live,
            "pending": pending,
            "can_run": self._services.partners.runner(key.app_name) is not None,
            "as_json": as_json,
        }
        state = (values["status"], session and session.run_id, is_live, [p.digest for p in pending])
        digest = hashlib.sha256(msgspec.json.encode(state)).hexdigest()[:12] if session else ""
        return Controls(digest, self._renderer.fragment(request, "_controls.html", values))

    async def facts(self, request: Request, key: SessionKey) -> str:
        """Return the turns, the usage and the cost of a session."""
        session = await self._services.store.read(key) or Session(key=key)
        usage, cost = await self._usage(key)
        values = {"key": key, "session": session, "usage": usage, "cost": cost}
        return self._renderer.fragment(request, "_facts.html", values)

    async def events(self, request: Request) -> Response:
        """Return one page of the events of a session, newest first."""
        values = await self._session_values(request, "events")
        events = await self._services.store.events(
            values["key"],
            before=number(request, "before", 0) or None,
            limit=EVENTS_PER_PAGE + 1,
            newest_first=True,
        )
        shown = events[:EVENTS_PER_PAGE]
        values |= {
            "rows": [(event, summary(event)) for event in shown],
            "older": shown[-1].seq if len(events) > EVENTS_PER_PAGE else 0,
        }
        return self._renderer.page(request, "events.html", values)

    async def event(self, request: Request) -> Response:
        """Return one event with all of its content."""
        values = await self._session_values(request, "events")
        event = await self.find_event(values["key"], number(request, "seq", 0))
        values |= {"event": event, "view": view_event(event, limit=None), "side": ""}
        values["json"] = as_json(event)
        return self._renderer.page(request, "event.html", values)

    async def state(self, request: Request) -> Response:
        """Return the state of a session and the events that changed each key, newest first."""
        values = await self._session_values(request, "state")
        key, session = values["key"], values["session"]
        events = await self._services.store.events(key, newest_first=True, limit=_MAX_SOURCES)
        history: dict[str, list[StateChange]] = {}
        for event in events:
            for name, value in event.actions.state_delta.items():
                change = StateChange(event.seq, event.author, shorten(as_json(value)))
                history.setdefault(name, []).append(change)
            for name in event.actions.state_removed:
                history.setdefault(name, []).append(StateChange(event.seq, event.author, None))
        state = {name: as_json(value) for name, value in session.state.items()}
        removed = {name: "" for name in history if name not in state}
        values |= {"state": state | removed, "history": history}
        return self._renderer.page(request, "state.html", values)

    async def files(self, request: Request) -> Response:
        """Return the files of a session."""
        values = await self._session_values(request, "files")
        artifacts, key = self._services.artifacts, values["key"]
        names = await artifacts.names(key)
        values["files"] = [(name, await artifacts.versions(key, name)) for name in names]
        values["images"] = {
            name: versions[-1]
            for name, versions in values["files"]
            if versions and name.lower().endswith(IMAGE_SUFFIXES)
        }
        return self._renderer.page(request, "files.html", values)

    async def file(self, request: Request) -> Response:
        """Return the content of a file; only images of known types are shown by browsers."""
        name, version = request.query_params.get("name", ""), number(request, "version", 0)
        key = session_key(request.query_params)
        artifact = await self._services.artifacts.load(key, name, version or None)
        if artifact is None:
            raise NotFound("the session has no such file")
        return _content(artifact.data, artifact.media_type, name)

    async def part(self, request: Request) -> Response:
        """Return the content of a file in a message."""
        event = await self.find_event(session_key(request.query_params), number(request, "seq", 0))
        index = number(request, "part", 0) - 1
        part = event.parts[index] if 0 <= index < len(event.parts) else None
        if part is None or part.raw is None:
            raise NotFound("the message has no such file")
        return _content(part.raw, part.media_type, part.filename)

    async def find_event(self, key: SessionKey, seq: int) -> Event:
        """Return an event, or raise NotFound."""
        found = await self._services.store.events(key, after=seq - 1, limit=1)
        if not found or found[0].seq != seq:
            raise NotFound(f"the session has no event {seq}")
        return found[0]

    async def memory(self, request: Request) -> Response:
        """Return the state of a memory in one turn, and the search in all of them."""
        values = await self._session_values(request, "memory")
        key, query = values["key"], request.query_params.get("q", "").strip()
        store = self._services.store
        newest = await store.events(
            key, kinds=(EventKind.MEMORY,), newest_first=True, limit=MEMORY_TURNS + 1
        )
        messages = await store.events(
            key, kinds=(EventKind.MESSAGE,), newest_first=True, limit=_MAX_SOURCES
        )
        turns = describe_turns(newest, messages, limit=MEMORY_TURNS)
        seq = number(request, "at", turns[0].seq if turns else 0)
        selected = next((turn for turn in turns if turn.seq == seq), None)
        if turns and selected is None:
            raise NotFound(f"event {seq} is not one of the newest memories of the session")
        findings = explain(query, turns, messages, terms=self._services.terms) if query else ()
        budget = self._services.memory_budget
        values |= {
            "turns": turns,
            "turn": selected,
            "budget": budget,
            "query": query,
            "findings": [finding for finding in findings if finding.kind != "unchanged"],
        }
        return self._renderer.page(request, "memory.html", values)

    async def timeline(self, request: Request) -> Response:
        """Return the steps of a run against time."""
        values = await self._session_values(request, "timeline")
        key, store = values["key"], self._services.store
        starts = await store.events(
            key, kinds=(EventKind.MESSAGE,), newest_first=True, limit=_MAX_SOURCES
        )
        runs = [event for event in starts if event.author == "user"][:MEMORY_TURNS]
        run_id = request.query_params.get("run", "") or values["session"].run_id
        events = await store.events(key, run_id=run_id)
        spans = build_timeline(events)
        page = number(request, "page", 0)
        shown = spans[page * SPANS_PER_PAGE : (page + 1) * SPANS_PER_PAGE]
        chosen = number(request, "span", 0)
        selected = next(
            (s for s in shown if s.seq == chosen and s.kind is not SpanKind.AGENT), None
        )

        def url_of(span: Span) -> str:
            if span.kind is SpanKind.AGENT:
                return session_url("/session/event", key, seq=span.seq)
            names = {"run": run_id, "page": page, "span": span.seq}
            return session_url("/session/timeline", key, **names) + "#span"

        values |= {
            "runs": runs,
            "run_id": run_id,
            "spans": shown,
            "total": len(spans),
            "first_number": page * SPANS_PER_PAGE + 1,
            "page_number": page,
            "has_later": len(spans) > (page + 1) * SPANS_PER_PAGE,
            "svg": draw_waterfall(shown, language=request_language(request), url_of=url_of),
            "url_of": url_of,
            "selected": selected,
            "parts": () if selected is None else _span_parts(selected, events),
            "side": "",
        }
        return self._renderer.page(request, "timeline.html", values)

    async def _session_values(
        self, request: Request, tab: str, *, may_be_new: bool = False
    ) -> dict[str, Any]:
        key = session_key(request.query_params)
        session = await self._services.store.read(key)
        if session is None and not may_be_new:
            raise NotFound("there is no such session; it may have been deleted")
        session = session or Session(key=key)
        usage, cost = await self._usage(key)
        return {"key": key, "session": session, "tab": tab, "usage": usage, "cost": cost}

    async def _usage(self, key: SessionKey) -> tuple[Usage, str]:
        """Return the usage of all runs of a session, and its cost as text."""
        ends = await self._services.store.events(key, kinds=(EventKind.ENDED,))
        # A resumed run has several ends; the last one counts all of it.
        by_run = {event.run_id: event.usage for event in ends if event.usage is not None}
        total = sum(by_run.values(), NO_USAGE)
        if total.cost is None:
            return total, ""
        return total, f"${total.cost:.4f}" + ("" if total.is_priced else " +")


def _span_parts(span: Span, events: Sequence[Event]) -> list[tuple[str, EventView]]:
    """Return what a step received and returned, with labels."""
    by_seq = {event.seq: event for event in events if event.seq in (span.seq, span.asked)}
    ended, asked = by_seq[span.seq], by_seq.get(span.asked)
    before, after = {
        SpanKind.TOOL: ("Arguments", "Result"),
        SpanKind.WAIT: ("Request", "Answer"),
        SpanKind.MEMORY: ("", "Memory"),
    }.get(span.kind, ("Request", "Response"))
    if asked is not None and ended.result is not None:
        call_id = ended.result.call_id
        own = tuple(p for p in asked.parts if p.call is not None and p.call.id == call_id)
        asked = replace(asked, parts=own)
    parts = [(before, view_event(asked))] if asked is not None else []
    # A model call that failed has no response.
    return parts if span.asked == span.seq else [*parts, (after, view_event(ended))]


def _content(data: bytes, media_type: str, name: str) -> Response:
    """Return a file; browsers show only images of known types."""
    is_image = media_type in IMAGE_TYPES
    headers = {"content-security-policy": "sandbox; default-src 'none'"}
    if not is_image:
        headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(name or 'file')}"
    shown = media_type if is_image else "application/octet-stream"
    return Response(data, media_type=shown, headers=headers)


def check_can_run(services: ConsoleServices, key: SessionKey) -> SessionRunner:
    """Return the runner of a session, or raise InvalidInput."""
    runner = services.partners.runner(key.app_name)
    if runner is None:
        raise InvalidInput("the console was started without an agent; it cannot run sessions")
    return runner
