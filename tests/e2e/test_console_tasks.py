"""Tasks in `acc console`: filters, deliveries, cards, doctor, and approvals of tasks."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from command import serve
from console_browser import NARROW, WIDE, Visitor, axe_findings, has_no_overflow, launch
from console_process import FOLDER, ConsoleProcess, form_fields, wait_for
from playwright.sync_api import sync_playwright

from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.adapters.system.clock import SystemClock
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tasks")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """Run a server on the store of the console."""
    environment = pytest.MonkeyPatch()
    environment.setenv("REFUNDS", str(folder / "acc.refunds"))
    with serve("console_agents:desk", "--store", folder / "acc.db", cwd=FOLDER) as url:
        yield url
    environment.undo()


@pytest.fixture(scope="module")
def process(folder: Path, server: str) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(server, store=folder / "acc.db") as started:
        yield started


@pytest.fixture
def client(process: ConsoleProcess) -> Iterator[httpx2.Client]:
    with process.client() as opened:
        yield opened


def call(server: str, method: str, **params: Any) -> dict[str, Any]:
    """Call an operation of the server as an anonymous client of A2A 1.0."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = httpx2.post(server, json=body, headers={"a2a-version": "1.0"}, timeout=20).json()
    assert isinstance(answer, dict)
    return answer


def ask_for_refund(server: str, number: str, task: str = "", text: str = "please refund") -> str:
    """Send a message and return the id of its task."""
    message = {"messageId": number, "role": "ROLE_USER", "parts": [{"text": text}]}
    answer = call(server, "SendMessage", message=message | ({"taskId": task} if task else {}))
    return str(answer["result"]["task"]["id"])


def wait_for_state(server: str, task: str, state: str) -> dict[str, Any]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found: dict[str, Any] = call(server, "GetTask", id=task)["result"]
        if found["status"]["state"] == state:
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def test_waiting_task_is_approved_in_the_inbox(
    process: ConsoleProcess, client: httpx2.Client, server: str
) -> None:
    task = ask_for_refund(server, "m1")
    assert task in client.get("/tasks", params={"state": "input-required"}).text
    assert task in client.get("/tasks", params={"caller": "anonymous"}).text
    assert task not in client.get("/tasks", params={"state": "completed"}).text
    assert task not in client.get("/tasks", params={"caller": "nobody"}).text
    detail = {"app": "desk", "task": task}
    assert "please refund" in client.get("/tasks/task", params=detail).text
    fields = {**form_fields(client.get("/approvals").text), "decision": "approve"}
    before = len(process.refunds)
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: client.post("/session/answer", data=fields), range(3)))
    assert sorted(answer.status_code for answer in answers) == [303, 409, 409]
    ended = wait_for_state(server, task, "TASK_STATE_COMPLETED")
    assert "Done:" in ended["artifacts"][0]["parts"][0]["text"]
    assert process.refunds[before:] == ["A-17 50"]
    assert "answered in the console: approve" in client.get("/tasks/task", params=detail).text


def test_caller_and_console_execute_once(
    process: ConsoleProcess, client: httpx2.Client, server: str
) -> None:
    task = ask_for_refund(server, "m2")
    fields = {**form_fields(client.get("/approvals").text), "decision": "approve"}
    before = len(process.refunds)
    with ThreadPoolExecutor(2) as pool:
        by_caller = pool.submit(ask_for_refund, server, "m3", task, "approve")
        by_console = pool.submit(client.post, "/session/answer", data=fields)
        assert by_console.result().status_code in (303, 409)
        by_caller.exception()
    wait_for_state(server, task, "TASK_STATE_COMPLETED")
    assert process.refunds[before:] == ["A-17 50"]


def test_abandoned_task_is_canceled(client: httpx2.Client, server: str) -> None:
    task = ask_for_refund(server, "m4")
    fields = form_fields(client.get("/approvals").text)
    key = {name: fields[name] for name in ("app", "user", "id")}
    assert client.post("/session/abandon", data=key).status_code == 303
    wait_for_state(server, task, "TASK_STATE_CANCELED")
    assert "Nothing waits" in client.get("/approvals").text


def test_request_of_a_remote_agent_is_in_the_inbox(
    process: ConsoleProcess, client: httpx2.Client, server: str
) -> None:
    begun = client.post("/chat", data={"left": server})
    key = dict(parse_qsl(urlsplit(begun.headers["location"]).query))
    client.post("/session/send", data={**key, "message": "please refund"})
    wait_for(client, key["id"], "input_required", app=server)
    page = client.get("/approvals").text
    own = page[page.index(f'value="{key["id"]}"') - 400 :]
    assert "refund" in own
    assert f"<bdi>{server}</bdi> · User" in page
    fields = {**form_fields(own), "decision": "approve"}
    assert fields["app"] == server
    before = len(process.refunds)
    assert client.post("/session/answer", data=fields).status_code == 303
    assert "Done:" in wait_for(client, key["id"], "completed", app=server)
    assert process.refunds[before:] == ["A-17 50"]
    assert client.post("/session/answer", data=fields).status_code == 409


async def store_delivery(path: Path) -> None:
    clock = SystemClock()
    tasks = SqliteTaskStore(path, clock=clock, app_name="other")  # the server does not deliver it
    message = Message(message_id="m9", role=Role.USER, parts=text_part("hello"))
    status = TaskStatus(state=TaskState.SUBMITTED, at=clock.now())
    push = PushConfig(id="p1", task_id="pushed", url="https://hooks.example.com/a?key=secret123")
    task = Task(id="pushed", context_id="c9", status=status)
    await tasks.create(task, owner=Owner(caller="ann"), message=message, push=push)
    working = TaskStatus(state=TaskState.WORKING, at=clock.now())
    await tasks.append(task.id, [StatusUpdate(status=working)])
    await tasks.aclose()


def test_pages_of_tasks_and_servers(
    process: ConsoleProcess, client: httpx2.Client, server: str, folder: Path
) -> None:
    asyncio.run(store_delivery(folder / "acc.db"))
    page = client.get("/tasks").text
    assert "hooks.example.com" in page and "secret123" not in page
    detail = {"app": "other", "task": "pushed"}
    assert "hooks.example.com" in client.get("/tasks/task", params=detail).text
    for missing in ({"task": "x"}, {"app": "x"}):
        assert client.get("/tasks/task", params={**detail, **missing}).status_code == 404
    card = client.post("/servers", data={"url": server, "action": "card"}).text
    assert "Helps with orders" in card and "refund" in card
    checked = client.post("/servers", data={"url": server, "action": "doctor"})
    assert checked.status_code == 200
    assert checked.text.count('class="badge completed"') > 5
    assert "badge completed" in client.get("/servers").text
    japanese = client.get("/servers", headers={"accept-language": "ja"}).text
    assert "カードに署名がありません（署名は任意です）" in japanese
    assert "the card is not signed" not in japanese
    assert client.post("/servers", data={"url": "", "action": "card"}).status_code == 422
    nobody = {"url": "http://127.0.0.1:9", "action": "card"}
    assert client.post("/servers", data=nobody).status_code == 422
    with sync_playwright() as playwright:
        browser = launch(playwright)
        visitor = Visitor(process, browser.new_context(viewport=WIDE, locale="en-US"))
        for path in ("/tasks", "/tasks/task?app=other&task=pushed", "/servers"):
            shown = visitor.open(path)
            for size, scheme in ((WIDE, "light"), (NARROW, "dark")):
                shown.set_viewport_size(size)
                shown.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
                assert axe_findings(shown) == [], path
                assert has_no_overflow(shown), path
        visitor.check()
        browser.close()
