"""Cancellation of remote tasks that wait for input when their run ends."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from remote_harness import EchoAgent, RemoteHarness, input_required, make_harness, shop

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
from acc.application.agents import remote as remote_module
from acc.domain.errors import StorageFailed, TaskNotCancelable
from acc.domain.value_objects.task import Task
from acc.testing import ScriptedModel, ScriptedRemote, call

PAYMENT_REQUEST = {"requestId": "r", "kind": "confirmation", "message": "May it?", "tool": "pay"}
SESSION = {"user_id": "u", "session_id": "s"}


class FailingAgent(BaseAgent):
    """Fails after the other agents had time to run."""

    async def run(self, ctx: RunContext) -> str:
        for _ in range(50):
            await asyncio.sleep(0)
        raise RuntimeError("no")


class UncancelableRemote(ScriptedRemote):
    """A server that does not cancel."""

    error: Exception | None = None

    async def cancel(self, task_id: str) -> Task:
        if self.error is None:
            await asyncio.sleep(60)
        else:
            raise self.error
        return await super().cancel(task_id)


async def final_status(harness: RemoteHarness) -> RunStatus | None:
    events = await harness.runner.events(user_id="u", session_id="s")
    return events[-1].status


async def test_abandoned_run_cancels_its_waiting_remote_task(tmp_path: Path) -> None:
    remote = ScriptedRemote(input_required(PAYMENT_REQUEST))
    harness = RemoteHarness(shop(), remote, tmp_path / "a.db")
    await harness.send("pay")
    await harness.runner.aclose()
    # Another process has only the stored state.
    restarted = RemoteHarness(shop(), remote, tmp_path / "a.db")
    await restarted.runner.abandon(**SESSION)
    assert remote.canceled == ["task-1"]
    assert await final_status(restarted) is RunStatus.CANCELED
    await restarted.runner.aclose()


async def test_failed_branch_cancels_the_waiting_remote_task_of_another_branch() -> None:
    tree = ParallelAgent(name="root", sub_agents=[shop(), FailingAgent(name="other")])
    harness, remote = make_harness(tree, input_required(PAYMENT_REQUEST))
    with pytest.raises(AgentFailed):
        await harness.send("pay")
    assert remote.canceled == ["task-1"]


async def test_abandoned_run_cancels_the_remote_task_of_a_tool() -> None:
    model = ScriptedModel(call("shop", request="pay"))
    harness, remote = make_harness(
        Agent(name="root", model=model, tools=[AgentTool(agent=shop())]),
        input_required(PAYMENT_REQUEST),
    )
    assert (await harness.send("pay")).status is RunStatus.INPUT_REQUIRED
    await harness.runner.abandon(**SESSION)
    assert remote.canceled == ["task-1"]


async def test_remote_task_that_no_longer_waits_is_not_canceled() -> None:
    class MarkingAgent(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.emit(EventKind.STATE, detail={"remote": {"of": "my own"}})
            await ctx.progress("half", detail={"remote": "task-9"})
            await ctx.request_input("Sure?")
            return "done"

    tree = ParallelAgent(
        name="root",
        sub_agents=[shop(), shop(name="bank"), EchoAgent(name="a"), MarkingAgent(name="marks")],
    )
    harness, remote = make_harness(tree, input_required(PAYMENT_REQUEST), "no question", "paid")
    waiting = await harness.send("pay")
    request = next(one for one in waiting.requests if one.agent == "shop")
    assert (await harness.answer(approve(request.id))).status is RunStatus.INPUT_REQUIRED
    await harness.runner.abandon(**SESSION)
    assert remote.canceled == []


async def test_remote_task_is_not_canceled_at_another_url(tmp_path: Path) -> None:
    remote = ScriptedRemote(input_required(PAYMENT_REQUEST))
    harness = RemoteHarness(shop(), remote, tmp_path / "a.db")
    await harness.send("pay")
    await harness.runner.aclose()
    moved = RemoteHarness(shop(url="https://elsewhere.example.com"), remote, tmp_path / "a.db")
    await moved.runner.abandon(**SESSION)
    assert (remote.canceled, await final_status(moved)) == ([], RunStatus.CANCELED)
    await moved.runner.aclose()


@pytest.mark.parametrize("error", [TaskNotCancelable("it is over"), ValueError("?"), None])
async def test_run_is_abandoned_when_the_remote_task_cannot_be_canceled(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remote_module, "CANCEL_TIMEOUT_SECONDS", 0.05)
    remote = UncancelableRemote(input_required(PAYMENT_REQUEST))
    remote.error = error
    harness = RemoteHarness(shop(), remote)
    await harness.send("pay")
    with caplog.at_level(logging.WARNING, "acc.run"):
        await harness.runner.abandon(**SESSION)
    assert await final_status(harness) is RunStatus.CANCELED
    assert (
        f"remote task of agent 'shop' was not canceled: {error or 'no response within'}"
        in caplog.text
    )


async def test_run_is_abandoned_when_its_events_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness, remote = make_harness(shop(), input_required(PAYMENT_REQUEST))
    await harness.send("pay")

    async def fail(*_: Any, **__: Any) -> Any:
        raise StorageFailed("the disk is full")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "acc.run"):
        patched.setattr(harness.runner.services.sessions, "events", fail)
        await harness.runner.abandon(**SESSION)
    assert (remote.canceled, await final_status(harness)) == ([], RunStatus.CANCELED)
    assert "the disk is full" in caplog.text


async def test_run_is_abandoned_when_services_cannot_call_remote_agents() -> None:
    harness, remote = make_harness(shop(), input_required(PAYMENT_REQUEST))
    await harness.send("pay")
    harness.runner.services.remote = None
    await harness.runner.abandon(**SESSION)
    assert (remote.canceled, await final_status(harness)) == ([], RunStatus.CANCELED)
