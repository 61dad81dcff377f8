"""The evaluation runs in a folder, and their report pages."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from acc.domain.errors import NotFound

_REPORT, _CONFIGURATION = "report.html", "run.json"
_MAX_RUNS = 200


class EvaluationRow(NamedTuple):
    """An evaluation run: its folder, when it changed, and its configuration."""

    name: str
    changed_at: float
    agents: str
    judge: str
    episodes: str
    has_report: bool


def list_evaluations(folder: Path) -> list[EvaluationRow]:
    """Return the runs directly in a folder, most recently changed first."""
    try:
        found = [path for path in folder.iterdir() if (path / _CONFIGURATION).is_file()]
    except OSError as error:
        raise NotFound(f"cannot read the folder {folder}: {error.strerror}") from None
    rows = [_row(path) for path in found]
    rows.sort(key=lambda row: (-row.changed_at, row.name))
    return rows[:_MAX_RUNS]


def _row(path: Path) -> EvaluationRow:
    file = path / _CONFIGURATION
    try:
        data = msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.DecodeError):
        data = {}
    data = data if isinstance(data, dict) else {}
    configuration = data.get("configuration", data)
    configuration = configuration if isinstance(configuration, dict) else {}
    agents = configuration.get("agents", ())
    names = [str(a.get("name", "")) for a in agents if isinstance(a, dict)]
    return EvaluationRow(
        name=path.name,
        changed_at=file.stat().st_mtime,
        agents=", ".join(names),
        judge=str(configuration.get("judge", "")),
        episodes=str(configuration.get("episodes", "")),
        has_report=(path / _REPORT).is_file(),
    )


def read_report(folder: Path | None, name: str) -> bytes:
    """Return the report of a run, or raise NotFound; the name is that of a folder."""
    if folder is None or Path(name).name != name or name in ("", ".", ".."):
        raise NotFound("there is no such evaluation run")
    file = folder / name / _REPORT
    try:
        if not file.resolve().is_relative_to(folder.resolve()):
            raise NotFound("there is no such evaluation run")
        return file.read_bytes()
    except OSError:
        raise NotFound("the evaluation run has no report yet; run acc report") from None
