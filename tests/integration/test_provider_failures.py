"""What goes wrong with providers, over their real HTTP, and what is said and done about it."""

import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from provider_wires import KEY, NAMES, keys, model_for, streamed

from acc import Agent, Runner
from acc.bootstrap.models import ProviderModel, make_model
from acc.domain.errors import ModelFailed
from acc.ports.outbound.model_ports import Prompt
from acc.testing.replies import Asked, Reply, fail, say
from acc.testing.stand_in import ProviderStandIn

PROMPT = Prompt(query="q")
EVERY = pytest.mark.parametrize("wire", NAMES)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProviderStandIn]:
    async with ProviderStandIn() as running:
        with keys(running, monkeypatch):
            yield running


async def failure(model: ProviderModel, *, streams: bool = False) -> ModelFailed:
    with pytest.raises(ModelFailed) as found:
        if streams:
            await streamed(model, PROMPT)
        else:
            await model.complete(PROMPT)
    await model.aclose()
    return found.value


def written_under(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


CASES = {
    "rate limit": (fail(429, retry_after=3), "rate_limit", True, "its rate limit is reached"),
    "server": (fail(500), "server", True, "its server failed"),
    "gateway": (fail(502), "server", True, "its server failed"),
    "unavailable": (fail(503), "", True, "it is"),
    "bad request": (fail(400, "no such field"), "rejected", False, "no such field"),
    "key": (fail(401, f"bad key {KEY}"), "key_refused", False, "it refuses the key"),
    "permission": (fail(403), "key_refused", False, "it refuses the key"),
    "no model": (fail(404), "unknown_model", False, "check the name"),
    "request timeout": (fail(408), "", True, ""),
    "too long": (fail(413), "context_length", False, "smaller memory window"),
}


@EVERY
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("streams", [False, True])
async def test_an_error_says_what_to_do(
    wire: str, case: str, streams: bool, server: ProviderStandIn
) -> None:
    reply, reason, retryable, words = CASES[case]
    server.script = [reply]
    error = await failure(model_for(wire, server), streams=streams)
    assert error.retryable is retryable
    assert error.reason == reason or not reason
    assert words in str(error)
    assert str(error).startswith(NAMES[wire].partition("@")[0])
    assert error.retry_after == (3.0 if case == "rate limit" else None)
    assert KEY not in f"{error!r} {error}"
    assert server.count == 1


async def test_a_server_that_wants_a_key_says_where_to_put_it(
    server: ProviderStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = [fail(401), fail(401)]
    error = await failure(model_for("compatible", server))
    assert "it refuses the key in OPENAI_COMPATIBLE_API_KEY" in str(error)
    monkeypatch.delenv("OPENAI_COMPATIBLE_API_KEY")
    error = await failure(model_for("compatible", server))
    assert "it wants a key: set OPENAI_COMPATIBLE_API_KEY (401)" in str(error)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    "words", ["API key not valid. Please pass a valid API key.", "API key expired."]
)
async def test_a_key_that_google_refuses_is_told_as_such(
    words: str, streams: bool, server: ProviderStandIn
) -> None:
    server.script = [fail(400, words)]
    error = await failure(model_for("google", server), streams=streams)
    assert error.reason == "key_refused"
    assert "it refuses the key in GOOGLE_API_KEY" in str(error) and words not in str(error)


async def test_a_prompt_that_is_too_long_is_told_as_such(server: ProviderStandIn) -> None:
    server.script = [fail(400, "maximum context length", kind="context_length_exceeded")]
    error = await failure(model_for("openai-chat", server))
    assert error.reason == "context_length"
    assert "smaller memory window" in str(error)
    server.script = [fail(400, "prompt is too long: 300000 tokens > 200000 maximum")]
    assert (await failure(model_for("anthropic", server))).reason == "context_length"


async def test_an_account_without_credit_is_not_asked_again(server: ProviderStandIn) -> None:
    server.script = [fail(429, "no credit", kind="insufficient_quota")]
    error = await failure(model_for("openai-chat", server, attempts=4))
    assert (error.reason, error.retryable, server.count) == ("quota", False, 1)


@EVERY
@pytest.mark.parametrize("streams", [False, True])
async def test_a_refusal_is_a_failure_and_no_answer(
    wire: str, streams: bool, server: ProviderStandIn
) -> None:
    server.script = [Reply(refusal="I will not do that")]
    error = await failure(model_for(wire, server), streams=streams)
    assert (error.reason, error.retryable) == ("refused", False)


@EVERY
@pytest.mark.parametrize("streams", [False, True])
async def test_no_room_for_an_answer_is_told(
    wire: str, streams: bool, server: ProviderStandIn
) -> None:
    server.script = [Reply(finish="length")]
    error = await failure(model_for(wire, server, max_tokens=5), streams=streams)
    assert error.reason == "length"
    server.script = [say("as far as it", finish="length")]
    model = model_for(wire, server)
    assert (await model.complete(PROMPT)).text == "as far as it"
    await model.aclose()


@EVERY
@pytest.mark.parametrize("how", ["cut", "stop"])
async def test_what_was_streamed_before_a_cut_is_not_the_answer(
    wire: str, how: str, server: ProviderStandIn
) -> None:
    if (wire, how) == ("library", "stop"):
        pytest.skip("the library takes the end of a stream for the end of the answer")
    place = 2 if wire == "google" else 6
    server.script = [say("one two three four five six", **{how: place})]
    model = model_for(wire, server, attempts=4)
    heard: list[object] = []
    with pytest.raises(ModelFailed) as found:
        async for piece in model.stream(PROMPT):
            heard.append(piece)
    await model.aclose()
    assert heard[:2] == ["one ", "two "]
    assert all(isinstance(piece, str) for piece in heard)
    assert found.value.retryable
    assert found.value.reason == "cut_off"
    assert "cut in the middle of the answer" in str(found.value)
    assert server.count == 1  # what was shown cannot be taken back, so nothing is asked again


@EVERY
async def test_a_cut_whole_answer_is_asked_for_again(wire: str, server: ProviderStandIn) -> None:
    server.script = [say("one two three", cut=2), say("whole")]
    model = model_for(wire, server, attempts=2, max_wait=0.01)
    assert (await model.complete(PROMPT)).text == "whole"
    await model.aclose()
    assert server.count == 2


@EVERY
@pytest.mark.parametrize("streams", [False, True])
async def test_an_answer_that_is_no_json_is_a_failure(
    wire: str, streams: bool, server: ProviderStandIn
) -> None:
    server.script = [say("a b c d e", garbled=True)]
    error = await failure(model_for(wire, server), streams=streams)
    assert error.retryable
    assert "cannot be read" in str(error)


@EVERY
@pytest.mark.parametrize("streams", [False, True])
async def test_a_provider_that_does_not_answer_in_time_is_given_up(
    wire: str, streams: bool, server: ProviderStandIn
) -> None:
    server.script = [say("late", delay=5)]
    started = time.monotonic()
    error = await failure(model_for(wire, server, timeout=0.2), streams=streams)
    assert (error.reason, error.retryable) == ("timeout", True)
    assert "no answer within 0.2 s" in str(error)
    assert time.monotonic() - started < 4


async def test_a_stream_that_falls_silent_is_given_up(server: ProviderStandIn) -> None:
    server.script = [say("one two three", pace=1.0)]
    error = await failure(model_for("openai-chat", server, timeout=0.2), streams=True)
    assert error.reason == "timeout"


@EVERY
async def test_a_server_that_is_not_there_is_told(
    wire: str, server: ProviderStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ProviderStandIn()
    async with gone:
        pass
    with keys(gone, monkeypatch):
        error = await failure(model_for(wire, gone))
    assert (error.reason, error.retryable) == ("connection", True)


async def test_a_provider_that_is_busy_is_asked_again_when_it_says(server: ProviderStandIn) -> None:
    server.script = [fail(429, retry_after=0.3), fail(503), say("now")]
    model = ProviderModel("openai:gpt-5.2")
    started = time.monotonic()
    assert (await model.complete(PROMPT)).text == "now"
    await model.aclose()
    assert time.monotonic() - started >= 0.3
    assert server.count == 3


async def test_the_next_provider_steps_in(server: ProviderStandIn) -> None:
    def by_model(asked: Asked) -> Reply:
        return fail(500) if asked.wire == "openai" else say("from Anthropic")

    server.script = [by_model, by_model]
    model = make_model("openai:gpt-5.2?attempts=1|anthropic:claude-opus-4-8|embedded")
    assert (await model.complete(PROMPT)).text == "from Anthropic"
    await model.aclose()  # type: ignore[attr-defined]
    assert [asked.wire for asked in server.asked] == ["openai", "anthropic"]


async def test_a_provider_whose_client_is_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    with pytest.raises(ModelFailed, match=r"pip install 'pydantic-ai-slim\[groq\]'") as found:
        await make_model("groq:llama").complete(PROMPT)
    assert found.value.reason == "not_installed"


async def test_a_provider_that_lacks_more_than_a_key_says_what(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OLLAMA_BASE_URL", raising=False)
    with pytest.raises(ModelFailed, match="OLLAMA_BASE_URL"):
        await make_model("ollama:llama3").complete(PROMPT)


@EVERY
async def test_keys_appear_nowhere(
    wire: str,
    server: ProviderStandIn,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ACC_MODEL_CACHE", str(tmp_path / "cache"))
    name = NAMES[wire] + (f"@{server.url}" if wire == "compatible" else "") + "?attempts=1"
    runner = Runner(Agent(name="a", model=name), store=tmp_path / "store.db")
    told: list[str] = []
    for status in (401, 400, 500, 429):
        server.script = [fail(status, f"your key {KEY} with Authorization: Bearer {KEY}")]
        with pytest.raises(ModelFailed) as found:
            await runner.run(user_id="u", session_id=f"s{status}", message="hello")
        told.append(f"{found.value!r} {found.value.__cause__!r}")
    server.script = [say("hello to you")]
    result = await runner.run(user_id="u", session_id="s", message="hello")
    await runner.aclose()
    assert server.asked[-1].key == KEY
    told += [repr(result), caplog.text]
    told += [str(vars(record)) for record in caplog.records if record.name != "asyncio"]
    assert not [text for text in told if KEY in text]
    kept = written_under(tmp_path)
    assert len(kept) >= 2
    assert not [content for content in kept if KEY.encode() in content]
