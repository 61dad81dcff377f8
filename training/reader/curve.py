"""Learning curve of the classifier: `python -m training.reader.curve [DATA]`.

Classifiers are trained on the first writers of a language and measured on a writer that was not
used: accuracy over the seven acts, rules read as rules, and other sentences read as rules.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from training.reader.dataset import HELD_OUT, Writer, own_examples, read_public, read_writers
from training.reader.fit import fit_classifier

from acc.adapters.memory.reader_weights import ACTS, LanguageWeights
from acc.domain.value_objects.reading import Act

MIN_RULE = 0.7
RULES = (Act.SET, Act.CHANGE)


def measure(weights: LanguageWeights, writer: Writer) -> tuple[float, float, float]:
    """Return the accuracy, and the shares of rules and of other sentences read as rules."""
    items = writer.items()
    right = 0
    as_rule: dict[bool, list[bool]] = {True: [], False: []}
    for text, act in items:
        scores = dict(zip(ACTS, weights.scores(text), strict=True))
        right += max(ACTS, key=lambda each: scores[each]) is act
        as_rule[act in RULES].append(sum(scores[rule] for rule in RULES) >= MIN_RULE)
    rules, others = (sum(as_rule[key]) / len(as_rule[key]) for key in (True, False))
    return right / len(items), rules, others


def main(arguments: Sequence[str]) -> None:
    """Print one line for each number of writers."""
    public = Path(arguments[0]) if arguments else None
    writers = read_writers()
    for language in "ej":
        known = [writer for writer in writers if writer.language == language]
        names = [name for name in HELD_OUT if name.startswith(language)]
        (unseen,) = read_writers(names=names[:1])
        for count in range(2, len(known) + 1, 2):
            examples = [*own_examples(known[:count]), *read_public(public, language)]
            accuracy, rules, others = measure(fit_classifier(examples), unseen)
            print(  # noqa: T201
                f"{count:2} writers, {unseen.name}: accuracy {accuracy:.2f},"
                f" rules {rules:.2f}, others as rules {others:.3f}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
