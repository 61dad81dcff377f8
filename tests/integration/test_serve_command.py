"""`acc token`, and the checks of `acc serve` before it starts."""

import json
import stat
import time
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from acc import Agent, tool
from acc.adapters.auth.bearer_tokens import StaticTokens
from acc.adapters.auth.keys import generate_key
from acc.application.a2a.quotas import check_limited_names
from acc.bootstrap.a2a import ServeOptions, make_server
from acc.cli import execute as run
from acc.testing import ScriptedModel


async def test_new_token_is_printed_once_and_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tokens.toml"
    assert run(["token", "add", str(file), "--caller", "billing"]) == 0
    first = capsys.readouterr()
    arguments = ["token", "add", str(file), "--caller", '鈴木 "様"', "--tenant", "acme"]
    arguments += ["--permission", "pay", "--permission", "tasks:send", "--expires-days", "2"]
    assert run(arguments) == 0
    second = capsys.readouterr()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert first.out.strip() not in file.read_text(encoding="utf-8")
    known = StaticTokens.from_file(file)
    principal = await known.verify(first.out.strip())
    assert principal is not None
    assert (principal.caller, principal.tenant, principal.permissions) == ("billing", "", None)
    principal = await known.verify(second.out.strip())
    assert principal is not None
    assert (principal.caller, principal.tenant) == ('鈴木 "様"', "acme")
    assert principal.permissions == {"pay", "tasks:send"}
    later = StaticTokens.from_file(file, now=lambda: time.time() + 3 * 24 * 3600)
    assert await later.verify(second.out.strip()) is None
    assert await later.verify(first.out.strip()) is not None


def test_token_file_content_is_preserved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tokens.toml"
    original = f'# ours\n[[token]] # the first\nsha256 = "{"0" * 64}"\ncaller = "one"'
    file.write_text(original, encoding="utf-8")
    assert run(["token", "add", str(file), "--caller", "two"]) == 0
    assert file.read_text(encoding="utf-8").startswith(original)
    capsys.readouterr()
    assert run(["token", "list", str(file), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["caller"], row["expires"]) for row in rows] == [("one", None), ("two", None)]


def test_token_list_shows_callers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(
        f'[[token]]\nsha256 = "{"a" * 64}"\ncaller = "[bold]old"\nexpires = 2020-01-01T00:00:00Z\n'
        f'[[token]]\nsha256 = "{"b" * 64}"\ncaller = "new"\npermissions = ["read"]\n',
        encoding="utf-8",
    )
    assert run(["token", "list", str(file)]) == 0
    output = capsys.readouterr().out
    for text in ("[bold]old", "(expired)", "aaaaaaaaaaaa", "never", "read", "all"):
        assert text in output
    assert "a" * 64 not in output


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["--caller", " "], "caller"),
        (["--caller", "a\nb"], "printable"),
        (["--caller", "a", "--expires-days", "0"], "--expires-days"),
        (["--caller", "a", "--expires-days", "nan"], "--expires-days"),
        (["--caller", "a", "--permission", ""], "permissions"),
    ],
)
def test_unusable_token_is_not_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], advice: str
) -> None:
    file = tmp_path / "tokens.toml"
    assert run(["token", "add", str(file), *arguments]) == 2
    output = capsys.readouterr()
    assert advice in output.err
    assert output.out == ""
    assert not file.exists()


def test_foreign_file_is_not_modified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "other.toml"
    for content in ('name = "x"\n', "not toml", "[[token]]\n"):
        file.write_text(content, encoding="utf-8")
        assert run(["token", "add", str(file), "--caller", "a"]) == 2
        assert str(file) in capsys.readouterr().err
        assert file.read_text(encoding="utf-8") == content
    assert run(["token", "add", str(tmp_path / "no" / "file"), "--caller", "a"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert run(["token", "add", str(tmp_path), "--caller", "a"]) == 2
    assert run(["token", "list", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["--host", "0.0.0.0"], "--tokens"),  # noqa: S104 - which is refused
        (["--host", "0.0.0.0", "--unprotected"], "--public-url"),  # noqa: S104 - which is refused
        (["--host", "::", "--unprotected"], "--public-url"),
        (["--public-url", "http://0.0.0.0:80"], "--public-url"),
        (["--cors-origin", "desk"], "origin"),
        (["--card", "no-such.json"], "no-such.json"),
        (["--max-body", "much"], "--max-body"),
        (["--max-body", "0"], "--max-body"),
        (["--heartbeat", "0"], "--heartbeat"),
        (["--keep-days", "-1"], "--keep-days"),
        (["--max-tasks", "0"], "--max-tasks"),
        (["--request-timeout", "nan"], "--request-timeout"),
        (["--token-quota", "0"], "--token-quota"),
        (["--replay-window", "0"], "--replay-window"),
        (["--rate-limit-store", "store"], "--rate-limit, --byte-limit"),
        (["--protocol-version", "2.0"], "2.0"),
        (["--port", "99999"], "--port"),
        (["--tokens", "no-such.toml"], "no-such.toml"),
        (["--sign-card", "no-such.pem"], "no-such.pem"),
        (["--push-key", "no-such.pem"], "no-such.pem"),
        (["--public-url", "foo"], "--public-url"),
        (["--public-url", "desk.example"], "--public-url"),
        (["--public-url", "https://me:it@desk.example"], "--public-url"),
        (["--public-url", "https://desk.example/?a=1"], "--public-url"),
        (["--allow", "http://x/y"], "--allow"),
        (["--allow", "10.0.0.0/99"], "--allow"),
        (["--allow", ""], "--allow"),
        (["--push-signing", "hmac"], "ACC_PUSH_SECRET"),
        (["--push-signing", "hmac", "--push-key", "no-such.pem"], "jwt or bearer"),
        (["--push-signing", "jwt"], "--push-key"),
        (["--push-signing", "bearer"], "--push-key"),
        (["--push-signing", "md5"], "md5"),
    ],
)
def test_invalid_options_prevent_start(
    capsys: pytest.CaptureFixture[str], arguments: list[str], advice: str
) -> None:
    assert run(["serve", "sample_agents:payment", "--port", "0", *arguments]) == 2
    output = capsys.readouterr()
    assert advice in output.err + output.out


def test_error_of_a_short_push_secret_names_its_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACC_PUSH_SECRET", "short")
    assert run(["serve", "sample_agents:payment", "--port", "0"]) == 2
    assert "ACC_PUSH_SECRET: the secret must have" in capsys.readouterr().err


def test_rate_of_an_unknown_intent_prevents_start(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--port", "0", "--rate-limit", "9/minute", "--rate-limit", "summarise=1/minute"]
    assert run(["serve", "intent_agents:desk", *options]) == 2
    error = capsys.readouterr().err
    assert "'summarise'" in error
    assert "summarize_text" in error


def test_limit_of_an_unknown_tool_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def search(query: str) -> str:
        """Search."""
        raise AssertionError

    helper = Agent(name="helper", description="Searches.", tools=[search])
    root = Agent(name="desk", sub_agents=[helper])
    check_limited_names(root, None, ["any=1/minute"], ["search=1/minute"])
    assert caplog.text == ""
    check_limited_names(root, None, [], ["serach=1/minute"])
    assert "serach" in caplog.text
    assert "there are: search" in caplog.text


def test_unusable_signing_key_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "key.pem"
    for content, advice in (
        (generate_key("ES256").as_pem(private=False), "private"),
        (b"hello", "neither a PEM"),
    ):
        path.write_bytes(content)
        for option in ("--sign-card", "--push-key"):
            assert run(["serve", "sample_agents:payment", "--port", "0", option, str(path)]) == 2
            assert advice in capsys.readouterr().err


async def test_mounted_server_follows_application_lifespan() -> None:
    agent = Agent(name="desk", description="Answers.", model=ScriptedModel("here", repeat=True))
    options = ServeOptions(public_url="http://test/agents/desk", hosts=None)
    server = make_server(agent, options)
    site = Starlette(routes=[Mount("/agents/desk", app=server)], lifespan=server.lifespan)
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    transport = httpx.ASGITransport(app=site)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:

        async def sent() -> httpx.Response:
            return await client.post(
                "/agents/desk/message:send",
                json={"message": message},
                headers={"A2A-Version": "1.0"},
            )

        assert "run its lifespan" in (await sent()).text
        async with site.router.lifespan_context(site):
            task = (await sent()).json()["task"]
    assert task["artifacts"][0]["parts"] == [{"text": "here"}]


@pytest.mark.parametrize("place", ["/agents/desk", "/窓口/案内", "/a b"])
async def test_mounted_server_responds_under_its_prefix(place: str) -> None:
    agent = Agent(name="desk", description="Answers.", model=ScriptedModel("here", repeat=True))
    server = make_server(agent, ServeOptions(public_url="http://test", hosts=None))
    site = Starlette(routes=[Mount(place, app=server)], lifespan=server.lifespan)
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    transport = httpx.ASGITransport(app=site)
    new = {"A2A-Version": "1.0"}
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://test", headers=new) as client,
        site.router.lifespan_context(site),
    ):
        assert (await client.get(f"{place}/.well-known/agent-card.json")).json()["name"] == "desk"
        assert (await client.get(f"{place}/health")).status_code == 200
        task = (await client.post(f"{place}/", json=call)).json()["result"]["task"]
        for tenant in ("", "/東京"):
            sent = await client.post(f"{place}{tenant}/message:send", json={"message": message})
            assert (sent.json()["task"]["id"] == task["id"]) is (tenant == "")


def test_agent_without_a_model_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "modelless.py").write_text("from acc import Agent\nroot = Agent(name='desk')\n")
    monkeypatch.chdir(tmp_path)
    assert run(["serve", "modelless.py:root", "--port", "0"]) == 2
    message = capsys.readouterr().err
    assert "no model is set for 'desk'" in message
    assert "--allow-embedded" in message
