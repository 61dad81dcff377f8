"""Parse sentences into subject and value; decide which statement supersedes which."""

import re
from dataclasses import dataclass
from functools import lru_cache

from acc.domain.language import MAX_SENTENCE_LENGTH, is_negated, numbers, one_line, terms, values

_COPULA = re.compile(
    r"\b(?:is|are|was|were|remains?|stays?|becomes?|became|equals?|stands? at|sits? at|will be"
    r"|has been|have been)\b|\s=\s"
)
_VERB = re.compile(
    r"\b(has|have|had|runs?|uses?|needs?|costs?|takes?|holds?|owns?|leads?|handles?|starts?"
    r"|ends?|begins?|opens?"
    r"|closes?|allows?|requires?|expires?|covers?|reached|reaches|peaked|covers?|reports?"
    r"|serves?|lasts?|affects?|leaves|departs|arrives)\b"
)
_CHANGE_WORDS = (
    r"(?:chang|mov|rais|lower|extend|cut|reduc|increas|set|updat|revis|reassign|switch|push"
    r"|brought|bring|shorten"
    r"|correct|reschedul|postpon|bump|adjust|trimm|drop)\w*"
)
_CHANGED = re.compile(
    rf"\b{_CHANGE_WORDS}\s+(?P<subject>(?:the|our|its"
    rf"|their)\s+.+?)\s+(?:from\s+.+?\s+)?to\s+(?P<value>.+)$",
    re.I,
)
_BECAME = re.compile(
    rf"^(?P<subject>.+?)\s+(?:(?:has|have|was|were|is|are|will be|has been"
    rf"|have been)\s+)?(?:now\s+|been\s+)?"
    rf"(?:{_CHANGE_WORDS}|goes|went|rises|rose|drops|fell|falls|slips|slipped|climbed"
    rf"|comes)\s+(?:up\s+|down\s+|out\s+|back\s+)?"
    r"(?:from\s+.+?\s+)?to\s+(?P<value>.+)$",
    re.I,
)
_TAKES_OVER = re.compile(
    r"^(?P<value>.+?)\s+(?:(?:now\s+)?replaces\s+.+?\s+as|takes over as|steps in as"
    r"|is now)\s+(?P<subject>the\s+.+)$",
    re.I,
)
_UPDATE = re.compile(
    r"\b(?:now|instead|no longer|correction|corrected|actually|updated?|revised?|changed?|moved?"
    r"|as of|replaces?|replaced"
    r"|raised|lowered|extended|reduced|increased|rescheduled|postponed|takes over|anymore"
    r"|confirmed|(?:the|our|my|his|her|their) (?:new|latest))\b"
    r"|変更|訂正|更新|改め|に(?:なり|変わ)|修正|今後は|繰り上げ|繰り下げ|延長|短縮|引き上げ"
    r"|引き下げ|差し替え|ではなく|交代|後任|確定|判明|新しい|今日から|本日から|延期|前倒し",
    re.I,
)
_CHANGED_JAPANESE = re.compile(
    r"^(?P<subject>.+?)を(?:.+?から)?(?P<value>.+?)(?:に|へ)(?:変更|延長|短縮|修正|訂正|更新"
    r"|引き上げ|引き下げ|設定|切り替え|差し替え|移|交代|改め|繰り)"
)
_TOPIC_JAPANESE = re.compile(r"^(?P<subject>[^「]{1,60}?)(?:は|が)(?:、)?(?P<value>.+)$")
_LEAD = re.compile(
    r"^(?:(?:correction|update|note|for the record|fyi|heads-up|also|and|but|so|as of [^,]+"
    r"|today|訂正|更新|補足|なお|また)[:,、：]?\s+)+",
    re.I,
)
_PREFACE = re.compile(
    r"^(?:with|by|under|for|from|in|on|at|as|after|since|following|per|now that|effective|so"
    r"|while|once|when|because)\b.*(?<!\bof )(?<!\bfor )(?<!\bin )(?<!\bon )(?<!\bby )"
    r"(?=\b(?:the|our|its|their)\s)",
    re.I,
)
_LAST_CLAUSE = re.compile(
    r"^.*,\s+(?:so\s+|and\s+|but\s+|therefore\s+|then\s+)?(?=(?:the|our|its|their)\s)", re.I
)
_PLAIN_NOUN_JAPANESE = re.compile(r"^[^をがにでとは、\d]{1,12}(?:です|だ)$")
_ARTICLE = re.compile(r"^(?:the|our|a|an|its|their|your)\s", re.I)


@dataclass(frozen=True, slots=True)
class Frame:
    """A parsed sentence; an `exact` value is a number, name or identifier."""

    subject: frozenset[str]
    predicate: frozenset[str]
    value: frozenset[str]
    exact: bool
    measured: bool
    update: bool
    negated: bool


@lru_cache(maxsize=4_096)
def frame(sentence: str) -> Frame | None:
    """Return the subject and value of a sentence, or None if it has none."""
    if len(sentence) > MAX_SENTENCE_LENGTH:
        return None
    sentence = one_line(sentence)
    update = _UPDATE.search(sentence) is not None
    text = _LEAD.sub("", sentence).rstrip(".!。 ")
    for pattern in (_CHANGED_JAPANESE, _TAKES_OVER, _CHANGED, _BECAME):
        match = pattern.search(text)
        if match is not None:
            return _build(match["subject"], "", match["value"], update=True, text=text)
    match = _COPULA.search(text)
    if match is not None:
        left, right = text[: match.start()], text[match.end() :].strip()
        if _is_value(left) and _ARTICLE.match(right):
            left, right = right, left
        return _build(left, "", right, update=update, text=text)
    match = _VERB.search(text)
    if match is not None:
        left, right = text[: match.start()], text[match.end() :]
        return _build(left, match[0], right, update=update, text=text)
    match = _TOPIC_JAPANESE.match(text)
    if match is not None:
        return _build(
            match["subject"], "", match["value"].split("から")[-1], update=update, text=text
        )
    return None


def _is_value(text: str) -> bool:
    # A leading name such as "Mara Lindqvist" is a value only if it is the whole text.
    return bool(text.strip()) and terms(text) <= frozenset(
        term for value in values(f". {text}") | values(text) for term in terms(value)
    )


def _build(left: str, verb: str, right: str, *, update: bool, text: str) -> Frame | None:
    left = _PREFACE.sub("", _LAST_CLAUSE.sub("", left))
    subject = terms(_UPDATE.sub(" ", left))
    exact = values(f"x {right}")
    value_terms = frozenset(term for value in exact for term in terms(value))
    rest = terms(_UPDATE.sub(" ", right)) - value_terms
    if not subject and verb:
        # The subject of "We have 3 servers" is the servers.
        subject, rest = rest, frozenset()
    if not subject:
        return None
    predicate = terms(verb) | (rest if verb else frozenset())
    if not verb and exact and not _starts_with_value(right, exact):
        before = right.casefold()
        cut = min((place for value in exact if (place := before.find(value)) >= 0), default=0)
        predicate = terms(_UPDATE.sub(" ", right[:cut]))
    return Frame(
        subject=subject,
        predicate=predicate,
        value=value_terms or terms(right),
        exact=bool(exact) or _PLAIN_NOUN_JAPANESE.match(right) is not None,
        measured=bool(numbers(right)),
        update=update,
        negated=is_negated(text),
    )


def _starts_with_value(right: str, exact: frozenset[str]) -> bool:
    flat = re.sub(
        r"^(?:now|currently|at|about|around|roughly|the|on|in|by|under|¥|\$|€|£|、|約)\s*",
        "",
        right.casefold().strip(),
    )
    return any(flat.startswith(value) for value in exact) or flat[:1].isdigit()


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)


def _same_subject(one: Frame, other: Frame) -> bool:
    if one.subject != other.subject and not (
        one.update and _alike(one.subject, other.subject) >= 0.75
    ):
        return False
    if one.predicate == other.predicate:
        return True
    return one.update and (
        not one.predicate or not other.predicate or _alike(one.predicate, other.predicate) >= 0.5
    )


def supersedes(newer: str, older: str) -> bool:
    """Return True if the later statement `newer` replaces `older`.

    A number, name or identifier is replaced by another one of the same subject. Other values are
    replaced only by a sentence that announces a change.
    """
    one, other = frame(newer), frame(older)
    if one is None or other is None or newer == older or not _same_subject(one, other):
        return False
    if one.value == other.value and one.negated == other.negated:
        return False
    # A place does not replace a time: these are different attributes.
    if not one.update and one.measured != other.measured:
        return False
    return (one.exact and other.exact) or one.update
