"""Tasks and their updates as the rows of a database, whichever database it is."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from acc.adapters.storage.invariants import Advance, encode, encode_readable
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    INTERRUPTED,
    TERMINAL,
    PushConfig,
    Task,
    TaskState,
    Update,
)
from acc.ports.outbound.storage_ports import ExpiredTask, PendingDelivery

TASK_DECODER = msgspec.json.Decoder(Task)
UPDATE_DECODER: "msgspec.json.Decoder[Update]" = msgspec.json.Decoder(Update)
CONFIG_DECODER = msgspec.json.Decoder(PushConfig)
#: State of a task with a direct reply: terminal, and not listed.
REPLIED = "replied"
TERMINAL_NAMES = (*sorted(state.value for state in TERMINAL), REPLIED)
_RESTING = TERMINAL | INTERRUPTED
#: Maximum number of events after a snapshot, which bounds the cost of reading a task.
_SNAPSHOT_INTERVAL = 256
#: Replaying so many events costs less than writing a snapshot.
_MIN_SNAPSHOT_EVENTS = 16


def state_of(name: str) -> TaskState:
    """Return the state of a row; a task with a direct reply is completed."""
    return TaskState.COMPLETED if name == REPLIED else TaskState(name)


def needs_snapshot(before: int, result: Advance) -> bool:
    """Return True if a snapshot of a task must be stored with its updates."""
    seq = result.events[-1].seq
    rests = result.updated_at is not None and result.state in _RESTING
    crosses_interval = seq // _SNAPSHOT_INTERVAL != before // _SNAPSHOT_INTERVAL
    has_many_events = seq % _SNAPSHOT_INTERVAL > _MIN_SNAPSHOT_EVENTS
    return result.is_reply or crosses_interval or (rests and has_many_events)


def encode_updates(task_id: str, updates: Sequence[Update]) -> list[tuple[Update, bytes]]:
    """Return updates with their encoded form; InvalidInput if one cannot be stored."""
    what = f"an update of task {task_id!r}"
    return [(update, encode_readable(update, what, UPDATE_DECODER)) for update in updates]


def encode_config(config: PushConfig) -> tuple[str, bytes]:
    """Return the id of a push configuration and its encoded form."""
    return config.id, encode(config, f"push configuration {config.id!r}")


def expired_tasks(
    batch: Sequence[tuple[str, str, Owner, int]],
) -> tuple[ExpiredTask, ...]:
    """Return ended tasks; each has an id, a context, an owner and the tasks of the context."""
    contexts = Counter(context_id for _, context_id, _, _ in batch)
    return tuple(
        ExpiredTask(task_id, context_id, owner, contexts[context_id] == count)
        for task_id, context_id, owner, count in batch
    )


def pending_delivery(row: Sequence[Any]) -> PendingDelivery:
    """Return a delivery from a row of a catalog."""
    app_name, task_id, caller, body, *rest = row
    return PendingDelivery(app_name, task_id, caller, CONFIG_DECODER.decode(body), *rest)
