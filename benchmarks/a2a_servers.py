"""The servers that `a2a.py` measures, each a process of its own: ours, bare Starlette, the SDK.

    python a2a_servers.py acc|starlette|sdk [--store PATH] [--stored N]

The first line it prints is its port.
"""

import argparse
import asyncio
import json
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acc import BaseAgent
from acc.adapters.a2a.server.uvicorn import bind
from acc.adapters.auth.bearer_tokens import StaticTokens, TokenEntry, token_hash
from acc.application.runtime.context import RunContext
from acc.bootstrap import a2a as serving
from acc.domain.value_objects.content import Part
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
from acc.ports.outbound.storage_ports import TaskStorePort, UnitOfWork

HOST = "127.0.0.1"
#: Listing is for known callers only.
TOKEN = "acc_bench"  # noqa: S105 - opens nothing but a bench
CALLER = "bench"
BATCH_SIZE = 200


@dataclass(kw_only=True, eq=False)
class Echo(BaseAgent):
    """Answer immediately; `stream COUNT SECONDS` publishes COUNT pieces at that interval."""

    async def run(self, ctx: RunContext) -> str:
        if ctx.message.startswith("stream "):
            _, count, pause = ctx.message.split()
            await _publish(ctx, int(count), float(pause))
        return f"echo: {ctx.message}"


async def _publish(ctx: RunContext, count: int, pause: float) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for number in range(count):
        await asyncio.sleep(begun + (number + 1) * pause - loop.time())
        # The clock that all processes of the machine share.
        piece = json.dumps({"number": number, "at": time.clock_gettime(time.CLOCK_MONOTONIC)})
        await ctx.artifacts.publish("pieces", piece, append=number > 0, last=number == count - 1)


def serve_acc(store: str, stored: int) -> None:
    """Serve as `acc serve` does, with some tasks in the store already."""
    make_task_store = serving.make_task_store

    def filled(*args: Any) -> tuple[TaskStorePort, UnitOfWork]:
        tasks, storage = make_task_store(*args)
        asyncio.run(_fill(tasks, stored))
        return tasks, storage

    serving.make_task_store = filled  # type: ignore[assignment] # it takes what that takes
    entry = TokenEntry(sha256=token_hash(TOKEN), caller=CALLER)
    serving.serve_forever(
        Echo(name="echo", description="Echoes."),
        lambda url: serving.ServeOptions(
            public_url=url,
            store=store,
            verifier=StaticTokens([entry]) if stored else None,
            hosts=None if stored else [HOST],
        ),
        host=HOST,
        port=0,
        on_ready=lambda options: print(options.public_url.rpartition(":")[2], flush=True),
    )


async def _fill(tasks: TaskStorePort, count: int) -> None:
    for first in range(0, count, BATCH_SIZE):
        async with asyncio.TaskGroup() as group:
            for number in range(first, min(first + BATCH_SIZE, count)):
                group.create_task(_file(tasks, number))


async def _file(tasks: TaskStorePort, number: int) -> None:
    """Store a task that looks like one that was sent, run and completed."""
    now = time.time()
    parts = (Part(text="hello there"),)
    message = Message(message_id=f"stored-{number}", role=Role.USER, parts=parts)
    status = TaskStatus(state=TaskState.SUBMITTED, at=now)
    task = Task(id=f"task-{number}", context_id=f"context-{number}", status=status)
    await tasks.create(task, owner=Owner("", CALLER), message=message)
    answer = TaskArtifact(artifact_id="answer", name="answer", parts=parts)
    await tasks.append(
        task.id,
        [
            StatusUpdate(status=TaskStatus(state=TaskState.WORKING, at=now)),
            ArtifactUpdate(artifact=answer, last_chunk=True),
            StatusUpdate(status=TaskStatus(state=TaskState.COMPLETED, at=now)),
        ],
    )


def serve_starlette() -> None:
    """Serve an echo with no task behind it, which answers JSON of the same shape."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def echo(request: Request) -> JSONResponse:
        body = await request.json()
        message = body["params"]["message"]
        parts = [{"text": f"echo: {message['parts'][0]['text']}"}]
        task = {
            "id": "b7a3a9e0c4f14c9dbb5e2b0f6d1c8a37",
            "contextId": "0f6d1c8a37b7a3a9e0c4f14c9dbb5e2b",
            "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-11-16T00:00:00.000Z"},
            "artifacts": [{"artifactId": "answer", "name": "answer", "parts": parts}],
            "history": [message],
        }
        return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "result": {"task": task}})

    _serve_with_uvicorn(Starlette(routes=[Route("/", echo, methods=["POST"])]))


def serve_sdk() -> None:
    """Serve the same agent with the official SDK, its tasks in memory."""
    from a2a.helpers.proto_helpers import new_task_from_user_message
    from a2a.server.agent_execution import AgentExecutor, RequestContext
    from a2a.server.events import EventQueue
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
    from a2a.types import AgentCapabilities, AgentCard
    from a2a.types import Part as SdkPart
    from starlette.applications import Starlette

    class Executor(AgentExecutor):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            assert context.message is not None
            task = new_task_from_user_message(context.message)
            task.id, task.context_id = context.task_id or "", context.context_id or ""
            await event_queue.enqueue_event(task)
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            await updater.start_work()
            parts = [SdkPart(text=f"echo: {context.get_user_input()}")]
            await updater.add_artifact(parts, name="answer", last_chunk=True)
            await updater.complete()

        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
            raise NotImplementedError

    logging.getLogger("a2a").setLevel(logging.ERROR)  # the card is not what is measured
    card = AgentCard(name="echo", version="1", capabilities=AgentCapabilities(streaming=True))
    handler = DefaultRequestHandler(
        agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card
    )
    _serve_with_uvicorn(Starlette(routes=create_jsonrpc_routes(handler, "/")))


def _serve_with_uvicorn(app: Any) -> None:
    import uvicorn

    listening = bind(HOST, 0)
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", log_config=None, access_log=False, backlog=2048
    )
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(config).run(sockets=[listening])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("acc", "starlette", "sdk"))
    parser.add_argument("--store", type=Path, help="a SQLite file; in memory without it")
    parser.add_argument("--stored", type=int, default=0, help="tasks that are there already")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    if options.kind == "acc":
        serve_acc(str(options.store or "memory"), options.stored)
    elif options.kind == "starlette":
        serve_starlette()
    else:
        serve_sdk()


if __name__ == "__main__":
    main()
