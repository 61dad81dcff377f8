"""Contract of TaskStorePort: push configurations and deliveries."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from task_store_factories import (
    ANN,
    BOB,
    MAKERS,
    Tasks,
    agent_message,
    artifact_chunk,
    delete_expired,
    message,
    push_config,
    status_update,
    submit,
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
    new_task = MAKERS[request.param](tmp_path)
    yield new_task
    await new_task.store.aclose()


async def claim(tasks: Tasks, limit: int = 10, lease: float = 5.0) -> tuple[Delivery, ...]:
    return await tasks.store.claim_deliveries(limit=limit, lease=lease)


async def deliver_all(tasks: Tasks) -> list[tuple[str, int]]:
    """Complete all due deliveries and return their configurations and events."""
    delivered: list[tuple[str, int]] = []
    while claimed := await claim(tasks):
        for delivery in claimed:
            delivered.append((delivery.config.id, delivery.event.seq))
            await tasks.store.complete_delivery(delivery.id)
    return delivered


async def test_concurrent_saves_respect_max_configs(
    tasks: Tasks,
) -> None:
    store = tasks.store
    await submit(store)
    rejected: list[str] = []

    async def save(name: str) -> None:
        try:
            await store.save_push_config(push_config(name), max_configs=3)
        except LimitExceeded:
            rejected.append(name)

    async with asyncio.TaskGroup() as group:
        for number in range(9):
            group.create_task(save(f"p{number}"))
    config_ids = [config.id for config in await store.list_push_configs("t1")]
    assert (len(config_ids), len(rejected)) == (3, 6)
    await store.save_push_config(
        push_config(config_ids[0], url="https://example.org/new"), max_configs=3
    )
    assert [config.id for config in await store.list_push_configs("t1")] == config_ids


async def test_configurations_are_ordered_and_replaced_by_id(tasks: Tasks) -> None:
    store = tasks.store
    await submit(store)
    full_config = PushConfig(
        id="p2",
        task_id="t1",
        url="https://例え.jp/x",
        token="t",
        scheme="Bearer",
        credentials="c",
        protocol_version="0.3",
    )
    for config in (push_config("p1"), full_config, push_config("p3")):
        await store.save_push_config(config)
    await store.save_push_config(push_config("p1", url="https://example.org/new"))
    assert await store.list_push_configs("t1") == (
        push_config("p1", url="https://example.org/new"),
        full_config,
        push_config("p3"),
    )
    await store.delete_push_config("t1", "p2")
    await store.delete_push_config("t1", "p2")
    await store.delete_push_config("nowhere", "p2")
    assert [config.id for config in await store.list_push_configs("t1")] == ["p1", "p3"]
    assert await store.list_push_configs("nowhere") == ()


async def test_statuses_and_complete_artifacts_are_delivered_in_order(tasks: Tasks) -> None:
    store = tasks.store
    created = await store.create(task(), owner=ANN, message=message(), push=push_config())
    assert created.is_new
    assert await claim(tasks) == ()
    await store.append(
        "t1", [status_update(WORKING), artifact_chunk("a", append=False), artifact_chunk("b")]
    )
    await store.append(
        "t1", [artifact_chunk("c", last=True), MessageAdded(message=agent_message("x"))]
    )
    await store.append("t1", [status_update(COMPLETED)])
    events = await store.events("t1")
    (first,) = await claim(tasks)
    assert first == (first.id, push_config(), ANN, events[1], 0)
    assert await claim(tasks) == ()
    await store.complete_delivery(first.id)
    assert await deliver_all(tasks) == [("p1", 5), ("p1", 7)]
    assert await deliver_all(tasks) == []


async def test_message_that_continues_a_task_is_delivered_as_a_status(tasks: Tasks) -> None:
    await submit(tasks.store)
    await tasks.store.save_push_config(push_config())
    current = await tasks.store.read("t1")
    await tasks.store.continue_task(
        "t1", owner=ANN, message=message("m2"), updates=[status_update(WORKING)], expected=current
    )
    assert await deliver_all(tasks) == [("p1", 3)]


async def test_direct_reply_is_not_delivered(tasks: Tasks) -> None:
    await tasks.store.create(task(), owner=ANN, message=message(), push=push_config())
    await tasks.store.append("t1", [DirectReply(message=agent_message("hi"))])
    assert await claim(tasks) == ()


async def test_configurations_are_delivered_independently(tasks: Tasks) -> None:
    store = tasks.store
    await submit(store)
    await store.save_push_config(push_config("p1"))
    await store.append("t1", [status_update(WORKING)])
    await store.save_push_config(push_config("p2"))
    await store.append("t1", [status_update(WORKING), status_update(COMPLETED)])
    slow, quick = await claim(tasks)
    assert [(one.config.id, one.event.seq) for one in (slow, quick)] == [("p1", 2), ("p2", 3)]
    await store.reschedule(slow.id, seconds=60)
    await store.complete_delivery(quick.id)
    assert await deliver_all(tasks) == [("p2", 4)]
    tasks.clock.time += 60
    (again,) = await claim(tasks)
    assert again == changed_attempts(slow, 1)
    await store.complete_delivery(again.id)
    assert await deliver_all(tasks) == [("p1", 3), ("p1", 4)]


def changed_attempts(delivery: Delivery, attempts: int) -> Delivery:
    return delivery._replace(attempts=attempts)


async def test_attempts_are_counted_for_each_delivery(tasks: Tasks) -> None:
    store = tasks.store
    await store.create(task(), owner=ANN, message=message(), push=push_config())
    await store.append("t1", [status_update(WORKING), status_update(COMPLETED)])
    for attempts in range(3):
        (claimed,) = await claim(tasks)
        assert (claimed.event.seq, claimed.attempts) == (2, attempts)
        await store.reschedule(claimed.id, seconds=1.5)
        assert await claim(tasks) == ()
        tasks.clock.time += 1.5
    (claimed,) = await claim(tasks)
    await store.complete_delivery(claimed.id)
    (following,) = await claim(tasks)
    assert (following.event.seq, following.attempts) == (3, 0)


async def test_delivery_is_claimed_again_after_its_lease(tasks: Tasks) -> None:
    store = tasks.store
    await store.create(task(), owner=ANN, message=message(), push=push_config())
    await store.append("t1", [status_update(WORKING), status_update(COMPLETED)])
    (claimed,) = await claim(tasks, lease=5.0)
    tasks.clock.time += 4.9
    assert await claim(tasks) == ()
    tasks.clock.time += 0.1
    assert await claim(tasks) == (claimed,)
    # A late completion affects only its own delivery.
    await store.complete_delivery(claimed.id)
    await store.complete_delivery(claimed.id)
    await store.reschedule(claimed.id, seconds=1)
    assert await deliver_all(tasks) == [("p1", 3)]


async def test_oldest_deliveries_are_claimed_first(tasks: Tasks) -> None:
    for number in range(5):
        tasks.clock.time += 1
        new_task = task(f"t{number}", f"c{number}")
        config = push_config(f"p{number}")
        await tasks.store.create(new_task, owner=ANN, message=message(new_task.id), push=config)
        await tasks.store.append(new_task.id, [status_update(WORKING)])
    first = await claim(tasks, limit=2, lease=60)
    rest = await claim(tasks, limit=9, lease=60)
    assert [one.config.id for one in (*first, *rest)] == [f"p{n}" for n in range(5)]
    assert await claim(tasks, limit=0) == ()


async def add_deliveries(tasks: Tasks, owner: Owner, *names: str) -> None:
    """Add one delivery for each name, one second apart."""
    for name in names:
        tasks.clock.time += 1
        new_task = task(f"t-{name}", f"c-{name}")
        await tasks.store.create(
            new_task, owner=owner, message=message(name), push=push_config(name)
        )
        await tasks.store.append(new_task.id, [status_update(WORKING)])


async def claim_ids(
    tasks: Tasks, max_per_owner: int, limit: int = 9, **in_flight: int
) -> list[str]:
    claimed = await tasks.store.claim_deliveries(
        limit=limit,
        lease=60,
        max_per_owner=max_per_owner,
        in_flight={Owner("acme", name): count for name, count in in_flight.items()},
    )
    return [one.config.id for one in claimed]


async def test_claim_respects_max_per_owner(tasks: Tasks) -> None:
    await add_deliveries(tasks, ANN, "a1", "a2", "a3", "a4")
    await add_deliveries(tasks, BOB, "b1", "b2")
    await add_deliveries(tasks, ANN, "a5")
    assert await claim_ids(tasks, 3, ann=1, nobody=7) == ["a1", "a2", "b1", "b2"]
    assert await claim_ids(tasks, 3, ann=3) == []
    assert await claim_ids(tasks, 3, ann=9) == []
    await add_deliveries(tasks, BOB, "b3")
    assert await claim_ids(tasks, 3, ann=3, bob=2) == ["b3"]
    # Skipped deliveries are claimed in order as soon as the limit allows it.
    assert await claim_ids(tasks, 3, ann=2) == ["a3"]
    assert await claim_ids(tasks, 3) == ["a4", "a5"]


async def test_oldest_deliveries_of_all_owners_are_claimed_within_the_limit(tasks: Tasks) -> None:
    await add_deliveries(tasks, ANN, "a1", "a2", "a3")
    await add_deliveries(tasks, BOB, "b1", "b2")
    await add_deliveries(tasks, Owner("", "carol"), "c1")
    assert await claim_ids(tasks, 1, limit=2) == ["a1", "b1"]
    assert await claim_ids(tasks, 2, limit=2, ann=1, bob=1) == ["a2", "b2"]
    assert await claim_ids(tasks, 2, limit=2, ann=2, bob=2) == ["c1"]


async def test_rescheduled_delivery_is_not_claimed_before_its_time(
    tasks: Tasks,
) -> None:
    await add_deliveries(tasks, ANN, "a1", "a2")
    await add_deliveries(tasks, BOB, "b1")
    first, other, last = await claim(tasks)
    for one in (first, other, last):
        await tasks.store.reschedule(one.id, seconds=30 if one is last else 10)
    tasks.clock.time += 10
    assert await claim_ids(tasks, 1, ann=1) == []
    assert await claim_ids(tasks, 1) == ["a1"]
    tasks.clock.time += 20
    assert await claim_ids(tasks, 1, ann=1) == ["b1"]
    assert await claim_ids(tasks, 2, ann=1) == ["a2"]


async def test_pending_deliveries_are_counted_until_they_are_completed(tasks: Tasks) -> None:
    store = tasks.store
    assert await store.count_deliveries() == 0
    await add_deliveries(tasks, ANN, "a1")
    await add_deliveries(tasks, BOB, "b1")
    first, second = await claim(tasks)
    assert await store.count_deliveries() == 2
    await store.reschedule(first.id, seconds=60)
    await store.complete_delivery(second.id)
    assert await store.count_deliveries() == 1


async def test_deleted_configuration_has_no_deliveries(tasks: Tasks) -> None:
    store = tasks.store
    await store.create(task(), owner=ANN, message=message(), push=push_config())
    await store.save_push_config(push_config("p2"))
    await store.append("t1", [status_update(WORKING), status_update(COMPLETED)])
    (first, _) = await claim(tasks)
    await store.delete_push_config("t1", "p1")
    await store.complete_delivery(first.id)
    await store.reschedule(first.id, seconds=0)
    tasks.clock.time += 60
    assert await deliver_all(tasks) == [("p2", 2), ("p2", 3)]


async def test_replaced_configuration_applies_to_pending_deliveries(tasks: Tasks) -> None:
    store = tasks.store
    await store.create(task(), owner=ANN, message=message(), push=push_config())
    await store.append("t1", [status_update(WORKING)])
    config = replace(push_config(), url="https://example.org/new")
    await store.save_push_config(config)
    (claimed,) = await claim(tasks)
    assert claimed.config == config


async def test_deleted_task_has_no_deliveries(tasks: Tasks) -> None:
    store = tasks.store
    await store.create(task(), owner=ANN, message=message(), push=push_config())
    other = task("t2", "c2")
    await store.create(other, owner=BOB, message=message(), push=push_config())
    await store.append("t1", [status_update(COMPLETED, 2.0)])
    await store.append("t2", [status_update(COMPLETED, 9.0)])
    assert await delete_expired(store, before=3.0) == 1
    (claimed,) = await claim(tasks)
    assert (claimed.owner, claimed.config) == (BOB, push_config(task_id="t2"))
