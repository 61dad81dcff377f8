"""Push configurations are validated; notifications are delivered and retried."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from server_harness import (
    ANN,
    BOB,
    CommandAgent,
    S,
    ServerHarness,
    allow_any_url,
    push_config,
    send,
    wait_until,
)

from acc.application.a2a.requests import PushCreateRequest, PushRequest
from acc.application.a2a.webhook_retries import PushDelivery, retry_delay
from acc.domain.errors import InvalidInput, RemoteFailed, StorageFailed, TaskNotFound
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.task import ArtifactUpdate, PushConfig, StatusUpdate, Task
from acc.ports.outbound.storage_ports import Delivery

TRACE_PARENT = f"00-{'4' * 32}-{'7' * 16}-01"


class Receiver:
    """Takes notifications, or does not."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str]] = []
        self.attempts: list[int] = []
        self.faults: list[Exception] = []
        self.stuck: set[str] = set()

    async def deliver(self, delivery: Delivery, task: Task) -> None:
        self.attempts.append(delivery.attempts)
        if delivery.config.id in self.stuck:
            await asyncio.sleep(60)
        if self.faults:
            raise self.faults.pop(0)
        self.got.append((delivery.config.id, _short(delivery)))

    def of(self, config_id: str) -> list[str]:
        return [what for name, what in self.got if name == config_id]


def _short(delivery: Delivery) -> str:
    update = delivery.event.update
    if isinstance(update, StatusUpdate):
        return update.status.state.value
    assert isinstance(update, ArtifactUpdate)
    return update.artifact.name


@asynccontextmanager
async def delivering(
    harness: ServerHarness, receiver: Receiver, **options: Any
) -> AsyncIterator[None]:
    made = PushDelivery(tasks=harness.tasks, sender=receiver, poll_interval=0.01, **options)
    async with asyncio.TaskGroup() as group:
        chore = group.create_task(made.run())
        try:
            yield
        finally:
            chore.cancel()


WHOLE = ["working", "numbers", "answer", "completed"]


async def test_notifications_are_delivered_in_order(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    receiver = Receiver()
    async with (
        any_harness.open(agent_under_test, check_url=allow_any_url) as serve,
        delivering(any_harness, receiver),
    ):
        task = await send(serve, "count 3", push=push_config(id="p1"))
        assert task.state is S.COMPLETED
        await wait_until(lambda: receiver.of("p1") == WHOLE)


async def test_server_delivers_while_it_is_open(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    receiver = Receiver()
    serve = harness.server(agent_under_test, check_url=allow_any_url)
    delivery = PushDelivery(tasks=harness.tasks, sender=receiver, poll_interval=0.01)
    async with serve.open(delivery):
        await send(serve, "count 1", push=push_config(id="p1"))
        await wait_until(lambda: receiver.of("p1") == WHOLE)


async def test_failed_notification_is_retried_in_order(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    receiver = Receiver()
    receiver.faults = [RemoteFailed("no answer"), RuntimeError("a bug"), RemoteFailed("no answer")]
    waits: list[int] = []

    def delay(attempt: int) -> float:
        waits.append(attempt)
        return 0.0

    async with (
        any_harness.open(agent_under_test, check_url=allow_any_url) as serve,
        delivering(any_harness, receiver, delay=delay),
    ):
        await send(serve, "count 3", push=push_config(id="p1"))
        await wait_until(lambda: receiver.of("p1") == WHOLE)
    assert waits == [0, 1, 2]


async def test_notification_is_dropped_after_max_attempts(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    receiver = Receiver()
    receiver.faults = [RemoteFailed("no answer")] * 3
    async with (
        any_harness.open(agent_under_test, check_url=allow_any_url) as serve,
        delivering(any_harness, receiver, delay=lambda _: 0.0, max_attempts=3),
    ):
        await send(serve, "count 3", push=push_config(id="p1"))
        await wait_until(lambda: receiver.of("p1") == WHOLE[1:])
    assert receiver.attempts[:3] == [0, 1, 2]


async def test_slow_receiver_does_not_delay_others(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    receiver = Receiver()
    receiver.stuck = {f"slow{number}" for number in range(15)}
    async with (
        harness.open(agent_under_test, check_url=allow_any_url) as serve,
        delivering(harness, receiver),
    ):
        for name in receiver.stuck:
            await send(serve, "count 1", push=push_config(id=name))
        await wait_until(lambda: len(receiver.attempts) == 15)
        await send(serve, "count 3", push=push_config(id="quick"))
        await wait_until(lambda: receiver.of("quick") == WHOLE)
        await send(serve, "count 1", push=push_config(id="slow0"))
        await wait_until(lambda: len(receiver.attempts) == 20)
        await asyncio.sleep(0.05)
        assert len(receiver.attempts) == 20


async def test_hanging_receivers_of_a_caller_do_not_delay_other_callers(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    receiver = Receiver()
    receiver.stuck = {f"slow{number}" for number in range(70)}
    async with (
        any_harness.open(agent_under_test, check_url=allow_any_url) as serve,
        delivering(any_harness, receiver),
    ):
        for name in sorted(receiver.stuck):
            await send(serve, "hello", push=push_config(id=name))
        await wait_until(lambda: len(receiver.attempts) == 16)
        await send(serve, "count 3", BOB, push=push_config(id="quick"))
        await wait_until(lambda: receiver.of("quick") == WHOLE)
        assert len(receiver.attempts) == 16 + len(WHOLE)


async def test_concurrent_deliveries_are_limited(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    receiver = Receiver()
    receiver.stuck = {f"slow{number}" for number in range(80)}
    async with (
        harness.open(agent_under_test, check_url=allow_any_url) as serve,
        delivering(harness, receiver),
    ):
        for number, name in enumerate(sorted(receiver.stuck)):
            who = Principal(caller=f"caller{number % 5}")
            await send(serve, "hello", who, push=push_config(id=name))
        await wait_until(lambda: len(receiver.attempts) == 64)
        await asyncio.sleep(0.05)
        assert len(receiver.attempts) == 64


async def test_nothing_is_delivered_after_deletion(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    receiver = Receiver()
    async with any_harness.open(agent_under_test, check_url=allow_any_url) as serve:
        task = await send(serve, "count 3", push=push_config(id="p1"))
        await serve.delete_push(ANN, PushRequest(task_id=task.id, id="p1"))
        async with delivering(any_harness, receiver):
            await asyncio.sleep(0.05)
    assert receiver.attempts == []


async def test_delivery_is_repeated_after_crash(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    receiver = Receiver()
    receiver.stuck = {"p1"}
    async with any_harness.open(agent_under_test, check_url=allow_any_url) as serve:
        await send(serve, "count 3", push=push_config(id="p1"))
        async with delivering(any_harness, receiver):
            await wait_until(lambda: len(receiver.attempts) == 1)
        receiver.stuck.clear()
        async with delivering(any_harness, receiver):
            await asyncio.sleep(0.05)
            assert receiver.got == []  # it may still be under way there
            any_harness.clock.time += 61
            await wait_until(lambda: receiver.of("p1") == WHOLE)


async def test_delivery_continues_after_storage_errors(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    receiver = Receiver()
    tasks = harness.tasks
    due, delivered, faults = tasks.claim_deliveries, tasks.complete_delivery, ["due", "delivered"]

    async def bad_due(**fields: Any) -> Any:
        if "due" in faults:
            faults.remove("due")
            raise StorageFailed("the disk is full")
        return await due(**fields)

    async def bad_delivered(delivery_id: int) -> None:
        if "delivered" in faults:
            faults.remove("delivered")
            raise StorageFailed("the disk is full")
        await delivered(delivery_id)

    tasks.claim_deliveries, tasks.complete_delivery = bad_due, bad_delivered  # type: ignore[method-assign]
    async with (
        harness.open(agent_under_test, check_url=allow_any_url) as serve,
        delivering(harness, receiver),
    ):
        await send(serve, "count 3", push=push_config(id="p1"))
        await wait_until(lambda: receiver.of("p1") == WHOLE[:1])
        await asyncio.sleep(0.05)
        harness.clock.time += 61
        await wait_until(lambda: receiver.of("p1") == [WHOLE[0], *WHOLE])


async def test_notification_is_dropped_when_task_is_deleted(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    receiver = Receiver()
    tasks, read, completed = harness.tasks, harness.tasks.read, []
    delivered = tasks.complete_delivery

    async def gone(*_: Any, **__: Any) -> None:
        return None

    async def note(delivery_id: int) -> None:
        completed.append(delivery_id)
        await delivered(delivery_id)

    async with harness.open(agent_under_test, check_url=allow_any_url) as serve:
        await send(serve, "count 3", push=push_config(id="p1"))
        tasks.read, tasks.complete_delivery = gone, note  # type: ignore[method-assign]
        async with delivering(harness, receiver):
            await wait_until(lambda: len(completed) == 4)
        tasks.read = read  # type: ignore[method-assign]
    assert receiver.attempts == []


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 1.0), (1, 2.0), (6, 64.0)])
def test_retry_delay_doubles(attempt: int, seconds: float) -> None:
    assert retry_delay(attempt) == seconds


UNSENDABLE: list[dict[str, Any]] = [
    {"token": "あ"},
    {"token": "a\r\nX-Evil: 1"},
    {"token": " a"},
    {"token": "x" * 9000},
    {"scheme": "Bearer", "credentials": "a\r\nb"},
    {"scheme": "Bearer", "credentials": "あ"},
    {"scheme": "B\n", "credentials": "a"},
    {"scheme": "Bearer Bearer", "credentials": "a"},
    {"scheme": "あ", "credentials": "a"},
    {"credentials": "a"},
    {"id": "x" * 300},
    {"id": "a\nb"},
]


@pytest.mark.parametrize("fields", UNSENDABLE)
@pytest.mark.parametrize("protocol_version", ["1.0", "0.3"])
async def test_configuration_fails_when_headers_cannot_be_sent(
    harness: ServerHarness,
    agent_under_test: CommandAgent,
    fields: dict[str, Any],
    protocol_version: str,
) -> None:
    async with harness.open(agent_under_test, check_url=allow_any_url) as serve:
        task = await send(serve, "hello")
        bad = replace(push_config(task_id=task.id), protocol_version=protocol_version, **fields)
        with pytest.raises(InvalidInput, match="push notification config: ") as refused:
            await serve.create_push(ANN, PushCreateRequest(config=bad))
        assert "X-Evil" not in str(refused.value)
        with pytest.raises(InvalidInput, match="push notification config: "):
            await send(serve, "again", push=bad)
        assert await serve.list_push_configs(ANN, PushRequest(task_id=task.id)) == ((), "")
        assert agent_under_test.log == ["hello"]


@pytest.mark.parametrize(
    "fields",
    [
        {"token": "x" * 8000, "id": "日本/ %2F"},
        {"token": "with spaces, and: signs", "scheme": "Bearer", "credentials": "a.b.c=="},
        {"scheme": "Bearer"},
        {"scheme": "OAuth 2.0"},
    ],
)
async def test_valid_configuration_is_stored(
    harness: ServerHarness, agent_under_test: CommandAgent, fields: dict[str, Any]
) -> None:
    async with harness.open(agent_under_test, check_url=allow_any_url) as serve:
        task = await send(serve, "hello")
        wanted: PushConfig = replace(push_config(id="p", task_id=task.id), **fields)
        assert await serve.create_push(ANN, PushCreateRequest(config=wanted)) == wanted


async def test_configurations_are_listed_in_pages(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, check_url=allow_any_url) as serve:
        task = await send(serve, "hello")
        for name in "abcde":
            config = push_config(id=name, task_id=task.id)
            await serve.create_push(ANN, PushCreateRequest(config=config))

        async def page(size: int, token: str = "") -> tuple[str, str]:
            asked = PushRequest(task_id=task.id, page_size=size, page_token=token)
            found = await serve.list_push_configs(ANN, asked)
            return "".join(config.id for config in found.configs), found.next_page_token

        names, first = await page(2)
        assert (names, bool(first)) == ("ab", True)
        for name in names:  # what was seen may go before the next page is asked for
            await serve.delete_push(ANN, PushRequest(task_id=task.id, id=name))
        names, second = await page(2, first)
        assert (names, bool(second)) == ("cd", True)
        assert await page(2, second) == ("e", "")
        assert await page(0, first) == ("cde", "")
        assert await page(3) == ("cde", "")
        await serve.delete_push(ANN, PushRequest(task_id=task.id, id="e"))
        for token in ("zzz", second):
            with pytest.raises(InvalidInput, match="pageToken: "):
                await page(1, token)


async def test_configuration_without_id_is_found_without_id(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, check_url=allow_any_url) as serve:
        task = await send(serve, "hello", push=push_config(id="named"))
        asked = PushRequest(task_id=task.id)
        assert (await serve.get_push(ANN, asked)).id == "named"
        unnamed = replace(push_config(task_id=task.id), protocol_version="0.3")
        made = await serve.create_push(ANN, PushCreateRequest(config=unnamed))
        assert await serve.get_push(ANN, asked) == made
        for name in ("named", made.id):
            await serve.delete_push(ANN, PushRequest(task_id=task.id, id=name))
        with pytest.raises(TaskNotFound):
            await serve.get_push(ANN, asked)


async def test_failed_attempt_is_logged_and_retried(
    harness: ServerHarness, agent_under_test: CommandAgent, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver()
    receiver.faults = [RemoteFailed("the receiver responded with status 401")]
    async with (
        harness.open(agent_under_test, check_url=allow_any_url) as serve,
        delivering(harness, receiver, delay=lambda attempt: 0.0),
    ):
        await send(serve, "count 3", push=push_config(id="p1"), trace_parent=TRACE_PARENT)
        await wait_until(lambda: receiver.of("p1") == WHOLE)
    record = next(one for one in caplog.records if one.name == "acc.push")
    assert "attempt 1 of 8" in record.getMessage()
    assert "status 401" in record.getMessage()
    assert f"(trace {'4' * 32})" in record.getMessage()
    fields = [record.__dict__[name] for name in ("config_id", "attempt", "trace_id")]
    assert fields == ["p1", 1, "4" * 32]
