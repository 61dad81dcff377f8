"""The gate: which recalled evidence the decision needs, and why the rest is kept out."""

import re
from collections.abc import Sequence
from functools import lru_cache

from acc.domain.format_rules import is_directive, is_question, read_rule
from acc.domain.language import said, terms, values
from acc.domain.statements import frame, same_subject, supersedes
from acc.domain.value_objects.ccs import CompressedCognitiveState, body
from acc.domain.value_objects.memory import (
    Candidate,
    Evidence,
    Qualification,
    Refusal,
    RefusalReason,
    Source,
    TurnSignal,
)

_ASKS_FOR_SHOWN = re.compile(
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
#: Share of the best score below which a match is a coincidence of common words.
_LEAST_SHARE = 0.25


class RuleQualifier:
    """Refuses evidence that is off the decision, superseded, a duplicate or untrusted."""

    async def qualify(
        self,
        candidates: Sequence[Candidate],
        state: CompressedCognitiveState,
        signal: TurnSignal,
    ) -> Qualification:
        """Return which candidates the decision needs, and why the others are kept out."""
        stated = said(signal.text) if signal.source is Source.USER else ()
        asked = _asked_terms(stated, state)
        held = {_key(body(item)) for item in state.relational_map}
        held |= {_key(constraint.text) for constraint in state.constraints}
        held |= {_key(sentence) for sentence in stated}
        best = max((candidate.score for candidate in candidates), default=0.0)
        trusted = [c.artifact for c in candidates if c.artifact.trusted]
        qualified: list[Evidence] = []
        refused: list[Refusal] = []
        for candidate in candidates:
            artifact = candidate.artifact
            refusal = (
                _untrusted(artifact, signal, trusted)
                or _superseded(candidate, stated, trusted)
                or _duplicate(artifact, held)
                or _off_decision(candidate, asked, best)
            )
            if refusal is not None:
                refused.append(
                    Refusal(artifact=artifact, reason=refusal[0], explanation=refusal[1])
                )
                continue
            held.add(_key(artifact.text))
            qualified.append(artifact)
        return Qualification(qualified=tuple(qualified), refused=tuple(refused))


_Reason = tuple[RefusalReason, str] | None


def _asked_terms(stated: Sequence[str], state: CompressedCognitiveState) -> frozenset[str]:
    questions = [sentence for sentence in stated if is_question(sentence)]
    wanted = terms(" ".join(questions or stated))
    return wanted or terms(f"{state.semantic_gist} {state.goal_orientation}")


def _untrusted(artifact: Evidence, signal: TurnSignal, trusted: Sequence[Evidence]) -> _Reason:
    if artifact.trusted:
        return None
    what = "pasted text" if artifact.quoted else f"{artifact.source.value} output"
    where = f"{what} of turn {artifact.turn_id}"
    if is_directive(artifact.text):
        return RefusalReason.UNTRUSTED, f"{where} cannot set a goal or a rule"
    if artifact.source is Source.AGENT:
        if _ASKS_FOR_OWN.search(signal.text):
            return None
        return (
            RefusalReason.UNTRUSTED,
            f"the agent's own answer of turn {artifact.turn_id} is no evidence",
        )
    if any(same_subject(other.text, artifact.text) for other in trusted):
        return (
            RefusalReason.UNTRUSTED,
            f"{where} is on a subject that the user has stated themselves",
        )
    if artifact.source is Source.TOOL and not artifact.quoted:
        return None
    if not _ASKS_FOR_SHOWN.search(signal.text):
        return RefusalReason.UNTRUSTED, f"{where} was shown, not said, and is not asked for"
    return None


def _superseded(
    candidate: Candidate, stated: Sequence[str], trusted: Sequence[Evidence]
) -> _Reason:
    artifact, newer = candidate.artifact, candidate.superseded_by
    if newer is not None:
        return (
            RefusalReason.SUPERSEDED,
            f"replaced in turn {newer.turn_id}: {newer.text}",
        )
    if frame(artifact.text) is None:
        return None  # nothing can replace what says nothing of anything
    for sentence in stated:
        if not is_question(sentence) and supersedes(sentence, artifact.text):
            return RefusalReason.SUPERSEDED, f"replaced in this turn: {sentence}"
    for later in trusted:
        if later.turn_id > artifact.turn_id and supersedes(later.text, artifact.text):
            return RefusalReason.SUPERSEDED, f"replaced in turn {later.turn_id}: {later.text}"
    return None


def _duplicate(artifact: Evidence, held: set[str]) -> _Reason:
    if _key(artifact.text) in held:
        return RefusalReason.DUPLICATE, "the state or the turn says this already"
    return None


def _off_decision(candidate: Candidate, asked: frozenset[str], best: float) -> _Reason:
    artifact = candidate.artifact
    shared = terms(artifact.text) & asked
    if read_rule(artifact.text) is not None:
        return RefusalReason.OFF_DECISION, "a rule: rules are held in the state, never recalled"
    if candidate.close:
        return None
    if not shared:
        return RefusalReason.OFF_DECISION, "shares no term with what is asked"
    exact = bool(shared & values(artifact.text))
    if candidate.score < _LEAST_SHARE * best and not exact:
        return RefusalReason.OFF_DECISION, f"matches only on {', '.join(sorted(shared))}"
    return None


@lru_cache(maxsize=512)
def _key(text: str) -> str:
    return " ".join(sorted(terms(text))) or text
