"""Tests of run logs as JSON lines."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from acc import Agent, Runner
from acc.adapters.system.logs import LOGGER, JsonLines, TextLines, log_runs_to
from acc.testing import ScriptedModel


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    found = io.StringIO()
    logger = logging.getLogger(LOGGER)
    before = (logger.level, logger.propagate)
    handler = log_runs_to(found)
    yield found
    logger.removeHandler(handler)
    logger.level, logger.propagate = before


async def test_run_log_has_trace_id_but_no_message_content(
    stream: io.StringIO,
) -> None:
    runner = Runner(Agent(name="desk", model=ScriptedModel("the secret answer")))
    result = await runner.run(user_id="u", session_id="s", message="a secret question")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["message"] for line in lines] == ["agent started", "agent finished", "run ended"]
    assert {line["trace_id"] for line in lines} == {result.run_id}
    assert lines[0]["agent"] == "desk"
    assert lines[0]["level"] == "info"
    assert lines[-1]["status"] == "completed"
    assert "secret" not in stream.getvalue()


def test_error_log_has_type_and_location_but_no_message(stream: io.StringIO) -> None:
    try:
        int("a secret")
    except ValueError:
        logging.getLogger(LOGGER).exception("tool %s failed", "pay", extra={"tool": "pay"})
    line = json.loads(stream.getvalue())
    assert (line["error"], line["message"], line["tool"]) == (
        "ValueError",
        "tool pay failed",
        "pay",
    )
    assert __file__ in line["error_at"]
    assert "secret" not in stream.getvalue()


def test_text_log_of_a_warning_has_task_and_location_but_no_traceback() -> None:
    try:
        json.loads("{")  # the code of the user is above the library that fails
    except ValueError as error:
        failure = (type(error), error, error.__traceback__)
    record = logging.LogRecord("acc.serve", 30, "", 0, "task failed: odd", (), failure)
    record.task_id = "t1"
    line = TextLines().format(record)
    assert line.startswith(f"WARNING acc.serve: task failed: odd ({__file__}, line ")
    assert line.endswith(" (task t1)")
    assert "\n" not in line


def test_text_log_of_an_error_has_its_traceback() -> None:
    try:
        int("x")
    except ValueError as error:
        failure = (type(error), error, error.__traceback__)
    record = logging.LogRecord("acc.serve", 40, "", 0, "odd", (), failure)
    lines = TextLines().format(record).splitlines()
    assert lines[0] == "ERROR acc.serve: odd"
    assert lines[1].startswith("Traceback")
    record.exc_info = None
    assert TextLines().format(record) == "ERROR acc.serve: odd"


def test_error_without_traceback_is_logged() -> None:
    record = logging.LogRecord("acc.run", 40, "", 0, "odd", (), (ValueError, ValueError(), None))
    assert json.loads(JsonLines().format(record))["error"] == "ValueError"
    record.exc_info = None
    assert "error" not in json.loads(JsonLines().format(record))
