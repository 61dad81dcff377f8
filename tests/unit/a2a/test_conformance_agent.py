"""The conformance agent behaves as the official tests require."""

import importlib.util
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from acc.application.a2a.requests import SendRequest, TaskRequest
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.bootstrap.a2a import ServeOptions, make_server
from acc.domain.errors import TaskNotCancelable
from acc.domain.value_objects.content import Part, text_part
from acc.domain.value_objects.principal import ANONYMOUS
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskState,
)

EXAMPLE = Path(__file__).parents[3] / "examples" / "conformance_agent.py"


def agent() -> Any:
    """Return the agent of the example, whose folder is no package."""
    spec = importlib.util.spec_from_file_location("conformance_agent", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.agent


@pytest.fixture
async def serve() -> AsyncIterator[ServeA2AUseCase]:
    server = make_server(agent(), ServeOptions(push=False, deduplicate=False))
    async with server.serve.open() as serving:
        yield serving


def request(message_id: str, *, wait: bool = True, task_id: str = "") -> SendRequest:
    message = Message(
        message_id=message_id, role=Role.USER, parts=text_part("hello"), task_id=task_id
    )
    return SendRequest(message=message, wait=wait)


async def send(serve: ServeA2AUseCase, message_id: str, *, task_id: str = "") -> Task:
    answer = await serve.send(ANONYMOUS, request(message_id, task_id=task_id))
    assert isinstance(answer, Task)
    return answer


FILE: dict[str, Any] = {"filename": "output.txt", "media_type": "text/plain"}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("tck-complete-task", Part(text="Hello from TCK")),
        ("tck-anything-else", Part(text="Hello from TCK")),
        ("tck-artifact-text", Part(text="Generated text content")),
        ("tck-artifact-file", Part(raw=b"file content", **FILE)),
        ("tck-artifact-file-url", Part(url="https://example.com/output.txt", **FILE)),
        ("tck-artifact-data", Part(data={"key": "value", "count": 42})),
    ],
)
async def test_scenario_completes_with_its_part(
    serve: ServeA2AUseCase, name: str, part: Part
) -> None:
    task = await send(serve, f"{name}-3f9a")
    assert task.status.state is TaskState.COMPLETED
    assert [artifact.parts for artifact in task.artifacts] == [(part,)]


async def test_message_scenario_replies_directly(serve: ServeA2AUseCase) -> None:
    answer = await serve.send(ANONYMOUS, request("tck-message-response-1"))
    assert isinstance(answer, Message)
    assert answer.parts == text_part("Direct message response")


async def test_reject_scenario_rejects_the_task(serve: ServeA2AUseCase) -> None:
    assert (await send(serve, "tck-reject-task-1")).status.state is TaskState.REJECTED


async def test_input_scenario_waits_until_completed(serve: ServeA2AUseCase) -> None:
    asked = await send(serve, "tck-input-required-1")
    states = [asked.status.state]
    for name in ("tck-input-required-2", "tck-complete-task-1"):
        states.append((await send(serve, name, task_id=asked.id)).status.state)
    assert states == [TaskState.INPUT_REQUIRED, TaskState.INPUT_REQUIRED, TaskState.COMPLETED]


async def test_other_message_creates_cancelable_task(
    serve: ServeA2AUseCase,
) -> None:
    task = await send(serve, "0b8e")
    again = await send(serve, "77d1", task_id=task.id)
    assert (again.id, again.status.state) == (task.id, TaskState.INPUT_REQUIRED)
    canceled = await serve.cancel(ANONYMOUS, TaskRequest(id=task.id))
    assert canceled.status.state is TaskState.CANCELED
    with pytest.raises(TaskNotCancelable):
        await serve.cancel(ANONYMOUS, TaskRequest(id=task.id))


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("tck-stream-001", ["Stream hello from TCK"]),
        ("tck-stream-002", []),
        ("tck-stream-003", ["Stream task lifecycle"]),
        ("tck-stream-ordering-001", ["Ordered output"]),
        ("tck-stream-artifact-text", ["Streamed text content"]),
        ("tck-stream-artifact-file", [None]),
        ("tck-stream-artifact-chunked", ["chunk-1 ", "chunk-2"]),
    ],
)
async def test_stream_scenario_sends_status_and_artifacts(
    serve: ServeA2AUseCase, name: str, texts: list[str | None]
) -> None:
    stream = await serve.stream(ANONYMOUS, request(f"{name}-1"))
    try:
        async with aclosing(stream.items()) as items:
            received = [item.item async for item in items]
    finally:
        stream.close()
    assert isinstance(received[0], Task)
    pieces = [item.artifact.parts[0].text for item in received if isinstance(item, ArtifactUpdate)]
    states = [item.status.state for item in received if isinstance(item, StatusUpdate)]
    assert pieces == texts
    assert states[-1] is TaskState.COMPLETED
    assert set(states[:-1]) <= {TaskState.WORKING}


async def test_resubscribe_scenario_keeps_the_task_working(serve: ServeA2AUseCase) -> None:
    begun = await serve.send(ANONYMOUS, request("test-resubscribe-message-id-1", wait=False))
    assert isinstance(begun, Task)
    assert not begun.is_terminal
    canceled = await serve.cancel(ANONYMOUS, TaskRequest(id=begun.id))
    assert canceled.status.state is TaskState.CANCELED
