"""The embedded reader: what a sentence does, and which earlier sentence it refers to.

A linear classifier scores the acts from the words. If earlier sentences are given, a second model
scores every pair of the sentence and an earlier one, and both together decide. Pure Python; the
same input gives the same result on every machine.
"""

import logging
from collections.abc import Sequence
from functools import lru_cache
from math import inf, log
from operator import mul

from acc.adapters.memory.reader_links import FEATURES, PAIR_ACTS, Candidates, analyse_sentence
from acc.adapters.memory.reader_weights import ACTS, ReaderWeights, load_weights, softmax
from acc.domain.errors import AccError, ModelFailed
from acc.domain.language import one_line
from acc.domain.value_objects.reading import REFERRING_ACTS, Act, EarlierSentence, Reading
from acc.ports.outbound.model_ports import EmbedderPort

logger = logging.getLogger("acc.memory")

#: Number of the newest earlier sentences that a new one is compared with.
MAX_EARLIER = 200
#: Below this probability from the words alone, a sentence is not compared with earlier ones.
MIN_REFERENCE = 0.005
_SCORE_DECIMALS = 6
#: Unit of `Reading.words`.
_WORDS_UNIT = 100_000
#: Sentences whose analysis is kept: more than one turn compares.
_MAX_ANALYSED = 128
_SMALL = 1e-6
_PAIRS = tuple(Act(name) for name in PAIR_ACTS)
_PLAIN = tuple(act for act in ACTS if act not in REFERRING_ACTS)
_MAX_NOTE_LENGTH = 300


class EmbeddedReader:
    """Implements ReaderPort with trained weights.

    `embedder` adds the similarity of sentence vectors to the choice of the earlier sentence. If it
    fails, words alone decide and the readings have a note. `min_rule` and `min_reference` are the
    probabilities from which on a sentence is read as a standing rule and as a reference.
    """

    def __init__(
        self,
        *,
        embedder: EmbedderPort | None = None,
        weights: ReaderWeights | None = None,
        min_rule: float = 0.75,
        min_reference: float = 0.4,
    ) -> None:
        self._weights = weights or load_weights()
        self._embedder = embedder
        self._min_rule = min_rule
        self._min_reference = min_reference
        # A reader belongs to one memory, so other sessions do not displace its sentences.
        self._scores = lru_cache(maxsize=_MAX_ANALYSED)(self._word_scores)
        self._analyse = lru_cache(maxsize=_MAX_ANALYSED)(analyse_sentence)

    async def read(
        self,
        sentences: Sequence[str],
        earlier: Sequence[EarlierSentence],
        *,
        dialogue: Sequence[str] = (),
        turn_id: int | None = None,
    ) -> tuple[Reading, ...]:
        """Return what each sentence does; `dialogue` is not used."""
        known = earlier[-MAX_EARLIER:]
        turn = max((old.turn_id for old in known), default=0) + 1 if turn_id is None else turn_id
        referring = [
            text for text in sentences if known and self._reference_score(text) >= MIN_REFERENCE
        ]
        vectors, note = await self._vectors(referring, known)
        candidates: Candidates | None = None
        if referring:
            rows = [(old.text, old.turn_id, self._earlier_scores(old)) for old in known]
            candidates = Candidates(rows, self._analyse)
        return tuple(
            self._reading(text, known, candidates, turn, vectors, note) for text in sentences
        )

    def _word_scores(self, text: str) -> tuple[float, ...]:
        return self._weights.of(text).scores(text)

    def _earlier_scores(self, sentence: EarlierSentence) -> Sequence[float]:
        words: Sequence[int] = sentence.words
        if len(words) != len(ACTS):
            words = _rounded(self._scores(sentence.text))
        return [score / _WORDS_UNIT for score in words]

    def score(self, text: str) -> dict[Act, float]:
        """Return the probability of each act from the words of a sentence alone."""
        return dict(zip(ACTS, self._scores(text), strict=True))

    def _reference_score(self, text: str) -> float:
        scores = self._scores(text)
        return sum(scores[ACTS.index(act)] for act in _PAIRS)

    async def _vectors(
        self, sentences: Sequence[str], earlier: Sequence[EarlierSentence]
    ) -> tuple[dict[str, Sequence[float]], str]:
        """Return the vectors of all texts, and why there are none."""
        if self._embedder is None or not sentences:
            return {}, ""
        texts = list(dict.fromkeys([*sentences, *(old.text for old in earlier)]))
        try:
            return await _embed(self._embedder, texts), ""
        except AccError as error:
            logger.warning("the embedder failed, so references are chosen by words only: %s", error)
            return {}, f"references were chosen by words only: {error}"

    def _reading(
        self,
        text: str,
        earlier: Sequence[EarlierSentence],
        candidates: Candidates | None,
        turn: int,
        vectors: dict[str, Sequence[float]],
        note: str,
    ) -> Reading:
        scores, links = self._decide(text, earlier, candidates, turn, vectors)
        act = self._act(scores)
        target, target_score = "", 0.0
        if act in REFERRING_ACTS:
            best = max(range(len(links)), key=lambda i: (links[i], i))
            target, target_score = earlier[best].id, round(links[best], _SCORE_DECIMALS)
        rounded = {name: round(value, _SCORE_DECIMALS) for name, value in scores.items()}
        return Reading(
            text=text,
            act=act,
            confidence=rounded[act],
            scores=rounded,
            end=len(text),
            target=target,
            target_score=target_score,
            note=note,
            words=_rounded(self._scores(text)),
        )

    def _decide(
        self,
        text: str,
        earlier: Sequence[EarlierSentence],
        candidates: Candidates | None,
        turn: int,
        vectors: dict[str, Sequence[float]],
    ) -> tuple[dict[Act, float], list[float]]:
        """Return the probability of each act and of each earlier sentence as its target."""
        words, weights = self._scores(text), self._weights.of(text)
        if candidates is None or self._reference_score(text) < MIN_REFERENCE:
            return _without_references(words, weights.links), []
        cosines = [_dot(vectors[text], vectors[old.text]) for old in earlier] if vectors else []
        rows = candidates.features(text, turn, cosines)
        parameters = weights.links_with_vectors if vectors else weights.links
        plain, pairs = joint_scores(words, rows, parameters)
        for pair, old in zip(pairs, earlier, strict=True):
            if old.text == text:  # a sentence that is said again does not refer to itself
                pair[:] = [-inf] * len(pair)
        chances = softmax([*plain, *(score for pair in pairs for score in pair)])
        scores = dict(zip(_PLAIN, chances, strict=False))
        rest = chances[len(_PLAIN) :]
        for i, act in enumerate(_PAIRS):
            scores[act] = sum(rest[i :: len(_PAIRS)])
        size = len(_PAIRS)
        return scores, [sum(rest[i : i + size]) for i in range(0, len(rest), size)]

    def _act(self, scores: dict[Act, float]) -> Act:
        """Return the most probable act that reaches its threshold."""
        if sum(scores[act] for act in _PAIRS) >= max(self._min_reference, _SMALL):
            return max(_PAIRS, key=lambda act: scores[act])
        # A rule that may replace an earlier one is a rule in both cases.
        if scores[Act.SET] + scores[Act.CHANGE] >= self._min_rule:
            return Act.SET
        return max(_PLAIN[1:], key=lambda act: scores[act])


def _rounded(scores: Sequence[float]) -> tuple[int, ...]:
    """Return scores as `Reading.words`, so that known and unknown ones have the same effect."""
    return tuple([round(score * _WORDS_UNIT) for score in scores])


async def _embed(embedder: EmbedderPort, texts: Sequence[str]) -> dict[str, Sequence[float]]:
    try:
        vectors = dict(zip(texts, await embedder.embed(texts), strict=True))
        sizes = {len(vector) for vector in vectors.values()}
    except AccError:
        raise
    # The embedder is user code: its failure must not fail the turn.
    except Exception as error:
        message = one_line(f"{type(error).__name__}: {error}")[:_MAX_NOTE_LENGTH]
        raise ModelFailed(message) from error
    if len(sizes) != 1:
        raise ModelFailed(f"the embedder returned vectors of {len(sizes)} sizes; expected one")
    return vectors


def _without_references(words: Sequence[float], parameters: Sequence[float]) -> dict[Act, float]:
    """Return the probabilities of a sentence that cannot refer to an earlier one."""
    plain, _ = joint_scores(words, (), parameters)
    scores = dict(zip(_PLAIN, softmax(plain), strict=True))
    return {act: scores.get(act, 0.0) for act in ACTS}


def joint_scores(
    words: Sequence[float], rows: Sequence[Sequence[float]], parameters: Sequence[float]
) -> tuple[list[float], list[list[float]]]:
    """Return the scores of the acts without reference, and of each pair and referring act.

    `parameters` are a factor and an offset for each act, the weights of the features of a pair for
    each referring act, and for each of these the factor of the chance that there is a reference.
    """
    count, width = len(ACTS), len(FEATURES)
    logs = [log(max(word, _SMALL)) for word in words]
    own = [parameters[i] * logs[i] + parameters[count + i] for i in range(count)]
    plain = [own[ACTS.index(act)] for act in _PLAIN]
    any_reference = log(max(sum(words[ACTS.index(act)] for act in _PAIRS), _SMALL))
    pairs = []
    first = 2 * count
    last = first + len(_PAIRS) * width
    offsets = [
        own[ACTS.index(act)] + parameters[last + i] * any_reference for i, act in enumerate(_PAIRS)
    ]
    weights = [parameters[first + i * width : first + (i + 1) * width] for i in range(len(_PAIRS))]
    for row in rows:
        pairs.append(
            [
                offset + sum(map(mul, weight, row))
                for offset, weight in zip(offsets, weights, strict=True)
            ]
        )
    return plain, pairs


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return float(sum(a * b for a, b in zip(left, right, strict=True)))
