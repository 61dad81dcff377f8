"""Contract of TaskStorePort: create, update, read, lease and delete tasks."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from task_store_factories import (
    ANN,
    BOB,
    LEASE,
    MAKERS,
    Tasks,
    agent_message,
    artifact_chunk,
    delete_expired,
    list_ids,
    message,
    push_config,
    read_task,
    status_update,
    submit,
    task,
)

from acc.domain.errors import (
    ContextNotFound,
    InvalidInput,
    InvalidTransition,
    LimitExceeded,
    TaskNotFound,
)
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, text_of, text_part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    TERMINAL,
    TRANSITIONS,
    DirectReply,
    Message,
    MessageAdded,
    Role,
    StatusUpdate,
    TaskEvent,
    TaskQuery,
    TaskState,
    TaskStatus,
    Update,
    apply_event,
)
from acc.ports.outbound.storage_ports import ExpiredTask, TaskStorePort

WORKING, COMPLETED, CANCELED = TaskState.WORKING, TaskState.COMPLETED, TaskState.CANCELED


@pytest.fixture(params=sorted(MAKERS))
async def tasks(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tasks]:
    new_task = MAKERS[request.param](tmp_path)
    yield new_task
    await new_task.store.aclose()


@pytest.fixture
def store(tasks: Tasks) -> TaskStorePort:
    return tasks.store


# Creation


async def test_created_task_has_its_message_and_status(store: TaskStorePort) -> None:
    created = await store.create(task(), owner=ANN, message=message())
    assert created == (replace(task(), history=(message(),), seq=1), True)
    assert await read_task(store) == created.task
    assert await store.events("t1") == (TaskEvent(1, StatusUpdate(status=task().status)),)


async def test_task_round_trips_with_all_fields(store: TaskStorePort) -> None:
    parts = (
        Part(text="文章", media_type="text/plain", metadata={"a": [1, 2.5, None, "ä"]}),
        Part(data={"deep": [{"x": True}]}),
        Part(is_null=True),
        Part(raw=b"\x00\xff", filename="f.bin"),
        Part(url="https://example.org/f", media_type="image/png"),
    )
    original = Message(
        message_id="m",
        role=Role.USER,
        parts=parts,
        context_id="c1",
        reference_task_ids=("t0",),
        extensions=("https://example.org/e",),
        metadata={"k": {"v": 1}},
    )
    status = TaskStatus(state=TaskState.SUBMITTED, at=1.25, message=agent_message("queued"))
    new_task = replace(
        task(), status=status, metadata={"k": "v"}, history=(agent_message("before"),)
    )
    created = await store.create(new_task, owner=ANN, message=original)
    assert created.task.history == (agent_message("before"), original)
    assert await read_task(store) == created.task
    (event,) = await store.events("t1")
    assert event.update == StatusUpdate(status=status)


async def test_repeated_message_returns_the_same_task(store: TaskStorePort) -> None:
    await store.create(task(), owner=ANN, message=message())
    await store.append("t1", [status_update(WORKING)])
    again = await store.create(task("t2"), owner=ANN, message=message(), push=push_config())
    assert again == (await read_task(store), False)
    assert again.task.state is WORKING
    assert await store.read("t2") is None
    assert await store.list_push_configs("t1") == ()


async def test_repeated_message_may_name_the_created_context(
    store: TaskStorePort,
) -> None:
    await store.create(task(), owner=ANN, message=message())
    for context in ("c1", ""):
        again = replace(message(), context_id=context)
        created = await store.create(task("t2", context or "c2"), owner=ANN, message=again)
        assert (created.task.id, created.is_new) == ("t1", False)


async def test_message_to_another_context_creates_another_task(store: TaskStorePort) -> None:
    messages = {name: replace(message(), context_id=name) for name in ("c1", "c2", "c3")}
    for is_new in (True, False):
        for number, context in enumerate(messages, 1):
            new_task = task(f"t{number}", context)
            created = await store.create(new_task, owner=ANN, message=messages[context])
            assert (created.task.id, created.is_new) == (f"t{number}", is_new)
            assert created.task.context_id == context
    # A message without context matches the first task.
    created = await store.create(task("t4", "c4"), owner=ANN, message=message())
    assert (created.task.id, created.is_new) == ("t1", False)


async def test_repeated_message_to_a_context_of_another_owner_fails(
    store: TaskStorePort,
) -> None:
    await store.create(task("b1", "c2"), owner=BOB, message=message())
    await store.create(task(), owner=ANN, message=message())
    with pytest.raises(ContextNotFound):
        again = replace(message(), context_id="c2")
        await store.create(task("t2", "c2"), owner=ANN, message=again)


async def test_order_of_data_keys_does_not_change_the_message_identity(
    store: TaskStorePort,
) -> None:
    first = replace(message(), parts=(Part(data={"a": 1, "b": 2}),))
    second = replace(message(), parts=(Part(data={"b": 2, "a": 1}),))
    await store.create(task(), owner=ANN, message=first)
    assert not (await store.create(task("t2"), owner=ANN, message=second)).is_new


async def test_different_content_with_the_same_id_creates_another_task(
    store: TaskStorePort,
) -> None:
    await store.create(task(), owner=ANN, message=message())
    other = await store.create(task("t2"), owner=ANN, message=message(text="other"))
    assert (other.task.id, other.is_new) == ("t2", True)
    assert not (await store.create(task("t3"), owner=ANN, message=message())).is_new


async def test_idempotency_key_replaces_the_message_id(store: TaskStorePort) -> None:
    for number in ("1", "2", "1"):
        created = await store.create(
            task(f"t{number}"), owner=ANN, message=message(), key=f"k{number}"
        )
        assert created.task.id == f"t{number}"
    assert not created.is_new


async def test_message_ids_are_separate_for_each_owner(store: TaskStorePort) -> None:
    await store.create(task(), owner=ANN, message=message())
    other = Owner("", ANN.caller)
    for number, owner in enumerate((BOB, other)):
        new_task = task(f"b{number}", f"cb{number}")
        assert (await store.create(new_task, owner=owner, message=message())).is_new


async def test_concurrent_equal_messages_create_one_task(store: TaskStorePort) -> None:
    async with asyncio.TaskGroup() as group:
        creations = [
            group.create_task(store.create(task(f"t{n}"), owner=ANN, message=message()))
            for n in range(10)
        ]
    created = [creation.result() for creation in creations]
    assert sum(is_new for _, is_new in created) == 1
    assert len({new_task.id for new_task, _ in created}) == 1


async def test_create_fails_for_a_context_of_another_owner(store: TaskStorePort) -> None:
    await store.create(task(), owner=ANN, message=message())
    with pytest.raises(ContextNotFound, match="c1"):
        await store.create(task("t2"), owner=BOB, message=message())
    assert await store.read("t2") is None
    # The failed call stored nothing.
    assert (await store.create(task("t3", "c3"), owner=BOB, message=message())).is_new
    assert (await store.create(task("t4"), owner=ANN, message=message("m4"))).is_new


async def test_create_fails_for_an_existing_task_id(store: TaskStorePort) -> None:
    await submit(store)
    with pytest.raises(InvalidInput, match="t1"):
        await store.create(task(), owner=ANN, message=message("other"))
    assert (await store.list_tasks(ANN, TaskQuery())).total == 1
    assert (await store.create(task("t2"), owner=ANN, message=message("other"))).is_new


async def test_create_stores_the_push_configuration(store: TaskStorePort) -> None:
    await store.create(task(), owner=ANN, message=message(), push=push_config(task_id=""))
    assert await store.list_push_configs("t1") == (push_config(),)


async def test_create_fails_for_a_message_that_is_not_plain_data(store: TaskStorePort) -> None:
    invalid = replace(message(), parts=(Part(data=object()),))
    with pytest.raises(InvalidInput, match="m1"):
        await store.create(task(), owner=ANN, message=invalid)
    assert await store.read("t1") is None


# Updates


async def test_updates_are_numbered_without_gaps(store: TaskStorePort) -> None:
    await submit(store)
    first = await store.append("t1", [status_update(WORKING), artifact_chunk("a")])
    second = await store.append("t1", [artifact_chunk("b"), status_update(COMPLETED)])
    assert [event.seq for event in (*first, *second)] == [2, 3, 4, 5]
    assert (await store.events("t1"))[1:] == (*first, *second)
    assert await store.append("t1", []) == ()


async def test_task_equals_the_replay_of_its_events(store: TaskStorePort) -> None:
    expected = (await submit(store)).task
    updates: list[Update] = [
        status_update(WORKING, text="on it"),
        artifact_chunk("one ", append=False),
        artifact_chunk("two "),
        MessageAdded(message=agent_message("by the way")),
        status_update(TaskState.INPUT_REQUIRED, text="which?"),
        status_update(WORKING),
        artifact_chunk("three", last=True),
        artifact_chunk("x", "a2", append=False, last=True),
        status_update(COMPLETED, text="done"),
    ]
    for update in updates:
        (event,) = await store.append("t1", [update])
        expected = apply_event(expected, event)
        assert await read_task(store) == expected
    assert [text_of(new_task.parts) for new_task in expected.artifacts] == ["one two three", "x"]
    messages_so_far = {text_of(item.parts) for item in expected.history[1:]}
    assert messages_so_far == {"on it", "by the way", "which?"}


@pytest.mark.parametrize("state", sorted(set(TaskState) - {TaskState.SUBMITTED}))
async def test_append_fails_for_forbidden_transitions(
    store: TaskStorePort, state: TaskState
) -> None:
    new_task = replace(task(), status=TaskStatus(state=state, at=1.0))
    for number, target in enumerate(TaskState):
        name = f"t{number}"
        await store.create(replace(new_task, id=name), owner=ANN, message=message(name))
        if target in TRANSITIONS[state]:
            await store.append(name, [status_update(target)])
            continue
        with pytest.raises(InvalidTransition, match=rf"{name}.*{state}.*{target}"):
            await store.append(name, [status_update(target)])
        assert (await read_task(store, name)).seq == 1


@pytest.mark.parametrize("end", sorted(TERMINAL))
async def test_terminal_task_accepts_no_updates(store: TaskStorePort, end: TaskState) -> None:
    await submit(store)
    await store.append("t1", [status_update(end)])
    before = await read_task(store)
    updates_after_end = (
        status_update(COMPLETED),
        status_update(WORKING),
        artifact_chunk("late"),
        DirectReply(message=agent_message("late")),
    )
    for update in (*updates_after_end, MessageAdded(message=agent_message("late"))):
        with pytest.raises(InvalidTransition):
            await store.append("t1", [update])
    assert await read_task(store) == before
    assert len(await store.events("t1")) == 2


async def test_append_stores_all_updates_or_none(store: TaskStorePort) -> None:
    await submit(store)
    with pytest.raises(InvalidTransition, match="is canceled; an artifact is not a valid"):
        await store.append(
            "t1", [status_update(WORKING), status_update(CANCELED), artifact_chunk("late")]
        )
    assert (await read_task(store)).state is TaskState.SUBMITTED
    assert len(await store.events("t1")) == 1
    assert (await store.list_tasks(ANN, TaskQuery(state=CANCELED))).total == 0


async def test_append_fails_for_an_unknown_task(store: TaskStorePort) -> None:
    with pytest.raises(TaskNotFound, match="t9"):
        await store.append("t9", [status_update(WORKING)])
    with pytest.raises(TaskNotFound, match="t9"):
        await store.save_push_config(push_config(task_id="t9"))
    assert await store.read("t9") is None
    assert await store.events("t9") == ()


async def test_only_one_of_concurrent_end_states_is_stored(store: TaskStorePort) -> None:
    await submit(store)

    async def end(state: TaskState) -> bool:
        try:
            await store.append("t1", [status_update(state)])
        except InvalidTransition:
            return False
        return True

    async with asyncio.TaskGroup() as group:
        attempts = [group.create_task(end(state)) for state in (CANCELED, COMPLETED) * 5]
    assert [item.result() for item in attempts].count(True) == 1
    assert len(await store.events("t1")) == 2


async def test_updates_are_stored_when_the_caller_is_cancelled(store: TaskStorePort) -> None:
    await submit(store)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(store.append("t1", [status_update(WORKING)]))
        await asyncio.sleep(0)
        waiting.cancel()
    assert (await read_task(store)).state is WORKING


# Continuation


async def test_continue_task_stores_message_and_updates(store: TaskStorePort) -> None:
    await submit(store)
    await store.append("t1", [status_update(TaskState.INPUT_REQUIRED, text="which?")])
    answer = message("m2", "青いの", task_id="t1")
    current = await read_task(store)
    created = await store.continue_task(
        "t1", owner=ANN, message=answer, updates=[status_update(WORKING, 3.0)], expected=current
    )
    assert created == (await read_task(store), True)
    assert (created.task.state, created.task.seq) == (WORKING, 4)
    assert answer in created.task.history
    assert [type(event.update) for event in await store.events("t1", after=2)] == [
        MessageAdded,
        StatusUpdate,
    ]


async def test_repeated_continue_task_has_no_effect(store: TaskStorePort) -> None:
    await submit(store)
    again = {"owner": ANN, "message": message("m2"), "updates": [status_update(WORKING)]}
    current = await read_task(store)
    first = await store.continue_task("t1", **again, expected=current)  # type: ignore[arg-type]
    second = await store.continue_task("t1", **again, expected=None)  # type: ignore[arg-type]
    assert (first.is_new, second.is_new) == (True, False)
    assert second.task == first.task
    assert (await store.create(task("t2"), owner=ANN, message=message("m2"))).is_new


async def test_continue_task_fails_when_the_task_has_changed(
    store: TaskStorePort,
) -> None:
    await submit(store)
    current = await read_task(store)
    fields = {"owner": ANN, "message": message("m2"), "updates": ()}
    with pytest.raises(InvalidTransition, match="is submitted; a message is not a valid"):
        await store.continue_task("t1", **fields, expected=None)  # type: ignore[arg-type]
    await store.append("t1", [status_update(WORKING), artifact_chunk("x")])
    with pytest.raises(InvalidTransition, match="is working; a message is not a valid"):
        await store.continue_task("t1", **fields, expected=current)  # type: ignore[arg-type]
    await store.append("t1", [status_update(COMPLETED)])
    with pytest.raises(InvalidTransition, match="is completed; a message is not a valid"):
        await store.continue_task("t1", **fields, expected=await read_task(store))  # type: ignore[arg-type]
    # The message id is still free.
    assert (await store.create(task("t2"), owner=ANN, message=message("m2"))).is_new


async def test_task_of_another_owner_is_not_found(store: TaskStorePort) -> None:
    await submit(store)
    for owner in (BOB, Owner("", ANN.caller), Owner()):
        assert await store.read("t1", owner=owner) is None
        with pytest.raises(TaskNotFound, match="t1"):
            current = await read_task(store)
            await store.continue_task(
                "t1", owner=owner, message=message("m2"), updates=(), expected=current
            )
    assert await store.read("t1", owner=ANN) == await read_task(store)


# Direct replies


async def test_directly_answered_task_is_stored_but_not_listed(
    store: TaskStorePort,
) -> None:
    await submit(store)
    await submit(store, "t2")
    await store.append("t1", [DirectReply(message=agent_message("hi"))])
    stored = await read_task(store)
    assert (stored.reply, stored.is_terminal) == (agent_message("hi"), True)
    for query in (TaskQuery(), TaskQuery(state=COMPLETED), TaskQuery(context_id="c-t1")):
        page = await store.list_tasks(ANN, query)
        assert [item.id for item in page.tasks] == (["t2"] if query == TaskQuery() else [])
        assert page.total == len(page.tasks)
    with pytest.raises(LimitExceeded):
        await store.create(task("t3"), owner=ANN, message=message("m"), max_active=1)
    again = await store.create(task("t3"), owner=ANN, message=message("m-t1"))
    assert again == (stored, False)
    with pytest.raises(InvalidTransition):
        await store.append("t1", [status_update(WORKING)])


# Reading


async def test_events_are_read_after_a_sequence_number(store: TaskStorePort) -> None:
    await submit(store)
    await store.append("t1", [status_update(WORKING), *[artifact_chunk(str(n)) for n in range(6)]])
    numbers = [event.seq for event in await store.events("t1", after=3, limit=2)]
    assert numbers == [4, 5]
    assert [event.seq for event in await store.events("t1", after=6)] == [7, 8]
    assert await store.events("t1", after=8) == ()
    assert await store.events("t1", limit=0) == ()
    assert len(await store.events("t1", after=-5)) == 8


async def test_latest_seqs_of_many_tasks_are_read_at_once(store: TaskStorePort) -> None:
    names = [f"t{n}" for n in range(1200)]
    for name in names[::400]:
        await submit(store, name)
    await store.append("t400", [status_update(WORKING), status_update(COMPLETED)])
    assert await store.latest_seqs(names) == {"t0": 1, "t400": 3, "t800": 1}
    assert await store.latest_seqs([]) == {}


@pytest.mark.parametrize("ending", [(), (status_update(COMPLETED),)])
async def test_artifact_of_3000_chunks_is_joined(
    store: TaskStorePort, ending: tuple[StatusUpdate, ...]
) -> None:
    await submit(store)
    await store.append("t1", [status_update(WORKING), artifact_chunk("", append=False)])
    texts = [f"{n} 語 " for n in range(3000)]
    for first in range(0, 3000, 250):
        await store.append("t1", [artifact_chunk(text) for text in texts[first : first + 250]])
    await store.append("t1", ending)
    stored = await read_task(store)
    assert stored.seq == 3003 + len(ending)
    assert stored.artifacts[0].parts == text_part("".join(texts))


# Leases


async def test_active_task_with_expired_lease_is_claimed_once(tasks: Tasks) -> None:
    store, clock = tasks.store, tasks.clock
    for number in range(5):
        await submit(store, f"t{number}")
    await store.append("t1", [status_update(WORKING)])
    await store.append("t2", [status_update(COMPLETED)])
    await store.append("t3", [status_update(TaskState.INPUT_REQUIRED)])
    await store.append("t4", [DirectReply(message=agent_message("hi"))])
    clock.time += LEASE - 1
    await store.renew(["t0", "nobody"])
    assert await store.claim_orphans() == ()
    clock.time += 1
    assert await store.claim_orphans() == ("t1",)
    assert await store.claim_orphans() == ()
    clock.time += LEASE
    assert set(await store.claim_orphans()) == {"t0", "t1"}


async def test_continue_task_renews_the_lease(tasks: Tasks) -> None:
    store, clock = tasks.store, tasks.clock
    await submit(store)
    await store.append("t1", [status_update(TaskState.INPUT_REQUIRED)])
    clock.time += 2 * LEASE
    assert await store.claim_orphans() == ()
    current = await read_task(store)
    await store.continue_task(
        "t1", owner=ANN, message=message("m2"), updates=[status_update(WORKING)], expected=current
    )
    assert await store.claim_orphans() == ()
    clock.time += LEASE
    assert await store.claim_orphans() == ("t1",)


# Expiry


async def test_expired_tasks_are_deleted(tasks: Tasks) -> None:
    store = tasks.store
    for number in range(5):
        await submit(store, f"t{number}", context_id="even" if number % 2 == 0 else f"c{number}")
    await store.append("t0", [status_update(COMPLETED, 2.0)])
    await store.append("t1", [status_update(CANCELED, 2.5)])
    await store.append("t2", [status_update(COMPLETED, 3.0)])
    await store.append("t3", [status_update(TaskState.INPUT_REQUIRED, 2.0)])
    await store.save_push_config(push_config(task_id="t1"))
    assert await delete_expired(store, before=3.0) == 2
    assert await delete_expired(store, before=3.0) == 0
    assert set(await list_ids(store)) == {"t2", "t3", "t4"}
    assert await list_ids(store, context_id="even") == ["t2", "t4"]
    assert await store.latest_seqs(["t0", "t1", "t2"]) == {"t2": 2}
    assert await store.events("t0") == ()
    assert await store.list_push_configs("t1") == ()
    # The context of t1 has no tasks left, the context of t0 still has.
    with pytest.raises(ContextNotFound):
        await submit(store, "b", owner=BOB, context_id="even")
    assert (await submit(store, "t1", owner=BOB, context_id="c1")).is_new
    assert (await submit(store, "t0", context_id="even")).is_new


async def test_expired_tasks_are_listed_with_owner_and_last_of_context(
    store: TaskStorePort,
) -> None:
    await submit(store, "t1", context_id="both")
    await submit(store, "t2", context_id="both")
    await submit(store, "t3", context_id="half")
    await submit(store, "t4", context_id="half")
    await submit(store, "t5", owner=BOB)
    for name in ("t1", "t2", "t3", "t5"):
        await store.append(name, [status_update(COMPLETED, 2.0)])
    await store.append("t4", [status_update(TaskState.INPUT_REQUIRED, 2.0)])
    assert await store.expired(before=2.0, limit=9) == ()
    stored = await store.expired(before=2.5, limit=9)
    assert set(stored) == {
        ExpiredTask("t1", "both", ANN, True),
        ExpiredTask("t2", "both", ANN, True),
        ExpiredTask("t3", "half", ANN, False),
        ExpiredTask("t5", "c-t5", BOB, True),
    }
    await store.delete_expired(["t1"])
    assert ExpiredTask("t2", "both", ANN, True) in await store.expired(before=2.5, limit=9)


async def test_is_last_is_false_when_a_page_splits_a_context(
    store: TaskStorePort,
) -> None:
    for number in range(5):
        await submit(store, f"t{number}", context_id="c")
        await store.append(f"t{number}", [status_update(COMPLETED, 2.0 + number)])
    first = await store.expired(before=9.0, limit=2)
    assert [(item.task_id, item.is_last) for item in first] == [("t0", False), ("t1", False)]
    after = await store.expired(before=9.0, limit=9, skip=3)
    assert [(item.task_id, item.is_last) for item in after] == [("t3", False), ("t4", False)]
    assert await store.expired(before=9.0, limit=9, skip=5) == ()
    assert await store.delete_expired(["t0", "t1", "t3"]) == 3
    rest = await store.expired(before=9.0, limit=2)
    assert [(item.task_id, item.is_last) for item in rest] == [("t2", True), ("t4", True)]


async def test_delete_expired_deletes_only_terminal_tasks(store: TaskStorePort) -> None:
    for number, state in enumerate((WORKING, TaskState.INPUT_REQUIRED, COMPLETED)):
        await submit(store, f"t{number}")
        await store.append(f"t{number}", [status_update(state)])
    assert await store.delete_expired(["t0", "t1", "t2", "t2", "nowhere"]) == 1
    assert await store.delete_expired([]) == 0
    assert set(await list_ids(store)) == {"t0", "t1"}


async def test_directly_answered_task_expires_by_its_creation_time(
    store: TaskStorePort,
) -> None:
    await submit(store, at=5.0)
    await store.append("t1", [DirectReply(message=agent_message("hi"))])
    assert await delete_expired(store, before=5.0) == 0
    assert (await submit(store)).is_new is False
    assert await delete_expired(store, before=5.5) == 1
    assert await store.read("t1") is None
    assert (await submit(store, owner=BOB)).is_new


async def test_all_tasks_can_be_deleted(store: TaskStorePort) -> None:
    for number in range(3):
        await submit(store, f"t{number}", owner=Owner("", f"o{number}"))
        await store.append(f"t{number}", [status_update(COMPLETED)])
    assert await delete_expired(store, before=1e9) == 3
    for number in range(3):
        assert (await submit(store, f"t{number}")).is_new
    assert await list_ids(store) == ["t2", "t1", "t0"]
