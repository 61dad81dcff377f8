"""TaskAssembler and differences: updates and snapshots give the same task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acc.adapters.a2a.client.follower import TaskAssembler, differences
from acc.adapters.a2a.wire.protocol import StreamResponse
from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskEvent,
    TaskState,
    TaskStatus,
    apply_event,
)

EMPTY = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.SUBMITTED))
PARTS = st.one_of(
    st.text("ab日", min_size=1, max_size=3).map(lambda text: Part(text=text)),
    st.integers(0, 3).map(lambda number: Part(data=number)),
    st.just(Part(text="x", filename="f.txt")),
)
UPDATES = st.one_of(
    st.builds(
        lambda name, parts, append: ArtifactUpdate(
            artifact=TaskArtifact(artifact_id=name, parts=tuple(parts)), append=append
        ),
        st.sampled_from(["a", "b"]),
        st.lists(PARTS, min_size=1, max_size=3),
        st.booleans(),
    ),
    st.builds(
        lambda text: StatusUpdate(
            status=TaskStatus(
                state=TaskState.WORKING,
                message=Message(message_id=text, role=Role.AGENT, parts=(Part(text=text),)),
            ),
            metadata={"k": text},
        ),
        st.text("xy", min_size=1, max_size=2),
    ),
)


def streamed(
    item: Task | Message | StatusUpdate | ArtifactUpdate, task_id: str = "t"
) -> StreamResponse:
    return StreamResponse(task_id, "c", item)


@given(st.lists(st.tuples(UPDATES, st.booleans()), max_size=12))
async def test_snapshots_and_updates_give_same_task(
    steps: list[tuple[StatusUpdate | ArtifactUpdate, bool]],
) -> None:
    updates: list[StatusUpdate | ArtifactUpdate] = []

    async def on_update(task: Task, update: StatusUpdate | ArtifactUpdate) -> None:
        updates.append(update)

    assembler = TaskAssembler(on_update)
    await assembler.add(streamed(EMPTY))
    whole = EMPTY
    for seq, (update, as_snapshot) in enumerate(steps, start=1):
        whole = apply_event(whole, TaskEvent(seq, update))
        await assembler.add(streamed(whole if as_snapshot else update))
    outcome = assembler.result
    assert isinstance(outcome, Task)
    assert [made.parts for made in outcome.artifacts] == [m.parts for m in whole.artifacts]
    assert outcome.status == whole.status
    again = EMPTY
    for seq, update in enumerate(updates, start=1):
        again = apply_event(again, TaskEvent(seq, update))
    assert [_text(made) for made in again.artifacts] == [_text(made) for made in whole.artifacts]


@given(st.lists(UPDATES, max_size=12))
async def test_updates_give_same_task_as_applying_them(
    updates: list[StatusUpdate | ArtifactUpdate],
) -> None:
    assembler = TaskAssembler()
    await assembler.add(streamed(EMPTY))
    whole = EMPTY
    for seq, update in enumerate(updates, start=1):
        whole = apply_event(whole, TaskEvent(seq, update))
        await assembler.add(streamed(update))
        assert assembler.task is not None
        assert assembler.task.status == whole.status
    assert assembler.result == whole


async def test_many_updates_do_not_copy_history_each_time() -> None:
    assembler = TaskAssembler()
    await assembler.add(streamed(EMPTY))
    message = Message(message_id="m", role=Role.AGENT, parts=(Part(text="on it"),))
    update = StatusUpdate(status=TaskStatus(state=TaskState.WORKING, message=message))
    for _ in range(1_000):
        await assembler.add(streamed(update))
    assert assembler.task is not None
    assert len(assembler.task.history) < 20  # all of it would be copied each time
    assert isinstance(outcome := assembler.result, Task)
    assert len(outcome.history) == 999


def _text(made: TaskArtifact) -> str:
    return "".join(str(part.text or part.data) for part in made.parts)


def test_equal_snapshots_have_no_differences() -> None:
    assert list(differences(EMPTY, EMPTY)) == []


def test_split_text_parts_are_not_repeated() -> None:
    def task(*texts: str) -> Task:
        parts = tuple(Part(text=text) for text in texts)
        made = TaskArtifact(artifact_id="a", parts=parts)
        return Task(id="t", context_id="c", status=EMPTY.status, artifacts=(made,))

    assert list(differences(task("ab"), task("a", "b"))) == []
    (update,) = differences(task("ab"), task("a", "b", "c"))
    assert isinstance(update, ArtifactUpdate)
    assert (update.append, update.artifact.parts) == (True, (Part(text="c"),))


async def test_message_after_task_is_status_update() -> None:
    assembler = TaskAssembler()
    await assembler.add(streamed(EMPTY))
    reply = Message(message_id="m", role=Role.AGENT, parts=(Part(text="still at it"),))
    await assembler.add(streamed(reply))
    assert assembler.task is not None
    assert assembler.task.status.message == reply
    assert not assembler.is_settled


async def test_known_task_is_not_passed_on_again() -> None:
    updates: list[object] = []

    async def on_update(task: Task, update: object) -> None:
        updates.append(update)

    assembler = TaskAssembler(on_update, known=EMPTY)
    await assembler.add(streamed(EMPTY))
    assert updates == []
    other = TaskAssembler(on_update, known=EMPTY)
    await other.add(streamed(StatusUpdate(status=TaskStatus(state=TaskState.WORKING))))
    assert len(updates) == 1


async def test_update_of_other_task_fails() -> None:
    assembler = TaskAssembler()
    with pytest.raises(RemoteFailed, match="no response"):
        _ = assembler.result
    working = StatusUpdate(status=TaskStatus(state=TaskState.WORKING))
    with pytest.raises(RemoteFailed, match="without a task id"):
        await assembler.add(streamed(working, ""))
    await assembler.add(streamed(EMPTY))
    await assembler.add(streamed(working, ""))
    with pytest.raises(RemoteFailed, match="different task"):
        await assembler.add(streamed(working, "other"))
