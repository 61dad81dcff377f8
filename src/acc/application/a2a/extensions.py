"""Content of protocol extensions, which only clients that activated them receive."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar, cast

from acc.domain.value_objects.base import replace
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskStatus,
)

#: Streams without event ids of their own, as over gRPC, have them in the metadata of their items.
EVENT_IDS = "urn:acc:a2a:event-ids:v1"
Item = TypeVar("Item", bound=Task | Message | StatusUpdate | ArtifactUpdate)


def hide_extensions(item: Item, hidden: Collection[str]) -> Item:
    """Return an item without the content of these extensions, given by their URIs.

    These are parts whose metadata names the extension, and metadata under its URI. Messages of
    users are unchanged.
    """
    if not hidden or isinstance(item, ArtifactUpdate):
        return item
    if isinstance(item, Message):
        return cast(Item, _hide_in_message(item, hidden))
    metadata = _hide_in_metadata(item.metadata, hidden)
    status = _hide_in_status(item.status, hidden)
    if isinstance(item, StatusUpdate):
        return replace(item, status=status, metadata=metadata)
    history = tuple([_hide_in_message(message, hidden) for message in item.history])
    if status is item.status and metadata is item.metadata and history == item.history:
        return item
    return replace(item, status=status, metadata=metadata, history=history)


def _hide_in_status(status: TaskStatus, hidden: Collection[str]) -> TaskStatus:
    message = status.message
    if message is None:
        return status
    return replace(status, message=_hide_in_message(message, hidden))


def _hide_in_message(message: Message, hidden: Collection[str]) -> Message:
    if message.role is Role.USER:
        return message
    is_affected = any(
        part.metadata and part.metadata.get("extension") in hidden for part in message.parts
    )
    if not is_affected:
        return message
    return replace(
        message,
        parts=tuple(part for part in message.parts if part.metadata.get("extension") not in hidden),
        extensions=tuple(uri for uri in message.extensions if uri not in hidden),
    )


def _hide_in_metadata(metadata: Mapping[str, Any], hidden: Collection[str]) -> Mapping[str, Any]:
    if not metadata or not any(name in hidden for name in metadata):
        return metadata
    return {name: value for name, value in metadata.items() if name not in hidden}


def add_event_id(item: Item, seq: int) -> Item:
    """Return an item of a stream whose metadata contains the id of its event."""
    if isinstance(item, Message):  # the last item, after which nothing can be missed
        return item
    return cast(Item, replace(item, metadata={**item.metadata, EVENT_IDS: seq}))
