"""Task stores and task updates for the storage tests."""

from pathlib import Path

from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.storage_ports import SubmitResult, TaskStorePort
from acc.testing import FrozenClock

ANN = Owner("acme", "ann")


def tasks_at(path: Path, app_name: str = "desk") -> SqliteTaskStore:
    database = SqliteDatabase(path, busy_timeout=0.1)
    return SqliteTaskStore(database, clock=FrozenClock(), app_name=app_name)


async def create_task(
    store: TaskStorePort, number: int, *, owner: Owner = ANN, context_id: str = ""
) -> SubmitResult:
    status = TaskStatus(state=TaskState.SUBMITTED, at=float(number))
    name = f"t{number}"
    task = Task(id=name, context_id=context_id or f"c{number}", status=status)
    message = Message(message_id=f"m{number}", role=Role.USER, parts=text_part("こんにちは"))
    return await store.create(task, owner=owner, message=message)


def moved(state: TaskState, at: float) -> StatusUpdate:
    return StatusUpdate(status=TaskStatus(state=state, at=at))


def piece(text: str) -> ArtifactUpdate:
    return ArtifactUpdate(
        artifact=TaskArtifact(artifact_id="a", parts=text_part(text)), append=True
    )


async def complete_task(store: TaskStorePort, number: int) -> None:
    await store.append(f"t{number}", [moved(TaskState.WORKING, number)])
    await store.append(f"t{number}", [piece("x"), moved(TaskState.COMPLETED, number)])
