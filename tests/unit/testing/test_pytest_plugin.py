"""The plugin for pytest, in test sessions of its own."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[3]
#: The plugin of an installed acc is named "acc"; loaded twice, it would be rejected.
PLUGIN = ("-p", "no:acc", "-p", "acc.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:asyncio")


@pytest.fixture(autouse=True)
def coverage_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLIPCOVER_ENABLED", raising=False)


#: A model that counts its calls in a file, so that a replay is visible.
RECORDED = """
from pathlib import Path
from acc import Agent
from acc.ports.outbound.model_ports import ModelResponse

class CountingModel:
    async def complete(self, prompt):
        calls = Path("calls.txt")
        number = len(calls.read_text()) if calls.exists() else 0
        calls.write_text("x" * (number + 1))
        return ModelResponse(text=f"答え {number + 1}")

def test_answer(agent_runner, recorded_model):
    agent = Agent(name="guide", model=recorded_model(CountingModel()))
    assert agent_runner(agent).run_sync("QUERY").text.startswith("答え")
"""


def test_scripted_models_and_runners_are_fixtures(pytester: pytest.Pytester) -> None:
    guide = (ROOT / "docs" / "observability.md").read_text("utf-8")
    (block,) = re.findall(
        r"```python\n(from acc import Agent\n.*?def test_.*?)```", guide, re.DOTALL
    )
    pytester.makepyfile(test_guide=block)
    recorded = pytester.runpytest_subprocess(*PLUGIN, "--acc-record")
    recorded.assert_outcomes(passed=2)
    assert (pytester.path / "recordings" / "test_guide-test_guide_of_last_week.jsonl").exists()
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=2)


def test_recorded_answers_are_replayed_without_the_model(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=RECORDED.replace("QUERY", "京都の天気は?"))
    pytester.runpytest_subprocess(*PLUGIN, "--acc-record").assert_outcomes(passed=1)
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)
    assert (pytester.path / "calls.txt").read_text() == "x"
    pytester.runpytest_subprocess(*PLUGIN, "--acc-record").assert_outcomes(passed=1)
    assert (pytester.path / "calls.txt").read_text() == "xx"
    (file,) = (pytester.path / "recordings").iterdir()
    assert len(file.read_text("utf-8").splitlines()) == 1


def test_missing_recording_fails_with_the_option_that_records(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=RECORDED.replace("QUERY", "hello"))
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*does not exist; record*pytest --acc-record*"])
    assert not (pytester.path / "calls.txt").exists()


def test_changed_request_is_not_answered_from_the_recording(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=RECORDED.replace("QUERY", "hello"))
    pytester.runpytest_subprocess(*PLUGIN, "--acc-record").assert_outcomes(passed=1)
    pytester.makepyfile(test_it=RECORDED.replace("QUERY", "good morning"))
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(failed=1)


def test_each_test_has_a_recording_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
import pytest
from acc import Agent

def test_answer(agent_runner, recorded_model):
    agent_runner(Agent(name="guide", model=recorded_model("embedded"))).run_sync("one")

class TestOther:
    def test_answer(self, agent_runner, recorded_model):
        agent_runner(Agent(name="guide", model=recorded_model("embedded"))).run_sync("two")

@pytest.mark.parametrize("query", ["a/b", "a b", "a::b", "a-b"])
def test_query(query, agent_runner, recorded_model):
    agent_runner(Agent(name="guide", model=recorded_model("embedded"))).run_sync(query)

def test_LONG(agent_runner, recorded_model):
    agent_runner(Agent(name="guide", model=recorded_model("embedded"))).run_sync("three")
""".replace("LONG", "長い名前" * 20)
    )
    pytester.runpytest_inprocess(*PLUGIN, "--acc-record").assert_outcomes(passed=7)
    assert len(list((pytester.path / "recordings").iterdir())) == 7
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=7)


def test_package_declares_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module = import_module(project["entry-points"]["pytest11"]["acc"])
    assert callable(module.pytest_addoption)
