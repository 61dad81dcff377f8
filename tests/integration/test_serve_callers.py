"""`acc serve` with a token file and an agent that declares what its callers may read."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from caller_agents import AUDIT, CHECKOUT, FRAUD, SECRETS, STATE, payment
from server_process import Server

from acc import Runner
from acc.a2a import TokenEntry, token_hash
from acc.adapters.auth.bearer_tokens import append_entry
from acc.application.inspection.run_trace import trace_runs
from acc.bootstrap.inspection import recorded_events
from acc.contracts import INTENTS_EXTENSION

OTHER = "agent://other_agent"
TOTAL, SUMMARY = "total-9", "summary-ok"
VISIBLE = {
    FRAUD: (TOTAL, SUMMARY),
    AUDIT: (SUMMARY,),
    CHECKOUT: (*SECRETS, TOTAL, SUMMARY),
}


async def prepare(store: Path) -> None:
    runner = Runner(payment, app_name="payment", store=store)
    for caller in (*VISIBLE, OTHER):
        for session in ("s1", "s2", "s3"):
            await runner.update_state(STATE, user_id=f"/{caller}", session_id=session)
    await runner.aclose()


def ask(url: str, caller: str) -> dict[str, str]:
    """Send the intent over three interfaces; return what the responses contain."""
    headers = {"Authorization": f"Bearer acc_{caller}", "A2A-Version": "1.0"}
    active = {**headers, "A2A-Extensions": INTENTS_EXTENSION}
    inputs = {"text": "look"}
    message = {
        "messageId": "m1",
        "role": "ROLE_USER",
        "contextId": "s3",
        "parts": [{"data": inputs}],
        "metadata": {INTENTS_EXTENSION: {"skill": "inspect"}},
    }
    payload = {"inputs": inputs, "context": {"session_id": "s1"}}
    rpc = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "inspect",
        "params": {"inputs": inputs, "context": {"session_id": "s2"}},
    }
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        responses = {
            "run": http.post("/run", json={"intent": "inspect", **payload}, headers=headers),
            "json-rpc": http.post("/", json=rpc, headers=headers),
            "a2a": http.post("/message:send", json={"message": message}, headers=active),
            "node": http.post("/run", json={"intent": "dump", **payload}, headers=headers),
            "tasks": http.get("/tasks", headers=headers),
            "card": http.get("/.well-known/agent-card.json", headers=headers),
            "extended card": http.get("/extendedAgentCard", headers=headers),
        }
    return {name: response.text for name, response in responses.items()}


@pytest.mark.parametrize("caller", [FRAUD, AUDIT, CHECKOUT])
def test_caller_gets_only_what_its_grant_allows(tmp_path: Path, caller: str) -> None:
    tokens, store = tmp_path / "tokens.toml", tmp_path / "acc.db"
    for name in VISIBLE:
        append_entry(tokens, TokenEntry(sha256=token_hash(f"acc_{name}"), caller=name))
    asyncio.run(prepare(store))
    options = ["--tokens", str(tokens), "--store", str(store)]
    with Server(tmp_path, *options, agent="caller_agents:payment") as server:
        found = ask(server.url, caller)
    allowed = VISIBLE[caller]
    hidden = {*SECRETS, TOTAL, SUMMARY}.difference(allowed)
    for name in ("run", "json-rpc", "a2a", "node"):
        assert all(value in found[name] for value in allowed if value != SECRETS[-1]), found[name]
    for place, text in found.items():
        assert not [value for value in hidden if value in text], place
    assert "agent://" not in found["card"] + found["extended card"]
    shown = asyncio.run(recorded(store, caller))
    written = SECRETS[-1]  # the event of the write has what the tool wrote
    assert all(value in shown for value in allowed)
    assert not [value for value in hidden if value in shown and value != written]


async def recorded(store: Path, caller: str) -> str:
    """Return what the traces of a caller's runs contain."""
    texts: list[Any] = []
    for session in ("s1", "s2", "s3"):
        events = await recorded_events(
            str(store), session, app_name="payment", user_id=f"/{caller}"
        )
        runs = [event for event in events if event.kind != "state" or event.step]
        texts += [runs, trace_runs(runs, requests=True)]
    return repr(texts)
