"""One suite for every store of tasks: filing, moving on, reading, holding and forgetting."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tasks_under_test import (
    ANN,
    BOB,
    LEASE,
    MAKERS,
    Tasks,
    file,
    forget,
    held,
    listed_ids,
    message,
    moved,
    piece,
    push,
    said,
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
    made = MAKERS[request.param](tmp_path)
    yield made
    await made.store.aclose()


@pytest.fixture
def store(tasks: Tasks) -> TaskStorePort:
    return tasks.store


# Filing a task


async def test_a_filed_task_opens_with_its_message_and_its_status(store: TaskStorePort) -> None:
    filed = await store.create(task(), owner=ANN, message=message())
    assert filed == (replace(task(), history=(message(),), seq=1), True)
    assert await held(store) == filed.task
    assert await store.events("t1") == (TaskEvent(1, StatusUpdate(status=task().status)),)


async def test_a_task_keeps_all_that_it_was_given(store: TaskStorePort) -> None:
    parts = (
        Part(text="文章", media_type="text/plain", metadata={"a": [1, 2.5, None, "ä"]}),
        Part(data={"deep": [{"x": True}]}),
        Part(is_null=True),
        Part(raw=b"\x00\xff", filename="f.bin"),
        Part(url="https://example.org/f", media_type="image/png"),
    )
    given = Message(
        message_id="m",
        role=Role.USER,
        parts=parts,
        context_id="c1",
        reference_task_ids=("t0",),
        extensions=("https://example.org/e",),
        metadata={"k": {"v": 1}},
    )
    status = TaskStatus(state=TaskState.SUBMITTED, at=1.25, message=said("queued"))
    made = replace(task(), status=status, metadata={"k": "v"}, history=(said("before"),))
    filed = await store.create(made, owner=ANN, message=given)
    assert filed.task.history == (said("before"), given)
    assert await held(store) == filed.task
    (event,) = await store.events("t1")
    assert event.update == StatusUpdate(status=status)


async def test_a_message_that_comes_again_leads_to_the_same_task(store: TaskStorePort) -> None:
    await store.create(task(), owner=ANN, message=message())
    await store.append("t1", [moved(WORKING)])
    again = await store.create(task("t2"), owner=ANN, message=message(), push=push())
    assert again == (await held(store), False)
    assert again.task.state is WORKING
    assert await store.read("t2") is None
    assert await store.list_push_configs("t1") == ()


async def test_a_message_that_comes_again_may_name_the_context_that_was_made_for_it(
    store: TaskStorePort,
) -> None:
    await store.create(task(), owner=ANN, message=message())
    for named in ("c1", ""):
        again = replace(message(), context_id=named)
        filed = await store.create(task("t2", named or "c2"), owner=ANN, message=again)
        assert (filed.task.id, filed.is_new) == ("t1", False)


async def test_a_message_to_another_context_is_another_message(store: TaskStorePort) -> None:
    to = {name: replace(message(), context_id=name) for name in ("c1", "c2", "c3")}
    for is_new in (True, False):
        for number, context in enumerate(to, 1):
            made = task(f"t{number}", context)
            filed = await store.create(made, owner=ANN, message=to[context])
            assert (filed.task.id, filed.is_new) == (f"t{number}", is_new)
            assert filed.task.context_id == context
    # Who names no context means the first of them.
    filed = await store.create(task("t4", "c4"), owner=ANN, message=message())
    assert (filed.task.id, filed.is_new) == ("t1", False)


async def test_a_message_to_a_context_of_another_owner_is_refused_also_if_it_came_before(
    store: TaskStorePort,
) -> None:
    await store.create(task("b1", "c2"), owner=BOB, message=message())
    await store.create(task(), owner=ANN, message=message())
    with pytest.raises(ContextNotFound):
        again = replace(message(), context_id="c2")
        await store.create(task("t2", "c2"), owner=ANN, message=again)


async def test_the_order_of_keys_does_not_make_another_message(store: TaskStorePort) -> None:
    one = replace(message(), parts=(Part(data={"a": 1, "b": 2}),))
    other = replace(message(), parts=(Part(data={"b": 2, "a": 1}),))
    await store.create(task(), owner=ANN, message=one)
    assert not (await store.create(task("t2"), owner=ANN, message=other)).is_new


async def test_another_message_with_the_same_id_is_another_message(store: TaskStorePort) -> None:
    await store.create(task(), owner=ANN, message=message())
    other = await store.create(task("t2"), owner=ANN, message=message(text="other"))
    assert (other.task.id, other.is_new) == ("t2", True)
    assert not (await store.create(task("t3"), owner=ANN, message=message())).is_new


async def test_a_key_counts_in_place_of_the_id(store: TaskStorePort) -> None:
    for number in ("1", "2", "1"):
        filed = await store.create(
            task(f"t{number}"), owner=ANN, message=message(), key=f"k{number}"
        )
        assert filed.task.id == f"t{number}"
    assert not filed.is_new


async def test_two_owners_may_use_the_same_message_id(store: TaskStorePort) -> None:
    await store.create(task(), owner=ANN, message=message())
    other = Owner("", ANN.caller)
    for number, owner in enumerate((BOB, other)):
        made = task(f"b{number}", f"cb{number}")
        assert (await store.create(made, owner=owner, message=message())).is_new


async def test_the_same_message_at_the_same_moment_files_one_task(store: TaskStorePort) -> None:
    async with asyncio.TaskGroup() as group:
        filings = [
            group.create_task(store.create(task(f"t{n}"), owner=ANN, message=message()))
            for n in range(10)
        ]
    filed = [filing.result() for filing in filings]
    assert sum(is_new for _, is_new in filed) == 1
    assert len({made.id for made, _ in filed}) == 1


async def test_another_owners_context_is_not_found(store: TaskStorePort) -> None:
    await store.create(task(), owner=ANN, message=message())
    with pytest.raises(ContextNotFound, match="c1"):
        await store.create(task("t2"), owner=BOB, message=message())
    assert await store.read("t2") is None
    # Nothing of it was kept.
    assert (await store.create(task("t3", "c3"), owner=BOB, message=message())).is_new
    assert (await store.create(task("t4"), owner=ANN, message=message("m4"))).is_new


async def test_a_task_id_is_given_once(store: TaskStorePort) -> None:
    await file(store)
    with pytest.raises(InvalidInput, match="t1"):
        await store.create(task(), owner=ANN, message=message("other"))
    assert (await store.list_tasks(ANN, TaskQuery())).total == 1
    assert (await store.create(task("t2"), owner=ANN, message=message("other"))).is_new


async def test_a_configuration_comes_with_the_task(store: TaskStorePort) -> None:
    await store.create(task(), owner=ANN, message=message(), push=push(task_id=""))
    assert await store.list_push_configs("t1") == (push(),)


async def test_a_message_that_is_not_plain_data_is_refused(store: TaskStorePort) -> None:
    bad = replace(message(), parts=(Part(data=object()),))
    with pytest.raises(InvalidInput, match="m1"):
        await store.create(task(), owner=ANN, message=bad)
    assert await store.read("t1") is None


# Moving a task on


async def test_updates_are_numbered_without_a_gap(store: TaskStorePort) -> None:
    await file(store)
    first = await store.append("t1", [moved(WORKING), piece("a")])
    second = await store.append("t1", [piece("b"), moved(COMPLETED)])
    assert [event.seq for event in (*first, *second)] == [2, 3, 4, 5]
    assert (await store.events("t1"))[1:] == (*first, *second)
    assert await store.append("t1", []) == ()


async def test_a_task_is_what_its_events_make_of_it(store: TaskStorePort) -> None:
    expected = (await file(store)).task
    updates: list[Update] = [
        moved(WORKING, text="on it"),
        piece("one ", append=False),
        piece("two "),
        MessageAdded(message=said("by the way")),
        moved(TaskState.INPUT_REQUIRED, text="which?"),
        moved(WORKING),
        piece("three", last=True),
        piece("x", "a2", append=False, last=True),
        moved(COMPLETED, text="done"),
    ]
    for update in updates:
        (event,) = await store.append("t1", [update])
        expected = apply_event(expected, event)
        assert await held(store) == expected
    assert [text_of(made.parts) for made in expected.artifacts] == ["one two three", "x"]
    messages_so_far = {text_of(one.parts) for one in expected.history[1:]}
    assert messages_so_far == {"on it", "by the way", "which?"}


@pytest.mark.parametrize("state", sorted(set(TaskState) - {TaskState.SUBMITTED}))
async def test_what_the_table_forbids_cannot_happen(store: TaskStorePort, state: TaskState) -> None:
    made = replace(task(), status=TaskStatus(state=state, at=1.0))
    for number, wanted in enumerate(TaskState):
        name = f"t{number}"
        await store.create(replace(made, id=name), owner=ANN, message=message(name))
        if wanted in TRANSITIONS[state]:
            await store.append(name, [moved(wanted)])
            continue
        with pytest.raises(InvalidTransition, match=rf"{name}.*{state}.*{wanted}"):
            await store.append(name, [moved(wanted)])
        assert (await held(store, name)).seq == 1


@pytest.mark.parametrize("end", sorted(TERMINAL))
async def test_a_task_that_is_over_stays_as_it_is(store: TaskStorePort, end: TaskState) -> None:
    await file(store)
    await store.append("t1", [moved(end)])
    before = await held(store)
    late = (moved(COMPLETED), moved(WORKING), piece("late"), DirectReply(message=said("late")))
    for update in (*late, MessageAdded(message=said("late"))):
        with pytest.raises(InvalidTransition):
            await store.append("t1", [update])
    assert await held(store) == before
    assert len(await store.events("t1")) == 2


async def test_updates_are_stored_all_or_none(store: TaskStorePort) -> None:
    await file(store)
    with pytest.raises(InvalidTransition, match="is canceled; an artifact is not a valid"):
        await store.append("t1", [moved(WORKING), moved(CANCELED), piece("late")])
    assert (await held(store)).state is TaskState.SUBMITTED
    assert len(await store.events("t1")) == 1
    assert (await store.list_tasks(ANN, TaskQuery(state=CANCELED))).total == 0


async def test_a_task_that_does_not_exist_takes_nothing(store: TaskStorePort) -> None:
    with pytest.raises(TaskNotFound, match="t9"):
        await store.append("t9", [moved(WORKING)])
    with pytest.raises(TaskNotFound, match="t9"):
        await store.save_push_config(push(task_id="t9"))
    assert await store.read("t9") is None
    assert await store.events("t9") == ()


async def test_one_of_many_ends_wins(store: TaskStorePort) -> None:
    await file(store)

    async def end(state: TaskState) -> bool:
        try:
            await store.append("t1", [moved(state)])
        except InvalidTransition:
            return False
        return True

    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(end(state)) for state in (CANCELED, COMPLETED) * 5]
    assert [one.result() for one in ends].count(True) == 1
    assert len(await store.events("t1")) == 2


async def test_what_a_cancelled_caller_has_asked_for_is_stored(store: TaskStorePort) -> None:
    await file(store)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(store.append("t1", [moved(WORKING)]))
        await asyncio.sleep(0)
        waiting.cancel()
    assert (await held(store)).state is WORKING


# Messages that move a task on


async def test_a_message_moves_a_task_on(store: TaskStorePort) -> None:
    await file(store)
    await store.append("t1", [moved(TaskState.INPUT_REQUIRED, text="which?")])
    answer = message("m2", "青いの", task_id="t1")
    seen = await held(store)
    filed = await store.continue_task(
        "t1", owner=ANN, message=answer, updates=[moved(WORKING, 3.0)], expected=seen
    )
    assert filed == (await held(store), True)
    assert (filed.task.state, filed.task.seq) == (WORKING, 4)
    assert answer in filed.task.history
    assert [type(event.update) for event in await store.events("t1", after=2)] == [
        MessageAdded,
        StatusUpdate,
    ]


async def test_a_message_that_moves_a_task_counts_once(store: TaskStorePort) -> None:
    await file(store)
    again = {"owner": ANN, "message": message("m2"), "updates": [moved(WORKING)]}
    seen = await held(store)
    first = await store.continue_task("t1", **again, expected=seen)  # type: ignore[arg-type]
    second = await store.continue_task("t1", **again, expected=None)  # type: ignore[arg-type]
    assert (first.is_new, second.is_new) == (True, False)
    assert second.task == first.task
    assert (await store.create(task("t2"), owner=ANN, message=message("m2"))).is_new


async def test_a_message_moves_nothing_that_has_moved_since_it_was_seen(
    store: TaskStorePort,
) -> None:
    await file(store)
    seen = await held(store)
    fields = {"owner": ANN, "message": message("m2"), "updates": ()}
    with pytest.raises(InvalidTransition, match="is submitted; a message is not a valid"):
        await store.continue_task("t1", **fields, expected=None)  # type: ignore[arg-type]
    await store.append("t1", [moved(WORKING), piece("x")])
    with pytest.raises(InvalidTransition, match="is working; a message is not a valid"):
        await store.continue_task("t1", **fields, expected=seen)  # type: ignore[arg-type]
    await store.append("t1", [moved(COMPLETED)])
    with pytest.raises(InvalidTransition, match="is completed; a message is not a valid"):
        await store.continue_task("t1", **fields, expected=await held(store))  # type: ignore[arg-type]
    # The message id is still free.
    assert (await store.create(task("t2"), owner=ANN, message=message("m2"))).is_new


async def test_another_owners_task_is_not_found(store: TaskStorePort) -> None:
    await file(store)
    for owner in (BOB, Owner("", ANN.caller), Owner()):
        assert await store.read("t1", owner=owner) is None
        with pytest.raises(TaskNotFound, match="t1"):
            seen = await held(store)
            await store.continue_task(
                "t1", owner=owner, message=message("m2"), updates=(), expected=seen
            )
    assert await store.read("t1", owner=ANN) == await held(store)


# Direct replies


async def test_directly_answered_task_is_stored_but_not_listed(
    store: TaskStorePort,
) -> None:
    await file(store)
    await file(store, "t2")
    await store.append("t1", [DirectReply(message=said("hi"))])
    found = await held(store)
    assert (found.reply, found.is_terminal) == (said("hi"), True)
    for query in (TaskQuery(), TaskQuery(state=COMPLETED), TaskQuery(context_id="c-t1")):
        page = await store.list_tasks(ANN, query)
        assert [one.id for one in page.tasks] == (["t2"] if query == TaskQuery() else [])
        assert page.total == len(page.tasks)
    with pytest.raises(LimitExceeded):
        await store.create(task("t3"), owner=ANN, message=message("m"), max_active=1)
    again = await store.create(task("t3"), owner=ANN, message=message("m-t1"))
    assert again == (found, False)
    with pytest.raises(InvalidTransition):
        await store.append("t1", [moved(WORKING)])


# Reading


async def test_events_are_read_from_where_one_stopped(store: TaskStorePort) -> None:
    await file(store)
    await store.append("t1", [moved(WORKING), *[piece(str(n)) for n in range(6)]])
    numbers = [event.seq for event in await store.events("t1", after=3, limit=2)]
    assert numbers == [4, 5]
    assert [event.seq for event in await store.events("t1", after=6)] == [7, 8]
    assert await store.events("t1", after=8) == ()
    assert await store.events("t1", limit=0) == ()
    assert len(await store.events("t1", after=-5)) == 8


async def test_heads_of_many_tasks_are_read_at_once(store: TaskStorePort) -> None:
    names = [f"t{n}" for n in range(1200)]
    for name in names[::400]:
        await file(store, name)
    await store.append("t400", [moved(WORKING), moved(COMPLETED)])
    assert await store.latest_seqs(names) == {"t0": 1, "t400": 3, "t800": 1}
    assert await store.latest_seqs([]) == {}


@pytest.mark.parametrize("ending", [(), (moved(COMPLETED),)])
async def test_an_artifact_in_thousands_of_pieces_is_put_together(
    store: TaskStorePort, ending: tuple[StatusUpdate, ...]
) -> None:
    await file(store)
    await store.append("t1", [moved(WORKING), piece("", append=False)])
    texts = [f"{n} 語 " for n in range(3000)]
    for first in range(0, 3000, 250):
        await store.append("t1", [piece(text) for text in texts[first : first + 250]])
    await store.append("t1", ending)
    found = await held(store)
    assert found.seq == 3003 + len(ending)
    assert found.artifacts[0].parts == text_part("".join(texts))


# Holding tasks


async def test_active_tasks_that_nobody_renews_become_orphans_once(tasks: Tasks) -> None:
    store, clock = tasks.store, tasks.clock
    for number in range(5):
        await file(store, f"t{number}")
    await store.append("t1", [moved(WORKING)])
    await store.append("t2", [moved(COMPLETED)])
    await store.append("t3", [moved(TaskState.INPUT_REQUIRED)])
    await store.append("t4", [DirectReply(message=said("hi"))])
    clock.time += LEASE - 1
    await store.renew(["t0", "nobody"])
    assert await store.claim_orphans() == ()
    clock.time += 1
    assert await store.claim_orphans() == ("t1",)
    assert await store.claim_orphans() == ()
    clock.time += LEASE
    assert set(await store.claim_orphans()) == {"t0", "t1"}


async def test_a_message_that_moves_a_task_on_takes_hold_of_it(tasks: Tasks) -> None:
    store, clock = tasks.store, tasks.clock
    await file(store)
    await store.append("t1", [moved(TaskState.INPUT_REQUIRED)])
    clock.time += 2 * LEASE
    assert await store.claim_orphans() == ()
    seen = await held(store)
    await store.continue_task(
        "t1", owner=ANN, message=message("m2"), updates=[moved(WORKING)], expected=seen
    )
    assert await store.claim_orphans() == ()
    clock.time += LEASE
    assert await store.claim_orphans() == ("t1",)


# Forgetting


async def test_tasks_that_ended_long_ago_are_forgotten(tasks: Tasks) -> None:
    store = tasks.store
    for number in range(5):
        await file(store, f"t{number}", context_id="even" if number % 2 == 0 else f"c{number}")
    await store.append("t0", [moved(COMPLETED, 2.0)])
    await store.append("t1", [moved(CANCELED, 2.5)])
    await store.append("t2", [moved(COMPLETED, 3.0)])
    await store.append("t3", [moved(TaskState.INPUT_REQUIRED, 2.0)])
    await store.save_push_config(push(task_id="t1"))
    assert await forget(store, before=3.0) == 2
    assert await forget(store, before=3.0) == 0
    assert set(await listed_ids(store)) == {"t2", "t3", "t4"}
    assert await listed_ids(store, context_id="even") == ["t2", "t4"]
    assert await store.latest_seqs(["t0", "t1", "t2"]) == {"t2": 2}
    assert await store.events("t0") == ()
    assert await store.list_push_configs("t1") == ()
    # The context of the second has no task any more, that of the first has.
    with pytest.raises(ContextNotFound):
        await file(store, "b", owner=BOB, context_id="even")
    assert (await file(store, "t1", owner=BOB, context_id="c1")).is_new
    assert (await file(store, "t0", context_id="even")).is_new


async def test_ended_tasks_are_listed_with_owner_and_whether_context_has_more(
    store: TaskStorePort,
) -> None:
    await file(store, "t1", context_id="both")
    await file(store, "t2", context_id="both")
    await file(store, "t3", context_id="half")
    await file(store, "t4", context_id="half")
    await file(store, "t5", owner=BOB)
    for name in ("t1", "t2", "t3", "t5"):
        await store.append(name, [moved(COMPLETED, 2.0)])
    await store.append("t4", [moved(TaskState.INPUT_REQUIRED, 2.0)])
    assert await store.expired(before=2.0, limit=9) == ()
    found = await store.expired(before=2.5, limit=9)
    assert set(found) == {
        ExpiredTask("t1", "both", ANN, True),
        ExpiredTask("t2", "both", ANN, True),
        ExpiredTask("t3", "half", ANN, False),
        ExpiredTask("t5", "c-t5", BOB, True),
    }
    await store.delete_expired(["t1"])
    assert ExpiredTask("t2", "both", ANN, True) in await store.expired(before=2.5, limit=9)


async def test_of_a_context_that_is_cut_by_a_page_only_the_rest_is_the_last(
    store: TaskStorePort,
) -> None:
    for number in range(5):
        await file(store, f"t{number}", context_id="c")
        await store.append(f"t{number}", [moved(COMPLETED, 2.0 + number)])
    first = await store.expired(before=9.0, limit=2)
    assert [(one.task_id, one.is_last) for one in first] == [("t0", False), ("t1", False)]
    after = await store.expired(before=9.0, limit=9, skip=3)
    assert [(one.task_id, one.is_last) for one in after] == [("t3", False), ("t4", False)]
    assert await store.expired(before=9.0, limit=9, skip=5) == ()
    assert await store.delete_expired(["t0", "t1", "t3"]) == 3
    rest = await store.expired(before=9.0, limit=2)
    assert [(one.task_id, one.is_last) for one in rest] == [("t2", True), ("t4", True)]


async def test_only_what_is_over_is_forgotten(store: TaskStorePort) -> None:
    for number, state in enumerate((WORKING, TaskState.INPUT_REQUIRED, COMPLETED)):
        await file(store, f"t{number}")
        await store.append(f"t{number}", [moved(state)])
    assert await store.delete_expired(["t0", "t1", "t2", "t2", "nowhere"]) == 1
    assert await store.delete_expired([]) == 0
    assert set(await listed_ids(store)) == {"t0", "t1"}


async def test_a_direct_reply_is_forgotten_when_its_task_is_old_enough(
    store: TaskStorePort,
) -> None:
    await file(store, at=5.0)
    await store.append("t1", [DirectReply(message=said("hi"))])
    assert await forget(store, before=5.0) == 0
    assert (await file(store)).is_new is False
    assert await forget(store, before=5.5) == 1
    assert await store.read("t1") is None
    assert (await file(store, owner=BOB)).is_new


async def test_everything_can_be_forgotten(store: TaskStorePort) -> None:
    for number in range(3):
        await file(store, f"t{number}", owner=Owner("", f"o{number}"))
        await store.append(f"t{number}", [moved(COMPLETED)])
    assert await forget(store, before=1e9) == 3
    for number in range(3):
        assert (await file(store, f"t{number}")).is_new
    assert await listed_ids(store) == ["t2", "t1", "t0"]
