"""Find a negation, an opposite or exchanged roles between a claim and one sentence."""

import re
from functools import lru_cache

from acc.domain.language import is_japanese, names, stem, term_list, terms
from acc.domain.quantities import with_digits

NEGATION = "one of the two is a negation"
_OPPOSITES = tuple(
    (terms(one), terms(other))
    for one, other in (
        (
            "rose risen rise increased increase raised higher grew grow",
            "fell fallen fall decreased decrease lowered lower shrank shrink",
        ),
        ("open opened", "closed shut"),
        ("enabled", "disabled"),
        ("succeeded passed successful", "failed unsuccessful"),
        ("online available", "offline unavailable"),
        ("safe", "unsafe"),
        ("added", "removed"),
        ("minimum", "maximum"),
        ("left", "right"),
        ("earlier", "later"),
        ("accepted approved", "rejected refused"),
        ("成功", "失敗"),
        ("午前", "午後"),
        ("有効", "無効"),
        ("増加", "減少"),
        ("増", "減"),
        ("賛成", "反対"),
        ("開始", "終了"),
        ("対応済", "未対応"),
        ("早", "遅"),
    )
)
#: Opposites that stop words or short words express; they are read in the text itself.
_OPPOSITE_WORDS = (
    (
        re.compile(r"\b(?:before|earlier|prior to)\b|早|以前"),
        re.compile(r"\b(?:after|later)\b|遅|以降"),
    ),
    (re.compile(r"\b(?:at least|minimum)\b|以上"), re.compile(r"\b(?:at most|maximum)\b|以下")),
    (
        re.compile(r"\b(?:longer|larger|bigger|older|faster|heavier|higher|more|better)\b"),
        re.compile(r"\b(?:shorter|smaller|younger|slower|lighter|lower|less|fewer|worse)\b"),
    ),
    (re.compile(r"\b(?:up|on)\b(?= |$)"), re.compile(r"\b(?:down|off)\b(?= |$)")),
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|cannot|without|nobody|nothing)\b|n['’]t\b", re.I
)
_NEGATION_JAPANESE = re.compile(
    r"(?<![少危])ない(?!し)|ません|なかった|なし(?=[。でに]|$)|なく|ず(?=[、にず。]|$)|ぬ。|不要|対象外"
)
_NO_NEGATION_JAPANESE = re.compile(
    r"(?:なければ|なくては)(?:なら|いけ)(?:ない|ません)|かもしれ(?:ない|ません)|だけで(?:は)?なく"
    r"|まもなく|間もなく"
)
#: Words that negate like "not": "lacks" and "does not have", 禁止 and ではいけません.
_NEGATIVE = re.compile(
    r"\b(?:forbid\w*|forbade|prohibit\w*|ban(?:s|ned)?|lack(?:s|ed|ing)?|missing|unable|impossible"
    r"|left alone|rather than|instead of)\b"
    r"|禁止|禁煙|不可|不足|不要|対象外|未(?=提出|完成|払|定|着)|解消|なくな"
)
#: A condition or an alternative reverses what follows.
_ALTERNATIVE = re.compile(r"\b(?:else|otherwise|unless|without)\b|ないと|なければ|せず")
_CLAUSE = re.compile(r"[,;:]\s|\s(?:but|although|though|while|whereas|which|who|because)\s", re.I)
_CLAUSE_JAPANESE = re.compile(r"、|。|が、|ので")
#: Content words that a negation refers to: after it in English, before it in Japanese.
_SCOPE = 4
_PASSIVE = re.compile(
    r"\b(?:is|are|was|were|be|been|being|gets?|got)\s+(?:not\s+|now\s+)?\w+(?:ed|en)\b"
    r"|\b\w+(?:ed|en|ent|old|aid|ade|ound|ught|uilt|eld) by\b",
    re.I,
)
_PASSIVE_JAPANESE = re.compile(r"され|られ[たてま]|られる|れました")
_PARTICLE = re.compile(
    r"([\u3400-\u9fff々\u30a1-\u30fcA-Za-z0-9]{1,12})(?:さん|氏|様)?(は|が|を|に|へ|より)"
)


def contradiction(claim: str, evidence: str) -> str:
    """Return why a sentence on the same subject contradicts a claim, or an empty text."""
    shared = terms(claim) & terms(evidence)
    mine, theirs = _negated_terms(claim) & shared, _negated_terms(evidence) & shared
    if bool(mine) != bool(theirs):
        return NEGATION
    changed = opposite(claim, evidence)
    if not _are_roles_exchanged(claim, evidence):
        return changed
    # "A is later than B" and "B is earlier than A" agree.
    return "" if changed or _has_opposite_word(claim, evidence) else "roles are exchanged"


def is_negation_explained(claim: str, evidence: str) -> bool:
    """Return True if the text without a negation says the same by another word or a condition."""
    shared = terms(claim) & terms(evidence)
    is_claim = bool(_negated_terms(claim) & shared)
    plain, negated = (evidence, claim) if is_claim else (claim, evidence)
    if _ALTERNATIVE.search(plain) and _ALTERNATIVE.search(negated):
        return True
    clauses = re.split(r"[,;]\s|、|。", plain)
    return any(_NEGATIVE.search(clause) and terms(clause) & shared for clause in clauses)


_FORBIDDEN = re.compile(
    r"\b(?:forbidden|prohibited|banned|not allowed)\b|\bno (?=\w+ing\b)"
    r"|禁止|禁煙|厳禁|不可|対象外",
    re.I,
)
_ALLOWED = re.compile(
    r"\b(?:may|can|allowed|permitted|fine|possible)\b|でき(?:ます|る)|可能|め(?:ます|る)|られ(?:ます|る)"
    r"|てもよい|てもいい|構いません|対象です",
    re.I,
)


def is_permission(text: str) -> bool:
    """Return True if a text says what someone may do."""
    return _ALLOWED.search(text) is not None


def allows_forbidden(claim: str, evidence: str) -> bool:
    """Return True if the claim allows what the evidence forbids."""
    shared = terms(claim) & terms(evidence)
    return (
        bool(shared)
        and _ALLOWED.search(claim) is not None
        and _FORBIDDEN.search(claim) is None
        and any(
            _FORBIDDEN.search(clause) and terms(clause) & shared
            for clause in re.split(r"[,;]\s|、|。", evidence)
        )
    )


def opposite(claim: str, evidence: str) -> str:
    """Return the words whose opposite the evidence has."""
    claimed, known = terms(claim), terms(evidence)
    for one, other in _OPPOSITES:
        for mine, theirs in ((one, other), (other, one)):
            if claimed & mine and not known & mine and known & theirs and not claimed & theirs:
                return f"the opposite: {', '.join(sorted(claimed & mine))}"
    return ""


@lru_cache(maxsize=4_096)
def _negated_terms(text: str) -> frozenset[str]:
    if is_japanese(text):
        found: set[str] = set()
        for clause in _CLAUSE_JAPANESE.split(_NO_NEGATION_JAPANESE.sub(" ", text)):
            for match in _NEGATION_JAPANESE.finditer(clause):
                found.update(term_list(clause[: match.start()])[-_SCOPE:])
                found.update(term_list(match[0]))
        return frozenset(found)
    return frozenset(
        term
        for clause in _CLAUSE.split(text)
        for match in _NEGATION.finditer(clause)
        for term in term_list(clause[match.end() :])[:_SCOPE]
    )


def _are_roles_exchanged(claim: str, evidence: str) -> bool:
    """Return True if two participants have each other's role in the evidence."""
    if is_japanese(claim):
        return any(
            _are_particles_exchanged(claim, clause) for clause in re.split("。|が、", evidence)
        )
    plain = _SOURCE.sub("", claim)
    clauses = [clause for clause in _COORDINATION.split(evidence) if clause]
    found = [_is_order_exchanged(plain, clause) for clause in {evidence, *clauses}]
    return any(found) and not any(_has_same_order(plain, clause) for clause in clauses)


def _has_opposite_word(claim: str, evidence: str) -> bool:
    one, other = claim.casefold(), evidence.casefold()
    return any(
        (first.search(one) and second.search(other) and not first.search(other))
        or (second.search(one) and first.search(other) and not second.search(other))
        for first, second in _OPPOSITE_WORDS
    )


@lru_cache(maxsize=4_096)
def _positions(text: str) -> dict[str, int]:
    """Return the position of each term that occurs once and is no number."""
    listed = term_list(with_digits(text))
    return {
        term: index
        for index, term in enumerate(listed)
        if not term[0].isdigit() and listed.count(term) == 1
    }


_COORDINATION = re.compile(r"[,;]\s+(?:and|but|while|whereas)\s+|;\s+")
_BY = re.compile(r"\bby\b", re.I)
_FROM_TO = re.compile(r"\bfrom (?:the )?(\w+)[\w\s]{0,20}? to (?:the )?(\w+)", re.I)


def _is_order_exchanged(claim: str, evidence: str) -> bool:
    mine, theirs = _FROM_TO.search(claim), _FROM_TO.search(evidence)
    if mine and theirs and (mine[1], mine[2]) == (theirs[2], theirs[1]):
        return True
    if bool(_PASSIVE.search(claim)) != bool(_PASSIVE.search(evidence)):
        return _has_actor(claim, evidence) and _is_straight(claim, evidence)
    claimed, known = _positions(claim), _positions(evidence)
    proper = _name_terms(claim) | _name_terms(evidence)
    mine_first, theirs_first = _subject(claim), _subject(evidence)
    for one, start in claimed.items():
        for other, end in claimed.items():
            if one not in known or other not in known:
                continue
            are_subjects = one in mine_first and other in theirs_first
            if not are_subjects and not {one, other} <= proper:
                continue
            if start < end and known[other] < known[one]:
                between = {t for t, place in claimed.items() if start < place < end} - proper
                if any(known[other] < known.get(t, -1) < known[one] for t in between):
                    return True
    return False


def _name_terms(text: str) -> frozenset[str]:
    """Return the names of a text in the form of its terms."""
    return frozenset(stem(name) for name in names(text)) | names(text)


def _has_actor(claim: str, evidence: str) -> bool:
    """Return True if the one of two sentences that is passive names who acts."""
    passive = claim if _PASSIVE.search(claim) else evidence
    return _BY.search(passive) is not None


def _is_straight(claim: str, clause: str) -> bool:
    """Return True if two names stand on the same sides of the same verb in both sentences."""
    claimed, known = _positions(claim), _positions(clause)
    proper = _name_terms(claim) | _name_terms(clause)
    shared = [term for term in claimed if term in known]
    return any(
        claimed[one] < claimed[verb] < claimed[other] and known[one] < known[verb] < known[other]
        for one in shared
        for other in shared
        if one in proper and other in proper
        for verb in shared
        if verb not in proper
    )


def _has_same_order(claim: str, clause: str) -> bool:
    """Return True if a clause states the claim with the same roles."""
    is_same_voice = bool(_PASSIVE.search(claim)) == bool(_PASSIVE.search(clause))
    return is_same_voice and _is_straight(claim, clause)


_PREPOSITION = re.compile(
    r"\b(?:on|in|at|from|to|after|before|by|for|with|during|until|since|according|under|about|of)\b",
    re.I,
)
_SOURCE = re.compile(r",? according to [^,]*", re.I)


def _subject(text: str) -> frozenset[str]:
    """Return the first content words of a sentence that begins with its subject."""
    return frozenset(term_list(_PREPOSITION.split(text, maxsplit=1)[0])[:2])


@lru_cache(maxsize=4_096)
def _bindings(text: str) -> dict[str, bool]:
    """Return the nouns with a particle; True for the subject."""
    found: dict[str, bool] = {}
    for noun, particle in _PARTICLE.findall(text):
        found.setdefault(noun, particle in "はが")
    return found


def _are_particles_exchanged(claim: str, evidence: str) -> bool:
    claimed, known = _bindings(claim), _bindings(evidence)
    if bool(_PASSIVE_JAPANESE.search(claim)) != bool(_PASSIVE_JAPANESE.search(evidence)):
        return False

    def role(noun: str) -> bool | None:
        return next(
            (
                subject
                for other, subject in known.items()
                if other == noun
                or (len(noun) > 1 and (other.endswith(noun) or noun.endswith(other)))
            ),
            None,
        )

    subject_became_object = any(
        subject and role(noun) is False for noun, subject in claimed.items()
    )
    object_became_subject = any(
        not subject and role(noun) is True for noun, subject in claimed.items()
    )
    return subject_became_object and object_became_subject
