"""One suite for every store of tasks: who is to be told of a task, and what."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tasks_under_test import (
    ANN,
    BOB,
    MAKERS,
    Tasks,
    file,
    forget,
    message,
    moved,
    piece,
    push,
    said,
    task,
)

from acc.domain.errors import LimitExceeded
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import DirectReply, MessageAdded, PushConfig, TaskState
from acc.ports.outbound.storage_ports import Delivery

WORKING, COMPLETED = TaskState.WORKING, TaskState.COMPLETED


@pytest.fixture(params=sorted(MAKERS))
async def tasks(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tasks]:
    made = MAKERS[request.param](tmp_path)
    yield made
    await made.store.aclose()


async def due(tasks: Tasks, limit: int = 10, lease: float = 5.0) -> tuple[Delivery, ...]:
    return await tasks.store.claim_deliveries(limit=limit, lease=lease)


async def settle_all(tasks: Tasks) -> list[tuple[str, int]]:
    """Deliver what is due until nothing is, and return which events went where."""
    told: list[tuple[str, int]] = []
    while taken := await due(tasks):
        for delivery in taken:
            told.append((delivery.config.id, delivery.event.seq))
            await tasks.store.complete_delivery(delivery.id)
    return told


async def test_a_task_has_at_most_so_many_configurations_however_many_come_at_once(
    tasks: Tasks,
) -> None:
    store = tasks.store
    await file(store)
    refused: list[str] = []

    async def save(name: str) -> None:
        try:
            await store.save_push_config(push(name), max_configs=3)
        except LimitExceeded:
            refused.append(name)

    async with asyncio.TaskGroup() as group:
        for number in range(9):
            group.create_task(save(f"p{number}"))
    kept = [config.id for config in await store.list_push_configs("t1")]
    assert (len(kept), len(refused)) == (3, 6)
    await store.save_push_config(push(kept[0], url="https://example.org/new"), max_configs=3)
    assert [config.id for config in await store.list_push_configs("t1")] == kept


async def test_configurations_are_kept_in_order_and_replaced(tasks: Tasks) -> None:
    store = tasks.store
    await file(store)
    whole = PushConfig(
        id="p2",
        task_id="t1",
        url="https://例え.jp/x",
        token="t",
        scheme="Bearer",
        credentials="c",
        protocol_version="0.3",
    )
    for config in (push("p1"), whole, push("p3")):
        await store.save_push_config(config)
    await store.save_push_config(push("p1", url="https://example.org/new"))
    assert await store.list_push_configs("t1") == (
        push("p1", url="https://example.org/new"),
        whole,
        push("p3"),
    )
    await store.delete_push_config("t1", "p2")
    await store.delete_push_config("t1", "p2")
    await store.delete_push_config("nowhere", "p2")
    assert [config.id for config in await store.list_push_configs("t1")] == ["p1", "p3"]
    assert await store.list_push_configs("nowhere") == ()


async def test_statuses_and_finished_artifacts_are_told_in_order(tasks: Tasks) -> None:
    store = tasks.store
    filed = await store.create(task(), owner=ANN, message=message(), push=push())
    assert filed.is_new
    assert await due(tasks) == ()
    await store.append("t1", [moved(WORKING), piece("a", append=False), piece("b")])
    await store.append("t1", [piece("c", last=True), MessageAdded(message=said("x"))])
    await store.append("t1", [moved(COMPLETED)])
    events = await store.events("t1")
    (first,) = await due(tasks)
    assert first == (first.id, push(), ANN, events[1], 0)
    assert await due(tasks) == ()
    await store.complete_delivery(first.id)
    assert await settle_all(tasks) == [("p1", 5), ("p1", 7)]
    assert await settle_all(tasks) == []


async def test_a_message_that_moves_a_task_is_told_by_its_status(tasks: Tasks) -> None:
    await file(tasks.store)
    await tasks.store.save_push_config(push())
    seen = await tasks.store.read("t1")
    await tasks.store.continue_task(
        "t1", owner=ANN, message=message("m2"), updates=[moved(WORKING)], expected=seen
    )
    assert await settle_all(tasks) == [("p1", 3)]


async def test_a_direct_reply_is_not_told(tasks: Tasks) -> None:
    await tasks.store.create(task(), owner=ANN, message=message(), push=push())
    await tasks.store.append("t1", [DirectReply(message=said("hi"))])
    assert await due(tasks) == ()


async def test_everyone_is_told_at_their_own_pace(tasks: Tasks) -> None:
    store = tasks.store
    await file(store)
    await store.save_push_config(push("p1"))
    await store.append("t1", [moved(WORKING)])
    await store.save_push_config(push("p2"))
    await store.append("t1", [moved(WORKING), moved(COMPLETED)])
    slow, quick = await due(tasks)
    assert [(one.config.id, one.event.seq) for one in (slow, quick)] == [("p1", 2), ("p2", 3)]
    await store.reschedule(slow.id, seconds=60)
    await store.complete_delivery(quick.id)
    assert await settle_all(tasks) == [("p2", 4)]
    tasks.clock.time += 60
    (again,) = await due(tasks)
    assert again == changed_attempts(slow, 1)
    await store.complete_delivery(again.id)
    assert await settle_all(tasks) == [("p1", 3), ("p1", 4)]


def changed_attempts(delivery: Delivery, attempts: int) -> Delivery:
    return delivery._replace(attempts=attempts)


async def test_attempts_are_counted_for_each_delivery(tasks: Tasks) -> None:
    store = tasks.store
    await store.create(task(), owner=ANN, message=message(), push=push())
    await store.append("t1", [moved(WORKING), moved(COMPLETED)])
    for attempts in range(3):
        (taken,) = await due(tasks)
        assert (taken.event.seq, taken.attempts) == (2, attempts)
        await store.reschedule(taken.id, seconds=1.5)
        assert await due(tasks) == ()
        tasks.clock.time += 1.5
    (taken,) = await due(tasks)
    await store.complete_delivery(taken.id)
    (following,) = await due(tasks)
    assert (following.event.seq, following.attempts) == (3, 0)


async def test_what_is_not_settled_comes_up_again(tasks: Tasks) -> None:
    store = tasks.store
    await store.create(task(), owner=ANN, message=message(), push=push())
    await store.append("t1", [moved(WORKING), moved(COMPLETED)])
    (taken,) = await due(tasks, lease=5.0)
    tasks.clock.time += 4.9
    assert await due(tasks) == ()
    tasks.clock.time += 0.1
    assert await due(tasks) == (taken,)
    # Whoever comes late settles nothing but their own.
    await store.complete_delivery(taken.id)
    await store.complete_delivery(taken.id)
    await store.reschedule(taken.id, seconds=1)
    assert await settle_all(tasks) == [("p1", 3)]


async def test_those_who_wait_longest_are_told_first(tasks: Tasks) -> None:
    for number in range(5):
        tasks.clock.time += 1
        made = task(f"t{number}", f"c{number}")
        config = push(f"p{number}")
        await tasks.store.create(made, owner=ANN, message=message(made.id), push=config)
        await tasks.store.append(made.id, [moved(WORKING)])
    first = await due(tasks, limit=2, lease=60)
    rest = await due(tasks, limit=9, lease=60)
    assert [one.config.id for one in (*first, *rest)] == [f"p{n}" for n in range(5)]
    assert await due(tasks, limit=0) == ()


async def wait_for(tasks: Tasks, owner: Owner, *names: str) -> None:
    """Have something to be delivered for each name, one second after the other."""
    for name in names:
        tasks.clock.time += 1
        made = task(f"t-{name}", f"c-{name}")
        await tasks.store.create(made, owner=owner, message=message(name), push=push(name))
        await tasks.store.append(made.id, [moved(WORKING)])


async def take(tasks: Tasks, of_one: int, limit: int = 9, **under_way: int) -> list[str]:
    taken = await tasks.store.claim_deliveries(
        limit=limit,
        lease=60,
        max_per_owner=of_one,
        in_flight={Owner("acme", name): count for name, count in under_way.items()},
    )
    return [one.config.id for one in taken]


async def test_one_owner_gets_only_so_many_places(tasks: Tasks) -> None:
    await wait_for(tasks, ANN, "a1", "a2", "a3", "a4")
    await wait_for(tasks, BOB, "b1", "b2")
    await wait_for(tasks, ANN, "a5")
    assert await take(tasks, 3, ann=1, nobody=7) == ["a1", "a2", "b1", "b2"]
    assert await take(tasks, 3, ann=3) == []
    assert await take(tasks, 3, ann=9) == []
    await wait_for(tasks, BOB, "b3")
    assert await take(tasks, 3, ann=3, bob=2) == ["b3"]
    # What was passed over comes in its order, once there are places.
    assert await take(tasks, 3, ann=2) == ["a3"]
    assert await take(tasks, 3) == ["a4", "a5"]


async def test_places_are_given_to_those_who_wait_longest_of_all_owners(tasks: Tasks) -> None:
    await wait_for(tasks, ANN, "a1", "a2", "a3")
    await wait_for(tasks, BOB, "b1", "b2")
    await wait_for(tasks, Owner("", "carol"), "c1")
    assert await take(tasks, 1, limit=2) == ["a1", "b1"]
    assert await take(tasks, 2, limit=2, ann=1, bob=1) == ["a2", "b2"]
    assert await take(tasks, 2, limit=2, ann=2, bob=2) == ["c1"]


async def test_what_waits_for_a_later_time_is_not_taken_in_place_of_anothers(
    tasks: Tasks,
) -> None:
    await wait_for(tasks, ANN, "a1", "a2")
    await wait_for(tasks, BOB, "b1")
    first, other, last = await due(tasks)
    for one in (first, other, last):
        await tasks.store.reschedule(one.id, seconds=30 if one is last else 10)
    tasks.clock.time += 10
    assert await take(tasks, 1, ann=1) == []
    assert await take(tasks, 1) == ["a1"]
    tasks.clock.time += 20
    assert await take(tasks, 1, ann=1) == ["b1"]
    assert await take(tasks, 2, ann=1) == ["a2"]


async def test_a_configuration_that_is_dropped_takes_its_deliveries_along(tasks: Tasks) -> None:
    store = tasks.store
    await store.create(task(), owner=ANN, message=message(), push=push())
    await store.save_push_config(push("p2"))
    await store.append("t1", [moved(WORKING), moved(COMPLETED)])
    (first, _) = await due(tasks)
    await store.delete_push_config("t1", "p1")
    await store.complete_delivery(first.id)
    await store.reschedule(first.id, seconds=0)
    tasks.clock.time += 60
    assert await settle_all(tasks) == [("p2", 2), ("p2", 3)]


async def test_a_configuration_that_is_replaced_keeps_its_deliveries(tasks: Tasks) -> None:
    store = tasks.store
    await store.create(task(), owner=ANN, message=message(), push=push())
    await store.append("t1", [moved(WORKING)])
    config = replace(push(), url="https://example.org/new")
    await store.save_push_config(config)
    (taken,) = await due(tasks)
    assert taken.config == config


async def test_the_deliveries_of_a_forgotten_task_are_dropped(tasks: Tasks) -> None:
    store = tasks.store
    await store.create(task(), owner=ANN, message=message(), push=push())
    other = task("t2", "c2")
    await store.create(other, owner=BOB, message=message(), push=push())
    await store.append("t1", [moved(COMPLETED, 2.0)])
    await store.append("t2", [moved(COMPLETED, 9.0)])
    assert await forget(store, before=3.0) == 1
    (taken,) = await due(tasks)
    assert (taken.owner, taken.config) == (BOB, push(task_id="t2"))
