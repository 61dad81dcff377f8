"""Agents as tools, and the budget that delegated agents share."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from agent_support import (
    WHO,
    Does,
    Writes,
    escalates,
    events_of_kind,
    messages,
    results,
    says,
    texts_of_other_agents,
    turn,
)

from acc import (
    Agent,
    AgentTool,
    CallContext,
    EventKind,
    InvalidTree,
    LoopAgent,
    ModelRequest,
    ModelResponse,
    ParallelAgent,
    RunConfig,
    RunContext,
    Runner,
    SequentialAgent,
)
from acc.domain.errors import BudgetExceeded, RunTimedOut
from acc.testing import ScriptedModel, call


def boss(*tools: object, calls: object, answer: str = "done") -> Agent:
    return Agent(name="boss", model=ScriptedModel(calls, answer), tools=tools, memory=None)  # type: ignore[arg-type]


async def test_agent_tool_returns_answer_of_agent() -> None:
    worker = Does(name="worker", description="Works.", do=lambda ctx: f"did {ctx.message}")
    result = await turn(boss(worker, calls=call("worker", request="the dishes")))
    assert results(result) == ["did the dishes"]
    assert result.text == "done"


async def test_agent_tool_shares_state_and_records_events() -> None:
    worker = Writes(name="worker", description="Works.", values={"done": True})
    result = await turn(boss(worker, calls=call("worker", request="x")))
    assert messages(result) == [("worker", "worker"), ("boss", "done")]
    assert result.state == {"done": True}
    assert [e.author for e in result.events if e.actions.state_delta] == ["worker"]


async def test_agent_tool_receives_only_the_request() -> None:
    received = ScriptedModel("quiet", repeat=True)
    worker = Agent(name="worker", description="Works.", model=received)
    asks = ScriptedModel("hm", call("worker", request="only this"), "done")
    chief = Agent(name="boss", model=asks, tools=[worker])
    runner = Runner(SequentialAgent(name="s", sub_agents=[says("before"), chief]))
    await runner.run(**WHO, message="a secret")
    await runner.run(**WHO, message="another")
    prompt = received.requests[0]
    assert (prompt.query, prompt.memory, len(prompt.messages)) == ("only this", "", 1)


async def test_answer_of_agent_tool_is_not_in_conversation() -> None:
    listens = ScriptedModel("ok")
    chief = boss(says("worker", description="Works."), calls=call("worker", request="x"))
    after = Agent(name="after", model=listens, memory=None)
    await turn(SequentialAgent(name="s", sub_agents=[chief, after]))
    assert texts_of_other_agents(listens.requests[0]) == ["done"]


async def test_escalation_in_agent_tool_does_not_end_outer_loop() -> None:
    chief = boss(escalates("worker", description="Works."), calls=call("worker", request="x"))
    loop = LoopAgent(name="l", sub_agents=[chief, says("after")], max_iterations=1)
    assert (await turn(loop)).text == "after"


async def test_workflows_run_concurrently_as_tools() -> None:
    def team(name: str) -> ParallelAgent:
        pair = [Does(name=f"{name}{n}", do=lambda ctx: ctx.branch) for n in (1, 2)]
        return ParallelAgent(name=name, description="A team.", sub_agents=pair)

    calls = [call("x", request="a"), call("y", request="b"), call("x", request="c")]
    result = await turn(boss(team("x"), team("y"), calls=calls))
    assert sorted(results(result)) == ["x1: x.x1\nx2: x.x2"] * 2 + ["y1: y.y1\ny2: y.y2"]
    steps = [event.step for event in result.events if event.step]
    assert len(set(steps)) == len(steps)


async def test_agent_tool_in_branch_uses_branch_state() -> None:
    worker = Writes(name="worker", description="Works.", values={"key": 1})
    chief = boss(worker, calls=call("worker", request="x"))
    result = await turn(ParallelAgent(name="p", sub_agents=[chief, says("other")]))
    event = next(e for e in result.events if e.author == "worker")
    assert (event.branch, event.actions.branch_delta) == ("p.boss", {"key": 1})
    assert result.state == {"key": 1}


async def test_error_of_agent_tool_becomes_error_result() -> None:
    def fail(ctx: RunContext) -> None:
        raise RuntimeError("broken")

    worker = Does(name="worker", description="Works.", do=fail)
    result = await turn(boss(worker, calls=call("worker", request="x")))
    assert results(result) == [
        {"error": "worker failed: AgentFailed: agent 'worker' failed: RuntimeError: broken"}
    ]


async def test_agent_tool_rejects_invalid_arguments() -> None:
    worker = says("worker", description="Works.")
    result = await turn(boss(worker, calls=call("worker", task="x")))
    assert "invalid arguments for worker" in results(result)[0]["error"]


async def test_agent_tool_supports_name_and_permission() -> None:
    made = AgentTool(agent=says("worker"), name="ask_worker", description="Asks.", requires="ask")
    context = CallContext(
        request_id="r", trace_id="t", caller="c", permissions=frozenset({"other"})
    )
    calls = call("ask_worker", request="x")
    assert results(await turn(boss(made, calls=calls))) == ["worker"]
    refused = results(await turn(boss(made, calls=calls), context=context))
    assert refused == [{"error": "ask_worker requires the permission 'ask'; the call lacks it"}]


def _endless(name: str) -> Agent:
    model = ScriptedModel(call("again"), repeat=True)

    def again() -> str:
        """Do it again."""
        return "again"

    return Agent(name=name, description="Never ends.", model=model, tools=[again], memory=None)


WAYS: dict[str, Callable[[Agent], Agent | SequentialAgent | ParallelAgent]] = {
    "directly": lambda agent: agent,
    "as a tool": lambda agent: boss(agent, calls=call(agent.name, request="x")),
    "as a branch": lambda agent: ParallelAgent(name="p", sub_agents=[agent, says("other")]),
    "by a transfer": lambda agent: Agent(
        name="boss",
        model=ScriptedModel(call("transfer_to_agent", agent_name=agent.name)),
        sub_agents=[agent],
        memory=None,
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("config", "what"),
    [
        (RunConfig(max_llm_calls=5), "max_llm_calls"),
        (RunConfig(max_tool_calls=4), "max_tool_calls"),
        (RunConfig(token_budget=100), "token_budget"),
    ],
)
async def test_delegated_agents_share_the_run_budget(
    config: RunConfig, what: str, way: str
) -> None:
    runner = Runner(WAYS[way](_endless("worker")), config=config)
    with pytest.raises(BudgetExceeded, match=f"limit of {what}") as exceeded:
        await runner.run(**WHO, message="go on and on and on")
    assert exceeded.value.what == what
    ended = (await runner.events(**WHO))[-1]
    assert ended.detail == {"code": "budget_exceeded"}
    assert ended.usage is not None
    assert ended.usage.llm_calls <= 5


async def test_concurrent_model_calls_do_not_exceed_budget() -> None:
    asked: list[str] = []

    class Slow:
        async def complete(self, prompt: ModelRequest) -> ModelResponse:
            asked.append(prompt.query)
            await asyncio.sleep(0.01)
            return ModelResponse(text="x")

    agents = [Agent(name=f"a{n}", model=Slow(), memory=None) for n in range(4)]
    tree = ParallelAgent(name="p", sub_agents=agents, on_error="collect")
    with pytest.raises(BudgetExceeded):
        await turn(tree, config=RunConfig(max_llm_calls=2))
    assert len(asked) == 2


async def test_failed_model_call_is_not_counted() -> None:
    flaky = ScriptedModel(ConnectionError("down"))
    agents = [Agent(name="a", model=flaky), Agent(name="b", model=ScriptedModel("fine"))]
    tree = ParallelAgent(name="p", sub_agents=agents, on_error="collect", max_concurrency=1)
    assert (await turn(tree, config=RunConfig(max_llm_calls=1))).text == "b: fine"


@pytest.mark.parametrize("way", WAYS)
async def test_run_timeout_applies_to_delegated_agents(way: str) -> None:
    class Slow:
        async def complete(self, prompt: ModelRequest) -> ModelResponse:
            await asyncio.sleep(60)
            raise AssertionError("never")

    agent = Agent(name="worker", description="Slow.", model=Slow(), memory=None)
    runner = Runner(WAYS[way](agent), config=RunConfig(timeout=0.05))
    with pytest.raises(RunTimedOut, match=r"timeout \(0\.05\)"):
        await runner.run(**WHO, message="go")
    assert (await runner.events(**WHO))[-1].detail == {"code": "run_timed_out"}


async def test_usage_is_reported_per_response_and_in_total() -> None:
    worker = Agent(name="worker", description="Works.", model=ScriptedModel("a b c"), memory=None)
    result = await turn(boss(worker, calls=call("worker", request="x"), answer="d e"))
    assert (result.usage.llm_calls, result.usage.tool_calls) == (3, 1)
    assert result.usage.output_tokens == 5
    actual = [event.usage.llm_calls for event in result.events if event.usage is not None]
    assert actual == [1, 1, 1, 3]
    assert events_of_kind(result, EventKind.ENDED)[0].usage == result.usage


@dataclass
class Stay:
    """Nights in a city."""

    city: str
    nights: int = 1


class StayStruct(msgspec.Struct):
    city: str
    nights: int = 1


class StayModel(pydantic.BaseModel):
    city: str
    nights: int = 1


class StayDict(TypedDict):
    city: str
    nights: NotRequired[int]


@dataclass
class Tree:
    name: str
    children: "list[Tree]"


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (Stay, '{"city":"京都","nights":1}'),
        (StayStruct, '{"city":"京都","nights":1}'),
        (StayModel, '{"city":"京都","nights":1}'),
        (StayDict, '{"city":"京都"}'),
    ],
)
async def test_agent_with_input_schema_receives_typed_arguments(of: type, message: str) -> None:
    received = ScriptedModel("booked")
    worker = Agent(name="worker", description="Books.", model=received, input_schema=of)
    chief = boss(worker, calls=call("worker", city="京都"))
    assert results(await turn(chief)) == ["booked"]
    assert received.requests[0].query == message
    parameters = chief.own_specs[0].parameters
    assert parameters["type"] == "object"
    assert (set(parameters["properties"]), parameters["required"]) == ({"city", "nights"}, ["city"])


@pytest.mark.parametrize("of", [Stay, StayStruct, StayModel, StayDict])
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"nights": 2}, "city"),
        ({"city": "Kyoto", "nights": "many"}, "nights"),
        ({"city": "Kyoto", "smoker": True}, "unknown argument smoker; expected city, nights"),
        ({"request": "Kyoto"}, "unknown argument request; expected city, nights"),
    ],
)
async def test_arguments_that_do_not_fit_the_input_schema_are_reported_to_the_model(
    of: type, arguments: dict[str, Any], error: str
) -> None:
    received = ScriptedModel("booked", repeat=True)
    worker = Agent(name="worker", description="Books.", model=received, input_schema=of)
    result = await turn(boss(worker, calls=call("worker", **arguments)))
    (content,) = results(result)
    assert error in str(content)
    assert received.requests == []


async def test_input_schema_that_refers_to_itself_keeps_its_definition() -> None:
    received = ScriptedModel("ok")
    worker = Agent(name="worker", description="Works.", model=received, input_schema=Tree)
    tree = {"name": "a", "children": [{"name": "b", "children": []}]}
    chief = boss(worker, calls=call("worker", **tree))
    assert results(await turn(chief)) == ["ok"]
    assert msgspec.json.decode(received.requests[0].query) == tree
    assert set(chief.own_specs[0].parameters["$defs"]) == {"Tree"}


@pytest.mark.parametrize("of", [str, list[int], 3, object()])
def test_input_schema_without_fields_is_rejected(of: object) -> None:
    with pytest.raises(InvalidTree, match="agent 'worker': input_schema: "):
        Agent(name="worker", input_schema=of)
