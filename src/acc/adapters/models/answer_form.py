"""Putting chosen statements into the form that rules ask for."""

import json
import re
from collections.abc import Sequence

from acc.domain.language import contains_text, is_japanese, terms
from acc.domain.rule_checking import breach
from acc.domain.value_objects.rule import NUMBERED, Rule, RuleKind

_NOTHING = {False: "Nothing to report.", True: "特になし。"}


def compose(statements: Sequence[str], rules: Sequence[Rule], *, japanese: bool) -> str:
    """Return an answer of these statements that keeps the rules, fewer of them if it must."""
    by_kind = {rule.kind: rule for rule in rules}
    limits = [rule for rule in rules if rule.kind in NUMBERED]
    kept = [tidy(statement) for statement in statements]
    answer = _lay_out(kept, rules, by_kind, japanese=japanese)
    while len(kept) > 1 and any(breach(rule, answer) for rule in limits):
        kept.pop()
        answer = _lay_out(kept, rules, by_kind, japanese=japanese)
    over = [rule for rule in limits if breach(rule, answer)]
    while over and len(kept[0]) > 12:
        words = kept[0].split()
        kept[0] = kept[0][:-6] if japanese or len(words) < 2 else " ".join(words[:-1])
        answer = _lay_out(kept, rules, by_kind, japanese=japanese)
        over = [rule for rule in over if breach(rule, answer)]
    return answer


def tidy(statement: str) -> str:
    """Return a statement that starts and ends as a sentence does."""
    first = statement.split(" ", 1)[0]
    if first.isascii() and first.isalpha() and first.islower():
        statement = statement[0].upper() + statement[1:]
    if statement[-1:].isalnum() and not is_japanese(statement):
        statement += "."
    return statement


def _lay_out(
    statements: Sequence[str],
    rules: Sequence[Rule],
    by_kind: dict[RuleKind, Rule],
    *,
    japanese: bool,
) -> str:
    if RuleKind.JSON in by_kind:
        return _as_json(statements, by_kind[RuleKind.JSON])
    body = _body(statements, by_kind, japanese=japanese)
    missing = [
        word
        for rule in rules
        if rule.kind is RuleKind.REQUIRE
        for word in rule.words
        if not contains_text(body, word)
    ]
    lines = [body]
    if missing:
        lines += dict.fromkeys(missing)
    if RuleKind.STARTS_WITH in by_kind:
        lines.insert(0, by_kind[RuleKind.STARTS_WITH].words[0])
    if RuleKind.ENDS_WITH in by_kind:
        lines.append(by_kind[RuleKind.ENDS_WITH].words[0])
    return "\n".join(lines)


def _body(statements: Sequence[str], by_kind: dict[RuleKind, Rule], *, japanese: bool) -> str:
    if RuleKind.HEADINGS in by_kind:
        return _under_headings(statements, by_kind[RuleKind.HEADINGS], japanese=japanese)
    if RuleKind.EXACT_BULLETS in by_kind:
        wanted = by_kind[RuleKind.EXACT_BULLETS].number
        listed = list(statements[:wanted])
        listed += [_NOTHING[japanese]] * (wanted - len(listed))
        return "\n".join(f"- {statement}" for statement in listed)
    return ("" if japanese else " ").join(statements)


def _under_headings(statements: Sequence[str], rule: Rule, *, japanese: bool) -> str:
    sections: dict[str, list[str]] = {heading: [] for heading in rule.words}
    for place, statement in enumerate(statements):
        best = max(
            rule.words,
            key=lambda heading: (len(terms(heading) & terms(statement)), not sections[heading]),
        )
        if not terms(best) & terms(statement):
            best = rule.words[min(place, len(rule.words) - 1)]
        sections[best].append(statement)
    gap = "" if japanese else " "
    lines: list[str] = []
    for heading, content in sections.items():
        lines += [heading, gap.join(content) or _NOTHING[japanese]]
    return "\n".join(lines)


def _as_json(statements: Sequence[str], rule: Rule) -> str:
    keys = rule.words or ("answer",)
    values: dict[str, list[str]] = {key: [] for key in keys}
    for place, statement in enumerate(statements):
        named = [key for key in keys if terms(key.replace("_", " ")) & terms(statement)]
        empty = [key for key in named or keys if not values[key]]
        values[(empty or named or keys)[0 if empty or named else min(place, len(keys) - 1)]].append(
            statement
        )
    return json.dumps({key: " ".join(found) for key, found in values.items()}, ensure_ascii=False)


def pieces_of(text: str) -> list[str]:
    """Cut a text into what is shown at a time: words, or a few characters of Japanese."""
    pieces: list[str] = []
    for word in re.findall(r"\s+|\S+\s*", text):
        step = 4 if is_japanese(word) else len(word)
        pieces += [word[start : start + step] for start in range(0, len(word), step)]
    return pieces
