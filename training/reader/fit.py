"""Fit the classifier and the linking model of the embedded reader."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from training.reader.dataset import Example, Line, Writer, act_mask

from acc.adapters.memory.reader_links import FEATURES, PAIR_ACTS, Candidates
from acc.adapters.memory.reader_weights import ACTS, ROWS, LanguageWeights, features
from acc.domain.value_objects.reading import REFERRING_ACTS, Act

#: Inverse of the strength of the L2 penalty of the classifier.
INVERSE_PENALTY = 8.0
#: A feature is used if it occurs in this number of sentences.
MIN_SENTENCES = 2
ITERATIONS = 200
LINK_PENALTY = 3.0
#: Sentences of the writer that are put before a dialogue, as other turns of a conversation.
FILLERS = (0, 0, 10, 40)
#: Sentences of real conversations that follow a dialogue, and their acts.
CHAT = 2
CHAT_ACTS = frozenset({Act.OTHER, Act.STATE})
_PLAIN = [i for i, act in enumerate(ACTS) if act.value not in PAIR_ACTS]
_PAIRS = [ACTS.index(Act(name)) for name in PAIR_ACTS]
# The parameters of `joint_scores`: factors, offsets, weights of pairs, factors of references.
_COUNT = len(ACTS)
_FIRST = 2 * _COUNT
_LAST = _FIRST + len(_PAIRS) * len(FEATURES)
_PRIOR = np.concatenate([np.ones(_COUNT), np.zeros(_LAST + len(_PAIRS) - _COUNT)])
_SMALL = 1e-6
_SHUFFLED_LENGTH = 12

Floats = NDArray[np.float64]
Scorer = Callable[[str], Sequence[float]]


def fit_classifier(examples: Sequence[Example]) -> LanguageWeights:
    """Return the weights of a language without links."""
    hashed = [np.fromiter(features(example.text), dtype=np.int64) for example in examples]
    lengths = np.array([len(found) for found in hashed])
    _, numbers, counts = np.unique(np.concatenate(hashed), return_inverse=True, return_counts=True)
    used = counts[numbers] >= MIN_SENTENCES
    owners = np.repeat(np.arange(len(examples)), lengths)[used]
    columns, compact = np.unique(np.concatenate(hashed)[used] % ROWS, return_inverse=True)
    # Single precision is enough for weights of one byte, and twice as fast.
    values = (lengths**-0.5).astype(np.float32)[owners]
    matrix = csr_matrix((values, (owners, compact)), shape=(len(examples), len(columns)))
    matrix.sum_duplicates()
    allowed = np.array([act_mask(example.acts) for example in examples])
    weights = np.array([example.weight for example in examples])
    table, bias = _fit_softmax(matrix, allowed, weights)
    scale = float(np.abs(table).max()) / 127.0
    full = np.full((ROWS, len(ACTS)), 128, dtype=np.uint8)
    full[columns] = (np.rint(table / scale) + 128).astype(np.uint8)
    return LanguageWeights(
        columns=tuple(full[:, i].tobytes() for i in range(len(ACTS))),
        scale=float(f"{scale:.6g}"),
        bias=tuple(round(float(value), 4) for value in bias),
        links=(),
        links_with_vectors=(),
    )


def _fit_softmax(matrix: csr_matrix, allowed: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Maximise the probability of the allowed acts."""
    count = allowed.shape[1]
    transposed = matrix.T.tocsr()

    def loss(flat: Floats) -> tuple[float, Floats]:
        table, bias = flat[:-count].reshape(-1, count), flat[-count:]
        scores = (matrix @ table.astype(np.float32)).astype(np.float64) + bias
        scores -= scores.max(axis=1, keepdims=True)
        chance = np.exp(scores)
        chance /= chance.sum(axis=1, keepdims=True)
        right = chance * allowed
        total = right.sum(axis=1, keepdims=True) + 1e-12
        value = -(weights * np.log(total[:, 0])).sum() + 0.5 / INVERSE_PENALTY * (table**2).sum()
        slope = (chance - right / total) * weights[:, None]
        gradient = transposed @ slope.astype(np.float32) + table / INVERSE_PENALTY
        return float(value), np.concatenate([gradient.ravel(), slope.sum(axis=0)])

    start = np.zeros((matrix.shape[1] + 1) * count)
    options = {"maxiter": ITERATIONS, "maxcor": 6}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return found[:-count].reshape(-1, count), found[-count:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A sentence of a dialogue with the features of its pairs with earlier sentences."""

    writer: str
    line: Line
    #: Acts that the label allows.
    acts: frozenset[Act]
    words: tuple[float, ...]
    turn: int
    #: Texts and turns of the earlier sentences.
    earlier: tuple[tuple[str, int], ...]
    pairs: list[list[float]]
    #: Index of the earlier sentence that it refers to.
    target: int | None


def situations(
    writer: Writer,
    score: Scorer,
    *,
    vectors: Mapping[str, Floats] | None = None,
    fillers: Sequence[int] = FILLERS,
    seed: int = 0,
    chat: Sequence[str] = (),
) -> list[Situation]:
    """Return the writer's sentences, each after earlier ones.

    A dialogue follows a number of other sentences, drawn from `fillers`. The single sentences are
    dialogues without references. Sentences of `chat` follow a dialogue: they set no rule and refer
    to nothing.
    """
    random = Random(seed)  # noqa: S311 not for security
    known = {text: tuple(score(text)) for text in (*(t for t, _ in writer.items()), *chat)}
    plain = [text for text, _ in writer.sentences]
    result: list[Situation] = []
    for dialogue in (*writer.dialogues, *_shuffled(writer, random)):
        count = random.choice(list(fillers))
        earlier = [(random.choice(plain), turn) for turn in range(count)]
        last = dialogue[-1].turn
        talk = random.sample(list(chat), CHAT) if chat else []
        added = [Line(text=t, act=Act.OTHER, turn=last + n) for n, t in enumerate(talk, start=1)]
        for line in (*dialogue, *added):
            cosines: list[float] = []
            if vectors is not None and earlier:
                new = vectors[line.text]
                cosines = [float((new * vectors[old]).sum()) for old, _ in earlier]
            candidates = Candidates([(old, turn, known[old]) for old, turn in earlier])
            rows = candidates.features(line.text, count + line.turn, cosines)
            result.append(
                Situation(
                    writer=writer.name,
                    line=line,
                    acts=CHAT_ACTS if line in added else frozenset({line.act}),
                    words=known[line.text],
                    turn=count + line.turn,
                    earlier=tuple(earlier),
                    pairs=rows,
                    target=None if line.target is None else count + line.target,
                )
            )
            earlier.append((line.text, count + line.turn))
    return result


def _shuffled(writer: Writer, random: Random) -> list[tuple[Line, ...]]:
    """Return the single sentences of a writer as conversations without references."""
    items = list(writer.sentences)
    random.shuffle(items)
    return [
        tuple(
            Line(text=text, act=act, turn=turn)
            for turn, (text, act) in enumerate(items[start : start + _SHUFFLED_LENGTH])
        )
        for start in range(0, len(items), _SHUFFLED_LENGTH)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """Situations as arrays; a row of `pairs` belongs to the situation in `owner`."""

    words: Floats
    reference: Floats
    owner: NDArray[np.int64]
    pairs: Floats
    plain_right: Floats
    pair_right: Floats

    def by_owner(self, values: Floats) -> Floats:
        """Return the sum of the values of the pairs of each situation."""
        return np.bincount(self.owner, values, minlength=len(self.words)).astype(np.float64)

    def chances(self, flat: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of the acts without reference, and of the pairs."""
        own = self.words * flat[:_COUNT] + flat[_COUNT:_FIRST]
        weight = flat[_FIRST:_LAST].reshape(len(_PAIRS), len(FEATURES))
        offset = own[:, _PAIRS] + self.reference[:, None] * flat[_LAST:]
        scores = self.pairs @ weight.T + offset[self.owner]
        plain = own[:, _PLAIN]
        highest = plain.max(axis=1)
        np.maximum.at(highest, self.owner, scores.max(axis=1))
        plain = np.exp(plain - highest[:, None])
        pair = np.exp(scores - highest[self.owner][:, None])
        total = plain.sum(axis=1) + self.by_owner(pair.sum(axis=1))
        return plain / total[:, None], pair / total[self.owner][:, None]

    def loss(self, flat: Floats) -> tuple[float, Floats]:
        """Return the penalised negative log likelihood and its gradient."""
        plain, pair = self.chances(flat)
        plain_part, pair_part = plain * self.plain_right, pair * self.pair_right
        right = plain_part.sum(axis=1) + self.by_owner(pair_part.sum(axis=1)) + 1e-12
        change = flat - _PRIOR
        value = -np.log(right).sum() + 0.5 * LINK_PENALTY * (change**2).sum()
        plain -= plain_part / right[:, None]
        pair -= pair_part / right[self.owner][:, None]
        sums = np.stack([self.by_owner(column) for column in pair.T], axis=1)
        slope = np.zeros_like(self.words)
        slope[:, _PLAIN] = plain
        slope[:, _PAIRS] = sums
        gradient = LINK_PENALTY * change
        gradient[:_COUNT] += (slope * self.words).sum(axis=0)
        gradient[_COUNT:_FIRST] += slope.sum(axis=0)
        gradient[_FIRST:_LAST] += (pair.T @ self.pairs).ravel()
        gradient[_LAST:] += (sums * self.reference[:, None]).sum(axis=0)
        return float(value), gradient


def fit_links(found: Sequence[Situation]) -> tuple[float, ...]:
    """Return the parameters of `joint_scores` that explain the labels best.

    A reference to something that is not in the text has no right answer, so it is not used.
    """
    found = [each for each in found if each.target is not None or not each.acts <= REFERRING_ACTS]
    sizes = [len(situation.pairs) for situation in found]
    starts = np.cumsum([0, *sizes])
    pair_right = np.zeros((starts[-1], len(_PAIRS)))
    for start, situation in zip(starts, found, strict=False):
        if situation.target is not None:
            act = ACTS.index(situation.line.act)
            pair_right[start + situation.target, _PAIRS.index(act)] = 1.0
    words = np.log(np.maximum(np.array([situation.words for situation in found]), _SMALL))
    problem = _Problem(
        words=words,
        reference=np.log(np.maximum(np.exp(words[:, _PAIRS]).sum(axis=1), _SMALL)),
        owner=np.repeat(np.arange(len(found)), sizes),
        pairs=np.array([row for situation in found for row in situation.pairs]),
        plain_right=np.array(
            [[float(ACTS[i] in situation.acts) for i in _PLAIN] for situation in found]
        ),
        pair_right=pair_right,
    )
    options = {"maxiter": 300}
    best = minimize(problem.loss, _PRIOR, jac=True, method="L-BFGS-B", options=options).x
    return tuple(round(float(value), 4) for value in best)
