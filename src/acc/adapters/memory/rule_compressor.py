"""Rule-based compressor: writes the next state from a turn, the state and the evidence.

Only a user's own words can set, change or revoke a goal or a constraint. Qualified evidence is
added to the relational map and changes nothing else.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from acc.domain.ccs import LIMITS
from acc.domain.format_rules import (
    is_doubtful,
    is_question,
    is_revocation,
    read_rule,
    revokes,
    states_goal,
)
from acc.domain.language import (
    direct_sentences,
    identifiers,
    names,
    quoted_sentences,
    terms,
    values,
)
from acc.domain.statements import frame, supersedes
from acc.domain.text import one_line
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    StandingConstraint,
    UncertaintyLevel,
    UncertaintySignal,
    item_content,
)
from acc.domain.value_objects.format_rule import EXCLUSIVE_KINDS, NUMERIC_KINDS, RuleKind
from acc.domain.value_objects.memory import Compression, Evidence, Source, TurnSignal

_AFTER = re.compile(r"\b(?:after|since|following|once)\b|以降|の後", re.I)
_BECAUSE = re.compile(
    r"\b(?:because|due to|caused by|owing to|as a result of)\b|ため|原因|により", re.I
)
_TYPED_CODES = (
    ("cve", re.compile(r"^cve-\d+-\d+$")),
    ("mail", re.compile(r"^[\w.+-]+@[\w.-]+$")),
    ("address", re.compile(r"^\d+(?:\.\d+){3}$")),
    ("case", re.compile(r"^(?:inc|tkt|chg|req|case|prb|sr|ir)-?\d+$")),
)
_NOUN_BEFORE = re.compile(
    r"\b(service|host|node|cluster|database|queue|region|server|account|user|team|vendor|ward|bed|theatre|patient"
    r"|invoice|entity|bank|portfolio|desk|ticket|incident|case|release|version|policy|playbook|segment|endpoint)\s+$",
    re.I,
)
#: Characters before a name that may contain its noun.
_NOUN_DISTANCE = 80
_MAX_REFERENCES = 4
#: Sentences of a turn that are read for rules; each is compared with those before it.
_FIRST_SENTENCES, _LAST_SENTENCES = 300, 100
#: The same sentences return as evidence.
_CACHE_SIZE = 1_024
_OPERATIONS = (
    ("draft", re.compile(r"\b(?:draft|write|compose|prepare)\b|文案|作成|起案|下書き", re.I)),
    ("summarise", re.compile(r"\b(?:summari[sz]e|recap|brief)\b|要約|まとめ", re.I)),
    ("compare", re.compile(r"\b(?:compare|choose|recommend|which option)\b|比較|選", re.I)),
    ("list", re.compile(r"\blist\b|列挙|一覧|並べ", re.I)),
)


class RuleCompressor:
    """Fills the nine fields by rules, for English and Japanese."""

    async def compress(
        self,
        signal: TurnSignal,
        state: CompressedCognitiveState,
        evidence: Sequence[Evidence],
    ) -> Compression:
        """Return the state that replaces `state`."""
        direct = direct_sentences(signal.text) if signal.source is Source.USER else ()
        if len(direct) > _FIRST_SENTENCES + _LAST_SENTENCES:
            direct = direct[:_FIRST_SENTENCES] + direct[-_LAST_SENTENCES:]
        questions = [sentence for sentence in direct if is_question(sentence)]
        rules = _ConstraintList(state.constraints, signal.author)
        facts: list[str] = []
        goal = state.goal_orientation
        for sentence in direct:
            if rules.apply(sentence):
                continue
            if states_goal(sentence) and not is_question(sentence):
                goal = _clip(sentence, "goal_orientation")
            elif not is_question(sentence) and _informs(sentence):
                facts.append(sentence)
        relations = _relations(state.relational_map, facts, evidence, questions)
        trace = [f"turn {signal.turn_id}: {note}" for note in rules.changes]
        if facts:
            trace.append(f"turn {signal.turn_id}: {len(facts)} new statements")
        if quoted_sentences(signal.text) or signal.source is Source.TOOL:
            trace.append(f"turn {signal.turn_id}: shown text was not adopted")
        return Compression(
            state=CompressedCognitiveState(
                episodic_trace=tuple(_clip(item, "episodic_trace") for item in trace),
                semantic_gist=_clip(
                    _gist(questions, facts) or state.semantic_gist, "semantic_gist"
                ),
                focal_entities=_entities(state.focal_entities, facts, evidence),
                relational_map=relations,
                goal_orientation=goal,
                constraints=tuple(rules.constraints),
                predictive_cue=_next_operation(questions),
                uncertainty_signal=_uncertainty(state.uncertainty_signal, facts),
                retrieved_artifacts=tuple(
                    ArtifactReference(artifact_id=item.id, provenance=item.provenance)
                    for item in evidence[:_MAX_REFERENCES]
                ),
            ),
            dropped=tuple(rules.dropped),
            notes=tuple(rules.notes),
        )


class _ConstraintList:
    """Constraints that the sentences of a turn set, replace and revoke."""

    def __init__(self, constraints: Iterable[StandingConstraint], author: str) -> None:
        self.constraints = list(constraints)
        self.changes: list[str] = []
        self.dropped: list[str] = []
        self.notes: list[str] = []
        self._author = author

    def apply(self, sentence: str) -> bool:
        """Apply a sentence; return True if it is about rules."""
        revocation = is_revocation(sentence)
        if revocation and self._revoke(sentence):
            return True
        read = read_rule(sentence)
        if read is None:
            return False
        if revocation and read.rule.kind not in NUMERIC_KINDS:
            return True
        if read.once:
            return not is_question(sentence)
        self._set(read.text, read.rule.kind)
        return True

    def _revoke(self, sentence: str) -> bool:
        meant = [c for c in self.constraints if revokes(sentence, c.text)]
        for constraint in meant:
            if self._may_change(constraint):
                self.constraints.remove(constraint)
                self.changes.append(f"lifted: {constraint.text}")
        return bool(meant)

    def _set(self, text: str, kind: RuleKind) -> None:
        if any(_is_same_text(constraint.text, text) for constraint in self.constraints):
            return
        for constraint in list(self.constraints):
            older = read_rule(constraint.text)
            replaced = supersedes(text, constraint.text) or (
                older is not None
                and kind in EXCLUSIVE_KINDS
                and _slot(older.rule.kind) == _slot(kind)
            )
            if replaced:
                if not self._may_change(constraint):
                    return
                self.constraints.remove(constraint)
                self.changes.append(f"replaced: {constraint.text}")
        clipped = _clip(text, "constraints")
        if clipped != text:
            self.dropped.append(f"constraints: the end of a rule of {len(text)} characters")
        self.constraints.append(StandingConstraint(text=clipped, set_by=self._author))
        self.changes.append(f"rule set: {clipped}")

    def _may_change(self, constraint: StandingConstraint) -> bool:
        if constraint.set_by == self._author:
            return True
        self.notes.append(
            f"{self._author} cannot change a rule that {constraint.set_by} set: {constraint.text}"
        )
        return False


def _slot(kind: RuleKind) -> RuleKind:
    return RuleKind.MAX_BULLETS if kind is RuleKind.EXACT_BULLETS else kind


def _is_same_text(one: str, other: str) -> bool:
    return one_line(one).casefold() == one_line(other).casefold()


def _informs(sentence: str) -> bool:
    """Return True if a sentence contains a statement or an identifier."""
    return frame(sentence) is not None or bool(identifiers(sentence))


def _clip(text: str, field: str) -> str:
    return _truncate(text, LIMITS[field].characters)


def _truncate(text: str, max_length: int) -> str:
    line = one_line(text)
    # Three full stops, because normalisation would replace an ellipsis by them.
    return line if len(line) <= max_length else line[: max_length - 3].rstrip() + "..."


@lru_cache(maxsize=_CACHE_SIZE)
def to_relation(sentence: str, kind: str = "") -> str:
    """Return a sentence as an item of the relational map, truncated to its limit."""
    if not kind:
        after = "after" if _AFTER.search(sentence) else "fact"
        kind = "because" if _BECAUSE.search(sentence) else after
    return f"{kind}({_truncate(sentence, LIMITS['relational_map'].characters - len(kind) - 2)})"


def _relations(
    earlier: Sequence[str],
    facts: Sequence[str],
    evidence: Sequence[Evidence],
    questions: Sequence[str],
) -> tuple[str, ...]:
    """Return the relations; those that the turn asks about are last and dropped last."""
    asked = terms(" ".join(questions))
    known: dict[str, str] = {}
    for item in earlier:
        if not facts or not any(supersedes(fact, item_content(item)) for fact in facts):
            known[item_content(item)] = item
    for artifact in reversed(evidence):
        kind = "" if artifact.trusted else "reported"
        item = to_relation(artifact.text, kind)
        known.pop(item_content(item), None)
        known[item_content(item)] = item
    for fact in facts:
        item = to_relation(fact)
        known.pop(item_content(item), None)
        known[item_content(item)] = item
    fresh = {item_content(to_relation(fact)) for fact in facts} | {
        item_content(to_relation(item.text, "" if item.trusted else "reported"))
        for item in evidence
    }
    needed = [text for text in known if text in fresh or len(terms(text) & asked) >= 2]
    # Items without a number, name or identifier are dropped first.
    rest = sorted((text for text in known if text not in needed), key=lambda t: bool(values(t)))
    return tuple(known[text] for text in rest + needed)[-LIMITS["relational_map"].items :]


def _gist(questions: Sequence[str], facts: Sequence[str]) -> str:
    return questions[-1] if questions else (facts[0] if facts else "")


def _next_operation(questions: Sequence[str]) -> str:
    """Return the expected next operation."""
    asked = " ".join(questions)
    found = next((name for name, pattern in _OPERATIONS if pattern.search(asked)), "answer")
    return f"next: {found}" if questions else "next: take note"


def _entities(
    earlier: Sequence[str], facts: Sequence[str], evidence: Sequence[Evidence]
) -> tuple[str, ...]:
    found: dict[str, str] = {item_content(item).casefold(): item for item in earlier}
    for text in (*(item.text for item in evidence), *facts):
        for item in extract_entities(text):
            key = item_content(item).casefold()
            found.pop(key, None)
            found[key] = item
    return tuple(found.values())[-LIMITS["focal_entities"].items :]


@lru_cache(maxsize=_CACHE_SIZE)
def extract_entities(text: str) -> tuple[str, ...]:
    """Return the objects and actors of a sentence as typed items."""
    found: list[str] = []
    flat = text.casefold()
    for code in sorted(identifiers(text)):
        kind = next((name for name, pattern in _TYPED_CODES if pattern.match(code)), "")
        noun = _NOUN_BEFORE.search(text[: flat.find(code)][-_NOUN_DISTANCE:])
        found.append(f"{kind or (noun[1].casefold() if noun else 'item')}({code})")
    for match in re.finditer(r"\b[A-Z][\w'’]+(?:\s+[A-Z][\w'’]+)+", text):
        if all(word.casefold() in names(text) for word in match[0].split()):
            found.append(f"name({match[0]})")
    return tuple(item for item in found if len(item) <= LIMITS["focal_entities"].characters)


def _uncertainty(earlier: UncertaintySignal, facts: Sequence[str]) -> UncertaintySignal:
    settled = [fact for fact in facts if not is_doubtful(fact)]
    still_open = [
        item
        for item in earlier.unconfirmed
        if not any(supersedes(fact, item) or _settles(fact, item) for fact in settled)
    ]
    for fact in facts:
        clipped = _clip(fact, "uncertainty_signal")
        if is_doubtful(fact) and clipped not in still_open:
            still_open.append(clipped)
    still_open = still_open[-LIMITS["uncertainty_signal"].items :]
    level = UncertaintyLevel.LOW
    if still_open:
        level = UncertaintyLevel.HIGH if len(still_open) > 2 else UncertaintyLevel.MEDIUM
    return UncertaintySignal(level=level, unconfirmed=tuple(still_open))


def _settles(fact: str, doubt: str) -> bool:
    one, other = frame(fact), frame(doubt)
    return one is not None and other is not None and one.subject == other.subject
