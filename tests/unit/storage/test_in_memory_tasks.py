"""Tests of the in-memory task store that the contract suite does not cover."""

from task_stores import ANN, create_task, moved

from acc.adapters.storage.in_memory_tasks import InMemoryTaskStore
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.task import DirectReply, Message, Role, TaskQuery, TaskState
from acc.testing import FrozenClock


async def test_directly_answered_task_is_removed_from_the_index() -> None:
    store = InMemoryTaskStore(clock=FrozenClock())
    await create_task(store, 1)
    await create_task(store, 2)
    assert (await store.list_tasks(ANN, TaskQuery())).total == 2
    reply = Message(message_id="a1", role=Role.AGENT, parts=text_part("hi"))
    await store.append("t1", [DirectReply(message=reply)])
    await store.append("t2", [moved(TaskState.COMPLETED, 2.0)])
    assert list(store._indexes[ANN].by_context) == ["c2"]
