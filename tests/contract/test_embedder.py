"""Contract of EmbedderPort."""

import math

import pytest

from acc.bootstrap.memory import make_embedder
from acc.ports.outbound.model_ports import EmbedderPort


@pytest.fixture(scope="module", params=["multilingual", "static"])
def embedder(request: pytest.FixtureRequest) -> EmbedderPort:
    embedder = make_embedder(request.param)
    assert embedder is not None
    return embedder


async def test_embed_returns_one_unit_vector_of_one_size_per_text(embedder: EmbedderPort) -> None:
    texts = ["The lead is Bo.", "切り戻し期限は25分です。", "x"]
    vectors = await embedder.embed(texts)
    assert len(vectors) == len(texts)
    assert len({len(vector) for vector in vectors}) == 1
    for vector in vectors:
        assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-3)


async def test_embed_is_deterministic_and_independent_of_batch(embedder: EmbedderPort) -> None:
    (alone,) = await embedder.embed(["The lead is Bo."])
    _, in_batch = await embedder.embed(["Something else.", "The lead is Bo."])
    assert list(alone) == pytest.approx(list(in_batch), abs=1e-4)


async def test_similar_texts_have_higher_cosine(embedder: EmbedderPort) -> None:
    query, similar, other = await embedder.embed(
        ["The server is down.", "The server has crashed.", "Tomatoes need a lot of sun."]
    )

    def cosine(vector: object) -> float:
        return sum(a * b for a, b in zip(query, vector, strict=True))  # type: ignore[call-overload]

    assert cosine(similar) > cosine(other)
