"""`acc doctor` with gRPC servers: a correct one, one with tokens, and a faulty one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from a2a.types import a2a_pb2
from grpc_app import served_over_grpc

from acc.a2a import StaticTokens, TokenEntry, token_hash
from acc.application.doctor.findings import CheckStatus
from acc.application.doctor.wire import IntentProbe
from acc.application.use_cases.diagnose_server import Diagnosis
from acc.bootstrap.doctor import make_grpc_doctor
from acc.contracts import IntentAgent, intent
from acc.domain.errors import InvalidInput, RemoteFailed


async def diagnose(target: str, **options: Any) -> Diagnosis:
    url = f"grpc://{target}"
    async with make_grpc_doctor(url, timeout=10) as doctor:
        return await doctor.run(url, **options)


def statuses(diagnosis: Diagnosis) -> dict[str, str]:
    return {result.id.removeprefix("grpc-"): result.status.value for result in diagnosis.results}


async def test_own_server_passes_all_checks() -> None:
    async with served_over_grpc() as app:
        diagnosis = await diagnose(app.target)
    assert diagnosis.interface == "GRPC 1.0"
    assert not diagnosis.has_failed
    assert statuses(diagnosis) == {
        **dict.fromkeys(
            ("service", "health", "reflection", "send", "get", "errors", "version"), "ok"
        ),
        "stream": "ok",
        "tls": "warn",
        **dict.fromkeys(("authentication", "isolation"), "skipped"),
        **dict.fromkeys(("validation", "broken", "size"), "ok"),
    }


async def test_server_with_tokens_passes_checks_of_callers() -> None:
    entries = [TokenEntry(sha256=token_hash(name), caller=name) for name in ("ann", "bob")]
    async with served_over_grpc(verifier=StaticTokens(entries)) as app:
        without = statuses(await diagnose(app.target))
        assert (without["send"], without["stream"], without["errors"]) == ("skipped",) * 3
        found = statuses(await diagnose(app.target, token="ann", second_token="bob"))
        assert (found["send"], found["authentication"], found["isolation"]) == ("ok",) * 3


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_agent_with_intents_is_checked_with_a_call_of_one(version: str) -> None:
    @intent
    def translate(text: str, language: str) -> str:
        """Translate a text."""
        return f"{text} ({language})"

    @intent
    def count(text: str) -> int:
        """Count the characters of a text."""
        return len(text)

    root = IntentAgent(name="desk", intents=[translate, count])
    call = IntentProbe(intent="translate", inputs={"text": "駅", "language": "de"})
    async with served_over_grpc(root=root, protocol_versions=(version,)) as app:
        text = await diagnose(app.target)
        called = await diagnose(app.target, call=call)
        wrong = await diagnose(app.target, call=IntentProbe(intent="translate", inputs={}))
    assert not text.has_failed
    assert (statuses(text)["send"], statuses(text)["stream"]) == ("skipped", "skipped")
    assert {statuses(called)[name] for name in ("send", "get", "stream", "validation")} == {"ok"}
    assert statuses(wrong)["send"] == "fail"


async def test_server_of_0_3_is_checked_with_0_3() -> None:
    async with served_over_grpc(protocol_versions=("0.3",)) as app:
        diagnosis = await diagnose(app.target)
    found = statuses(diagnosis)
    assert diagnosis.interface == "GRPC 0.3"
    assert (found["service"], found["version"]) == ("warn", "skipped")
    assert {found[name] for name in ("send", "get", "stream", "errors", "validation")} == {"ok"}


class Faulty(grpc.GenericRpcHandler):  # type: ignore[misc] # grpcio has no types
    """Answers each call with a task, whatever it asks for."""

    def service(self, details: Any) -> Any:
        if "lf.a2a.v1" not in details.method:
            return None

        async def answer(request: bytes, context: Any) -> bytes:
            task = a2a_pb2.Task(id="t", context_id="c")
            task.status.state = a2a_pb2.TaskState.TASK_STATE_COMPLETED
            if "SendMessage" in details.method:
                return a2a_pb2.SendMessageResponse(task=task).SerializeToString()
            return task.SerializeToString()

        async def nothing(request: bytes, context: Any) -> AsyncIterator[bytes]:
            items: tuple[bytes, ...] = ()
            for item in items:
                yield item

        if "Stream" in details.method:
            return grpc.unary_stream_rpc_method_handler(nothing)
        return grpc.unary_unary_rpc_method_handler(answer)


@asynccontextmanager
async def faulty_server() -> AsyncIterator[str]:
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((Faulty(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def test_faulty_server_fails_checks_with_fixes() -> None:
    async with faulty_server() as target:
        diagnosis = await diagnose(target, token="ann", second_token="bob")
    found = statuses(diagnosis)
    assert found == {
        **dict.fromkeys(("service", "send", "get"), "ok"),
        **dict.fromkeys(("health", "reflection"), "note"),
        **dict.fromkeys(("errors", "version", "stream", "authentication", "isolation"), "fail"),
        "tls": "warn",
        **dict.fromkeys(("validation", "broken", "size"), "fail"),
    }
    assert all(result.fix for result in diagnosis.results if result.status is CheckStatus.FAIL)


async def test_selected_checks_run_alone_and_unknown_ones_are_rejected() -> None:
    async with served_over_grpc() as app:
        assert list(statuses(await diagnose(app.target, only=("grpc-health",)))) == ["health"]
        assert app.agent.log == []
        with pytest.raises(InvalidInput, match="grpc-health"):
            await diagnose(app.target, only=("nothing",))


async def test_missing_server_is_reported() -> None:
    with pytest.raises(RemoteFailed):
        await diagnose("127.0.0.1:9")
