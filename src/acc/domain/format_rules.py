"""Parse rules and questions for the judge and the embedded model; check answers against rules.

ACC memory does not use these parsers: its reader is trained.
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache

from acc.domain import format_rule_patterns as patterns
from acc.domain.language import (
    MAX_SENTENCE_LENGTH,
    contains_text,
    identifiers,
    normalize_text,
    one_line,
    sentences,
    terms,
)
from acc.domain.value_objects.format_rule import TEXT_KINDS, FormatRule, RuleKind

_CACHE_SIZE = 2_048


@dataclass(frozen=True, slots=True)
class StatedRule:
    """A rule that a sentence states; `once` is True if it applies to one answer only."""

    rule: FormatRule
    text: str
    once: bool


@lru_cache(maxsize=_CACHE_SIZE)
def read_rule(sentence: str) -> StatedRule | None:
    """Return the rule that a sentence states, or None."""
    sentence = one_line(sentence[:MAX_SENTENCE_LENGTH])
    if patterns.ASKS_ABOUT.search(sentence) or patterns.HEARSAY.search(sentence):
        return None
    rule = _form_rule(sentence)
    if rule is None:
        # A question may mention a rule without setting it; "could you always …?" sets one.
        asks = patterns.QUESTION.search(sentence) and not patterns.POLITE.match(sentence)
        if asks or not patterns.DIRECTIVE.search(sentence):
            return None
        rule = FormatRule(kind=RuleKind.POLICY)
    return StatedRule(rule=rule, text=sentence, once=_is_once(sentence))


def _is_once(sentence: str) -> bool:
    if patterns.LASTING.search(sentence):
        return False
    if patterns.ONCE.search(sentence):
        return True
    # "Summarise X in three bullets" is about this answer; "answer in three bullets" is not.
    asks = is_question(sentence) and not patterns.EVERY.search(sentence)
    only_form = terms(
        patterns.QUOTED.sub(" ", sentence)
    ) <= _FORM_WORDS and not patterns.QUESTION.search(sentence)
    return asks and not only_form


_FORM_WORDS = terms(
    "answer answers reply respond write give in one two three four five word words sentence"
    " sentences bullet bullets json only short please use format always 1 2 3 4 5"
    " object objects key keys field fields nothing"
    " 敬語 簡潔 答 回答 英語 日本 本語 税込 表記 金額 返信"
)


@lru_cache(maxsize=_CACHE_SIZE)
def _form_rule(sentence: str) -> FormatRule | None:
    if patterns.DESCRIPTION.search(sentence) and not (
        patterns.EVERY.search(sentence) or patterns.ONCE.search(sentence)
    ):
        return _secret_rule(sentence)
    for kind, pattern in patterns.COUNTED:
        match = pattern.search(sentence)
        if match is not None:
            return _counted_rule(kind, sentence, match)
    if patterns.JSON.search(sentence) and not patterns.NO_JSON.search(sentence):
        keys = patterns.JSON_KEYS.search(sentence)
        named = _keys(keys[1]) if keys else _quotations(sentence)
        return FormatRule(kind=RuleKind.JSON, words=named)
    quoted = _quotations(sentence)
    found = _quoted_rule(sentence, quoted) if quoted else None
    return found or _secret_rule(sentence) or _code_rule(sentence)


def _counted_rule(kind: RuleKind, sentence: str, match: re.Match[str]) -> FormatRule | None:
    lead = sentence[: match.start()]
    if patterns.NEGATED.search(lead) or lead.casefold().endswith(("no ", "not ")):
        return None
    if patterns.NEGATED_JAPANESE.search(sentence) and "超えない" not in match[0]:
        return None
    found = next(group for group in match.groups() if group).casefold()
    number = patterns.COUNT_WORDS.get(found) or int(found)
    exclusive = re.search(r"under|fewer than|less than|below|未満", match[0], re.I)
    return FormatRule(kind=kind, number=max(1, number - 1 if exclusive else number))


def _secret_rule(sentence: str) -> FormatRule | None:
    if not patterns.SECRET.search(sentence):
        return None
    return FormatRule(kind=RuleKind.REFUSE, words=(_secret(sentence),))


def _code_rule(sentence: str) -> FormatRule | None:
    """Return the rule that every answer must or must not contain an identifier."""
    if not (patterns.EVERY.search(sentence) and patterns.REQUIRE.search(sentence)):
        return None
    named = re.findall(r"[A-Za-z]+-[\w-]*\d\w*", sentence, re.A)
    codes = tuple(code for code in named if code.casefold() in identifiers(sentence))
    if not codes:
        return None
    denied = patterns.NEGATED.search(sentence) or patterns.NEGATED_JAPANESE.search(sentence)
    return FormatRule(kind=RuleKind.REFUSE if denied else RuleKind.REQUIRE, words=codes)


def _quoted_rule(sentence: str, quoted: tuple[str, ...]) -> FormatRule | None:
    quotation = patterns.QUOTED.search(sentence)
    lead = sentence[: quotation.start()] if quotation else ""
    denied = patterns.NEGATED.search(lead) or patterns.NEGATED_JAPANESE.search(sentence)
    if patterns.HEADING.search(sentence):
        return None if denied else FormatRule(kind=RuleKind.HEADINGS, words=quoted)
    if patterns.FORBID.search(sentence):
        # 'Never say "hacker"; we say "intruder"': the second word replaces the first.
        replacing = {word for text in patterns.REPLACEMENT.findall(sentence) for word in text}
        forbidden = tuple(word for word in quoted if word not in replacing)
        return FormatRule(kind=RuleKind.FORBID, words=forbidden) if forbidden else None
    if denied:
        about = patterns.REQUIRE.search(sentence) and patterns.EVERY.search(sentence)
        return FormatRule(kind=RuleKind.FORBID, words=quoted) if about else None
    if patterns.ENDING.search(sentence):
        return FormatRule(kind=RuleKind.ENDS_WITH, words=quoted[-1:])
    if patterns.OPENING.search(sentence):
        return FormatRule(kind=RuleKind.STARTS_WITH, words=quoted[:1])
    if patterns.REQUIRE.search(sentence) and (
        patterns.EVERY.search(sentence) or patterns.ONCE.search(sentence)
    ):
        return FormatRule(kind=RuleKind.REQUIRE, words=quoted)
    return None


def _quotations(text: str) -> tuple[str, ...]:
    found = (next(filter(None, groups)) for groups in patterns.QUOTED.findall(text))
    return tuple(words for words in found if words.strip())


def _keys(text: str) -> tuple[str, ...]:
    if quoted := _quotations(text):
        return quoted
    listed = re.match(
        r"\W*(?:are|as|:|が|は|を)?\W*((?:[a-z][a-z0-9_]*(?:\s+and\s+|[\s,、・と]+)?)+)", text
    )
    words = re.findall(r"[a-z][a-z0-9_]*", listed[1]) if listed else []
    return tuple(word for word in words if word not in patterns.KEY_NOISE)


def _secret(sentence: str) -> str:
    match = (
        patterns.SECRET_TAIL.match(sentence.rstrip(". "))
        or patterns.SECRET_SUBJECT.match(sentence)
        or patterns.SECRET_TOPIC_JAPANESE.match(sentence)
    )
    return one_line(match[1]) if match and match[1].strip() else one_line(sentence)


@lru_cache(maxsize=_CACHE_SIZE)
def is_revocation(sentence: str) -> bool:
    """Return True if a sentence revokes a rule rather than only mentioning it."""
    sentence = sentence[:MAX_SENTENCE_LENGTH]
    if patterns.QUESTION.search(sentence) and not patterns.POLITE.match(sentence):
        return False
    return patterns.REVOCATION.search(sentence) is not None and not patterns.NOT_REVOKED.search(
        sentence
    )


@lru_cache(maxsize=_CACHE_SIZE)
def revokes(sentence: str, rule_text: str) -> bool:
    """Return True if a revocation applies to the rule stated by `rule_text`."""
    sentence = sentence[:MAX_SENTENCE_LENGTH]
    if patterns.ALL_RULES.search(sentence):
        return True
    named = (*_quotations(sentence), *re.findall(r"\b[A-Za-z]+-\d[A-Za-z0-9]*", sentence))
    if named and not all(contains_text(rule_text, name) for name in named):
        return False
    read = read_rule(rule_text)
    if named and read is not None and read.rule.kind in TEXT_KINDS:
        return True
    if read is not None and any(
        kind is read.rule.kind and hint.search(sentence) for kind, hint in patterns.KIND_HINTS
    ):
        return True
    wanted = terms(sentence) - _REVOCATION_WORDS
    return bool(wanted) and len(wanted & terms(rule_text)) * 2 >= len(wanted)


_REVOCATION_WORDS = terms(
    """
    lift lifted drop dropped remove removed cancel cancelled withdraw withdrawn retire retired
    forget scrap waive waived revoke revoked stop end ended rescinded rule rules limit constraint
    requirement restriction cap ban longer applies apply needed required need holds force
    necessary skip leave omit anymore allowed again more answer answers reply replies today now
    解除 撤回 廃止 不要 終了 規則 制限 制約 指定 必要 適用 回答 許可 構
    """
)


@lru_cache(maxsize=_CACHE_SIZE)
def is_question(sentence: str) -> bool:
    """Return True if a sentence asks for an answer.

    In Japanese one polite ending serves requests and rules. It marks a rule if the sentence is
    about the form of answers, forbids something, or is meant to last.
    """
    if patterns.QUESTION.search(sentence[-MAX_SENTENCE_LENGTH:]):
        return True
    sentence = sentence[:MAX_SENTENCE_LENGTH]
    if patterns.REQUEST.match(sentence):
        return True
    return patterns.POLITE_JAPANESE.search(sentence) is not None and not (
        patterns.NEGATIVE_JAPANESE.search(sentence)
        or patterns.REMEMBER_JAPANESE.search(sentence)
        or patterns.EVERY.search(sentence)
        or _is_about_form(sentence)
    )


def _is_about_form(sentence: str) -> bool:
    # "Summarise the impact in three bullets" asks; "three bullets at most, please" only limits.
    return _form_rule(sentence) is not None and not patterns.CONTENT_JAPANESE.search(sentence)


#: Rules that an answer violates by omitting something.
OMISSION_KINDS = frozenset(
    {RuleKind.ENDS_WITH, RuleKind.STARTS_WITH, RuleKind.HEADINGS, RuleKind.JSON, RuleKind.REQUIRE}
)
_WORD = re.compile(r"[^\W_]+(?:(?:['’.:/@_-]|(?<=\d),(?=\d))[^\W_]+)*")
_BULLET = re.compile(r"^[^\S\n]*(?:(?:[-*•・]|\d{1,2}[.)])[^\S\n]+|[•・])\S", re.M)


def count_words(text: str) -> int:
    """Return the number of words of a text."""
    return len(_WORD.findall(text))


def count_bullets(text: str) -> int:
    """Return the number of bulleted lines of a text."""
    return len(_BULLET.findall(text))


def count_characters(text: str) -> int:
    """Return the number of characters of a text without white space."""
    return len("".join(normalize_text(text).split()))


_COUNTED = {
    RuleKind.MAX_WORDS: (count_words, "words"),
    RuleKind.MAX_CHARACTERS: (count_characters, "characters"),
    RuleKind.MAX_SENTENCES: (lambda text: len(sentences(text)), "sentences"),
    RuleKind.MAX_BULLETS: (count_bullets, "bullets"),
    RuleKind.EXACT_BULLETS: (count_bullets, "bullets"),
}


@lru_cache(maxsize=4_096)
def violation(rule: FormatRule, answer: str) -> str:
    """Return how `answer` violates `rule`, or an empty string."""
    counted = _COUNTED.get(rule.kind)
    if counted is not None:
        count, unit = counted[0](answer), counted[1]
        if rule.kind is RuleKind.EXACT_BULLETS:
            return "" if count == rule.number else f"{count} {unit}, not {rule.number}"
        return "" if count <= rule.number else f"{count} {unit}, the limit is {rule.number}"
    return _text_violation(rule, answer)


def _text_violation(rule: FormatRule, answer: str) -> str:
    lines = [
        line.strip() for line in normalize_text(answer).strip().splitlines() if line.strip()
    ] or [""]
    if rule.kind is RuleKind.ENDS_WITH:
        ok = _bare(lines[-1]).endswith(_bare(rule.words[0]))
        return "" if ok else f"does not end with {rule.words[0]!r}"
    if rule.kind is RuleKind.STARTS_WITH:
        ok = _bare(lines[0]).startswith(_bare(rule.words[0]))
        return "" if ok else f"does not start with {rule.words[0]!r}"
    if rule.kind is RuleKind.HEADINGS:
        found = {_bare(line.strip("#*【】 ")) for line in lines}
        missing = [word for word in rule.words if _bare(word) not in found]
        return f"lacks the heading {', '.join(map(repr, missing))}" if missing else ""
    if rule.kind is RuleKind.JSON:
        return _json_violation(rule, answer)
    if rule.kind is RuleKind.REQUIRE:
        missing = [word for word in rule.words if not contains_text(answer, word)]
        return f"lacks {', '.join(map(repr, missing))}" if missing else ""
    found_words = [word for word in rule.words if _contains_word(answer, word)]
    return f"contains {', '.join(map(repr, found_words))}" if found_words else ""


def _contains_word(answer: str, word: str) -> bool:
    is_noun = word.isascii() and word.isalpha()
    return contains_text(answer, word) or (is_noun and contains_text(answer, f"{word}s"))


def _bare(text: str) -> str:
    """Return a text without case, quotes, emphasis and final punctuation, unless it has no more."""
    plain = normalize_text(text).casefold()
    return plain.rstrip(".。:： \"'”’」』*_`").lstrip("\"'“‘「『 *_`") or plain


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _json_violation(rule: FormatRule, answer: str) -> str:
    try:
        value = json.loads(answer, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return "is not valid JSON"
    if not isinstance(value, dict):
        return "is not a JSON object"
    missing = [key for key in rule.words if key not in value]
    return f"lacks the key {', '.join(map(repr, missing))}" if missing else ""
