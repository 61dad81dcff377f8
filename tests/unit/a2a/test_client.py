"""The client against servers of others: good ones, old ones, broken ones and hostile ones."""

import asyncio
import json
import logging
from typing import Any

import pytest
from foreign_server import (
    Call,
    artifact,
    fault,
    foreign,
    hang_up,
    message,
    moved,
    piece,
    raw,
    result,
    stream,
    task,
)

from acc.adapters.a2a.client import follower as exchange
from acc.adapters.a2a.client import transport as channel_module
from acc.domain.errors import (
    AccError,
    AddressRefused,
    ExtensionRequired,
    RemoteFailed,
    TaskNotFound,
    Unauthenticated,
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
    monkeypatch.setattr(exchange, "_FIRST_PAUSE", 0.005)
    monkeypatch.setattr(exchange, "_FIRST_POLL", 0.005)


class Heard:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def __call__(self, task: Task, update: StatusUpdate | ArtifactUpdate) -> None:
        if isinstance(update, StatusUpdate):
            self.told.append(str(update.status.state))
        else:
            self.told.append(f"{'+' if update.append else ''}{text_of(update.artifact.parts)}")


def said(found: Task | Message) -> str:
    assert isinstance(found, Task)
    return text_of(found.artifacts[-1].parts)


# Streaming, and what becomes of it when the line breaks


async def test_a_stream_is_told_piece_by_piece() -> None:
    items = [{"task": task("SUBMITTED")}, moved("WORKING"), piece("a"), piece("b", append=True)]
    heard = Heard()
    async with foreign(stream(*items, moved("COMPLETED"))) as server:
        found = await server.client().send(message(), hear=heard)
    assert said(found) == "ab"
    assert heard.told == ["working", "a", "+b", "completed"]
    assert server.calls[-1].headers["a2a-version"] == "1.0"


async def test_a_message_alone_is_the_answer() -> None:
    told = {"message": {"messageId": "x", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}
    async with foreign(stream(told)) as server:
        found = await server.client().send(message())
    assert isinstance(found, Message)
    assert text_of(found.parts) == "hi"


async def test_a_stream_that_is_cut_goes_on_after_the_last_event() -> None:
    first = stream({"task": task("WORKING")}, piece("a"), then="cut", ids=True)
    rest = stream(piece("b", append=True), moved("COMPLETED"), ids=True, first=3)
    heard = Heard()
    async with foreign(first, rest) as server:
        found = await server.client().send(message(), hear=heard)
    assert said(found) == "ab"
    assert heard.told == ["working", "a", "+b", "completed"]
    assert server.methods == ["SendStreamingMessage", "SubscribeToTask"]
    assert server.calls[-1].headers["last-event-id"] == "2"


async def test_a_stream_without_numbers_that_is_cut_is_followed_by_looking() -> None:
    first = stream({"task": task("WORKING")}, piece("a"), then="cut")
    heard = Heard()
    async with foreign(
        first, result(task("WORKING", artifact("ab"))), result(task("COMPLETED", artifact("abc")))
    ) as server:
        found = await server.client().send(message(), hear=heard)
    assert said(found) == "abc"
    assert heard.told == ["working", "a", "+b", "+c", "completed"]
    assert server.methods == ["SendStreamingMessage", "GetTask", "GetTask"]


async def test_a_stream_that_breaks_before_its_first_word_is_asked_for_again() -> None:
    async with foreign(hang_up, stream({"task": task("COMPLETED", artifact("a"))})) as server:
        assert said(await server.client().send(message())) == "a"
    ids = {call.rpc["params"]["message"]["messageId"] for call in server.calls[1:]}
    assert ids == {"m-1"}


async def test_a_stream_that_ends_early_is_looked_after() -> None:
    async with foreign(
        stream({"task": task("WORKING")}), result(task("COMPLETED", artifact("a")))
    ) as server:
        assert said(await server.client().send(message())) == "a"


async def test_a_silent_stream_is_looked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "IDLE", 0.1)
    async with foreign(
        stream({"task": task("WORKING")}, then="silence"), result(task("COMPLETED", artifact("a")))
    ) as server:
        assert said(await server.client().send(message())) == "a"


async def test_a_server_that_stays_away_is_given_up_on() -> None:
    async with foreign(stream({"task": task("WORKING")}, then="cut", ids=True), hang_up) as server:
        with pytest.raises(RemoteFailed, match="did not come through"):
            await server.client().send(message())


async def test_a_task_that_waited_is_not_taken_for_one_that_waits_again() -> None:
    before = {"task": task("INPUT_REQUIRED")}
    async with foreign(stream(before, moved("WORKING"), moved("COMPLETED"))) as server:
        found = await server.client().send(message(task_id="t-1"))
    assert isinstance(found, Task)
    assert found.state is TaskState.COMPLETED


async def test_a_task_that_waits_is_returned() -> None:
    async with foreign(stream({"task": task("WORKING")}, moved("INPUT_REQUIRED"), then="s")) as at:
        found = await at.client().send(message())
    assert isinstance(found, Task)
    assert found.state is TaskState.INPUT_REQUIRED


async def test_a_server_that_does_not_stream_after_all_is_polled() -> None:
    async with foreign(
        fault(-32004, "no streaming"), result({"task": task("COMPLETED", artifact("a"))})
    ) as server:
        assert said(await server.client().send(message())) == "a"
    assert server.methods == ["SendStreamingMessage", "SendMessage"]


async def test_a_stream_may_be_answered_by_one_document() -> None:
    async with foreign(result({"task": task("COMPLETED", artifact("a"))})) as server:
        assert said(await server.client().send(message())) == "a"


# Polling and notifications


async def test_a_server_without_streams_is_looked_at_until_it_is_done() -> None:
    heard = Heard()
    async with foreign(
        result({"task": task("SUBMITTED")}),
        result(task("WORKING", artifact("a"))),
        raw(b"", status="503 Busy"),
        result(task("COMPLETED", artifact("ab"))),
        streaming=False,
    ) as server:
        found = await server.client().send(message(), hear=heard)
    assert said(found) == "ab"
    assert heard.told == ["a", "working", "+b", "completed"]
    assert server.calls[1].rpc["params"]["configuration"]["returnImmediately"] is True


async def test_a_notification_is_followed_by_a_look() -> None:
    async with foreign(
        result({"task": task("WORKING")}), result(task("COMPLETED", artifact("a")))
    ) as server:
        server.card = server.own_card(capabilities={"streaming": True, "pushNotifications": True})
        client = server.client()
        push = PushConfig(id="p", task_id="", url="https://me.example/hook", token="x")
        for number in range(2_000):  # of tasks that nobody waits for
            client.notified(str(number))
        client.notified("t-1")
        assert said(await client.send(message(), push=push)) == "a"
    sent = server.calls[1].rpc["params"]["configuration"]["taskPushNotificationConfig"]
    assert sent["url"] == "https://me.example/hook"


async def test_a_server_without_notifications_is_not_asked_for_any() -> None:
    async with foreign(stream({"task": task("COMPLETED", artifact("a"))})) as server:
        push = PushConfig(id="p", task_id="", url="https://me.example/hook", token="x")
        assert said(await server.client().send(message(), push=push)) == "a"
    assert server.methods == ["SendStreamingMessage"]
    assert "taskPushNotificationConfig" not in server.calls[1].rpc["params"]["configuration"]


async def test_a_task_of_earlier_can_be_followed_and_looked_at() -> None:
    async with foreign(result(task("WORKING")), result(task("COMPLETED", artifact("a")))) as server:
        client = server.client()
        assert said(await client.follow("t-1")) == "a"
        assert (await client.get("t-1")).state is TaskState.COMPLETED


# Cards, generations, bindings


async def test_the_newer_generation_is_spoken_where_a_card_lists_both() -> None:
    async with foreign(stream({"task": task()})) as server:
        old = {"url": f"{server.url}/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}
        new = {"url": f"{server.url}/new", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        server.card = server.own_card(old, new)
        await server.client().send(message())
    assert server.calls[-1].path == "/new"


async def test_an_older_server_is_spoken_to_in_its_own_words() -> None:
    status = {"state": "completed"}
    made = {"artifactId": "answer", "parts": [{"kind": "text", "text": "old"}]}
    told = {"kind": "task", "id": "t", "contextId": "c", "status": status, "artifacts": [made]}
    async with foreign(result(told)) as server:
        server.card = {
            "name": "old",
            "url": server.url,
            "version": "1",
            "protocolVersion": "0.3.0",
            "capabilities": {},
            "skills": [],
        }
        assert said(await server.client().send(message())) == "old"
    assert server.methods == ["message/send"]
    assert server.calls[-1].rpc["params"]["message"]["parts"][0]["kind"] == "text"


async def test_the_card_is_looked_for_at_the_older_place_too() -> None:
    async with foreign(stream({"task": task()})) as server:
        card = server.card

        async def only_old(call: Call, writer: asyncio.StreamWriter) -> None:
            if call.path == "/.well-known/agent.json":
                await raw(json.dumps(card).encode())(call, writer)
            else:
                await raw(b"", status="404 Not Found")(call, writer)

        server.card = only_old
        assert (await server.client().card()).name == "foreign"


async def test_a_server_without_a_card_is_told_so() -> None:
    async with foreign(hang_up) as server:
        server.card = raw(b"", status="404 Not Found")
        with pytest.raises(RemoteFailed, match="has no agent card at /.well-known/agent-card.json"):
            await server.client().card()


async def test_a_url_that_ends_in_json_is_the_card() -> None:
    async with foreign(hang_up) as server:
        assert (await server.client(url=f"{server.url}/cards/a.json").card()).name == "foreign"
    assert [call.path for call in server.calls] == ["/cards/a.json"]


async def test_a_card_is_kept_for_as_long_as_the_server_says() -> None:
    async with foreign(hang_up) as server:
        server.card_headers = ("Cache-Control: max-age=60", 'ETag: "1"')
        client = server.client()
        await client.card()
        await client.card()
        assert len(server.calls) == 1


async def test_a_card_that_may_be_stale_is_asked_about() -> None:
    async with foreign(hang_up) as server:
        server.card_headers = ("Cache-Control: no-cache", 'ETag: "1"')
        client = server.client()
        await client.card()
        server.card = raw(b"", status="304 Not Modified")
        assert (await client.card()).name == "foreign"
        assert server.calls[1].headers["if-none-match"] == '"1"'
        server.card = hang_up
        assert (await client.card()).name == "foreign"


async def test_the_next_interface_is_used_where_one_cannot_be_reached() -> None:
    async with foreign(stream({"task": task("COMPLETED", artifact("a"))})) as server:
        gone = {"url": "http://127.0.0.1:9/", "protocolBinding": "JSONRPC", "protocolVersion": "1"}
        grpc = {"url": "http://127.0.0.1:9/", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
        here = {"url": server.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        server.card = server.own_card(grpc, gone, here)
        assert said(await server.client().send(message())) == "a"


async def test_the_other_binding_is_used_where_one_is_not_there() -> None:
    body = json.dumps({"task": task("COMPLETED", artifact("rest"))}).encode()
    sends = raw(b"data: " + body + b"\n\n", "Content-Type: text/event-stream")
    async with foreign(raw(b"", status="404 Not Found"), sends) as server:
        rpc = {"url": f"{server.url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        rest = {"url": f"{server.url}/", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        server.card = server.own_card(rpc, {**rest, "tenant": "a/b"})
        assert said(await server.client().send(message())) == "rest"
    assert server.calls[-1].path == "/a%2Fb/message:stream"


async def test_a_card_without_an_interface_that_is_spoken_is_told_so() -> None:
    async with foreign(hang_up) as server:
        server.card = server.own_card(
            {"url": server.url, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
        )
        with pytest.raises(RemoteFailed, match="lists GRPC 1.0; spoken here are"):
            await server.client().send(message())


async def test_an_extension_that_is_required_and_not_spoken_is_told() -> None:
    async with foreign(hang_up) as server:
        needed = {"uri": "urn:other", "required": True}
        server.card = server.own_card(capabilities={"extensions": [needed]})
        with pytest.raises(ExtensionRequired, match="urn:other"):
            await server.client().send(message())


# Tokens and addresses


async def test_a_token_goes_to_the_named_origin_and_is_never_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with foreign(raw(b"{}", status="401 Unauthorized")) as server:
        with pytest.raises(Unauthenticated) as told:
            await server.client(token="s3cret").send(message())
    assert "authorization" not in server.calls[0].headers
    assert server.calls[-1].headers["authorization"] == "Bearer s3cret"
    assert "s3cret" not in str(told.value) + caplog.text


async def test_a_token_is_not_sent_to_another_origin_that_a_card_names() -> None:
    async with foreign(hang_up) as theirs, foreign(hang_up) as server:
        elsewhere = {"url": theirs.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        server.card = server.own_card(elsewhere)
        with pytest.raises(RemoteFailed, match="the token is not sent to another origin"):
            await server.client(token="s3cret").send(message())
        assert theirs.calls == []
        theirs.handlers[:] = [stream({"task": task()})]
        trusting = server.client(token="s3cret", trust=(theirs.url,))
        await trusting.send(message())
        assert theirs.calls[-1].headers["authorization"] == "Bearer s3cret"
        await server.client().send(message())
        assert "authorization" not in theirs.calls[-1].headers


async def test_what_is_not_public_is_refused_in_urls_and_in_cards() -> None:
    async with foreign(hang_up) as server:
        with pytest.raises(AddressRefused):
            await server.client(allow=()).card()
        inside = {
            "url": "http://169.254.169.254/",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        }
        server.card = server.own_card(inside)
        with pytest.raises(AddressRefused):
            await server.client().send(message())


async def test_a_trace_goes_along_as_others_write_it() -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with foreign(stream({"task": task()})) as server:
        client = server.client()
        await client.send(message(metadata={"traceId": trace}))
        assert server.calls[-1].headers["traceparent"].startswith(f"00-{trace}-")
        parent = f"00-{trace}-b7ad6b7169203331-01"
        await client.send(message(metadata={"traceparent": parent}))
        assert server.calls[-1].headers["traceparent"] == parent
        await client.send(message(metadata={"traceId": "mine"}))
        assert "traceparent" not in server.calls[-1].headers


# Time


async def test_who_stops_waiting_cancels_the_remote_task() -> None:
    async with foreign(
        stream({"task": task("WORKING")}, then="silence"), result(task("CANCELED"))
    ) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await server.client().send(message())
    assert server.methods[-1] == "CancelTask"


async def test_a_task_that_takes_too_long_is_canceled_and_told() -> None:
    async with foreign(
        stream({"task": task("WORKING")}, then="silence"), result(task("CANCELED"))
    ) as server:
        with pytest.raises(RemoteFailed, match=r"did not finish within 0\.3 seconds"):
            await server.client(timeout=0.3).send(message())
    assert server.methods[-1] == "CancelTask"


async def test_a_listener_that_fails_cancels_the_remote_task() -> None:
    async def fails(task: Task, update: object) -> None:
        raise ZeroDivisionError

    async with foreign(
        stream({"task": task("WORKING")}, then="silence"), result(task("CANCELED"))
    ) as server:
        with pytest.raises(ZeroDivisionError):
            await server.client().send(message(), hear=fails)
    assert server.methods[-1] == "CancelTask"


async def test_a_busy_server_is_asked_again_when_it_says() -> None:
    async with foreign(
        raw(b"", "Retry-After: 0", status="429 Too Many"),
        raw(b"", "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT", status="503 Busy"),
        stream({"task": task("COMPLETED", artifact("a"))}),
    ) as server:
        assert said(await server.client().send(message())) == "a"
    assert len(server.methods) == 3


async def test_a_server_that_stays_busy_is_given_up_on() -> None:
    async with foreign(raw(b"", "Retry-After: soon", status="503 Busy")) as server:
        with pytest.raises(RemoteFailed, match="503") as told:
            await server.client().send(message())
    assert told.value.retryable
    assert len(server.methods) == 3


async def test_without_retries_a_message_is_sent_once() -> None:
    async with foreign(hang_up) as server:
        with pytest.raises(RemoteFailed):
            await server.client(retries=0).send(message())
    assert len(server.methods) == 1


async def test_nobody_there_is_told() -> None:
    async with foreign(hang_up) as server:
        with pytest.raises(RemoteFailed, match="http://127.0.0.1:9 cannot be reached"):
            await server.client(url="http://127.0.0.1:9").send(message())


# Broken and hostile servers


BROKEN: list[tuple[Any, str]] = [
    (raw(b"<html>", "Content-Type: text/html"), "is not JSON-RPC"),
    (result({}), "must contain a task, message"),
    (result({"task": {"id": "t"}}), "invalid response"),
    (fault(-32603, "it broke"), "it broke"),
    (fault(-32601, "unknown"), "knows no such method"),
    (raw(b"", "Location: https://evil.example/", status="302 Found"), "redirects calls elsewhere"),
    (raw(b"oops", status="500 Oops"), "HTTP status 500"),
    (raw(b"not gzip", "Content-Encoding: gzip"), "a compressed answer that is broken"),
    (stream(moved("WORKING"), {"task": {**task(), "id": "other"}}), "another task"),
    (stream({"statusUpdate": {"status": {"state": "TASK_STATE_WORKING"}}}), "taskId|without an id"),
    (stream({"nonsense": True}), "must contain a task"),
    (raw(b"data: {]\n\n", "Content-Type: text/event-stream"), "is not JSON-RPC"),
    (raw(b"[" * 100_000, "Content-Type: application/json"), "is not JSON-RPC"),
]


@pytest.mark.parametrize(("answer", "told"), BROKEN)
async def test_a_broken_answer_is_told_as_a_failure_of_the_server(answer: Any, told: str) -> None:
    async with foreign(answer) as server:
        with pytest.raises(RemoteFailed, match=told):
            await server.client(retries=0).send(message())


async def test_a_task_that_is_not_there_is_told_as_such() -> None:
    async with foreign(fault(-32001)) as server:
        with pytest.raises(TaskNotFound, match="'t-9'"):
            await server.client().get("t-9")


async def test_an_error_in_a_stream_over_http_is_told() -> None:
    error = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "too many"}}
    body = f"data: {json.dumps(error)}\n\n".encode()
    async with foreign(raw(body, "Content-Type: text/event-stream")) as server:
        server.card = server.own_card(
            {"url": server.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        )
        with pytest.raises(AccError, match="too many"):
            await server.client(retries=0).send(message())


async def test_an_endless_event_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "MAX_EVENT", 10_000)

    async def endless(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ")
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()

    async with foreign(endless) as server:
        with pytest.raises(RemoteFailed, match="an event of more than 10000 bytes"):
            await server.client().send(message())


async def test_an_endless_stream_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "MAX_STREAM", 10_000)

    async def endless(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while True:
            writer.write(b": still here\n\n" * 100)
            await asyncio.sleep(0)
            await writer.drain()

    async with foreign(endless) as server:
        with pytest.raises(RemoteFailed, match="streamed more than 10000 bytes"):
            await server.client().send(message())


async def test_an_endless_fault_is_cut_off() -> None:
    async def endless(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 Oops\r\n\r\n")
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()

    async with foreign(endless) as server:
        with pytest.raises(RemoteFailed, match="answered with more than"):
            await server.client().send(message())


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"no json", "is not valid JSON"),
        (b"[]", "must be an object"),
        (b"{}", "name: is required"),
        (b'{"name": "x"}', "url: is required"),
        (b'{"name": "x", "supportedInterfaces": [{"url": 3}]}', "must be a string"),
    ],
)
async def test_a_broken_card_is_told_as_such(body: bytes, told: str) -> None:
    async with foreign(hang_up) as server:
        server.card = body
        with pytest.raises(RemoteFailed, match=told):
            await server.client().send(message())


@pytest.mark.parametrize("status", ["500 Oops", "503 Busy"])
async def test_a_server_that_cannot_show_its_card_is_told(status: str) -> None:
    async with foreign(hang_up) as server:
        server.card = raw(b"", status=status)
        with pytest.raises(RemoteFailed, match=f"answered {status[:3]} when asked for its card"):
            await server.client().card()


async def test_a_card_that_moves_for_ever_is_told() -> None:
    async with foreign(hang_up) as server:
        server.card = raw(b"", "Location: /.well-known/again.json", status="302 Found")
        with pytest.raises(RemoteFailed, match="redirects too often"):
            await server.client().card()
