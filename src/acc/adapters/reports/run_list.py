"""The evaluation runs in a folder, as the console shows them."""

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import msgspec

from acc.adapters.reports import results, run_differences
from acc.adapters.reports.labels import RunLabelSessions
from acc.adapters.reports.page_data import format_difference
from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.adapters.reports.turn_records import AgentRecord, TurnRecord
from acc.adapters.reports.writer import write_results
from acc.application.console.evaluations import (
    AnswerView,
    ClaimView,
    Comparison,
    ComparisonRow,
    EpisodeProgress,
    ResultRow,
    RunProgress,
    RunRow,
    TrendPoint,
    TurnView,
)
from acc.application.evaluation.results import RATES, metric_text
from acc.domain.errors import AccError, NotFound
from acc.domain.metrics import METRIC_NAMES
from acc.domain.value_objects.evaluation_run import EpisodeJob

_MAX_RUNS = 200
#: A run whose last turn is older is not shown as active.
_ACTIVE_SECONDS = 60.0
_EXPORTED = ("report.html", "summary.json", "records.csv", "records.jsonl", "junit.xml")
_EXPORTED_FOLDERS = {"turns": ".html", "charts": ".svg"}
_LABEL_ITEMS = 60


class RunFolder:
    """Implements EvaluationFolder.

    `scenario_turns` returns the number of turns of a scenario if the evaluation run has not
    recorded it.
    """

    metrics = METRIC_NAMES

    def __init__(self, path: Path, *, scenario_turns: Callable[[str], int]) -> None:
        self._path = path
        self._scenario_turns = scenario_turns
        self._labels: dict[str, RunLabelSessions] = {}
        self._lengths: dict[str, int] = {}

    def runs(self) -> list[RunRow]:
        """Return the runs directly in the folder, most recently changed first."""
        try:
            found = [path for path in self._path.iterdir() if (path / "run.json").is_file()]
        except OSError as error:
            raise NotFound(f"cannot read the folder {self._path}: {error.strerror}") from None
        rows = [_row(path) for path in found]
        rows.sort(key=lambda row: (-row.changed_at, row.name))
        return rows[:_MAX_RUNS]

    def progress(self, name: str) -> RunProgress:
        """Return how far a run is."""
        run = self._open(name)
        episodes = []
        lengths = run.lengths()
        for job in run.jobs():
            recorded = lengths.get(job.scenario.id) or run.configuration.turns
            planned = recorded or self._planned(job)
            episodes.append(EpisodeProgress(job.name, _line_count(_file(run, job)), planned))
        is_active = time.time() - _changed_at(run.path) < _ACTIVE_SECONDS
        progress = RunProgress(tuple(episodes), is_active)
        return progress._replace(is_active=is_active and not progress.is_complete)

    def results(self, name: str) -> tuple[ResultRow, ...]:
        """Return the results of the recorded turns; summaries also have intervals."""
        run = self._open(name)
        summary = results.read_summary(run)
        recorded = sum(_line_count(_file(run, job)) for job in run.jobs())
        if summary.get("turns") == recorded:
            return tuple(_result(agent, fields) for agent, fields in summary["agents"].items())
        tally = results.tally_turns(run)
        measured = results.measures(tally)
        return tuple(_result(agent, measured[agent] | tally.statuses[agent]) for agent in measured)

    def turn(self, name: str, episode: str, number: int) -> TurnView:
        """Return a turn with the evidence of the judge."""
        run = self._open(name)
        job = next((one for one in run.jobs() if one.name == episode), None)
        records = [] if job is None else run.lines(job)
        record = next((one for one in records if one.turn == number), None)
        if record is None:
            raise NotFound(f"the run has no turn {number} of the episode {episode!r}")
        return _turn(record, records)

    def compare(self, first: str, second: str) -> Comparison:
        """Return the metrics of two runs with their differences, second minus first."""
        one, other = self._open(first), self._open(second)
        rows = results.compare(one, other)
        return Comparison(
            tuple(_comparison(row) for row in rows),
            tuple(run_differences.configuration_differences(one, other)),
        )

    def trend(self, metric: str) -> tuple[TrendPoint, ...]:
        """Return the means of a metric of all agents over the runs with results."""
        if metric not in METRIC_NAMES:
            raise NotFound(f"there is no metric {metric!r}")
        points = []
        for row in reversed(self.runs()):
            summary = _decoded(self._path / row.name / "summary.json")
            agents = summary.get("agents", {})
            values = {
                agent: mean["mean"] if (mean := fields.get(metric)) else None
                for agent, fields in agents.items()
            }
            if values:
                texts = {agent: metric_text(metric, value) for agent, value in values.items()}
                points.append(TrendPoint(row.name, row.changed_at, values, texts))
        return tuple(points)

    def labels(self, name: str) -> RunLabelSessions:
        """Return the samples of raters of a run, which are read once."""
        if name not in self._labels:
            self._labels[name] = RunLabelSessions(self._open(name), size=_LABEL_ITEMS, seed=0)
        return self._labels[name]

    def write_report(self, name: str) -> None:
        """Write the report and the pages of the turns."""
        write_results(self._open(name))

    def file(self, name: str, path: str) -> bytes:
        """Return a page or table of a run; other files of the folder are not found."""
        run = self._open(name)
        known = next((file for file in _exported(run.path) if file.as_posix() == path), None)
        if known is None:
            raise NotFound("the run has no such page; write its report first")
        return (run.path / known).read_bytes()

    def export(self, name: str) -> bytes:
        """Return report, pages and tables of a run as a ZIP archive."""
        run = self._open(name)
        buffer = io.BytesIO()
        with ZipFile(buffer, "w", ZIP_DEFLATED) as archive:
            for file in _exported(run.path):
                # Without times, so that the same run gives the same bytes.
                entry = ZipInfo(f"{name}/{file.as_posix()}")
                entry.compress_type = ZIP_DEFLATED
                archive.writestr(entry, (run.path / file).read_bytes())
        return buffer.getvalue()

    def _open(self, name: str) -> EvaluationDirectory:
        path = self._path / name
        is_name = Path(name).name == name and name not in ("", ".", "..")
        try:
            is_inside = is_name and path.resolve().is_relative_to(self._path.resolve())
            exists = is_inside and (path / "run.json").is_file()
        except (OSError, ValueError):  # a name that no file can have
            exists = False
        if not exists:
            raise NotFound("there is no such evaluation run")
        return EvaluationDirectory.open(path)

    def _planned(self, job: EpisodeJob) -> int:
        reference = job.scenario.reference
        if reference not in self._lengths:
            try:
                self._lengths[reference] = self._scenario_turns(reference)
            except AccError:
                self._lengths[reference] = 0  # the file of the scenario is not here
        return self._lengths[reference]


def _exported(path: Path) -> Iterator[PurePosixPath]:
    """Yield the files of a run that people open, relative to its folder."""
    for name in _EXPORTED:
        if (path / name).is_file():
            yield PurePosixPath(name)
    for folder, suffix in _EXPORTED_FOLDERS.items():
        for file in sorted((path / folder).glob(f"*{suffix}")):
            yield PurePosixPath(folder, file.name)


def _file(run: EvaluationDirectory, job: EpisodeJob) -> Path:
    return run.journal(job).path


def _line_count(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except OSError:
        return 0


def _changed_at(path: Path) -> float:
    """Return when a turn of a run was recorded last, or when the run was created."""
    files = [path / "run.json", *(path / "episodes").glob("*.jsonl")]
    return max(file.stat().st_mtime for file in files)


def _decoded(file: Path) -> dict[str, Any]:
    try:
        data = msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return {}
    return data if isinstance(data, dict) else {}


def _row(path: Path) -> RunRow:
    configuration = _decoded(path / "run.json")
    agents = configuration.get("agents", ())
    names = [str(agent.get("name", "")) for agent in agents if isinstance(agent, dict)]
    return RunRow(
        name=path.name,
        changed_at=_changed_at(path),
        agents=", ".join(names),
        judge=str(configuration.get("judge", "")),
        turns=sum(map(_line_count, (path / "episodes").glob("*.jsonl"))),
        has_report=(path / "report.html").is_file(),
    )


def _result(agent: str, fields: dict[str, Any]) -> ResultRow:
    cells = []
    for name in METRIC_NAMES:
        spread = fields.get(name) or {}
        low, high = spread.get("low"), spread.get("high")
        ends = "" if low is None else f"{metric_text(name, low)} – {metric_text(name, high)}"
        cells.append((metric_text(name, spread.get("mean")), ends))
    return ResultRow(
        agent=agent,
        scored=int(fields.get("scored", 0)),
        failed=int(fields.get("failed", 0)),
        unscored=int(fields.get("unscored", 0)),
        cells=tuple(cells),
    )


def _turn(record: TurnRecord, records: list[TurnRecord]) -> TurnView:
    return TurnView(
        turn=record.turn,
        topic=record.topic,
        query=record.query,
        injected=record.injected,
        answers=tuple(map(_answer, record.agents)),
        numbers=tuple(one.turn for one in records),
    )


def _answer(agent: AgentRecord) -> AnswerView:
    measured = zip(METRIC_NAMES, results.turn_metrics(agent), strict=True)
    claims = tuple(
        ClaimView(
            claim=one.claim,
            verdict=": ".join(filter(None, (one.verdict, one.reason))),
            is_supported=one.supported,
            evidence=one.evidence,
        )
        for one in agent.claims
    )
    findings = tuple(
        (one.kind.value, one.constraint, one.reason) for one in (*agent.findings, *agent.carried)
    )
    return AnswerView(
        agent=agent.name,
        status=agent.status.value,
        answer=agent.answer or agent.error,
        scores=tuple((n, metric_text(n, value)) for n, value in measured if value == value),
        claims=claims,
        findings=findings,
    )


def _comparison(row: dict[str, Any]) -> ComparisonRow:
    metric, low, high = row["metric"], row["low"], row["high"]
    difference = row.get("difference")
    return ComparisonRow(
        agent=row["agent"],
        metric=metric,
        first=metric_text(metric, row["first"]),
        second=metric_text(metric, row["second"]),
        difference="" if difference is None else _difference_text(metric, difference),
        interval=""
        if low is None
        else f"{_difference_text(metric, low)} – {_difference_text(metric, high)}",
        scenarios=row.get("scenarios", 0),
        is_clear=row["clear"],
    )


def _difference_text(metric: str, value: float) -> str:
    return format_difference(metric, value) + (" pp" if metric in RATES else "")
