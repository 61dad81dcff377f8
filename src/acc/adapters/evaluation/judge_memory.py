"""The canonical memory of a model judge: what the queries established, each with its quote."""

from collections.abc import Mapping, Sequence
from typing import Any

from acc.adapters.evaluation.judge_prompts import (
    LONGEST_TEXT,
    MOST_ENTRIES,
    Demanded,
    MemoryUpdate,
    Stated,
    readings,
)
from acc.domain.language import contains_text, identifiers, is_japanese, is_negated, numbers, terms
from acc.domain.value_objects.live_evaluation import EvaluationTurnQuery

_LEAST_QUOTE = 8
_LEAST_JAPANESE_QUOTE = 3
_SHOWN_FAULTS = 4
#: Who said "I" is called so in what a judge notes.
_SPEAKER = terms("user user's ユーザー 利用者")


def occurs(quote: str, texts: Sequence[str]) -> bool:
    """Tell whether a quote stands in one of the texts, and is long enough to mean anything."""
    bare = quote.strip(" \t\n\"'“”‘’「」『』…")
    letters = sum(mark.isalnum() for mark in bare)
    least = _LEAST_JAPANESE_QUOTE if is_japanese(bare) else _LEAST_QUOTE
    if letters < least and not any(mark.isdigit() for mark in bare):
        return any(bare and bare.casefold() == text.strip(" .。").casefold() for text in texts)
    return any(contains_text(text, bare) for text in texts)


def told(faults: Sequence[str]) -> str:
    """Return the first few faults as one text, empty where there are none."""
    more = len(faults) - _SHOWN_FAULTS
    return "; ".join(faults[:_SHOWN_FAULTS]) + (f"; and {more} more" if more > 0 else "")


class QuotedMemory:
    """Facts and constraints in force, what was superseded, and queries not read yet."""

    def __init__(self, memory: Mapping[str, object]) -> None:
        self.data: dict[str, Any] = {
            name: dict(value) if isinstance(value := memory.get(name), Mapping) else {}
            for name in ("facts", "superseded", "constraints", "unread")
        }
        #: Rules for this turn's answer only.
        self.once: dict[str, str] = {}

    def unread(self) -> list[tuple[str, str]]:
        """Return the queries that could not be read when they came, with their turns."""
        return [(turn, str(text)) for turn, text in self.data["unread"].items()]

    def leave_unread(self, query: EvaluationTurnQuery) -> None:
        """Keep a query that could not be read, so that a later turn reads it."""
        self.data["unread"][str(query.turn_id)] = query.query

    def fault_of(self, update: MemoryUpdate, query: EvaluationTurnQuery) -> str:
        """Return why an update cannot be taken, empty if it can."""
        texts = readings([*(text for _, text in self.unread()), query.query])
        entries: list[Stated | Demanded] = [*update.facts, *update.constraints]
        if len(entries) > MOST_ENTRIES:
            return f"more than {MOST_ENTRIES} entries"
        faults = [
            f"the quote {entry.quote[:80]!r} does not occur in the query"
            for entry in entries
            if not occurs(entry.quote, texts)
        ]
        faults += [
            "an entry's text is empty or too long"
            for entry in entries
            if not entry.text.strip() or len(entry.text) > LONGEST_TEXT
        ]
        faults += [
            f"there is no fact {name[:20]!r}"
            for name in update.superseded
            if name not in self.data["facts"]
        ]
        faults += [
            f"there is no constraint {name[:20]!r}"
            for name in update.lifted
            if name not in self.data["constraints"]
        ]
        return told(faults)

    def take(self, update: MemoryUpdate, query: EvaluationTurnQuery) -> None:
        """Apply an update that has no fault."""
        turn = query.turn_id
        for section, ended in (("facts", update.superseded), ("constraints", update.lifted)):
            for name in dict.fromkeys(ended):
                self.data["superseded"][name] = {**self.data[section].pop(name), "until": turn}
        for place, fact in enumerate(update.facts, start=1):
            self.data["facts"][f"F{turn}.{place}"] = {
                "text": fact.text,
                "quote": fact.quote,
                "turn": turn,
            }
        for place, rule in enumerate(update.constraints, start=1):
            if rule.once:
                self.once[f"C{turn}.{place}"] = rule.text
            else:
                self.data["constraints"][f"C{turn}.{place}"] = {
                    "text": rule.text,
                    "quote": rule.quote,
                    "turn": turn,
                }
        self.data["unread"].clear()

    def rules(self) -> dict[str, str]:
        """Return the constraints that an answer to this turn is held to, by id."""
        lasting = {name: str(entry["text"]) for name, entry in self.data["constraints"].items()}
        return lasting | self.once

    def holding(self) -> list[str]:
        """Return every text that can support a claim, the query aside.

        What the judge put in words of its own supports nothing; what was said there does.
        """
        entries = [*self.data["facts"].values(), *self.data["constraints"].values()]
        quotes = [str(entry["quote"]) for entry in entries]
        said = frozenset[str]().union(*map(terms, quotes))
        return [*quotes, *(str(entry["text"]) for entry in entries if _is_backed(entry, said))]

    def fallen(self) -> list[str]:
        """Return the texts of what was superseded."""
        entries = self.data["superseded"].values()
        return [str(entry[part]) for entry in entries for part in ("text", "quote")]

    def shown(self) -> str:
        """Return the memory as a model reads it."""
        backed = frozenset(self.holding())
        lines = ["Facts:", *_listed(self.data["facts"], backed)]
        lines += ["Constraints:", *_listed(self.data["constraints"], backed)]
        lines += [f"{name} (for this answer only): {text}" for name, text in self.once.items()]
        return "\n".join([*lines, "Superseded:", *_listed(self.data["superseded"])])


def _listed(
    entries: Mapping[str, Mapping[str, Any]], backed: frozenset[str] | None = None
) -> list[str]:
    return [
        f"{name}: {entry['text']}"
        if backed is None or entry["text"] in backed
        else f"{name}: {entry['text']} (said as: {entry['quote']})"
        for name, entry in entries.items()
    ] or ["(none)"]


def _is_backed(entry: Mapping[str, Any], said: frozenset[str]) -> bool:
    """Tell whether a text has only words that were said, and its quote's numbers and denials."""
    text, quote = str(entry["text"]), str(entry["quote"])
    if is_negated(text) != is_negated(quote) or not _exact(text) <= _exact(quote):
        return False
    return terms(text) - _SPEAKER <= said


def _exact(text: str) -> frozenset[str]:
    return frozenset(numbers(text) | identifiers(text))
