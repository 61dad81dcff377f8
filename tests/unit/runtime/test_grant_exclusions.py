"""Exclusions in grants, and filters of memory by caller."""

from typing import Any

import pytest
from agent_support import Does, Writes, turn

from acc import Agent, Grant, RunContext, SequentialAgent, filter_memory
from acc.domain.errors import InvalidInput, StateNotGranted
from acc.testing import ScriptedModel

MEMORY = {
    "payment.card_number": "4111",
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
        assert "4111" not in repr(ctx.state)
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
    assert "4111" not in repr(model.requests)


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
