"""What is written is read again as it was, in every generation."""

from typing import Any

import msgspec
import pytest
from a2a_values import (
    WIRES,
    cards,
    messages,
    pages,
    pushes,
    requests,
    tasks,
    updates,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from acc.adapters.a2a.wire.card_codec import card_content, read_card, write_public_card
from acc.adapters.a2a.wire.protocol import Operation, Wire
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, ToolCall, ToolResult
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskPage,
    TaskState,
    TaskStatus,
)

EXAMPLES = settings(max_examples=20)
wires = pytest.mark.parametrize("wire", list(WIRES.values()), ids=list(WIRES))


@wires
@EXAMPLES
@given(task=tasks, message=messages)
def test_a_task_and_a_message_come_back_as_they_were(
    wire: Wire, task: Task, message: Message
) -> None:
    assert wire.read_task(wire.write_task(task)) == task
    assert wire.read_send_result(wire.write_send_result(task)) == task
    assert wire.read_send_result(wire.write_send_result(message)) == message


@wires
@EXAMPLES
@given(update=updates, task=tasks, message=messages)
def test_what_is_streamed_comes_back_with_its_task_and_context(
    wire: Wire, update: StatusUpdate | ArtifactUpdate, task: Task, message: Message
) -> None:
    assert wire.read_stream_item(wire.write_stream_item("t", "c", update)) == ("t", "c", update)
    told = wire.read_stream_item(wire.write_stream_item(task.id, task.context_id, task))
    assert told == (task.id, task.context_id, task)
    said = wire.read_stream_item(wire.write_stream_item("", "", message))
    assert said == (message.task_id, message.context_id, message)


@wires
@EXAMPLES
@given(page=pages)
def test_a_page_comes_back_with_or_without_artifacts(wire: Wire, page: TaskPage) -> None:
    assert wire.read_page(wire.write_page(page, 50, True)) == page
    bare = replace(page, tasks=tuple(replace(task, artifacts=()) for task in page.tasks))
    assert wire.read_page(wire.write_page(page, 50, False)) == bare


@wires
@EXAMPLES
@given(data=st.data())
def test_push_configurations_come_back_as_they_were(wire: Wire, data: st.DataObject) -> None:
    configs: list[PushConfig] = data.draw(st.lists(pushes(wire.version), max_size=3))
    assert wire.read_push_list(wire.write_push_list(configs)) == (tuple(configs), "")
    for config in configs:
        assert wire.read_push(wire.write_push(config)) == config


@wires
@EXAMPLES
@given(data=st.data())
def test_what_is_asked_for_comes_back_as_it_was(wire: Wire, data: st.DataObject) -> None:
    asked: tuple[Operation, Any] = data.draw(requests(wire.version))
    operation, request = asked
    if wire is WIRES["0.3 over HTTP"] and operation is Operation.PUSH_CREATE:
        request = replace(request, tenant="")
    assert wire.read_request(operation, wire.write_request(operation, request)) == request


@EXAMPLES
@given(card=cards)
def test_a_card_is_read_alike_whatever_it_was_written_for(card: AgentCard) -> None:
    signed = replace(card, signatures=({"protected": "e30", "signature": "c2ln"},))
    assert read_card(write_public_card(signed)) == signed
    assert read_card(msgspec.json.encode(card_content(signed))) == card
    for wire in WIRES.values():
        assert wire.read_card(wire.write_card(signed)) == signed


@wires
def test_calls_of_tools_and_their_results_stay_at_home(wire: Wire) -> None:
    spoken = Part(text="done")
    call = Part(call=ToolCall(id="1", name="pay"))
    result = Part(result=ToolResult(call_id="1", name="pay"))
    said = Message(message_id="m", role=Role.AGENT, parts=(call, spoken, result))
    told = wire.read_send_result(wire.write_send_result(said))
    assert isinstance(told, Message)
    assert told.parts == (spoken,)


@wires
def test_a_time_is_told_to_the_millisecond(wire: Wire) -> None:
    task = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.WORKING, at=1.0005))
    assert b'"1970-01-01T00:00:01.000Z"' in wire.write_task(task)
    late = replace(task, status=TaskStatus(state=TaskState.WORKING, at=0.9996))
    assert b'"1970-01-01T00:00:01.000Z"' in wire.write_task(late)
