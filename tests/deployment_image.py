"""Run the steps of the image in a clean directory, and use the result as a platform would.

Run by `make test-deploy`: installs from the lock, starts the default command with PORT, checks the
probes, and stops the server with SIGTERM while a request is running.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = ("pyproject.toml", "README.md", "LICENSE", "requirements", "src", "deploy/install.sh")
AGENT = """
import asyncio
from acc import Agent
from acc.ports.outbound.model_ports import ModelResponse

class Slow:
    async def complete(self, prompt):
        await asyncio.sleep(2)
        return ModelResponse(text="done")

agent = Agent(name="desk", description="A desk.", model=Slow())
"""
MESSAGE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "message/send",
    "params": {
        "message": {
            "kind": "message",
            "messageId": "m1",
            "role": "user",
            "parts": [{"kind": "text", "text": "hello"}],
        }
    },
}


def get(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - loopback
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        build, target, work = (Path(folder, name) for name in ("build", "acc", "app"))
        for name in COPIED:
            destination = build / name
            destination.parent.mkdir(parents=True, exist_ok=True)
            source = ROOT / name
            if source.is_dir():
                ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(source, destination, ignore=ignore)
            else:
                shutil.copy(source, destination)
        started = time.monotonic()
        subprocess.run(  # noqa: S603 - a file of this repository
            ["/bin/sh", "deploy/install.sh", str(target), sys.executable], cwd=build, check=True
        )
        size = sum(f.stat().st_size for f in target.rglob("*") if f.is_file()) / 1e6
        print(f"installed in {time.monotonic() - started:.0f} s, {size:.0f} MB")
        shutil.rmtree(build)
        work.mkdir()
        (work / "agent.py").write_text(AGENT)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        command = ["serve", "agent.py:agent", "--host", "0.0.0.0", "--public-url", url]  # noqa: S104
        environment = {"PATH": f"{target}/bin", "PORT": str(port), "HOME": folder}
        server = subprocess.Popen(  # noqa: S603 - the installed command
            [str(target / "bin" / "acc"), *command, "--unprotected"], cwd=work, env=environment
        )
        try:
            deadline = time.monotonic() + 30
            while get(f"{url}/health/live") != 200 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert get(f"{url}/health/live") == 200, "the server does not respond"
            assert get(f"{url}/health/ready") == 200, "the server is not ready"
            answers: list[dict[str, object]] = []

            def send() -> None:
                request = urllib.request.Request(
                    url,
                    json.dumps(MESSAGE).encode(),
                    {"Content-Type": "application/json"},
                )
                with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
                    answers.append(json.load(response))

            sender = threading.Thread(target=send)
            sender.start()
            time.sleep(1)
            os.kill(server.pid, signal.SIGTERM)
            time.sleep(0.3)
            assert get(f"{url}/health/ready") in (0, 503), "a stopping server is ready"
            sender.join(30)
            assert answers and "done" in json.dumps(answers[0]), f"answer lost: {answers}"
            # Killed by the signal that it handled, as is the convention.
            assert server.wait(30) in (0, -signal.SIGTERM), "the server did not stop cleanly"
        finally:
            server.kill()
            server.wait()
    print("the image's steps work: probes, PORT, and drain on SIGTERM")
    return 0


if __name__ == "__main__":
    sys.exit(main())
