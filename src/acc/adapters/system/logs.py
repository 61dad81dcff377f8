"""Run logs as JSON lines, with identifiers but without message content."""

import json
import logging
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

from acc.adapters.system.object_loader import is_library

LOGGER = "acc.run"
ACCESS_LOGGER = "acc.access"
_FIELDS = (
    "trace_id",
    "span_id",
    "request_id",
    "run_id",
    "caller",
    "agent",
    "tool",
    "path",
    "branch",
    "method",
    "status",
    "duration_ms",
    "code",
    "task_id",
    "config_id",
)
_ROOT = "acc"


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON.

    An error is logged as type and location. Its message is omitted because it may quote a person
    or a model.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a JSON line with the fields that are set."""
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        for name in _FIELDS:
            value = getattr(record, name, "")
            if value:
                line[name] = str(value)
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None:
                line["error_at"] = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        return json.dumps(line, ensure_ascii=False)


class TextLines(logging.Formatter):
    """Formats a record with its task; a warning has the location of its error, no traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line; the traceback of an unexpected error follows it."""
        line = f"{record.levelname} {record.name}: {record.getMessage()}"
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.levelno <= logging.WARNING:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if not is_library(frame.filename)] or frames[-1:]
            line += "".join(f" ({frame.filename}, line {frame.lineno})" for frame in own[-1:])
        if task_id := getattr(record, "task_id", ""):
            line += f" (task {task_id})"
        if record.exc_info and record.levelno > logging.WARNING:
            line += f"\n{self.formatException(record.exc_info)}"
        return line


def log_runs_to(
    stream: TextIO, level: int = logging.INFO, *, loggers: Sequence[str] = (LOGGER,)
) -> logging.Handler:
    """Write the run log, or other logs, to a stream as JSON lines and return the handler."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name in loggers:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
    return handler


def log_warnings_to(stream: TextIO) -> None:
    """Write warnings and errors to a stream as text, unless the root logger has handlers."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


@contextmanager
def log_everything_to(stream: TextIO) -> Iterator[None]:
    """Write all records of acc, and warnings of libraries, to a stream as JSON lines."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root, own = logging.getLogger(), logging.getLogger(_ROOT)
    level = own.level
    root.addHandler(handler)
    own.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        own.setLevel(level)
