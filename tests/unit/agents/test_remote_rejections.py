"""Runs whose remote agent rejects the task."""

from pathlib import Path

import pytest
from remote_harness import EchoAgent, RemoteHarness, input_required, make_harness, shop, task, text

from acc import Agent, ParallelAgent, RunStatus, SequentialAgent, approve
from acc.domain.errors import BranchFailed
from acc.domain.value_objects.task import TaskState
from acc.testing import ScriptedModel, ScriptedRemote, call, last_result

DECLINED = task(TaskState.REJECTED, parts=(text("rejected: clerk: no stock"),))


async def test_run_is_rejected_with_the_reason_of_the_remote_agent() -> None:
    harness, _ = make_harness(shop(), DECLINED, task(TaskState.REJECTED))
    result = await harness.send("x")
    assert (result.status, result.text) == (RunStatus.REJECTED, "rejected: shop: clerk: no stock")
    assert (await harness.send("y")).text == "rejected: shop"


async def test_rejection_ends_a_sequence() -> None:
    tree = SequentialAgent(
        name="line", sub_agents=[shop(), EchoAgent(name="after", description="a")]
    )
    harness, _ = make_harness(tree, DECLINED)
    result = await harness.send("x")
    assert result.status is RunStatus.REJECTED
    assert [event.author for event in result.events if event.author == "after"] == []


async def test_run_is_rejected_when_the_remote_agent_rejects_after_a_restart(
    tmp_path: Path,
) -> None:
    request = input_required({"requestId": "q", "kind": "input", "message": "how many?"})
    remote = ScriptedRemote(request, DECLINED)
    waiting = await RemoteHarness(shop(), remote, tmp_path / "s.db").send("x")
    result = await RemoteHarness(shop(), remote, tmp_path / "s.db").answer(
        approve(waiting.requests[0].id, value="2")
    )
    assert result.text == "rejected: shop: clerk: no stock"


async def test_rejected_branch_is_skipped_when_errors_are_collected() -> None:
    tree = ParallelAgent(
        name="both", on_error="collect", sub_agents=[shop(), EchoAgent(name="own", description="o")]
    )
    harness, _ = make_harness(tree, DECLINED, DECLINED)
    result = await harness.send("x")
    assert result.status is RunStatus.COMPLETED
    assert "own heard x" in result.text
    single, _ = make_harness(
        ParallelAgent(name="one", on_error="collect", sub_agents=[shop()]), DECLINED
    )
    with pytest.raises(BranchFailed, match="no stock"):
        await single.send("x")


async def test_rejected_branch_rejects_the_run_when_errors_are_not_collected() -> None:
    tree = ParallelAgent(name="both", sub_agents=[shop(), EchoAgent(name="own", description="o")])
    harness, _ = make_harness(tree, DECLINED)
    assert (await harness.send("x")).text == "rejected: shop: clerk: no stock"


async def test_rejection_is_a_tool_result_when_the_remote_agent_is_a_tool() -> None:
    model = ScriptedModel(call("shop", request="x"), lambda prompt: str(last_result(prompt)))
    harness, _ = make_harness(Agent(name="boss", model=model, tools=[shop()]), DECLINED)
    result = await harness.send("x")
    assert result.status is RunStatus.COMPLETED
    assert "the remote task is rejected: clerk: no stock" in result.text
