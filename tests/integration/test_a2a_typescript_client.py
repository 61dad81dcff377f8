"""The official TypeScript client with `acc serve` in both protocol versions."""

import asyncio
import json
import shutil
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from node_scripts import install_scripts, run_script
from server_process import ALICE, Server, tokens_file
from webhook_receiver import Receiver, run_receiver, state_in

from acc.adapters.auth.notification_signatures import NotificationVerifier

SOURCES = Path(__file__).parent / "typescript"
SECRET = "shared by server and receiver"
DRIVERS = {"1.0": "one.mjs", "0.3": "zero_three.mjs"}

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js")

Reports = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def scripts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the drivers and the locked packages, installed once."""
    return install_scripts(request.config, SOURCES, tmp_path_factory.mktemp("typescript"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    options = ["--tokens", str(tokens_file(folder)), "--allow", "127.0.0.1"]
    with Server(folder, *options, agent="served_agents:desk", ACC_PUSH_SECRET=SECRET) as started:
        yield started
        started.terminate(within=30)
        assert "Traceback" not in started.log


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with run_receiver() as taking:
        yield taking


def drive(scripts: Path, version: str, *arguments: str) -> Reports:
    """Run a driver and return the reports of its steps."""
    completed = run_script(scripts, DRIVERS[version], *arguments)
    collected = [json.loads(line) for line in completed.stdout.splitlines()]
    assert [report for report in collected if not report["ok"]] == []
    return {report["step"]: report for report in collected}


def state_name(state: str, version: str) -> str:
    """Return the name of a state in a protocol version."""
    return state if version == "1.0" else state.lower().replace("_", "-")


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("version", DRIVERS)
async def test_typescript_client_completes_all_steps(
    server: Server, receiver: Receiver, scripts: Path, version: str, binding: str
) -> None:
    hook = f"{receiver.url}/hook"
    reports = await asyncio.to_thread(drive, scripts, version, server.url, ALICE, binding, hook)
    completed, canceled = state_name("COMPLETED", version), state_name("CANCELED", version)
    assert reports["card"]["version"].startswith(version)
    assert reports["card"]["binding"] == binding
    assert (reports["send"]["state"], reports["send"]["answer"]) == (completed, "echo: こんにちは")
    assert reports["twice"]["same"]
    check_parts(reports, version, binding)
    assert reports["poll"]["wasMoving"]
    assert (reports["poll"]["state"], reports["poll"]["answer"]) == (completed, "counted to 6")
    check_streams(reports, completed)
    assert reports["cancel"]["state"] == canceled
    assert "TaskNotCancelable" in reports["cancel"]["again"]["error"]
    assert reports["approve"]["asked"] == state_name("INPUT_REQUIRED", version)
    assert reports["approve"]["same"]
    assert reports["approve"]["answer"] == "12,000円を支払いました"
    assert reports["extended card"]["name"] == "desk"
    assert "TaskNotFound" in reports["unknown task"]["error"]
    if version == "1.0":
        assert (reports["list"]["total"], reports["list"]["found"], reports["list"]["more"]) == (
            2,
            2,
            "",
        )
    assert (reports["push"]["url"], reports["push"]["listed"]) == (hook, ["hook-1"])
    assert reports["push"]["left"] == ["hook-2"]
    await check_notifications(receiver)


def check_parts(reports: Reports, version: str, binding: str) -> None:
    kinds = "see<raw><url><data>" if version == "1.0" else "see<file><file><data>"
    assert reports["parts"]["kept"] == kinds
    # The official libraries differ here: the Python library, and the server, encode bytes twice.
    is_twice = (version, binding) == ("0.3", "HTTP+JSON")
    assert reports["parts"]["raw"] == (b64encode(b"bytes").decode() if is_twice else "bytes")
    assert reports["parts"]["url"] == "https://example.com/表.csv"
    assert reports["parts"]["data"] == {"金額": 42}


def check_streams(reports: Reports, completed: str) -> None:
    events = reports["stream"]["events"]
    assert events[0].startswith("task:")
    assert events[-1].endswith(f":{completed}")
    assert "artifact:answer" in events
    cut = reports["cut"]
    assert (cut["before"], cut["first"], cut["all"]) == ("1 ", "task", "1 2 3 4 5 6 ")
    assert cut["last"].endswith(f":{completed}")


async def check_notifications(receiver: Receiver) -> None:
    verifier = NotificationVerifier(secret=SECRET)
    notifications = await receiver.wait_for_state("/hook", "COMPLETED")
    states = [
        state_in(verifier.verify(notification.body, notification.headers))
        for notification in notifications
    ]
    assert states[-1] == "COMPLETED"
    assert {notification.headers["X-A2A-Notification-Token"] for notification in notifications} == {
        "known to me"
    }
