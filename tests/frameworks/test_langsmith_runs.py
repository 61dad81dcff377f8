"""Runs that the SDK of LangSmith sends, as logs for `acc eval --replay`."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import scripted_langgraph as scripted
from langchain_core.tracers import LangChainTracer
from langgraph.checkpoint.memory import InMemorySaver
from langsmith import Client, traceable

from acc.adapters.evaluation.message_logs import read_logs

MESSAGES = ("hello", "add 2 3", "搭乗口はB4です。")
ANSWERS = ("answer 1 to: hello", "tool said 5", "answer 3 to: 搭乗口はB4です。")


class RunServer(ThreadingHTTPServer):
    """The interface of LangSmith that receives runs and their updates."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.runs: dict[str, dict[str, Any]] = {}

    def write(self, path: Path, *, run_type: str = "") -> Path:
        """Write the runs, or those of one type, as JSON lines; the newest first."""
        runs = [run for run in self.runs.values() if run_type in ("", run["run_type"])]
        path.write_text("\n".join(map(json.dumps, reversed(runs))), encoding="utf-8")
        return path


class _Handler(BaseHTTPRequestHandler):
    server: RunServer

    def _receive(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/runs"):
            fields = json.loads(content)
            run_id = fields.get("id") or self.path.rpartition("/")[2]
            given = {name: value for name, value in fields.items() if value is not None}
            self.server.runs.setdefault(run_id, {}).update(given)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_PATCH = do_GET = _receive

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def server() -> Iterator[RunServer]:
    with RunServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client(server: RunServer) -> Iterator[Client]:
    url = f"http://127.0.0.1:{server.server_port}"
    client = Client(api_url=url, api_key="key", auto_batch_tracing=False)
    yield client
    client.session.close()


def conversation(path: Path) -> list[tuple[str, str]]:
    (found,) = read_logs(path)
    return [(message.role, message.text) for message in found.messages]


def expected() -> list[tuple[str, str]]:
    return [
        one
        for message, answer in zip(MESSAGES, ANSWERS, strict=True)
        for one in (("user", message), ("assistant", answer))
    ]


async def test_runs_of_a_graph_are_one_conversation(
    server: RunServer, client: Client, tmp_path: Path
) -> None:
    graph = scripted.build_graph().compile(checkpointer=InMemorySaver())
    tracer = LangChainTracer(client=client, project_name="desk")
    thread: Any = {"configurable": {"thread_id": "t"}, "metadata": {"thread_id": "t"}}
    for message in MESSAGES:
        await graph.ainvoke({"messages": [("user", message)]}, {"callbacks": [tracer], **thread})
    tracer.wait_for_futures()
    assert {run["run_type"] for run in server.runs.values()} == {"chain", "llm", "tool"}
    assert conversation(server.write(tmp_path / "all.jsonl")) == expected()
    assert conversation(server.write(tmp_path / "calls.jsonl", run_type="llm")) == expected()


def test_runs_of_a_traced_function_are_one_conversation(
    server: RunServer, client: Client, tmp_path: Path
) -> None:
    answers = dict(zip(MESSAGES, ANSWERS, strict=True))

    @traceable(client=client, metadata={"session_id": "t"}, enabled=True)
    def reply(customer_text: str) -> str:
        return answers[customer_text]

    for message in MESSAGES:
        reply(message)
    assert conversation(server.write(tmp_path / "all.jsonl")) == expected()
