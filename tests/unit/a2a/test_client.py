"""A2AClient against scripted servers: streams, polling, cards, cancellation, retries."""

import asyncio
import json
from typing import Any

import pytest
from remote_server import (
    Call,
    artifact,
    artifact_update,
    close_connection,
    message,
    raw,
    remote_server,
    result,
    rpc_error,
    status_update,
    stream,
    task,
)

from acc.adapters.a2a.client import follower
from acc.domain.errors import (
    ExtensionRequired,
    RemoteFailed,
)
from acc.domain.value_objects.content import text_of
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    StatusUpdate,
    Task,
    TaskState,
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(follower, "_FIRST_POLL_SECONDS", 0.005)


class UpdateLog:
    """Records updates as text."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    async def __call__(self, task: Task, update: StatusUpdate | ArtifactUpdate) -> None:
        if isinstance(update, StatusUpdate):
            self.entries.append(str(update.status.state))
        else:
            self.entries.append(f"{'+' if update.append else ''}{text_of(update.artifact.parts)}")


def answer_of(outcome: Task | Message) -> str:
    assert isinstance(outcome, Task)
    return text_of(outcome.artifacts[-1].parts)


# Completed tasks without artifacts and status message


def agent_status(state: str, text: str = "") -> dict[str, Any]:
    update = status_update(state)
    if text:
        update["statusUpdate"]["status"]["message"] = agent_message(text)
    return update


def agent_message(text: str, role: str = "ROLE_AGENT") -> dict[str, Any]:
    return {"messageId": "a", "role": role, "parts": [{"text": text}]}


def status_of(outcome: Task | Message) -> str:
    assert isinstance(outcome, Task)
    assert outcome.status.message is not None
    return text_of(outcome.status.message.parts)


async def test_answer_in_a_working_status_is_the_answer() -> None:
    history = [agent_message("hello", "ROLE_USER"), agent_message("looking"), agent_message("42")]
    fetched = {**task("COMPLETED"), "history": history}
    items = [
        {"task": task("SUBMITTED")},
        agent_status("WORKING", "looking"),
        agent_status("WORKING", "42"),
        agent_status("COMPLETED"),
    ]
    async with remote_server(stream(*items), result(fetched)) as server:
        outcome = await server.client().send(message())
    assert status_of(outcome) == "42"
    assert server.methods == ["SendStreamingMessage", "GetTask"]
    assert server.calls[-1].rpc["params"]["historyLength"] > 0


async def test_answer_in_the_history_is_the_answer_of_a_polled_task() -> None:
    history = [agent_message("hello", "ROLE_USER"), agent_message("42")]
    async with remote_server(
        result({"task": task("WORKING")}),
        result(task("COMPLETED")),
        result({**task("COMPLETED"), "history": history}),
        streaming=False,
    ) as server:
        outcome = await server.client().send(message())
    assert status_of(outcome) == "42"


async def test_streamed_message_is_the_answer_if_the_server_keeps_no_history() -> None:
    items = [{"task": task("SUBMITTED")}, agent_status("WORKING", "42"), agent_status("COMPLETED")]
    for fetched in (result(task("COMPLETED")), rpc_error(-32601, "no GetTask")):
        async with remote_server(stream(*items), fetched) as server:
            outcome = await server.client().send(message())
        assert status_of(outcome) == "42"


async def test_artifact_that_was_not_streamed_is_fetched() -> None:
    items = [{"task": task("SUBMITTED")}, agent_status("COMPLETED")]
    async with remote_server(stream(*items), result(task("COMPLETED", artifact("42")))) as server:
        outcome = await server.client().send(message())
    assert answer_of(outcome) == "42"


async def test_completed_task_without_an_answer_fails() -> None:
    history = [agent_message("hello", "ROLE_USER")]
    async with remote_server(result({"task": task()}), streaming=False) as server:
        server.handlers.append(result({**task(), "history": history}))
        with pytest.raises(RemoteFailed) as caught:
            await server.client().send(message())
    assert caught.value.remote_code == "no_answer"
    assert "t-1" in str(caught.value)


async def test_empty_answer_artifact_is_an_answer() -> None:
    async with remote_server(result({"task": task("COMPLETED", artifact(""))})) as server:
        server.streaming = False
        server.card = server.own_card()
        assert answer_of(await server.client().send(message())) == ""


# Streams and reconnects


async def test_stream_passes_on_each_update() -> None:
    items = [
        {"task": task("SUBMITTED")},
        status_update("WORKING"),
        artifact_update("a"),
        artifact_update("b", append=True),
    ]
    updates = UpdateLog()
    async with remote_server(stream(*items, status_update("COMPLETED"))) as server:
        outcome = await server.client().send(message(), on_update=updates)
    assert answer_of(outcome) == "ab"
    assert updates.entries == ["working", "a", "+b", "completed"]
    assert server.calls[-1].headers["a2a-version"] == "1.0"


async def test_reply_without_task_is_returned() -> None:
    response = {"message": {"messageId": "x", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}
    async with remote_server(stream(response)) as server:
        outcome = await server.client().send(message())
    assert isinstance(outcome, Message)
    assert text_of(outcome.parts) == "hi"


async def test_interrupted_stream_resumes_after_last_event() -> None:
    first = stream({"task": task("WORKING")}, artifact_update("a"), then="cut", ids=True)
    rest = stream(artifact_update("b", append=True), status_update("COMPLETED"), ids=True, first=3)
    updates = UpdateLog()
    async with remote_server(first, rest) as server:
        outcome = await server.client().send(message(), on_update=updates)
    assert answer_of(outcome) == "ab"
    assert updates.entries == ["working", "a", "+b", "completed"]
    assert server.methods == ["SendStreamingMessage", "SubscribeToTask"]
    assert server.calls[-1].headers["last-event-id"] == "2"


async def test_interrupted_stream_without_ids_is_polled() -> None:
    first = stream({"task": task("WORKING")}, artifact_update("a"), then="cut")
    updates = UpdateLog()
    async with remote_server(
        first, result(task("WORKING", artifact("ab"))), result(task("COMPLETED", artifact("abc")))
    ) as server:
        outcome = await server.client().send(message(), on_update=updates)
    assert answer_of(outcome) == "abc"
    assert updates.entries == ["working", "a", "+b", "+c", "completed"]
    assert server.methods == ["SendStreamingMessage", "GetTask", "GetTask"]


async def test_stream_without_items_is_retried_with_same_message_id() -> None:
    async with remote_server(
        close_connection, stream({"task": task("COMPLETED", artifact("a"))})
    ) as server:
        assert answer_of(await server.client().send(message())) == "a"
    ids = {call.rpc["params"]["message"]["messageId"] for call in server.calls[1:]}
    assert ids == {"m-1"}


async def test_stream_that_ends_early_is_polled() -> None:
    async with remote_server(
        stream({"task": task("WORKING")}), result(task("COMPLETED", artifact("a")))
    ) as server:
        assert answer_of(await server.client().send(message())) == "a"


async def test_idle_stream_is_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "STREAM_IDLE_SECONDS", 0.1)
    async with remote_server(
        stream({"task": task("WORKING")}, then="silence"), result(task("COMPLETED", artifact("a")))
    ) as server:
        assert answer_of(await server.client().send(message())) == "a"


async def test_unreachable_server_fails_after_retries() -> None:
    async with remote_server(
        stream({"task": task("WORKING")}, then="cut", ids=True), close_connection
    ) as server:
        with pytest.raises(RemoteFailed, match="the connection to"):
            await server.client().send(message())


async def test_snapshot_before_message_does_not_end_stream() -> None:
    before = {"task": task("INPUT_REQUIRED")}
    async with remote_server(
        stream(before, artifact_update("a"), status_update("COMPLETED"))
    ) as server:
        outcome = await server.client().send(message(task_id="t-1"))
    assert isinstance(outcome, Task)
    assert outcome.state is TaskState.COMPLETED


async def test_task_that_needs_input_is_returned() -> None:
    async with remote_server(
        stream({"task": task("WORKING")}, status_update("INPUT_REQUIRED"), then="s")
    ) as at:
        outcome = await at.client().send(message())
    assert isinstance(outcome, Task)
    assert outcome.state is TaskState.INPUT_REQUIRED


async def test_server_without_streaming_is_polled() -> None:
    async with remote_server(
        rpc_error(-32004, "no streaming"), result({"task": task("COMPLETED", artifact("a"))})
    ) as server:
        assert answer_of(await server.client().send(message())) == "a"
    assert server.methods == ["SendStreamingMessage", "SendMessage"]


async def test_stream_may_be_a_single_document() -> None:
    async with remote_server(result({"task": task("COMPLETED", artifact("a"))})) as server:
        assert answer_of(await server.client().send(message())) == "a"


# Polling and notifications


async def test_polling_continues_until_task_ends() -> None:
    updates = UpdateLog()
    async with remote_server(
        result({"task": task("SUBMITTED")}),
        result(task("WORKING", artifact("a"))),
        raw(b"", status="503 Busy"),
        result(task("COMPLETED", artifact("ab"))),
        streaming=False,
    ) as server:
        outcome = await server.client().send(message(), on_update=updates)
    assert answer_of(outcome) == "ab"
    assert updates.entries == ["a", "working", "+b", "completed"]
    assert server.calls[1].rpc["params"]["configuration"]["returnImmediately"] is True


async def test_notification_triggers_poll() -> None:
    async with remote_server(
        result({"task": task("WORKING")}), result(task("COMPLETED", artifact("a")))
    ) as server:
        server.card = server.own_card(capabilities={"streaming": True, "pushNotifications": True})
        client = server.client()
        push = PushConfig(id="p", task_id="", url="https://me.example/hook", token="x")
        for number in range(2_000):  # unknown tasks
            client.notify(str(number))
        client.notify("t-1")
        assert answer_of(await client.send(message(), push=push)) == "a"
    sent = server.calls[1].rpc["params"]["configuration"]["taskPushNotificationConfig"]
    assert sent["url"] == "https://me.example/hook"


async def test_push_is_not_requested_without_capability() -> None:
    async with remote_server(stream({"task": task("COMPLETED", artifact("a"))})) as server:
        push = PushConfig(id="p", task_id="", url="https://me.example/hook", token="x")
        assert answer_of(await server.client().send(message(), push=push)) == "a"
    assert server.methods == ["SendStreamingMessage"]
    assert "taskPushNotificationConfig" not in server.calls[1].rpc["params"]["configuration"]


async def test_existing_task_can_be_followed_and_read() -> None:
    async with remote_server(
        result(task("WORKING")), result(task("COMPLETED", artifact("a")))
    ) as server:
        client = server.client()
        assert answer_of(await client.follow("t-1")) == "a"
        assert (await client.get("t-1")).state is TaskState.COMPLETED


# Cards, protocol versions, bindings


async def test_newer_protocol_version_is_preferred() -> None:
    async with remote_server(stream({"task": task("COMPLETED", artifact("done"))})) as server:
        old = {"url": f"{server.url}/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}
        new = {"url": f"{server.url}/new", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        server.card = server.own_card(old, new)
        await server.client().send(message())
    assert server.calls[-1].path == "/new"


async def test_legacy_server_is_called_with_0_3() -> None:
    status = {"state": "completed"}
    made = {"artifactId": "answer", "parts": [{"kind": "text", "text": "old"}]}
    response = {"kind": "task", "id": "t", "contextId": "c", "status": status, "artifacts": [made]}
    async with remote_server(result(response)) as server:
        server.card = {
            "name": "old",
            "url": server.url,
            "version": "1",
            "protocolVersion": "0.3.0",
            "capabilities": {},
            "skills": [],
        }
        assert answer_of(await server.client().send(message())) == "old"
    assert server.methods == ["message/send"]
    assert server.calls[-1].rpc["params"]["message"]["parts"][0]["kind"] == "text"


async def test_card_at_legacy_path_is_found() -> None:
    async with remote_server(stream({"task": task("COMPLETED", artifact("done"))})) as server:
        card = server.card

        async def only_old(call: Call, writer: asyncio.StreamWriter) -> None:
            if call.path == "/.well-known/agent.json":
                await raw(json.dumps(card).encode())(call, writer)
            else:
                await raw(b"", status="404 Not Found")(call, writer)

        server.card = only_old
        assert (await server.client().card()).name == "remote"


async def test_missing_card_fails() -> None:
    async with remote_server(close_connection) as server:
        server.card = raw(b"", status="404 Not Found")
        with pytest.raises(RemoteFailed, match="has no agent card at /.well-known/agent-card.json"):
            await server.client().card()


async def test_url_ending_in_json_is_the_card() -> None:
    async with remote_server(close_connection) as server:
        assert (await server.client(url=f"{server.url}/cards/a.json").card()).name == "remote"
    assert [call.path for call in server.calls] == ["/cards/a.json"]


async def test_card_is_cached_for_max_age() -> None:
    async with remote_server(close_connection) as server:
        server.card_headers = ("Cache-Control: max-age=60", 'ETag: "1"')
        client = server.client()
        await client.card()
        await client.card()
        assert len(server.calls) == 1


async def test_stale_card_is_revalidated() -> None:
    async with remote_server(close_connection) as server:
        server.card_headers = ("Cache-Control: no-cache", 'ETag: "1"')
        client = server.client()
        await client.card()
        server.card = raw(b"", status="304 Not Modified")
        assert (await client.card()).name == "remote"
        assert server.calls[1].headers["if-none-match"] == '"1"'
        server.card = close_connection
        assert (await client.card()).name == "remote"


async def test_next_interface_is_used_if_one_is_unreachable() -> None:
    async with remote_server(stream({"task": task("COMPLETED", artifact("a"))})) as server:
        gone = {"url": "http://127.0.0.1:9/", "protocolBinding": "JSONRPC", "protocolVersion": "1"}
        grpc = {"url": "http://127.0.0.1:9/", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
        here = {"url": server.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        server.card = server.own_card(grpc, gone, here)
        assert answer_of(await server.client().send(message())) == "a"


async def test_other_binding_is_used_if_one_is_not_implemented() -> None:
    body = json.dumps({"task": task("COMPLETED", artifact("rest"))}).encode()
    sends = raw(b"data: " + body + b"\n\n", "Content-Type: text/event-stream")
    async with remote_server(raw(b"", status="404 Not Found"), sends) as server:
        rpc = {"url": f"{server.url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        rest = {"url": f"{server.url}/", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        server.card = server.own_card(rpc, {**rest, "tenant": "a/b"})
        assert answer_of(await server.client().send(message())) == "rest"
    assert server.calls[-1].path == "/a%2Fb/message:stream"


async def test_card_without_supported_interface_fails() -> None:
    async with remote_server(close_connection) as server:
        server.card = server.own_card(
            {"url": server.url, "protocolBinding": "SLIMRPC", "protocolVersion": "1.0"}
        )
        with pytest.raises(RemoteFailed, match="SLIMRPC 1.0"):
            await server.client().send(message())


async def test_unsupported_required_extension_fails() -> None:
    async with remote_server(close_connection) as server:
        needed = {"uri": "urn:other", "required": True}
        server.card = server.own_card(capabilities={"extensions": [needed]})
        with pytest.raises(ExtensionRequired, match="urn:other"):
            await server.client().send(message())


# Tracing, cancellation and retries


async def test_trace_context_is_sent() -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with remote_server(stream({"task": task("COMPLETED", artifact("done"))})) as server:
        client = server.client()
        await client.send(message(metadata={"traceId": trace}))
        assert "traceparent" not in server.calls[-1].headers  # no parent span is invented
        parent = f"00-{trace}-b7ad6b7169203331-01"
        await client.send(message(metadata={"traceparent": parent}))
        assert server.calls[-1].headers["traceparent"] == parent
        await client.send(message(metadata={"traceId": "mine"}))
        assert "traceparent" not in server.calls[-1].headers


async def test_cancelled_call_cancels_remote_task() -> None:
    async with remote_server(
        stream({"task": task("WORKING")}, then="silence"), result(task("CANCELED"))
    ) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await server.client().send(message())
    assert server.methods[-1] == "CancelTask"


@pytest.mark.parametrize("streaming", [True, False])
async def test_active_task_is_returned_after_follow_seconds(streaming: bool) -> None:
    working = task("WORKING")
    if streaming:
        handlers = [stream({"task": working}, then="silence")]
    else:
        handlers = [result({"task": working})] + 100 * [result(working)]
    async with remote_server(*handlers, streaming=streaming) as remote:
        active = await remote.client().send(message(), follow_seconds=0.1)
        assert isinstance(active, Task)
        assert active.state is TaskState.WORKING
        assert not [one for one in remote.methods if "Cancel" in one]


async def test_finished_task_is_returned_before_follow_seconds_end() -> None:
    updates = artifact_update("yes"), status_update("COMPLETED")
    async with remote_server(stream({"task": task("WORKING")}, *updates)) as remote:
        async with asyncio.timeout(5):
            done = await remote.client().send(message(), follow_seconds=60.0)
        assert isinstance(done, Task)
        assert done.state is TaskState.COMPLETED


async def test_timeout_cancels_remote_task() -> None:
    async with remote_server(
        stream({"task": task("WORKING")}, then="silence"), result(task("CANCELED"))
    ) as server:
        with pytest.raises(RemoteFailed, match=r"within 0\.3 seconds; its task \S+ was canceled"):
            await server.client(timeout=0.3).send(message())
    assert server.methods[-1] == "CancelTask"


async def test_timeout_names_task_that_could_not_be_canceled() -> None:
    refused = rpc_error(-32002)
    async with remote_server(stream({"task": task("WORKING")}, then="silence"), refused) as server:
        with pytest.raises(RemoteFailed, match=r"its task \S+ could not be canceled"):
            await server.client(timeout=0.3).send(message())


async def test_failing_listener_cancels_remote_task() -> None:
    async def fails(task: Task, update: object) -> None:
        raise ZeroDivisionError

    async with remote_server(
        stream({"task": task("WORKING")}, then="silence"), result(task("CANCELED"))
    ) as server:
        with pytest.raises(ZeroDivisionError):
            await server.client().send(message(), on_update=fails)
    assert server.methods[-1] == "CancelTask"


async def test_retry_after_is_respected() -> None:
    async with remote_server(
        raw(b"", "Retry-After: 0", status="429 Too Many"),
        raw(b"", "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT", status="503 Busy"),
        stream({"task": task("COMPLETED", artifact("a"))}),
    ) as server:
        assert answer_of(await server.client().send(message())) == "a"
    assert len(server.methods) == 3


async def test_busy_server_fails_after_retries() -> None:
    async with remote_server(raw(b"", "Retry-After: soon", status="503 Busy")) as server:
        with pytest.raises(RemoteFailed, match="503") as caught:
            await server.client().send(message())
    assert caught.value.retryable
    assert len(server.methods) == 3


async def test_message_is_sent_once_without_retries() -> None:
    async with remote_server(close_connection) as server:
        with pytest.raises(RemoteFailed):
            await server.client(retries=0).send(message())
    assert len(server.methods) == 1


async def test_closed_port_is_unreachable() -> None:
    async with remote_server(close_connection) as server:
        with pytest.raises(RemoteFailed, match="http://127.0.0.1:9 cannot be reached"):
            await server.client(url="http://127.0.0.1:9").send(message())
