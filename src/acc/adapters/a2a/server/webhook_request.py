"""The HTTP request of one push notification; retries are in `application/a2a`."""

import socket
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

import httpx2

from acc.adapters.a2a.wire.protocol import Wire
from acc.application.a2a.extensions import hide_extensions
from acc.application.tracing.a2a_spans import trace_notification
from acc.domain.errors import AccError, RemoteFailed
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.task import ArtifactUpdate, StatusUpdate, Task, TaskState, TaskStatus
from acc.ports.outbound.auth_ports import NotificationSignerPort
from acc.ports.outbound.storage_ports import Delivery
from acc.ports.outbound.tracing_ports import TracerPort

_TOKEN_HEADER = "X-A2A-Notification-Token"  # noqa: S105 - a header name
_CREDENTIAL_HEADERS = (
    _TOKEN_HEADER,
    "Authorization",
    "X-Agent-Signature",
    "X-A2A-Notification-Jwt",
)
_ID_HEADER = "X-A2A-Notification-Id"


class WebhookSender:
    """Post updates in the protocol version of the configuration, signed if there is a signer.

    The id header contains task and event, so that the receiver can recognise a retry. The content
    of extensions is not sent, because a receiver cannot activate them.
    """

    def __init__(
        self,
        client: httpx2.AsyncClient,
        *,
        wires: Mapping[str, Wire],
        signer: NotificationSignerPort | None = None,
        extensions: Collection[str] = (),
        tracer: TracerPort | None = None,
    ) -> None:
        self._client = client
        self._tracer = tracer
        self._extensions = extensions
        self._wires = wires
        self._signer = signer

    async def deliver(self, delivery: Delivery, task: Task) -> None:
        """Return once the receiver has accepted the notification, or raise RemoteFailed."""
        with trace_notification(self._tracer, task, delivery.config.url) as trace_parent:
            await self._deliver(delivery, task, trace_parent)

    async def _deliver(self, delivery: Delivery, task: Task, trace_parent: str) -> None:
        config = delivery.config
        body = self._body(delivery, task)
        is_v03 = config.protocol_version == "0.3"
        headers = {
            "Content-Type": "application/json" if is_v03 else "application/a2a+json",
            "A2A-Version": config.protocol_version,
            _ID_HEADER: f"{task.id}:{delivery.event.seq}",
        }
        if trace_parent:
            headers["traceparent"] = trace_parent
        if config.token:
            headers[_TOKEN_HEADER] = config.token
        if self._signer is not None:
            headers |= self._signer.headers(body, audience=config.url)
        if config.scheme and config.credentials:
            headers["Authorization"] = f"{config.scheme} {config.credentials}"
        try:
            # Only the status is needed; the body of the response is not read.
            async with self._client.stream(
                "POST", config.url, content=body, headers=headers
            ) as response:
                status = response.status_code
        except AccError:
            raise
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise RemoteFailed(_unreachable(config.url, error)) from error
        if not 200 <= status < 300:
            hint = ""
            if status in (401, 403):
                sent = [name for name in headers if name in _CREDENTIAL_HEADERS]
                with_what = f"with {', '.join(sent)}" if sent else "without credentials"
                hint = (
                    f"; it was sent {with_what}: compare the secret (ACC_PUSH_SECRET), the key or "
                    "the token with those that the receiver expects"
                )
            raise RemoteFailed(
                f"the receiver responded with status {status}{hint}", remote_code=str(status)
            )

    def _body(self, delivery: Delivery, task: Task) -> bytes:
        wire = self._wires[delivery.config.protocol_version]
        update = delivery.event.update
        if delivery.config.protocol_version == "0.3":  # which always sends the task
            return wire.write_task(hide_extensions(_task_at(task, update), self._extensions))
        assert isinstance(update, StatusUpdate | ArtifactUpdate)  # noqa: S101 - only these are queued
        shown = hide_extensions(_complete(task, update), self._extensions)
        return wire.write_stream_item(task.id, task.context_id, shown)


def _unreachable(url: str, error: Exception) -> str:
    """Return why a receiver cannot be reached; a name that does not resolve is reported as such."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            host = urlsplit(url).hostname
            return f"the host name {host!r} of the receiver cannot be resolved"
        cause = cause.__cause__ or cause.__context__
    return f"the receiver is unreachable: {type(error).__name__}"


def _task_at(task: Task, update: object) -> Task:
    """Return a task with the status of an update, so that its end is sent once."""
    if isinstance(update, StatusUpdate):
        return replace(task, status=update.status)
    return replace(task, status=TaskStatus(state=TaskState.WORKING, at=task.status.at))


def _complete(task: Task, update: StatusUpdate | ArtifactUpdate) -> StatusUpdate | ArtifactUpdate:
    """Return the last chunk of an artifact as the whole artifact; other chunks are not sent."""
    if isinstance(update, StatusUpdate) or not update.append:
        return update
    artifact_id = update.artifact.artifact_id
    artifact = next(item for item in task.artifacts if item.artifact_id == artifact_id)
    return replace(update, artifact=artifact, append=False)
