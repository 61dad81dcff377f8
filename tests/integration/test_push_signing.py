"""Notifications that `acc serve` signs with a key pair, checked by a receiver over real sockets."""

import json
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from server_process import SIDES, Server
from webhook_receiver import Notification, Receiver, receiving

from acc.adapters.auth.keys import generate_key, read_key_set
from acc.adapters.auth.notification_signatures import NotificationVerifier
from acc.domain.errors import Unauthenticated

RPC = next(side for side in SIDES if side.is_rpc and side.is_new)


def key_file(folder: Path) -> Path:
    path = folder / "push.pem"
    path.write_bytes(generate_key("ES256").as_pem(private=True))
    return path


def published(server: Server) -> bytes:
    with urlopen(f"{server.url}/.well-known/jwks.json", timeout=10) as answer:  # noqa: S310 - ours
        found: bytes = answer.read()
    return found


async def notified(
    server: Server, receiver: Receiver, path: str, **more: object
) -> list[Notification]:
    """Have a message answered, and return what the receiver was told at a path."""
    config = {"url": receiver.url + path, **more}
    params = {
        "message": RPC.message("hello", path),
        "configuration": {"taskPushNotificationConfig": config},
    }
    reply = server.send(RPC.post(RPC.call(params), token=""))
    assert "result" in reply.json, reply
    return await receiver.told(path, "COMPLETED")


@pytest.mark.parametrize("how", ["jwt", "bearer"])
async def test_a_receiver_verifies_with_the_keys_that_the_server_publishes(
    tmp_path: Path, how: str
) -> None:
    options = ["--push-signing", how, "--push-key", str(key_file(tmp_path))]
    with receiving() as receiver, Server(tmp_path, *options, "--allow", "127.0.0.1") as server:
        document = published(server)
        got = await notified(server, receiver, "/hook")
        wanted = {"scheme": "Basic", "credentials": "bWU6aXQ="}
        kept = await notified(server, receiver, "/own", authentication=wanted)
    assert all("d" not in key for key in json.loads(document)["keys"])
    keys = read_key_set(document)
    verifier = NotificationVerifier(keys=keys, audience=f"{receiver.url}/hook")
    for one in got:
        told = one.headers.get("Authorization", "")
        assert told.startswith("Bearer ey") is (how == "bearer")
        assert verifier.verify(one.body, one.headers)
        with pytest.raises(Unauthenticated, match="replayed"):
            verifier.verify(one.body, one.headers)
        with pytest.raises(Unauthenticated, match="digest"):
            verifier.verify(one.body.replace(b"hook", b"other") + b" ", one.headers)
    # What the receiver asked for goes before, and the signature still comes along.
    own = NotificationVerifier(keys=keys, audience=f"{receiver.url}/own")
    for one in kept:
        assert one.headers["Authorization"] == "Basic bWU6aXQ="
        assert own.verify(one.body, one.headers)
    with pytest.raises(Unauthenticated, match="audience"):
        own.verify(got[0].body, got[0].headers)


def test_without_a_key_pair_no_keys_are_published(tmp_path: Path) -> None:
    with Server(tmp_path) as server, pytest.raises(HTTPError) as told:
        published(server)
    assert told.value.code == 404
    told.value.close()
