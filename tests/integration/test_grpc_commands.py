"""`acc serve --grpc-port`, `acc call` and `acc doctor` with the address of a gRPC server."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from server_process import ALICE, HERE, Server, tokens_file


def acc(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *arguments],
        capture_output=True,
        text=True,
        cwd=HERE,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **variables},
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("grpc")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    options = ["--tokens", str(tokens_file(folder)), "--grpc-port", port]
    with Server(folder, *options, agent="served_agents:desk") as server:
        yield f"127.0.0.1:{port}"
        server.terminate(within=30)
        assert "Traceback" not in server.log


def test_call_uses_the_address_of_a_grpc_server(address: str) -> None:
    done = acc("call", f"grpc://{address}", "こんにちは", "--token-env", "T", T=ALICE)
    assert (done.returncode, done.stdout) == (0, "echo: こんにちは\n"), done.stderr


def test_call_of_a_grpc_port_over_http_names_the_address_to_use(address: str) -> None:
    done = acc("call", f"http://{address}", "hello", "--token-env", "T", T=ALICE)
    assert done.returncode == 1
    assert f"use grpc://{address}" in done.stderr


def test_doctor_checks_host_and_port(address: str) -> None:
    done = acc("doctor", address, "--token-env", "T", "--json", T=ALICE)
    report = json.loads(done.stdout)
    assert (done.returncode, report["failed"]) == (0, False)
    assert (report["url"], report["interface"]) == (f"grpc://{address}", "GRPC 1.0")
    found = {result["id"]: result["status"] for result in report["results"]}
    assert found["grpc-send"] == found["grpc-authentication"] == "ok"


def test_port_in_use_is_named_with_its_option(address: str) -> None:
    port = address.rpartition(":")[2]
    done = acc("serve", "served_agents:desk", "--port", "0", "--grpc-port", port)
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "--grpc-port" in done.stderr
