from collections.abc import Sequence

import pytest

from acc.adapters.memory.reader import EmbeddedReader
from acc.adapters.memory.reader_links import analyse_sentence
from acc.adapters.memory.reader_weights import (
    ACTS,
    ROWS,
    decode_weights,
    encode_weights,
    features,
    load_weights,
)
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.reading import REFERRING_ACTS, Act, EarlierSentence


def _earlier(*texts: str) -> list[EarlierSentence]:
    return [
        EarlierSentence(id=f"s{turn}", text=text, turn_id=turn) for turn, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("From now on, always answer in French.", Act.SET),
        ("Never use emojis in your replies to me.", Act.SET),
        ("Never restart it.", Act.SET),
        ("再起動しないで。", Act.SET),
        (
            "The outage of the north plant began at 03:12, and although the runbook says that the"
            " operator must always switch to the standby, nobody did so before four.",
            Act.STATE,
        ),
        (
            "北工場の停電は3時12分に始まり、手順書では必ず待機系に切り替えることになっていましたが、"
            "4時まで誰も切り替えませんでした。",
            Act.STATE,
        ),
        ("毎回、最後に要約をつけてください。", Act.SET),
        ("Please keep this answer under 50 words.", Act.ONCE),
        ("今回だけ箇条書きでお願いします", Act.ONCE),
        ("I have two kids, Mia and Tom.", Act.STATE),
        ("弟は大阪に住んでいます", Act.STATE),
        ("How long does the train take?", Act.OTHER),
        ("haha no way", Act.OTHER),
        ("ありがとう、助かった", Act.OTHER),
    ],
)
async def test_clear_sentence_is_read(text: str, act: Act) -> None:
    (reading,) = await EmbeddedReader().read([text], ())

    assert reading.act is act


@pytest.mark.parametrize(
    ("text", "act", "target"),
    [
        ("The euro thing with the prices isn't needed any more.", Act.LIFT, "s0"),
        ("Forget the rule about the prices.", Act.LIFT, "s0"),
        ("Forget it.", Act.OTHER, ""),
        ("Sorry, the meeting is on Thursday, not Tuesday.", Act.CORRECT, "s1"),
        ("Thanks, that helps.", Act.OTHER, ""),
    ],
)
async def test_reference_is_found_among_earlier_sentences(text: str, act: Act, target: str) -> None:
    earlier = _earlier(
        "Always give prices in euros.",
        "The meeting with the landlord is on Tuesday.",
        "What does a bicycle cost?",
    )

    (reading,) = await EmbeddedReader().read([text], earlier)

    assert (reading.act, reading.target) == (act, target)


async def test_japanese_reference_is_found_among_earlier_sentences() -> None:
    earlier = _earlier(
        "値段はいつもユーロで書いて", "打ち合わせは火曜日の3時です", "自転車はいくら?"
    )

    lift, correction = await EmbeddedReader().read(
        [
            "もう値段をユーロで書かなくていいです",
            "すみません、打ち合わせは火曜じゃなくて木曜でした",
        ],
        earlier,
    )

    assert (lift.act, lift.target) == (Act.LIFT, "s0")
    assert (correction.act, correction.target) == (Act.CORRECT, "s1")


async def test_rule_is_read_if_it_is_unclear_whether_it_replaces_an_earlier_one() -> None:
    text = "From now on keep every answer under 20 words."

    reader = EmbeddedReader(min_reference=0.9)
    (reading,) = await reader.read([text], _earlier("Keep every answer under 40 words."))

    assert reading.act is Act.SET
    assert reading.scores[Act.SET] < 0.75 <= reading.scores[Act.SET] + reading.scores[Act.CHANGE]


async def test_higher_threshold_reads_fewer_rules() -> None:
    text = "Never use emojis in your replies to me."

    (strict,) = await EmbeddedReader(min_rule=1.0).read([text], ())

    assert strict.act is not Act.SET
    assert strict.scores[Act.SET] > 0.5


class _Embedder:
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        raise self._error


@pytest.mark.parametrize("error", [ModelFailed("no route"), ZeroDivisionError("no route")])
async def test_words_decide_with_a_note_when_embedder_fails(error: Exception) -> None:
    earlier = _earlier("Always give prices in euros.")
    text = "The euro thing with the prices isn't needed any more."

    (plain,) = await EmbeddedReader().read([text], earlier)
    (reading,) = await EmbeddedReader(embedder=_Embedder(error)).read([text], earlier)

    assert "no route" in reading.note
    assert (reading.act, reading.scores) == (plain.act, plain.scores)


class _SimilarTo:
    """Embeds one earlier sentence like the new ones, and others differently."""

    def __init__(self, similar: str, others: Sequence[str]) -> None:
        self._vectors = dict.fromkeys(others, (0.0, 1.0)) | {similar: (1.0, 0.0)}

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [self._vectors.get(text, (1.0, 0.0)) for text in texts]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    ("rules", "lift"),
    [
        (("Always give prices in euros.", "Never use emojis."), "That rule is no longer needed."),
        (("値段はいつもユーロで書いて", "絵文字は使わないで"), "あの決まりはもういいです。"),
    ],
)
async def test_similar_vector_decides_which_rule_is_lifted(
    rules: tuple[str, str], lift: str, number: int
) -> None:
    embedder = _SimilarTo(rules[number], rules)

    (reading,) = await EmbeddedReader(embedder=embedder).read([lift], _earlier(*rules))

    assert (reading.act, reading.target) == (Act.LIFT, f"s{number}")


def test_weights_are_smaller_than_two_megabytes_and_survive_encoding() -> None:
    weights = load_weights()
    content = encode_weights(weights)

    assert len(content) < 2_000_000
    assert decode_weights(content) == weights
    assert all(len(column) == ROWS for column in weights.english.columns)
    assert len(weights.english.columns) == len(ACTS)


@pytest.mark.parametrize("content", [b"", b"ACCREAD1", encode_weights(load_weights())[:-1]])
def test_damaged_weights_are_rejected(content: bytes) -> None:
    with pytest.raises(ValueError, match="make reader"):
        decode_weights(content)


def test_typing_habits_do_not_change_the_features() -> None:
    assert features("Don't use tables.") == features("dont use tables")
    assert features("表は使わないで。") == features("表は使わないで")


async def test_earlier_sentence_is_not_read_again_if_its_scores_are_known() -> None:
    text, rule = "You can stop answering in French.", "From now on, always answer in French."
    (known,) = await EmbeddedReader().read([rule], ())
    others = _earlier("I have two kids.", rule)
    (without,) = await EmbeddedReader().read([text], others)
    given = [replace(old, words=known.words) if old.text == rule else old for old in others]
    (with_scores,) = await EmbeddedReader().read([text], given)
    assert (with_scores.act, with_scores.target) == (without.act, without.target)
    assert with_scores.confidence == pytest.approx(without.confidence, abs=1e-3)
    # Scores of another kind of sentence are used as they are given.
    other = tuple(100_000 if act is Act.OTHER else 0 for act in Act)
    (changed,) = await EmbeddedReader().read(
        [text], [replace(old, words=other) if old.text == rule else old for old in others]
    )
    assert changed.confidence != pytest.approx(without.confidence, abs=1e-3)


@pytest.mark.parametrize("text", ["My back hurts, 7 pm instead of 8.", "今後は二文で答えて。"])
async def test_repeated_sentence_does_not_refer_to_itself(text: str) -> None:
    earlier = [EarlierSentence(id="a", text=text, act=Act.SET, turn_id=1)]
    (reading,) = await EmbeddedReader().read([text], earlier)
    assert reading.target == ""
    assert reading.act not in REFERRING_ACTS


@pytest.mark.parametrize(
    "texts",
    [
        ("Meet Bo at the cafe.", "Meet Bo at the café."),
        ("Ship unit-7 today.", "Ship unit-17 today!"),
        ("No.", "No"),
        ("Stop", "Stops"),
        ("会議は3時です。", "会議は4時です。"),
    ],
)
def test_sentences_share_the_n_grams_that_both_texts_contain(texts: tuple[str, str]) -> None:
    first, second = map(analyse_sentence, texts)
    slices = [{*_slices(each.plain, each.gram_length)} for each in (first, second)]
    assert [len(first.grams()), len(second.grams())] == [*map(len, slices)]
    assert len(first.grams() & second.grams()) == len(slices[0] & slices[1])


def _slices(text: str, length: int) -> list[str]:
    return [text[i : i + length] for i in range(max(1, len(text) - length + 1))]


async def test_unknown_and_known_analyses_give_the_same_readings() -> None:
    reader = EmbeddedReader()
    old = "The backup window is 20 minutes."
    (known,) = await reader.read([old], ())
    new = "Correction: the backup window is 45 minutes."
    with_words = EarlierSentence(id="1", text=old, words=known.words)
    without = EarlierSentence(id="1", text=old)
    assert await reader.read([new], [with_words]) == await reader.read([new], [without])
