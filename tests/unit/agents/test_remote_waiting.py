"""A run that ends while a remote task asks something takes that task along."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from remote_desk import Desk, Says, asking, desk, shop

from acc import (
    Agent,
    AgentFailed,
    AgentTool,
    BaseAgent,
    EventKind,
    ParallelAgent,
    RunContext,
    RunStatus,
    approve,
)
from acc.application.agents import remote as remote_waiting
from acc.domain.errors import StorageFailed, TaskNotCancelable
from acc.domain.value_objects.task import Task
from acc.testing import ScriptedModel, ScriptedRemote, call

PAYING = {"requestId": "r", "kind": "confirmation", "message": "May it?", "tool": "pay"}
WHO = {"user_id": "u", "session_id": "s"}


class Fails(BaseAgent):
    """Fails once the others have done what they can."""

    async def run(self, ctx: RunContext) -> str:
        for _ in range(50):
            await asyncio.sleep(0)
        raise RuntimeError("no")


class Stubborn(ScriptedRemote):
    """A server that does not cancel."""

    fault: Exception | None = None

    async def cancel(self, task_id: str) -> Task:
        if self.fault is None:
            await asyncio.sleep(60)
        else:
            raise self.fault
        return await super().cancel(task_id)


async def ended(office: Desk) -> RunStatus | None:
    events = await office.runner.events(user_id="u", session_id="s")
    return events[-1].status


async def test_giving_up_a_run_cancels_what_waits_for_its_answer(tmp_path: Path) -> None:
    remote = ScriptedRemote(asking(PAYING))
    office = Desk(shop(), remote, tmp_path / "a.db")
    await office.say("pay")
    await office.runner.aclose()
    # Another process knows nothing but what is stored.
    restarted = Desk(shop(), remote, tmp_path / "a.db")
    await restarted.runner.abandon(**WHO)
    assert remote.canceled == ["task-1"]
    assert await ended(restarted) is RunStatus.CANCELED
    await restarted.runner.aclose()


async def test_a_branch_that_fails_cancels_what_another_one_asked() -> None:
    tree = ParallelAgent(name="root", sub_agents=[shop(), Fails(name="other")])
    office, remote = desk(tree, asking(PAYING))
    with pytest.raises(AgentFailed):
        await office.say("pay")
    assert remote.canceled == ["task-1"]


async def test_a_remote_agent_that_is_a_tool_is_found_too() -> None:
    model = ScriptedModel(call("shop", request="pay"))
    office, remote = desk(
        Agent(name="root", model=model, tools=[AgentTool(agent=shop())]), asking(PAYING)
    )
    assert (await office.say("pay")).status is RunStatus.INPUT_REQUIRED
    await office.runner.abandon(**WHO)
    assert remote.canceled == ["task-1"]


async def test_what_has_gone_on_since_is_left_alone() -> None:
    class Marks(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.emit(EventKind.STATE, detail={"remote": {"of": "my own"}})
            await ctx.progress("half", remote="task-9")
            await ctx.ask_person("Sure?")
            return "done"

    tree = ParallelAgent(
        name="root", sub_agents=[shop(), shop(name="bank"), Says(name="a"), Marks(name="marks")]
    )
    office, remote = desk(tree, asking(PAYING), "no question", "paid")
    waiting = await office.say("pay")
    request = next(one for one in waiting.requests if one.agent == "shop")
    assert (await office.answer(approve(request.id))).status is RunStatus.INPUT_REQUIRED
    await office.runner.abandon(**WHO)
    assert remote.canceled == []


async def test_a_task_is_not_looked_for_at_another_address(tmp_path: Path) -> None:
    remote = ScriptedRemote(asking(PAYING))
    office = Desk(shop(), remote, tmp_path / "a.db")
    await office.say("pay")
    await office.runner.aclose()
    moved = Desk(shop(url="https://elsewhere.example.com"), remote, tmp_path / "a.db")
    await moved.runner.abandon(**WHO)
    assert (remote.canceled, await ended(moved)) == ([], RunStatus.CANCELED)
    await moved.runner.aclose()


@pytest.mark.parametrize("fault", [TaskNotCancelable("it is over"), ValueError("?"), None])
async def test_a_task_that_cannot_be_canceled_does_not_keep_the_run(
    fault: Exception | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remote_waiting, "CANCEL_TIMEOUT_SECONDS", 0.05)
    remote = Stubborn(asking(PAYING))
    remote.fault = fault
    office = Desk(shop(), remote)
    await office.say("pay")
    with caplog.at_level(logging.WARNING, "acc.run"):
        await office.runner.abandon(**WHO)
    assert await ended(office) is RunStatus.CANCELED
    assert (
        f"remote task of agent 'shop' was not canceled: {fault or 'no response within'}"
        in caplog.text
    )


async def test_a_record_that_cannot_be_read_does_not_keep_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    office, remote = desk(shop(), asking(PAYING))
    await office.say("pay")

    async def broken(*_: Any, **__: Any) -> Any:
        raise StorageFailed("the disk is full")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "acc.run"):
        patched.setattr(office.runner.services.sessions, "events", broken)
        await office.runner.abandon(**WHO)
    assert (remote.canceled, await ended(office)) == ([], RunStatus.CANCELED)
    assert "the disk is full" in caplog.text


async def test_services_that_cannot_call_remote_agents_have_nothing_to_cancel() -> None:
    office, remote = desk(shop(), asking(PAYING))
    await office.say("pay")
    office.runner.services.remote = None
    await office.runner.abandon(**WHO)
    assert (remote.canceled, await ended(office)) == ([], RunStatus.CANCELED)
