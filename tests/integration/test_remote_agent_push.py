"""A remote agent in push mode, with notifications over real sockets."""

import time
from pathlib import Path
from typing import Any

import pytest
from server_process import Server

from acc import RemoteAgent, RemoteFailed, Runner
from acc.adapters.auth.keys import generate_key, public_key_set
from acc.bootstrap.a2a_client import receive_notifications

SECRET = "shared by server and receiver"
HERE = ("127.0.0.1",)


async def run_text(agent: RemoteAgent, text: str) -> str:
    result = await Runner(agent).run(user_id="u", session_id="s", message=text)
    return result.text


def remote(server: Server, **fields: Any) -> RemoteAgent:
    settings = {
        "name": "shop",
        "url": server.url,
        "description": "d",
        "allow": HERE,
        "mode": "push",
    }
    return RemoteAgent(**{**settings, **fields})


@pytest.mark.parametrize("protocol_version", ["1.0", "0.3"])
async def test_notification_triggers_task_poll(tmp_path: Path, protocol_version: str) -> None:
    options = ["--allow", "127.0.0.1", "--protocol-version", protocol_version]
    with Server(tmp_path, *options, ACC_PUSH_SECRET=SECRET) as server:
        async with receive_notifications(secret=SECRET) as receiver:
            began = time.monotonic()
            agent = remote(server, receiver=receiver)
            assert await run_text(agent, "sleep 1.5") == "awake"
            # Without a notification the task would be polled after a minute.
            assert 1.5 <= time.monotonic() - began < 20
        async with receive_notifications(secret="another secret altogether") as receiver:
            with pytest.raises(RemoteFailed, match="within 3 seconds"):
                await run_text(remote(server, receiver=receiver, timeout=3), "sleep 1")
        server.terminate(within=30)
        assert "Traceback" not in server.log


async def test_receiver_verifies_key_pair_signatures(tmp_path: Path) -> None:
    key = generate_key()
    path = tmp_path / "key.pem"
    path.write_bytes(key.as_pem(private=True))
    options = ["--allow", "127.0.0.1", "--push-key", str(path)]
    key.ensure_kid()
    with Server(tmp_path, *options) as server:
        own = {**public_key_set([key])["keys"][0], "kid": key.thumbprint()}
        async with receive_notifications(keys={"keys": [own]}) as receiver:
            began = time.monotonic()
            assert await run_text(remote(server, receiver=receiver), "sleep 1") == "awake"
            assert time.monotonic() - began < 20
        async with receive_notifications(keys=public_key_set([generate_key()])) as receiver:
            with pytest.raises(RemoteFailed, match="within 3 seconds"):
                await run_text(remote(server, receiver=receiver, timeout=3), "sleep 1")


async def test_callback_outside_allow_list_is_an_error(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        async with receive_notifications() as receiver:
            with pytest.raises(RemoteFailed, match="allow-list"):
                await run_text(remote(server, receiver=receiver), "hello")
