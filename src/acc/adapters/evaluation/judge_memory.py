"""The canonical memory of a model judge: facts and constraints with quotes of the queries."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from acc.adapters.evaluation.findings import rule_data, rule_of
from acc.adapters.evaluation.judge_prompts import (
    MAX_ENTRIES,
    MAX_TEXT_LENGTH,
    ConstraintEntry,
    FactEntry,
    MemoryUpdate,
    quotable_texts,
)
from acc.domain.format_rules import read_rule
from acc.domain.language import contains_text, identifiers, is_japanese, is_negated, numbers, terms
from acc.domain.value_objects.format_rule import EXCLUSIVE_KINDS, FormatRule, RuleKind
from acc.domain.value_objects.live_evaluation import EvaluationTurnQuery

#: Rules that code checks without the model.
_CODE_KINDS = EXCLUSIVE_KINDS | {RuleKind.FORBID, RuleKind.REQUIRE}
#: Letters and digits that a quote must have at least.
_MIN_QUOTE_LENGTH = 8
_MIN_JAPANESE_QUOTE_LENGTH = 3
_MAX_LISTED_ERRORS = 4
#: A judge writes "the user" where the query has "I".
_USER_TERMS = terms("user user's ユーザー 利用者")


def is_quoted(quote: str, texts: Sequence[str]) -> bool:
    """Return True if a quote is long enough and occurs in one of the texts."""
    bare = quote.strip(" \t\n\"'“”‘’「」『』…")
    letters = sum(character.isalnum() for character in bare)
    minimum = _MIN_JAPANESE_QUOTE_LENGTH if is_japanese(bare) else _MIN_QUOTE_LENGTH
    if letters < minimum and not any(character.isdigit() for character in bare):
        return any(bare and bare.casefold() == text.strip(" .。").casefold() for text in texts)
    return any(contains_text(text, bare) for text in texts)


def join_errors(errors: Sequence[str]) -> str:
    """Return the first errors as one text, or an empty text."""
    more = len(errors) - _MAX_LISTED_ERRORS
    return "; ".join(errors[:_MAX_LISTED_ERRORS]) + (f"; and {more} more" if more > 0 else "")


class QuotedCanonicalMemory:
    """Active facts and constraints, superseded ones, and queries that were not read yet."""

    def __init__(self, memory: Mapping[str, object]) -> None:
        self.data: dict[str, Any] = {
            name: dict(value) if isinstance(value := memory.get(name), Mapping) else {}
            for name in ("facts", "superseded", "constraints", "unread")
        }
        #: Constraints that apply to the answer of this turn only.
        self.once: dict[str, str] = {}
        #: Rules that code checks, and those of the scenario, by the id of their constraint.
        self._rules = {
            name: rule
            for name, entry in self.data["constraints"].items()
            if (rule := _rule_of_entry(entry)) is not None
        }

    def unread(self) -> list[tuple[str, str]]:
        """Return the earlier queries that could not be read, with their turns."""
        return [(turn, str(text)) for turn, text in self.data["unread"].items()]

    def add_unread(self, query: EvaluationTurnQuery) -> None:
        """Store a query that could not be read, so that a later turn reads it."""
        self.data["unread"][str(query.turn_id)] = query.query

    def update_error(self, update: MemoryUpdate, query: EvaluationTurnQuery) -> str:
        """Return why an update is invalid, or an empty text."""
        texts = quotable_texts([*(text for _, text in self.unread()), query.query])
        entries: list[FactEntry | ConstraintEntry] = [*update.facts, *update.constraints]
        if len(entries) > MAX_ENTRIES:
            return f"more than {MAX_ENTRIES} entries"
        errors = [
            f"the quote {entry.quote[:80]!r} does not occur in the query"
            for entry in entries
            if not is_quoted(entry.quote, texts)
        ]
        errors += [
            "an entry's text is empty or too long"
            for entry in entries
            if not entry.text.strip() or len(entry.text) > MAX_TEXT_LENGTH
        ]
        errors += [
            f"there is no fact {name[:20]!r}"
            for name in update.superseded
            if name not in self.data["facts"]
        ]
        errors += [
            f"there is no constraint {name[:20]!r}"
            for name in update.lifted
            if name not in self.data["constraints"]
        ]
        return join_errors(errors)

    def apply(self, update: MemoryUpdate, query: EvaluationTurnQuery) -> None:
        """Apply a valid update."""
        turn = query.turn_id
        for section, ended in (("facts", update.superseded), ("constraints", update.lifted)):
            for name in dict.fromkeys(ended):
                self.data["superseded"][name] = {**self.data[section].pop(name), "until": turn}
        for number, fact in enumerate(update.facts, start=1):
            self.data["facts"][f"F{turn}.{number}"] = {
                "text": fact.text,
                "quote": fact.quote,
                "turn": turn,
            }
        for number, rule in enumerate(update.constraints, start=1):
            name = f"C{turn}.{number}"
            entry = {"text": rule.text, "quote": rule.quote, "turn": turn}
            if rule.once:
                self.once[name] = rule.text
            else:
                self.data["constraints"][name] = entry
            read = _rule_of_entry(entry)
            if read is not None:
                self._rules[name] = read
        for name in update.lifted:
            self._rules.pop(name, None)
        self.data["unread"].clear()

    def add_fact(self, text: str, quote: str, turn: int, key: str = "") -> None:
        """Add an annotated fact; `key` is its id in the scenario."""
        self._add("facts", {"text": text, "quote": quote, "turn": turn, "key": key})

    def add_rule(
        self, text: str, rule: FormatRule, turn: int, key: str = "", *, once: bool = False
    ) -> None:
        """Add an annotated rule, for the answer of this turn only if `once` is true."""
        if once:
            name = self._free_name("constraints", turn)
            self.once[name] = text
        else:
            entry = {"text": text, "quote": text, "turn": turn, "key": key}
            name = self._add("constraints", {**entry, "rule": rule_data(rule)})
        self._rules[name] = rule

    def _add(self, section: str, entry: Mapping[str, Any]) -> str:
        name = self._free_name(section, entry["turn"])
        self.data[section][name] = dict(entry)
        return name

    def _free_name(self, section: str, turn: int) -> str:
        used = self.data[section].keys() | self.data["superseded"].keys() | self.once.keys()
        names = (f"{section[0].upper()}{turn}.{number}" for number in count(1))
        return next(name for name in names if name not in used)

    def end(self, section: str, key: str, turn: int) -> None:
        """End an annotated fact or rule."""
        for name, entry in list(self.data[section].items()):
            if entry.get("key") == key:
                self.data["superseded"][name] = {**self.data[section].pop(name), "until": turn}
                self._rules.pop(name, None)

    def rules(self) -> Mapping[str, FormatRule]:
        """Return the constraints that code can check, by id."""
        return self._rules

    def is_left_to_code(self, name: str) -> bool:
        """Return True if the model does not judge a constraint."""
        return name in self._rules and self._rules[name].kind in _CODE_KINDS

    def turn_of(self, name: str) -> int:
        """Return the turn that set a constraint, 0 for one that is not stored."""
        return int(self.data["constraints"].get(name, {}).get("turn", 0))

    def constraints(self) -> dict[str, str]:
        """Return the constraints that apply to this turn, by id."""
        lasting = {name: str(entry["text"]) for name, entry in self.data["constraints"].items()}
        return lasting | self.once

    def active_texts(self) -> list[str]:
        """Return every text that can support a claim, except the query.

        Quotes always can. A text of the judge can only if it adds nothing to the quotes.
        """
        entries = [*self.data["facts"].values(), *self.data["constraints"].values()]
        quotes = [str(entry["quote"]) for entry in entries]
        known = frozenset[str]().union(*map(terms, quotes))
        return [*quotes, *(str(entry["text"]) for entry in entries if _is_backed(entry, known))]

    def superseded_texts(self) -> list[str]:
        """Return the texts and quotes of superseded entries."""
        entries = self.data["superseded"].values()
        return [str(entry[part]) for entry in entries for part in ("text", "quote")]

    def _with_checker(self, line: str) -> str:
        name = line.partition(":")[0].partition(" ")[0]
        return f"{line} (checked by code)" if self.is_left_to_code(name) else line

    def render(self) -> str:
        """Return the memory as text for a model."""
        backed = frozenset(self.active_texts())
        lines = ["Facts:", *_list_entries(self.data["facts"], backed)]
        constraints = _list_entries(self.data["constraints"], backed)
        constraints += [
            f"{name} (for this answer only): {text}" for name, text in self.once.items()
        ]
        lines += ["Constraints:", *map(self._with_checker, constraints)]
        return "\n".join([*lines, "Superseded:", *_list_entries(self.data["superseded"])])


def _rule_of_entry(entry: Mapping[str, Any]) -> FormatRule | None:
    """Return the rule of a scenario, or the rule of form that a quote states."""
    if "rule" in entry:
        return rule_of(entry["rule"])
    read = read_rule(str(entry["quote"]))
    return read.rule if read is not None and read.rule.kind in EXCLUSIVE_KINDS else None


def _list_entries(
    entries: Mapping[str, Mapping[str, Any]], backed: frozenset[str] | None = None
) -> list[str]:
    return [
        f"{name}: {entry['text']}"
        if backed is None or entry["text"] in backed
        else f"{name}: {entry['text']} (said as: {entry['quote']})"
        for name, entry in entries.items()
    ] or ["(none)"]


def _is_backed(entry: Mapping[str, Any], known: frozenset[str]) -> bool:
    """Return True if a text adds no term, number or negation to the quotes."""
    text, quote = str(entry["text"]), str(entry["quote"])
    if is_negated(text) != is_negated(quote) or not _exact_values(text) <= _exact_values(quote):
        return False
    return terms(text) - _USER_TERMS <= known


def _exact_values(text: str) -> frozenset[str]:
    return frozenset(numbers(text) | identifiers(text))
