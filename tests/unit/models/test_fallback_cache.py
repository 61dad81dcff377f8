"""The cache of a list of models: each model has its own entries."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from acc.application.evaluation.cost import CostTracker, ModelResources
from acc.bootstrap.evaluation import make_pool
from acc.bootstrap.models import make_model
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest
from acc.testing.providers import ProviderServer, fail, say

PROMPT = ModelRequest.of("How many beds are free?", memory="1: Two beds are free.")


async def answer(model: LanguageModelPort) -> str:
    try:
        return (await model.complete(PROMPT)).text
    finally:
        await model.aclose()  # type: ignore[attr-defined] # all of ours can


async def by_name(name: str, cache: Path) -> str:
    return await answer(make_model(name, cache=cache))


async def in_an_episode(name: str, cache: Path) -> str:
    models = make_pool("one", ModelResources(cache=cache), CostTracker())
    try:
        return (await models.model(name, agent="ours").complete(PROMPT)).text
    finally:
        await models.aclose()


async def recovers(ask: Callable[[str, Path], Awaitable[str]], cache: Path) -> None:
    async with ProviderServer(fail(503), say("theirs"), say("never")) as server:
        name = f"openai-compatible:m@{server.url}?attempts=1|embedded"
        ours = await ask(name, cache)
        assert ours and ours != "theirs"
        assert [await ask(name, cache) for _ in range(2)] == ["theirs", "theirs"]
        assert server.count == 2


async def test_response_of_the_fallback_is_not_cached_for_the_first_model(
    tmp_path: Path,
) -> None:
    await recovers(by_name, tmp_path / "a")
    await recovers(in_an_episode, tmp_path / "b")


async def test_response_of_the_fallback_is_cached_for_itself(tmp_path: Path) -> None:
    async with ProviderServer(fail(503), say("second"), fail(503)) as server:
        first, second = (f"openai-compatible:{name}@{server.url}?attempts=1" for name in "ab")
        assert await by_name(f"{first}|{second}", tmp_path) == "second"
        assert await by_name(second, tmp_path) == "second"
        assert await by_name(f"{first}|{second}", tmp_path) == "second"
        assert [request.model for request in server.requests] == ["a", "b", "a"]
