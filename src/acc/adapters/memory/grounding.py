"""What of a model's proposed state may be committed, decided without any model.

Every item must come from somewhere: the user's own words, the earlier state, or evidence that
passed the gate. Text that was merely shown can be noted as reported and can order nothing. Rules
stay word for word as the rule-based reading has them; a model can only point at a sentence of this
turn that sets or ends one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from acc.adapters.memory.extracts import is_part, is_statement, shortens
from acc.adapters.memory.rule_compressor import typed
from acc.domain.ccs import LIMITS
from acc.domain.format_rules import (
    is_directive,
    is_hearsay,
    is_question,
    lifted_by,
    lifts,
    may_lift,
    read_rule,
    states_goal,
)
from acc.domain.language import contains_text, is_japanese, one_line, said, shown, terms, values
from acc.domain.statements import supersedes
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    StandingConstraint,
    body,
)
from acc.domain.value_objects.memory import Evidence, Source, TurnSignal

_MOST_RULES_ADDED = 3
_MOST_NOTES = 16
_LONGEST_NOTE = 160
_REPORTED = "reported"
#: Kinds that claim nothing beside what they hold.
_PLAIN_KINDS = ("fact", _REPORTED)
#: What a next step can be called.
_STEPS = terms(
    "next take note answer ask wait draft summarise summarize compare list confirm check write"
    " prepare recommend explain report tell remind follow question user turn reply clarify"
    " 次 回答 質問 確認 待 記録 要約 作成 比較 一覧 説明 報告 返信 利用 用者 対応"
)


class Sources:
    """Texts that something can come from."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(text for text in texts if text)
        self.terms = frozenset[str]().union(*map(terms, self.texts))

    def name(self, value: str) -> bool:
        """Tell whether a number, name or identifier stands in one of the texts."""
        return any(_names(text, value) for text in self.texts)

    def back(self, text: str) -> bool:
        """Tell whether one text alone says this, in its words, with nothing added or swapped."""
        return any(shortens(text, source) for source in self.texts)

    def aim_at(self, text: str) -> bool:
        """Tell whether one text alone has these words as one piece, and no condition is lost."""
        return any(is_part(text, source) for source in self.texts)

    def meant_by(self, text: str) -> str:
        """Return the text that shares most words with another, and more than half of them."""
        wanted = terms(text)
        best = max(self.texts, key=lambda source: len(wanted & terms(source)), default="")
        return best if len(wanted & terms(best)) * 2 > len(wanted) else ""


def _names(text: str, value: str) -> bool:
    return value in values(text) or contains_text(text, value)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a proposed state is held against."""

    signal: TurnSignal
    earlier: CompressedCognitiveState
    #: What the rules make of the same turn.
    ruled: CompressedCognitiveState
    evidence: Sequence[Evidence]
    stated: tuple[str, ...]
    shown: tuple[str, ...]


def turn_of(
    signal: TurnSignal,
    earlier: CompressedCognitiveState,
    ruled: CompressedCognitiveState,
    evidence: Sequence[Evidence],
) -> Turn:
    """Return a turn with what its author says and what they merely show told apart."""
    own = signal.source is Source.USER
    every = said(signal.text) + shown(signal.text)
    return Turn(
        signal=signal,
        earlier=earlier,
        ruled=ruled,
        evidence=evidence,
        stated=said(signal.text) if own else (),
        shown=shown(signal.text) if own else every,
    )


def wrong_language(turn: Turn, proposed: CompressedCognitiveState) -> str:
    """Return the field that is not in the language of the turn, or nothing."""
    spoken = " ".join(turn.stated)
    if not spoken:
        return ""
    for name in ("semantic_gist", "goal_orientation"):
        text = getattr(proposed, name)
        held = (getattr(turn.earlier, name), getattr(turn.ruled, name))
        if text and text not in held and is_japanese(text) != is_japanese(spoken):
            return name
    return ""


def vouched(
    turn: Turn, proposed: CompressedCognitiveState
) -> tuple[CompressedCognitiveState, tuple[str, ...]]:
    """Return what of a proposed state can be committed, and notes on what cannot."""
    found = _Vouching(turn, proposed)
    state = found.state()
    return state, tuple(found.notes[:_MOST_NOTES])


class _Vouching:
    def __init__(self, turn: Turn, proposed: CompressedCognitiveState) -> None:
        self.notes: list[str] = []
        self._turn = turn
        self._proposed = proposed
        self._changes: list[str] = []
        earlier = turn.earlier
        known = [item for item in earlier.relational_map if not _is_reported(item)]
        reported = [body(item) for item in earlier.relational_map if _is_reported(item)]
        self._trusted = Sources(
            (
                *turn.stated,
                *(item.text for item in turn.evidence if item.trusted),
                *map(body, known),
                *(constraint.text for constraint in earlier.constraints),
                earlier.goal_orientation,
                earlier.semantic_gist,
                *earlier.uncertainty_signal.unconfirmed,
            )
        )
        shown_texts = (
            *turn.shown,
            *(item.text for item in turn.evidence if not item.trusted),
            *reported,
        )
        self._shown = Sources(shown_texts)
        self._all = Sources((*self._trusted.texts, *shown_texts, *earlier.focal_entities))
        #: What claims something: no question, no doubt, and nothing that a model summed up.
        claimed = (
            *turn.stated,
            *(item.text for item in turn.evidence if item.trusted),
            *map(body, known),
            *(constraint.text for constraint in earlier.constraints),
        )
        self._claimed = Sources(text for text in claimed if _claims(text))

    def state(self) -> CompressedCognitiveState:
        proposed = self._proposed
        constraints = self._constraints()
        doubts = self._kept(
            "uncertainty_signal",
            proposed.uncertainty_signal.unconfirmed,
            lambda text: self._all.back(text) and not _speaks_of_rules(text),
        )
        return replace(
            proposed,
            episodic_trace=self._trace(),
            semantic_gist=self._line("semantic_gist", self._is_own),
            focal_entities=self._kept(
                "focal_entities", proposed.focal_entities, lambda item: self._all.name(body(item))
            ),
            relational_map=self._relations(),
            goal_orientation=self._line("goal_orientation", self._is_goal),
            constraints=constraints,
            predictive_cue=self._line("predictive_cue", self._is_cue),
            uncertainty_signal=replace(proposed.uncertainty_signal, unconfirmed=doubts),
            retrieved_artifacts=self._references(),
        )

    def _note(self, text: str) -> None:
        self.notes.append(one_line(text)[:_LONGEST_NOTE])

    # --- texts ----------------------------------------------------------------------------------

    def _is_own(self, text: str) -> bool:
        """Tell whether a text speaks of what the user said, and of nothing merely shown."""
        asked = is_question(text) and Sources(self._turn.stated).back(text)
        return asked or self._claimed.back(text)

    def _is_cue(self, text: str) -> bool:
        foreign = terms(text) - self._trusted.terms - _STEPS
        return not foreign and all(self._trusted.name(value) for value in values(text))

    def _is_goal(self, text: str) -> bool:
        return self._claimed.aim_at(text)

    def _line(self, name: str, is_good: Callable[[str], bool]) -> str:
        text: str = getattr(self._proposed, name)
        ruled: str = getattr(self._turn.ruled, name)
        if text == ruled or (text and text == getattr(self._turn.earlier, name)):
            return text
        if text and is_good(text):
            return text
        if text:
            self._note(f"{name} is not what the user said: {text}")
        return ruled

    def _kept(
        self, name: str, items: Sequence[str], is_good: Callable[[str], bool]
    ) -> tuple[str, ...]:
        found: list[str] = []
        for item in items:
            if is_good(item):
                found.append(item)
            else:
                self._note(f"{name}: nobody said it: {item}")
        return tuple(dict.fromkeys(found))

    def _trace(self) -> tuple[str, ...]:
        # What was done to rules is told by what was done, never by who proposed it.
        own = [
            item
            for item in self._proposed.episodic_trace
            if self._is_own(item) and not _speaks_of_rules(item)
        ]
        lines = (*own, *self._changes, *self._turn.ruled.episodic_trace)
        return tuple(dict.fromkeys(lines))[-LIMITS["episodic_trace"].items :]

    # --- what is known --------------------------------------------------------------------------

    def _relations(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        held = set(self._turn.earlier.relational_map) | set(self._turn.ruled.relational_map)
        for item in self._proposed.relational_map:
            kept = item if item in held else self._known(item)
            if not kept:
                self._note(f"relational_map: nobody said it: {body(item)}")
            elif any(supersedes(sentence, body(kept)) for sentence in self._facts()):
                self._note(f"relational_map: replaced in this turn: {body(kept)}")
            else:
                found[kept] = None
        return tuple(found)

    def _facts(self) -> list[str]:
        return [sentence for sentence in self._turn.stated if not is_question(sentence)]

    def _known(self, item: str) -> str:
        """Return an item that can be kept: as it is, as reported, or in the words it came from."""
        text, kind = body(item), item.partition("(")[0]
        if self._claimed.back(text):
            return item if kind in _PLAIN_KINDS or typed(text) == item else typed(text)
        if kind not in _PLAIN_KINDS and self._claimed.back(_spelled_out(kind, text)):
            return item
        if self._shown.back(text) and not is_directive(text):
            return _as_reported(text)
        return self._put_right(text)

    def _put_right(self, text: str) -> str:
        """Return the statement that a text speaks of and does not repeat, or nothing."""
        source = self._claimed.meant_by(text)
        kept = typed(source) if source and not _speaks_of_rules(source) else ""
        if kept and body(kept) == one_line(source):
            self._note(f"relational_map: put back as it was said: {text}")
            return kept
        return ""

    def _references(self) -> tuple[ArtifactReference, ...]:
        known = {item.id: item.provenance for item in self._turn.evidence}
        found: dict[str, ArtifactReference] = {}
        for reference in self._proposed.retrieved_artifacts:
            name = reference.artifact_id
            if name in known:
                found[name] = ArtifactReference(artifact_id=name, provenance=known[name])
            else:
                self._note(f"retrieved_artifacts: no such evidence: {name}")
        return tuple(found.values())

    # --- rules ----------------------------------------------------------------------------------

    def _constraints(self) -> tuple[StandingConstraint, ...]:
        turn = self._turn
        proposed = {_key(item.text): item.text for item in self._proposed.constraints}
        held: list[StandingConstraint] = []
        for constraint in turn.ruled.constraints:
            if _key(constraint.text) in proposed:
                held.append(constraint)
            elif self._is_lifted(constraint):
                self._changes.append(self._told("lifted", constraint.text))
            else:
                held.append(constraint)
                self._note(f"constraints: left out a rule that stands: {constraint.text}")
        standing = {
            _key(item.text) for item in (*turn.ruled.constraints, *turn.earlier.constraints)
        }
        added = self._added([text for key, text in proposed.items() if key not in standing])
        room = LIMITS["constraints"].items - len(held)
        # The oldest gives way first: what only a model read as a rule, before what is plainly one.
        return (*added[: max(0, room)], *held)

    def _told(self, what: str, rule: str) -> str:
        line = f"turn {self._turn.signal.turn_id}: {what}: {rule}"
        return line[: LIMITS["episodic_trace"].characters].rstrip()

    def _is_lifted(self, constraint: StandingConstraint) -> bool:
        turn = self._turn
        if constraint not in turn.earlier.constraints or constraint.set_by != turn.signal.author:
            return False
        return any(
            may_lift(sentence, constraint.text)
            and not any(lifted_by(sentence, other.text) for other in turn.earlier.constraints)
            for sentence in turn.stated
        )

    def _added(self, texts: Sequence[str]) -> list[StandingConstraint]:
        turn = self._turn
        most = LIMITS["constraints"].characters
        known = {_key(constraint.text) for constraint in turn.ruled.constraints}
        found: dict[str, StandingConstraint] = {}
        for text in texts:
            sentence = one_line(next((s for s in turn.stated if _may_set(s, text)), ""))
            if not sentence or len(sentence) > most or len(found) == _MOST_RULES_ADDED:
                self._note(f"constraints: nobody set it in this turn: {text}")
            elif _key(sentence) not in known:
                found[sentence] = StandingConstraint(text=sentence, set_by=turn.signal.author)
                self._changes.append(self._told("rule set", sentence))
        return list(found.values())


def _may_set(sentence: str, text: str) -> bool:
    """Tell whether a sentence may be the rule that a model copied from it."""
    if not contains_text(sentence, text) or len(terms(text)) * 2 < len(terms(sentence)):
        return False
    read = read_rule(sentence)
    once = read is not None and read.once
    silent = is_question(sentence) or is_hearsay(sentence) or states_goal(sentence)
    return not (once or silent or lifts(sentence))


def _claims(text: str) -> bool:
    return is_statement(text) and not is_question(text)


def _spelled_out(kind: str, text: str) -> str:
    """Return what a relation says as a sentence: `owns(Ana, db-1)` is "Ana owns db-1"."""
    first, _, rest = text.partition(",")
    return f"{first} {kind} {rest}".replace("_", " ")


def _speaks_of_rules(text: str) -> bool:
    return is_directive(text) or lifts(text)


def _is_reported(item: str) -> bool:
    return item.startswith(f"{_REPORTED}(")


def _as_reported(text: str) -> str:
    most = LIMITS["relational_map"].characters - len(_REPORTED) - 2
    return f"{_REPORTED}({text[:most].rstrip()})"


def _key(text: str) -> str:
    return one_line(text).casefold()
