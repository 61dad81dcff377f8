"""Rule-based qualifier: selects the recalled evidence that is relevant and trusted."""

import re
from collections.abc import Sequence
from functools import lru_cache

from acc.domain.format_rules import is_directive, is_question, read_rule
from acc.domain.language import direct_sentences, terms, values
from acc.domain.statements import frame, same_subject, supersedes
from acc.domain.value_objects.ccs import CompressedCognitiveState, item_content
from acc.domain.value_objects.memory import (
    Candidate,
    Evidence,
    Qualification,
    Rejection,
    RejectionReason,
    Source,
    TurnSignal,
)

_ASKS_FOR_QUOTED = re.compile(
    r"\b(?:logs?|paste[ds]?|snippet|runbook|e-?mails?|output|scan|alert|report(?:ed)?|quoted?"
    r"|screenshot|attachment|ticket text)\b"
    r"|ログ|貼り付け|引用|手順書|メール|出力|通知|添付|報告書",
    re.I,
)
_ASKS_FOR_OWN = re.compile(
    r"\b(?:you (?:said|recommended|suggested|answered|proposed|advised|wrote|told)"
    r"|your (?:earlier|last|previous|first)"
    r"|did you (?:say|recommend|suggest|propose|advise))\b|先ほどの回答|前回の回答"
    r"|あなたの(?:提案|回答|推奨)",
    re.I,
)
#: A match below this share of the best score is accidental.
_MIN_SCORE_SHARE = 0.25


class RuleQualifier:
    """Rejects evidence that is untrusted, superseded, a duplicate or not relevant."""

    async def qualify(
        self,
        candidates: Sequence[Candidate],
        state: CompressedCognitiveState,
        signal: TurnSignal,
    ) -> Qualification:
        """Return the relevant candidates and the rejected ones with their reasons."""
        statements = direct_sentences(signal.text) if signal.source is Source.USER else ()
        query_terms = _query_terms(statements, state)
        known = {_key(item_content(item)) for item in state.relational_map}
        known |= {_key(constraint.text) for constraint in state.constraints}
        known |= {_key(sentence) for sentence in statements}
        best_score = max((candidate.score for candidate in candidates), default=0.0)
        trusted = [c.evidence for c in candidates if c.evidence.trusted]
        qualified: list[Evidence] = []
        rejected: list[Rejection] = []
        for candidate in candidates:
            evidence = candidate.evidence
            cause = (
                _check_trust(evidence, signal, trusted)
                or _check_superseded(candidate, statements, trusted)
                or _check_duplicate(evidence, known)
                or _check_relevance(candidate, query_terms, best_score)
            )
            if cause is None:
                known.add(_key(evidence.text))
                qualified.append(evidence)
            else:
                rejected.append(Rejection(evidence=evidence, reason=cause[0], explanation=cause[1]))
        return Qualification(qualified=tuple(qualified), rejected=tuple(rejected))


_Cause = tuple[RejectionReason, str] | None


def _query_terms(statements: Sequence[str], state: CompressedCognitiveState) -> frozenset[str]:
    questions = [sentence for sentence in statements if is_question(sentence)]
    wanted = terms(" ".join(questions or statements))
    return wanted or terms(f"{state.semantic_gist} {state.goal_orientation}")


def _check_trust(evidence: Evidence, signal: TurnSignal, trusted: Sequence[Evidence]) -> _Cause:
    if evidence.trusted:
        return None
    kind = "quoted text" if evidence.quoted else f"{evidence.source.value} output"
    origin = f"{kind} of turn {evidence.turn_id}"
    if is_directive(evidence.text):
        return RejectionReason.UNTRUSTED, f"{origin} cannot set a goal or a rule"
    if evidence.source is Source.AGENT:
        if _ASKS_FOR_OWN.search(signal.text):
            return None
        return (
            RejectionReason.UNTRUSTED,
            f"the agent's own answer of turn {evidence.turn_id} is not evidence",
        )
    if any(same_subject(other.text, evidence.text) for other in trusted):
        return (
            RejectionReason.UNTRUSTED,
            f"{origin} is about a subject that the user has stated directly",
        )
    if evidence.source is Source.TOOL and not evidence.quoted:
        return None
    if not _ASKS_FOR_QUOTED.search(signal.text):
        return RejectionReason.UNTRUSTED, f"{origin} was not asked for"
    return None


def _check_superseded(
    candidate: Candidate, statements: Sequence[str], trusted: Sequence[Evidence]
) -> _Cause:
    evidence, newer = candidate.evidence, candidate.superseded_by
    if newer is not None:
        return RejectionReason.SUPERSEDED, f"replaced in turn {newer.turn_id}: {newer.text}"
    if frame(evidence.text) is None:
        return None  # a text without a subject cannot be superseded
    for sentence in statements:
        if not is_question(sentence) and supersedes(sentence, evidence.text):
            return RejectionReason.SUPERSEDED, f"replaced in this turn: {sentence}"
    for later in trusted:
        if later.turn_id > evidence.turn_id and supersedes(later.text, evidence.text):
            return RejectionReason.SUPERSEDED, f"replaced in turn {later.turn_id}: {later.text}"
    return None


def _check_duplicate(evidence: Evidence, known: set[str]) -> _Cause:
    if _key(evidence.text) in known:
        return RejectionReason.DUPLICATE, "the state or the turn contains this already"
    return None


def _check_relevance(
    candidate: Candidate, query_terms: frozenset[str], best_score: float
) -> _Cause:
    text = candidate.evidence.text
    shared = terms(text) & query_terms
    if read_rule(text) is not None:
        return RejectionReason.OFF_DECISION, "rules are part of the state and are not recalled"
    if candidate.semantic_match:
        return None
    if not shared:
        return RejectionReason.OFF_DECISION, "shares no term with the query"
    exact = bool(shared & values(text))
    if candidate.score < _MIN_SCORE_SHARE * best_score and not exact:
        return RejectionReason.OFF_DECISION, f"matches only on {', '.join(sorted(shared))}"
    return None


@lru_cache(maxsize=512)
def _key(text: str) -> str:
    return " ".join(sorted(terms(text))) or text
