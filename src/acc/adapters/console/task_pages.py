"""Pages about A2A: tasks and their push deliveries, cards and checks of servers."""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from acc.adapters.console.access_pages import read_form
from acc.adapters.console.doctor_phrases import translate_finding
from acc.adapters.console.event_views import as_json, as_text
from acc.adapters.console.pages import TASKS_PER_PAGE, ConsoleServices, number
from acc.adapters.console.renderer import Renderer, request_language
from acc.application.console.served_tasks import TaskStores
from acc.application.use_cases.diagnose_server import Diagnosis
from acc.domain.errors import InvalidInput, NotFound
from acc.domain.value_objects.agent_card import CardReport
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import redact_secrets
from acc.domain.value_objects.task import TaskState

_MAX_DELIVERIES = 100
_MAX_DIAGNOSES = 20


class ServerChecks(Protocol):
    """Reads cards of A2A servers, and checks the servers."""

    async def card(self, url: str, token: str) -> CardReport:
        """Return the card of a server with its findings."""
        ...

    async def diagnose(self, url: str, token: str) -> Diagnosis:
        """Return the results of the doctor; it sends a few short messages."""
        ...


class CheckedServer(NamedTuple):
    """The result of the doctor for a URL, and when it was made."""

    at: float
    diagnosis: Diagnosis


class TaskPages:
    """Renders tasks of all callers, and what the console knows about other servers."""

    def __init__(
        self,
        services: ConsoleServices,
        renderer: Renderer,
        *,
        stores: TaskStores,
        checks: ServerChecks,
        addresses: Sequence[str],
    ) -> None:
        self._services = services
        self._renderer = renderer
        self._stores = stores
        self._checks = checks
        self._addresses = addresses
        #: The newest results by URL.
        self._diagnoses: OrderedDict[str, CheckedServer] = OrderedDict()

    async def tasks(self, request: Request) -> Response:
        """Return the tasks, of one caller or state if the request names it."""
        page, query = number(request, "page", 0), request.query_params
        caller, state = query.get("caller", ""), query.get("state", "")
        found = await self._services.catalog.list_tasks(
            caller=caller, state=state, limit=TASKS_PER_PAGE + 1, skip=page * TASKS_PER_PAGE
        )
        values = {
            "tasks": found[:TASKS_PER_PAGE],
            "caller": caller,
            "state": state,
            "states": [one.value for one in TaskState],
            "page_number": page,
            "has_older": len(found) > TASKS_PER_PAGE,
            "filters": {"caller": caller, "state": state},
            "deliveries": await self._services.catalog.list_deliveries(limit=_MAX_DELIVERIES),
            "redact": redact_secrets,
        }
        return self._renderer.page(request, "tasks.html", values)

    async def task(self, request: Request) -> Response:
        """Return a task with its messages, artifacts, updates and push configurations."""
        app_name = request.query_params.get("app", "")
        task_id = request.query_params.get("task", "")
        tasks, _ = self._stores(app_name)
        task = await tasks.read(task_id)
        if task is None:
            raise NotFound("there is no such task; it may have been deleted")
        deliveries = await self._services.catalog.list_deliveries(
            task_id=task_id, limit=_MAX_DELIVERIES
        )
        values = {
            "app_name": app_name,
            "task": task,
            "events": await tasks.events(task_id, after=0),
            "configs": await tasks.list_push_configs(task_id),
            "deliveries": [one for one in deliveries if one.app_name == app_name],
            "redact": redact_secrets,
            "as_json": as_json,
            "part_text": _part_text,
        }
        return self._renderer.page(request, "task.html", values)

    async def servers(self, request: Request) -> Response:
        """Return the form for the URL of a server, and the newest results of the doctor."""
        return self._servers(request, url="")

    async def check_server(self, request: Request) -> Response:
        """Show the card of a server, or the results of the doctor."""
        form = await read_form(request)
        url, token = form["url"].strip(), form["token"].strip()
        if not url:
            raise InvalidInput("enter the URL of a server")
        if form["action"] == "card":
            report = await self._checks.card(url, token)
            return self._servers(request, url=url, report=report)
        diagnosis = await self._checks.diagnose(url, token)
        self._diagnoses[url] = CheckedServer(self._services.now(), diagnosis)
        self._diagnoses.move_to_end(url)
        while len(self._diagnoses) > _MAX_DIAGNOSES:
            self._diagnoses.popitem(last=False)
        return self._servers(request, url=url)

    def _servers(self, request: Request, *, url: str, report: CardReport | None = None) -> Response:
        body = "" if report is None else report.body.decode(errors="replace")
        values = {
            "url": url,
            "report": report,
            "card_text": _formatted(body),
            "addresses": self._addresses,
            "diagnoses": list(reversed(self._diagnoses.items())),
            "finding": partial(translate_finding, language=request_language(request)),
        }
        return self._renderer.page(request, "servers.html", values)


def _formatted(body: str) -> str:
    try:
        return msgspec.json.format(body, indent=2)
    except (msgspec.DecodeError, ValueError):
        return body


def _part_text(part: Part) -> str:
    if part.text is not None:
        return part.text
    if part.raw is not None:
        return f"{part.filename or 'file'} ({len(part.raw):,} bytes, {part.media_type})"
    return part.url if part.url is not None else as_text(part.data)
