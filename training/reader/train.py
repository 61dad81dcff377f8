"""Train the embedded reader: `make reader DATA=DIR`.

The weights depend on the writers' data, the public data below DIR and the code only.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

# Before numpy is loaded: sums of several threads have no fixed order.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

from training.reader.dataset import (
    Example,
    Writer,
    own_examples,
    read_public,
    read_writers,
    unused_chat,
)
from training.reader.fit import fit_classifier, fit_links, situations

from acc.adapters.memory.reader_weights import (
    LanguageWeights,
    ReaderWeights,
    encode_weights,
)

#: Parts of the writers that are read by classifiers of the other parts.
FOLDS = 4
OUTPUT = Path(__file__).parents[2] / "src" / "acc" / "adapters" / "memory" / "reader.bin"


def train_language(
    writers: Sequence[Writer], public: Sequence[Example], chat: Sequence[str] = ()
) -> LanguageWeights:
    """Return the weights of a language from its writers.

    The linking model is trained on scores of classifiers that did not see the writer. `chat` are
    sentences of conversations that are not among the public ones.
    """
    found = []
    for first in range(FOLDS):
        unseen = writers[first::FOLDS]
        others = [writer for writer in writers if writer not in unseen]
        classifier = fit_classifier([*own_examples(others), *public])
        for writer in unseen:
            found += situations(writer, classifier.scores, chat=chat)
    links = fit_links(found)
    classifier = fit_classifier([*own_examples(writers), *public])
    return replace(classifier, links=links, links_with_vectors=links)


def main(arguments: Sequence[str]) -> None:
    """Write the weights file."""
    public = Path(arguments[0]) if arguments else None
    writers = read_writers()
    english, japanese = (
        train_language(
            [writer for writer in writers if writer.language == language],
            read_public(public, language),
            unused_chat(public, language),
        )
        for language in "ej"
    )
    content = encode_weights(ReaderWeights(english=english, japanese=japanese))
    OUTPUT.write_bytes(content)
    print(f"{OUTPUT.name}: {len(content):,} bytes, SHA-256 {sha256(content).hexdigest()}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
