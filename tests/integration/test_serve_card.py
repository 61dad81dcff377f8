"""`acc serve` with a card file and `-v`; `acc check` with a card file; traces over two servers."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from server_process import ALICE, Server, tokens_file

from acc import BaseAgent, RemoteAgent, RunContext, SequentialAgent
from acc.a2a import StaticTokens, TokenEntry, create_app, token_hash
from acc.adapters.a2a.server.uvicorn import bind, serving
from acc.cli import execute as run

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
HERE = Path(__file__).parent
SKILL = {"id": "pay", "name": "支払い", "description": "Pays.", "tags": ["a"], "examples": ["b"]}


def write(folder: Path, **fields: Any) -> str:
    path = folder / "card.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    return str(path)


def test_served_card_is_that_of_the_file_and_requests_are_logged(tmp_path: Path) -> None:
    card = write(tmp_path, name="支払い窓口", version="2.1.0", skills=[SKILL])
    options = ("--card", card, "-v", "--tokens", str(tokens_file(tmp_path)))
    with Server(tmp_path, *options, agent="sample_agents:payment") as server:
        document = httpx.get(f"{server.url}/.well-known/agent-card.json").json()
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "秘密"}]}
        reply = httpx.post(
            f"{server.url}/message:send",
            json={"message": message},
            headers={
                "A2A-Version": "1.0",
                "traceparent": PARENT,
                "Authorization": f"Bearer {ALICE}",
            },
        )
        server.terminate(within=30)  # a line may be written after its response
        lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    assert (document["name"], document["version"]) == ("支払い窓口", "2.1.0")
    assert [skill["id"] for skill in document["skills"]] == ["pay"]
    task = reply.json()["task"]["id"]
    access = [line for line in lines if line.get("method") == "SendMessage"]
    assert [(one["caller"], one["task_id"], one["status"], one["trace_id"]) for one in access] == [
        ("alice", task, "200", TRACE)
    ]
    assert float(access[0]["duration_ms"]) > 0
    assert any("agent" in line and line.get("trace_id") == TRACE for line in lines)
    assert "秘密" not in server.log
    assert ALICE not in server.log


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"skills": [SKILL]}, 0, "card"),
        ({"skills": [{**SKILL, "tags": []}]}, 0, "skills[0].tags"),
        ({"skills": [{**SKILL, "inputModes": ["video/mp4"]}]}, 1, "video/mp4"),
        ({"skils": []}, 2, "skils"),
    ],
)
def test_check_covers_the_card(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    fields: Any,
    status: int,
    text: str,
) -> None:
    agent = tmp_path / "desk.py"
    agent.write_text(
        "from acc import Agent\n"
        "desk = Agent(name='desk', model='embedded', description='A desk.', instruction='Help.')\n"
    )
    assert run(["check", f"{agent}:desk", "--card", write(tmp_path, **fields)]) == status
    output = capsys.readouterr()
    assert text in output.out + output.err


def test_url_of_the_card_must_agree_with_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = tmp_path / "desk.py"
    agent.write_text("from acc import Agent\ndesk = Agent(name='desk', model='embedded')\n")
    card = write(tmp_path, url="https://a.example/desk")
    arguments = ["serve", f"{agent}:desk", "--card", card, "--public-url", "https://b.example"]
    assert run(arguments) == 2
    assert "differ" in capsys.readouterr().err


class ContextAgent(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        call = ctx.call
        permissions = None if call.permissions is None else sorted(call.permissions)
        return json.dumps(
            {
                "trace": call.trace_id,
                "request": call.request_id,
                "caller": call.caller,
                "permissions": permissions,
                "on_behalf_of": call.claims.get("on_behalf_of"),
            }
        )


def verifier(token: str, caller: str, permissions: list[str] | None) -> StaticTokens:
    return StaticTokens(
        [TokenEntry(sha256=token_hash(token), caller=caller, permissions=permissions)]
    )


async def test_trace_request_id_and_permissions_reach_the_next_server() -> None:
    back, front = bind("127.0.0.1", 0), bind("127.0.0.1", 0)
    back_url, front_url = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in (back, front))
    behind = create_app(
        ContextAgent(name="context"),
        public_url=back_url,
        verifier=verifier("front-token", "agent://front", None),
    )
    remote = RemoteAgent(name="remote", url=back_url, token="front-token", allow=("127.0.0.1",))
    before = create_app(
        SequentialAgent(name="front", sub_agents=[remote]),
        public_url=front_url,
        allow=("127.0.0.1",),
        verifier=verifier("user-token", "alice", ["agent.invoke", "refund"]),
    )
    async with serving(behind, back), serving(before, front), httpx.AsyncClient() as http:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
        reply = await http.post(
            f"{front_url}/message:send",
            json={"message": message},
            headers={
                "A2A-Version": "1.0",
                "Authorization": "Bearer user-token",
                "traceparent": PARENT,
            },
        )
    task = reply.json()["task"]
    seen = json.loads(task["artifacts"][0]["parts"][0]["text"])
    assert seen["trace"] == TRACE
    assert seen["request"] == task["id"]
    assert seen["caller"].endswith("agent://front")
    assert seen["on_behalf_of"].endswith("alice")
    assert seen["permissions"] == ["agent.invoke", "refund"]
