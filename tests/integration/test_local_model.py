"""The local model with a real llama.cpp server."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx2
import msgspec
import pytest

from acc import Agent, ModelFailed, ModelRequest, Runner, RunResult, tool
from acc.adapters.models.local import LocalModel
from acc.adapters.models.local_files import model_file
from acc.application.models.names import parse_local_name
from acc.bootstrap.agents import threads
from acc.bootstrap.models import make_local_model
from acc.bootstrap.settings import runtime_directory
from acc.domain.value_objects.event import EventKind
from acc.ports.outbound.model_ports import ModelResponse, ToolSpec

HERE = Path(__file__).parent
SMALL = "local?context=2048&max_tokens=24"
#: The small model needs over half a minute for this. A short part of the output is sufficient.
ENDLESS = "Write a long story about a lighthouse, with many chapters."
LONG = "Count from one to one hundred, and say something about each number."


def local(name: str = SMALL) -> LocalModel:
    return LocalModel(parse_local_name(name), threads=threads(), runtime_base=runtime_directory())


@pytest.fixture(scope="module", autouse=True)
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Use a separate directory, and therefore separate servers, for this file."""
    folder = tmp_path_factory.mktemp("runtime")
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before
    make_local_model.cache_clear()
    gc.collect()
    assert wait_until(lambda: not servers(folder)), "a server was left behind"


@pytest.fixture(scope="module")
def model(runtime: Path) -> Iterator[LocalModel]:
    shared = local()
    yield shared
    shared.release()


def servers(folder: Path) -> list[int]:
    """Return the processes of servers that use a folder."""
    pids: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if b"models.local_server" in command and str(folder).encode() in command:
            pids.append(int(entry.name))
    return pids


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")


def wait_until(condition: Any, timeout_seconds: float = 15.0) -> bool:
    until = time.monotonic() + timeout_seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.1)
    return False


async def slots_of(model: LocalModel) -> list[dict[str, Any]]:
    address = model._lease.address()
    headers = {"Authorization": f"Bearer {address.key}"}
    async with httpx2.AsyncClient(trust_env=False) as client:
        slots: list[dict[str, Any]] = (
            await client.get(f"{address.url}/slots", headers=headers)
        ).json()
    return slots


async def is_busy(model: LocalModel) -> bool:
    return any(slot["is_processing"] for slot in await slots_of(model))


async def seconds_until_idle(model: LocalModel) -> float:
    began = time.monotonic()
    while await is_busy(model):
        assert time.monotonic() - began < 10, "the server continues although nobody reads"
        await asyncio.sleep(0.02)
    return time.monotonic() - began


async def test_stream_yields_pieces_and_then_the_response(model: LocalModel) -> None:
    received = [piece async for piece in model.stream(ModelRequest.of("Name three colours."))]
    *pieces, answer = received
    assert isinstance(answer, ModelResponse)
    assert len(pieces) > 10
    assert "".join(map(str, pieces)) == answer.text
    assert "Red" in answer.text
    assert answer.usage.output_tokens == 24
    assert 20 < answer.usage.input_tokens < 60


async def test_same_request_has_the_same_response(model: LocalModel) -> None:
    prompt = ModelRequest.of(
        query="Name three animals.", instruction="Be brief.", memory="I am Mio."
    )
    first = await model.complete(prompt)
    await model.complete(ModelRequest.of("Something else."))
    assert await model.complete(prompt) == first


class City(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(max_length=12)]
    size: Literal["small", "large"]
    people: int


async def test_response_matches_its_schema_five_times() -> None:
    model = local("local?context=2048&max_tokens=100")
    schema = msgspec.json.schema(City)
    for place in ("Osaka", "Paris", "a village", "東京", "Lagos"):
        answer = await model.complete(
            ModelRequest.of(f"Describe {place} as JSON.", output_schema=schema)
        )
        assert msgspec.json.decode(answer.text, type=City).name
    model.release()


async def test_closed_stream_stops_the_server() -> None:
    model = local("local?context=2048&max_tokens=1500")
    pieces: Any = model.stream(ModelRequest.of(ENDLESS))
    await anext(pieces)
    assert await is_busy(model)
    await pieces.aclose()
    assert await seconds_until_idle(model) < 2

    async def ask() -> None:
        await model.complete(ModelRequest.of(ENDLESS))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await ask()
    assert await seconds_until_idle(model) < 2
    model.release()


async def test_two_requests_run_at_once_and_others_wait(model: LocalModel) -> None:
    busiest = 0
    answers: list[ModelResponse] = []

    async def ask(query: str) -> None:
        answers.append(await model.complete(ModelRequest.of(query)))

    async def watch() -> None:
        nonlocal busiest
        while len(answers) < 3:
            busy = sum(slot["is_processing"] for slot in await slots_of(model))
            busiest = max(busiest, busy)
            await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as group:
        for query in ("Name a fruit.", "Name a river.", "Name a tool."):
            group.create_task(ask(query))
        group.create_task(watch())
    assert busiest == 2
    assert all(answer.text for answer in answers)


async def test_japanese_is_streamed_in_whole_characters(model: LocalModel) -> None:
    prompt = ModelRequest.of(
        query="日本の首都はどこですか。", memory="利用者は澪さんです。", instruction="短く。"
    )
    pieces = [piece async for piece in model.stream(prompt)]
    assert isinstance(pieces[-1], ModelResponse)
    assert pieces[-1].text
    assert "\ufffd" not in "".join(map(str, pieces[:-1]))


async def test_too_long_request_error_has_both_sizes(model: LocalModel) -> None:
    with pytest.raises(ModelFailed, match=r"prompt has 3\d\d\d tokens, the context 2048"):
        await model.complete(ModelRequest.of("word " * 3000))
    assert (await model.complete(ModelRequest.of("Hello."))).text


async def test_tools_are_left_out_and_logged_once(
    model: LocalModel, caplog: pytest.LogCaptureFixture
) -> None:
    weather = ToolSpec(name="weather", description="Tell the weather.")
    for _ in range(2):
        answer = await model.complete(ModelRequest.of("How is the weather?", tools=(weather,)))
        assert answer.text
        assert not answer.calls
    assert [r.message for r in caplog.records if "tools" in r.message] == [
        "local cannot call tools, so tools are not sent to it"
    ]


async def test_server_requires_its_key_and_files_are_private(
    model: LocalModel, runtime: Path
) -> None:
    address = model._lease.address()
    assert address.url.startswith("http://127.0.0.1:")
    async with httpx2.AsyncClient(trust_env=False) as client:
        response = await client.post(f"{address.url}/v1/chat/completions", json={"messages": []})
    assert response.status_code == 401
    assert address.key not in repr(address)
    folder = runtime / "acc-local"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert not any(address.key in command_of(pid) for pid in servers(runtime))


# Sharing a server


def start_client(command: str, name: str = SMALL) -> "subprocess.Popen[str]":
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, str(HERE / "local_model_client.py"), name, command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_message(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    message: dict[str, Any] = json.loads(process.stdout.readline())
    return message


def wait_for_exit(process: "subprocess.Popen[str]", status: int) -> None:
    with process:
        pass
    assert process.returncode == status


async def test_second_process_uses_the_same_server(model: LocalModel, runtime: Path) -> None:
    await model.complete(ModelRequest.of("Hello."))
    before = servers(runtime)
    process = start_client("answer")
    assert read_message(process)["url"] == model._lease.address().url
    assert servers(runtime) == before
    process.communicate("\n", timeout=20)
    assert process.returncode == 0
    assert (await model.complete(ModelRequest.of("Hello."))).text


async def test_three_concurrent_models_start_one_server(runtime: Path) -> None:
    name = "local?context=512&max_tokens=4"
    models = [local(name) for _ in range(3)]
    before = servers(runtime)
    async with asyncio.TaskGroup() as group:
        for each in models:
            group.create_task(each.complete(ModelRequest.of("Hello.")))
    assert len({each._lease.address().url for each in models}) == 1
    assert len(set(servers(runtime)) - set(before)) == 1
    for each in models:
        each.release()
    assert wait_until(lambda: set(servers(runtime)) <= set(before))


def test_server_ends_with_its_last_user(runtime: Path) -> None:
    before = set(servers(runtime))
    name = "local?context=768&max_tokens=8"
    starter = start_client("answer", name)
    url = read_message(starter)["url"]
    other = start_client("answer", name)
    assert read_message(other)["url"] == url
    starter.kill()
    wait_for_exit(starter, -signal.SIGKILL)
    time.sleep(1.5)
    assert len(set(servers(runtime)) - before) == 1
    other.kill()
    wait_for_exit(other, -signal.SIGKILL)
    assert wait_until(lambda: set(servers(runtime)) <= before, 5)


def test_server_ends_if_its_only_user_is_killed_during_an_answer(runtime: Path) -> None:
    before = set(servers(runtime))
    process = start_client("stream", "local?context=1024&max_tokens=900")
    assert read_message(process)["piece"]
    assert len(set(servers(runtime)) - before) == 1
    process.kill()
    wait_for_exit(process, -signal.SIGKILL)
    assert wait_until(lambda: set(servers(runtime)) <= before, 5)


async def test_killed_server_is_started_again(runtime: Path) -> None:
    before = set(servers(runtime))
    model = local("local?context=640&max_tokens=100")
    pieces = model.stream(ModelRequest.of(LONG))
    await anext(pieces)
    (server,) = set(servers(runtime)) - before
    os.kill(server, signal.SIGKILL)
    with pytest.raises(ModelFailed, match="ended before the end of the answer"):
        await drain(pieces)
    assert (await local("local?context=640&max_tokens=8").complete(ModelRequest.of("Hello."))).text
    model.release()


async def drain(pieces: AsyncIterator[str | ModelResponse]) -> None:
    async for _ in pieces:
        pass


async def test_idle_server_ends_and_is_started_again(runtime: Path) -> None:
    before = set(servers(runtime))
    model = local("local?context=512&max_tokens=8&idle_minutes=0.02")
    await model.complete(ModelRequest.of("Hello."))
    assert len(set(servers(runtime)) - before) == 1
    assert wait_until(lambda: set(servers(runtime)) <= before)
    assert (await model.complete(ModelRequest.of("Hello."))).text
    model.release()


# Errors


async def test_missing_invalid_and_damaged_files_have_their_errors(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match="the file does not exist"):
        await local(f"local:{tmp_path}/none.gguf").complete(ModelRequest.of("Hello."))
    other = tmp_path / "notes.gguf"
    other.write_text("hello")
    with pytest.raises(ModelFailed, match="is not a GGUF file"):
        await local(f"local:{other}").complete(ModelRequest.of("Hello."))
    cut = tmp_path / "cut.gguf"
    with model_file(parse_local_name("local")).open("rb") as whole:
        cut.write_bytes(whole.read(5_000_000))
    with pytest.raises(ModelFailed, match="corrupted or incomplete"):
        await local(f"local:{cut}").complete(ModelRequest.of("Hello."))


def test_too_little_memory_is_named() -> None:
    code = (
        "import asyncio, sys; from acc import ModelRequest;"
        "from acc.bootstrap.agents import make_model;"
        "asyncio.run(make_model('local?slots=16').complete(ModelRequest.of('Hello.')))"
    )
    completed = subprocess.run(  # noqa: S603 - our own interpreter
        ["/bin/sh", "-c", 'ulimit -v 1500000; exec "$0" -c "$1"', sys.executable, code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ModelFailed: local cannot be loaded: there is too little memory" in completed.stderr


def test_slow_start_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Path
) -> None:
    before = set(servers(runtime))
    slow = tmp_path / "xllamacpp"
    slow.mkdir()
    (slow / "__init__.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    model = local("local?context=600&start_seconds=1")
    with pytest.raises(ModelFailed, match="not ready after 1 s"):
        model._lease.address()
    assert wait_until(lambda: set(servers(runtime)) <= before, 5)


# Agents


async def test_agent_with_compressed_memory_completes_three_turns() -> None:
    agent = Agent(name="clerk", model=SMALL, memory="acc", instruction="Answer in one sentence.")
    runner = Runner(agent)
    results: list[RunResult] = []
    for text in (
        "My name is Mio and my train leaves at 09:40.",
        "I must not spend more than 50 euros.",
        "What do you know about me?",
    ):
        results.append(await runner.run(user_id="mio", session_id="s", message=text))
    assert [result.status.value for result in results] == ["completed"] * 3
    assert all(result.text for result in results)
    assert results[-1].usage.input_tokens > results[0].usage.input_tokens
    assert results[-1].usage.memory_tokens > 0


async def test_run_streams_structured_output() -> None:
    agent = Agent(
        name="clerk",
        model="local?context=2048&max_tokens=100",
        memory=None,
        output_schema=City,
        output_key="city",
    )
    runner = Runner(agent)
    events = [
        event
        async for event in runner.stream(user_id="u", session_id="s", message="Describe Osaka.")
    ]
    partial = [e.partial_output for e in events if e.kind is EventKind.PARTIAL_OUTPUT]
    assert len(partial) > 5
    assert [len(data) for data in partial] == sorted(len(data) for data in partial)
    assert EventKind.DELTA not in {event.kind for event in events}
    *_, answer = (event.text for event in events if event.kind is EventKind.MESSAGE)
    city = msgspec.json.decode(answer, type=City)
    assert (partial[-1]["name"], partial[-1]["size"]) == (city.name, city.size)


async def test_agent_with_tools_answers_without_them() -> None:
    @tool
    def weather(city: str) -> str:
        """Return the weather."""
        return f"sunny in {city}"

    agent = Agent(name="clerk", model=SMALL, tools=[weather], memory=None)
    result = await Runner(agent).run(user_id="u", session_id="s", message="The weather in Osaka?")
    assert result.text
    assert result.usage.tool_calls == 0


def test_command_line_runs_an_agent_with_the_local_model(tmp_path: Path, runtime: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from acc import Agent\n"
        f"clerk = Agent(name='clerk', model={SMALL!r}, instruction='Be brief.')\n",
        encoding="utf-8",
    )
    before = set(servers(runtime))
    completed = subprocess.run(
        [sys.executable, "-m", "acc", "run", "shop:clerk", "Name three colours."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.strip()
    assert wait_until(lambda: set(servers(runtime)) <= before, 5)
