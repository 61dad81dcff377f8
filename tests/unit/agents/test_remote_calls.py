"""Calls of remote agents: modes, rejected answers and unknown contexts."""

import logging

import pytest
from remote_harness import RemoteHarness, StaticReceiver, input_required, make_harness, shop, task

from acc import (
    RemoteFailed,
    Runner,
    RunStatus,
    approve,
)
from acc.domain.errors import InvalidInput, NotFound, Unauthenticated
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.task import (
    Task,
    TaskState,
)
from acc.testing import ScriptedRemote


async def test_push_mode_sends_the_configuration_of_the_receiver() -> None:
    receiver = StaticReceiver()
    harness, remote = make_harness(shop(mode="push", receiver=receiver), "done")
    assert (await harness.send("go")).text == "done"
    (push,) = remote.pushes
    assert push is not None
    assert (push.url, push.token, receiver.open) == ("https://me.example/hook", "t1", 0)


@pytest.mark.parametrize(("mode", "streaming"), [(None, None), ("stream", None), ("poll", False)])
async def test_streaming_follows_the_card_unless_the_mode_is_poll(
    mode: str | None, streaming: bool | None
) -> None:
    harness, remote = make_harness(shop(mode=mode), "done")
    await harness.send("go")
    assert harness.endpoints[0].streaming is streaming
    assert remote.pushes == [None]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://2130706433:18410", "canonical notation, such as 203.0.113.7 or [2001:db8::7]"),
        ("http://127.1", "canonical notation, such as 203.0.113.7 or [2001:db8::7]"),
        ("http://0", "canonical notation, such as 203.0.113.7 or [2001:db8::7]"),
        ("http://10.0.0.1", "allow-list, which is RemoteAgent(allow=[…]), or ACC_ALLOW in"),
    ],
)
async def test_address_error_names_the_allow_list_only_for_private_addresses(
    url: str, expected: str
) -> None:
    with pytest.raises(RemoteFailed) as error:
        await Runner(shop(url=url)).run(user_id="u", session_id="s", message="x")
    assert expected in str(error.value)
    assert ("ACC_ALLOW" in str(error.value)) is ("ACC_ALLOW" in expected)


class RejectingRemote(ScriptedRemote):
    """A server that rejects an answer; `stored_task` is the result or error of `get`."""

    stored_task: Task | Exception

    async def get(self, task_id: str) -> Task:
        if isinstance(self.stored_task, Exception):
            raise self.stored_task
        return self.stored_task


PAYMENT_REQUEST = {"requestId": "r", "kind": "confirmation", "message": "May it?", "tool": "pay"}
REJECTION = InvalidInput("the edited arguments for pay are wrong")


async def test_rejected_answer_is_requested_again() -> None:
    remote = RejectingRemote(input_required(PAYMENT_REQUEST), REJECTION, "paid")
    remote.stored_task = input_required(PAYMENT_REQUEST)
    harness = RemoteHarness(shop(), remote)
    (first,) = (await harness.send("pay")).requests
    again = await harness.answer(approve(first.id, arguments={"amount": "much"}))
    assert again.status is RunStatus.INPUT_REQUIRED
    (second,) = again.requests
    assert second.message == "the edited arguments for pay are wrong\nMay it?"
    done = await harness.answer(approve(second.id, arguments={"amount": 9}))
    assert done.text == "paid"
    assert [message.task_id for message in remote.sent] == ["", "task-1", "task-1"]
    assert len({message.message_id for message in remote.sent}) == 3


@pytest.mark.parametrize("stored_task", [task(TaskState.WORKING), Unauthenticated("who?")])
async def test_rejected_answer_fails_the_run_when_the_task_requires_no_input(
    stored_task: Task | Exception,
) -> None:
    remote = RejectingRemote(input_required(PAYMENT_REQUEST), REJECTION)
    remote.stored_task = stored_task
    harness = RemoteHarness(shop(), remote)
    (first,) = (await harness.send("pay")).requests
    with pytest.raises(RemoteFailed, match="the edited arguments for pay are wrong"):
        await harness.answer(approve(first.id, arguments={"amount": "much"}))


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("unknown contextId"),
        InvalidInput("context 'context-1' not found; leave it out to begin a new one"),
        NotFound("No such context"),
        RemoteFailed(
            "the remote agent failed: context has expired", remote_code="INVALID_ARGUMENT"
        ),
    ],
)
async def test_unknown_context_is_replaced_by_a_new_one(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    other = replace(task(), context_id="context-2")
    harness, remote = make_harness(shop(), "one", error, other, "three")
    await harness.send("first")
    with caplog.at_level(logging.WARNING, "acc.run"):
        await harness.send("second")
    assert "agent 'shop': the remote agent does not know the context" in caplog.text
    await harness.send("third")
    assert [one.context_id for one in remote.sent] == ["", "context-1", "", "context-2"]
    assert remote.sent[1].message_id == remote.sent[2].message_id


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("message.parts: at most 100"),
        InvalidInput("unknown context window: the context length of 8192 is not found"),
        Unauthenticated("contextId: who are you?"),
        RemoteFailed("contextId", remote_code="INTERNAL_ERROR"),
    ],
)
async def test_other_error_does_not_replace_the_context(
    error: Exception,
) -> None:
    harness, remote = make_harness(shop(), "one", error, "three")
    await harness.send("first")
    with pytest.raises(RemoteFailed):
        await harness.send("second")
    await harness.send("third")
    assert [one.context_id for one in remote.sent] == ["", "context-1", "context-1"]


async def test_context_is_replaced_only_once_per_message() -> None:
    unknown_context = InvalidInput("unknown contextId")
    harness, remote = make_harness(shop(), "one", unknown_context, unknown_context)
    await harness.send("first")
    with pytest.raises(RemoteFailed, match="unknown contextId"):
        await harness.send("second")
    assert len(remote.sent) == 3


async def test_answer_to_a_waiting_task_does_not_replace_the_context() -> None:
    remote = RejectingRemote(input_required(PAYMENT_REQUEST), InvalidInput("unknown contextId"))
    remote.stored_task = task(TaskState.FAILED)
    harness = RemoteHarness(shop(), remote)
    (request,) = (await harness.send("pay")).requests
    with pytest.raises(RemoteFailed, match="unknown contextId"):
        await harness.answer(approve(request.id))
    assert [one.context_id for one in remote.sent] == ["", "context-1"]
