"""Evaluations with an invalid key, name or price end early and can be resumed."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from acc.cli import execute as acc
from acc.testing.providers import ProviderServer, fail, say

# On Python 3.11 the tokenizer package causes a warning when it reads its vocabulary.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

SMALL = ("--scenario", "it-operations", "--turns", "3", "--episodes", "2", "--agents", "acc")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ProviderServer]:
    with ProviderServer() as running:
        for name in ("ACC_MODEL_CACHE", "ACC_AGENT_MODEL", "ACC_COMPRESSOR_MODEL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.chdir(tmp_path)
        yield running


def turns(run: str = "run") -> int:
    return sum(path.read_text().count("\n") for path in Path(run, "episodes").iterdir())


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("part", ["--model", "--compressor", "--judge"])
def test_rejected_key_ends_run_and_valid_key_resumes_it(
    server: ProviderServer, capsys: pytest.CaptureFixture[str], part: str, workers: str
) -> None:
    name = f"openai-compatible:m@{server.url}"
    chosen = f"model:{name}" if part == "--judge" else name
    command = ["eval", *SMALL, part, chosen, "--out", "run", "--workers", workers]
    server.script = [fail(401, "no such key")] * 100
    assert acc(command) == 1
    output = capsys.readouterr()
    assert "a key is required: set OPENAI_COMPATIBLE_API_KEY (401)" in output.err
    assert "repeat the command to continue" in output.err
    assert "$0.0000" not in output.out
    assert turns() == 0
    assert server.count <= 4 * int(workers)
    server.script = []
    assert acc([*command, "--quiet"]) in (0, 1)
    assert turns() == 6
    assert not json.loads(Path("run/summary.json").read_text())["errors"]


def test_records_before_an_error_are_preserved(
    server: ProviderServer, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"openai-compatible:m@{server.url}"
    command = ["eval", *SMALL, "--model", name, "--out", "run", "--workers", "1", "--quiet"]
    server.script = [say("30 minutes."), fail(404, "no such model")]
    assert acc(command) == 1
    assert "the model does not exist" in capsys.readouterr().err
    before = Path("run/episodes/it-operations.000000.jsonl").read_bytes()
    assert turns() == 1
    assert acc(command) == 0
    assert Path("run/episodes/it-operations.000000.jsonl").read_bytes().startswith(before)
    assert turns() == 6


def test_missing_key_ends_run_if_cache_lacks_responses(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    command = ["eval", *SMALL, "--model", "openai:gpt-5.2", "--cache", "cache", "--out", "run"]
    assert acc([*command, "--workers", "1", "--quiet"]) == 1
    assert "OPENAI_API_KEY" in capsys.readouterr().err
    assert turns() == 0


def test_run_without_scores_fails(
    server: ProviderServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = [fail(400, "this server takes no questions")] * 100
    name = f"openai-compatible:m@{server.url}"
    assert acc(["eval", *SMALL, "--model", name, "--out", "run", "--workers", "1", "--quiet"]) == 1
    assert "no turn of any agent has a score" in capsys.readouterr().err
    assert turns() == 6


@pytest.mark.parametrize("workers", ["1", "2"])
def test_unreadable_cost_record_ends_run_without_agent_error(
    server: ProviderServer, capsys: pytest.CaptureFixture[str], workers: str
) -> None:
    name = f"openai-compatible:m@{server.url}"
    command = ["eval", *SMALL, "--model", name, "--out", "run", "--workers", workers, "--quiet"]
    server.script = [fail(401, "no such key")] * 100
    assert acc(command) == 1
    server.script = []
    costs_path = Path("run/costs")
    if costs_path.exists():
        shutil.rmtree(costs_path)
    costs_path.write_text("no folder")
    assert acc(command) == 1
    assert "run/costs/it-operations.000000.jsonl cannot be read" in capsys.readouterr().err
    assert turns() == 0
    costs_path.unlink()
    assert acc(command) == 0
    assert turns() == 6


INVALID_AGENTS = """
from acc import LlmAgent


def two(first, second):
    return "no"


class Nothing:
    pass


def pieces(query):
    yield "no"


class Pieces:
    async def run_turn(self, query, canonical_memory):
        yield "no"


class Broken:
    def __init__(self):
        raise RuntimeError("no database")


class OneArgument:
    def run_turn(self, query):
        return "no"


def __getattr__(name):
    if name == "tree":
        return LlmAgent(name="desk", memory="elephant")
    raise AttributeError(name)
"""


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("two", "must accept the query, but its signature does not: missing a required argument"),
        ("Nothing", "must be an agent, a function, or a class with run_turn"),
        ("pieces", "yields: return the whole answer"),
        ("Pieces", "yields: return the whole answer"),
        ("Broken", "cannot create invalid_agents:Broken: RuntimeError: no database"),
        ("OneArgument", "must accept query and canonical_memory"),
        ("tree", "agent 'desk': unknown memory 'elephant'"),
    ],
)
def test_invalid_python_agent_is_rejected_before_the_first_turn(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    error: str,
) -> None:
    (tmp_path / "invalid_agents.py").write_text(INVALID_AGENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    agents = f"mine=python:invalid_agents:{name},acc"
    assert acc(["eval", "--agents", agents, "--turns", "1", "--out", "run"]) == 2
    assert error in " ".join(capsys.readouterr().err.split())
    assert not Path("run").exists()
