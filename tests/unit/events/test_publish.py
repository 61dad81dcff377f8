"""`ctx.publish` and the tool `publish_event`."""

from typing import Any

import pytest
from agent_support import WHO, Does

from acc import (
    Agent,
    AgentFailed,
    BaseAgent,
    CallContext,
    InvalidInput,
    ParallelAgent,
    RunContext,
    Runner,
    SequentialAgent,
    ToolContext,
    approve,
    tool,
)
from acc.domain.errors import AccError
from acc.events import CloudEvent, decode_cloud_event, make_subscription, publish_event
from acc.testing import ScriptedModel, call

TRACE_PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def published(runner: Runner[Any, Any]) -> list[CloudEvent]:
    """Return all events that the agents of a runner have published."""
    subscription = make_subscription(runner, name="test", events=["*"])
    deliveries = await subscription.receive(limit=100, wait=0.0)
    return [decode_cloud_event(one.body) for one in deliveries]


def publisher(name: str = "sales", **fields: Any) -> Does:
    def publish(ctx: RunContext) -> str:
        ctx.state["placed"] = 7
        return ctx.publish("order.created", {"order": 7, "品名": "緑茶"})

    return Does(name=name, do=publish, **fields)


async def test_published_event_is_a_cloud_event_with_the_fields_of_the_seed() -> None:
    runner = Runner(publisher(), app_name="shop")
    context = CallContext(
        request_id="r1",
        trace_id="trace-1",
        caller="user://ann",
        metadata={"traceparent": TRACE_PARENT},
    )
    result = await runner.run("go", **WHO, context=context)
    (event,) = await published(runner)
    assert event.id == result.text
    assert event.type == "order.created"
    assert event.source == "/apps/shop/agents/sales"
    assert event.data == {
        "event_type": "order.created",
        "payload": {"order": 7, "品名": "緑茶"},
        "trace_id": "trace-1",
        "agent_name": "sales",
    }
    assert event.traceparent == TRACE_PARENT
    assert event.time.endswith("Z")


async def test_trace_id_of_the_state_is_used_as_in_the_seed() -> None:
    def publish(ctx: RunContext) -> None:
        ctx.state["trace_id"] = "from-state"
        ctx.publish("order.created", {})

    runner = Runner(Does(name="sales", do=publish))
    await runner.run("go")
    (event,) = await published(runner)
    assert event.trace_id == "from-state"


async def test_event_of_an_agent_that_fails_is_not_published() -> None:
    def fail(ctx: RunContext) -> None:
        ctx.state["placed"] = 7
        ctx.publish("order.created", {})
        raise RuntimeError("no stock")

    runner = Runner(Does(name="sales", do=fail))
    with pytest.raises(AgentFailed):
        await runner.run("go")
    assert await published(runner) == []


async def test_tool_publishes_together_with_its_result() -> None:
    @tool
    def place(order: int, ctx: ToolContext) -> dict[str, str]:
        """Place an order."""
        return {"status": "published", "message_id": ctx.publish("order.created", {"order": order})}

    model = ScriptedModel(call("place", order=7), "placed")
    runner = Runner(Agent(name="sales", model=model, tools=[place]))
    result = await runner.run("go")
    (event,) = await published(runner)
    (stored,) = [one for one in result.events if one.actions.published]
    assert stored.result is not None
    assert stored.result.content == {"status": "published", "message_id": event.id}


async def test_tool_context_cannot_publish_after_its_call() -> None:
    contexts: list[ToolContext] = []

    @tool
    def place(ctx: ToolContext) -> str:
        """Place an order."""
        contexts.append(ctx)
        return "ok"

    runner = Runner(Agent(name="sales", model=ScriptedModel(call("place"), "x"), tools=[place]))
    await runner.run("go")
    with pytest.raises(AccError) as error:
        contexts[0].publish("order.created", {})
    assert error.value.code == "state_not_granted"


async def test_resumed_run_does_not_publish_again() -> None:
    async def ask(ctx: RunContext) -> str:
        ctx.publish("order.created", {"order": 1})
        await ctx.ask("Which color?")
        return ctx.publish("order.changed", {"order": 1})

    runner = Runner(Does(name="sales", do=ask))
    paused = await runner.run("go", **WHO)
    assert [event.type for event in await published(runner)] == ["order.created"]
    await runner.resume(approve(paused.requests[0].id, value="red"), **WHO)
    assert [event.type for event in await published(runner)] == ["order.changed"]


async def test_events_of_parallel_branches_are_published_when_they_join() -> None:
    async def ask(ctx: RunContext) -> None:
        await ctx.ask("continue?")

    tree = SequentialAgent(
        name="root",
        sub_agents=[
            ParallelAgent(name="both", sub_agents=[publisher("left"), Does(name="right", do=ask)]),
            publisher("after"),
        ],
    )
    runner = Runner(tree)
    paused = await runner.run("go", **WHO)
    assert await published(runner) == []
    await runner.resume(approve(paused.requests[0].id, value="yes"), **WHO)
    events = await published(runner)
    assert [event.data["agent_name"] for event in events] == ["left", "after"]


async def test_event_of_a_failed_branch_is_not_published() -> None:
    async def fail(ctx: RunContext) -> None:
        ctx.publish("order.created", {})
        await ctx.say("published")
        raise RuntimeError("no stock")

    agents: list[BaseAgent] = [Does(name="bad", do=fail), publisher("good")]
    runner = Runner(ParallelAgent(name="both", sub_agents=agents, on_error="collect"))
    await runner.run("go")
    assert [event.data["agent_name"] for event in await published(runner)] == ["good"]


@pytest.mark.parametrize(
    ("event_type", "payload", "text"),
    [
        ("", {}, "is invalid"),
        ("order created", {}, "is invalid"),
        ("order..created", {}, "is invalid"),
        ("order.*", {}, "is invalid"),
        ("x" * 201, {}, "is invalid"),
        (7, {}, "is invalid"),
        ("order.created", {"text": "x" * 70_000}, "65,536"),
        ("order.created", {"function": print}, "cannot be converted to JSON"),
    ],
)
async def test_invalid_event_is_refused_where_it_is_published(
    event_type: Any, payload: Any, text: str
) -> None:
    def publish(ctx: RunContext) -> None:
        with pytest.raises(InvalidInput, match=text):
            ctx.publish(event_type, payload)

    runner = Runner(Does(name="sales", do=publish))
    await runner.run("go")
    assert await published(runner) == []


async def test_publish_event_tool_publishes_allowed_types_only() -> None:
    model = ScriptedModel(
        call("publish_event", event_type="invoice.sent", payload={"order": 7}),
        call("publish_event", event_type="order.created", payload={"order": 7}),
        "done",
    )
    runner = Runner(Agent(name="sales", model=model, tools=[publish_event(allow=("order.*",))]))
    result = await runner.run("go")
    refused, accepted = [event.result for event in result.events if event.result is not None]
    assert refused.is_error
    assert "order.*" in refused.content["error"]
    (event,) = await published(runner)
    assert accepted.content == {"status": "published", "message_id": event.id}
    assert event.payload == {"order": 7}


@pytest.mark.parametrize("allow", [(), ("",), ("order created",), 7])
def test_publish_event_tool_refuses_invalid_patterns(allow: Any) -> None:
    with pytest.raises(InvalidInput, match="allow must be patterns"):
        publish_event(allow=allow)
