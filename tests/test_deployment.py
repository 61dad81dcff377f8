"""The files in `deploy/` and the Dockerfile: they agree with the commands and keep the rules.

`make test-deploy` also validates them against the schemas of Kubernetes and runs the steps of the
image.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from acc.cli import app

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "deploy").rglob("*.yaml"))
SECRET = re.compile(r"password|token|key", re.IGNORECASE)


def _documents() -> list[tuple[str, dict[str, Any]]]:
    return [
        (path.name, document)
        for path in FILES
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]


def _pods() -> dict[str, dict[str, Any]]:
    return {
        f"{name} {document['kind']}": document["spec"]["template"]["spec"]
        for name, document in _documents()
        if document.get("kind") in ("Deployment", "Job", "Service")
        and "template" in document["spec"]
    }


def _commands() -> list[list[str]]:
    commands = [container["args"] for pod in _pods().values() for container in pod["containers"]]
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))
    commands += [
        service["command"] for service in compose["services"].values() if "build" in service
    ]
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    last = re.findall(r"^CMD (\[.*\])$", dockerfile, re.MULTILINE)[-1]
    return [*commands, yaml.safe_load(last)]


@pytest.mark.parametrize("command", _commands(), ids=lambda command: " ".join(command[:2]))
def test_commands_exist_and_parse(command: list[str]) -> None:
    app.parse_args(command, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("name", [name for name in _pods() if not name.startswith("cloud-run")])
def test_pods_run_without_privileges(name: str) -> None:
    pod = _pods()[name]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"]["cpu"]


@pytest.mark.parametrize("name", _pods())
def test_secrets_are_references(name: str) -> None:
    for container in _pods()[name]["containers"]:
        for variable in container.get("env", ()):
            if SECRET.search(variable["name"]):
                assert "secretKeyRef" in variable["valueFrom"]
        assert not any(re.search(r"://[^/@]*:[^/@]*@", text) for text in container["args"])


def test_probes_use_paths_of_the_server() -> None:
    container = _pods()["server.yaml Deployment"]["containers"][0]
    assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"
    assert container["readinessProbe"]["httpGet"]["path"] == "/health/ready"


def test_cloud_run_has_the_settings_of_the_specification() -> None:
    """Seed 003 §13.2."""
    (service,) = [d for name, d in _documents() if name == "cloud-run-service.yaml"]
    template = service["spec"]["template"]
    assert service["apiVersion"] == "serving.knative.dev/v1"
    assert template["metadata"]["annotations"] == {
        "autoscaling.knative.dev/minScale": "1",
        "autoscaling.knative.dev/maxScale": "10",
    }
    assert template["spec"]["containerConcurrency"] == 80
    limits = template["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "2", "memory": "2Gi"}


def test_image_runs_as_a_user_and_copies_what_exists() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    stages = text.split("\nFROM ")
    assert len(stages) == 3 and "USER 10001" in stages[2] and "HEALTHCHECK" in stages[2]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in ignored, source
