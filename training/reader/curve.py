"""Learning curve of the classifier: `python -m training.reader.curve [DATA]`.

Classifiers are trained on a part of the writers of a language and measured on those that are never
used for training: accuracy over the seven acts, rules read as rules, and other sentences read as
rules.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from training.reader.dataset import HELD_OUT, Writer, own_examples, read_public, read_writers
from training.reader.fit import fit_classifier

from acc.adapters.memory.reader_weights import ACTS, LanguageWeights
from acc.domain.value_objects.reading import Act

MIN_RULE = 0.75
#: Parts of the writers, in the order of their names.
FRACTIONS = (0.25, 0.5, 0.75, 1.0)
RULES = (Act.SET, Act.CHANGE)


def measure(weights: LanguageWeights, writers: Sequence[Writer]) -> tuple[float, float, float]:
    """Return the accuracy, and the shares of rules and of other sentences read as rules."""
    items = [item for writer in writers for item in writer.items()]
    right = 0
    as_rule: dict[bool, list[bool]] = {True: [], False: []}
    for text, act in items:
        scores = dict(zip(ACTS, weights.scores(text), strict=True))
        right += max(ACTS, key=lambda each: scores[each]) is act
        as_rule[act in RULES].append(sum(scores[rule] for rule in RULES) >= MIN_RULE)
    rules, others = (sum(as_rule[key]) / len(as_rule[key]) for key in (True, False))
    return right / len(items), rules, others


def main(arguments: Sequence[str]) -> None:
    """Print one line for each part of the writers."""
    public = Path(arguments[0]) if arguments else None
    writers = read_writers()
    for language in "ej":
        known = [writer for writer in writers if writer.language == language]
        unseen = read_writers(names=[name for name in HELD_OUT if name.startswith(language)])
        names = ", ".join(writer.name for writer in unseen)
        for fraction in FRACTIONS:
            used = known[: round(fraction * len(known))]
            examples = own_examples(used)
            weights = fit_classifier([*examples, *read_public(public, language)])
            accuracy, rules, others = measure(weights, unseen)
            print(  # noqa: T201
                f"{len(used):2} writers, {len(examples):,} sentences, measured on {names}: accuracy"
                f" {accuracy:.3f}, rules {rules:.3f}, others as rules {others:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
