"""Schemathesis reads /openapi.json and holds a running server to it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from server_process import ALICE, Server, head, tokens_file

pytest.importorskip("schemathesis")

#: Much of what fits the description must still be refused: an agent does not read every media
#: type, a message id counts once, a push URL must be public.
NOT_PROMISED = "positive_data_acceptance"
#: Those within a tenant are the same again; two of them stand for the rest.
PATHS = r"^/(?!\{tenant\})|^/\{tenant\}/tasks$"


def test_a_running_server_keeps_what_its_description_promises(tmp_path: Path) -> None:
    tokens = tokens_file(tmp_path)
    # A server of 1.0 alone, since without the version header another would answer in 0.3.
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
        ran = subprocess.run(  # noqa: S603 - our own command
            command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == 0, ran.stdout[-10_000:] + ran.stderr
        assert "internal error" not in server.log
        assert "Traceback" not in server.log


def test_the_description_names_every_path_of_the_generation(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        document = server.send(head("GET", "/openapi.json", {"Host": "localhost"})).json
    assert document["openapi"] == "3.1.0"
    assert document["servers"] == [{"url": server.url}]
    assert "security" not in json.dumps(document["paths"]["/tasks"])
    plain = {path for path in document["paths"] if "{tenant}" not in path}
    assert plain == {
        "/.well-known/agent-card.json",
        "/health",
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
    operations = [held for path in document["paths"].values() for held in path.values()]
    names = [held["operationId"] for held in operations if isinstance(held, dict)]
    assert len(names) == len(set(names))
