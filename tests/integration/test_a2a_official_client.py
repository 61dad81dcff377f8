"""The official Python client with `acc serve` in both protocol versions."""

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
from official_client import (
    ACTIVE_STATES,
    LEGACY_GRPC,
    MODES,
    Mode,
    OfficialClient,
    TaskProjection,
    answer_text,
    connect,
    message,
    state,
)
from server_process import ALICE, BOB, Server, tokens_file
from webhook_receiver import Receiver, run_receiver, state_in

from acc.adapters.auth.notification_signatures import NotificationVerifier

APPROVAL = "承認します。処理を続けてください。"
SECRET = "shared by server and receiver"
ORDER = ["SUBMITTED", "WORKING", "COMPLETED"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a server with two callers that may send notifications to this host."""
    folder = tmp_path_factory.mktemp("server")
    options = ["--tokens", str(tokens_file(folder)), "--allow", "127.0.0.1", "--grpc-port", "0"]
    with Server(folder, *options, agent="served_agents:desk", ACC_PUSH_SECRET=SECRET) as started:
        yield started
        started.terminate(within=30)
        assert "Traceback" not in started.log


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with run_receiver() as taking:
        yield taking


@pytest.fixture(params=MODES, ids=str)
def mode(request: pytest.FixtureRequest) -> Mode:
    selected: Mode = request.param
    return selected


@pytest.fixture
async def a2a_client(server: Server, mode: Mode) -> AsyncIterator[OfficialClient]:
    async with connect(server.url, mode, ALICE) as connected:
        yield connected


async def wait_until_settled(a2a_client: OfficialClient, task: Task) -> Task:
    """Poll until the task is not active."""
    async with asyncio.timeout(20):
        while task.status.state in ACTIVE_STATES:
            await asyncio.sleep(0.1)
            task = await a2a_client.get(task.id)
    return task


async def test_card_lists_every_version_and_binding(a2a_client: OfficialClient) -> None:
    (interface,) = a2a_client.card.supported_interfaces
    assert interface.protocol_version.startswith(a2a_client.mode.version)
    assert a2a_client.card.capabilities.streaming
    assert a2a_client.card.capabilities.push_notifications
    assert {skill.name for skill in a2a_client.card.skills} >= {"count", "pay"}


async def test_blocking_send_returns_answer(a2a_client: OfficialClient) -> None:
    task = await a2a_client.send(message("こんにちは"))
    assert (state(task), answer_text(task)) == ("COMPLETED", "echo: こんにちは")
    assert task.id
    assert task.context_id


async def test_nonblocking_send_completes_by_polling(a2a_client: OfficialClient) -> None:
    task = await a2a_client.send(message("slow"), wait=False)
    assert task.status.state in ACTIVE_STATES
    completed = await wait_until_settled(a2a_client, task)
    assert (completed.id, state(completed), answer_text(completed)) == (
        task.id,
        "COMPLETED",
        "counted to 6",
    )


async def test_stream_starts_with_task_and_states_advance(a2a_client: OfficialClient) -> None:
    copy = TaskProjection.empty()
    kinds = [copy.apply(event) async for event in a2a_client.stream(message("hello"))]
    assert kinds[0] == "task"
    assert set(kinds[1:]) <= {"status_update", "artifact_update"}
    assert copy.states[-1] == "COMPLETED"
    steps = [ORDER.index(name) for name in copy.states]
    assert all(before <= after for before, after in pairwise(steps))


async def test_get_limits_history_to_requested_length(a2a_client: OfficialClient) -> None:
    task = await a2a_client.send(message("remember me"))
    full = await a2a_client.get(task.id)
    assert full.history[0].parts[0].text == "remember me"
    assert len((await a2a_client.get(task.id, history=1)).history) <= 1
    assert not (await a2a_client.get(task.id, history=0)).history


async def test_repeated_message_returns_same_task(a2a_client: OfficialClient) -> None:
    once = message("only once")
    first, second = await a2a_client.send(once), await a2a_client.send(once)
    assert first.id == second.id


async def test_messages_with_same_context_id_share_context(a2a_client: OfficialClient) -> None:
    first = await a2a_client.send(message("one"))
    second = await a2a_client.send(message("two", context_id=first.context_id))
    assert second.id != first.id
    assert second.context_id == first.context_id


async def test_list_returns_each_task_of_context_once(server: Server) -> None:
    async with connect(server.url, MODES[0], ALICE) as a2a_client:
        first = await a2a_client.send(message("one"))
        for text in ("two", "three"):
            await a2a_client.send(message(text, context_id=first.context_id))
        for mode in MODES[:3]:
            await list_by_pages(server, mode, first.context_id)


async def list_by_pages(server: Server, mode: Mode, context_id: str) -> None:
    async with connect(server.url, mode, ALICE) as a2a_client:
        tasks: list[Task] = []
        request = ListTasksRequest(context_id=context_id, page_size=2)
        while True:
            page = await a2a_client.client.list_tasks(request)
            tasks += page.tasks
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        assert page.total_size == len({task.id for task in tasks}) == len(tasks) == 3
        times = [task.status.timestamp.ToNanoseconds() for task in tasks]
        assert times == sorted(times, reverse=True)
        assert not any(task.artifacts for task in tasks)


async def test_canceled_task_remains_canceled(a2a_client: OfficialClient) -> None:
    task = await a2a_client.send(message("slow"), wait=False)
    canceled = await a2a_client.client.cancel_task(CancelTaskRequest(id=task.id))
    assert state(canceled) == "CANCELED"
    await asyncio.sleep(2)
    assert state(await a2a_client.get(task.id)) == "CANCELED"
    with pytest.raises(TaskNotCancelableError):
        await a2a_client.client.cancel_task(CancelTaskRequest(id=task.id))


async def test_subscription_after_disconnect_returns_remaining_events(
    a2a_client: OfficialClient,
) -> None:
    copy = TaskProjection.empty()
    stream = a2a_client.stream(message("slow"))
    async for event in stream:
        if copy.apply(event) == "artifact_update":
            break
    await stream.aclose()
    before = copy.artifact_text("numbers")
    kinds = [copy.apply(event) async for event in a2a_client.subscribe(copy.id)]
    assert kinds[0] == "task"
    assert copy.states[-1] == "COMPLETED"
    assert kinds.count("artifact_update") > 1
    assert before == "1 "
    assert copy.artifact_text("numbers") == "1 2 3 4 5 6 "
    task = await a2a_client.get(copy.id)
    assert copy.artifacts.keys() == {artifact.artifact_id for artifact in task.artifacts}


async def test_disconnect_does_not_stop_task(a2a_client: OfficialClient) -> None:
    stream = a2a_client.stream(message("slow"))
    first = await anext(stream)
    await stream.aclose()
    completed = await wait_until_settled(a2a_client, await a2a_client.get(first.task.id))
    assert (state(completed), answer_text(completed)) == ("COMPLETED", "counted to 6")


async def test_push_configurations_exist_until_deleted(
    receiver: Receiver, a2a_client: OfficialClient
) -> None:
    hook = f"{receiver.url}/stored"
    task = await a2a_client.send(message("slow"), wait=False)
    client = a2a_client.client
    config_request = TaskPushNotificationConfig(task_id=task.id, id="hook-1", url=hook)
    created = await client.create_task_push_notification_config(config_request)
    assert (created.id, created.url) == ("hook-1", hook)
    get_request = GetTaskPushNotificationConfigRequest(task_id=task.id, id="hook-1")
    assert (await client.get_task_push_notification_config(get_request)).url == hook
    if a2a_client.mode == Mode("0.3", "HTTP+JSON"):
        return  # the official client cannot list or delete in this version
    listing = ListTaskPushNotificationConfigsRequest(task_id=task.id)
    listed = await client.list_task_push_notification_configs(listing)
    assert [config.id for config in listed.configs] == ["hook-1"]
    delete_request = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="hook-1")
    for _ in range(2):
        await client.delete_task_push_notification_config(delete_request)
    left = await client.list_task_push_notification_configs(listing)
    assert list(left.configs) == []


async def test_receiver_verifies_notifications(
    receiver: Receiver, a2a_client: OfficialClient
) -> None:
    path = f"/{uuid4()}"
    paused = await a2a_client.send(message("支払い 12000円"))
    config_request = TaskPushNotificationConfig(
        task_id=paused.id, url=receiver.url + path, token=f"for {path}"
    )
    await a2a_client.client.create_task_push_notification_config(config_request)
    await a2a_client.send(message(APPROVAL, task=Task(id=paused.id)))
    verifier = NotificationVerifier(secret=SECRET)
    states = [
        state_in(verifier.verify(notification.body, notification.headers))
        for notification in await receiver.wait_for_state(path, "COMPLETED")
    ]
    assert states[-1] == "COMPLETED"
    for notification in receiver.notifications_at(path):
        assert notification.headers["X-A2A-Notification-Token"] == f"for {path}"
        assert notification.headers["A2A-Version"] == a2a_client.mode.version


async def test_webhook_with_private_address_is_rejected(a2a_client: OfficialClient) -> None:
    task = await a2a_client.send(message("slow"), wait=False)
    url = "http://169.254.169.254/latest"
    config_request = TaskPushNotificationConfig(task_id=task.id, id="h", url=url)
    with pytest.raises((A2AError, A2AClientError)):
        await a2a_client.client.create_task_push_notification_config(config_request)


async def test_payment_waits_for_approval_by_message(a2a_client: OfficialClient) -> None:
    paused = await a2a_client.send(message("支払い 12000円"))
    assert state(paused) == "INPUT_REQUIRED"
    current = await a2a_client.get(paused.id)
    assert state(current) == "INPUT_REQUIRED"
    assert current.status.message.parts
    completed = await a2a_client.send(message(APPROVAL, task=Task(id=paused.id)))
    assert (completed.id, completed.context_id) == (paused.id, paused.context_id)
    assert (state(completed), answer_text(completed)) == ("COMPLETED", "12,000円を支払いました")


async def test_small_payment_needs_no_approval(a2a_client: OfficialClient) -> None:
    task = await a2a_client.send(message("支払い 500円"))
    assert (state(task), answer_text(task)) == ("COMPLETED", "500円を支払いました")


async def test_stored_parts_equal_sent_parts(a2a_client: OfficialClient) -> None:
    data = ParseDict({"data": {"金額": 42, "明細": [1, None, True]}}, Part())
    sent = message(
        "see",
        Part(raw=b"\x00\xffbytes", filename="note.bin", media_type="application/octet-stream"),
        Part(url="https://example.com/表.csv", filename="表.csv", media_type="text/csv"),
        data,
    )
    task = await a2a_client.send(sent)
    stored = (await a2a_client.get(task.id)).history[0]
    if a2a_client.mode == Mode("0.3", "HTTP+JSON"):
        for part in (*sent.parts, *stored.parts):
            part.filename = ""  # this binding has no field for a file name
    assert [MessageToDict(part) for part in stored.parts] == [MessageToDict(p) for p in sent.parts]


async def test_extended_card_requires_authentication(server: Server, mode: Mode) -> None:
    async with connect(server.url, mode, ALICE) as known:
        card = await known.client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert card.name == known.card.name
    async with connect(server.url, mode) as other_client:
        with pytest.raises((A2AError, A2AClientError)):
            await other_client.client.get_extended_agent_card(GetExtendedAgentCardRequest())


async def test_task_of_another_caller_is_not_found(
    server: Server, a2a_client: OfficialClient
) -> None:
    task = await a2a_client.send(message("mine"))
    async with connect(server.url, a2a_client.mode, BOB) as other:
        refusals = []
        for task_id in (task.id, "no-such-task"):
            with pytest.raises(TaskNotFoundError) as refusal:
                await other.get(task_id)
            refusals.append(str(refusal.value).replace(task_id, "ID"))
        assert refusals[0] == refusals[1]


async def test_context_of_another_caller_is_rejected(
    server: Server, a2a_client: OfficialClient
) -> None:
    task = await a2a_client.send(message("mine"))
    async with connect(server.url, a2a_client.mode, BOB) as other:
        with pytest.raises((A2AError, A2AClientError)):
            await other.send(message("yours?", context_id=task.context_id))


async def test_every_method_of_0_3_works_over_grpc(server: Server, receiver: Receiver) -> None:
    async with connect(server.url, LEGACY_GRPC, ALICE) as legacy:
        client = legacy.client
        sent = message("see", Part(raw=b"\x00\xff", media_type="application/octet-stream"))
        task = await legacy.send(sent)
        assert list((await legacy.get(task.id)).history[0].parts) == list(sent.parts)
        copy = TaskProjection.empty()
        async for event in legacy.stream(message("数えて")):
            copy.apply(event)
        assert copy.states[-1] == "COMPLETED"
        active = await legacy.send(message("slow"), wait=False)
        stream = legacy.subscribe(active.id)
        assert (await anext(stream)).task.id == active.id
        await stream.aclose()
        hook = TaskPushNotificationConfig(task_id=active.id, id="h", url=f"{receiver.url}/legacy")
        assert (await client.create_task_push_notification_config(hook)).id == "h"
        one = GetTaskPushNotificationConfigRequest(task_id=active.id, id="h")
        assert (await client.get_task_push_notification_config(one)).url == hook.url
        every = ListTaskPushNotificationConfigsRequest(task_id=active.id)
        assert len((await client.list_task_push_notification_configs(every)).configs) == 1
        await client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=active.id, id="h")
        )
        assert not (await client.list_task_push_notification_configs(every)).configs
        assert state(await client.cancel_task(CancelTaskRequest(id=active.id))) == "CANCELED"
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=active.id))
        card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert card.name == legacy.card.name
        with pytest.raises(TaskNotFoundError):
            await legacy.get("no-such-task")
    async with connect(server.url, LEGACY_GRPC) as anonymous:
        with pytest.raises((A2AError, A2AClientError)):
            await anonymous.send(message("hello"))


async def test_states_are_equal_in_both_versions(server: Server) -> None:
    async with connect(server.url, MODES[0], ALICE) as first:
        task = await first.send(message("支払い 12000円"))
        for mode in (*MODES, LEGACY_GRPC):
            async with connect(server.url, mode, ALICE) as a2a_client:
                current = await a2a_client.get(task.id)
                assert current.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
                assert current.context_id == task.context_id
