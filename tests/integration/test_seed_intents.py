"""The requests of the customer's specification, sent to a server over HTTP."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
import pytest
from seed_nodes import PublishLogNode, SummarizeTextNode, SummaryRouterNode, resolve_network_issue

from acc import BaseAgent, InvalidInput, RunContext
from acc.a2a import StaticTokens, TokenEntry, create_app, token_hash
from acc.contracts import INTENTS_EXTENSION, Field, IntentAgent, intent

TOKEN = "planner-token"
#: The request of section 6.2, as it is printed there.
SEED_REQUEST = json.loads("""
{
  "jsonrpc": "2.0",
  "method": "summarize_text",
  "params": {
    "inputs": {
      "text": "ADKシステムはAgentが効率的にタスクを委譲できるようにします..."
    },
    "memory": {
      "summary.length": "short"
    },
    "context": {
      "caller": "agent:research_planner",
      "timestamp": "2025-07-04T11:00:00Z",
      "request_id": "request-982731",
      "trace_id": "trace-3fb2b1"
    }
  },
  "id": "request-982731"
}
""")
SEED_BODY = json.loads("""
{
  "intent": "analyze_sentiment",
  "inputs": {
    "review": "I absolutely loved the performance and story arc!"
  },
  "memory": {},
  "context": {
    "user_id": "user_456",
    "timestamp": "2025-07-04T10:02:00Z"
  }
}
""")


class Desk:
    """An agent with the intents of the specification, and what its nodes executed."""

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.contexts: list[dict[str, Any]] = []

        @intent(outputs={"sentiment": Field(type=Literal["positive", "negative"])})
        def analyze_sentiment(review: str) -> dict[str, str]:
            """Say whether a review is positive."""
            self.executed.append("analyze_sentiment")
            return {"sentiment": "positive" if "loved" in review else "negative"}

        @intent
        def look(inputs: dict[str, Any], memory: Any, context: dict[str, Any]) -> dict[str, Any]:
            """Record the context and return the memory."""
            self.contexts.append(context)
            return {"memory": dict(memory)}

        @intent(outputs={"total": Field(type=int)})
        def broken_output(inputs: dict[str, Any]) -> dict[str, Any]:
            """Return an output of the wrong type."""
            return {"total": "secret text"}

        @intent
        def crash(inputs: dict[str, Any]) -> dict[str, Any]:
            """Fail."""
            raise RuntimeError("secret text")

        @intent(permissions=["pay"])
        def pay(amount: int) -> int:
            """Pay an amount."""
            self.executed.append("pay")
            return amount

        class Approval(BaseAgent):
            async def run(self, ctx: RunContext) -> str:
                answer = await ctx.request_input("May I?")
                return f"answered {answer.value}"

        self.agent = IntentAgent(
            name="desk",
            description="Answers the requests of the specification.",
            intents=[
                SummarizeTextNode(),
                analyze_sentiment,
                PublishLogNode(),
                intent(resolve_network_issue),
                look,
                broken_output,
                crash,
                pay,
                Approval(name="approval", input_schema={"type": "object"}),
            ],
        )


@asynccontextmanager
async def serving(desk: Desk, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(desk.agent, public_url="http://desk", **options)
    async with app.lifespan():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://desk") as client:
            yield client


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def client(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(desk, anonymous_listing=True) as opened:
        yield opened


async def count_tasks(client: httpx.AsyncClient, **headers: str) -> int:
    response = await client.get("/tasks", headers={"A2A-Version": "1.0", **headers})
    total: int = response.json()["totalSize"]
    return total


async def test_section_6_2_json_rpc_with_the_intent_as_method(client: httpx.AsyncClient) -> None:
    response = await client.post("/", json=SEED_REQUEST)
    assert response.status_code == 200
    text = SEED_REQUEST["params"]["inputs"]["text"]
    assert response.json() == {
        "jsonrpc": "2.0",
        "result": {"summary": f"{text[:100]}..."},
        "id": "request-982731",
    }


async def test_section_6_2_missing_field_is_rejected_before_a_task_is_stored(
    client: httpx.AsyncClient,
) -> None:
    params = {**SEED_REQUEST["params"], "inputs": {}}
    response = await client.post("/", json={**SEED_REQUEST, "params": params})
    assert response.json() == {
        "jsonrpc": "2.0",
        "error": {"code": -32602, "message": "Missing required field 'text' in inputs."},
        "id": "request-982731",
    }
    assert await count_tasks(client) == 0


async def test_section_6_2_unknown_method_is_not_found(client: httpx.AsyncClient) -> None:
    response = await client.post("/", json={**SEED_REQUEST, "method": "sing"})
    error = response.json()["error"]
    assert error["code"] == -32601
    assert "the intents of this agent are: summarize_text, analyze_sentiment" in error["message"]


async def test_section_6_2_intent_needs_no_protocol_version(desk: Desk) -> None:
    async with serving(desk, protocol_versions=["1.0"]) as client:
        assert "result" in (await client.post("/", json=SEED_REQUEST)).json()
        other = await client.post("/", json={**SEED_REQUEST, "method": "message/send"})
        assert other.json()["error"]["code"] == -32009


async def test_section_6_2_rest_request(client: httpx.AsyncClient, desk: Desk) -> None:
    response = await client.post("/run", json=SEED_BODY)
    assert (response.status_code, response.json()) == (200, {"sentiment": "positive"})
    assert desk.executed == ["analyze_sentiment"]


async def test_section_7_3_predictive_rejection(client: httpx.AsyncClient) -> None:
    body = {"intent": "summarize_text", "inputs": {"length": "short"}}
    response = await client.post("/run", json=body)
    assert response.status_code == 400
    assert response.json() == {"error": {"code": 400, "message": "Missing required field: 'text'"}}
    assert await count_tasks(client) == 0


async def test_section_6_2_notification_is_executed_and_gets_no_response(
    client: httpx.AsyncClient, desk: Desk
) -> None:
    params = {"inputs": SEED_BODY["inputs"]}
    notification = {"jsonrpc": "2.0", "method": "analyze_sentiment", "params": params}
    response = await client.post("/", json=notification)
    assert (response.status_code, response.content) == (204, b"")
    assert not {"content-length", "content-type"} & set(response.headers)
    assert desk.executed == ["analyze_sentiment"]
    response = await client.post("/", json={**notification, "params": {"inputs": {}}})
    assert (response.status_code, response.content) == (204, b"")
    assert await count_tasks(client) == 1
    response = await client.post("/", json={**notification, "id": None})
    assert response.json() == {"jsonrpc": "2.0", "id": None, "result": {"sentiment": "positive"}}


async def test_unknown_method_without_an_id_is_an_error(client: httpx.AsyncClient) -> None:
    # The conformance suite of A2A requires the error.
    body = {"jsonrpc": "2.0", "method": "sing", "params": {"inputs": {}}}
    for request in (body, {**body, "id": None}):
        response = await client.post("/", json=request)
        assert (response.status_code, response.json()["error"]["code"]) == (200, -32601)
    known = await client.post("/", json={**body, "method": "SendMessage"})
    assert "A2A-Version: 1.0" in known.json()["error"]["message"]


async def test_notification_that_may_not_be_sent_has_the_status_of_the_error(desk: Desk) -> None:
    tokens = StaticTokens(
        [TokenEntry(sha256=token_hash(TOKEN), caller="planner", permissions=["agent.invoke"])]
    )
    notification = {"jsonrpc": "2.0", "method": "pay", "params": {"inputs": {"amount": 1}}}
    async with serving(desk, verifier=tokens) as client:
        response = await client.post("/", json=notification)
        assert response.status_code == 401
        head = {"Authorization": f"Bearer {TOKEN}"}
        response = await client.post("/", json=notification, headers=head)
        assert (response.status_code, response.content) == (403, b"")
        assert desk.executed == []


async def test_section_7_3_text_that_lacks_an_input_is_rejected_before_a_task_is_stored() -> None:
    @intent
    def translate(text: str, language: str) -> str:
        return f"{text} ({language})"

    app = create_app(translate.as_agent(), public_url="http://desk", anonymous_listing=True)
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    head = {"A2A-Version": "1.0"}
    async with (
        app.lifespan(),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://desk", headers=head
        ) as client,
    ):
        error = (await client.post("/", json=rpc)).json()["error"]
        assert error["code"] == -32602
        assert "Missing required field 'language' in inputs." in error["message"]
        assert "send the inputs as data" in error["message"]
        response = await client.post("/message:send", json={"message": message})
        assert response.status_code == 400
        assert await count_tasks(client) == 0


async def test_text_for_an_agent_with_several_intents_is_rejected_before_a_task_is_stored(
    client: httpx.AsyncClient,
) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    head = {"A2A-Version": "1.0"}
    response = await client.post("/message:send", json={"message": message}, headers=head)
    assert response.status_code == 400
    assert "names no intent; this agent has: summarize_text" in response.text
    assert await count_tasks(client) == 0


async def test_section_6_2_unknown_intent_of_a_rest_request(client: httpx.AsyncClient) -> None:
    response = await client.post("/run", json={**SEED_BODY, "intent": "sing"})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == 404
    assert await count_tasks(client) == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"null", 400),
        (b"[" * 100_000, 400),
        (b'{"intent": "look", "inputs": ' + b'{"a":' * 200 + b"1" + b"}" * 201, 400),
        (b'{"intent": "look", "memory": {"_active_agent": "x"}}', 400),
        (b'{"intent": "look", "context": {"permissions": 3}}', 400),
        (b'{"intent": "look", "surprise": 1}', 400),
        (b'{"intent": ["look"]}', 400),
    ],
)
async def test_invalid_bodies_are_rejected(
    client: httpx.AsyncClient, body: bytes, status: int
) -> None:
    headers = {"Content-Type": "application/json"}
    response = await client.post("/run", content=body, headers=headers)
    assert response.status_code == status
    assert response.json()["error"]["code"] == status
    assert await count_tasks(client) == 0


async def test_several_violations_are_sentences(client: httpx.AsyncClient) -> None:
    response = await client.post("/run", json={"intent": "summarize_text", "inputs": {"length": 1}})
    assert response.json()["error"]["message"] == (
        "Missing required field: 'text'. Field 'length' in inputs must be a string, got an integer."
    )


async def test_invalid_headers_of_a_rest_request_have_its_form_of_error(
    client: httpx.AsyncClient,
) -> None:
    twice = [("Authorization", "Bearer a"), ("Authorization", "Bearer b")]
    response = await client.post("/run", json=SEED_BODY, headers=twice)
    assert response.status_code == 401
    error = response.json()["error"]
    assert error == {"code": 401, "message": "the header authorization occurs twice"}


async def test_run_accepts_only_post_with_json(client: httpx.AsyncClient) -> None:
    assert (await client.get("/run")).status_code == 405
    assert (await client.post("/run", content=b"{}")).status_code == 415


async def test_section_7_1_wrong_output_names_field_and_agent(client: httpx.AsyncClient) -> None:
    response = await client.post("/run", json={"intent": "broken_output", "inputs": {}})
    assert response.status_code == 500
    message = response.json()["error"]["message"]
    assert "'total'" in message
    assert "'broken_output'" in message
    assert "secret" not in message


async def test_section_7_1_wrong_output_over_json_rpc_names_field_and_agent(
    client: httpx.AsyncClient,
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "broken_output", "params": {}}
    error = (await client.post("/", json=body)).json()["error"]
    assert error["code"] == -32603
    assert "'total'" in error["message"]
    assert "broken_output" in error["message"]
    assert "secret" not in error["message"]


async def test_exception_of_a_node_is_not_disclosed(client: httpx.AsyncClient) -> None:
    response = await client.post("/run", json={"intent": "crash", "inputs": {}})
    assert (response.status_code, response.json()) == (
        500,
        {"error": {"code": 500, "message": "Internal error"}},
    )


async def test_node_without_schema_rejects_a_missing_field(client: httpx.AsyncClient) -> None:
    response = await client.post("/run", json={"intent": "publish_log", "inputs": {}})
    assert (response.status_code, response.json()["error"]["message"]) == (
        400,
        "Missing required field: 'message'",
    )


async def test_intent_that_needs_input_names_its_task(client: httpx.AsyncClient) -> None:
    response = await client.post("/run", json={"intent": "approval", "inputs": {}})
    assert response.status_code == 409
    assert "May I?" in response.json()["error"]["message"]


async def test_section_2_2_session_of_the_context_is_continued(client: httpx.AsyncClient) -> None:
    body = {"intent": "resolve_network_issue", "inputs": {}, "context": {"session_id": "case-1"}}
    actions = [(await client.post("/run", json=body)).json()["action"] for _ in range(4)]
    assert actions == [*["run_diagnostics_check"] * 3, "escalate_to_support"]
    other = {**body, "context": {}}
    assert (await client.post("/run", json=other)).json()["action"] == "run_diagnostics_check"


async def test_section_12_2_replayed_request_is_skipped(client: httpx.AsyncClient) -> None:
    body = {
        "intent": "publish_log",
        "inputs": {"request_id": "r-1", "message": "hello"},
        "context": {"session_id": "logs"},
    }
    statuses = [(await client.post("/run", json=body)).json()["status"] for _ in range(2)]
    assert statuses == ["success", "skipped"]


async def test_section_10_3_context_reaches_the_node_as_claims(
    client: httpx.AsyncClient, desk: Desk
) -> None:
    context = {
        "caller": "agent://report_orchestrator",
        "request_id": "req-cbe13a",
        "trace_id": "trace-7739a",
        "user_id": "user-12081",
        "permissions": ["read:docs", "write:summary"],
        "memory": {"pipeline_stage": "extracted", "current_doc": "document_003"},
    }
    body = {"intent": "look", "inputs": {}, "memory": {"stage": 2}, "context": context}
    response = await client.post("/run", json=body)
    assert response.json() == {"memory": {"stage": 2}}
    seen = desk.contexts[0]
    assert seen.pop("timestamp")
    assert seen == context


def tokens() -> StaticTokens:
    return StaticTokens(
        [
            TokenEntry(
                sha256=token_hash(TOKEN),
                caller="research_planner",
                permissions=["agent.invoke", "agent.read", "read"],
            ),
            TokenEntry(
                sha256=token_hash("payer"),
                caller="payer",
                permissions=["agent.invoke", "agent.read", "pay", "read"],
            ),
        ]
    )


async def test_section_6_2_caller_must_be_backed_by_the_credentials(desk: Desk) -> None:
    async with serving(desk, verifier=tokens()) as client:
        assert (await client.post("/run", json=SEED_BODY)).status_code == 401
        own = {"Authorization": f"Bearer {TOKEN}"}
        answered = await client.post("/", json=SEED_REQUEST, headers=own)
        assert "result" in answered.json()
        other = {"Authorization": "Bearer payer"}
        refused = await client.post("/", json=SEED_REQUEST, headers=other)
        assert refused.status_code == 403
        assert "research_planner" in refused.json()["error"]["message"]
        assert await count_tasks(client, **other) == 0


@pytest.mark.parametrize(
    "claim", [{}, {"caller": "payer"}, {"caller": "agent:payer"}, {"caller": "agent://payer"}]
)
async def test_section_6_8_node_sees_the_caller_of_the_credentials(
    desk: Desk, claim: dict[str, str]
) -> None:
    # A node may filter by this name, so that another spelling would avoid the filter.
    async with serving(desk, verifier=tokens()) as client:
        headers = {"Authorization": "Bearer payer"}
        body = {"intent": "look", "inputs": {}, "context": claim}
        assert (await client.post("/run", json=body, headers=headers)).status_code == 200
    assert desk.contexts[0]["caller"] == "payer"


async def test_permissions_of_a_contract_are_required(desk: Desk) -> None:
    body = {"intent": "pay", "inputs": {"amount": 5}}
    async with serving(desk, verifier=tokens()) as client:
        own = {"Authorization": f"Bearer {TOKEN}"}
        payer = {"Authorization": "Bearer payer"}
        refused = await client.post("/run", json=body, headers=own)
        assert refused.status_code == 403
        assert "'pay'" in refused.json()["error"]["message"]
        challenge = 'Bearer error="insufficient_scope", scope="pay"'
        assert refused.headers["www-authenticate"] == challenge
        reduced = {**body, "context": {"permissions": ["read"]}}
        refused = await client.post("/run", json=reduced, headers=payer)
        assert (refused.status_code, "www-authenticate" in refused.headers) == (403, False)
        claimed = {**body, "context": {"permissions": ["pay"]}}
        assert (await client.post("/run", json=claimed, headers=own)).status_code == 403
        assert desk.executed == []
        assert (await client.post("/run", json=body, headers=payer)).json() == {"result": 5}


async def test_contracts_are_listed(client: httpx.AsyncClient) -> None:
    document = (await client.get("/contracts")).json()
    assert document["agent"] == "desk"
    contract = document["contracts"][0]
    assert contract["name"] == "summarize_text"
    assert contract["inputSchema"]["required"] == ["text"]
    assert contract["outputSchema"]["properties"]["summary"]["type"] == "string"


# The A2A extension


def a2a_message(skill: str, inputs: Any, **entry: Any) -> dict[str, Any]:
    return {
        "message": {
            "messageId": "m1",
            "role": "ROLE_USER",
            "parts": [{"data": inputs}],
            "metadata": {INTENTS_EXTENSION: {"skill": skill, **entry}},
        }
    }


ACTIVE = {"A2A-Version": "1.0", "A2A-Extensions": INTENTS_EXTENSION}


async def test_card_has_the_schemas_of_each_skill(client: httpx.AsyncClient) -> None:
    card = (await client.get("/.well-known/agent-card.json")).json()
    extensions = {one["uri"]: one for one in card["capabilities"]["extensions"]}
    extension = extensions[INTENTS_EXTENSION]
    assert not extension.get("required")
    schema = extension["params"]["skills"]["summarize_text"]["inputSchema"]
    assert schema["properties"]["length"]["default"] == "medium"
    assert "summarize_text" in {skill["id"] for skill in card["skills"]}


async def test_message_with_the_extension_calls_the_skill(client: httpx.AsyncClient) -> None:
    body = a2a_message("summarize_text", {"text": "abc", "length": "long"})
    response = await client.post("/message:send", json=body, headers=ACTIVE)
    assert response.headers["a2a-extensions"] == INTENTS_EXTENSION
    task = response.json()["task"]
    assert task["artifacts"][0]["parts"][0]["data"] == {"summary": "abc"}


async def test_invalid_inputs_are_rejected_with_field_violations(
    client: httpx.AsyncClient,
) -> None:
    body = a2a_message("summarize_text", {"txt": "abc"})
    response = await client.post("/message:send", json=body, headers=ACTIVE)
    assert response.status_code == 400
    details = response.json()["error"]["details"]
    violations = next(one["fieldViolations"] for one in details if "fieldViolations" in one)
    assert {one["field"] for one in violations} == {"inputs.text", "inputs.txt"}
    assert await count_tasks(client) == 0


async def test_unknown_skill_is_rejected(client: httpx.AsyncClient) -> None:
    body = a2a_message("sing", {})
    response = await client.post("/message:send", json=body, headers=ACTIVE)
    assert response.status_code == 400
    assert "summarize_text" in response.json()["error"]["message"]
    assert await count_tasks(client) == 0


async def test_entry_without_activation_is_ignored(client: httpx.AsyncClient) -> None:
    body = a2a_message("summarize_text", {"text": "abc"})
    response = await client.post("/message:send", json=body, headers={"A2A-Version": "1.0"})
    assert response.status_code == 400
    assert "names no intent" in response.json()["error"]["message"]


async def test_forged_entry_in_a_part_is_ignored(client: httpx.AsyncClient, desk: Desk) -> None:
    entry = {INTENTS_EXTENSION: {"skill": "analyze_sentiment"}}
    part = {"data": {"review": "loved"}, "metadata": entry}
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [part]}
    headers = {"A2A-Version": "1.0"}
    response = await client.post("/message:send", json={"message": message}, headers=headers)
    assert response.status_code == 400
    assert "names no intent" in response.json()["error"]["message"]
    assert desk.executed == []


async def test_caller_in_the_extension_must_be_backed_by_the_credentials(desk: Desk) -> None:
    async with serving(desk, verifier=tokens()) as client:
        body = a2a_message("summarize_text", {"text": "a"}, context={"caller": "agent://other"})
        headers = {**ACTIVE, "Authorization": f"Bearer {TOKEN}"}
        response = await client.post("/message:send", json=body, headers=headers)
        assert response.status_code == 403
        assert await count_tasks(client, Authorization=f"Bearer {TOKEN}") == 0


async def test_node_is_served_alone() -> None:
    app = create_app(SummarizeTextNode(), public_url="http://desk")
    async with app.lifespan():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://desk") as client:
            response = await client.post("/run", json={"inputs": {"text": "abc"}})
            assert response.json() == {"summary": "abc..."}
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"txt": 1}}]}
            headers = {"A2A-Version": "1.0"}
            body = {"message": message}
            refused = await client.post("/message:send", json=body, headers=headers)
            assert refused.status_code == 400


async def test_agent_without_intents_has_no_run_path() -> None:
    class Plain(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            return "hello"

    app = create_app(Plain(name="plain"), public_url="http://desk")
    async with app.lifespan():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://desk") as client:
            assert (await client.post("/run", json=SEED_BODY)).status_code == 404
            assert (await client.get("/contracts")).json()["contracts"] == []
            assert SummaryRouterNode().contract.name == "summary_router"
            with pytest.raises(InvalidInput):
                SummaryRouterNode().run({}, {}, {})
