"""The official Python client against `acc serve`, over a real socket, in both generations."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from uuid import uuid4

import pytest
from a2a.client import A2AClientError
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Part,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotCancelableError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict, ParseDict
from official_client import MODES, MOVING, Copy, Mode, Witness, connect, message, said, state
from server_process import ALICE, BOB, Server, tokens_file
from webhook_receiver import Receiver, receiving, state_in

from acc.adapters.auth.notification_signatures import NotificationVerifier

APPROVAL = "承認します。処理を続けてください。"
SECRET = "shared by server and receiver"
ORDER = ["SUBMITTED", "WORKING", "COMPLETED"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that knows two callers, and may notify this machine."""
    folder = tmp_path_factory.mktemp("witness")
    options = ["--tokens", str(tokens_file(folder)), "--allow", "127.0.0.1"]
    with Server(folder, *options, agent="served_agents:desk", ACC_PUSH_SECRET=SECRET) as started:
        yield started
        started.terminate(within=30)
        assert "Traceback" not in started.log


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as taking:
        yield taking


@pytest.fixture(params=MODES, ids=str)
def mode(request: pytest.FixtureRequest) -> Mode:
    found: Mode = request.param
    return found


@pytest.fixture
async def witness(server: Server, mode: Mode) -> AsyncIterator[Witness]:
    async with connect(server.url, mode, ALICE) as connected:
        yield connected


async def settled(witness: Witness, task: Task) -> Task:
    """Poll until the task rests."""
    async with asyncio.timeout(20):
        while task.status.state in MOVING:
            await asyncio.sleep(0.1)
            task = await witness.get(task.id)
    return task


async def test_card_offers_every_generation_and_binding(witness: Witness) -> None:
    (interface,) = witness.card.supported_interfaces
    assert interface.protocol_version.startswith(witness.mode.version)
    assert witness.card.capabilities.streaming
    assert witness.card.capabilities.push_notifications
    assert {skill.name for skill in witness.card.skills} >= {"count", "pay"}


async def test_send_waits_for_the_answer(witness: Witness) -> None:
    task = await witness.send(message("こんにちは"))
    assert (state(task), said(task)) == ("COMPLETED", "echo: こんにちは")
    assert task.id
    assert task.context_id


async def test_send_without_waiting_is_followed_by_polling(witness: Witness) -> None:
    task = await witness.send(message("slow"), wait=False)
    assert task.status.state in MOVING
    done = await settled(witness, task)
    assert (done.id, state(done), said(done)) == (task.id, "COMPLETED", "counted to 6")


async def test_stream_begins_with_the_task_and_moves_forward_to_its_end(witness: Witness) -> None:
    copy = Copy.begun()
    kinds = [copy.take(event) async for event in witness.stream(message("hello"))]
    assert kinds[0] == "task"
    assert set(kinds[1:]) <= {"status_update", "artifact_update"}
    assert copy.states[-1] == "COMPLETED"
    steps = [ORDER.index(found) for found in copy.states]
    assert all(before <= after for before, after in pairwise(steps))


async def test_get_gives_as_much_history_as_was_asked_for(witness: Witness) -> None:
    task = await witness.send(message("remember me"))
    whole = await witness.get(task.id)
    assert whole.history[0].parts[0].text == "remember me"
    assert len((await witness.get(task.id, history=1)).history) <= 1
    assert not (await witness.get(task.id, history=0)).history


async def test_same_message_sent_twice_is_one_task(witness: Witness) -> None:
    once = message("only once")
    first, second = await witness.send(once), await witness.send(once)
    assert first.id == second.id


async def test_messages_of_one_context_share_it(witness: Witness) -> None:
    first = await witness.send(message("one"))
    second = await witness.send(message("two", context_id=first.context_id))
    assert second.id != first.id
    assert second.context_id == first.context_id


async def test_list_gives_every_task_of_the_context_once(server: Server) -> None:
    async with connect(server.url, MODES[0], ALICE) as witness:
        first = await witness.send(message("one"))
        for text in ("two", "three"):
            await witness.send(message(text, context_id=first.context_id))
        for mode in MODES[:2]:
            await list_by_pages(server, mode, first.context_id)


async def list_by_pages(server: Server, mode: Mode, context_id: str) -> None:
    async with connect(server.url, mode, ALICE) as witness:
        found: list[Task] = []
        request = ListTasksRequest(context_id=context_id, page_size=2)
        while True:
            page = await witness.client.list_tasks(request)
            found += page.tasks
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        assert page.total_size == len({task.id for task in found}) == len(found) == 3
        times = [task.status.timestamp.ToNanoseconds() for task in found]
        assert times == sorted(times, reverse=True)
        assert not any(task.artifacts for task in found)


async def test_canceled_task_stays_canceled(witness: Witness) -> None:
    task = await witness.send(message("slow"), wait=False)
    canceled = await witness.client.cancel_task(CancelTaskRequest(id=task.id))
    assert state(canceled) == "CANCELED"
    await asyncio.sleep(2)
    assert state(await witness.get(task.id)) == "CANCELED"
    with pytest.raises(TaskNotCancelableError):
        await witness.client.cancel_task(CancelTaskRequest(id=task.id))


async def test_subscriber_after_a_cut_gets_exactly_the_rest(witness: Witness) -> None:
    copy = Copy.begun()
    stream = witness.stream(message("slow"))
    async for event in stream:
        if copy.take(event) == "artifact_update":
            break
    await stream.aclose()
    before = copy.words("numbers")
    kinds = [copy.take(event) async for event in witness.subscribe(copy.id)]
    assert kinds[0] == "task"
    assert copy.states[-1] == "COMPLETED"
    assert kinds.count("artifact_update") > 1
    assert before == "1 "
    assert copy.words("numbers") == "1 2 3 4 5 6 "
    task = await witness.get(copy.id)
    assert copy.artifacts.keys() == {held.artifact_id for held in task.artifacts}


async def test_client_that_leaves_does_not_stop_the_task(witness: Witness) -> None:
    stream = witness.stream(message("slow"))
    first = await anext(stream)
    await stream.aclose()
    done = await settled(witness, await witness.get(first.task.id))
    assert (state(done), said(done)) == ("COMPLETED", "counted to 6")


async def test_push_configurations_are_kept_until_deleted(
    receiver: Receiver, witness: Witness
) -> None:
    hook = f"{receiver.url}/kept"
    task = await witness.send(message("slow"), wait=False)
    client = witness.client
    wanted = TaskPushNotificationConfig(task_id=task.id, id="hook-1", url=hook)
    made = await client.create_task_push_notification_config(wanted)
    assert (made.id, made.url) == ("hook-1", hook)
    which = GetTaskPushNotificationConfigRequest(task_id=task.id, id="hook-1")
    assert (await client.get_task_push_notification_config(which)).url == hook
    if witness.mode == Mode("0.3", "HTTP+JSON"):
        return  # the official client cannot list or delete there
    listing = ListTaskPushNotificationConfigsRequest(task_id=task.id)
    listed = await client.list_task_push_notification_configs(listing)
    assert [config.id for config in listed.configs] == ["hook-1"]
    doomed = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="hook-1")
    for _ in range(2):
        await client.delete_task_push_notification_config(doomed)
    left = await client.list_task_push_notification_configs(listing)
    assert list(left.configs) == []


async def test_receiver_verifies_what_it_is_sent(receiver: Receiver, witness: Witness) -> None:
    path = f"/{uuid4()}"
    asked = await witness.send(message("支払い 12000円"))
    wanted = TaskPushNotificationConfig(
        task_id=asked.id, url=receiver.url + path, token=f"for {path}"
    )
    await witness.client.create_task_push_notification_config(wanted)
    await witness.send(message(APPROVAL, task=Task(id=asked.id)))
    verifier = NotificationVerifier(secret=SECRET)
    told = [
        state_in(verifier.verify(got.body, got.headers))
        for got in await receiver.told(path, "COMPLETED")
    ]
    assert told[-1] == "COMPLETED"
    for got in receiver.at(path):
        assert got.headers["X-A2A-Notification-Token"] == f"for {path}"
        assert got.headers["A2A-Version"] == witness.mode.version


async def test_webhook_to_a_private_address_is_refused(witness: Witness) -> None:
    task = await witness.send(message("slow"), wait=False)
    url = "http://169.254.169.254/latest"
    wanted = TaskPushNotificationConfig(task_id=task.id, id="h", url=url)
    with pytest.raises((A2AError, A2AClientError)):
        await witness.client.create_task_push_notification_config(wanted)


async def test_payment_waits_for_a_person_who_approves_by_message(witness: Witness) -> None:
    asked = await witness.send(message("支払い 12000円"))
    assert state(asked) == "INPUT_REQUIRED"
    seen = await witness.get(asked.id)
    assert state(seen) == "INPUT_REQUIRED"
    assert seen.status.message.parts
    done = await witness.send(message(APPROVAL, task=Task(id=asked.id)))
    assert (done.id, done.context_id) == (asked.id, asked.context_id)
    assert (state(done), said(done)) == ("COMPLETED", "12,000円を支払いました")


async def test_small_payment_needs_nobody(witness: Witness) -> None:
    task = await witness.send(message("支払い 500円"))
    assert (state(task), said(task)) == ("COMPLETED", "500円を支払いました")


async def test_parts_of_every_kind_come_back_as_they_were_sent(witness: Witness) -> None:
    data = ParseDict({"data": {"金額": 42, "明細": [1, None, True]}}, Part())
    sent = message(
        "see",
        Part(raw=b"\x00\xffbytes", filename="note.bin", media_type="application/octet-stream"),
        Part(url="https://example.com/表.csv", filename="表.csv", media_type="text/csv"),
        data,
    )
    task = await witness.send(sent)
    kept = (await witness.get(task.id)).history[0]
    if witness.mode == Mode("0.3", "HTTP+JSON"):
        for part in (*sent.parts, *kept.parts):
            part.filename = ""  # that binding has no field for a file's name
    assert [MessageToDict(part) for part in kept.parts] == [MessageToDict(p) for p in sent.parts]


async def test_extended_card_is_for_those_who_authenticate(server: Server, mode: Mode) -> None:
    async with connect(server.url, mode, ALICE) as known:
        card = await known.client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert card.name == known.card.name
    async with connect(server.url, mode) as stranger:
        with pytest.raises((A2AError, A2AClientError)):
            await stranger.client.get_extended_agent_card(GetExtendedAgentCardRequest())


async def test_task_of_another_caller_does_not_exist(server: Server, witness: Witness) -> None:
    task = await witness.send(message("mine"))
    async with connect(server.url, witness.mode, BOB) as other:
        refusals = []
        for task_id in (task.id, "no-such-task"):
            with pytest.raises(TaskNotFoundError) as refusal:
                await other.get(task_id)
            refusals.append(str(refusal.value).replace(task_id, "ID"))
        assert refusals[0] == refusals[1]


async def test_context_of_another_caller_is_refused(server: Server, witness: Witness) -> None:
    task = await witness.send(message("mine"))
    async with connect(server.url, witness.mode, BOB) as other:
        with pytest.raises((A2AError, A2AClientError)):
            await other.send(message("yours?", context_id=task.context_id))


async def test_states_of_both_generations_are_the_same_states(server: Server) -> None:
    async with connect(server.url, MODES[0], ALICE) as first:
        task = await first.send(message("支払い 12000円"))
        for mode in MODES:
            async with connect(server.url, mode, ALICE) as witness:
                found = await witness.get(task.id)
                assert found.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
                assert found.context_id == task.context_id
