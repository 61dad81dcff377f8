"""The released client of A2A 0.3 with `acc serve`. `make test-a2a-0.3` installs it."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from server_process import ALICE, HERE, Server, tokens_file
from webhook_receiver import Receiver, run_receiver

PYTHON = HERE.parent.parent / ".venv-a2a-0.3" / "bin" / "python"
BINDINGS = ("JSONRPC", "HTTP+JSON")

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="make test-a2a-0.3 sets it up")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    options = ["--tokens", str(tokens_file(folder)), "--allow", "127.0.0.1"]
    with Server(folder, *options) as started:
        yield started


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with run_receiver() as taking:
        yield taking


@pytest.fixture(scope="module", params=BINDINGS)
def report(server: Server, receiver: Receiver, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the results of all methods over one binding."""
    completed = subprocess.run(  # noqa: S603 - our own script
        [PYTHON, "released_0_3_client.py", server.url, ALICE, request.param, receiver.url],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    result: dict[str, Any] = json.loads(completed.stdout)
    return result


def answer(task: dict[str, Any]) -> str:
    texts = [part["text"] for part in task["artifacts"][-1]["parts"]]
    return "".join(texts)


def received_parts(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the agent received, without the text of the command."""
    return [json.loads(line) for line in answer(task).splitlines()][1:]


def test_message_is_answered(report: dict[str, Any]) -> None:
    assert report["echo"]["status"]["state"] == "completed"
    assert answer(report["echo"]) == "echo: hello"


@pytest.mark.parametrize(
    ("verb", "state", "expected"),
    [("ask", "input-required", "you answered 青"), ("login", "auth-required", "signed in")],
)
def test_waiting_task_is_read_and_continued(
    report: dict[str, Any], verb: str, state: str, expected: str
) -> None:
    for waiting in (report[verb], report[f"{verb}_get"], report[f"{verb}_stream"][-1]):
        assert waiting["status"]["state"] == state
        assert waiting["status"]["message"]["parts"][0]["kind"] == "text"
    assert answer(report[f"{verb}_answer"]) == expected


def test_uploaded_bytes_arrive_unchanged(report: dict[str, Any]) -> None:
    received = [received_parts(task)[0]["hex"] for _, task in report["uploads"]]
    assert received == [content for content, _ in report["uploads"]]
    assert len(received) == 7


def test_links_and_data_arrive_unchanged(report: dict[str, Any]) -> None:
    link, data = received_parts(report["parts"])
    assert link["url"] == "https://example.com/a.pdf"
    assert data == {"rows": [1, 2.5, None, "三"], "nested": {"a": True}}


def test_artifacts_are_received(report: dict[str, Any]) -> None:
    by_name = {one["name"]: one["parts"][0] for one in report["files"]["artifacts"]}
    assert by_name["dot.png"]["file"]["bytes"] == "iVBORw0K"
    assert by_name["elsewhere"]["file"]["uri"] == "https://example.com/a.pdf"
    assert by_name["table"]["data"] == {"rows": [1, 2.5, None, "三"]}
    assert by_name["report.txt"]["text"] == "日本語の報告 / a report"


def test_stream_ends_with_the_completed_task(report: dict[str, Any]) -> None:
    *_, last = report["stream"]
    assert (last["status"]["state"], last["final"]) == ("completed", True)
    chunks = [
        part["text"]
        for event in report["stream"]
        if event["kind"] == "artifact-update" and event["artifact"]["name"] == "numbers"
        for part in event["artifact"]["parts"]
    ]
    assert "".join(chunks) == "1 2 3 "


def test_task_is_resubscribed_and_canceled(report: dict[str, Any]) -> None:
    assert report["working"]["status"]["state"] in ("submitted", "working")
    assert report["cancel"]["status"]["state"] == "canceled"
    assert report["resubscribe"][-1]["status"]["state"] == "canceled"


def test_push_configuration_is_created_and_read(report: dict[str, Any], receiver: Receiver) -> None:
    push = report["push"]
    for config in (push["created"], push["read"]):
        assert config["taskId"] == push["task"]
        assert config["pushNotificationConfig"]["id"] == "one"
        assert config["pushNotificationConfig"]["url"] == receiver.url


def test_public_and_extended_card_are_valid(report: dict[str, Any]) -> None:
    for card in (report["public_card"], report["card"]):
        assert card["security"] == [{"bearer": []}]
        assert card["securitySchemes"]["bearer"]["type"] == "http"
