"""Notifications contain whole artifacts, in both protocol versions."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from acc.adapters.a2a.server.dispatch import RPC_WIRES
from acc.adapters.a2a.server.webhook_request import WebhookSender
from acc.adapters.auth.notification_signatures import HmacSigner
from acc.adapters.http.client import NetworkOptions, guarded_client
from acc.adapters.storage.in_memory_tasks import InMemoryTaskStore
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.application.a2a.projection import INPUT_REQUEST
from acc.application.a2a.webhook_retries import PushDelivery
from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.content import Part, text_part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskEvent,
    TaskState,
    TaskStatus,
    Update,
)
from acc.ports.outbound.storage_ports import Delivery, TaskStorePort
from acc.testing import FrozenClock

ANN = Owner("acme", "ann")
Reopen = Callable[[], TaskStorePort]


@pytest.fixture(params=["memory", "sqlite"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Reopen:
    """Return the store as a server finds it when it starts; one in memory is never left."""
    clock = FrozenClock()
    if request.param == "sqlite":
        return lambda: SqliteTaskStore(tmp_path / "acc.db", clock=clock, app_name="desk")
    stored = InMemoryTaskStore(clock=clock, app_name="desk")
    return lambda: stored


def moved(state: TaskState) -> StatusUpdate:
    return StatusUpdate(status=TaskStatus(state=state, at=2.0))


def piece(*parts: Part, append: bool = True, last: bool = False) -> ArtifactUpdate:
    artifact = TaskArtifact(artifact_id="report", name="report", parts=parts)
    return ArtifactUpdate(artifact=artifact, append=append, last_chunk=last)


async def notifications_of(
    reopen: Reopen, protocol_version: str, *updates: Update
) -> list[dict[str, Any]]:
    """Store updates, end that server, and return what another one posts until the task is over."""
    store = reopen()
    task = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.SUBMITTED, at=1.0))
    message = Message(message_id="m", role=Role.USER, parts=text_part("hello"))
    push = PushConfig(
        id="p", task_id="t", url="https://me.example/hook", protocol_version=protocol_version
    )
    await store.create(task, owner=ANN, message=message, push=push)
    for update in (*updates, moved(TaskState.COMPLETED)):
        await store.append("t", [update])
    if isinstance(store, SqliteTaskStore):
        await store.aclose()
    store = reopen()
    bodies: list[dict[str, Any]] = []
    over = asyncio.Event()

    def take(request: httpx2.Request) -> httpx2.Response:
        bodies.append(msgspec.json.decode(request.content))
        if b"completed" in request.content.lower():
            over.set()
        return httpx2.Response(204)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(take)) as client:
        delivery = PushDelivery(
            tasks=store,
            sender=WebhookSender(client, wires=RPC_WIRES, extensions=(INPUT_REQUEST,)),
            poll_interval=0.01,
        )
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            work = group.create_task(delivery.run())
            await over.wait()
            work.cancel()
    await store.aclose()
    return bodies


async def test_last_chunk_sends_whole_artifact(reopen: Reopen) -> None:
    data = Part(data={"n": 1}, media_type="application/json")
    bodies = await notifications_of(
        reopen,
        "1.0",
        moved(TaskState.WORKING),
        piece(Part(text="one, "), append=False),
        piece(Part(text="two, ")),
        piece(data),
        piece(Part(text="three"), last=True),
    )
    assert [list(body) for body in bodies] == [
        ["statusUpdate"],
        ["artifactUpdate"],
        ["statusUpdate"],
    ]
    update = bodies[1]["artifactUpdate"]
    parts = update["artifact"]["parts"]
    assert [part.get("text", part.get("data")) for part in parts] == [
        "one, two, ",
        {"n": 1},
        "three",
    ]
    assert (update.get("append", False), update["lastChunk"]) == (False, True)


async def test_chunked_artifact_is_sent_once(reopen: Reopen) -> None:
    pieces = [piece(Part(text=f"{number} ")) for number in range(300)]
    bodies = await notifications_of(
        reopen, "1.0", piece(Part(text="-1 "), append=False), *pieces, piece(last=True)
    )
    (part,) = bodies[0]["artifactUpdate"]["artifact"]["parts"]
    assert part["text"] == "".join(f"{number} " for number in range(-1, 300))
    assert len(bodies) == 2


async def test_unchunked_artifact_is_sent_unchanged(reopen: Reopen) -> None:
    draft = piece(Part(text="draft"), append=False, last=True)
    final = piece(Part(text="final"), append=False, last=True)
    bodies = await notifications_of(reopen, "1.0", draft, final)
    texts = [body["artifactUpdate"]["artifact"]["parts"][0]["text"] for body in bodies[:2]]
    assert texts == ["draft", "final"]


async def test_v03_notification_contains_the_task(reopen: Reopen) -> None:
    bodies = await notifications_of(
        reopen, "0.3", piece(Part(text="a"), append=False), piece(Part(text="b"), last=True)
    )
    assert [body["kind"] for body in bodies] == ["task", "task"]
    assert bodies[0]["artifacts"][0]["parts"][0]["text"] == "ab"


@pytest.mark.parametrize("protocol_version", ["1.0", "0.3"])
async def test_notification_contains_no_extension_data(
    reopen: Reopen, protocol_version: str
) -> None:
    data = Part(data={"requests": []}, metadata={"extension": INPUT_REQUEST})
    question = Message(message_id="q", role=Role.AGENT, parts=(Part(text="Which?"), data))
    waiting = StatusUpdate(status=TaskStatus(state=TaskState.INPUT_REQUIRED, message=question))
    bodies = await notifications_of(reopen, protocol_version, waiting)
    message = bodies[0].get("statusUpdate", bodies[0])["status"]["message"]
    assert [part.get("text") for part in message["parts"]] == ["Which?"]


def delivery_of(url: str) -> Delivery:
    event = TaskEvent(seq=1, update=moved(TaskState.COMPLETED))
    config = PushConfig(id="p", task_id="t", url=url, token="the-token")
    return Delivery(id=1, config=config, event=event, attempts=0, owner=ANN)


TASK = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.COMPLETED, at=1.0))


async def test_name_that_does_not_resolve_is_reported() -> None:
    async def resolve(host: str, port: int) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    network = NetworkOptions(resolve=resolve)
    async with guarded_client(network=network) as client:
        sender = WebhookSender(client, wires=RPC_WIRES)
        with pytest.raises(RemoteFailed, match="'nowhere.example' of the receiver cannot be"):
            await sender.deliver(delivery_of("https://nowhere.example/hook"), TASK)


async def test_rejected_credentials_are_explained_without_the_secret() -> None:
    def respond(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(401)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(respond)) as client:
        sender = WebhookSender(client, wires=RPC_WIRES, signer=HmacSigner("s" * 16))
        with pytest.raises(RemoteFailed) as caught:
            await sender.deliver(delivery_of("https://me.example/hook"), TASK)
    text = str(caught.value)
    assert "status 401" in text
    assert "ACC_PUSH_SECRET" in text
    assert "X-A2A-Notification-Token, X-Agent-Signature" in text
    assert "the-token" not in text
