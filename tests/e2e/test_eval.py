"""`acc eval`: records, continuation, gates and custom agents."""

import json
import signal
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command import SMALL, acc, acc_in_new_python, read_records, start


def test_run_writes_all_result_files(tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = acc("eval", *SMALL, "--out", run)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in run.iterdir()} >= {
        "run.json",
        "episodes",
        "summary.json",
        "records.jsonl",
        "records.csv",
        "junit.xml",
        "report.html",
        "charts",
    }
    assert (run / "report.html").resolve().as_uri() in done.stdout
    assert "claims nothing about any language model" in done.stdout
    assert "12/12 turns" in done.stderr, "progress is plain text without a terminal"
    summary = json.loads((run / "summary.json").read_text())
    assert summary["turns"] == 12
    assert summary["agents"]["acc"]["scored"] == 12
    rows = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    assert len(rows) == 12 * 4
    assert [row["drift"] for row in rows if row["turn"] == 1] == [None] * 8
    assert len((run / "records.csv").read_text().splitlines()) == 1 + 12 * 4


def test_same_seed_gives_the_same_records_with_any_number_of_workers(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert (
        acc_in_new_python("eval", *SMALL[:-2], "--workers", "1", "--out", one, "--quiet").returncode
        == 0
    )
    assert (
        acc_in_new_python("eval", *SMALL[:-2], "--workers", "2", "--out", two, "--quiet").returncode
        == 0
    )
    assert read_records(one) == read_records(two)
    assert (one / "summary.json").read_bytes() == (two / "summary.json").read_bytes()


def test_another_seed_gives_other_records(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    acc("eval", *SMALL, "--out", one, "--quiet")
    acc("eval", *SMALL, "--seed", "77", "--out", two, "--quiet")
    assert read_records(one)["records.jsonl"] != read_records(two)["records.jsonl"]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_killed_run_continues_and_gives_the_same_records(tmp_path: Path, workers: str) -> None:
    options = ("--scenario", "it-operations", "--episodes", "2", "--workers", workers)
    complete, interrupted = tmp_path / "whole", tmp_path / "cut"
    assert acc_in_new_python("eval", *options, "--out", complete, "--quiet").returncode == 0
    process = start("eval", *options, "--out", interrupted, "--quiet")
    first = interrupted / "episodes" / "it-operations.000000.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if first.exists() and first.read_bytes().count(b"\n") >= 5:
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    time.sleep(0.5)
    before = first.read_bytes()
    assert 5 <= before.count(b"\n") < 50
    assert acc_in_new_python("eval", *options, "--out", interrupted, "--quiet").returncode == 0
    assert read_records(interrupted) == read_records(complete)
    assert first.read_bytes().startswith(before[: before.rfind(b"\n") + 1])


def test_incomplete_last_line_is_removed_and_repeated(tmp_path: Path) -> None:
    run, complete = tmp_path / "run", tmp_path / "whole"
    for folder in (run, complete):
        acc("eval", *SMALL, "--out", folder, "--quiet")
    file = run / "episodes" / "it-operations.000001.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    done = acc("eval", *SMALL, "--out", run)
    assert done.returncode == 0, done.stderr
    assert "continuing: 11 of 12 turns are recorded" in done.stderr
    assert read_records(run) == read_records(complete)


def test_complete_run_is_not_repeated_and_the_command_says_how_to_repeat_it(
    tmp_path: Path,
) -> None:
    acc("eval", *SMALL, "--out", tmp_path, "--quiet")
    done = acc("eval", *SMALL, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "continuing: 12 of 12 turns are recorded" in done.stderr
    assert "delete the run directory or choose another --out" in done.stderr


def test_damaged_record_is_reported_and_not_changed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    acc("eval", *SMALL, "--out", run, "--quiet")
    file = run / "episodes" / "it-operations.000000.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    damaged = lines[0] + b"{broken}\n" + b"".join(lines[2:])
    file.write_bytes(damaged)
    done = acc("eval", *SMALL, "--out", run)
    assert done.returncode == 1
    assert "it-operations.000000.jsonl line 2" in done.stderr
    assert file.read_bytes() == damaged


def test_other_configuration_in_the_same_directory_is_rejected_with_the_difference(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    acc("eval", *SMALL, "--out", run, "--quiet")
    before = read_records(run)
    done = acc("eval", *SMALL, "--budget", "256", "--agents", "acc,oracle", "--out", run)
    assert done.returncode == 2
    assert "budget: 512 recorded, 256 requested" in done.stderr
    assert "agents: [baseline=transcript" in done.stderr
    assert read_records(run) == before


def test_changed_scenario_file_is_rejected(tmp_path: Path) -> None:
    acc("scenarios", "new", "mine", cwd=tmp_path)
    options = ("eval", "--scenario", "mine.toml", "--episodes", "1", "--out", "run", "--quiet")
    assert acc(*options, cwd=tmp_path).returncode == 0
    file = tmp_path / "mine.toml"
    file.write_text(file.read_text().replace("40 words", "39 words").replace("= 40 }", "= 39 }"))
    done = acc(*options, cwd=tmp_path)
    assert done.returncode == 2
    assert "scenarios: [mine (" in done.stderr


def test_ctrl_c_writes_the_results_of_the_completed_turns(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("eval", "--episodes", "4", "--workers", "2", "--out", run)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if sum(path.stat().st_size for path in (run / "episodes").glob("*.jsonl")):
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "repeat the command to continue" in errors
    assert "Traceback" not in errors
    assert (run / "report.html").exists()
    summary = json.loads((run / "summary.json").read_text())
    assert 0 < summary["turns"] < 1000
    assert "report: file:" in output


@pytest.mark.parametrize(
    ("gate", "status", "message"),
    [
        ("acc.drift > 0.9", 0, ""),
        ("acc.outcome < 9.99", 1, "gate failed: acc.outcome < 9.99 (acc.outcome is "),
        ("acc.memory_tokens > baseline.memory_tokens", 1, "baseline.memory_tokens is "),
        ("acc.failed > 0", 0, ""),
    ],
)
def test_gate_sets_the_exit_status(tmp_path: Path, gate: str, status: int, message: str) -> None:
    # In the first six turns a transcript is still smaller than a compressed state.
    done = acc("eval", *SMALL, "--out", tmp_path / "run", "--fail-if", gate)
    assert done.returncode == status
    assert message in done.stderr
    suite = ElementTree.parse(tmp_path / "run" / "junit.xml").getroot()[0]  # noqa: S314 - ours
    assert suite.get("failures") == str(status)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--agents", "baseline,parrot"),
            "unknown agent 'parrot': choose one of baseline, transcript",
        ),
        (("--agents", "a=acc,a=oracle"), "agent names must be unique, got a, a"),
        (("--agents", ""), "--agents must name at least one agent"),
        (("--agents", "../x=acc"), "an agent's name must consist of letters"),
        (("--agents", "x=python:nowhere:f"), "there is no module 'nowhere'"),
        (("--agents", "x=python:json:nothing"), "module 'json' has no attribute 'nothing'"),
        (("--agents", "x=python:json"), "must have the form MODULE:NAME"),
        (("--scenario", "nothing"), "unknown scenario 'nothing'"),
        (("--scenario", "gone.toml"), "gone.toml: cannot be read"),
        (("--judge", "crowd"), "unknown judge 'crowd': choose rubric"),
        (("--episodes", "0"), "--episodes must be at least 1, got 0"),
        (("--budget", "5"), "--budget must be at least 32, got 5"),
        (("--fail-if", "acc.joy > 1"), "unknown metric 'joy'"),
        (("--fail-if", "nobody.drift > 1"), "unknown agent 'nobody'"),
        (("--fail-if", "whatever"), "invalid gate 'whatever'"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_invalid_usage_exits_with_2_and_a_message(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = acc("eval", *arguments, "--out", tmp_path / "run", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_json_option_prints_only_json(tmp_path: Path) -> None:
    done = acc("eval", *SMALL, "--out", tmp_path / "run", "--json")
    assert json.loads(done.stdout) == json.loads((tmp_path / "run" / "summary.json").read_text())


def test_quiet_option_prints_nothing(tmp_path: Path) -> None:
    done = acc("eval", *SMALL, "--out", tmp_path / "run", "--quiet")
    assert (done.stdout, done.stderr) == ("", "")


CUSTOM_AGENTS = """
import asyncio
from acc import AgentTurnResponse

def echo(query):
    return "You said: " + query[:20]

async def slow(query):
    await asyncio.sleep(60)

def silent(query):
    return ""

def number(query):
    return 42

def broken(query):
    raise RuntimeError("=cmd|' /C calc'!A0 \\x1b[31m\\u202e </script><b>")

class Remembering:
    def __init__(self):
        self.queries = []

    async def run_turn(self, query, canonical_memory):
        self.queries.append(query.query)
        text = f"I have received {len(self.queries)} queries."
        known = len(self.queries)
        return AgentTurnResponse(agent_name="any", response_text=text, memory_tokens=known)
"""


REPLAYING_AGENT = (
    CUSTOM_AGENTS
    + """

class Replaying(Remembering):
    async def run_turn(self, query, canonical_memory):
        print("turn", query.turn_id)
        return await super().run_turn(query, canonical_memory)

    async def replay_turn(self, query, canonical_memory, response):
        self.queries.append(query.query)
"""
)


def test_agent_with_replay_is_not_called_again(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(REPLAYING_AGENT)
    options = ("eval", *SMALL, "--agents", "me=python:own:Replaying", "--out", "run")
    acc(*options, cwd=tmp_path)
    before = read_records(tmp_path / "run")
    file = tmp_path / "run" / "episodes" / "it-operations.000000.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:4]))
    done = acc(*options, cwd=tmp_path)
    prompted = [line for line in done.stderr.splitlines() if line.startswith("turn")]
    assert prompted == ["turn 5", "turn 6"]
    assert read_records(tmp_path / "run") == before


def test_failures_of_custom_agents_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(CUSTOM_AGENTS)
    names = ("echo", "slow", "silent", "number", "broken", "Remembering")
    agents = ",".join(["acc", *(f"{name}=python:own:{name}" for name in names)])
    few = ("--scenario", "it-operations", "--turns", "2", "--episodes", "2", "--workers", "1")
    options = ("--agents", agents, "--timeout", "3", "--out", "run")
    done = acc("eval", *few, *options, cwd=tmp_path)
    # Four of the agents fail in every turn.
    assert done.returncode == 1, done.stderr
    summaries = json.loads((tmp_path / "run" / "summary.json").read_text())["agents"]
    failed = {name: summary["failed"] for name, summary in summaries.items()}
    assert failed == {
        "acc": 0,
        "echo": 0,
        "slow": 4,
        "silent": 4,
        "number": 4,
        "broken": 4,
        "Remembering": 0,
    }
    assert summaries["slow"]["outcome"] is None, "a failure has no score"
    assert summaries["echo"]["memory_tokens"] is None
    assert summaries["Remembering"]["last_memory_tokens"]["mean"] == 2, (
        "a new agent for each episode"
    )
    assert "not reported" in done.stdout
    table = (tmp_path / "run" / "records.csv").read_text()
    assert "RuntimeError: =cmd" in table
    ElementTree.parse(tmp_path / "run" / "junit.xml")  # noqa: S314 - must be well-formed


def test_run_with_custom_agents_can_be_continued(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(CUSTOM_AGENTS)
    options = ("eval", *SMALL, "--agents", "me=python:own:Remembering", "--quiet")
    assert acc(*options, "--out", "whole", cwd=tmp_path).returncode == 0
    assert acc(*options, "--out", "cut", cwd=tmp_path).returncode == 0
    file = tmp_path / "cut" / "episodes" / "it-operations.000000.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:3]))
    assert acc(*options, "--out", "cut", cwd=tmp_path).returncode == 0
    assert read_records(tmp_path / "cut") == read_records(tmp_path / "whole")


def test_python_agent_gives_the_same_records_as_the_built_in_agent(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from acc import Agent, SequentialAgent\n"
        "def lone():\n"
        "    return Agent(name='assistant', memory='transcript')\n"
        "pair = [Agent(name='clerk'), Agent(name='boss')]\n"
        "agent = SequentialAgent(name='desk', sub_agents=pair)\n"
    )
    # ACC memory shows the dates of a session, and the turns of a built-in agent have no date.
    agents = "baseline,lone=python:shop:lone,tree=python:shop:agent"
    options = ("--scenario", "it-operations", "--turns", "6", "--episodes", "2")
    done = acc(
        *("eval", *options, "--agents", agents, "--workers", "2", "--out", "run"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    summaries = summary["agents"]
    assert [summaries[name]["failed"] for name in ("baseline", "lone", "tree")] == [0, 0, 0]
    rows = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    by_agent: dict[str, list[dict[str, object]]] = {"baseline": [], "lone": []}
    for row in map(json.loads, rows):
        if row["agent"] in by_agent:
            by_agent[row["agent"]].append({**row, "agent": ""})
    assert by_agent["baseline"] == by_agent["lone"]
