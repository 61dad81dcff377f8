"""Traces of a run in a real Phoenix, read through its API. `make test-phoenix` installs it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from socket import socket
from typing import Any

import httpx2
import pytest
from server_process import HERE

PHOENIX = HERE.parent.parent / ".venv-phoenix" / "bin" / "phoenix"
START_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS = 300, 60

pytestmark = pytest.mark.skipif(not PHOENIX.exists(), reason="make test-phoenix sets it up")


def free_port() -> int:
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start Phoenix and return its URL."""
    folder = tmp_path_factory.mktemp("phoenix")
    port = free_port()
    environment = {
        **os.environ,
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    url = f"http://127.0.0.1:{port}"
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the server under test
            [PHOENIX, "serve"], env=environment, stdout=output, stderr=output, cwd=folder
        )
        try:
            wait_for(lambda: is_healthy(url, process, log), START_TIMEOUT_SECONDS)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def wait_for(condition: Any, seconds: float) -> Any:
    """Return the first true value of a condition."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, "the time is over"
        time.sleep(0.5)
    return value


def is_healthy(url: str, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, log.read_text()[-2000:]
    try:
        return httpx2.get(f"{url}/healthz").is_success
    except httpx2.HTTPError:
        return False


def spans_of(url: str) -> list[dict[str, Any]]:
    """Return the spans that Phoenix has stored, once the run is among them."""
    response = httpx2.get(f"{url}/v1/projects/default/spans", params={"limit": 100})
    found: list[dict[str, Any]] = response.raise_for_status().json()["data"]
    return found if any(span["name"] == "invoke_agent expert" for span in found) else []


def test_phoenix_shows_the_run_as_one_tree_with_span_kinds(phoenix: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "acc", "run", "traced_agents:expert", "db-1は?", "--otel"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=HERE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*sys.path, str(HERE)]),
            "OTEL_EXPORTER_OTLP_ENDPOINT": phoenix,
            "OTEL_METRICS_EXPORTER": "none",  # Phoenix has no metrics
        },
    )
    assert done.returncode == 0, done.stderr
    assert "Failed to export" not in done.stderr
    spans = wait_for(lambda: spans_of(phoenix), READ_TIMEOUT_SECONDS)
    kinds = sorted((span["name"], span["span_kind"]) for span in spans)
    assert kinds == [
        ("chat ScriptedModel", "LLM"),
        ("chat ScriptedModel", "LLM"),
        ("execute_tool lookup", "TOOL"),
        ("invoke_agent expert", "AGENT"),
    ]
    assert len({span["context"]["trace_id"] for span in spans}) == 1
    (root,) = [span for span in spans if span["parent_id"] is None]
    assert root["name"] == "invoke_agent expert"
    assert {span["parent_id"] for span in spans} == {None, root["context"]["span_id"]}
    chat = next(span for span in spans if span["name"] == "chat ScriptedModel")
    assert chat["attributes"]["llm.model_name"] == "ScriptedModel"
    # Without permission to capture content, nothing of the conversation is there.
    assert "正常" not in str(spans)
