"""Notifications: in order, tried again later and later, and given up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from serving_world import ANN, BOB, Doer, S, World, any_url, push, send, until

from acc.application.a2a.push import PushDelivery, retry_delay
from acc.application.a2a.requests import PushRequest
from acc.domain.errors import RemoteFailed, StorageFailed
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.task import ArtifactUpdate, StatusUpdate, Task
from acc.ports.outbound.storage_ports import Delivery


class Receiver:
    """Takes notifications, or does not."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str]] = []
        self.attempts: list[int] = []
        self.faults: list[Exception] = []
        self.stuck: set[str] = set()

    async def __call__(self, delivery: Delivery, task: Task) -> None:
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
async def delivering(world: World, receiver: Receiver, **options: Any) -> AsyncIterator[None]:
    made = PushDelivery(tasks=world.tasks, deliver=receiver, look_every=0.01, **options)
    async with asyncio.TaskGroup() as group:
        chore = group.create_task(made.run())
        try:
            yield
        finally:
            chore.cancel()


WHOLE = ["working", "numbers", "answer", "completed"]


async def test_notifications_come_in_order_to_each_address(worlds: World, doer: Doer) -> None:
    receiver = Receiver()
    async with worlds.open(doer, check_url=any_url) as serve, delivering(worlds, receiver):
        task = await send(serve, "count 3", push=push(id="p1"))
        assert task.state is S.COMPLETED
        await until(lambda: receiver.of("p1") == WHOLE)


async def test_the_server_delivers_in_its_background(world: World, doer: Doer) -> None:
    receiver = Receiver()
    serve = world.server(doer, check_url=any_url)
    serve.background = [PushDelivery(tasks=world.tasks, deliver=receiver, look_every=0.01).run]
    async with serve.open():
        await send(serve, "count 1", push=push(id="p1"))
        await until(lambda: receiver.of("p1") == WHOLE)


async def test_who_does_not_answer_is_tried_again_in_order(worlds: World, doer: Doer) -> None:
    receiver = Receiver()
    receiver.faults = [RemoteFailed("no answer"), RuntimeError("a bug"), RemoteFailed("no answer")]
    waits: list[int] = []

    def delay(attempt: int) -> float:
        waits.append(attempt)
        return 0.0

    async with (
        worlds.open(doer, check_url=any_url) as serve,
        delivering(worlds, receiver, delay=delay),
    ):
        await send(serve, "count 3", push=push(id="p1"))
        await until(lambda: receiver.of("p1") == WHOLE)
    assert waits == [0, 1, 2]


async def test_who_never_answers_is_let_be(worlds: World, doer: Doer) -> None:
    receiver = Receiver()
    receiver.faults = [RemoteFailed("no answer")] * 3
    async with (
        worlds.open(doer, check_url=any_url) as serve,
        delivering(worlds, receiver, delay=lambda _: 0.0, most_attempts=3),
    ):
        await send(serve, "count 3", push=push(id="p1"))
        await until(lambda: receiver.of("p1") == WHOLE[1:])
    assert receiver.attempts[:3] == [0, 1, 2]


async def test_one_slow_receiver_holds_nobody_up(world: World, doer: Doer) -> None:
    receiver = Receiver()
    receiver.stuck = {f"slow{number}" for number in range(15)}
    async with world.open(doer, check_url=any_url) as serve, delivering(world, receiver):
        for name in receiver.stuck:
            await send(serve, "count 1", push=push(id=name))
        await until(lambda: len(receiver.attempts) == 15)
        await send(serve, "count 3", push=push(id="quick"))
        await until(lambda: receiver.of("quick") == WHOLE)
        await send(serve, "count 1", push=push(id="slow0"))
        await until(lambda: len(receiver.attempts) == 20)
        await asyncio.sleep(0.05)
        assert len(receiver.attempts) == 20


async def test_receivers_of_one_caller_that_hang_hold_up_nobody_else(
    worlds: World, doer: Doer
) -> None:
    receiver = Receiver()
    receiver.stuck = {f"slow{number}" for number in range(70)}
    async with worlds.open(doer, check_url=any_url) as serve, delivering(worlds, receiver):
        for name in sorted(receiver.stuck):
            await send(serve, "hello", push=push(id=name))
        await until(lambda: len(receiver.attempts) == 16)
        await send(serve, "count 3", BOB, push=push(id="quick"))
        await until(lambda: receiver.of("quick") == WHOLE)
        assert len(receiver.attempts) == 16 + len(WHOLE)


async def test_there_are_only_so_many_places_for_all_callers(world: World, doer: Doer) -> None:
    receiver = Receiver()
    receiver.stuck = {f"slow{number}" for number in range(80)}
    async with world.open(doer, check_url=any_url) as serve, delivering(world, receiver):
        for number, name in enumerate(sorted(receiver.stuck)):
            who = Principal(caller=f"caller{number % 5}")
            await send(serve, "hello", who, push=push(id=name))
        await until(lambda: len(receiver.attempts) == 64)
        await asyncio.sleep(0.05)
        assert len(receiver.attempts) == 64


async def test_nothing_goes_to_an_address_that_was_deleted(worlds: World, doer: Doer) -> None:
    receiver = Receiver()
    async with worlds.open(doer, check_url=any_url) as serve:
        task = await send(serve, "count 3", push=push(id="p1"))
        await serve.delete_push(ANN, PushRequest(task_id=task.id, id="p1"))
        async with delivering(worlds, receiver):
            await asyncio.sleep(0.05)
    assert receiver.attempts == []


async def test_what_was_on_its_way_in_a_crash_comes_again(worlds: World, doer: Doer) -> None:
    receiver = Receiver()
    receiver.stuck = {"p1"}
    async with worlds.open(doer, check_url=any_url) as serve:
        await send(serve, "count 3", push=push(id="p1"))
        async with delivering(worlds, receiver):
            await until(lambda: len(receiver.attempts) == 1)
        receiver.stuck.clear()
        async with delivering(worlds, receiver):
            await asyncio.sleep(0.05)
            assert receiver.got == []  # it may still be under way there
            worlds.clock.time += 61
            await until(lambda: receiver.of("p1") == WHOLE)


async def test_faults_of_the_store_do_not_end_deliveries(world: World, doer: Doer) -> None:
    receiver = Receiver()
    tasks = world.tasks
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
    async with world.open(doer, check_url=any_url) as serve, delivering(world, receiver):
        await send(serve, "count 3", push=push(id="p1"))
        await until(lambda: receiver.of("p1") == WHOLE[:1])
        await asyncio.sleep(0.05)
        world.clock.time += 61
        await until(lambda: receiver.of("p1") == [WHOLE[0], *WHOLE])


async def test_a_notification_of_a_task_that_is_gone_is_dropped(world: World, doer: Doer) -> None:
    receiver = Receiver()
    tasks, read, settled = world.tasks, world.tasks.read, []
    delivered = tasks.complete_delivery

    async def gone(*_: Any, **__: Any) -> None:
        return None

    async def note(delivery_id: int) -> None:
        settled.append(delivery_id)
        await delivered(delivery_id)

    async with world.open(doer, check_url=any_url) as serve:
        await send(serve, "count 3", push=push(id="p1"))
        tasks.read, tasks.complete_delivery = gone, note  # type: ignore[method-assign]
        async with delivering(world, receiver):
            await until(lambda: len(settled) == 4)
        tasks.read = read  # type: ignore[method-assign]
    assert receiver.attempts == []


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 1.0), (1, 2.0), (5, 32.0), (30, 300.0)])
def test_the_delay_doubles_up_to_a_cap(attempt: int, seconds: float) -> None:
    assert retry_delay(attempt) == seconds
