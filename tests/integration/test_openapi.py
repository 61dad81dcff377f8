"""Schemathesis checks a running server against /openapi.json."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from server_process import ALICE, Server, head, tokens_file

pytest.importorskip("schemathesis")

#: Not every request that matches the description is accepted: an agent supports some media
#: types only, a message ID is used once, and a push URL must be public.
NOT_PROMISED = "positive_data_acceptance"
#: Paths with a tenant are equal to the others; two of them represent the rest.
PATHS = r"^/(?!\{tenant\})|^/\{tenant\}/tasks$"


def test_running_server_conforms_to_openapi_document(tmp_path: Path) -> None:
    tokens = tokens_file(tmp_path)
    # A server of version 1.0 only, because without the version header 0.3 would respond.
    with Server(tmp_path, "--tokens", str(tokens), "--protocol-version", "1.0") as server:
        command = [
            str(Path(sys.executable).with_name("schemathesis")),
            *("run", f"{server.url}/openapi.json"),
            *("--header", f"Authorization: Bearer {ALICE}"),
            *("--include-path-regex", PATHS),
            *("--exclude-checks", NOT_PROMISED),
            *("--phases", "coverage,fuzzing"),
            *("--max-examples", "5"),
            *("--seed", "1"),
            *("--generation-database", "none"),
            *("--suppress-health-check", "all"),
            *("--warnings", "off"),
            "--no-color",
            "--no-shrink",
        ]
        completed = subprocess.run(  # noqa: S603 - our own command
            command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
        )
        assert completed.returncode == 0, completed.stdout[-10_000:] + completed.stderr
        assert "internal error" not in server.log
        assert "Traceback" not in server.log


def test_openapi_document_lists_every_path(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        document = server.send(head("GET", "/openapi.json", {"Host": "localhost"})).json
    assert document["openapi"] == "3.1.0"
    assert document["servers"] == [{"url": server.url}]
    assert "security" not in json.dumps(document["paths"]["/tasks"])
    plain = {path for path in document["paths"] if "{tenant}" not in path}
    assert plain == {
        "/.well-known/agent-card.json",
        "/health",
        "/health/live",
        "/health/ready",
        "/ready",
        "/message:send",
        "/message:stream",
        "/tasks",
        "/tasks/{id}",
        "/tasks/{id}:cancel",
        "/tasks/{id}:subscribe",
        "/tasks/{taskId}/pushNotificationConfigs",
        "/tasks/{taskId}/pushNotificationConfigs/{configId}",
        "/extendedAgentCard",
    }
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations if isinstance(operation, dict)]
    assert len(names) == len(set(names))
