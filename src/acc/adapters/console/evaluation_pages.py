"""Pages about evaluation runs: list, progress, results, turns, comparison, trend, export."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from acc.adapters.console.access_pages import parse_number, read_form
from acc.adapters.console.charts import draw_trend
from acc.adapters.console.label_pages import LabelPages
from acc.adapters.console.renderer import Renderer
from acc.adapters.console.security import FILES_PREFIX, AccessPolicy
from acc.adapters.console.stream import POLL_SECONDS, encode_message, partial_html
from acc.application.console.evaluations import EvaluationFolder, RaterSessions
from acc.domain.errors import InvalidInput, NotFound

#: Reports have an inline script with a policy of their own; here they get no origin.
_REPORT_POLICY = "sandbox allow-scripts allow-downloads"
_PAGE_TYPES = {".html": "text/html; charset=utf-8", ".svg": "image/svg+xml"}
_DEFAULT_METRIC = "outcome"


class EvaluationPages:
    """Renders what a folder of runs contains."""

    def __init__(
        self,
        folder: EvaluationFolder | None,
        renderer: Renderer,
        policy: AccessPolicy,
        *,
        is_open: Callable[[], bool],
    ) -> None:
        self._folder = folder
        self._renderer = renderer
        self._policy = policy
        self._is_open = is_open
        self._labels = LabelPages(
            self._sessions,
            renderer,
            home="/evaluations/raters",
            action="/evaluations/label",
            is_site=False,
        )

    def pages(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """Return the pages by path."""
        return {
            "/evaluations": self.runs,
            "/evaluations/run": self.run,
            "/evaluations/turn": self.turn,
            "/evaluations/compare": self.compare,
            "/evaluations/trend": self.trend,
            "/evaluations/export": self.export,
            "/evaluations/stream": self.stream,
            "/evaluations/raters": self.raters,
            "/evaluations/label": self.label,
            f"{FILES_PREFIX}{{key}}/{{run}}/{{path:path}}": self.file,
        }

    def actions(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """Return the actions by path."""
        return {
            "/evaluations/report": self.write_report,
            "/evaluations/label": self._labels.store,
        }

    @property
    def _runs(self) -> EvaluationFolder:
        if self._folder is None:
            raise NotFound("the console was started without --runs FOLDER")
        return self._folder

    async def runs(self, request: Request) -> Response:
        """Return the list of runs."""
        folder = self._folder
        runs = [] if folder is None else await asyncio.to_thread(folder.runs)
        values = {"has_folder": folder is not None, "runs": runs}
        return self._renderer.page(request, "evaluations.html", values)

    async def run(self, request: Request) -> Response:
        """Return progress and results of a run."""
        name, runs = request.query_params.get("run", ""), self._runs
        progress = await asyncio.to_thread(runs.progress, name)
        results = await asyncio.to_thread(runs.results, name) if progress.turns else ()
        listed = await asyncio.to_thread(runs.runs)
        values = {
            "name": name,
            "progress": progress,
            "is_followed": False,
            "results": results,
            "metrics": runs.metrics,
            "report": self.file_url(name, "report.html"),
            "has_report": any(one.name == name and one.has_report for one in listed),
            "others": [one.name for one in listed if one.name != name],
        }
        return self._renderer.page(request, "evaluation.html", values)

    def file_url(self, name: str, path: str) -> str:
        """Return the URL of a file of a run; it contains a key, because reports have no origin."""
        return f"{FILES_PREFIX}{self._policy.file_key(name)}/{quote(name, safe='')}/{quote(path)}"

    async def stream(self, request: Request) -> Response:
        """Follow the progress of a run."""
        name, runs = request.query_params.get("run", ""), self._runs
        await asyncio.to_thread(runs.progress, name)  # NotFound before the stream begins

        async def messages() -> AsyncIterator[bytes]:
            yield b"retry: 1000\n\n"
            shown = request.headers.get("last-event-id", "")
            while self._is_open():
                progress = await asyncio.to_thread(runs.progress, name)
                values = {"progress": progress, "name": name, "is_followed": True}
                html = self._renderer.fragment(request, "_progress.html", values)
                digest = hashlib.sha256(html.encode()).hexdigest()[:12]
                if digest != shown:
                    shown = digest
                    yield encode_message(partial_html("progress", "innerHTML", html), digest)
                if progress.is_complete:
                    await asyncio.sleep(POLL_SECONDS * 10)
                await asyncio.sleep(POLL_SECONDS)

        return StreamingResponse(messages(), media_type="text/event-stream")

    async def turn(self, request: Request) -> Response:
        """Return a turn of an episode with the evidence of the judge."""
        query = request.query_params
        wanted = parse_number(query.get("turn", "1"))
        name, episode = query.get("run", ""), query.get("episode", "")
        turn = await asyncio.to_thread(self._runs.turn, name, episode, wanted)

        def turn_url(to: int) -> str:
            values = {"run": name, "episode": episode, "turn": to}
            return f"/evaluations/turn?{urlencode(values)}"

        values: dict[str, Any] = {
            "name": name,
            "episode": episode,
            "turn": turn,
            "turn_url": turn_url,
        }
        return self._renderer.page(request, "evaluation_turn.html", values)

    async def compare(self, request: Request) -> Response:
        """Return two runs with their differences."""
        first, second = (request.query_params.get(name, "") for name in ("first", "second"))
        compared = await asyncio.to_thread(self._runs.compare, first, second)
        values = {"first": first, "second": second, "compared": compared}
        return self._renderer.page(request, "evaluation_comparison.html", values)

    async def trend(self, request: Request) -> Response:
        """Return a metric over all runs."""
        metric = request.query_params.get("metric", _DEFAULT_METRIC)
        points = await asyncio.to_thread(self._runs.trend, metric)
        values = {
            "metric": metric,
            "metrics": self._runs.metrics,
            "points": points,
            "agents": list(dict.fromkeys(agent for point in points for agent in point.values)),
            "svg": draw_trend(points),
        }
        return self._renderer.page(request, "evaluation_trend.html", values)

    async def write_report(self, request: Request) -> Response:
        """Write the report of a run, and open the run."""
        name = (await read_form(request))["run"]
        await asyncio.to_thread(self._runs.write_report, name)
        return RedirectResponse(f"/evaluations/run?{urlencode({'run': name})}", 303)

    async def file(self, request: Request) -> Response:
        """Return a page or table of a run to everyone who has its URL."""
        names = request.path_params
        if not self._policy.accepts_file_key(names["key"], names["run"]):
            raise NotFound("there is no such file")
        content = await asyncio.to_thread(self._runs.file, names["run"], names["path"])
        suffix = "." + names["path"].rpartition(".")[2]
        headers = {"content-security-policy": _REPORT_POLICY}
        if suffix not in _PAGE_TYPES:
            headers["content-disposition"] = "attachment"
        media_type = _PAGE_TYPES.get(suffix, "application/octet-stream")
        return Response(content, media_type=media_type, headers=headers)

    async def export(self, request: Request) -> Response:
        """Return a run as an archive of static pages."""
        name = request.query_params.get("run", "")
        archive = await asyncio.to_thread(self._runs.export, name)
        disposition = f"attachment; filename*=UTF-8''{quote(name)}.zip"
        headers = {"content-disposition": disposition}
        return Response(archive, media_type="application/zip", headers=headers)

    # Labels

    async def raters(self, request: Request) -> Response:
        """Return the form for the name of the rater."""
        self._check_labels()
        return await self._labels.raters(request)

    async def label(self, request: Request) -> Response:
        """Return an item of the sample of a rater."""
        self._check_labels()
        return await self._labels.show(request)

    def _check_labels(self) -> None:
        if self._policy.read_only:
            raise InvalidInput("the console is read-only; labels cannot be stored")

    async def _sessions(self, run: str) -> RaterSessions:
        return await asyncio.to_thread(self._runs.labels, run)
