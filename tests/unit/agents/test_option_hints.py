"""Unknown options, names of models, and agents without a model."""

import subprocess
import sys
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acc import Agent, BaseAgent, InvalidTree, LoopAgent, RemoteAgent, RouterAgent, SequentialAgent
from acc.application.agents.option_hints import HINTS

ANY: Any = Agent


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("instructions", "use instruction="),
        ("system_prompt", "use instruction="),
        ("prompt", "use instruction="),
        ("temperature", "model_settings=ModelSettings(temperature=...)"),
        ("max_tokens", "model_settings=ModelSettings(max_tokens=...)"),
        ("handoffs", "use sub_agents="),
        ("functions", "use tools="),
        ("llm", "use model="),
        ("max_turns", "RunConfig(max_llm_calls=...)"),
        ("api_key", "OPENAI_API_KEY"),
        ("instrcution", "use instruction="),
        ("subagent", "use sub_agents="),
        ("elephant", "choose from"),
    ],
)
def test_unknown_option_is_rejected_with_the_right_name(option: str, advice: str) -> None:
    with pytest.raises(InvalidTree) as caught:
        ANY(name="a", **{option: "x"})
    message = str(caught.value)
    assert f"Agent(name='a', ...) has no option {option!r}" in message
    assert advice in message


def test_every_hint_leads_to_an_option_or_is_a_sentence() -> None:
    for option in HINTS:
        try:
            ANY(name="a", **{option: "x"})
        except InvalidTree as error:
            assert "choose from" not in str(error), option


def test_all_unknown_options_are_reported_together() -> None:
    with pytest.raises(InvalidTree, match=r"'instructions'.*'functions'"):
        ANY(name="a", instructions="x", functions=[])


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: ANY("helper"), r"'helper' without a keyword.*Agent\(name=\.\.\., \.\.\.\)"),
        (lambda: ANY(), "an agent needs a name"),
        (lambda: ANY(instruction="x"), "an agent needs a name"),
        (lambda: ANY(name=None), "an agent needs a name"),
        (lambda: SequentialAgent(name="s", agents=[]), "use sub_agents="),  # type: ignore[call-arg]
        (lambda: LoopAgent(name="s", max_iteration=3), "use max_iterations="),  # type: ignore[call-arg]
        (lambda: RemoteAgent(name="r", adress="x"), "no option 'adress'"),  # type: ignore[call-arg]
    ],
)
def test_wrong_call_is_rejected_with_the_right_one(build: Callable[[], Any], text: str) -> None:
    with pytest.raises(InvalidTree, match=text):
        build()


def test_required_option_of_a_class_of_your_own_is_named() -> None:
    @dataclass(kw_only=True, eq=False)
    class Shop(BaseAgent):
        town: str

    assert Shop(name="a", town="Kyoto").town == "Kyoto"
    with pytest.raises(InvalidTree, match=r"Shop\(name='a', ...\) needs town="):
        Shop(name="a")  # type: ignore[call-arg]


def test_class_with_a_constructor_of_its_own_is_called_as_declared() -> None:
    class Shop(BaseAgent):
        def __init__(self, town: str, **options: Any) -> None:
            super().__init__(name="shop", **options)
            self.town = town

    assert Shop("Kyoto", description="x").town == "Kyoto"


def test_agents_can_be_copied() -> None:
    agent = Agent(name="a", model="embedded", instruction="x")
    assert copy(agent).instruction == deepcopy(agent).instruction == "x"


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("gpt-4o", "openai:gpt-4o"),
        ("gemini-2.0-flash", "google:gemini-2.0-flash"),
        ("opnai:gpt-5", "openai:gpt-5"),
        ("openai:gpt-5.2|claude-x", "anthropic:claude-x"),
        ("http://127.0.0.1:8080/v1", "openai-compatible:MODEL@http://127.0.0.1:8080/v1"),
        ("${TEAM_MODEL}", "env:TEAM_MODEL"),
        ("$TEAM_MODEL", "env:TEAM_MODEL"),
    ],
)
def test_wrong_name_of_a_model_is_reported_when_the_agent_is_built(model: str, meant: str) -> None:
    for build in (
        lambda: Agent(name="a", model=model),
        lambda: RouterAgent(name="a", by="model", model=model, sub_agents=[Agent(name="b")]),
    ):
        with pytest.raises(InvalidTree, match=rf'agent \'a\'.*did you mean model="{meant}"'):
            build()


@pytest.mark.parametrize("model", [" openai:gpt-5.2", "openai:gpt-5.2|embedded", "mine"])
def test_valid_names_and_names_of_your_own_models_are_accepted(model: str) -> None:
    assert Agent(name="a", model=model).model == model


def test_class_of_a_model_is_rejected() -> None:
    class Model:
        async def complete(self, prompt: Any) -> Any: ...

    with pytest.raises(InvalidTree, match="model must be"):
        Agent(name="a", model=Model)  # type: ignore[arg-type]


def run_python(code: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    file = folder / "program.py"
    file.write_text(code, encoding="utf-8")
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, str(file)], capture_output=True, text=True, timeout=60, check=False
    )


def test_missing_model_warns_once_per_process_and_names_the_agents(tmp_path: Path) -> None:
    done = run_python(
        "from acc import Agent, Runner\n"
        "for name in ('first', 'second'):\n"
        "    print(Runner(Agent(name=name)).run_sync('hello').text)\n",
        tmp_path,
    )
    assert done.stdout.count("\n") == 2
    assert done.stderr.count("EmbeddedModelWarning") == 1
    assert "program.py:3" in done.stderr
    assert "'first'" in done.stderr
    assert "not a language model" in done.stderr
    assert 'model= to PROVIDER:MODEL, such as "openai:gpt-5.2"' in done.stderr


@pytest.mark.parametrize(
    "runner",
    [
        "Runner(Agent(name='a', model='embedded'))",
        "Runner(Agent(name='a', model=ScriptedModel('x')))",
        "Runner(Agent(name='a'), models={'embedded': ScriptedModel('x')})",
    ],
)
def test_explicit_model_does_not_warn(runner: str, tmp_path: Path) -> None:
    imports = "from acc import Agent, Runner\nfrom acc.testing import ScriptedModel\n"
    done = run_python(f"{imports}{runner}.run_sync('hello')\n", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
