"""However a server tells of a task, by updates or by pictures, the story is whole."""

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


def told(
    item: Task | Message | StatusUpdate | ArtifactUpdate, task_id: str = "t"
) -> StreamResponse:
    return StreamResponse(task_id, "c", item)


@given(st.lists(st.tuples(UPDATES, st.booleans()), max_size=12))
async def test_pictures_and_updates_lead_to_the_same_task(
    story: list[tuple[StatusUpdate | ArtifactUpdate, bool]],
) -> None:
    heard: list[StatusUpdate | ArtifactUpdate] = []

    async def hear(task: Task, update: StatusUpdate | ArtifactUpdate) -> None:
        heard.append(update)

    follower = TaskAssembler(hear)
    await follower.take(told(EMPTY))
    whole = EMPTY
    for seq, (update, as_picture) in enumerate(story, start=1):
        whole = apply_event(whole, TaskEvent(seq, update))
        await follower.take(told(whole if as_picture else update))
    found = follower.result
    assert isinstance(found, Task)
    assert [made.parts for made in found.artifacts] == [m.parts for m in whole.artifacts]
    assert found.status == whole.status
    again = EMPTY
    for seq, update in enumerate(heard, start=1):
        again = apply_event(again, TaskEvent(seq, update))
    assert [_text(made) for made in again.artifacts] == [_text(made) for made in whole.artifacts]


@given(st.lists(UPDATES, max_size=12))
async def test_updates_alone_lead_to_what_they_come_to_one_by_one(
    updates: list[StatusUpdate | ArtifactUpdate],
) -> None:
    follower = TaskAssembler()
    await follower.take(told(EMPTY))
    whole = EMPTY
    for seq, update in enumerate(updates, start=1):
        whole = apply_event(whole, TaskEvent(seq, update))
        await follower.take(told(update))
        assert follower.task is not None
        assert follower.task.status == whole.status
    assert follower.result == whole


async def test_a_task_that_says_much_is_followed_at_the_pace_of_what_it_says() -> None:
    follower = TaskAssembler()
    await follower.take(told(EMPTY))
    message = Message(message_id="m", role=Role.AGENT, parts=(Part(text="on it"),))
    update = StatusUpdate(status=TaskStatus(state=TaskState.WORKING, message=message))
    for _ in range(1_000):
        await follower.take(told(update))
    assert follower.task is not None
    assert len(follower.task.history) < 20  # all of it would be copied each time
    assert isinstance(found := follower.result, Task)
    assert len(found.history) == 999


def _text(made: TaskArtifact) -> str:
    return "".join(str(part.text or part.data) for part in made.parts)


def test_the_same_picture_again_tells_nothing() -> None:
    assert list(differences(EMPTY, EMPTY)) == []


def test_pieces_that_a_server_keeps_apart_are_not_told_again() -> None:
    def task(*texts: str) -> Task:
        parts = tuple(Part(text=text) for text in texts)
        made = TaskArtifact(artifact_id="a", parts=parts)
        return Task(id="t", context_id="c", status=EMPTY.status, artifacts=(made,))

    assert list(differences(task("ab"), task("a", "b"))) == []
    (update,) = differences(task("ab"), task("a", "b", "c"))
    assert isinstance(update, ArtifactUpdate)
    assert (update.append, update.artifact.parts) == (True, (Part(text="c"),))


async def test_a_message_beside_a_task_is_news_of_the_task() -> None:
    follower = TaskAssembler()
    await follower.take(told(EMPTY))
    said = Message(message_id="m", role=Role.AGENT, parts=(Part(text="still at it"),))
    await follower.take(told(said))
    assert follower.task is not None
    assert follower.task.status.message == said
    assert not follower.is_settled


async def test_what_is_known_is_not_told_again() -> None:
    heard: list[object] = []

    async def hear(task: Task, update: object) -> None:
        heard.append(update)

    follower = TaskAssembler(hear, known=EMPTY)
    await follower.take(told(EMPTY))
    assert heard == []
    other = TaskAssembler(hear, known=EMPTY)
    await other.take(told(StatusUpdate(status=TaskStatus(state=TaskState.WORKING))))
    assert len(heard) == 1


async def test_news_of_another_task_is_refused() -> None:
    follower = TaskAssembler()
    with pytest.raises(RemoteFailed, match="said nothing"):
        _ = follower.result
    working = StatusUpdate(status=TaskStatus(state=TaskState.WORKING))
    with pytest.raises(RemoteFailed, match="without an id"):
        await follower.take(told(working, ""))
    await follower.take(told(EMPTY))
    await follower.take(told(working, ""))
    with pytest.raises(RemoteFailed, match="another task"):
        await follower.take(told(working, "other"))
