"""Task stores for the contract suites, and tasks and updates to store in them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from postgres_server import new_store_url

from acc.adapters.storage.in_memory_tasks import InMemoryTaskStore
from acc.adapters.storage.postgres_tasks import PostgresTaskStore
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskQuery,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.storage_ports import SubmitResult, TaskStorePort
from acc.testing import FrozenClock

LEASE = 30.0
ANN = Owner("acme", "ann")
BOB = Owner("acme", "bob")


@dataclass(frozen=True)
class Tasks:
    store: TaskStorePort
    clock: FrozenClock


def in_memory(_: Path) -> Tasks:
    clock = FrozenClock()
    return Tasks(InMemoryTaskStore(clock=clock, app_name="desk", lease=LEASE), clock)


def sqlite(folder: Path) -> Tasks:
    clock = FrozenClock()
    store = SqliteTaskStore(folder / "acc.db", clock=clock, app_name="desk", lease=LEASE)
    return Tasks(store, clock)


def postgres(_: Path) -> Tasks:
    clock = FrozenClock()
    store = PostgresTaskStore(new_store_url(), clock=clock, app_name="desk", lease=LEASE)
    return Tasks(store, clock)


MAKERS: dict[str, Callable[[Path], Tasks]] = {
    "in_memory": in_memory,
    "postgres": postgres,
    "sqlite": sqlite,
}


def message(message_id: str = "m1", text: str = "Hello, こんにちは", task_id: str = "") -> Message:
    return Message(message_id=message_id, role=Role.USER, parts=text_part(text), task_id=task_id)


def agent_message(text: str) -> Message:
    return Message(message_id=f"a-{text}", role=Role.AGENT, parts=text_part(text))


def task(task_id: str = "t1", context_id: str = "c1", at: float = 1.0) -> Task:
    status = TaskStatus(state=TaskState.SUBMITTED, at=at)
    return Task(id=task_id, context_id=context_id, status=status)


def status_update(state: TaskState, at: float = 2.0, text: str = "") -> StatusUpdate:
    status = TaskStatus(state=state, at=at, message=agent_message(text) if text else None)
    return StatusUpdate(status=status)


def artifact_chunk(
    text: str, artifact_id: str = "a1", *, append: bool = True, last: bool = False
) -> ArtifactUpdate:
    artifact = TaskArtifact(artifact_id=artifact_id, parts=text_part(text))
    return ArtifactUpdate(artifact=artifact, append=append, last_chunk=last)


def push_config(
    config_id: str = "p1", task_id: str = "t1", url: str = "https://example.org"
) -> PushConfig:
    return PushConfig(id=config_id, task_id=task_id, url=url)


async def submit(
    store: TaskStorePort,
    task_id: str = "t1",
    *,
    owner: Owner = ANN,
    context_id: str = "",
    at: float = 1.0,
) -> SubmitResult:
    """Create a task with a message, by default in a new context."""
    new_task = task(task_id, context_id or f"c-{task_id}", at)
    return await store.create(new_task, owner=owner, message=message(f"m-{task_id}"))


async def read_task(store: TaskStorePort, task_id: str = "t1") -> Task:
    stored = await store.read(task_id)
    assert stored is not None
    return stored


async def delete_expired(store: TaskStorePort, *, before: float) -> int:
    """Delete the tasks that ended before a time and return their number."""
    expired = await store.expired(before=before, limit=1000)
    return await store.delete_expired([one.task_id for one in expired])


async def list_ids(store: TaskStorePort, owner: Owner = ANN, **query: object) -> list[str]:
    page = await store.list_tasks(owner, TaskQuery(**query))  # type: ignore[arg-type]
    assert page.total == len(page.tasks)
    return [one.id for one in page.tasks]
