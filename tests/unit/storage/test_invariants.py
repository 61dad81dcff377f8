"""Tests of task event application and page tokens."""

from functools import reduce
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acc.adapters.storage.invariants import page_token, parse_page_token
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, text_part
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    DirectReply,
    Message,
    MessageAdded,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskBuilder,
    TaskEvent,
    TaskState,
    TaskStatus,
    apply_event,
    apply_events,
)

TEXTS = st.sampled_from(["", "a", "語", "two words "])
PARTS = st.one_of(
    st.builds(Part, text=TEXTS),
    st.builds(Part, text=TEXTS, media_type=st.sampled_from(["text/plain", "text/html"])),
    st.builds(Part, text=TEXTS, filename=st.just("f")),
    st.builds(Part, data=st.just({"a": 1})),
)
MESSAGES = st.builds(
    Message, message_id=TEXTS, role=st.just(Role.AGENT), parts=TEXTS.map(text_part)
)
STATUSES = st.builds(
    TaskStatus, state=st.sampled_from(list(TaskState)), message=st.none() | MESSAGES
)
ARTIFACTS = st.builds(
    TaskArtifact,
    artifact_id=st.sampled_from(["one", "two"]),
    name=TEXTS,
    parts=st.lists(PARTS, max_size=3).map(tuple) | PARTS.map(lambda part: (part,)),
)
UPDATES = st.one_of(
    st.builds(ArtifactUpdate, artifact=ARTIFACTS, append=st.just(True)),
    st.builds(ArtifactUpdate, artifact=ARTIFACTS, append=st.booleans()),
    st.builds(StatusUpdate, status=STATUSES),
    st.builds(MessageAdded, message=MESSAGES),
    st.builds(DirectReply, message=MESSAGES),
)
TASK = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.SUBMITTED), seq=1)


@given(st.lists(UPDATES, max_size=12))
def test_apply_events_equals_repeated_apply_event(updates: list[ArtifactUpdate]) -> None:
    events = [TaskEvent(seq, update) for seq, update in enumerate(updates, 2)]
    assert apply_events(TASK, events) == reduce(apply_event, events, TASK)


@given(st.lists(st.tuples(UPDATES, st.booleans()), max_size=12))
def test_task_builder_can_be_read_between_events(steps: list[tuple[ArtifactUpdate, bool]]) -> None:
    builder, expected = TaskBuilder(TASK), TASK
    for seq, (update, is_read) in enumerate(steps, 2):
        builder.add(TaskEvent(seq, update))
        expected = apply_event(expected, TaskEvent(seq, update))
        head = builder.head
        assert (head.status, head.metadata, head.reply) == (
            expected.status,
            expected.metadata,
            expected.reply,
        )
        assert head.seq == expected.seq
        if is_read:
            assert builder.build() == expected
    assert builder.build() == expected


def test_artifacts_of_one_name_are_distinguished_by_position() -> None:
    twice = tuple(TaskArtifact(artifact_id="one", parts=text_part(word)) for word in ("a", "b"))
    task = replace(TASK, artifacts=twice)
    more = TaskArtifact(artifact_id="one", parts=text_part("c"))
    events = [TaskEvent(2, ArtifactUpdate(artifact=more, append=True))]
    assert apply_events(task, events) == reduce(apply_event, events, task)


def test_apply_events_takes_linear_time() -> None:
    message = Message(message_id="m", role=Role.AGENT, parts=text_part("on it"))
    status = StatusUpdate(status=TaskStatus(state=TaskState.WORKING, message=message))
    pieces = [
        ArtifactUpdate(artifact=TaskArtifact(artifact_id="one", parts=(part,)), append=True)
        for part in (Part(text="a"), Part(data=1))
    ]
    updates: list[StatusUpdate | ArtifactUpdate] = [status, *pieces] * 30_000
    began = process_time()
    task = apply_events(TASK, [TaskEvent(seq, update) for seq, update in enumerate(updates, 2)])
    assert process_time() - began < 6  # a quadratic implementation needs more than 15
    assert (len(task.history), len(task.artifacts[0].parts)) == (29_999, 60_000)


@given(st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1))
def test_page_token_round_trips(moved_at: float, move: int) -> None:
    assert parse_page_token(page_token(moved_at, move)) == (moved_at, move)


@given(st.text(max_size=40))
def test_other_text_is_rejected_as_page_token(token: str) -> None:
    with pytest.raises(InvalidInput, match="pageToken"):
        parse_page_token(token)


def test_page_token_with_nan_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="pageToken"):
        parse_page_token(page_token(float("nan"), 1))
