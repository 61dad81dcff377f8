"""The answer cache: equal requests are made once, and damaged files are ignored."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acc.adapters.models.cache import CachedModel, check_folder
from acc.application.runtime.pausable_timeout import PausableTimeout
from acc.domain.errors import InvalidInput, ModelFailed
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult, Usage
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse, ModelSettings, ToolSpec
from acc.testing import ScriptedModel

ANSWER = ModelResponse(
    text="答え is 42",
    calls=(ToolCall(id="c", name="look", arguments={"x": [1, "二"]}),),
    usage=Usage(input_tokens=5, output_tokens=3, cached_tokens=1, cost=0.25, priced_calls=1),
)
PROMPT = ModelRequest.of("q", memory="m", instruction="i")


def cached(inner: ScriptedModel, folder: Path, **named: object) -> CachedModel:
    return CachedModel(inner, folder, identity={"model": "a", **named}, name="a")


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


async def test_equal_request_is_made_once_and_the_cached_response_is_free(tmp_path: Path) -> None:
    inner = ScriptedModel(ANSWER)
    assert await cached(inner, tmp_path).complete(PROMPT) == ANSWER
    model = cached(inner, tmp_path)
    cached_response = await model.complete(PROMPT)
    assert (cached_response.text, cached_response.calls) == (ANSWER.text, ANSWER.calls)
    assert (cached_response.usage.cost, cached_response.usage.input_tokens) == (0.0, 5)
    assert [piece async for piece in model.stream(PROMPT)] == [ANSWER.text, cached_response]
    assert (len(inner.requests), model.hits, model.misses) == (1, 2, 0)
    await model.aclose()


async def test_streamed_response_is_cached(tmp_path: Path) -> None:
    inner = ScriptedModel("a b", ModelResponse(calls=ANSWER.calls))
    model = cached(inner, tmp_path)
    first = [piece async for piece in model.stream(PROMPT)]
    assert first[:2] == ["a ", "b"]
    assert (await model.complete(PROMPT)).text == "a b"
    other = ModelRequest.of("other")
    assert len([piece async for piece in model.stream(other)]) == 1
    assert len([piece async for piece in model.stream(other)]) == 1
    assert len(inner.requests) == 2


VARIANTS = [
    ModelRequest.of("q2", memory="m", instruction="i"),
    ModelRequest.of("q", memory="m2", instruction="i"),
    ModelRequest.of("q", memory="m", instruction="i2"),
    ModelRequest.of("qm", instruction="i"),
    ModelRequest.of("q", memory="m", instruction="i", output_schema={"type": "object"}),
    ModelRequest.of("q", memory="m", instruction="i", settings=ModelSettings(temperature=0)),
    ModelRequest.of(
        query="q", memory="m", instruction="i", tools=(ToolSpec(name="t", description="d"),)
    ),
    ModelRequest.of(
        query="q",
        memory="m",
        instruction="i",
        following=(
            ChatMessage(
                role="tool",
                author="t",
                parts=(Part(result=ToolResult(call_id="c", name="t", content={"a": 1})),),
            ),
        ),
    ),
]


@pytest.mark.parametrize("other", VARIANTS)
async def test_any_difference_of_the_request_is_a_miss(other: ModelRequest, tmp_path: Path) -> None:
    inner = ScriptedModel("one", "two")
    model = cached(inner, tmp_path)
    assert (await model.complete(PROMPT)).text == "one"
    assert (await model.complete(other)).text == "two"


async def test_identity_and_sample_separate_requests(tmp_path: Path) -> None:
    inner = ScriptedModel("one", "two", "three")
    model = cached(inner, tmp_path)
    assert (await model.complete(PROMPT)).text == "one"
    assert (await cached(inner, tmp_path, temperature=1).complete(PROMPT)).text == "two"
    second_vote = CachedModel(inner, tmp_path, identity={"model": "a"}, name="a", sample="vote 2")
    assert (await second_vote.complete(PROMPT)).text == "three"
    assert (await model.complete(PROMPT)).text == "one"


async def test_unpaired_surrogate_has_the_key_of_a_question_mark(tmp_path: Path) -> None:
    model = cached(ScriptedModel("one"), tmp_path)
    assert (await model.complete(ModelRequest.of("q\ud800"))).text == "one"
    assert (await model.complete(ModelRequest.of("q?"))).from_cache


def with_fields(*names: str) -> dict[str, object]:
    return {"type": "object", "properties": {name: {} for name in names}}


async def test_order_of_schema_properties_is_part_of_the_key(tmp_path: Path) -> None:
    model = cached(ScriptedModel("one", "two", "three", "four"), tmp_path)
    prompts = [ModelRequest.of("q", output_schema=with_fields(*names)) for names in ("ab", "ba")]
    for names in ("ab", "ba"):
        spec = ToolSpec(name="t", description="d", parameters=with_fields(*names))
        prompts.append(ModelRequest.of("q", tools=(spec,)))
    for from_cache in (False, True):
        found = [await model.complete(prompt) for prompt in prompts]
        assert [answer.text for answer in found] == ["one", "two", "three", "four"]
        assert {answer.from_cache for answer in found} == {from_cache}


@pytest.mark.parametrize("empty", ["", " \n"])
async def test_empty_response_is_not_cached(empty: str, tmp_path: Path) -> None:
    model = cached(ScriptedModel(empty, "something"), tmp_path)
    assert [(await model.complete(PROMPT)).text for _ in range(3)] == [empty, *["something"] * 2]


async def test_deeply_nested_file_is_ignored(tmp_path: Path) -> None:
    await cached(ScriptedModel(ANSWER), tmp_path).complete(PROMPT)
    (file,) = files(tmp_path)
    deep = b"[" * 100_000 + b"]" * 100_000
    file.write_bytes(file.read_bytes().replace('[1,"二"]'.encode(), deep))
    assert (await cached(ScriptedModel("anew"), tmp_path).complete(PROMPT)).text == "anew"
    assert (await cached(ScriptedModel(), tmp_path).complete(PROMPT)).text == "anew"


async def test_failure_is_not_cached(tmp_path: Path) -> None:
    inner = ScriptedModel(ModelFailed("down"), "up")
    model = cached(inner, tmp_path)
    with pytest.raises(ModelFailed):
        await model.complete(PROMPT)
    assert files(tmp_path) == []
    assert (await model.complete(PROMPT)).text == "up"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.booleans())
async def test_damaged_entry_is_ignored(place: int, byte: int, cut: bool, tmp_path: Path) -> None:
    path = tmp_path / "x"
    await cached(ScriptedModel(ANSWER), path).complete(PROMPT)
    (file,) = files(path)
    whole = file.read_bytes()
    place %= len(whole)
    damaged = whole[:place] if cut else whole[:place] + bytes([byte]) + whole[place + 1 :]
    file.write_bytes(damaged)
    model = cached(ScriptedModel(ANSWER), path)
    found = await model.complete(PROMPT)
    assert (found.text, found.calls) == (ANSWER.text, ANSWER.calls)
    # Either the damage was detected, or it is not in the response.
    assert model.misses == 1 or b'"model":"' in damaged


async def test_entry_of_another_request_is_ignored(tmp_path: Path) -> None:
    inner = ScriptedModel("one", "two", "three")
    model = cached(inner, tmp_path)
    await model.complete(PROMPT)
    (first,) = files(tmp_path)
    await model.complete(ModelRequest.of("other"))
    (second,) = (path for path in files(tmp_path) if path != first)
    second.write_bytes(first.read_bytes())
    assert (await model.complete(ModelRequest.of("other"))).text == "three"


async def test_response_is_returned_if_the_folder_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    model = cached(ScriptedModel("a", "b"), tmp_path / "file")
    assert (await model.complete(PROMPT)).text == "a"
    assert [piece async for piece in model.stream(PROMPT)][0] == "b"
    assert len(caplog.messages) == 1
    assert "file cannot be written: " in caplog.text


async def test_directory_in_place_of_an_entry_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await cached(ScriptedModel("a"), tmp_path).complete(PROMPT)
    (entry,) = files(tmp_path)
    entry.unlink()
    (entry / "in the way").mkdir(parents=True)
    assert (await cached(ScriptedModel("b"), tmp_path).complete(PROMPT)).text == "b"
    assert "cannot be written: " in caplog.text
    assert files(tmp_path) == []


async def test_unwritable_folder_is_rejected_unless_it_has_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nope")):
        with pytest.raises(
            InvalidInput, match="the cache of model responses .* cannot be written: "
        ):
            check_folder(folder)
    check_folder(tmp_path / "new" / "one")

    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(InvalidInput, match="Permission denied"):
        check_folder(tmp_path / "new")
    monkeypatch.undo()
    await cached(ScriptedModel("a"), tmp_path / "new").complete(PROMPT)
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    check_folder(tmp_path / "new")


async def test_response_that_cannot_be_encoded_is_not_cached(tmp_path: Path) -> None:
    odd = ModelResponse(calls=(ToolCall(id="c", name="n", arguments={"x": object()}),))
    assert await cached(ScriptedModel(odd), tmp_path).complete(PROMPT) is odd
    assert files(tmp_path) == []


class Varying:
    """Returns a different answer for each call, after its gate opens."""

    def __init__(self, *faults: Exception) -> None:
        self.count = 0
        self.may = asyncio.Event()
        self.faults = list(faults)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        self.count += 1
        number = self.count
        await self.may.wait()
        if self.faults:
            raise self.faults.pop(0)
        return ModelResponse(text=f"answer {number}", usage=Usage(input_tokens=5, cost=0.25))


def cached_varying(model: Varying, folder: Path) -> CachedModel:
    return CachedModel(model, folder, identity={}, name="a")


async def yield_to_loop() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_concurrent_equal_requests_share_one_call(tmp_path: Path) -> None:
    inner = Varying()
    model = cached_varying(inner, tmp_path)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(model.complete(PROMPT)) for _ in range(3)]
        other = group.create_task(model.complete(ModelRequest.of("other")))
        await yield_to_loop()
        inner.may.set()
    first, *others = [task.result() for task in tasks]
    assert (first.text, first.usage.cost, first.from_cache) == ("answer 1", 0.25, False)
    assert {(found.text, found.usage.cost, found.from_cache) for found in others} == {
        ("answer 1", 0.0, True)
    }
    assert other.result().text == "answer 2"
    assert (model.hits, model.misses) == (2, 2)
    assert (await cached_varying(inner, tmp_path).complete(PROMPT)).text == "answer 1"


async def test_concurrent_equal_requests_share_a_failure(tmp_path: Path) -> None:
    inner = Varying(ModelFailed("down"))
    model = cached_varying(inner, tmp_path)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(failing(model)) for _ in range(3)]
        await yield_to_loop()
        inner.may.set()
    assert [task.result() for task in tasks] == ["down"] * 3
    assert (await model.complete(PROMPT)).text == "answer 2"


async def failing(model: CachedModel) -> str:
    with pytest.raises(ModelFailed) as found:
        await model.complete(PROMPT)
    return str(found.value)


async def test_waiting_request_makes_the_call_if_the_first_is_cancelled(tmp_path: Path) -> None:
    inner = Varying()
    model = cached_varying(inner, tmp_path)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(model.complete(PROMPT))
        await yield_to_loop()
        tasks = [group.create_task(model.complete(PROMPT)) for _ in range(3)]
        await yield_to_loop()
        # A waiting request may be cancelled too, without effect on the others.
        tasks.pop().cancel()
        first.cancel()
        await yield_to_loop()
        inner.may.set()
    assert {task.result().text for task in tasks} == {"answer 2"}
    assert inner.count == 2


async def test_deadline_is_paused_while_waiting_for_an_equal_request(tmp_path: Path) -> None:
    inner = Varying()
    model = cached_varying(inner, tmp_path)

    async def patient() -> str:
        async with PausableTimeout(0.01):
            return (await model.complete(PROMPT)).text

    async with asyncio.TaskGroup() as group:
        group.create_task(model.complete(PROMPT))
        await yield_to_loop()
        waiting = group.create_task(patient())
        await asyncio.sleep(0.05)
        inner.may.set()
    assert waiting.result() == "answer 1"


@pytest.mark.parametrize("has_links", [True, False])
async def test_first_stored_response_wins(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", refuse)
    inner = Varying()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(cached_varying(inner, tmp_path).complete(PROMPT)) for _ in range(3)
        ]
        listening = group.create_task(read_responses(cached_varying(inner, tmp_path)))
        await yield_to_loop()
        inner.may.set()
    assert inner.count == 4
    answers = [task.result() for task in tasks] + listening.result()
    assert len({answer.text for answer in answers}) == 1
    # Each call was made and costs.
    assert {(answer.usage.cost, answer.from_cache) for answer in answers} == {(0.25, False)}
    cached_response = await cached_varying(inner, tmp_path).complete(PROMPT)
    assert (cached_response.text, cached_response.from_cache) == (answers[0].text, True)
    assert len(files(tmp_path)) == 1


async def read_responses(model: CachedModel) -> list[ModelResponse]:
    return [piece async for piece in model.stream(PROMPT) if isinstance(piece, ModelResponse)]


async def test_unfinished_stream_does_not_block_equal_requests(tmp_path: Path) -> None:
    model = cached(ScriptedModel("a b", "c"), tmp_path)
    stream = model.stream(PROMPT)
    assert await anext(stream) == "a "
    async with asyncio.timeout(5):
        assert (await model.complete(PROMPT)).text == "c"
    last = [piece async for piece in stream][-1]
    assert isinstance(last, ModelResponse) and last.text == "c"


def test_two_event_loops_do_not_wait_for_each_other(tmp_path: Path) -> None:
    barrier = threading.Barrier(2)

    class Meeting:
        async def complete(self, prompt: ModelRequest) -> ModelResponse:
            await asyncio.to_thread(barrier.wait, 10)
            return ModelResponse(text=threading.current_thread().name)

    model = CachedModel(Meeting(), tmp_path, identity={}, name="a")
    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(asyncio.run, model.complete(PROMPT)) for _ in range(2)]
        assert len({found.result(20).text for found in running}) == 1


WRITER = """
import asyncio, sys
from pathlib import Path
from acc.adapters.models.cache import CachedModel
from acc.ports.outbound.model_ports import ModelRequest
from acc.testing import ScriptedModel

async def main() -> None:
    for number in range(200):
        inner = ScriptedModel("answer " * 2000)
        model = CachedModel(inner, Path(sys.argv[1]), identity={}, name="a", sample=str(number % 5))
        assert (await model.complete(ModelRequest.of("q"))).text == "answer " * 2000

asyncio.run(main())
"""


def test_processes_can_share_a_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    running = [subprocess.Popen(command) for _ in range(3)]  # noqa: S603 - our own interpreter
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(files(tmp_path)) == 5
    for path in files(tmp_path):
        msgspec.json.decode(path.read_bytes())
    inner = ScriptedModel()
    model = CachedModel(inner, tmp_path, identity={}, name="a", sample="3")
    assert asyncio.run(model.complete(ModelRequest.of("q"))).text.startswith("answer")
