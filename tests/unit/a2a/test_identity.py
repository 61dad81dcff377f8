"""Identity of callers at the HTTP interface: 401, 403, scopes per operation."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from forged_tokens import FORGED, publish_all
from http_app import served
from identity_provider import AUDIENCE, IdentityProvider, identity_provider
from server_harness import CommandAgent

from acc.a2a import (
    JwtVerifier,
    RateLimiter,
    StaticTokens,
    TokenEntry,
    TokenFile,
    TrustedIssuer,
    create_app,
    token_hash,
)
from acc.adapters.auth.bearer_tokens import append_entry
from acc.contracts import IntentAgent, intent

MISSING_TASK = {"id": "none"}
PUSH = {"taskId": "none", "id": "p", "url": "https://example.com/hook"}


def app_for(provider: IdentityProvider, agent: CommandAgent | None = None) -> Any:
    issuer = TrustedIssuer(issuer=provider.url, audience=AUDIENCE)
    verifier = JwtVerifier([issuer], allow=("127.0.0.1",))
    return create_app(agent or CommandAgent(name="desk"), verifier=verifier)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic {}"},
        {"Authorization": "Token {}"},
        {"Authorization": "{}"},
        {"Authorization": "Bearer {} {}"},
        {"Authorization": "Bearer {},Bearer {}"},
        {"Authorization": "Bearer={}"},
        {"X-Authorization": "Bearer {}"},
        {"Proxy-Authorization": "Bearer {}"},
        {"X-Forwarded-User": "admin"},
        {"X-API-Key": "{}"},
        {"Cookie": "token={}"},
    ],
)
async def test_forged_header_is_unauthorized(headers: dict[str, str]) -> None:
    agent = CommandAgent(name="desk")
    async with identity_provider() as provider, served(app_for(provider, agent)) as app:
        token = provider.token()
        head = {name: value.replace("{}", token) for name, value in headers.items()}
        response = await app.send(headers=head)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert token not in response.text
    assert agent.log == []


@pytest.mark.parametrize("name", FORGED)
async def test_forged_token_is_unauthorized_and_leaves_nothing(name: str) -> None:
    executed: list[str] = []

    @intent
    def count(inputs: dict[str, Any]) -> dict[str, Any]:
        """Count the inputs."""
        executed.append("count")
        return {}

    async with identity_provider() as provider:
        publish_all(provider)
        issuer = TrustedIssuer(issuer=provider.url, audience=AUDIENCE)
        limiter = Recorder(["100/minute"])
        app = create_app(
            IntentAgent(name="desk", intents=[count]),
            verifier=JwtVerifier([issuer], allow=("127.0.0.1",)),
            limiter=limiter,
        )
        token = FORGED[name](provider)
        async with served(app) as client:
            # As bytes, because a client would not send every forged token.
            head = [
                (b"Authorization", f"Bearer {token}".encode()),
                (b"Content-Type", b"application/json"),
                (b"A2A-Version", b"1.0"),
            ]
            run = {"intent": "count", "inputs": {}}
            rpc = {"jsonrpc": "2.0", "id": 1, "method": "count", "params": {"inputs": {}}}
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {}}]}
            for path, body in (
                ("/run", run),
                ("/", rpc),
                ("/message:send", {"message": message}),
                ("/", {**rpc, "method": "SendMessage", "params": {"message": message}}),
            ):
                response = await client.http.post(path, content=json.dumps(body), headers=head)
                assert response.status_code == 401, (path, response.text)
                assert response.headers["www-authenticate"] == "Bearer"
            assert (executed, limiter.counted) == ([], [])
            listed = await client.rpc("ListTasks", {}, provider.token())
            assert listed.json()["result"]["totalSize"] == 0
            assert len(limiter.counted) == 1


class Recorder(RateLimiter):
    """A limiter that records what it counted."""

    def __init__(self, rates: list[str]) -> None:
        super().__init__(rates)
        self.counted: list[str] = []

    async def count_request(self, caller: str, intent: str = "") -> None:
        self.counted.append(caller)
        await super().count_request(caller, intent)


def test_there_are_at_least_sixty_forged_tokens_and_headers() -> None:
    assert len(FORGED) >= 60


async def test_several_authorization_headers_are_unauthorized() -> None:
    agent = CommandAgent(name="desk")
    async with identity_provider() as provider, served(app_for(provider, agent)) as app:
        valid, other = f"Bearer {provider.token()}".encode(), b"Bearer other"
        for pair in ((valid, valid), (valid, other), (other, valid), (b"", valid)):
            head = [(b"Authorization", value) for value in pair]
            head += [(b"Content-Type", b"application/json"), (b"A2A-Version", b"1.0")]
            body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
            response = await app.http.post("/", content=json.dumps(body), headers=head)
            assert response.status_code == 401, pair
            assert response.headers["www-authenticate"] == "Bearer"
    assert agent.log == []


async def test_invalid_jwt_is_unauthorized_and_leaves_no_task() -> None:
    agent = CommandAgent(name="desk")
    async with identity_provider() as provider, served(app_for(provider, agent)) as app:
        for token in (provider.token(exp=1), provider.token(aud="https://other.example")):
            response = await app.send(token=token)
            assert response.status_code == 401
            assert response.json()["error"]["code"] == -32040
        listed = await app.rpc("ListTasks", {}, provider.token())
        assert listed.json()["result"]["totalSize"] == 0
    assert agent.log == []


async def test_caller_of_jwt_owns_the_task() -> None:
    async with identity_provider() as provider, served(app_for(provider)) as app:
        task = (await app.send(token=provider.token())).json()["result"]["task"]
        own = await app.rpc("GetTask", {"id": task["id"]}, provider.token())
        assert own.json()["result"]["id"] == task["id"]
        other = await app.rpc("GetTask", {"id": task["id"]}, provider.token(sub="other"))
        assert other.json()["error"]["code"] == -32001


@pytest.mark.parametrize(
    ("method", "params", "scope"),
    [
        ("SendMessage", None, "agent.invoke"),
        ("SendStreamingMessage", None, "agent.invoke"),
        ("CancelTask", MISSING_TASK, "agent.invoke"),
        ("CreateTaskPushNotificationConfig", PUSH, "agent.invoke"),
        ("DeleteTaskPushNotificationConfig", {"taskId": "none", "id": "p"}, "agent.invoke"),
        ("GetTask", MISSING_TASK, "agent.read"),
        ("ListTasks", {}, "agent.read"),
        ("SubscribeToTask", MISSING_TASK, "agent.read"),
        ("GetTaskPushNotificationConfig", {"taskId": "none", "id": "p"}, "agent.read"),
        ("ListTaskPushNotificationConfigs", {"taskId": "none"}, "agent.read"),
    ],
)
async def test_operation_requires_scope(method: str, params: Any, scope: str) -> None:
    agent = CommandAgent(name="desk")
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    params = {"message": message} if params is None else params
    other = {"agent.invoke": "agent.read", "agent.read": "agent.invoke"}[scope]
    async with identity_provider() as provider, served(app_for(provider, agent)) as app:
        for scopes in (other, "", "agent.invoke.all AGENT.INVOKE agent.* agent.rea"):
            response = await app.rpc(method, params, provider.token(scope=scopes))
            assert response.status_code == 403
            challenge = response.headers["www-authenticate"]
            assert challenge == f'Bearer error="insufficient_scope", scope="{scope}"'
            detail = response.json()["error"]["data"][0]
            assert detail["reason"] == "INSUFFICIENT_SCOPE"
            assert detail["metadata"] == {"scope": scope}
        assert agent.log == []
        allowed = await app.rpc(method, params, provider.token(scope=scope))
        assert allowed.status_code == 200


async def test_rest_names_the_missing_scope() -> None:
    async with identity_provider() as provider, served(app_for(provider)) as app:
        response = await app.get("/tasks", provider.token(scope="agent.invoke"))
        assert response.status_code == 403
        assert "agent.read" in response.json()["error"]["message"]


async def test_static_token_without_permissions_may_do_everything() -> None:
    tokens = StaticTokens(
        [
            TokenEntry(sha256=token_hash("acc_all"), caller="a"),
            TokenEntry(sha256=token_hash("acc_read"), caller="a", permissions=("agent.read",)),
        ]
    )
    async with served(create_app(CommandAgent(name="desk"), verifier=tokens)) as app:
        assert (await app.send(token="acc_all")).status_code == 200
        assert (await app.send(token="acc_read")).status_code == 403
        assert (await app.get("/tasks", "acc_read")).json()["totalSize"] == 1


async def test_unreachable_issuer_is_503_with_retry_after() -> None:
    async with identity_provider() as provider, served(app_for(provider)) as app:
        provider.is_broken = True
        response = await app.send(token=provider.token())
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1


async def test_revoked_static_token_is_rejected_without_restart(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    for name in ("one", "two"):
        append_entry(path, TokenEntry(sha256=token_hash(f"acc_{name}"), caller=name))
    app = create_app(CommandAgent(name="desk"), verifier=TokenFile(path))
    async with served(app) as client:
        assert (await client.send(token="acc_one")).status_code == 200
        path.unlink()
        assert (await client.send(token="acc_one")).status_code == 401
        append_entry(path, TokenEntry(sha256=token_hash("acc_two"), caller="two"))
        assert (await client.send(token="acc_one")).status_code == 401
        assert (await client.send(token="acc_two")).status_code == 200
        path.write_text("broken", encoding="utf-8")
        assert (await client.send(token="acc_two")).status_code == 401


@dataclass(kw_only=True, eq=False)
class PaymentAgent(CommandAgent):
    """The agent of the specification, which authorizes callers by intent."""

    def authorize_call(self, intent: str, caller: str) -> bool:
        return not (intent == "process_transaction" and caller != "agent://checkout_agent")


async def test_intent_is_authorized_by_caller() -> None:
    agent = PaymentAgent(name="payment")
    message = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"text": "pay"}],
        "metadata": {"intent": "process_transaction"},
    }
    async with identity_provider() as provider, served(app_for(provider, agent)) as app:
        other = provider.token(sub="agent://other_agent")
        response = await app.rpc("SendMessage", {"message": message}, other)
        assert response.status_code == 403
        assert agent.log == []
        assert (await app.get("/tasks", other)).json()["totalSize"] == 0
        assert (await app.send("metadata", other)).status_code == 200
        allowed = await app.rpc("SendMessage", {"message": message}, provider.token())
        assert allowed.status_code == 200
    assert agent.log == ["metadata", "pay"]


@intent
def quote(text: str) -> dict[str, str]:
    """Quote a text."""
    return {"quote": text}


async def test_intent_at_run_requires_scope_and_has_a_rate() -> None:
    limiter = RateLimiter(per_intent={"quote": ["1/minute"]})
    body = {"intent": "quote", "inputs": {"text": "払う"}}
    async with identity_provider() as provider:
        issuer = TrustedIssuer(issuer=provider.url, audience=AUDIENCE)
        verifier = JwtVerifier([issuer], allow=("127.0.0.1",))
        agent = IntentAgent(name="desk", intents=[quote])
        async with served(create_app(agent, verifier=verifier, limiter=limiter)) as app:
            responses = [
                await app.http.post("/run", json=body, headers={"Authorization": f"Bearer {token}"})
                for token in (
                    provider.token(exp=1),
                    provider.token(scope="agent.read"),
                    provider.token(),
                    provider.token(),
                )
            ]
    assert [response.status_code for response in responses] == [401, 403, 200, 429]
    assert "agent.invoke" in responses[1].headers["www-authenticate"]
    assert responses[2].json()["quote"] == "払う"
    assert int(responses[3].headers["retry-after"]) >= 1
