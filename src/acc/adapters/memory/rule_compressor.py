"""The rule-based compressor: one turn and the earlier state in, the next state out.

Only what a user says in their own words can set, change or lift a goal or a constraint. Evidence
that passed the gate is noted as what is known; it changes nothing else.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from acc.domain.ccs import LIMITS
from acc.domain.format_rules import (
    is_doubtful,
    is_question,
    lifted_by,
    lifts,
    read_rule,
    states_goal,
)
from acc.domain.language import identifiers, names, one_line, said, shown, terms, values
from acc.domain.statements import frame, supersedes
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    StandingConstraint,
    UncertaintyLevel,
    UncertaintySignal,
    body,
)
from acc.domain.value_objects.format_rule import NUMBERED, SINGULAR, RuleKind
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
#: How far before a name the noun for it is looked for.
_NEAR = 80
_MOST_REFERENCES = 4
#: The most sentences of one turn that are read for rules: each is compared with those before it.
_FIRST_SENTENCES, _LAST_SENTENCES = 300, 100
#: What a sentence said of things is asked again whenever it comes back as evidence.
_CACHE = 1_024
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
        """Return the state that is to replace `state`."""
        stated = said(signal.text) if signal.source is Source.USER else ()
        if len(stated) > _FIRST_SENTENCES + _LAST_SENTENCES:
            stated = stated[:_FIRST_SENTENCES] + stated[-_LAST_SENTENCES:]
        questions = [sentence for sentence in stated if is_question(sentence)]
        ledger = _ConstraintLedger(state.constraints, signal.author)
        facts: list[str] = []
        goal = state.goal_orientation
        for sentence in stated:
            if ledger.take(sentence):
                continue
            if states_goal(sentence) and not is_question(sentence):
                goal = _clip(sentence, "goal_orientation")
            elif not is_question(sentence) and _informs(sentence):
                facts.append(sentence)
        relations = _relations(state.relational_map, facts, evidence, questions)
        trace = [f"turn {signal.turn_id}: {note}" for note in ledger.changes]
        if facts:
            trace.append(f"turn {signal.turn_id}: {len(facts)} new statements")
        if shown(signal.text) or signal.source is Source.TOOL:
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
                constraints=tuple(ledger.held),
                predictive_cue=_next_operation(questions),
                uncertainty_signal=_uncertainty(state.uncertainty_signal, facts),
                retrieved_artifacts=tuple(
                    ArtifactReference(artifact_id=item.id, provenance=item.provenance)
                    for item in evidence[:_MOST_REFERENCES]
                ),
            ),
            dropped=tuple(ledger.dropped),
            notes=tuple(ledger.notes),
        )


class _ConstraintLedger:
    """The constraints of one turn as they are set, replaced and lifted, sentence by sentence."""

    def __init__(self, held: Iterable[StandingConstraint], author: str) -> None:
        self.held = list(held)
        self.changes: list[str] = []
        self.dropped: list[str] = []
        self.notes: list[str] = []
        self._author = author

    def take(self, sentence: str) -> bool:
        """Return whether the sentence was about rules, after acting on it."""
        ends = lifts(sentence)
        if ends and self._lift(sentence):
            return True
        read = read_rule(sentence)
        if read is None:
            return False
        if ends and read.rule.kind not in NUMBERED:
            return True
        if read.once:
            return not is_question(sentence)
        self._set(read.text, read.rule.kind)
        return True

    def _lift(self, sentence: str) -> bool:
        meant = [c for c in self.held if lifted_by(sentence, c.text)]
        for constraint in meant:
            if self._may_change(constraint):
                self.held.remove(constraint)
                self.changes.append(f"lifted: {constraint.text}")
        return bool(meant)

    def _set(self, text: str, kind: RuleKind) -> None:
        if any(_same(constraint.text, text) for constraint in self.held):
            return
        for constraint in list(self.held):
            older = read_rule(constraint.text)
            replaced = supersedes(text, constraint.text) or (
                older is not None and kind in SINGULAR and _slot(older.rule.kind) == _slot(kind)
            )
            if replaced:
                if not self._may_change(constraint):
                    return
                self.held.remove(constraint)
                self.changes.append(f"replaced: {constraint.text}")
        clipped = _clip(text, "constraints")
        if clipped != text:
            self.dropped.append(f"constraints: the end of a rule of {len(text)} characters")
        self.held.append(StandingConstraint(text=clipped, set_by=self._author))
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


def _same(one: str, other: str) -> bool:
    return one_line(one).casefold() == one_line(other).casefold()


def _informs(sentence: str) -> bool:
    """Tell whether a sentence states something worth keeping."""
    return frame(sentence) is not None or bool(identifiers(sentence))


def _clip(text: str, field: str) -> str:
    return _shortened(text, LIMITS[field].characters)


def _shortened(text: str, most: int) -> str:
    line = one_line(text)
    # Three full stops: a state holds normalised text, and an ellipsis would not stay one.
    return line if len(line) <= most else line[: most - 3].rstrip() + "..."


@lru_cache(maxsize=_CACHE)
def typed(sentence: str, kind: str = "") -> str:
    """Return a sentence as an item of the relational map, cut where it is too long."""
    if not kind:
        after = "after" if _AFTER.search(sentence) else "fact"
        kind = "because" if _BECAUSE.search(sentence) else after
    return f"{kind}({_shortened(sentence, LIMITS['relational_map'].characters - len(kind) - 2)})"


def _relations(
    earlier: Sequence[str],
    facts: Sequence[str],
    evidence: Sequence[Evidence],
    questions: Sequence[str],
) -> tuple[str, ...]:
    """Return what is known, what the turn asks for last so that it is dropped last."""
    asked = terms(" ".join(questions))
    known: dict[str, str] = {}
    for item in earlier:
        if not facts or not any(supersedes(fact, body(item)) for fact in facts):
            known[body(item)] = item
    for artifact in reversed(evidence):
        kind = "" if artifact.trusted else "reported"
        item = typed(artifact.text, kind)
        known.pop(body(item), None)
        known[body(item)] = item
    for fact in facts:
        item = typed(fact)
        known.pop(body(item), None)
        known[body(item)] = item
    fresh = {body(typed(fact)) for fact in facts} | {
        body(typed(item.text, "" if item.trusted else "reported")) for item in evidence
    }
    needed = [text for text in known if text in fresh or len(terms(text) & asked) >= 2]
    # What carries a number, name or identifier outlasts what does not.
    rest = sorted((text for text in known if text not in needed), key=lambda t: bool(values(t)))
    return tuple(known[text] for text in rest + needed)[-LIMITS["relational_map"].items :]


def _gist(questions: Sequence[str], facts: Sequence[str]) -> str:
    return questions[-1] if questions else (facts[0] if facts else "")


def _next_operation(questions: Sequence[str]) -> str:
    """Return what the turn calls for, in a word or two."""
    asked = " ".join(questions)
    found = next((name for name, pattern in _OPERATIONS if pattern.search(asked)), "answer")
    return f"next: {found}" if questions else "next: take note"


def _entities(
    earlier: Sequence[str], facts: Sequence[str], evidence: Sequence[Evidence]
) -> tuple[str, ...]:
    found: dict[str, str] = {body(item).casefold(): item for item in earlier}
    for text in (*(item.text for item in evidence), *facts):
        for item in entities_of(text):
            key = body(item).casefold()
            found.pop(key, None)
            found[key] = item
    return tuple(found.values())[-LIMITS["focal_entities"].items :]


@lru_cache(maxsize=_CACHE)
def entities_of(text: str) -> tuple[str, ...]:
    """Return the typed objects and actors that a sentence names."""
    found: list[str] = []
    flat = text.casefold()
    for code in sorted(identifiers(text)):
        kind = next((name for name, pattern in _TYPED_CODES if pattern.match(code)), "")
        noun = _NOUN_BEFORE.search(text[: flat.find(code)][-_NEAR:])
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
