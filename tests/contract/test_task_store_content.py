"""Contract of TaskStorePort: the limit of what is stored for an account."""

from asyncio import TaskGroup
from pathlib import Path

import pytest
from task_store_factories import (
    ANN,
    BOB,
    MAKERS,
    delete_expired,
    message,
    read_task,
    status_update,
    task,
)

from acc.domain.errors import LimitExceeded
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import Message, Role, TaskState
from acc.ports.outbound.storage_ports import ContentLimit, TaskStorePort

pytestmark = pytest.mark.parametrize("kind", sorted(MAKERS))
#: A caller that chose a tenant, and the account that it has in every tenant.
CHOSEN, ACCOUNT = Owner("acme", "carl"), Owner("", "carl")


def limit(account: Owner = ANN, *, tasks: int = 1000, size: int = 1000) -> ContentLimit:
    return ContentLimit(account, tasks, size)


def file_message(message_id: str, size: int, task_id: str = "") -> Message:
    parts = (Part(raw=b"\0" * size),)
    return Message(message_id=message_id, role=Role.USER, parts=parts, task_id=task_id)


async def store_file(
    store: TaskStorePort, name: str, size: int, content: ContentLimit, owner: Owner = ANN
) -> bool:
    """Create a task with a file; return False if the limit is exceeded."""
    try:
        await store.create(
            task(name, f"c-{name}"), owner=owner, message=file_message(name, size), content=content
        )
    except LimitExceeded:
        return False
    return True


async def test_create_fails_when_the_account_has_enough_tasks(kind: str, tmp_path: Path) -> None:
    store, two = MAKERS[kind](tmp_path).store, limit(tasks=2)
    assert [await store_file(store, name, 1, two) for name in ("t1", "t2", "t3")] == [
        True,
        True,
        False,
    ]
    assert await store.read("t3") is None
    # A repeated message stores nothing, and others have an account of their own.
    assert await store_file(store, "t1", 1, two)
    assert await store_file(store, "b1", 1, limit(BOB, tasks=2), BOB)
    await store.append("t1", [status_update(TaskState.COMPLETED)])
    assert not await store_file(store, "t4", 1, two)
    assert await delete_expired(store, before=10.0) == 1
    assert await store_file(store, "t4", 1, two)
    await store.aclose()


async def test_bytes_count_until_the_task_is_deleted(kind: str, tmp_path: Path) -> None:
    store = MAKERS[kind](tmp_path).store
    await store.create(task("t1"), owner=ANN, message=message("m1", "あ" * 100))  # 300 bytes
    assert not await store_file(store, "t2", 701, limit())
    assert await store_file(store, "t2", 700, limit())
    assert not await store_file(store, "t3", 1, limit())
    for name in ("t1", "t2"):
        await store.append(name, [status_update(TaskState.FAILED)])
    assert await delete_expired(store, before=10.0) == 2
    assert await store_file(store, "t3", 1000, limit())
    await store.aclose()


async def test_message_to_a_task_counts_for_its_account(kind: str, tmp_path: Path) -> None:
    store = MAKERS[kind](tmp_path).store
    assert await store_file(store, "t1", 400, limit())
    await store.append("t1", [status_update(TaskState.INPUT_REQUIRED)])
    before = await read_task(store)
    for size, is_stored in ((601, False), (600, True)):
        answer = file_message(f"answer-{size}", size, "t1")
        updates = [status_update(TaskState.INPUT_REQUIRED, 3.0)]
        if is_stored:
            await store.continue_task(
                "t1", owner=ANN, message=answer, updates=updates, expected=before, content=limit()
            )
        else:
            with pytest.raises(LimitExceeded):
                await store.continue_task(
                    "t1",
                    owner=ANN,
                    message=answer,
                    updates=updates,
                    expected=before,
                    content=limit(),
                )
            assert await read_task(store) == before
    assert not await store_file(store, "t2", 1, limit())
    await store.append("t1", [status_update(TaskState.COMPLETED, 4.0)])
    assert await delete_expired(store, before=10.0) == 1
    assert await store_file(store, "t2", 1000, limit())
    await store.aclose()


async def test_account_is_counted_over_its_tenants(kind: str, tmp_path: Path) -> None:
    store, two = MAKERS[kind](tmp_path).store, limit(ACCOUNT, tasks=2)
    assert await store_file(store, "t1", 1, two, CHOSEN)
    assert await store_file(store, "t2", 1, two, Owner("other", "carl"))
    assert not await store_file(store, "t3", 1, two, CHOSEN)
    assert not await store_file(store, "t3", 1, two, ACCOUNT)
    await store.append("t1", [status_update(TaskState.COMPLETED)])
    assert await delete_expired(store, before=10.0) == 1
    assert await store_file(store, "t3", 1, two, ACCOUNT)
    await store.aclose()


async def test_owner_may_have_several_accounts(kind: str, tmp_path: Path) -> None:
    # Anonymous callers are one owner, and have an account for each address.
    store, everyone = MAKERS[kind](tmp_path).store, Owner("", "anonymous")
    one, other = (limit(Owner(f"address/{n}", "anonymous"), tasks=1) for n in (1, 2))
    assert await store_file(store, "t1", 1, one, everyone)
    assert not await store_file(store, "t2", 1, one, everyone)
    assert await store_file(store, "t2", 1, other, everyone)
    await store.append("t1", [status_update(TaskState.COMPLETED)])
    assert await delete_expired(store, before=10.0) == 1
    assert await store_file(store, "t3", 1, one, everyone)
    assert not await store_file(store, "t4", 1, other, everyone)
    await store.aclose()


async def test_concurrent_tasks_do_not_exceed_the_limit(kind: str, tmp_path: Path) -> None:
    store = MAKERS[kind](tmp_path).store
    async with TaskGroup() as group:
        stored = [
            group.create_task(store_file(store, f"t{n}", 100, limit(size=500))) for n in range(20)
        ]
    assert sum(one.result() for one in stored) == 5
    await store.aclose()
