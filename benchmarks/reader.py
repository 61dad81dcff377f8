"""Measure the embedded reader on writers that were not used for training.

Rules: share of rules that are read as rules, and of other sentences that are read as rules. Links:
share of lifts, changes and corrections that are recognised, and whose earlier sentence is found.
Intervals are 95 % (Wilson). Small talk: share of sentences of real conversations that are read as
rules; it needs the folder with public data. Run: python benchmarks/reader.py [DATA]
"""

import asyncio
import json
import math
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from training.reader.dataset import chitchat, small_talk

from acc.adapters.memory.reader import EmbeddedReader
from acc.domain.value_objects.reading import REFERRING_ACTS, Act, EarlierSentence

DATA = Path(__file__).parents[1] / "training" / "reader" / "data"
WRITERS = {
    "e12": "English",
    "e15": "English",
    "e17": "English",
    "e21": "English",
    "e24": "English",
    "j12": "Japanese",
    "j13": "Japanese",
    "j15": "Japanese",
    "j16": "Japanese",
    "j17": "Japanese",
}
SMALL_TALK = 5_000
RULES = (Act.SET, Act.CHANGE)


def share(count: int, total: int) -> str:
    """Return a share with its interval."""
    p, z = count / total, 1.96
    middle = (p + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return f"{p:.2f} [{max(middle - half, 0):.2f}, {min(middle + half, 1):.2f}]"


async def measure_rules(reader: EmbeddedReader, writer: str) -> None:
    found: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for line in (DATA / writer / "sentences.tsv").read_text(encoding="utf-8").splitlines():
        label, text = line.split("\t", 1)
        (reading,) = await reader.read([text], ())
        total[label] += 1
        found[label] += reading.act in RULES
    print(f"  rules read as rules       {share(found['set'], total['set'])}")
    for label in ("once", "state", "other"):
        print(f"  {label + ' read as a rule':26}{share(found[label], total[label])}")


async def measure_links(reader: EmbeddedReader, writer: str) -> None:
    total: Counter[str] = Counter()
    read: Counter[str] = Counter()
    linked: Counter[str] = Counter()
    false_alarms = others = 0
    for line in (DATA / writer / "dialogues.jsonl").read_text(encoding="utf-8").splitlines():
        dialogue = json.loads(line)
        targets = {(a, b): f"{c}.{d}" for a, b, c, d in dialogue["refs"]}
        earlier: list[EarlierSentence] = []
        for turn, (sentences, labels) in enumerate(
            zip(dialogue["turns"], dialogue["labels"], strict=True)
        ):
            readings = await reader.read(sentences, earlier)
            for number, (label, reading) in enumerate(zip(labels, readings, strict=True)):
                is_reference = reading.act in REFERRING_ACTS
                if label in [act.value for act in REFERRING_ACTS]:
                    total[label] += 1
                    read[label] += reading.act.value == label
                    linked[label] += is_reference and reading.target == targets.get((turn, number))
                else:
                    others += 1
                    false_alarms += is_reference
            earlier += [
                EarlierSentence(
                    id=f"{turn}.{number}",
                    text=reading.text,
                    act=reading.act,
                    turn_id=turn + 1,
                    confidence=reading.confidence,
                )
                for number, reading in enumerate(readings)
            ]
    for label in total:
        print(f"  {label + ' recognised':26}{share(read[label], total[label])}")
        print(f"  {label + ' linked correctly':26}{share(linked[label], total[label])}")
    print(f"  false references          {share(false_alarms, others)}")


async def measure_small_talk(reader: EmbeddedReader, folder: Path) -> None:
    """Print the share for conversations whose other half, or other files, were used in training."""
    files = ["test_freq.json", "test_rare.json"]
    for name, texts in (
        ("Topical-Chat, test files", small_talk(folder, files)),
        ("chitchat dataset, unused conversations", chitchat(folder, first=1)),
    ):
        readings = [(await reader.read([text], ()))[0] for text in texts[:SMALL_TALK]]
        rules = sum(reading.act in RULES for reading in readings)
        print(f"{name}: {rules} of {len(readings)} sentences read as rules")


async def main() -> None:
    reader = EmbeddedReader()
    if len(sys.argv) > 1:
        await measure_small_talk(reader, Path(sys.argv[1]))
    for writer, language in WRITERS.items():
        print(f"{language}, held-out writer {writer}:")
        await measure_rules(reader, writer)
        await measure_links(reader, writer)


if __name__ == "__main__":
    asyncio.run(main())
