"""Whether an answer keeps a rule, and in what words it does not."""

import json
import re
from functools import lru_cache

from acc.domain.language import clean, contains_text, sentences
from acc.domain.value_objects.rule import Rule, RuleKind

#: Broken by leaving something out, rather than by doing something.
OMISSIONS = frozenset(
    {RuleKind.ENDS_WITH, RuleKind.STARTS_WITH, RuleKind.HEADINGS, RuleKind.JSON, RuleKind.REQUIRE}
)
_WORD = re.compile(r"[^\W_]+(?:(?:['’.:/@_-]|(?<=\d),(?=\d))[^\W_]+)*")
_BULLET = re.compile(r"^[^\S\n]*(?:[-*•・]|\d{1,2}[.)])[^\S\n]+\S", re.M)


def count_words(text: str) -> int:
    """Return the words of a text."""
    return len(_WORD.findall(text))


def count_bullets(text: str) -> int:
    """Return the bulleted lines of a text."""
    return len(_BULLET.findall(text))


def count_characters(text: str) -> int:
    """Return the characters of a text, spaces and line ends left out."""
    return len("".join(clean(text).split()))


_COUNTED = {
    RuleKind.MAX_WORDS: (count_words, "words"),
    RuleKind.MAX_CHARACTERS: (count_characters, "characters"),
    RuleKind.MAX_SENTENCES: (lambda text: len(sentences(text)), "sentences"),
    RuleKind.MAX_BULLETS: (count_bullets, "bullets"),
    RuleKind.EXACT_BULLETS: (count_bullets, "bullets"),
}


@lru_cache(maxsize=4_096)
def breach(rule: Rule, answer: str) -> str:
    """Return how `answer` breaks `rule`, or nothing."""
    counted = _COUNTED.get(rule.kind)
    if counted is not None:
        count, unit = counted[0](answer), counted[1]
        if rule.kind is RuleKind.EXACT_BULLETS:
            return "" if count == rule.number else f"{count} {unit}, not {rule.number}"
        return "" if count <= rule.number else f"{count} {unit}, the limit is {rule.number}"
    return _worded_breach(rule, answer)


def _worded_breach(rule: Rule, answer: str) -> str:
    lines = [line.strip() for line in clean(answer).strip().splitlines() if line.strip()] or [""]
    if rule.kind is RuleKind.ENDS_WITH:
        kept = _bare(lines[-1]).endswith(_bare(rule.words[0]))
        return "" if kept else f"does not end with {rule.words[0]!r}"
    if rule.kind is RuleKind.STARTS_WITH:
        kept = _bare(lines[0]).startswith(_bare(rule.words[0]))
        return "" if kept else f"does not start with {rule.words[0]!r}"
    if rule.kind is RuleKind.HEADINGS:
        found = {_bare(line.strip("#*【】 ")) for line in lines}
        missing = [word for word in rule.words if _bare(word) not in found]
        return f"lacks the heading {', '.join(map(repr, missing))}" if missing else ""
    if rule.kind is RuleKind.JSON:
        return _json_breach(rule, answer)
    if rule.kind is RuleKind.REQUIRE:
        missing = [word for word in rule.words if not contains_text(answer, word)]
        return f"lacks {', '.join(map(repr, missing))}" if missing else ""
    found_words = [word for word in rule.words if contains_text(answer, word)]
    return f"contains {', '.join(map(repr, found_words))}" if found_words else ""


def _bare(text: str) -> str:
    return clean(text).casefold().rstrip(".。:： \"'”’」』").lstrip("\"'“‘「『 ")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _json_breach(rule: Rule, answer: str) -> str:
    try:
        value = json.loads(answer, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return "is not valid JSON"
    if not isinstance(value, dict):
        return "is not a JSON object"
    missing = [key for key in rule.words if key not in value]
    return f"lacks the key {', '.join(map(repr, missing))}" if missing else ""
