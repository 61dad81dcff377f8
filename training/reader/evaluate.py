"""Leave-one-writer-out evaluation of the embedded reader."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from training.reader.dataset import Example, Line, Writer, own_examples
from training.reader.fit import FILLERS, Floats, Situation, fit_classifier, fit_links, situations

from acc.adapters.memory.reader import EmbeddedReader
from acc.adapters.memory.reader_weights import LanguageWeights, ReaderWeights
from acc.domain.value_objects.reading import Act, EarlierSentence, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A sentence of a writer and how a reader read it that was trained without this writer."""

    writer: str
    line: Line
    #: Whether the sentence is part of a dialogue, and not a single one.
    in_dialogue: bool
    reading: Reading
    #: Whether the chosen earlier sentence is the right one.
    right_target: bool


class Classifiers:
    """Trains classifiers of a language once for each set of writers."""

    def __init__(self, writers: Sequence[Writer], public: Sequence[Example]) -> None:
        self._writers = writers
        self._public = public
        self._known: dict[frozenset[str], LanguageWeights] = {}
        self._situations: dict[tuple[frozenset[str], str, bool], list[Situation]] = {}

    def train(self, names: frozenset[str]) -> LanguageWeights:
        """Return a classifier that was trained on these writers."""
        if names not in self._known:
            used = [writer for writer in self._writers if writer.name in names]
            self._known[names] = fit_classifier([*own_examples(used), *self._public])
        return self._known[names]

    def train_links(
        self, names: frozenset[str], vectors: Mapping[str, Floats] | None
    ) -> tuple[float, ...]:
        """Return links that were trained on these writers, each read by the others' classifier."""
        found = [
            situations(writer, self.train(names - {writer.name}).scores, vectors=vectors)
            for writer in self._writers
            if writer.name in names
        ]
        return fit_links(list(chain.from_iterable(found)))


class _Vectors:
    """EmbedderPort with known vectors."""

    def __init__(self, vectors: Mapping[str, Floats]) -> None:
        self._vectors = vectors

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [self._vectors[text].tolist() for text in texts]


async def read_unseen_writer(
    writer: Writer,
    classifiers: Classifiers,
    names: frozenset[str],
    *,
    vectors: Mapping[str, Floats] | None = None,
    fillers: Sequence[int] = FILLERS,
    min_rule: float = 0.5,
    min_reference: float = 0.5,
) -> list[Outcome]:
    """Return the outcomes for a writer, with a reader that was trained on `names`."""
    language = classifiers.train(names)
    links = classifiers.train_links(names, vectors)
    language = replace(language, links=links, links_with_vectors=links)
    reader = EmbeddedReader(
        weights=ReaderWeights(english=language, japanese=language),
        embedder=_Vectors(vectors) if vectors is not None else None,
        min_rule=min_rule,
        min_reference=min_reference,
    )
    in_dialogues = {line for dialogue in writer.dialogues for line in dialogue}
    outcomes: list[Outcome] = []
    for situation in situations(writer, language.scores, fillers=fillers, seed=1):
        earlier = [
            EarlierSentence(id=str(i), text=text, turn_id=turn)
            for i, (text, turn) in enumerate(situation.earlier)
        ]
        (reading,) = await reader.read([situation.line.text], earlier, turn_id=situation.turn)
        outcomes.append(
            Outcome(
                writer=writer.name,
                line=situation.line,
                in_dialogue=situation.line in in_dialogues,
                reading=reading,
                right_target=situation.target is not None
                and reading.target == str(situation.target),
            )
        )
    return outcomes


def is_rule(reading: Reading) -> bool:
    """Return True if a sentence was read as a new standing rule."""
    return reading.act in {Act.SET, Act.CHANGE}
