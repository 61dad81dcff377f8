"""Key pair signatures of `acc serve` notifications, verified by a receiver."""

import json
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from server_process import WIRE_FORMATS, Server
from webhook_receiver import Notification, Receiver, run_receiver

from acc.adapters.auth.keys import generate_key, read_key_set
from acc.adapters.auth.notification_signatures import NotificationVerifier
from acc.domain.errors import Unauthenticated

RPC = next(wire_format for wire_format in WIRE_FORMATS if wire_format.is_rpc and wire_format.is_new)


def key_file(folder: Path) -> Path:
    path = folder / "push.pem"
    path.write_bytes(generate_key("ES256").as_pem(private=True))
    return path


def published_keys(server: Server) -> bytes:
    with urlopen(f"{server.url}/.well-known/jwks.json", timeout=10) as answer:  # noqa: S310 - ours
        document: bytes = answer.read()
    return document


async def notifications_for(
    server: Server, receiver: Receiver, path: str, **more: object
) -> list[Notification]:
    """Send a message and return the notifications for a path."""
    config = {"url": receiver.url + path, **more}
    params = {
        "message": RPC.message("hello", path),
        "configuration": {"taskPushNotificationConfig": config},
    }
    reply = server.send(RPC.post(RPC.call(params), token=""))
    assert "result" in reply.json, reply
    return await receiver.wait_for_state(path, "COMPLETED")


@pytest.mark.parametrize("how", ["jwt", "bearer"])
async def test_receiver_verifies_with_published_keys(tmp_path: Path, how: str) -> None:
    options = ["--push-signing", how, "--push-key", str(key_file(tmp_path))]
    with run_receiver() as receiver, Server(tmp_path, *options, "--allow", "127.0.0.1") as server:
        document = published_keys(server)
        notifications = await notifications_for(server, receiver, "/hook")
        authentication = {"scheme": "Basic", "credentials": "bWU6aXQ="}
        authenticated = await notifications_for(
            server, receiver, "/own", authentication=authentication
        )
    assert all("d" not in key for key in json.loads(document)["keys"])
    keys = read_key_set(document)
    verifier = NotificationVerifier(keys=keys, audience=f"{receiver.url}/hook")
    for notification in notifications:
        authorization = notification.headers.get("Authorization", "")
        assert authorization.startswith("Bearer ey") is (how == "bearer")
        assert verifier.verify(notification.body, notification.headers)
        with pytest.raises(Unauthenticated, match="replayed"):
            verifier.verify(notification.body, notification.headers)
        with pytest.raises(Unauthenticated, match="digest"):
            verifier.verify(
                notification.body.replace(b"hook", b"other") + b" ", notification.headers
            )
    # The requested authentication has priority, and the signature is still sent.
    own = NotificationVerifier(keys=keys, audience=f"{receiver.url}/own")
    for notification in authenticated:
        assert notification.headers["Authorization"] == "Basic bWU6aXQ="
        assert own.verify(notification.body, notification.headers)
    with pytest.raises(Unauthenticated, match="audience"):
        own.verify(notifications[0].body, notifications[0].headers)


def test_server_without_key_pair_publishes_no_keys(tmp_path: Path) -> None:
    with Server(tmp_path) as server, pytest.raises(HTTPError) as error:
        published_keys(server)
    assert error.value.code == 404
    error.value.close()
