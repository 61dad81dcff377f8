"""A small agent on the server of the official SDK.

`official_server.py PORT [tokens] [0.3] [rest] [grpc] [status]`

With `grpc` the card has a gRPC interface only, on a free port.
"""

import asyncio
import sys
from collections.abc import Collection
from typing import Any

import grpc
import uvicorn
from a2a.auth.user import UnauthenticatedUser, User
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.tasks import (
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import a2a_pb2_grpc
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
    TaskState,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse

CALLERS = {"secret-ann": "ann", "secret-bob": "bob"}


class Greeter(AgentExecutor):
    """An agent that greets after a short delay."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        await self.greet(updater)
        await updater.complete()

    async def greet(self, updater: TaskUpdater) -> None:
        await asyncio.sleep(0.3)
        await updater.add_artifact([new_text_part("hello")])

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id and context.context_id
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


class StatusGreeter(Greeter):
    """An agent whose answer is only in a status with the state working."""

    async def greet(self, updater: TaskUpdater) -> None:
        for text in ("thinking", "hello"):
            message = updater.new_agent_message([new_text_part(text)])
            await updater.update_status(TaskState.TASK_STATE_WORKING, message=message)


class AuthenticatedUser(User):
    """An authenticated user."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self._name


class TokenUserBuilder(DefaultServerCallContextBuilder):
    """Identifies users by their bearer tokens."""

    def build_user(self, request: Request) -> User:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return AuthenticatedUser(CALLERS[token]) if token in CALLERS else UnauthenticatedUser()


def card(url: str, *, requires_auth: bool, options: Collection[str]) -> AgentCard:
    version = "0.3" if "0.3" in options else "1.0"
    bindings = ["HTTP+JSON"] if "rest" in options else ["JSONRPC", "HTTP+JSON"]
    if "grpc" in options:
        bindings = ["GRPC"]
    described = AgentCard(
        name="greeter",
        description="Greets whoever writes to it.",
        version="1",
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for binding in bindings
        ],
        capabilities=AgentCapabilities(
            streaming=True, push_notifications=True, extended_agent_card=True
        ),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(id="greet", name="Greet", description="Greets politely.", tags=["greeting"])
        ],
    )
    if requires_auth:
        bearer = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))
        described.security_schemes["bearer"].CopyFrom(bearer)
        described.security_requirements.append(
            SecurityRequirement(schemes={"bearer": StringList(list=[])})
        )
    return described


async def main(port: int, options: Collection[str]) -> None:
    requires_auth = "tokens" in options
    url = f"http://127.0.0.1:{port}"
    grpc_server = grpc.aio.server()
    if "grpc" in options:
        url = f"127.0.0.1:{grpc_server.add_insecure_port('127.0.0.1:0')}"
    described = card(url, requires_auth=requires_auth, options=options)
    handler = DefaultRequestHandler(
        agent_executor=StatusGreeter() if "status" in options else Greeter(),
        task_store=InMemoryTaskStore(),
        agent_card=described,
        extended_agent_card=described,
        push_config_store=InMemoryPushNotificationConfigStore(),
    )
    context = TokenUserBuilder() if requires_auth else None
    app = Starlette(
        routes=[
            *create_agent_card_routes(described, cache_control="public, max-age=60"),
            *create_jsonrpc_routes(
                handler, "/", context_builder=context, enable_v0_3_compat="0.3" in options
            ),
            *create_rest_routes(
                handler, context_builder=context, enable_v0_3_compat="0.3" in options
            ),
        ]
    )
    if requires_auth:
        app.add_middleware(TokenMiddleware)
    add: Any = a2a_pb2_grpc.add_A2AServiceServicer_to_server
    grpc_handler: Any = GrpcHandler(handler)
    if "0.3" in options:
        add = a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server
        grpc_handler = CompatGrpcHandler(handler)
    add(grpc_handler, grpc_server)
    await grpc_server.start()
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning")
    await uvicorn.Server(config).serve()


class TokenMiddleware:
    """Middleware that requires a token for everything except the card."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        token = headers.get(b"authorization", b"").decode().removeprefix("Bearer ")
        if scope["type"] != "http" or token in CALLERS or ".well-known" in scope["path"]:
            await self._app(scope, receive, send)
            return
        response = JSONResponse({}, 401, headers={"WWW-Authenticate": "Bearer"})
        await response(scope, receive, send)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2:]))
