"""Readiness, CORS, access log and traces of a server."""

import asyncio
import json
import logging
from typing import Any

import pytest
from http_app import App, served
from server_harness import CommandAgent, wait_until

from acc import BaseAgent, InvalidInput, RunContext
from acc.a2a import StaticTokens, TokenEntry, create_app, token_hash
from acc.contracts import IntentAgent, intent

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
TOKEN = "alice-token"
VERIFIER = StaticTokens([TokenEntry(sha256=token_hash(TOKEN), caller="alice")])


class WaitingAgent(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        await asyncio.sleep(60)
        return "late"


class ContextAgent(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        call = ctx.call
        return json.dumps({"trace": call.trace_id, "claims": dict(call.claims)})


async def test_server_is_not_ready_while_it_drains() -> None:
    app = create_app(WaitingAgent(name="waiting", input_schema={"type": "object"}))
    async with served(app) as opened:
        assert (await opened.get("/ready")).json() == {"status": "ready"}
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
        configuration = {"returnImmediately": True}
        await opened.rpc("SendMessage", {"message": message, "configuration": configuration})
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(app.stop())
            await wait_until(lambda: not app.serve.is_ready)
            ready = await opened.get("/ready")
            rpc = await opened.send("new")
            rest = await opened.http.post(
                "/message:send", json={"message": message}, headers={"A2A-Version": "1.0"}
            )
            run = await opened.http.post("/run", json={"intent": "waiting", "inputs": {}})
            health = await opened.get("/health")
            stopping.cancel()
    assert (ready.status_code, ready.json()) == (503, {"status": "stopping"})
    assert [reply.status_code for reply in (rpc, rest, run)] == [503, 503, 503]
    assert all(int(reply.headers["retry-after"]) > 0 for reply in (ready, rpc, rest, run))
    assert "the server is stopping" in run.json()["error"]["message"]
    assert rpc.json()["error"]["code"] == -32043
    assert health.status_code == 200


def preflight(app: App, origin: str) -> Any:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, a2a-version",
    }
    return app.http.options("/", headers=headers)


async def test_pages_of_configured_origins_may_call() -> None:
    page, other = "https://app.example", "https://evil.example"
    async with served(create_app(CommandAgent(name="desk"), cors_origins=(page,))) as app:
        allowed, refused = await preflight(app, page), await preflight(app, other)
        replies = [await app.send("hi", headers={"Origin": one}) for one in (page, other)]
        card = await app.http.get("/.well-known/agent-card.json", headers={"Origin": page})
    assert allowed.status_code == 204
    assert allowed.headers["access-control-allow-origin"] == page
    assert "a2a-version" in allowed.headers["access-control-allow-headers"]
    assert refused.status_code == 403
    assert "access-control-allow-origin" not in refused.headers
    assert replies[0].headers["access-control-allow-origin"] == page
    assert "idempotency-replayed" in replies[0].headers["access-control-expose-headers"]
    assert "access-control-allow-origin" not in replies[1].headers
    assert all(reply.headers["vary"] == "Origin" for reply in replies)
    assert card.headers["access-control-allow-origin"] == page
    assert "access-control-allow-credentials" not in card.headers


async def test_no_page_may_call_by_default() -> None:
    async with served(create_app(CommandAgent(name="desk"))) as app:
        assert (await preflight(app, "https://app.example")).status_code == 405
        reply = await app.send("hi", headers={"Origin": "https://app.example"})
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("origin", ["app.example", "https://app.example/", "ftp://a.example", ""])
def test_invalid_origin_is_rejected(origin: str) -> None:
    with pytest.raises(InvalidInput, match="origin"):
        create_app(CommandAgent(name="desk"), cors_origins=(origin,))


async def test_access_log_names_method_task_caller_status_duration_and_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "acc.access")
    async with served(create_app(CommandAgent(name="desk"), verifier=VERIFIER)) as app:
        headers = {"traceparent": PARENT}
        sent = await app.send("hi", TOKEN, headers=headers)
        task = sent.json()["result"]["task"]["id"]
        await app.rpc("GetTask", {"id": task}, TOKEN)
        await app.get(f"/tasks/{task}", "wrong-token")
        streamed = await app.rpc(
            "SendStreamingMessage",
            {"message": {"messageId": "s", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
            TOKEN,
        )
    assert sent.headers["traceresponse"] == PARENT
    stream_task = json.loads(streamed.text.split("data: ")[1].split("\n")[0])["result"]["task"]
    lines = [record.__dict__ for record in caplog.records if record.name == "acc.access"]
    assert [
        (line["method"], line["task_id"], line["caller"], line["status"], line["trace_id"])
        for line in lines
    ] == [
        ("SendMessage", task, "alice", 200, TRACE),
        ("GetTask", task, "alice", 200, ""),
        ("GetTask", "", "", 401, ""),
        ("SendStreamingMessage", stream_task["id"], "alice", 200, stream_task["id"]),
    ]
    assert all(line["duration_ms"] >= 0 for line in lines)
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("path", ["/run", "/"])
async def test_access_log_names_task_and_trace_of_an_intent(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    @intent
    def ping(inputs: dict[str, Any]) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def body(**context: str) -> dict[str, Any]:
        params = {"inputs": {}, "context": context}
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": params}
        return {"intent": "ping", **params} if path == "/run" else rpc

    caplog.set_level(logging.INFO, "acc.access")
    async with served(create_app(IntentAgent(name="desk", intents=[ping]))) as app:
        await app.http.post(path, json=body(trace_id="trace-3fb2b1"))
        await app.http.post(path, json=body())
    first, second = (r.__dict__ for r in caplog.records if r.name == "acc.access")
    assert first["task_id"]
    assert first["trace_id"] == "trace-3fb2b1"
    assert second["trace_id"] == second["task_id"]


async def answer(app: App, headers: Any, **metadata: Any) -> Any:
    message = {
        "messageId": f"m-{headers}-{metadata}",
        "role": "ROLE_USER",
        "parts": [{"text": "x"}],
        "metadata": metadata,
    }
    reply = await app.rpc("SendMessage", {"message": message}, headers=headers)
    task = reply.json()["result"]["task"]
    return task, json.loads(task["artifacts"][0]["parts"][0]["text"])


async def test_incoming_traceparent_continues_the_trace() -> None:
    async with served(create_app(ContextAgent(name="context"))) as app:
        _, from_header = await answer(app, {"traceparent": PARENT})
        _, from_message = await answer(app, {"traceparent": PARENT}, traceId="own")
        for invalid in ("", "00-1-2-01", PARENT.replace(TRACE, "0" * 32), f"ff{PARENT[2:]}"):
            task, own = await answer(app, {"traceparent": invalid})
            assert own["trace"] == task["id"]
    assert from_header["trace"] == TRACE
    assert from_message["trace"] == "own"


async def test_intents_continue_the_trace() -> None:
    seen: list[str] = []

    @intent
    def look(inputs: dict[str, Any], memory: Any, context: dict[str, Any]) -> dict[str, Any]:
        """Record the trace."""
        seen.append(context["trace_id"])
        return {}

    async with served(create_app(IntentAgent(name="desk", intents=[look]))) as app:
        body: dict[str, Any] = {"intent": "look", "inputs": {}}
        await app.http.post("/run", json=body, headers={"traceparent": PARENT})
        body["context"] = {"trace_id": "claimed"}
        await app.http.post("/run", json=body, headers={"traceparent": PARENT})
        await app.rpc("look", {"inputs": {}}, headers={"traceparent": PARENT})
    assert seen == [TRACE, "claimed", TRACE]


async def test_openapi_describes_run_and_its_intents() -> None:
    @intent
    def 要約(text: str) -> dict[str, str]:
        """Summarize a text."""
        return {"summary": text[:3]}

    @intent
    def count(text: str, unit: str = "word") -> dict[str, int]:
        """Count words."""
        return {"count": len(text)}

    async with served(create_app(IntentAgent(name="desk", intents=[要約, count]))) as app:
        document = (await app.get("/openapi.json")).json()
        plain = await httpx_document(create_app(CommandAgent(name="plain")))
    operation = document["paths"]["/run"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    requests = [resolve(document, one["$ref"]) for one in schema["oneOf"]]
    assert [one["properties"]["intent"]["const"] for one in requests] == ["要約", "count"]
    inputs = resolve(document, requests[1]["properties"]["inputs"]["$ref"])
    assert inputs["required"] == ["text"]
    assert set(inputs["properties"]) == {"text", "unit"}
    assert {"200", "400", "403", "404", "409", "503"} <= set(operation["responses"])
    assert "/ready" in document["paths"]
    assert "/run" not in plain["paths"]


def resolve(document: Any, reference: str) -> Any:
    for name in reference.removeprefix("#/").split("/"):
        document = document[name]
    return document


async def httpx_document(app: Any) -> Any:
    async with served(app) as opened:
        return (await opened.get("/openapi.json")).json()


async def test_anonymous_listing_error_names_the_option() -> None:
    async with served(create_app(CommandAgent(name="desk"))) as app:
        reply = await app.rpc("ListTasks", {})
    assert reply.status_code == 401
    assert "--anonymous-listing" in reply.json()["error"]["message"]
