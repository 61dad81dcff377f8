"""Cost of evaluations: counting, limits and estimates, with a provider server over HTTP.

The server reports 11 input tokens and 7 output tokens for every call.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acc.bootstrap.memory import token_counter
from acc.cli import execute as acc
from acc.testing.providers import ProviderRequest, ProviderServer, Reply, example_for, fail, say

# On Python 3.11 the tokenizer package causes a warning when it reads its vocabulary.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

SMALL = ("--scenario", "it-operations", "--turns", "2", "--episodes", "2")
ALONE = ("--workers", "1")
#: Cost of 11 input and 7 output tokens with the prices of these tests.
AGENT_CALL = 11 * 2.0e-6 + 7 * 10.0e-6
COMPRESSOR_CALL = 11 * 1.0e-6 + 7 * 1.0e-6
JUDGE_CALL = 11 * 100.0e-6 + 7 * 0.0
TREE = """
from acc import Agent, AgentTurnResponse, ProviderModel, SequentialAgent

def root():
    return SequentialAgent(
        name="desk",
        sub_agents=[
            Agent(name="first", model=ProviderModel("openai:direct", api_key_env="TEAM_KEY")),
            Agent(name="second", model="openai:named", memory="acc:anthropic:writer"),
        ],
    )

class Other:
    async def run_turn(self, query, canonical_memory):
        return AgentTurnResponse(agent_name="other", response_text="Noted.")
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ProviderServer]:
    """Start a provider server and direct all models to it."""
    with ProviderServer() as running:
        for name, value in running.environment("a-key").items():
            monkeypatch.setenv(name, value)
        for name in ("ACC_MODEL_CACHE", "ACC_AGENT_MODEL", "ACC_COMPRESSOR_MODEL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.chdir(tmp_path)
        yield running


def model_names(server: ProviderServer) -> dict[str, str]:
    """Return the model names of agent, compressor and judge on the server."""
    return {
        part: f"openai-compatible:{part}@{server.url}" for part in ("agent", "compressor", "judge")
    }


def role_arguments(server: ProviderServer) -> tuple[str, ...]:
    """Return the arguments for a run with a priced model for each role."""
    models = model_names(server)
    return (
        *("--agents", "baseline,acc", "--model", models["agent"]),
        *("--compressor", models["compressor"], "--judge", f"model:{models['judge']}"),
        *("--price", f"{models['agent']}=2/10", "--price", f"{models['compressor']}=1/1"),
        *("--price", "openai-compatible:judge=100/0"),
    )


def cost_rows(summary: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{row['category']} {row['agent']}".strip(): row for row in summary["cost"]["spent"]}


def calls_by_model(server: ProviderServer) -> dict[str, int]:
    counts: dict[str, int] = {}
    for request in server.requests:
        counts[request.model] = counts.get(request.model, 0) + 1
    return counts


def respond(request: ProviderRequest) -> Reply:
    """Return a valid response for each role: facts from the query, or scores of all answers."""
    schema = request.body.get("response_format", {}).get("json_schema", {}).get("schema")
    if schema is None:
        return say("The rollback window is 30 minutes, as was said. " * 6)
    answer = example_for(schema)
    if "facts" in answer and "That cannot be used" not in request.text:
        text = "\n".join(_texts(request.body))
        query = re.findall(r"<<\w+ query>>\n(.*?)\n<<\w+ end>>", text, re.S)[-1]
        sentences = [part for part in re.split(r"(?<=[.!?])\s+", query) if len(part) > 20]
        answer["facts"] = [
            {**example_fact(schema), "text": sentence, "quote": sentence} for sentence in sentences
        ]
    if "constraints" in answer and "claims" in answer:
        text = "\n".join(_texts(request.body))
        listed = re.findall(r"^(C[\d.]+)(?: \(for this answer only\))?: (.*)$", text, re.M)
        left = [name for name, text in listed if "(checked by code)" not in text]
        answer["constraints"] = [{"id": name, "verdict": "kept", "reason": ""} for name in left]
    if "scores" in answer:
        letters = sorted(set(re.findall(r"Answer [A-Z]", request.text)))
        metrics = ("relevance", "answer_quality", "instruction_following", "coherence")
        answer = {"scores": [{"answer": a, **dict.fromkeys(metrics, 7)} for a in letters]}
    return say(json.dumps(answer))


def example_fact(schema: dict[str, Any]) -> dict[str, Any]:
    fact: dict[str, Any] = example_for(schema["properties"]["facts"]["items"], schema)
    return fact


def test_tokens_and_cost_are_reported_by_role(
    server: ProviderServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = [respond] * 100
    out = tmp_path / "run"
    assert acc(["eval", *SMALL, *ALONE, *role_arguments(server), "--out", str(out)]) == 0
    output = capsys.readouterr()
    counts = calls_by_model(server)
    assert counts == {"agent": 8, "compressor": 4, "judge": 4 * (2 + 1)}
    summary = json.loads((out / "summary.json").read_text())
    rows = cost_rows(summary)
    assert rows.keys() == {"agent baseline", "agent acc", "compressor acc", "judge"}
    assert rows["agent acc"]["calls"] == 4
    assert rows["agent acc"]["input_tokens"] == 4 * 11
    assert rows["agent acc"]["output_tokens"] == 4 * 7
    assert rows["agent acc"]["cost"] == pytest.approx(4 * AGENT_CALL)
    assert rows["compressor acc"]["cost"] == pytest.approx(4 * COMPRESSOR_CALL)
    assert rows["judge"]["cost"] == pytest.approx(12 * JUDGE_CALL)
    total = 8 * AGENT_CALL + 4 * COMPRESSOR_CALL + 12 * JUDGE_CALL
    assert summary["cost"]["total"]["cost"] == pytest.approx(total)
    assert re.search(r"compressor of acc +4 +44 +28 +under \$0.0001", output.out)
    assert re.search(rf"total +24 +264 +168 +\${total:.4f}", output.out)
    assert "4/4 turns" in output.err
    assert f"${total:.4f} spent (agents $0.0007; compressors under $0.0001; judge $" in output.err
    page = (out / "report.html").read_text()
    assert 'id="cost"' in page
    assert f"${total:.4f}" in page
    assert acc(["report", str(out)]) == 0
    assert f"${total:.4f}" in capsys.readouterr().out


def test_cached_responses_cost_nothing(
    server: ProviderServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = [respond] * 100
    arguments = [
        "eval",
        *SMALL,
        *ALONE,
        *role_arguments(server),
        "--cache",
        str(tmp_path / "cache"),
    ]
    assert acc([*arguments, "--out", str(tmp_path / "one"), "--json"]) == 0
    first_summary = json.loads(capsys.readouterr().out)
    first = first_summary["cost"]["total"]
    previous_count = server.count
    # The judge is called once if both agents give the same answer.
    calls = previous_count + first["from_cache"]
    assert acc([*arguments, "--out", str(tmp_path / "two"), "--json"]) == 0
    second_summary = json.loads(capsys.readouterr().out)
    assert server.count == previous_count == first["calls"]
    assert first["from_cache"] > 0
    total = second_summary["cost"]["total"]
    assert (total["calls"], total["from_cache"], total["input_tokens"]) == (0, calls, 0)
    assert total["cost"] == 0.0
    for path in sorted((tmp_path / "one" / "episodes").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / "episodes" / path.name).read_bytes()
    acc(["report", str(tmp_path / "two")])
    assert re.search(rf"total +0 +{calls} +0 +0 +\$0.0000", capsys.readouterr().out)


def test_run_stops_at_cost_limit_and_resumes_with_higher_limit(
    server: ProviderServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"openai-compatible:q@{server.url}"
    arguments = ["eval", *SMALL, *ALONE, "--agents", "baseline,acc", "--model", model]
    arguments += ["--price", "openai-compatible:q=2/10"]
    turn = 2 * AGENT_CALL
    out = tmp_path / "limited"
    # The limit is exceeded in the second turn. That turn completes and no third turn starts.
    limit = f"{1.5 * turn:.7f}"
    assert acc([*arguments, "--out", str(out), "--max-cost", limit]) == 4
    output = capsys.readouterr()
    assert server.count == 4
    assert "stopped: the cost of $0.0004 has reached --max-cost $0.0003" in output.err
    assert "repeat the command with a higher limit to continue" in output.err
    assert acc([*arguments, "--out", str(out), "--max-cost", limit]) == 4
    assert server.count == 4, "what was spent before counts"
    capsys.readouterr()
    assert acc([*arguments, "--out", str(out), "--max-cost", "1"]) == 0
    assert server.count == 8
    assert "continuing: 2 of 4 turns are recorded" in capsys.readouterr().err
    summary = json.loads((out / "summary.json").read_text())
    assert summary["cost"]["total"]["cost"] == pytest.approx(4 * turn)
    assert acc([*arguments, "--out", str(tmp_path / "free")]) == 0
    for path in sorted((tmp_path / "free" / "episodes").iterdir()):
        assert path.read_bytes() == (out / "episodes" / path.name).read_bytes()


def test_run_completes_if_last_turn_reaches_limit(server: ProviderServer, tmp_path: Path) -> None:
    model = f"openai-compatible:q@{server.url}"
    arguments = ["eval", *SMALL, *ALONE, "--agents", "acc", "--model", model, "--out", "run"]
    arguments += ["--price", f"{model}=2/10", "--max-cost", f"{3.5 * AGENT_CALL:.7f}"]
    assert acc(arguments) == 0
    assert server.count == 4


def test_all_workers_stop_at_cost_limit(server: ProviderServer, tmp_path: Path) -> None:
    model = f"openai-compatible:q@{server.url}"
    command = [sys.executable, "-m", "acc", "eval", "--scenario", "it-operations"]
    command += ["--episodes", "4", "--turns", "20", "--workers", "2", "--agents", "acc"]
    command += ["--model", model, "--price", f"{model}=2/10", "--out", str(tmp_path / "run")]
    command += ["--max-cost", f"{10 * AGENT_CALL:.7f}", "--quiet"]
    completed = subprocess.run(command, timeout=120, check=False, env=environment())  # noqa: S603
    assert completed.returncode == 4
    # Each worker completes its current turn, so the stop is not immediate.
    assert 10 <= server.count < 80
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["cost"]["total"]["calls"] == server.count
    assert summary["turns"] == server.count


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_cost_is_complete_after_kill_within_turn(
    server: ProviderServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"openai-compatible:q@{server.url}"
    arguments = ["eval", *SMALL, *ALONE, "--agents", "baseline,acc", "--model", model]
    arguments += ["--price", f"{model}=2/10", "--out", str(tmp_path / "run")]
    # In the second turn, one agent has a response and the other one is waiting.
    server.script = [say("a"), say("b"), say("c"), Reply(text="d", delay=60)]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *arguments, "--quiet"], env=environment()
    )
    costs = tmp_path / "run" / "costs" / "it-operations.000000.jsonl"
    wait_for(lambda: costs.exists() and costs.read_text().count("\n") == 3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.script = []
    assert acc([*arguments, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    # Three responses before the kill, one of them in a lost turn, and six calls after it.
    assert server.count == 4 + 6
    assert summary["cost"]["total"]["calls"] == 3 + 6
    assert summary["cost"]["total"]["cost"] == pytest.approx(9 * AGENT_CALL)


def wait_for(condition: Callable[[], bool], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_unenforceable_limit_is_rejected_with_advice(
    server: ProviderServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"openai-compatible:q@{server.url}"
    arguments = ["eval", *SMALL, "--model", model]
    assert acc([*arguments, "--max-cost", "1"]) == 2
    output = capsys.readouterr().err.replace("\n", " ")
    assert f"the price of {model}" in output
    assert f"--price {model}=IN/OUT" in output
    assert acc([*arguments, "--max-cost", "0", "--price", f"{model}=1/1"]) == 2
    for amount in ("-1", "nan", "inf"):
        assert acc([*arguments, f"--max-cost={amount}", "--dry-run"]) == 2
        assert "--max-cost must be positive" in capsys.readouterr().err
    assert acc([*arguments, "--price", "nobody=1/1"]) == 2
    assert "the run does not use this model" in capsys.readouterr().err
    assert acc([*arguments, "--price", f"{model}=1"]) == 2
    assert "must be MODEL=IN/OUT" in capsys.readouterr().err
    assert server.count == 0
    assert not (tmp_path / "runs").exists()


def test_unpriced_call_ends_run_with_limit(
    server: ProviderServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"openai-compatible:q@{server.url}"
    server.script = [Reply(text="untold", tokens=(0, 0, 0))]
    arguments = ["eval", *SMALL, *ALONE, "--agents", "acc", "--model", model, "--out", "run"]
    assert acc([*arguments, "--max-cost", "1", "--price", f"{model}=1/1"]) == 4
    assert "the cost of 1 calls is unknown" in capsys.readouterr().err
    assert server.count == 1


def test_unknown_price_is_reported_and_failed_call_is_counted(
    server: ProviderServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = [fail(400, "no"), say("yes")]
    model = f"openai-compatible:q@{server.url}"
    acc(["eval", *SMALL, *ALONE, "--agents", "acc", "--model", model, "--out", "run"])
    assert re.search(r"acc +4 +1 +33 +21 +price not known", capsys.readouterr().out)


def test_models_of_custom_agents_are_counted(
    server: ProviderServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "cost_tree.py").write_text(TREE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TEAM_KEY", "another")
    agents = "desk=python:cost_tree:root,other=python:cost_tree:Other"
    arguments = ["eval", *SMALL, *ALONE, "--agents", agents, "--out", "run", "--json"]
    arguments += ["--price", "openai:direct=2/10", "--price", "named=1/1", "--price", "writer=1/1"]
    assert acc([*arguments, "--max-cost", "1"]) == 0
    output = capsys.readouterr()
    assert "--max-cost does not include the cost of other" in output.err
    summary = json.loads(output.out)
    rows = cost_rows(summary)
    assert rows["agent desk"]["models"] == ["openai:direct", "openai:named"]
    assert rows["agent desk"]["cost"] == pytest.approx(4 * (AGENT_CALL + COMPRESSOR_CALL))
    assert rows["compressor desk"]["models"] == ["anthropic:writer"]
    assert rows["compressor desk"]["calls"] >= 4
    assert "agent other" not in rows
    assert "Not included: costs that other may cause" in (tmp_path / "run/report.html").read_text()
    arguments[arguments.index("run")] = "again"
    assert acc([*arguments, "--dry-run"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["unmetered"] == ["other"]
    assert plan["cost"] is None
    assert acc([*arguments, "--dry-run", "--like", "run"]) == 0
    parts = {part["category"]: part for part in json.loads(capsys.readouterr().out)["parts"]}
    assert parts["agent"]["output_tokens"] == {"low": 8 * 7, "high": 8 * 7}


def test_custom_judge_model_is_counted(
    server: ProviderServer, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["eval", *SMALL, *ALONE, "--agents", "acc", "--out", "run", "--json"]
    acc([*arguments, "--judge", "python:acc.testing:ScriptedModel"])
    judge = cost_rows(json.loads(capsys.readouterr().out))["judge"]
    assert judge["models"] == ["python:acc.testing:ScriptedModel"]
    assert judge["calls"] >= 4


def test_dry_run_makes_no_call_writes_no_file_and_needs_no_key(
    server: ProviderServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    arguments = ["eval", *SMALL, "--model", "openai:gpt-5.2", "--judge", "model:openai:gpt-5.2"]
    assert acc([*arguments, "--dry-run", "--max-cost", "1000"]) == 0
    output = capsys.readouterr().out
    assert "turns:     4" in output
    assert re.search(r"baseline +openai:gpt-5.2 +4 +[\d,]+ to [\d,]+ +120 to 1,000 +\$", output)
    assert re.search(r"judge +openai:gpt-5.2 +20 to 40 ", output)
    assert "--max-cost $1,000.00 is sufficient" in output
    assert "Assumptions: " in output
    assert "Nothing was called and nothing was written." in output
    assert acc(["eval", *SMALL, "--dry-run"]) == 0
    assert "No model is called that costs money." in capsys.readouterr().out
    voting = "model:openai:gpt-5.2,model:anthropic:claude-sonnet-4-5"
    assert acc(["eval", *SMALL, "--judge", voting, "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert re.search(r"judge +openai:gpt-5.2, anthropic:claude-sonnet-4-5 +\d", output)
    assert acc(["eval", *SMALL, "--model", "openai:a|openai:b", "--dry-run"]) == 0
    assert re.search(r"acc +openai:a \| openai:b +4 ", capsys.readouterr().out)
    assert server.count == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("turns", ["6", "24"])
def test_sent_tokens_are_within_estimate(
    turns: str, server: ProviderServer, capsys: pytest.CaptureFixture[str]
) -> None:
    models = model_names(server)
    arguments = ["eval", "--scenario", "it-operations", "--episodes", "1", "--turns", turns]
    arguments += [*ALONE, "--model", models["agent"], "--compressor", models["compressor"]]
    arguments += ["--judge", f"model:{models['judge']}", "--out", "run", "--json"]
    assert acc([*arguments, "--dry-run"]) == 0
    plan = json.loads(capsys.readouterr().out)
    server.script = [respond] * 10_000
    assert acc(arguments) == 0
    count = token_counter().count
    sent = dict.fromkeys(models, 0)
    for request in server.requests:
        sent[request.model] += sum(count(text) for text in _texts(request.body))
    calls = calls_by_model(server)
    for part, agent_parts in _by_part(plan).items():
        low, high = (sum(p["input_tokens"][end] for p in agent_parts) for end in ("low", "high"))
        assert low <= sent[part] <= high, f"{part}: {low} {sent[part]} {high}"
        least, most = (sum(p["calls"][end] for p in agent_parts) for end in ("low", "high"))
        assert least <= calls[part] <= most, f"{part}: {least} {calls[part]} {most}"


def _by_part(plan: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    by_part: dict[str, list[dict[str, Any]]] = {}
    for part in plan["parts"]:
        by_part.setdefault(part["category"], []).append(part)
    return by_part


def _texts(body: Any) -> Iterator[str]:
    """Yield the texts that a model reads: messages and schema."""
    for message in body["messages"]:
        content = message["content"]
        yield from [content] if isinstance(content, str) else [part["text"] for part in content]
    if "response_format" in body:
        yield json.dumps(body["response_format"]["json_schema"]["schema"])


class MeteredModels:
    """Answers of a given length that report their own tokens, judged at matching length."""

    def __init__(self, words: Callable[[int], int], turns: int) -> None:
        self._words = words
        self._turns = turns
        self._calls = 0
        self._count = token_counter().count
        self._draw = random.Random(4)  # noqa: S311 - a test

    def __call__(self, request: ProviderRequest) -> Reply:
        text = "\n".join(_texts(request.body))
        answer = respond(request).text
        if "response_format" not in request.body:
            # Two agents answer in each turn.
            turn = self._calls // 2 % self._turns + 1
            self._calls += 1
            words = self._words(turn) * self._draw.uniform(0.6, 1.4)
            answer = "The rollback window is thirty minutes. " * max(1, round(words / 6))
        elif "constraints" in answer:
            # A judge writes more about longer answers.
            value = json.loads(answer)
            for verdict in value.get("constraints", ()):
                verdict["reason"] = "as asked " * text.count("rollback window is thirty")
            answer = json.dumps(value)
        return Reply(text=answer, tokens=(self._count(text), self._count(answer), 0))


ANSWER_WORDS: dict[str, Callable[[int], int]] = {
    "short": lambda _: 8,
    "long": lambda _: 500,
    "growing": lambda turn: 15 * turn,
}


@pytest.mark.parametrize(
    ("length", "pilot_turns"), [("short", 8), ("long", 8), ("growing", 8), ("growing", 16)]
)
def test_estimate_like_an_earlier_run_is_within_a_factor_of_two(
    length: str, pilot_turns: int, server: ProviderServer, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["eval", *ALONE, *role_arguments(server), "--json", "--scenario"]
    server.script = [MeteredModels(ANSWER_WORDS[length], pilot_turns)] * 10_000
    acc([*arguments, "it-operations", "--turns", str(pilot_turns), "--out", "pilot"])
    full = [*arguments, "it-operations,service-migration,conference-agency", "--turns", "16"]
    full += ["--out", "full"]
    capsys.readouterr()
    assert acc([*full, "--dry-run", "--like", "pilot"]) == 0
    plan = json.loads(capsys.readouterr().out)
    server.script = [MeteredModels(ANSWER_WORDS[length], 16)] * 10_000
    acc(full)
    spent = cost_rows(json.loads(capsys.readouterr().out))
    parts = {f"{part['category']} {part['agent']}".strip(): part for part in plan["parts"]}
    assert list(parts) == ["agent baseline", "agent acc", "compressor acc", "judge"]
    for name, part in parts.items():
        assert part["measured"]
        for unit in ("calls", "input_tokens", "output_tokens", "cost"):
            low, high, actual = part[unit]["low"], part[unit]["high"], spent[name][unit]
            assert actual / 2 <= low <= high <= 2 * actual, f"{name} {unit}: {low} {actual} {high}"
    agents = [spent[f"agent {name}"]["cost"] for name in ("baseline", "acc")]
    of_agents = plan["by_category"]["agent"]["cost"]
    assert sum(agents) / 2 <= of_agents["low"] <= of_agents["high"] <= 2 * sum(agents)


def test_like_names_a_run_with_the_same_models(
    server: ProviderServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"openai-compatible:q@{server.url}"
    arguments = ["eval", *SMALL, *ALONE, "--agents", "baseline", "--model"]
    assert acc([*arguments, model, "--out", "pilot"]) == 0
    more = ["eval", *SMALL, "--agents", "baseline,retrieval", "--out", "full", "--model"]
    capsys.readouterr()
    assert acc([*more, model, "--dry-run", "--like", "pilot"]) == 0
    output = capsys.readouterr().out
    assert re.search(r"baseline +openai-compatible:q\S+ +4 +44 +28 ", output)
    assert "Measured in 4 turns of pilot: baseline." in output
    assert "Rough range, which actual use can exceed: retrieval." in output
    other = f"openai-compatible:other@{server.url}"
    assert acc([*more, other, "--dry-run", "--like", "pilot"]) == 2
    assert "no recorded calls" in capsys.readouterr().err
    assert acc([*more, model, "--like", "pilot"]) == 2
    assert "add --dry-run" in capsys.readouterr().err


def test_dry_run_of_started_run_covers_remaining_turns(
    server: ProviderServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"openai-compatible:q@{server.url}"
    arguments = ["eval", *SMALL, *ALONE, "--agents", "acc", "--model", model, "--out", "run"]
    arguments += ["--price", f"{model}=2/10"]
    assert acc([*arguments, "--max-cost", f"{0.5 * AGENT_CALL:.7f}"]) == 4
    capsys.readouterr()
    assert acc([*arguments, "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["turns"], plan["recorded_turns"]) == (4, 1)
    assert plan["parts"][0]["calls"] == {"low": 3, "high": 3}
    assert plan["spent"] == pytest.approx(AGENT_CALL, abs=1e-6)
    assert acc([*arguments, "--dry-run", "--seed", "5"]) == 2
    assert "seed: 0 recorded, 5 requested" in capsys.readouterr().err


def test_run_without_provider_model_reports_no_cost(
    server: ProviderServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert acc(["eval", *SMALL, *ALONE, "--max-cost", "1", "--out", "run"]) == 0
    output = capsys.readouterr()
    assert "spent" not in output.out + output.err
    assert "cost" not in json.loads((tmp_path / "run/summary.json").read_text())
    assert not (tmp_path / "run" / "costs").exists()
    assert 'href="#cost"' not in (tmp_path / "run" / "report.html").read_text()
