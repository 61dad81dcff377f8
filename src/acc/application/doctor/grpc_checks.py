"""Checks of a gRPC server that is given by its address, without a card."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acc.application.doctor.checklist import Check
from acc.application.doctor.findings import Area, CheckSkipped, Finding, fail, note, ok, warn
from acc.application.doctor.server import MARKER, objects
from acc.application.doctor.wire import (
    TERMINAL_STATES,
    IntentProbe,
    task_state,
    wrapped_data,
)
from acc.domain.value_objects.contract import INTENTS_EXTENSION
from acc.domain.value_objects.endpoint import is_loopback_url
from acc.ports.outbound.remote_ports import GrpcProbePort, GrpcReply
from acc.ports.outbound.system_ports import IdsPort

V1, V03 = "1.0", "0.3"
_UNKNOWN_TASK = "acc-doctor-no-such-task"
_LARGE_BYTES = 32 * 1024 * 1024
#: A length-delimited field that is longer than the message.
_BROKEN_MESSAGE = b"\x12\xff\x01broken"
_UNSUPPORTED_VERSION = "99.0"
_DOMAIN = "a2a-protocol.org"
_MAX_MESSAGE_LENGTH = 200


@dataclass(kw_only=True)
class GrpcServerUnderTest:
    """The server under test and the replies that several checks share."""

    probe: GrpcProbePort
    url: str
    ids: IdsPort
    token: str = ""
    second_token: str = ""
    #: Sent instead of a short text.
    intent: IntentProbe | None = None
    #: The newest protocol version whose service exists, empty if there is none.
    version: str = ""
    _first: GrpcReply | None = None
    _to_cancel: dict[str, None] = field(default_factory=dict)

    async def find_version(self) -> None:
        """Look for the services; raise RemoteFailed if there is no server."""
        for version in (V1, V03):
            reply = await self.get(_UNKNOWN_TASK, version=version)
            if reply.status != "UNIMPLEMENTED":
                self.version = version
                return

    @property
    def require_version(self) -> str:
        """Return the version of the checked service, or raise CheckSkipped."""
        if not self.version:
            raise CheckSkipped("the server has no A2A service")
        return self.version

    async def call(
        self, method: str, params: Mapping[str, Any] | bytes, *, token: str | None = None
    ) -> GrpcReply:
        """Return the reply to a call, by default with the token of the target."""
        reply = await self.probe.call(
            method,
            params,
            version=self.require_version,
            token=self.token if token is None else token,
        )
        for item in reply.items:
            self._track(item.get("task", item))
        return reply

    async def get(self, task_id: str, *, version: str = "", token: str | None = None) -> GrpcReply:
        """Return the reply to GetTask."""
        version = version or self.require_version
        params = {"id": task_id} if version == V1 else {"name": f"tasks/{task_id}"}
        token = self.token if token is None else token
        return await self.probe.call("GetTask", params, version=version, token=token)

    def message(self) -> dict[str, Any]:
        """Return a request to send a short message that waits for the answer."""
        is_v1 = self.require_version == V1
        part = {"text": MARKER} if self.intent is None else {"data": dict(self.intent.inputs)}
        message = {
            "messageId": f"acc-doctor-{self.ids.new()}",
            "role": "ROLE_USER",
            "parts" if is_v1 else "content": [part if is_v1 else wrapped_data(part)],
            **({} if self.intent is None else self.intent.fields),
        }
        if self.version == V1:
            return {"message": message}
        return {"message": message, "configuration": {"blocking": True}}

    async def first_reply(self) -> GrpcReply:
        """Return the reply to the first message, which is sent once."""
        if self._first is None:
            self._first = await self.call("SendMessage", self.message())
        return self._first

    async def task(self) -> Mapping[str, Any]:
        """Return the task of the first message, or raise CheckSkipped."""
        reply = await self.first_reply()
        task = reply.items[0].get("task") if reply.items else None
        if not isinstance(task, dict) or not isinstance(task.get("id"), str):
            raise CheckSkipped(
                "the agent replied without a task" if reply.items else f"no task: {describe(reply)}"
            )
        return task

    def _track(self, task: Any) -> None:
        if isinstance(task, dict) and isinstance(task.get("id"), str) and task_state(task):
            if task_state(task) in TERMINAL_STATES:
                self._to_cancel.pop(task["id"], None)
            else:
                self._to_cancel[task["id"]] = None

    async def close(self) -> None:
        """Cancel the tasks of this test that have not ended."""
        for task_id in list(self._to_cancel):
            params = {"id": task_id} if self.version == V1 else {"name": f"tasks/{task_id}"}
            await self.call("CancelTask", params)


def _check_accepts_text(server: GrpcServerUnderTest, reply: GrpcReply) -> None:
    """Raise CheckSkipped if an agent rejects a text because it takes calls of intents only."""
    fields = [
        str(violation.get("field", ""))
        for detail in reply.details
        for violation in objects(detail.get("fieldViolations"))
    ]
    is_call_missing = any(
        one.startswith(("inputs.", f"metadata.{INTENTS_EXTENSION}")) for one in fields
    )
    if reply.status == "INVALID_ARGUMENT" and is_call_missing and server.intent is None:
        raise CheckSkipped(
            "the agent takes calls of its intents, not any text; repeat with --intent NAME "
            "--data JSON"
        )


def describe(reply: GrpcReply) -> str:
    """Return status, reason and message of a reply."""
    return " ".join(
        filter(None, [reply.status, reason(reply), reply.message[:_MAX_MESSAGE_LENGTH]])
    )


def reason(reply: GrpcReply) -> str:
    """Return the reason of an A2A error in the details, or an empty string."""
    reasons = [str(one.get("reason", "")) for one in reply.details if one.get("domain") == _DOMAIN]
    return next(iter(reasons), "")


async def service(server: GrpcServerUnderTest) -> Finding:
    """Look for the service of each protocol version."""
    if server.version == V1:
        return ok("lf.a2a.v1.A2AService")
    if server.version == V03:
        return warn("only a2a.v1.A2AService of version 0.3", "implement lf.a2a.v1.A2AService")
    return fail("there is no A2A service", "implement lf.a2a.v1.A2AService of a2a.proto")


async def health(server: GrpcServerUnderTest) -> Finding:
    """Ask the health service for the state of the server."""
    state = await server.probe.health()
    if state == "SERVING":
        return ok(state)
    fix = "add grpc.health.v1.Health, so that load balancers know when to send calls"
    return warn(f"the health service reports {state}", fix) if state else note("not seen", fix)


async def reflection(server: GrpcServerUnderTest) -> Finding:
    """Ask reflection for the services."""
    services = await server.probe.services()
    if services:
        return ok(", ".join(services))
    return note("not seen", "add reflection, so that tools such as grpcurl can call the server")


async def send(server: GrpcServerUnderTest) -> Finding:
    """Send a message and wait for the answer."""
    reply = await server.first_reply()
    if reply.status == "UNAUTHENTICATED" and not server.token:
        raise CheckSkipped(
            "the server requires credentials; pass them with --token-env or --tls-cert"
        )
    _check_accepts_text(server, reply)
    if reply.status == "OK" and reply.items:
        item = reply.items[0]
        return ok(f"a task, {task_state(item['task'])}" if "task" in item else "a message")
    return fail(describe(reply), "return a task or a message")


async def get(server: GrpcServerUnderTest) -> Finding:
    """Get the task of the first message."""
    task = await server.task()
    reply = await server.get(str(task["id"]))
    if reply.status == "OK" and reply.items and reply.items[0].get("id") == task["id"]:
        return ok(f"the task, {task_state(reply.items[0])}")
    return fail(describe(reply), "store tasks, and return them to their callers")


async def stream(server: GrpcServerUnderTest) -> Finding:
    """Send a message and read the stream to its end."""
    reply = await server.call("SendStreamingMessage", server.message())
    if reply.status == "UNAUTHENTICATED" and not server.token:
        raise CheckSkipped(
            "the server requires credentials; pass them with --token-env or --tls-cert"
        )
    _check_accepts_text(server, reply)
    if reply.status != "OK":
        return fail(describe(reply), "stream the updates of the task")
    if not reply.items:
        return fail("the stream is empty", "start the stream with the task or a message")
    kinds = [next(iter(item), "") for item in reply.items]
    if kinds[0] not in ("task", "message"):
        return fail(f"the stream starts with {kinds[0]}", "start it with the task or a message")
    return ok(f"{len(kinds)} items: {', '.join(dict.fromkeys(kinds))}")


async def errors(server: GrpcServerUnderTest) -> Finding:
    """Ask for a task that does not exist."""
    reply = await server.get(_UNKNOWN_TASK)
    if reply.status == "UNAUTHENTICATED" and not server.token:
        raise CheckSkipped(
            "the server requires credentials; pass them with --token-env or --tls-cert"
        )
    if reply.status != "NOT_FOUND":
        return fail(describe(reply), "return the status NOT_FOUND")
    if server.version == V1 and reason(reply) != "TASK_NOT_FOUND":
        return fail(
            f"{describe(reply)}, without google.rpc.ErrorInfo",
            f"add ErrorInfo to the status details: reason TASK_NOT_FOUND, domain {_DOMAIN}",
        )
    return ok(describe(reply))


async def version(server: GrpcServerUnderTest) -> Finding:
    """Call with the metadata of a version that does not exist."""
    if server.require_version != V1:
        raise CheckSkipped("version 0.3 does not define the metadata a2a-version")
    reply = await server.probe.call(
        "GetTask",
        {"id": _UNKNOWN_TASK},
        token=server.token,
        metadata={"a2a-version": _UNSUPPORTED_VERSION},
    )
    if reason(reply) == "VERSION_NOT_SUPPORTED":
        return ok(describe(reply))
    return fail(
        f"a2a-version {_UNSUPPORTED_VERSION} is answered with {describe(reply)}",
        "compare the metadata a2a-version with the supported versions",
    )


async def tls(server: GrpcServerUnderTest) -> Finding:
    """Look at the scheme of the address."""
    if server.url.startswith("grpcs://"):
        return ok("TLS")
    where = "on this machine only" if is_loopback_url(server.url) else "to another machine"
    return warn(f"without TLS, {where}", "use TLS (1.2 or later)")


async def authentication(server: GrpcServerUnderTest) -> Finding:
    """Send a message without and with a wrong token."""
    if not server.token:
        raise CheckSkipped("no token is given; pass one with --token-env")
    for name, token in (("without a token", ""), ("with a wrong token", "acc-doctor-wrong")):
        reply = await server.call("SendMessage", server.message(), token=token)
        if reply.status != "UNAUTHENTICATED":
            return fail(f"a message {name}: {describe(reply)}", "return UNAUTHENTICATED")
    return ok("UNAUTHENTICATED without and with a wrong token")


async def isolation(server: GrpcServerUnderTest) -> Finding:
    """Ask for the task of the first caller as the second one."""
    if not server.second_token:
        raise CheckSkipped("no second caller is given; pass one with --second-token-env")
    task = await server.task()
    other = await server.get(str(task["id"]), token=server.second_token)
    unknown = await server.get(_UNKNOWN_TASK, token=server.second_token)
    if other.status == unknown.status != "OK":
        return ok(f"{other.status}, as for a task that does not exist")
    return fail(
        f"the second caller gets {describe(other)}",
        "return NOT_FOUND for tasks of other callers",
    )


async def validation(server: GrpcServerUnderTest) -> Finding:
    """Send a message without parts."""
    params = server.message()
    params["message"].pop("parts" if server.version == V1 else "content")
    return _rejection(await server.call("SendMessage", params), ("INVALID_ARGUMENT",))


async def broken_message(server: GrpcServerUnderTest) -> Finding:
    """Send bytes that are not a protobuf message."""
    reply = await server.call("SendMessage", _BROKEN_MESSAGE)
    if reply.status in ("INTERNAL", "UNKNOWN"):
        return warn(f"{describe(reply)}, as for an error of the server", "return INVALID_ARGUMENT")
    return _rejection(reply, ("INVALID_ARGUMENT",))


async def size_limit(server: GrpcServerUnderTest) -> Finding:
    """Send a message of 32 MiB that asks for nothing."""
    field_header = b"\x7a" + _varint(_LARGE_BYTES)  # field 15, which no request has
    reply = await server.call("GetTask", field_header + bytes(_LARGE_BYTES))
    return _rejection(reply, ("RESOURCE_EXHAUSTED",))


def _rejection(reply: GrpcReply, expected: tuple[str, ...]) -> Finding:
    if reply.status in expected:
        return ok(describe(reply))
    if reply.status == "UNAUTHENTICATED":
        raise CheckSkipped(
            "the server requires credentials; pass them with --token-env or --tls-cert"
        )
    return fail(f"answered with {describe(reply)}", f"return {' or '.join(expected)}")


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


GRPC_CHECKS = (
    Check(
        "grpc-service",
        Area.PROTOCOL,
        "The service of 1.0 exists",
        "1.0のサービスを提供",
        "10.1",
        service,
    ),
    Check(
        "grpc-health",
        Area.PROTOCOL,
        "The health service responds",
        "ヘルスチェックに応答",
        "10.1, additionally: health",
        health,
    ),
    Check(
        "grpc-reflection",
        Area.PROTOCOL,
        "Reflection lists the services",
        "リフレクションに対応",
        "10.1, additionally: reflection",
        reflection,
    ),
    Check(
        "grpc-send",
        Area.PROTOCOL,
        "A message gets a reply",
        "メッセージに応答する",
        "3.1.1, 10.4",
        send,
    ),
    Check(
        "grpc-get", Area.PROTOCOL, "A task can be read", "タスクを取得できる", "3.1.3, 10.4", get
    ),
    Check(
        "grpc-errors",
        Area.PROTOCOL,
        "Errors have details",
        "エラーに詳細を含める",
        "5.4, 10.6",
        errors,
    ),
    Check(
        "grpc-version",
        Area.PROTOCOL,
        "Unsupported versions are rejected",
        "未対応のバージョンを拒否",
        "3.6.2, 10.2",
        version,
    ),
    Check(
        "grpc-stream",
        Area.STREAMING,
        "A message can be streamed",
        "ストリーミングに対応",
        "3.1.2, 10.7",
        stream,
    ),
    Check(
        "grpc-tls", Area.SECURITY, "All traffic uses TLS", "すべての通信にTLS使用", "7.1, 10.1", tls
    ),
    Check(
        "grpc-authentication",
        Area.SECURITY,
        "Calls need credentials",
        "認証されない呼び出しを拒否",
        "7.4, 13.1",
        authentication,
    ),
    Check(
        "grpc-isolation",
        Area.SECURITY,
        "Tasks of other callers are not visible",
        "他の呼び出し元のタスクを隠す",
        "3.3.2, 13.1",
        isolation,
    ),
    Check(
        "grpc-validation",
        Area.INPUT,
        "Missing fields are rejected",
        "不足した項目を拒否",
        "3.3.2, 10.6",
        validation,
    ),
    Check(
        "grpc-broken",
        Area.INPUT,
        "Invalid messages are rejected",
        "壊れたメッセージを拒否",
        "10.6, 13.4",
        broken_message,
    ),
    Check(
        "grpc-size",
        Area.INPUT,
        "Messages are limited",
        "メッセージサイズを制限",
        "13.4",
        size_limit,
    ),
)
