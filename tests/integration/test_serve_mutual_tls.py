"""`acc serve --tls-client-ca` and `--tls-proxy`, called by RemoteAgent with real certificates."""

import re
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from certificates import Authority, Issued
from server_process import ALICE, Server, tokens_file

from acc import MutualTls, RemoteAgent, Runner
from acc.bootstrap.a2a_client import make_remote
from acc.cli import execute as run

MESSAGE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "SendMessage",
    "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}},
}
HEAD = {"A2A-Version": "1.0"}


def post(url: str, authority: Authority, issued: Issued | None, **headers: str) -> httpx.Response:
    context = ssl.create_default_context(cafile=str(authority.file))
    if issued is not None:
        context.load_cert_chain(issued.chain, issued.key)
    with httpx.Client(verify=context, trust_env=False) as client:
        return client.post(url, json=MESSAGE, headers={**HEAD, **headers})


def owner(response: httpx.Response) -> Any:
    return response.json()["result"]["task"]["id"]


async def test_client_certificate_identifies_the_caller(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "Other CA")
    server = authority.issue("127.0.0.1", address="127.0.0.1", is_client=False)
    desk = authority.issue(uris=("agent://desk",))
    options = ["--tls-cert", str(server.chain), "--tls-key", str(server.key)]
    options += ["--tls-client-ca", str(authority.file), "--tokens", str(tokens_file(tmp_path))]
    with Server(tmp_path, "-v", *options) as process:
        url = f"https://127.0.0.1:{process.port}/"
        remote = RemoteAgent(
            name="remote",
            url=url,
            auth=MutualTls(cert=desk.chain, key=desk.key, ca=authority.file),
            allow=["127.0.0.1"],
        )
        assert (await Runner(remote).run("hello")).status.value == "completed"
        assert process.logs('"agent://desk"')

        # Certificates of other authorities, expired ones and those of servers end the handshake.
        rejected = [
            stranger.issue(uris=("agent://desk",)),
            authority.issue(uris=("agent://desk",), expired=True),
            authority.issue(uris=("agent://desk",), is_client=False),
        ]
        for issued in rejected:
            with pytest.raises(httpx.TransportError):
                post(url, authority, issued)

        assert post(url, authority, None).status_code == 401
        assert post(url, authority, None, **{"Client-Cert": quote(desk.pem)}).status_code == 401
        assert post(url, authority, desk, Authorization="Bearer wrong").status_code == 401
        assert post(url, authority, None, Authorization=f"Bearer {ALICE}").status_code == 200
        card = await make_remote(remote.endpoint).card()
        assert card.security_schemes["mtls"] == {"type": "mutualTLS"}
        assert card.security[-1] == {"mtls": ()}


def test_named_proxy_identifies_the_caller(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("billing")
    header = {"X-Client": quote(issued.pem)}
    options = ["--tls-proxy-header", "X-Client", "--default-scope", "agent.invoke"]
    with Server(tmp_path, "--tls-proxy", "127.0.0.1", *options) as process:
        url = f"http://127.0.0.1:{process.port}/"
        assert httpx.post(url, json=MESSAGE, headers=HEAD).status_code == 401
        sent = httpx.post(url, json=MESSAGE, headers={**HEAD, **header})
        assert sent.status_code == 200, sent.text
        get = {**MESSAGE, "method": "GetTask", "params": {"id": owner(sent)}}
        read = httpx.post(url, json=get, headers={**HEAD, **header})
        assert (read.status_code, "agent.read" in read.text) == (403, True)
    with Server(tmp_path, "-v", "--tls-proxy", "192.0.2.1", *options) as process:
        url = f"http://127.0.0.1:{process.port}/"
        assert httpx.post(url, json=MESSAGE, headers={**HEAD, **header}).status_code == 401


def test_contradicting_options_are_rejected(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("127.0.0.1", address="127.0.0.1", is_client=False)
    tls = ["--tls-cert", str(server.chain), "--tls-key", str(server.key)]
    agent = "tests/integration/sample_agents.py:everything"
    for options in (
        ["--tls-client-ca", str(authority.file)],
        [*tls, "--tls-client-ca", "none.pem"],
        [*tls, "--tls-client-ca", str(server.key)],
        ["--tls-proxy", "proxy.example"],
        ["--tls-proxy", "127.0.0.1", "--oidc", "https://login.example", "--audience", "x"],
    ):
        assert run(["serve", agent, "--port", "0", *options]) == 2, options


def test_commands_present_a_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("127.0.0.1", address="127.0.0.1", is_client=False)
    desk = authority.issue(uris=("agent://desk",))
    expired = authority.issue(uris=("agent://desk",), expired=True)
    ca = ["--tls-ca", str(authority.file)]
    cert = ["--tls-cert", str(desk.chain), "--tls-key", str(desk.key)]
    options = ["--tls-cert", str(server.chain), "--tls-key", str(server.key)]
    options += ["--tls-client-ca", str(authority.file)]

    def command(*arguments: str) -> tuple[int, str]:
        status = run(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    with Server(tmp_path, "-v", "--grpc-port", "0", *options) as process:
        url = f"https://127.0.0.1:{process.port}"
        assert command("call", url, "hello", *ca, *cert)[0] == 0
        assert process.logs('"agent://desk"')
        status, text = command("card", url, *ca)
        assert status == 0, text
        assert command("contracts", "show", url, *ca)[0] == 0
        target = re.search(r"GRPC.* (\S+:\d+)", text)
        assert target is not None, text
        grpc = f"grpcs://{target[1].removeprefix('grpcs://')}"
        assert command("call", grpc, "hello", *ca, *cert)[0] == 0
        for address in (url, grpc):
            status, text = command("doctor", address, *ca, *cert, "--timeout", "20")
            assert status == 0, text

        # The certificate of the server is not public, and callers need one of their own.
        status, text = command("call", url, "hello", *cert)
        assert (status, "--tls-ca" in text) == (1, True), text
        status, text = command("call", url, "hello", *ca)
        assert (status, "--tls-cert" in text) == (1, True), text

        for files, words in (
            (["--tls-cert", "none.pem"], "none.pem cannot be read"),
            (["--tls-cert", str(desk.chain), "--tls-key", "none.key"], "none.key cannot be read"),
            (["--tls-cert", str(desk.chain), "--tls-key", str(server.key)], "does not belong to"),
            (["--tls-cert", str(desk.key)], "expected a PEM file with a certificate"),
            (["--tls-cert", str(desk.chain)], "expected a PEM file with a private key"),
            (["--tls-cert", str(expired.chain), "--tls-key", str(expired.key)], "expired on"),
            (["--tls-key", str(desk.key)], "--tls-key requires the certificate"),
            (["--tls-ca", "none.pem"], "the CA none.pem cannot be read"),
        ):
            for name in (["call", url, "hello"], ["card", url], ["doctor", url]):
                status, text = command(*name, *files)
                assert (status, words in " ".join(text.split())) == (2, True), (name, text)
