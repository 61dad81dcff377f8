"""Exclusions in grants, and filters of memory by caller."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from agent_support import Does, Writes, turn

from acc import (
    Agent,
    BaseAgent,
    Grant,
    RunConfig,
    RunContext,
    Runner,
    SequentialAgent,
    ToolContext,
    filter_memory,
    tool,
)
from acc.a2a import create_app
from acc.application.inspection.run_trace import trace_runs
from acc.bootstrap.inspection import recorded_events
from acc.domain.errors import InvalidInput, StateNotGranted
from acc.testing import ScriptedModel, call

MEMORY = {
    "payment.card_number": "4111-private-card",
    "payment.card_holder": "鈴木",
    "payment.total": 9,
    "summary.day": "ok",
    "metrics.count": 3,
}


async def run_worker(grant: Grant, do: Any) -> str:
    tree = SequentialAgent(
        name="s",
        sub_agents=[Writes(name="w", values=MEMORY), Does(name="worker", do=do)],
        grants={"worker": grant},
    )
    return (await turn(tree)).text


async def test_excluded_keys_are_missing_for_the_sub_agent() -> None:
    def look(ctx: RunContext) -> str:
        assert "payment.card_number" not in ctx.state
        assert ctx.state.get("payment.card_number") is None
        with pytest.raises(KeyError):
            ctx.state["payment.card_holder"]
        assert "4111-private-card" not in repr(ctx.state)
        return " ".join(sorted(ctx.state))

    text = await run_worker(Grant(read=("*", "!payment.card_*")), look)
    assert text == "metrics.count payment.total summary.day"


async def test_excluded_keys_cannot_be_written() -> None:
    def write(ctx: RunContext) -> str:
        ctx.state["payment.total"] = 1
        with pytest.raises(StateNotGranted):
            ctx.state["payment.card_number"] = "0"
        with pytest.raises(StateNotGranted):
            del ctx.state["payment.card_number"]
        return "done"

    assert await run_worker(Grant(write=("*", "!payment.card_*")), write) == "done"


async def test_excluded_files_are_missing() -> None:
    async def look(ctx: RunContext) -> str:
        await ctx.artifacts.save("report.txt", "x")
        with pytest.raises(StateNotGranted):
            await ctx.artifacts.save("card_scan.txt", "x")
        return " ".join(await ctx.artifacts.names())

    assert await run_worker(Grant(artifacts=("*", "!card_*")), look) == "report.txt"


async def test_excluded_value_does_not_reach_the_model() -> None:
    model = ScriptedModel("fine")
    worker = Agent(name="worker", model=model, instruction="Card: {payment.card_number?}")
    tree = SequentialAgent(
        name="s",
        sub_agents=[Writes(name="w", values=MEMORY), worker],
        grants={"worker": Grant(read=("*", "!payment.card_*"))},
    )
    assert (await turn(tree)).text == "fine"
    assert "4111-private-card" not in repr(model.requests)


def test_grant_with_only_exclusions_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="only exclusions"):
        Grant(read=("!payment.card_*",))


@pytest.mark.parametrize(
    ("caller", "keys"),
    [
        ("agent://fraud_detection_agent", {"payment.total", "summary.day", "metrics.count"}),
        ("agent://audit_agent", {"summary.day", "metrics.count"}),
        ("agent://checkout_agent", set(MEMORY)),
        ("unknown", set()),
    ],
)
def test_memory_is_filtered_by_caller(caller: str, keys: set[str]) -> None:
    rules = {
        "agent://fraud_detection_agent": ("*", "!payment.card_*"),
        "agent://audit_agent": ("summary.*", "metrics.*"),
        "agent://*": ("*",),
    }
    assert set(filter_memory(MEMORY, caller, rules)) == keys


async def test_excluded_value_reaches_no_part_of_the_sub_agent(tmp_path: Path) -> None:
    seen: list[str] = []

    @tool
    def look(ctx: ToolContext) -> str:
        """Return what the state contains."""
        seen.append(repr({key: ctx.state[key] for key in ctx.state}))
        return seen[-1]

    model = ScriptedModel(call("look"), "fine", repeat=True)
    worker = Agent(
        name="worker",
        description="Checks payments.",
        model=model,
        instruction="Payment: {payment.total} {payment.card_number?}",
        tools=[look],
        memory="acc",
    )
    tree = SequentialAgent(
        name="s",
        sub_agents=[Writes(name="w", values=MEMORY), worker],
        grants={"worker": Grant(read=("*", "!payment.card_*"))},
    )
    store = tmp_path / "acc.db"
    runner = Runner(tree, store=store, config=RunConfig(record_prompts=True))
    result = await runner.run("check the payment", session_id="s1")
    await runner.aclose()
    events = await recorded_events(str(store), "s1", app_name=runner.app_name)
    # The tree itself wrote the value to its state; the worker's part of the record has none of it.
    own = [event for event in events if event.author == "worker"]
    snapshots = [event.detail for event in own if "snapshot" in event.detail]
    traces = [
        node for run in trace_runs(events, requests=True) for node in run.nodes[0].children[1:]
    ]
    card = await served_card(tree)
    assert result.text == "fine"
    assert snapshots, "the memory of the worker was recorded"
    assert traces
    for place in (model.requests, seen, own, traces, card):
        text = repr(place)
        assert text
        assert "4111-private-card" not in text
        assert "鈴木" not in text
    assert "9" in seen[0], "granted values are there"


async def served_card(agent: BaseAgent) -> Any:
    transport = httpx2.ASGITransport(app=create_app(agent))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return (await client.get("/.well-known/agent-card.json")).json()
