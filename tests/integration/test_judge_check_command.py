"""`acc judge check` with a provider server over HTTP: cost and limits."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from acc.cli import execute as acc
from acc.testing.providers import ProviderRequest, ProviderServer, Reply, example_for, fail, say

# On Python 3.11 the tokenizer package causes a warning when it reads its vocabulary.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

CASE = """
[[case]]
id = "a"
context = ["The disk is 91 % full."]
question = "How full is the disk?"
claims = [{ kind = "absent", verdict = "unsupported", text = "The disk is new." }]

[[case]]
id = "b"
context = ["The pump is off."]
question = "Is the pump on?"
claims = [{ kind = "absent", verdict = "unsupported", text = "The pump is old." }]
"""
METRICS = ("relevance", "answer_quality", "instruction_following", "coherence")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ProviderServer]:
    """Start a provider server and direct all models to it."""
    with ProviderServer() as running:
        for name, value in running.environment("a-key").items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("ACC_MODEL_CACHE", raising=False)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.chdir(tmp_path)
        (tmp_path / "mine.toml").write_text(CASE, encoding="utf-8")
        yield running


def respond(request: ProviderRequest) -> Reply:
    """Return a valid response: no facts, no claims, and a score of 7 for every metric."""
    answer = example_for(request.body["response_format"]["json_schema"]["schema"])
    if "scores" in answer:
        answer = {"scores": [{"answer": "Answer 1", **dict.fromkeys(METRICS, 7)}]}
    else:
        answer = {name: [] for name in answer}
    return say(json.dumps(answer))


def test_check_reports_cost_and_reuses_cached_responses(
    server: ProviderServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = [respond] * 20
    model = f"openai-compatible:judge@{server.url}"
    command = ["judge", "check", "mine.toml", "--judge", f"model:{model}"]
    command += ["--price", f"{model}=100/0", "--cache", "cache"]
    assert acc(command) == 0
    first = capsys.readouterr()
    # Two readings, one audit and one scoring for each case, with 11 input tokens each.
    assert len(server.requests) == 8
    assert "$0.0088 spent (judge $0.0088; 88 tokens in, 56 out)" in first.err
    assert acc(command) == 0
    second = capsys.readouterr()
    assert len(server.requests) == 8
    assert second.out == first.out
    assert "8 answers from the cache" in second.err


@pytest.mark.parametrize(("status", "why"), [(401, "key"), (404, "the model does not exist")])
def test_permanent_model_error_is_not_retried(
    server: ProviderServer, capsys: pytest.CaptureFixture[str], status: int, why: str
) -> None:
    server.script = [fail(status, "no")] * 300
    model = f"openai-compatible:judge@{server.url}"
    assert acc(["judge", "check", "--judge", f"model:{model}"]) == 1
    output = capsys.readouterr()
    assert len(server.requests) == 1
    assert output.out == ""
    assert why in output.err
    assert "spent" not in output.err


def test_missing_key_is_reported_before_first_call(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert acc(["judge", "check", "--judge", "model:openai:gpt-5.2"]) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err
    assert not server.requests


@pytest.mark.parametrize("option", [("--price", "x=1/1"), ("--max-cost", "1")])
def test_price_or_limit_without_judge_model_is_rejected(
    server: ProviderServer, capsys: pytest.CaptureFixture[str], option: tuple[str, str]
) -> None:
    assert acc(["judge", "check", *option]) == 2
    assert f"{option[0]} requires a model judge" in capsys.readouterr().err


def test_check_stops_at_cost_limit_and_resumes_with_higher_limit(
    server: ProviderServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script = [respond] * 20
    model = f"openai-compatible:judge@{server.url}"
    command = ["judge", "check", "mine.toml", "--judge", f"model:{model}"]
    assert acc([*command, "--max-cost", "0.001"]) == 2
    assert f"the price of {model}" in capsys.readouterr().err
    command += ["--price", f"{model}=100/0", "--cache", "cache"]
    assert acc([*command, "--max-cost", "0.001"]) == 4
    output = capsys.readouterr()
    assert len(server.requests) == 4
    assert "the cost of $0.0044 has reached --max-cost $0.0010" in output.err
    assert "1 cases were not judged" in output.err
    assert acc([*command, "--max-cost", "0.0044"]) == 0
    assert len(server.requests) == 8


def test_invalid_toml_error_names_expected_format(
    server: ProviderServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.jsonl").write_text('{"id": "a"}\n', encoding="utf-8")
    assert acc(["judge", "check", "x.jsonl"]) == 2
    output = capsys.readouterr().err
    assert "x.jsonl" in output
    assert "is not valid TOML" in output
    assert "docs/calibration.md" in output


def test_control_characters_in_example_file_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = {
        "is new": "is 12 % full",
        "The disk is": r"\u001b]0;mine\u0007The disk is",
        "absent": r"[red]\u001b[31mabsent",
        'id = "a"': r'id = "a\u001b[2J"' + "\n" + r'language = "\u009b31m"',
    }
    text = CASE
    for plain, written in odd.items():
        text = text.replace(plain, written)
    text = text.replace("unsupported", "supported")
    wrong = text.replace(" }]", ', evidence = "is" }]')
    (tmp_path / "odd.toml").write_text(wrong, encoding="utf-8")
    assert acc(["judge", "check", "odd.toml"]) == 0
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b"} & set(out)
    assert "answer:  ␛]0;mine␇The disk is 12 % full." in out
    assert "kind: [red]␛[31mabsent" in out
    (tmp_path / "odd.toml").write_text(
        wrong.replace('evidence = "is"', 'evidence = "?"'), encoding="utf-8"
    )
    assert acc(["judge", "check", "odd.toml"]) == 2
    assert "a␛[2J.1: evidence is not part of the context" in capsys.readouterr().err
