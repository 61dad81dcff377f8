import pytest

from acc import (
    Agent,
    AgentTool,
    InvalidInput,
    MemoryName,
    RouterAgent,
    Runner,
    SequentialAgent,
)
from acc.testing import ScriptedModel


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"model": "no-such-model"}, "no-such-model"),
        ({"memory": "no-such-memory"}, "no-such-memory"),
        ({"memory": "oracle"}, "oracle"),
        ({"memory": "acc:no-such-model"}, "compressor: .*no-such-model"),
    ],
)
def test_runner_rejects_unknown_names_with_the_agent(fields: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidInput, match=f"agent 'inner': .*{reason}"):
        inner = Agent(name="inner", **fields)  # type: ignore[arg-type]
        Runner(SequentialAgent(name="root", sub_agents=[inner]))


def test_runner_rejects_an_unknown_model_of_an_agent_tool() -> None:
    inner = Agent(name="inner", description="Helps.", model="no-such-model")
    with pytest.raises(InvalidInput, match="agent 'inner'"):
        Runner(Agent(name="root", tools=[AgentTool(agent=inner)]))


def test_runner_rejects_an_unknown_model_of_a_router() -> None:
    worker = Agent(name="worker", description="Works.")
    router = RouterAgent(name="router", by="model", model="no-such-model", sub_agents=[worker])
    with pytest.raises(InvalidInput, match="agent 'router'"):
        Runner(router)


async def test_runner_accepts_the_models_of_the_application() -> None:
    agent = Agent(name="a", model="mine", memory=MemoryName("acc:mine"))
    models = {"mine": ScriptedModel("{}", "Hello.", repeat=True)}
    runner = Runner(agent, models=models)
    await runner.aclose()


def test_runner_reads_the_default_compressor_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACC_COMPRESSOR_MODEL", "no-such-model")
    with pytest.raises(InvalidInput, match="compressor: .*no-such-model"):
        Runner(Agent(name="a", memory="acc"))
    Runner(Agent(name="a", memory="retrieval"))
