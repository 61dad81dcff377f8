"""The AG-UI endpoint of a server; every event is validated with the types of the protocol."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from ag_ui.core import Event as AgUiEvent
from pydantic import TypeAdapter

from acc import Agent, BaseAgent, RunContext, ToolCall, ToolContext, tool
from acc.a2a import (
    CardConfig,
    RateLimiter,
    ServerLimits,
    Skill,
    StaticTokens,
    TokenEntry,
    create_app,
    token_hash,
)
from acc.contracts import IntentAgent, intent
from acc.testing import ScriptedModel

EVENTS: TypeAdapter[Any] = TypeAdapter(AgUiEvent)
refunds: list[int] = []


@tool
def status(order: str, context: ToolContext) -> dict[str, str]:
    """Return the status of an order."""
    context.state["last/order"] = order
    return {"order": order, "state": "発送済み"}


@tool(confirm=True)
def refund(amount: int) -> str:
    """Refund an amount."""
    refunds.append(amount)
    return f"refunded {amount}"


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call-{name}", name=name, arguments=arguments)


def shop(*responses: Any) -> Agent:
    return Agent(name="shop", model=ScriptedModel(*responses), tools=[status, refund])


def user(text: str, message_id: str = "u1") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "content": text}


def body(*messages: Any, thread: str = "t1", run: str = "r1", **fields: Any) -> dict[str, Any]:
    return {"threadId": thread, "runId": run, "messages": list(messages), **fields}


class FrontEnd:
    """Sends requests of AG-UI."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def post(self, content: Any, token: str = "") -> httpx2.Response:
        head = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if token:
            head["Authorization"] = f"Bearer {token}"
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        return await self._http.post("/ag-ui", content=raw, headers=head)

    async def run(self, content: Any, token: str = "") -> list[dict[str, Any]]:
        """Return the events of a run, after they were validated."""
        response = await self.post(content, token)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [
            json.loads(line.removeprefix("data: "))
            for line in response.text.split("\n\n")
            if line.strip()
        ]
        for event in events:
            EVENTS.validate_python(event)
        return events


@asynccontextmanager
async def served(agent: Any, **options: Any) -> AsyncIterator[FrontEnd]:
    app = create_app(agent, ag_ui=True, **options)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.lifespan(),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
    ):
        yield FrontEnd(http)


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_tool_turn_has_events_of_messages_tools_and_state() -> None:
    agent = shop(call("status", order="A-17"), "A-17は 発送済み です。")
    async with served(agent) as front:
        events = await front.run(body(user("注文A-17は?")))
    assert types(events) == [
        "RUN_STARTED",
        "STATE_SNAPSHOT",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "STATE_DELTA",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    by_type = {event["type"]: event for event in events}
    assert by_type["RUN_STARTED"]["protocolVersion"] == "1.0"
    assert json.loads(by_type["TOOL_CALL_ARGS"]["delta"]) == {"order": "A-17"}
    assert json.loads(by_type["TOOL_CALL_RESULT"]["content"])["state"] == "発送済み"
    assert by_type["STATE_DELTA"]["delta"] == [
        {"op": "add", "path": "/last~1order", "value": "A-17"}
    ]
    text = "".join(e["delta"] for e in events if e["type"] == "TEXT_MESSAGE_CONTENT")
    assert text == "A-17は 発送済み です。"
    finished = by_type["RUN_FINISHED"]
    assert finished["outcome"] == {"type": "success"}
    assert (finished["threadId"], finished["runId"]) == ("t1", "r1")


async def test_thread_continues_and_its_history_is_sent_to_a_new_page() -> None:
    agent = shop(call("status", order="A-17"), "sent", "you are welcome")
    async with served(agent) as front:
        await front.run(body(user("where is A-17?")))
        events = await front.run(body(user("thanks", "u2"), run="r2"))
        (snapshot,) = [event for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
        roles = [message["role"] for message in snapshot["messages"]]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]
        assert snapshot["messages"][-1] == {"id": "u2", "role": "user", "content": "thanks"}
        known = await front.run(body(run="r3"))
        assert types(known) == [
            "RUN_STARTED",
            "MESSAGES_SNAPSHOT",
            "STATE_SNAPSHOT",
            "RUN_FINISHED",
        ]
        assert known[2]["snapshot"] == {"last/order": "A-17"}
        page_knows = body(user("a"), {"id": "x", "role": "assistant", "content": "b"}, run="r4")
        refused = await front.post(page_knows)
    assert refused.status_code == 400
    assert "the last message has the role 'assistant'" in refused.json()["error"]["message"]


async def paused(front: FrontEnd) -> dict[str, Any]:
    """Return the interrupt of a run that asks for a refund of 5."""
    events = await front.run(body(user("refund 5")))
    outcome = events[-1]["outcome"]
    assert outcome["type"] == "interrupt"
    (interrupt,) = outcome["interrupts"]
    result: dict[str, Any] = interrupt
    return result


def resume(interrupt: str, *, status: str = "resolved", payload: Any = None) -> dict[str, Any]:
    entry = {"interruptId": interrupt, "status": status, "payload": payload}
    return body(run="r2", resume=[entry])


async def test_approval_is_an_interrupt_that_a_second_run_resumes() -> None:
    refunds.clear()
    async with served(shop(call("refund", amount=5), "done")) as front:
        interrupt = await paused(front)
        assert interrupt["reason"] == "tool_call"
        assert interrupt["toolCallId"] == "call-refund"
        assert interrupt["metadata"]["arguments"] == {"amount": 5}
        assert interrupt["responseSchema"]["required"] == ["approved"]
        assert refunds == []
        again = await front.run(body(run="r1b"))
        assert again[-1]["outcome"]["interrupts"] == [interrupt]
        events = await front.run(resume(interrupt["id"], payload={"approved": True}))
        (result,) = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
        assert (result["toolCallId"], result["content"]) == ("call-refund", "refunded 5")
        assert events[-1]["outcome"] == {"type": "success"}
        assert refunds == [5]
        stale = await front.post(resume(interrupt["id"], payload={"approved": True}))
    assert stale.status_code == 400
    assert "is not open in this thread" in stale.json()["error"]["message"]
    assert refunds == [5]


async def test_approval_with_edited_arguments_uses_them() -> None:
    refunds.clear()
    async with served(shop(call("refund", amount=5), "done")) as front:
        interrupt = await paused(front)
        payload = {"approved": True, "editedArgs": {"amount": 3}}
        await front.run(resume(interrupt["id"], payload=payload))
    assert refunds == [3]


@pytest.mark.parametrize(
    ("status_", "payload"),
    [("cancelled", None), ("resolved", {"approved": False, "reason": "no"}), ("resolved", False)],
)
async def test_denied_tool_is_not_called(status_: str, payload: Any) -> None:
    refunds.clear()
    async with served(shop(call("refund", amount=5), "not refunded")) as front:
        interrupt = await paused(front)
        events = await front.run(resume(interrupt["id"], status=status_, payload=payload))
    assert refunds == []
    assert events[-1]["type"] == "RUN_FINISHED"


@pytest.mark.parametrize("payload", [None, "yes", {"approved": "yes"}, {"editedArgs": {}}])
async def test_answer_that_does_not_fit_has_no_effect(payload: Any) -> None:
    refunds.clear()
    async with served(shop(call("refund", amount=5), "done")) as front:
        interrupt = await paused(front)
        refused = await front.post(resume(interrupt["id"], payload=payload))
        assert refused.status_code == 400
        assert "approved" in refused.json()["error"]["message"]
        assert refunds == []
        await front.run(resume(interrupt["id"], payload={"approved": True}))
    assert refunds == [5]


async def test_message_while_the_thread_waits_is_refused() -> None:
    async with served(shop(call("refund", amount=5), "done")) as front:
        interrupt = await paused(front)
        refused = await front.post(body(user("hello"), run="r2"))
    assert refused.status_code == 400
    assert interrupt["id"] in refused.json()["error"]["message"]


async def test_question_of_an_agent_is_answered_with_a_value() -> None:
    class AskingAgent(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            answer = await ctx.request_input("何色ですか?", schema={"type": "string"})
            return f"{answer.value} を選びました"

    async with served(AskingAgent(name="desk")) as front:
        interrupt = await paused(front)
        assert (interrupt["reason"], interrupt["message"]) == ("input_required", "何色ですか?")
        assert interrupt["responseSchema"] == {"type": "string"}
        events = await front.run(resume(interrupt["id"], payload="赤"))
    text = "".join(e["delta"] for e in events if e["type"] == "TEXT_MESSAGE_CONTENT")
    assert text == "赤 を選びました"


async def test_failed_run_ends_with_an_error_without_internal_details() -> None:
    def break_down(_: RunContext) -> str:
        raise KeyError("secret-path")

    agent = Agent(name="desk", model=ScriptedModel("x"), instruction=break_down)
    async with served(agent) as front:
        events = await front.run(body(user("hi")))
    assert types(events)[-1] == "RUN_ERROR"
    assert events[-1]["code"]
    assert types(events).count("RUN_FINISHED") == 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"threadId": 5, "runId": "r", "messages": []}',
        b'{"threadId": "t", "runId": "r"}',
        b'{"threadId": "", "runId": "r", "messages": []}',
        b'{"threadId": "t\\u0000", "runId": "r", "messages": []}',
        json.dumps({"threadId": "t" * 300, "runId": "r", "messages": []}).encode(),
        json.dumps(body({"id": "1", "role": "user", "content": "  "})).encode(),
        json.dumps(body({"id": "1", "role": "wizard", "content": "x"})).encode(),
        json.dumps(body(user("x"), resume=[{"interruptId": "i", "status": "maybe"}])).encode(),
        json.dumps(body(resume=[{"interruptId": "unknown", "status": "resolved"}])).encode(),
        json.dumps(
            body(
                {
                    "id": "1",
                    "role": "user",
                    "content": [
                        {
                            "type": "image",
                            "source": {"type": "data", "value": "%%%", "mimeType": "image/png"},
                        }
                    ],
                }
            )
        ).encode(),
        b"[" * 100_000,
    ],
)
async def test_invalid_body_is_refused_without_effect(content: bytes) -> None:
    async with served(shop()) as front:  # the model has no answer, so that a run would fail
        response = await front.post(content)
        assert response.status_code == 400, response.text
        assert response.json()["error"]["message"]
        history = await front.run(body(thread="t", run="r9"))
    assert types(history) == ["RUN_STARTED", "STATE_SNAPSHOT", "RUN_FINISHED"]


async def test_callers_are_authenticated_and_have_threads_of_their_own() -> None:
    tokens = [
        TokenEntry(sha256=token_hash("acc_ann"), caller="ann"),
        TokenEntry(sha256=token_hash("acc_bob"), caller="bob"),
        TokenEntry(sha256=token_hash("acc_eve"), caller="eve", permissions=["agent.read"]),
    ]
    agent = shop("secret of ann", "hello bob")
    async with served(agent, verifier=StaticTokens(tokens)) as front:
        assert (await front.post(body(user("hi")))).status_code == 401
        assert (await front.post(body(user("hi")), "acc_eve")).status_code == 403
        await front.run(body(user("hi")), "acc_ann")
        events = await front.run(body(user("hi"), run="r2"), "acc_bob")
    assert "secret of ann" not in json.dumps(events)
    assert "MESSAGES_SNAPSHOT" not in types(events)


async def test_caller_of_the_only_intent_is_authorized() -> None:
    @intent
    def pay(memo: str) -> dict[str, str]:
        """Pay."""
        raise AssertionError

    class Payments(IntentAgent):
        def authorize_call(self, intent: str, caller: str) -> bool:
            return intent != "pay"

    async with served(Payments(name="payments", intents=[pay])) as front:
        assert (await front.post(body(user("hi")))).status_code == 403


async def test_scopes_of_the_skill_of_the_only_intent_are_required() -> None:
    @intent
    def approve(memo: str) -> dict[str, str]:
        """Approve."""
        return {"memo": memo}

    tokens = [
        TokenEntry(
            sha256=token_hash(f"acc_{name}"), caller=name, permissions=["agent.invoke", *more]
        )
        for name, more in (("clerk", ()), ("boss", ("approve",)))
    ]
    security = ({"oauth2": ("approve",)},)
    schemes = {
        "oauth2": {
            "type": "oauth2",
            "flows": {
                "clientCredentials": {
                    "tokenUrl": "https://login.example.com/token",
                    "scopes": {"approve": "Approve"},
                }
            },
        }
    }
    skill = Skill(id="approve", name="Approve", description="Approves.", security=security)
    card = CardConfig(skills=(skill,), security_schemes=schemes)
    options: Any = {"verifier": StaticTokens(tokens), "card": card}
    agent = IntentAgent(name="desk", intents=[approve])
    async with served(agent, **options) as front:
        response = await front.post(body(user("hi")), "acc_clerk")
        assert response.status_code == 403
        assert 'scope="approve"' in response.headers["www-authenticate"]
        assert (await front.post(body(user("hi")), "acc_boss")).status_code == 200


async def test_concurrent_runs_of_a_caller_are_limited() -> None:
    running: list[int] = []
    peak = 0
    gate = asyncio.Event()

    class Waiting(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            nonlocal peak
            running.append(1)
            peak = max(peak, len(running))
            await gate.wait()
            running.pop()
            return "done"

    async with served(Waiting(name="shop"), limits=ServerLimits(streams=2)) as front:
        async with asyncio.TaskGroup() as group:
            posts = [
                group.create_task(front.post(body(user("hi"), thread=f"t{n}", run=f"r{n}")))
                for n in range(8)
            ]
            async with asyncio.timeout(30):
                while len(running) < 2 or sum(post.done() for post in posts) < 6:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            gate.set()
        assert sorted(post.result().status_code for post in posts) == [200] * 2 + [429] * 6
        assert peak == 2
        assert (await front.post(body(user("again"), thread="t9", run="r9"))).status_code == 200


async def test_run_is_refused_while_the_server_stops() -> None:
    app = create_app(shop("hello"), ag_ui=True)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.lifespan(),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
    ):
        await app.stop()
        response = await FrontEnd(http).post(body(user("hi")))
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) > 0
    assert "stopping" in response.text


async def test_run_counts_against_the_rate_of_the_only_intent() -> None:
    @intent
    def pay(memo: str) -> dict[str, str]:
        """Pay."""
        return {"memo": memo}

    limiter = RateLimiter(per_intent={"pay": ["1/minute"]})
    async with served(IntentAgent(name="payments", intents=[pay]), limiter=limiter) as front:
        assert (await front.post(body(user("hi")))).status_code == 200
        assert (await front.post(body(user("hi"), thread="t2", run="r2"))).status_code == 429


async def test_idle_stream_has_heartbeats() -> None:
    @tool
    async def slow() -> str:
        """Wait."""
        await asyncio.sleep(0.2)
        return "done"

    agent = Agent(name="shop", model=ScriptedModel(call("slow"), "ok"), tools=[slow])
    async with served(agent, limits=ServerLimits(heartbeat=0.02)) as front:
        response = await front.post(body(user("wait")))
    lines = response.text.split("\n\n")
    called = next(number for number, line in enumerate(lines) if "TOOL_CALL_END" in line)
    assert lines[called + 1 : called + 3] == [": heartbeat", ": heartbeat"]
    assert "RUN_FINISHED" in lines[-2] and lines[-1] == ""


async def test_rate_limit_and_body_limit_apply() -> None:
    limiter = RateLimiter(["1/minute"])
    async with served(shop("a", "b"), limiter=limiter) as front:
        await front.run(body(user("hi")))
        assert (await front.post(body(user("hi"), run="r2"))).status_code == 429
    async with served(shop("a"), limits=ServerLimits(body=1000)) as front:
        assert (await front.post(body(user("x" * 2000)))).status_code == 413


async def test_endpoint_exists_only_with_the_option() -> None:
    app = create_app(shop("a"))
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.lifespan(),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
    ):
        response = await http.post("/ag-ui", json=body(user("hi")))
    assert response.status_code == 404
