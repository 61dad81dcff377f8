"""Items to label of a run, and the labels of raters in its directory."""

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from acc.adapters.reports.run_directory import EvaluationDirectory, write_atomically
from acc.adapters.reports.turn_records import AgentRecord, TurnRecord, apply_changes
from acc.domain.errors import InvalidInput
from acc.domain.labels import LabelItem, LabelKind, SampleMethod, draw_sample
from acc.domain.language import is_japanese, sentences, terms
from acc.domain.value_objects.evaluation import (
    UNCLEAR,
    TurnStatus,
)

_FOLDER = "labels"
_SAMPLE = "sample.json"
#: Sentences of earlier queries that a rater sees, those with the most words in common.
_MAX_CONTEXT = 8
#: Letters of any script: raters write their names as they are.
_RATER = re.compile(r"[^\W_][\w-]{0,31}")


class Label(msgspec.Struct, frozen=True):
    """The label of one rater: good is supported or kept; None is a skipped item."""

    id: str
    good: bool | None


class LabelSample(msgspec.Struct, frozen=True):
    """The items of a sample in the order in which raters see them."""

    size: int
    seed: int
    items: tuple[str, ...]
    method: SampleMethod = SampleMethod.STRATIFIED


def label_items(run: EvaluationDirectory) -> list[LabelItem]:
    """Return all claims and all rule checks of the scored turns of a run."""
    items: dict[str, LabelItem] = {}
    for job in run.jobs():
        memory: Mapping[str, Any] = {}
        stated: list[str] = []
        for record in run.lines(job):
            memory = apply_changes(memory, record.canonical_changes)
            own = record.query.replace(record.injected, " ") if record.injected else record.query
            stated += sentences(own)
            for agent in record.agents:
                if agent.status is TurnStatus.SCORED:
                    for item in _turn_items(job.name, record, agent, stated, memory):
                        items.setdefault(item.id, item)
    return list(items.values())


def _turn_items(
    episode: str,
    record: TurnRecord,
    agent: AgentRecord,
    stated: Sequence[str],
    memory: Mapping[str, Any],
) -> list[LabelItem]:
    language = "ja" if is_japanese(record.query) else "en"

    def item(
        kind: LabelKind,
        text: str,
        *,
        good: bool,
        unclear: bool = False,
        score: float | None = None,
    ) -> LabelItem:
        name = "\n".join((episode, str(record.turn), agent.name, kind, text))
        return LabelItem(
            id=hashlib.sha256(name.encode(errors="replace")).hexdigest()[:16],
            kind=kind,
            agent=agent.name,
            language=language,
            query=record.query,
            context=_closest(text, stated) if kind is LabelKind.CLAIM else (),
            text=text,
            answer=agent.answer,
            is_good=good,
            is_unclear=unclear,
            score=score,
        )

    items = [
        item(
            LabelKind.CLAIM,
            claim.claim,
            good=claim.supported,
            unclear=claim.verdict == UNCLEAR,
            score=claim.score,
        )
        for claim in agent.claims
    ]
    broken = {finding.constraint for finding in agent.findings}
    active = [str(entry["text"]) for entry in memory.get("constraints", {}).values()]
    once = [text for text in broken if text not in active]
    items += [item(LabelKind.RULE, text, good=text not in broken) for text in (*active, *once)]
    return items


def _closest(claim: str, stated: Sequence[str]) -> tuple[str, ...]:
    wanted = terms(claim)
    ranked = sorted(
        range(len(stated)), key=lambda place: (-len(wanted & terms(stated[place])), -place)
    )
    return tuple(stated[place] for place in sorted(ranked[:_MAX_CONTEXT]))


def open_sample(
    run: EvaluationDirectory,
    items: Sequence[LabelItem],
    *,
    size: int,
    seed: int,
    method: SampleMethod | None = None,
) -> list[LabelItem]:
    """Return the sample of a run; the first call draws it, and a larger size adds items."""
    path = run.path / _FOLDER / _SAMPLE
    by_id = {item.id: item for item in items}
    try:
        recorded = msgspec.json.decode(path.read_bytes(), type=LabelSample)
    except FileNotFoundError:
        recorded = LabelSample(0, seed, (), method or SampleMethod.STRATIFIED)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{path} is not a sample of `acc label`: {error}") from None
    if method not in (None, recorded.method):
        raise InvalidInput(
            f"{path} was drawn with --sample {recorded.method}, and all raters label the same "
            f"items: omit --sample, or remove the folder {path.parent} to start again"
        )
    sample = [by_id[key] for key in recorded.items if key in by_id]
    if len(sample) >= min(size, len(items)):
        return sample
    drawn = draw_sample(items, size, recorded.seed, recorded.method)
    known = {item.id for item in sample}
    sample += [item for item in drawn if item.id not in known]
    path.parent.mkdir(exist_ok=True)
    chosen = tuple(item.id for item in sample)
    stored = LabelSample(len(sample), recorded.seed, chosen, recorded.method)
    write_atomically(path, msgspec.json.encode(stored) + b"\n")
    return sample


def read_labels(run: EvaluationDirectory) -> dict[str, dict[str, bool | None]]:
    """Return the labels of each rater by item; the last label of an item counts."""
    labels: dict[str, dict[str, bool | None]] = {}
    for path in sorted((run.path / _FOLDER).glob("*.jsonl")):
        # Some file systems return decomposed names.
        own = labels.setdefault(unicodedata.normalize("NFC", path.stem), {})
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                label = msgspec.json.decode(line, type=Label)
            except msgspec.MsgspecError as error:
                raise InvalidInput(f"{path}, line {number} is not a label: {error}") from None
            own[label.id] = label.good
    return labels


def require_labels(run: EvaluationDirectory) -> dict[str, dict[str, bool | None]]:
    """Return the labels of each rater, or raise InvalidInput if there are none."""
    labels = read_labels(run)
    if not labels:
        raise InvalidInput(
            f"{run.path} has no labels; label a sample with `acc label {run.path} --rater NAME`"
        )
    return labels


class LabelSession:
    """The sample of a run for one rater; each label is stored before the next item is shown."""

    def __init__(
        self,
        run: EvaluationDirectory,
        *,
        rater: str,
        size: int,
        seed: int,
        method: SampleMethod | None = None,
        items: Sequence[LabelItem] = (),
    ) -> None:
        rater = unicodedata.normalize("NFC", rater)
        if not _RATER.fullmatch(rater):
            raise InvalidInput(
                "the name of a rater (--rater) must be 1 to 32 letters, digits, hyphens or "
                f"underscores, and begin with a letter or digit, got {rater!r}"
            )
        items = items or label_items(run)
        if not items:
            raise InvalidInput(f"{run.path} has no scored claims or rules to label")
        self.sample = open_sample(run, items, size=size, seed=seed, method=method)
        self._path = run.path / _FOLDER / f"{rater}.jsonl"
        self._done = read_labels(run).get(rater, {})

    def remaining(self) -> Iterator[tuple[int, LabelItem]]:
        """Yield the items without a label, each with its number in the sample."""
        for number, item in enumerate(self.sample, start=1):
            if item.id not in self._done:
                yield number, item

    def labels(self) -> Mapping[str, bool | None]:
        """Return the labels of the rater so far, by item."""
        return self._done

    def record(self, item: LabelItem, good: bool | None) -> None:
        """Store a label; None skips the item. The last label of an item counts."""
        self._done[item.id] = good
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(Label(item.id, good)) + b"\n")
            file.flush()
            os.fsync(file.fileno())


class RunLabelSessions:
    """The samples of all raters of a run; the items are read once."""

    def __init__(
        self,
        run: EvaluationDirectory,
        *,
        size: int,
        seed: int,
        method: SampleMethod | None = None,
    ) -> None:
        self._run = run
        self._size = size
        self._seed = seed
        self._method = method
        self._items = label_items(run)

    def open(self, rater: str) -> LabelSession:
        """Return the sample of a rater with the labels so far."""
        return LabelSession(
            self._run,
            rater=rater,
            size=self._size,
            seed=self._seed,
            method=self._method,
            items=self._items,
        )

    def progress(self) -> Mapping[str, int]:
        """Return the number of labelled items of each rater."""
        return {rater: len(own) for rater, own in read_labels(self._run).items()}
