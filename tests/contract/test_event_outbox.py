"""Stores record published events together with the state, all or none."""

from pathlib import Path

import msgspec
import pytest
from postgres_server import new_store_url
from session_store_factories import KEY, Stores, event

from acc.adapters.storage.event_log import LogSubscription
from acc.bootstrap.events import make_publisher, make_subscription
from acc.bootstrap.storage import copy_store
from acc.domain.errors import SessionConflict
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.domain.value_objects.event import Event, EventActions
from acc.ports.outbound.event_ports import EVENT_RETENTION_SECONDS, DeadLetter
from acc.ports.outbound.storage_ports import SessionStorePort


def publishes(number: int) -> Event:
    published = CloudEvent(id=str(number), source="/apps/shop", type="order.created", data=number)
    return event(0, actions=EventActions(state_delta={"n": number}, published=(published,)))


def subscribe(stores: Stores, name: str = "shipping") -> LogSubscription:
    log = stores.sessions.event_log()  # type: ignore[attr-defined]
    return LogSubscription(log, name=name, types=["*"])


async def received(stores: Stores, name: str = "shipping") -> list[int]:
    deliveries = await subscribe(stores, name).receive(limit=100, wait=0.0)
    return [msgspec.json.decode(one.body)["data"] for one in deliveries]


async def test_state_and_event_are_stored_together(stores: Stores) -> None:
    await stores.sessions.open(KEY, holder="a")
    await stores.sessions.append(KEY, [publishes(1), publishes(2)], holder="a")
    session = await stores.sessions.read(KEY)
    assert session is not None
    assert session.state == {"n": 2}
    assert await received(stores) == [1, 2]


async def test_write_without_the_lease_publishes_nothing(stores: Stores) -> None:
    await stores.sessions.open(KEY, holder="a")
    with pytest.raises(SessionConflict):
        await stores.sessions.append(KEY, [publishes(1)], holder="b")
    assert await received(stores) == []


async def test_step_that_is_recorded_again_publishes_once(stores: Stores) -> None:
    await stores.sessions.open(KEY, holder="a")
    await stores.sessions.append(KEY, [publishes(1)], holder="a")
    await stores.sessions.append(KEY, [publishes(1)], holder="a")
    assert await received(stores) == [1]


async def test_events_and_state_of_many_kinds_are_one_write(stores: Stores) -> None:
    await stores.sessions.open(KEY, holder="a")
    removed = event(0, actions=EventActions(state_removed=("n",)))
    await stores.sessions.append(KEY, [publishes(1), removed, publishes(2)], holder="a")
    removes = event(0, actions=EventActions(state_removed=("n",), published=(_published(3),)))
    await stores.sessions.append(KEY, [removes], holder="a", release=True)
    assert await received(stores) == [1, 2, 3]


async def test_copied_session_does_not_publish_again(stores: Stores) -> None:
    await stores.sessions.open(KEY, holder="a")
    await stores.sessions.append(KEY, [publishes(1)], holder="a", release=True)
    assert await received(stores) == [1]
    target = KEY.__class__(app_name="desk", user_id="ann", session_id="copy")
    await stores.sessions.fork(KEY, target, after=1, agent="helper")
    assert await received(stores) == []


async def test_events_are_deleted_after_the_retention(stores: Stores) -> None:
    log = stores.sessions.event_log()  # type: ignore[attr-defined]
    await log.publish(_published(1))
    stores.clock.time += EVENT_RETENTION_SECONDS + 1
    await log.publish(_published(2))
    assert await received(stores) == [2]
    assert await received(stores, "later") == [2]


async def test_types_that_are_not_wanted_do_not_delay_those_that_are(stores: Stores) -> None:
    log = stores.sessions.event_log()  # type: ignore[attr-defined]
    for number in range(3):
        await log.publish(_published(number, event_type="other"))
    await log.publish(_published(3))
    subscription = LogSubscription(log, name="s", types=["order.*"])
    (delivery,) = await subscription.receive(limit=1, wait=0.0)
    assert msgspec.json.decode(delivery.body)["data"] == 3


async def test_dead_letters_are_listed_replaced_and_deleted(
    stores: Stores, store: SessionStorePort
) -> None:
    letters = store.event_log()  # type: ignore[attr-defined]
    await letters.add_dead_letter("shipping", DeadLetter("a", b"1", "在庫なし", 1.0))
    await letters.add_dead_letter("shipping", DeadLetter("b", b"2", "late", 2.0))
    await letters.add_dead_letter("billing", DeadLetter("c", b"3", "late", 3.0))
    await letters.add_dead_letter("shipping", DeadLetter("a", b"1", "again", 4.0))
    found = await letters.dead_letters("shipping", limit=10)
    assert [(one.key, one.reason) for one in found] == [("b", "late"), ("a", "again")]
    assert await letters.delete_dead_letter("shipping", "a")
    assert not await letters.delete_dead_letter("shipping", "a")
    assert len(await letters.dead_letters("shipping", limit=10)) == 1


def _published(number: int, event_type: str = "order.created") -> CloudEvent:
    return CloudEvent(id=str(number), source="/apps/shop", type=event_type, data=number)


@pytest.mark.parametrize("reverse", [False, True])
async def test_copied_store_delivers_what_was_not_acknowledged(
    reverse: bool, tmp_path: Path
) -> None:
    places = [str(tmp_path / "events.db"), new_store_url()]
    source, target = reversed(places) if reverse else places
    before = make_subscription(source, name="shipping", events=["order.*"])
    publisher = make_publisher(source)
    for number in range(4):
        await publisher.publish(_published(number, "other" if number == 3 else "order.created"))
    done, _ = await before.receive(limit=2, wait=0.0)
    await before.acknowledge(done)
    await before.aclose()
    await publisher.aclose()
    await copy_store(source, target, dry_run=False)
    after = make_subscription(target, name="shipping", events=["order.*"], lease=60.0)
    publisher = make_publisher(target)
    await publisher.publish(_published(4))
    found: list[int] = []
    while deliveries := await after.receive(limit=10, wait=0.0):
        found += [msgspec.json.decode(one.body)["data"] for one in deliveries]
    # Number 1 was delivered and not acknowledged: its lease has not expired.
    assert found == [2, 4]
    await after.aclose()
    await publisher.aclose()
