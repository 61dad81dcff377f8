"""Measure a language model as reader next to the embedded reader, on held-out dialogues.

For each language, sentences are drawn from the dialogues of a writer that was not used for
training: rules, lifts, changes, corrections, and sentences that are none of these. Every sentence
is read with the earlier sentences of its dialogue, by the embedded reader, by the model alone, and
by the model reader as it is shipped: the model decides, and checks in code can refuse its decision.

- rule: read as `set` or `change`
- lift, change, correction: read as such, with the right earlier sentence
- no rule: other sentences that are read as `set`, `change` or `lift` by mistake

Answers of the model are stored in a file, so that an interrupted run continues, and so that a new
embedded reader can be measured with the same answers. Run: python benchmarks/model_reader.py MODEL
ANSWERS.json [--writers e15,j13] [--sentences 60]
"""

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from acc.adapters.memory.model_reader import ModelReader
from acc.adapters.memory.reader import EmbeddedReader
from acc.bootstrap.models import make_model
from acc.domain.value_objects.content import Usage
from acc.domain.value_objects.reading import EarlierSentence
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest, ModelResponse

DATA = Path(__file__).parents[1] / "training" / "reader" / "data"
#: Share of each label among the sentences.
LABELS = {"set": 0.2, "lift": 0.2, "change": 0.2, "correct": 0.2, "state": 0.1, "other": 0.1}
RULES = ("set", "change", "lift")
TIMEOUT_SECONDS = 1_800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A sentence of a dialogue with its label and what it refers to."""

    text: str
    label: str
    target: str
    earlier: tuple[EarlierSentence, ...]


class RecordedModel:
    """Returns stored answers; asks the model for others and stores them."""

    def __init__(self, model: LanguageModelPort, path: Path) -> None:
        self._model = model
        self._path = path
        self.answers: dict[str, str] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        self.calls = 0
        self.seconds = 0.0
        self.tokens = 0
        self.last = ""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        texts = [prompt.instruction, *(message.text for message in prompt.messages)]
        key = sha256("\n".join(texts).encode()).hexdigest()
        if key not in self.answers:
            started = time.perf_counter()
            response = await self._model.complete(prompt)
            self.calls += 1
            self.seconds += time.perf_counter() - started
            self.tokens += response.usage.output_tokens
            self.answers[key] = response.text
            self._path.write_text(json.dumps(self.answers, indent=1), "utf-8")
        self.last = self.answers[key]
        return ModelResponse(text=self.last, usage=Usage())


def read_cases(writer: str) -> list[Case]:
    """Return the sentences of the dialogues of a writer."""
    cases = []
    for line in (DATA / writer / "dialogues.jsonl").read_text("utf-8").splitlines():
        dialogue = json.loads(line)
        targets = {(a, b): f"{c}.{d}" for a, b, c, d in dialogue["refs"]}
        earlier: list[EarlierSentence] = []
        for turn, texts in enumerate(dialogue["turns"]):
            for number, text in enumerate(texts):
                label = dialogue["labels"][turn][number]
                target = targets.get((turn, number), "")
                cases.append(Case(text=text, label=label, target=target, earlier=tuple(earlier)))
            earlier += [
                EarlierSentence(id=f"{turn}.{number}", text=text, turn_id=turn + 1)
                for number, text in enumerate(texts)
            ]
    return cases


def draw_cases(writer: str, count: int) -> list[Case]:
    """Return the sentences of a writer that are measured, always the same ones."""
    draw = random.Random(writer)  # noqa: S311 - not for security
    cases = read_cases(writer)
    found: list[Case] = []
    for label, share in LABELS.items():
        of_label = [case for case in cases if case.label == label and case.earlier]
        draw.shuffle(of_label)  # a smaller number of sentences is a part of a larger one
        found += of_label[: round(count * share)]
    return found


def is_right(case: Case, act: str, target: str) -> bool:
    """Return True if a sentence was read correctly; if it is no rule, if it was read as one."""
    if case.label == "set":
        return act in ("set", "change")
    if case.label in ("state", "other"):
        return act in RULES
    return act == case.label and target == case.target


def decision(answer: str, case: Case) -> tuple[str, str]:
    """Return the act and the target in an answer of the model, before the checks."""
    try:
        item = next(item for item in json.loads(answer)["readings"] if item["n"] == 1)
    except (ValueError, LookupError, TypeError, StopIteration):
        return "other", ""
    known = {f"e{n}": old.id for n, old in enumerate(case.earlier, start=1)}
    return str(item.get("act")), known.get(str(item.get("ref")), "")


async def measure(writer: str, model: RecordedModel, count: int) -> dict[str, Counter[str]]:
    """Return the number of right readings by reader and label."""
    embedded = EmbeddedReader()
    reader = ModelReader(model, embedded, timeout=TIMEOUT_SECONDS)
    found: dict[str, Counter[str]] = {"embedded": Counter(), "model": Counter(), "both": Counter()}
    found["total"] = Counter()
    for number, case in enumerate(draw_cases(writer, count), start=1):
        label = "no rule" if case.label in ("state", "other") else case.label
        (plain,) = await embedded.read([case.text], case.earlier)
        (both,) = await reader.read([case.text], case.earlier)
        found["total"][label] += 1
        found["embedded"][label] += is_right(case, plain.act.value, plain.target)
        found["model"][label] += is_right(case, *decision(model.last, case))
        found["both"][label] += is_right(case, both.act.value, both.target)
        found["total"]["fallbacks"] += bool(reader.drain_usage()[1])
        print(f"  {number}: {case.label}, {model.seconds:.0f} s", flush=True)
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help='for example "local:/path/to/model.gguf"')
    parser.add_argument("answers", type=Path, help="file for the answers of the model")
    parser.add_argument("--writers", default="e15,j13")
    parser.add_argument("--sentences", type=int, default=60, help="sentences of a writer (60)")
    options = parser.parse_args()
    source = make_model(options.model)
    model = RecordedModel(source, options.answers)
    try:
        for writer in options.writers.split(","):
            print(f"writer {writer}:", flush=True)
            found = await measure(writer, model, options.sentences)
            total = found.pop("total")
            print(f"  fallbacks {total.pop('fallbacks')} of {total.total()}")
            for label, count in total.items():
                shares = (f"{name} {counts[label] / count:.2f}" for name, counts in found.items())
                print(f"  {label:9} ({count}): {', '.join(shares)}")
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()
    if model.calls:
        print(
            f"{model.calls} calls, {model.seconds / model.calls:.1f} s and "
            f"{model.tokens / model.calls:.0f} tokens each"
        )


if __name__ == "__main__":
    asyncio.run(main())
