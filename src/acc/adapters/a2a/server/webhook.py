"""Sending one notification to the address that a client gave."""

from collections.abc import Mapping

import httpx

from acc.adapters.a2a.wire.protocol import Wire
from acc.domain.errors import AccError, RemoteFailed
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.task import ArtifactUpdate, StatusUpdate, Task, TaskState, TaskStatus
from acc.ports.outbound.auth_ports import NotificationSignerPort
from acc.ports.outbound.storage_ports import Delivery

_TOKEN = "X-A2A-Notification-Token"  # noqa: S105 - the name of a header
_ID = "X-A2A-Notification-Id"


class Webhook:
    """Posts updates as the generation of the configuration writes them, signed if there is a key.

    The id in the header names task and event, so that a receiver can tell a repeat.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        wires: Mapping[str, Wire],
        signer: NotificationSignerPort | None = None,
    ) -> None:
        self._client = client
        self._wires = wires
        self._signer = signer

    async def __call__(self, delivery: Delivery, task: Task) -> None:
        """Return once the receiver has taken the notification, raise RemoteFailed otherwise."""
        config = delivery.config
        body = self._body(delivery, task)
        headers = {
            "Content-Type": "application/json" if config.protocol_version == "0.3" else _A2A_JSON,
            "A2A-Version": config.protocol_version,
            _ID: f"{task.id}:{delivery.event.seq}",
        }
        if config.token:
            headers[_TOKEN] = config.token
        if self._signer is not None:
            headers |= self._signer.headers(body, audience=config.url)
        if config.scheme and config.credentials:
            headers["Authorization"] = f"{config.scheme} {config.credentials}"
        try:
            # Who answers at length has nothing to say that we want; the head is enough.
            async with self._client.stream(
                "POST", config.url, content=body, headers=headers
            ) as response:
                status = response.status_code
        except AccError:
            raise
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RemoteFailed(f"the receiver cannot be reached: {type(error).__name__}") from error
        except UnicodeEncodeError:  # of a configuration that was kept before such were refused
            raise RemoteFailed("its token or credentials cannot stand in a header") from None
        if not 200 <= status < 300:
            raise RemoteFailed(f"the receiver answered {status}", remote_code=str(status))

    def _body(self, delivery: Delivery, task: Task) -> bytes:
        wire = self._wires[delivery.config.protocol_version]
        update = delivery.event.update
        if (
            delivery.config.protocol_version == "0.3"
        ):  # which sends the task, whatever happened to it
            return wire.write_task(_as_of(task, update))
        assert isinstance(update, StatusUpdate | ArtifactUpdate)  # noqa: S101 - others are not queued
        return wire.write_stream_item(task.id, task.context_id, _whole(task, update))


_A2A_JSON = "application/a2a+json"


def _as_of(task: Task, update: object) -> Task:
    """Return a task as it stood when it was updated, so that its end is told once."""
    if isinstance(update, StatusUpdate):
        return replace(task, status=update.status)
    return replace(task, status=TaskStatus(state=TaskState.WORKING, at=task.status.at))


def _whole(task: Task, update: StatusUpdate | ArtifactUpdate) -> StatusUpdate | ArtifactUpdate:
    """Return the last piece of an artifact as all of it: the pieces before it were not told."""
    if isinstance(update, StatusUpdate) or not update.append:
        return update
    name = update.artifact.artifact_id
    made = next(made for made in task.artifacts if made.artifact_id == name)
    return replace(update, artifact=made, append=False)
