"""Contract of ReaderPort."""

from collections.abc import Sequence

import pytest

from acc.adapters.memory.model_reader import ModelReader
from acc.adapters.memory.reader import EmbeddedReader
from acc.domain.value_objects.reading import REFERRING_ACTS, Act, EarlierSentence
from acc.ports.outbound.memory_ports import ReaderPort
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse

EARLIER = (
    EarlierSentence(id="a", text="Always give prices in euros.", act=Act.SET, turn_id=1),
    EarlierSentence(id="b", text="My train leaves at 9:40.", act=Act.STATE, turn_id=2),
)
SENTENCES = ("You can stop giving prices in euros.", "thanks a lot", "明日は雨らしいね")


class _Silent:
    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        return ModelResponse(text='{"readings": []}')


@pytest.fixture(params=["embedded", "model"])
def reader(request: pytest.FixtureRequest) -> ReaderPort:
    embedded = EmbeddedReader()
    return embedded if request.param == "embedded" else ModelReader(_Silent(), embedded)


@pytest.mark.parametrize("earlier", [(), EARLIER])
async def test_one_reading_per_sentence_in_order(
    reader: ReaderPort, earlier: Sequence[EarlierSentence]
) -> None:
    readings = await reader.read(SENTENCES, earlier)

    assert tuple(reading.text for reading in readings) == SENTENCES
    assert all(0 <= reading.start < reading.end <= len(reading.text) for reading in readings)


async def test_scores_are_probabilities_of_all_acts(reader: ReaderPort) -> None:
    for reading in await reader.read(SENTENCES, EARLIER):
        assert set(reading.scores) == set(Act)
        assert sum(reading.scores.values()) == pytest.approx(1.0, abs=1e-4)
        assert reading.confidence == reading.scores[reading.act]


async def test_target_is_an_earlier_sentence_or_empty(reader: ReaderPort) -> None:
    for reading in await reader.read(SENTENCES, EARLIER):
        assert reading.target in {"", "a", "b"}
        assert bool(reading.target) == (reading.act in REFERRING_ACTS)


async def test_nothing_is_referred_to_without_earlier_sentences(reader: ReaderPort) -> None:
    readings = await reader.read(["Forget what I said about the euros."], ())

    assert readings[0].act not in REFERRING_ACTS
    assert readings[0].target == ""


async def test_no_sentences_give_no_readings(reader: ReaderPort) -> None:
    assert await reader.read((), EARLIER) == ()


@pytest.mark.parametrize("text", ["?", "", "\ud800", "x" * 5_000, "。"])
async def test_unusual_text_is_read(reader: ReaderPort, text: str) -> None:
    (reading,) = await reader.read([text], EARLIER)

    assert reading.text == text


async def test_the_same_input_gives_the_same_readings(reader: ReaderPort) -> None:
    assert await reader.read(SENTENCES, EARLIER) == await reader.read(SENTENCES, EARLIER)
