"""Embeddings over HTTP, with a test server that can fail."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from embedding_server import Answer, Server, good, raw, refusal, serving, vector_of

from acc import acc_memory
from acc.adapters.models.embeddings import (
    PROVIDERS,
    HostedEmbedder,
    parse_embeddings_name,
)
from acc.application.models.names import COMPATIBLE_KEY
from acc.bootstrap.memory import make_embedder
from acc.bootstrap.settings import read_variable
from acc.domain.errors import InvalidInput, ModelFailed
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal

KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for _, variables in PROVIDERS.values():
        for variable in variables:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(COMPATIBLE_KEY, KEY)


class Waits(list[float]):
    """Records waits without waiting."""

    async def sleep(self, seconds: float) -> None:
        self.append(seconds)


@asynccontextmanager
async def embedder_with(
    *answers: Answer, **how: Any
) -> AsyncIterator[tuple[HostedEmbedder, Server, Waits]]:
    waits = Waits()
    async with serving(*answers) as server:
        choice = parse_embeddings_name(f"openai-compatible:small@{server.url}")
        embedder = HostedEmbedder(choice, read_variable=read_variable, sleep=waits.sleep, **how)
        try:
            yield embedder, server, waits
        finally:
            await embedder.aclose()


async def test_texts_become_unit_vectors_in_order() -> None:
    async with embedder_with() as (embedder, server, _):
        found = await embedder.embed(["The lead is Bo.", "責任者は佐伯さんです。"])
        for text, vector in zip(server.asked[0]["input"], found, strict=True):
            assert math.sqrt(sum(number**2 for number in vector)) == pytest.approx(1)
            ratio = [a / b for a, b in zip(vector_of(text), vector, strict=True)]
            assert ratio == pytest.approx([ratio[0]] * 4, rel=1e-4)
        assert server.asked[0]["model"] == "small"
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_no_authorization_is_sent_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COMPATIBLE_KEY)
    async with embedder_with() as (embedder, server, _):
        await embedder.embed(["x"])
        assert "authorization" not in server.headers[0]


async def test_texts_are_batched_and_requested_once() -> None:
    async with embedder_with() as (embedder, server, _):
        texts = [f"text {number}" for number in range(200)]
        first = await embedder.embed([*texts, *texts])
        assert [len(body["input"]) for body in server.asked] == [96, 96, 8]
        assert await embedder.embed(texts) == first[:200]
        assert len(server.asked) == 3
        assert await embedder.embed([]) == []


async def test_cache_is_limited_to_the_newest_vectors() -> None:
    async with embedder_with() as (embedder, server, _):
        await embedder.embed([f"text {number}" for number in range(4_100)])
        await embedder.embed(["text 4099"])
        assert len(server.asked) == 43
        await embedder.embed(["text 0"])
        assert len(server.asked) == 44


async def test_vector_that_was_evicted_during_a_call_is_returned() -> None:
    async with embedder_with() as (embedder, _, _):
        old = await embedder.embed(["old"])
        request, waiting = embedder._request, asyncio.Event()

        async def slow(texts: Sequence[str]) -> Any:
            if "slow" in texts:
                await waiting.wait()
            return await request(texts)

        embedder._request = slow  # type: ignore[method-assign] # holds one request back
        async with asyncio.TaskGroup() as group:
            both = group.create_task(embedder.embed(["old", "slow"]))
            await asyncio.sleep(0)
            await embedder.embed([f"text {number}" for number in range(4_200)])
            waiting.set()
        assert (await both)[0] == old[0]


async def test_empty_invalid_and_long_texts_are_sent() -> None:
    async with embedder_with() as (embedder, server, _):
        await embedder.embed(["", "\ud83d", "x" * 10_000])
        assert [len(text) for text in server.asked[0]["input"]] == [1, 1, 8_000]


@pytest.mark.parametrize(
    ("answer", "waited"),
    [
        (refusal(429, "slow down", retry_after="7"), 7.0),
        (refusal(429, "slow down"), 0.5),
        (refusal(429, "slow down", retry_after="soon"), 0.5),
        (refusal(429, "slow down", retry_after="-3"), 0.5),
        (refusal(500), 0.5),
        (refusal(503, retry_after="2"), 2.0),
        (raw(b'{"object": "list", "data": [{"ind', content_length="900"), 0.5),
        (raw(b'{"object": "list", "data": [{"ind'), 0.5),
        (raw(b'{"data": []}'), 0.5),
        (raw(b'{"data": [{"index": 0, "embedding": [0.0, 0.0]}]}'), 0.5),
        (raw(b'{"data": [{"index": 3, "embedding": [1.0, 0.0]}]}'), 0.5),
        (raw(b"<html>busy</html>"), 0.5),
    ],
)
async def test_transient_failure_is_retried_after_a_wait(answer: Answer, waited: float) -> None:
    async with embedder_with(answer) as (embedder, server, waits):
        assert len(await embedder.embed(["x"])) == 1
        (wait,) = waits
        assert waited / 2 <= wait <= waited
        assert len(server.asked) == 2


async def test_failure_is_raised_after_the_last_attempt() -> None:
    async with embedder_with(*[refusal(502, "bad gateway")] * 4) as (embedder, server, waits):
        with pytest.raises(ModelFailed, match="openai-compatible:small: HTTP 502: bad gateway"):
            await embedder.embed(["x"])
        assert len(waits) == 3
        assert all(most / 2 <= wait <= most for wait, most in zip(waits, (0.5, 1, 2), strict=True))
        assert len(server.asked) == 4


async def test_retry_after_beyond_max_wait_is_raised_at_once() -> None:
    async with embedder_with(refusal(429, "daily limit", retry_after="86400")) as (
        embedder,
        _,
        waits,
    ):
        with pytest.raises(ModelFailed, match="daily limit"):
            await embedder.embed(["x"])
        assert waits == []


async def test_unreachable_server_error_names_the_address() -> None:
    async with embedder_with(attempts=1) as (embedder, server, _):
        pass
    choice = parse_embeddings_name(f"openai-compatible:small@{server.url}")
    with pytest.raises(ModelFailed, match=r"127\.0\.0\.1:\d+ cannot be reached: ConnectError"):
        await HostedEmbedder(choice, read_variable=read_variable, attempts=1).embed(["x"])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (refusal(401, f"Incorrect API key provided: {KEY}"), f"check {COMPATIBLE_KEY}"),
        (refusal(403, KEY), f"check {COMPATIBLE_KEY}"),
        (refusal(404, "model not found"), "does not exist at http://127"),
        (refusal(400, f"bad input for {KEY}"), "HTTP 400: bad input for ***"),
        (refusal(400, "of key " + KEY.replace("-", "%2d")), "HTTP 400: of key ***"),
        (lambda _: (400, {}, b"x" * 190 + KEY.encode()), f"HTTP 400: {'x' * 190}***"),
        (raw(b'{"data": [{"index": 0, "embedding": "text"}]}'), "cannot be read"),
    ],
)
async def test_error_names_the_fix_and_never_shows_the_key(answer: Answer, message: str) -> None:
    async with embedder_with(*[answer] * 4) as (embedder, _, _):
        with pytest.raises(ModelFailed) as caught:
            await embedder.embed(["x"])
        assert message in str(caught.value)
        assert KEY not in f"{caught.value!r} {embedder!r} {embedder._name!r}"


async def test_vectors_of_another_size_are_rejected() -> None:
    async with embedder_with(good, lambda body: good(body, size=5)) as (embedder, server, _):
        await embedder.embed(["x"])
        with pytest.raises(ModelFailed, match="5 dimensions instead of 4"):
            await embedder.embed(["y"])
        assert len(server.asked) == 2


async def test_oversized_response_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acc.adapters.models.embeddings.MAX_RESPONSE_BYTES", 1_000)
    async with embedder_with(raw(b" " * 5_000)) as (embedder, _, _):
        with pytest.raises(ModelFailed, match="more than 1000 bytes"):
            await embedder.embed(["x"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("openai:text-embedding-3-small", "needs a key: set OPENAI_API_KEY"),
        ("google:gemini-embedding-001", "set GOOGLE_API_KEY or GEMINI_API_KEY"),
        ("openai:", "the model's name is missing"),
        ("openai-compatible:small", "needs a URL"),
        ("openai-compatible:small@http://user:pw@host/v1", "needs a URL"),
        ("openai:small@http://user:pw@elsewhere/v1", "write openai-compatible:small@URL"),
        ("nobody:small", "choose none, multilingual, static, fireworks:MODEL"),
        ("dense", "choose none, multilingual, static"),
    ],
)
def test_invalid_embeddings_name_is_rejected(name: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        acc_memory(embeddings=name)
    assert message in str(caught.value)
    assert "pw" not in str(caught.value)


def test_embedder_is_created_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert repr(make_embedder("openai:text-embedding-3-small")) == (
        "HostedEmbedder('openai:text-embedding-3-small')"
    )
    assert parse_embeddings_name("ollama:nomic-embed-text").base_url == "http://127.0.0.1:11434/v1"
    assert make_embedder("none") is None


def test_unencrypted_server_receives_only_a_named_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "k1")
    monkeypatch.setenv("TEAM_KEY", "k2")
    plain = "openai-compatible:m@http://192.168.0.7/v1"
    assert parse_embeddings_name(plain).key(read_variable) == ""
    assert parse_embeddings_name(f"{plain}?key=TEAM_KEY").key(read_variable) == "k2"
    assert (
        parse_embeddings_name("openai-compatible:m@http://127.0.0.1/v1").key(read_variable) == "k1"
    )
    assert (
        parse_embeddings_name("openai-compatible:m@https://me.example/v1").key(read_variable)
        == "k1"
    )
    with pytest.raises(InvalidInput, match="not the key itself"):
        parse_embeddings_name(f"{plain}?key=sk-abcdefghijklmnop")
    monkeypatch.setenv("TEAM_KEY", "two words")
    with pytest.raises(InvalidInput, match="TEAM_KEY does not hold a valid key"):
        parse_embeddings_name(f"{plain}?key=TEAM_KEY").key(read_variable)


def test_zero_attempts_are_rejected() -> None:
    choice = parse_embeddings_name("ollama:nomic-embed-text")
    with pytest.raises(InvalidInput, match="attempts"):
        HostedEmbedder(choice, read_variable=read_variable, attempts=0)


# --- memory with embeddings ---------------------------------------------------------------------


async def test_memory_recalls_by_words_while_the_server_fails() -> None:
    async with embedder_with(refusal(401)) as (embedder, _, _):
        memory = acc_memory(embeddings=embedder)
        for turn, text in enumerate(("The lead is Bo.", "The lead is tall."), start=1):
            await memory.record(ConversationTurn.of(turn, text, "Noted."))
        view = await memory.view(TurnSignal(turn_id=3, text="Who is the lead?"))
        assert view.trace is not None
        assert "The lead is Bo." in [match.passage.text for match in view.trace.recalled]
        assert view.trace.notes == ("embeddings failed: ModelFailed",)


class _Directions:
    """Returns equal vectors for texts about the same topic."""

    async def embed(self, texts: Any) -> list[list[float]]:
        return [[0.0, 1.0] if "revert" in t or "rollback" in t else [1.0, 0.0] for t in texts]


async def test_similar_passages_are_ranked_first() -> None:
    memory = acc_memory(embeddings=_Directions())
    texts = ["The rollback takes much time.", "It is time to revert to much talk about time."]
    texts += [f"Much time {n} for item {n}." for n in range(12)]
    for turn, text in enumerate(texts, start=1):
        await memory.record(ConversationTurn.of(turn, text, ""))
    view = await memory.view(TurnSignal(turn_id=30, text="How much time to revert?"))
    assert view.trace is not None
    best = {match.passage.text for match in view.trace.recalled[:2]}
    assert best == set(texts[:2])
