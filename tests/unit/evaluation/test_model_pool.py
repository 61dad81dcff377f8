"""The models of one episode."""

import pytest
from pool_support import ClosableModel, RecordedCalls, SimpleModelFactory

from acc.application.evaluation.model_pool import ModelPool
from acc.domain.cost import CostCategory
from acc.domain.errors import InvalidInput, ModelFailed, StorageFailed
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse
from acc.testing import ScriptedModel

PROMPT = ModelRequest.of("q")


def pool(calls: RecordedCalls | None = None) -> tuple[ModelPool, SimpleModelFactory]:
    factory = SimpleModelFactory()
    return ModelPool("s.000001", models=factory, calls=calls or RecordedCalls()), factory


class FailingModel(ScriptedModel):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
        self.calls = 0

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        self.calls += 1
        raise self.error


async def test_agents_share_connections_but_not_cached_samples() -> None:
    models, factory = pool()
    models.model("openai:m", agent="a")
    models.model("openai:m", agent="b")
    models.model("openai:m", agent="", category=CostCategory.JUDGE)
    assert factory.opened == ["openai:m"]
    assert factory.samples == ["s.000001/a", "s.000001/b", "s.000001/(judge)"]


async def test_calls_are_recorded_by_agent_and_category() -> None:
    calls = RecordedCalls()
    models, _ = pool(calls)
    await models.model("openai:m?seed=1", agent="a").complete(PROMPT)
    judge = models.model("openai:j", agent="", category=CostCategory.JUDGE)
    await judge.complete(PROMPT)
    await models.model("embedded", agent="a").complete(PROMPT)
    recorded = [(call.category, call.agent, call.model) for call in calls.calls]
    assert recorded == [
        (CostCategory.AGENT, "a", "openai:m"),
        (CostCategory.JUDGE, "", "openai:j"),
    ]


async def test_streamed_answers_are_recorded() -> None:
    calls = RecordedCalls()
    models, _ = pool(calls)
    model = models.model("openai:m", agent="a")
    pieces = [piece async for piece in model.stream(PROMPT)]  # type: ignore[attr-defined]
    assert pieces[0] == "answer"
    assert len(calls.calls) == 1


async def test_model_objects_are_metered_and_named_ones_closed_with_the_pool() -> None:
    calls = RecordedCalls()
    models, _ = pool(calls)
    named, plain = ClosableModel("openai:own"), ClosableModel()
    for model in (named, plain):
        await models.meter(model, agent="a").complete(PROMPT)
    await models.meter(plain, agent="", category=CostCategory.JUDGE, name="python:m:j").complete(
        PROMPT
    )
    await models.aclose()
    assert [call.model for call in calls.calls] == ["openai:own", "ClosableModel", "python:m:j"]
    assert (named.closed, plain.closed) == (1, 0)


@pytest.mark.parametrize(
    "error", [InvalidInput("no key"), ModelFailed("no such model", reason="unknown_model")]
)
async def test_no_metered_model_is_called_after_a_configuration_error(error: Exception) -> None:
    models, _ = pool()
    failing = FailingModel(error)
    other = models.model("openai:other", agent="b")
    for _ in range(2):
        with pytest.raises(type(error)):
            await models.meter(failing, agent="a").complete(PROMPT)
    assert failing.calls == 1
    with pytest.raises(type(error)):
        await other.complete(PROMPT)
    assert models.configuration_error == str(error)
    with pytest.raises(type(error)):
        models.raise_error()


async def test_temporary_failure_is_no_configuration_error() -> None:
    models, _ = pool()
    with pytest.raises(ModelFailed):
        await models.meter(FailingModel(ModelFailed("busy")), agent="a").complete(PROMPT)
    assert models.configuration_error == ""
    models.raise_error()


async def test_call_that_cannot_be_recorded_is_a_configuration_error() -> None:
    models, _ = pool(RecordedCalls(StorageFailed("disk full")))
    with pytest.raises(StorageFailed):
        await models.model("openai:m", agent="a").complete(PROMPT)
    assert models.configuration_error == "disk full"
