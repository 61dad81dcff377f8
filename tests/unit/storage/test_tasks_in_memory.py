"""What is the memory's own about tasks: nothing stays of what is over."""

from task_stores import ANN, file, moved

from acc.adapters.storage.in_memory_tasks import InMemoryTaskStore
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.task import DirectReply, Message, Role, TaskQuery, TaskState
from acc.testing import FrozenClock


async def test_a_task_that_was_listed_and_then_answered_directly_leaves_no_list() -> None:
    store = InMemoryTaskStore(clock=FrozenClock())
    await file(store, 1)
    await file(store, 2)
    assert (await store.list_tasks(ANN, TaskQuery())).total == 2
    reply = Message(message_id="a1", role=Role.AGENT, parts=text_part("hi"))
    await store.append("t1", [DirectReply(message=reply)])
    await store.append("t2", [moved(TaskState.COMPLETED, 2.0)])
    assert list(store._indexes[ANN].by_context) == ["c2"]
