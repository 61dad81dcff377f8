"""A remote agent that declines: a run that it ends is rejected; who can do without it goes on."""

from pathlib import Path

import pytest
from remote_desk import Desk, Says, asking, desk, shop, task, text

from acc import Agent, ParallelAgent, RunStatus, SequentialAgent, approve
from acc.domain.errors import BranchFailed
from acc.domain.value_objects.task import TaskState
from acc.testing import ScriptedModel, ScriptedRemote, call, last_result

DECLINED = task(TaskState.REJECTED, parts=(text("rejected: clerk: no stock"),))


async def test_a_run_that_a_remote_agent_declines_is_rejected_with_its_reason() -> None:
    office, _ = desk(shop(), DECLINED, task(TaskState.REJECTED))
    found = await office.say("x")
    assert (found.status, found.text) == (RunStatus.REJECTED, "rejected: shop: clerk: no stock")
    assert (await office.say("y")).text == "rejected: shop"


async def test_nothing_after_a_remote_agent_that_declines_is_done() -> None:
    tree = SequentialAgent(name="line", sub_agents=[shop(), Says(name="after", description="a")])
    office, _ = desk(tree, DECLINED)
    found = await office.say("x")
    assert found.status is RunStatus.REJECTED
    assert [event.author for event in found.events if event.author == "after"] == []


async def test_an_answer_that_a_remote_agent_then_declines_rejects_the_run_after_a_restart(
    tmp_path: Path,
) -> None:
    ask = asking({"requestId": "q", "kind": "input", "message": "how many?"})
    remote = ScriptedRemote(ask, DECLINED)
    waiting = await Desk(shop(), remote, tmp_path / "s.db").say("x")
    found = await Desk(shop(), remote, tmp_path / "s.db").answer(
        approve(waiting.requests[0].id, value="2")
    )
    assert found.text == "rejected: shop: clerk: no stock"


async def test_branches_that_collect_failures_do_without_one_that_was_declined() -> None:
    tree = ParallelAgent(
        name="both", on_error="collect", sub_agents=[shop(), Says(name="own", description="o")]
    )
    office, _ = desk(tree, DECLINED, DECLINED)
    found = await office.say("x")
    assert found.status is RunStatus.COMPLETED
    assert "own heard x" in found.text
    alone, _ = desk(ParallelAgent(name="one", on_error="collect", sub_agents=[shop()]), DECLINED)
    with pytest.raises(BranchFailed, match="no stock"):
        await alone.say("x")


async def test_a_branch_that_was_declined_rejects_the_run_where_one_failure_ends_it() -> None:
    tree = ParallelAgent(name="both", sub_agents=[shop(), Says(name="own", description="o")])
    office, _ = desk(tree, DECLINED)
    assert (await office.say("x")).text == "rejected: shop: clerk: no stock"


async def test_a_model_hears_that_a_remote_agent_it_used_as_a_tool_declined() -> None:
    model = ScriptedModel(call("shop", request="x"), lambda prompt: str(last_result(prompt)))
    office, _ = desk(Agent(name="boss", model=model, tools=[shop()]), DECLINED)
    found = await office.say("x")
    assert found.status is RunStatus.COMPLETED
    assert "the remote task is rejected: clerk: no stock" in found.text
