"""Remove the items of a model's proposed state that no source supports.

Sources are the user's own words, the previous state and the qualified evidence. Quoted text can be
stored as reported and cannot set rules or goals. Rules stay verbatim as the rule-based compressor
has them; a model can only select a sentence of this turn that sets or revokes one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from acc.adapters.memory.extracts import is_extract, is_statement, is_verbatim
from acc.adapters.memory.rule_compressor import to_relation
from acc.domain.ccs import LIMITS
from acc.domain.format_rules import (
    is_directive,
    is_hearsay,
    is_question,
    is_revocation,
    may_revoke,
    read_rule,
    revokes,
    states_goal,
)
from acc.domain.language import (
    contains_text,
    direct_sentences,
    is_japanese,
    quoted_sentences,
    terms,
    values,
)
from acc.domain.statements import supersedes
from acc.domain.text import one_line
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    StandingConstraint,
    item_content,
)
from acc.domain.value_objects.memory import Evidence, Source, TurnSignal

_MAX_ADDED_RULES = 3
_MAX_NOTES = 16
_MAX_NOTE_LENGTH = 160
_REPORTED = "reported"
#: Kinds that claim nothing beyond their content.
_PLAIN_KINDS = ("fact", _REPORTED)
#: Terms of a next operation.
_STEPS = terms(
    "next take note answer ask wait draft summarise summarize compare list confirm check write"
    " prepare recommend explain report tell remind follow question user turn reply clarify"
    " 次 回答 質問 確認 待 記録 要約 作成 比較 一覧 説明 報告 返信 利用 用者 対応"
)


class Sources:
    """Texts that can support an item of a state."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(text for text in texts if text)
        self.terms = frozenset[str]().union(*map(terms, self.texts))

    def has_value(self, value: str) -> bool:
        """Return True if a text contains a number, name or identifier."""
        return any(_names(text, value) for text in self.texts)

    def supports(self, text: str) -> bool:
        """Return True if `text` is an extract of one of the texts."""
        return any(is_extract(text, source) for source in self.texts)

    def contains(self, text: str) -> bool:
        """Return True if a text contains `text` verbatim, outside of any condition."""
        return any(is_verbatim(text, source) for source in self.texts)

    def closest(self, text: str) -> str:
        """Return the text that shares most terms, and more than half, with `text`."""
        wanted = terms(text)
        best = max(self.texts, key=lambda source: len(wanted & terms(source)), default="")
        return best if len(wanted & terms(best)) * 2 > len(wanted) else ""


def _names(text: str, value: str) -> bool:
    return value in values(text) or contains_text(text, value)


@dataclass(frozen=True, slots=True)
class TurnSources:
    """The sources that a proposed state is checked against."""

    signal: TurnSignal
    earlier: CompressedCognitiveState
    #: The state that the rule-based compressor writes for the same turn.
    rule_based: CompressedCognitiveState
    evidence: Sequence[Evidence]
    direct: tuple[str, ...]
    quoted: tuple[str, ...]


def turn_sources(
    signal: TurnSignal,
    earlier: CompressedCognitiveState,
    rule_based: CompressedCognitiveState,
    evidence: Sequence[Evidence],
) -> TurnSources:
    """Return the sources of a turn, with direct and quoted sentences separated."""
    own = signal.source is Source.USER
    every = direct_sentences(signal.text) + quoted_sentences(signal.text)
    return TurnSources(
        signal=signal,
        earlier=earlier,
        rule_based=rule_based,
        evidence=evidence,
        direct=direct_sentences(signal.text) if own else (),
        quoted=quoted_sentences(signal.text) if own else every,
    )


def wrong_language(turn: TurnSources, proposed: CompressedCognitiveState) -> str:
    """Return the field that is not in the language of the turn, or an empty string."""
    statement = " ".join(turn.direct)
    if not statement:
        return ""
    for name in ("semantic_gist", "goal_orientation"):
        text = getattr(proposed, name)
        known = (getattr(turn.earlier, name), getattr(turn.rule_based, name))
        if text and text not in known and is_japanese(text) != is_japanese(statement):
            return name
    return ""


def keep_grounded(
    turn: TurnSources, proposed: CompressedCognitiveState
) -> tuple[CompressedCognitiveState, tuple[str, ...]]:
    """Return a proposed state without unsupported items, and notes on these."""
    grounding = _Grounding(turn, proposed)
    state = grounding.state()
    return state, tuple(grounding.notes[:_MAX_NOTES])


class _Grounding:
    def __init__(self, turn: TurnSources, proposed: CompressedCognitiveState) -> None:
        self.notes: list[str] = []
        self._turn = turn
        self._proposed = proposed
        self._changes: list[str] = []
        earlier = turn.earlier
        known = [item for item in earlier.relational_map if not _is_reported(item)]
        reported = [item_content(item) for item in earlier.relational_map if _is_reported(item)]
        self._trusted = Sources(
            (
                *turn.direct,
                *(item.text for item in turn.evidence if item.trusted),
                *map(item_content, known),
                *(constraint.text for constraint in earlier.constraints),
                earlier.goal_orientation,
                earlier.semantic_gist,
                *earlier.uncertainty_signal.unconfirmed,
            )
        )
        quoted_texts = (
            *turn.quoted,
            *(item.text for item in turn.evidence if not item.trusted),
            *reported,
        )
        self._quoted = Sources(quoted_texts)
        self._all = Sources((*self._trusted.texts, *quoted_texts, *earlier.focal_entities))
        #: Statements only: no questions, doubts or summaries.
        claims = (
            *turn.direct,
            *(item.text for item in turn.evidence if item.trusted),
            *map(item_content, known),
            *(constraint.text for constraint in earlier.constraints),
        )
        self._claims = Sources(text for text in claims if _claims(text))

    def state(self) -> CompressedCognitiveState:
        proposed = self._proposed
        constraints = self._constraints()
        doubts = self._filter(
            "uncertainty_signal",
            proposed.uncertainty_signal.unconfirmed,
            lambda text: self._all.supports(text) and not _is_about_rules(text),
        )
        return replace(
            proposed,
            episodic_trace=self._trace(),
            semantic_gist=self._line("semantic_gist", self._is_own),
            focal_entities=self._filter(
                "focal_entities",
                proposed.focal_entities,
                lambda item: self._all.has_value(item_content(item)),
            ),
            relational_map=self._relations(),
            goal_orientation=self._line("goal_orientation", self._is_goal),
            constraints=constraints,
            predictive_cue=self._line("predictive_cue", self._is_cue),
            uncertainty_signal=replace(proposed.uncertainty_signal, unconfirmed=doubts),
            retrieved_artifacts=self._references(),
        )

    def _note(self, text: str) -> None:
        self.notes.append(one_line(text)[:_MAX_NOTE_LENGTH])

    # --- texts ----------------------------------------------------------------------------------

    def _is_own(self, text: str) -> bool:
        """Return True if the user's own words support a text."""
        asked = is_question(text) and Sources(self._turn.direct).supports(text)
        return asked or self._claims.supports(text)

    def _is_cue(self, text: str) -> bool:
        foreign = terms(text) - self._trusted.terms - _STEPS
        return not foreign and all(self._trusted.has_value(value) for value in values(text))

    def _is_goal(self, text: str) -> bool:
        return self._claims.contains(text)

    def _line(self, name: str, is_good: Callable[[str], bool]) -> str:
        text: str = getattr(self._proposed, name)
        ruled: str = getattr(self._turn.rule_based, name)
        if text == ruled or (text and text == getattr(self._turn.earlier, name)):
            return text
        if text and is_good(text):
            return text
        if text:
            self._note(f"{name} is not supported by the user's words: {text}")
        return ruled

    def _filter(
        self, name: str, items: Sequence[str], is_good: Callable[[str], bool]
    ) -> tuple[str, ...]:
        found: list[str] = []
        for item in items:
            if is_good(item):
                found.append(item)
            else:
                self._note(f"{name}: no source supports: {item}")
        return tuple(dict.fromkeys(found))

    def _trace(self) -> tuple[str, ...]:
        # Changes of rules are recorded by this class, not by the model.
        own = [
            item
            for item in self._proposed.episodic_trace
            if self._is_own(item) and not _is_about_rules(item)
        ]
        lines = (*own, *self._changes, *self._turn.rule_based.episodic_trace)
        return tuple(dict.fromkeys(lines))[-LIMITS["episodic_trace"].items :]

    # --- what is known --------------------------------------------------------------------------

    def _relations(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        known = set(self._turn.earlier.relational_map) | set(self._turn.rule_based.relational_map)
        for item in self._proposed.relational_map:
            grounded = item if item in known else self._ground_relation(item)
            if not grounded:
                self._note(f"relational_map: no source supports: {item_content(item)}")
            elif any(supersedes(sentence, item_content(grounded)) for sentence in self._facts()):
                self._note(f"relational_map: replaced in this turn: {item_content(grounded)}")
            else:
                found[grounded] = None
        return tuple(found)

    def _facts(self) -> list[str]:
        return [sentence for sentence in self._turn.direct if not is_question(sentence)]

    def _ground_relation(self, item: str) -> str:
        """Return an item unchanged, as reported, or as its source sentence."""
        text, kind = item_content(item), item.partition("(")[0]
        if self._claims.supports(text):
            return item if kind in _PLAIN_KINDS or to_relation(text) == item else to_relation(text)
        if kind not in _PLAIN_KINDS and self._claims.supports(_spelled_out(kind, text)):
            return item
        if self._quoted.supports(text) and not is_directive(text):
            return _as_reported(text)
        return self._restore_source(text)

    def _restore_source(self, text: str) -> str:
        """Return the statement that a text paraphrases, or an empty string."""
        source = self._claims.closest(text)
        relation = to_relation(source) if source and not _is_about_rules(source) else ""
        if relation and item_content(relation) == one_line(source):
            self._note(f"relational_map: restored the original words of: {text}")
            return relation
        return ""

    def _references(self) -> tuple[ArtifactReference, ...]:
        known = {item.id: item.provenance for item in self._turn.evidence}
        found: dict[str, ArtifactReference] = {}
        for reference in self._proposed.retrieved_artifacts:
            name = reference.artifact_id
            if name in known:
                found[name] = ArtifactReference(artifact_id=name, provenance=known[name])
            else:
                self._note(f"retrieved_artifacts: unknown evidence: {name}")
        return tuple(found.values())

    # --- rules ----------------------------------------------------------------------------------

    def _constraints(self) -> tuple[StandingConstraint, ...]:
        turn = self._turn
        proposed = {_key(item.text): item.text for item in self._proposed.constraints}
        standing: list[StandingConstraint] = []
        for constraint in turn.rule_based.constraints:
            if _key(constraint.text) in proposed:
                standing.append(constraint)
            elif self._is_revoked(constraint):
                self._changes.append(self._describe_change("lifted", constraint.text))
            else:
                standing.append(constraint)
                self._note(f"constraints: restored an omitted rule: {constraint.text}")
        known = {
            _key(item.text) for item in (*turn.rule_based.constraints, *turn.earlier.constraints)
        }
        added = self._added([text for key, text in proposed.items() if key not in known])
        room = LIMITS["constraints"].items - len(standing)
        # The first constraints are dropped first: those that only the model identified.
        return (*added[: max(0, room)], *standing)

    def _describe_change(self, change: str, rule: str) -> str:
        line = f"turn {self._turn.signal.turn_id}: {change}: {rule}"
        return line[: LIMITS["episodic_trace"].characters].rstrip()

    def _is_revoked(self, constraint: StandingConstraint) -> bool:
        turn = self._turn
        if constraint not in turn.earlier.constraints or constraint.set_by != turn.signal.author:
            return False
        return any(
            may_revoke(sentence, constraint.text)
            and not any(revokes(sentence, other.text) for other in turn.earlier.constraints)
            for sentence in turn.direct
        )

    def _added(self, texts: Sequence[str]) -> list[StandingConstraint]:
        turn = self._turn
        most = LIMITS["constraints"].characters
        known = {_key(constraint.text) for constraint in turn.rule_based.constraints}
        found: dict[str, StandingConstraint] = {}
        for text in texts:
            sentence = one_line(next((s for s in turn.direct if _may_set(s, text)), ""))
            if not sentence or len(sentence) > most or len(found) == _MAX_ADDED_RULES:
                self._note(f"constraints: not set in this turn: {text}")
            elif _key(sentence) not in known:
                found[sentence] = StandingConstraint(text=sentence, set_by=turn.signal.author)
                self._changes.append(self._describe_change("rule set", sentence))
        return list(found.values())


def _may_set(sentence: str, text: str) -> bool:
    """Return True if a sentence can be the rule that a model copied."""
    if not contains_text(sentence, text) or len(terms(text)) * 2 < len(terms(sentence)):
        return False
    read = read_rule(sentence)
    once = read is not None and read.once
    silent = is_question(sentence) or is_hearsay(sentence) or states_goal(sentence)
    return not (once or silent or is_revocation(sentence))


def _claims(text: str) -> bool:
    return is_statement(text) and not is_question(text)


def _spelled_out(kind: str, text: str) -> str:
    """Return a relation as a sentence: `owns(Ana, db-1)` becomes "Ana owns db-1"."""
    first, _, rest = text.partition(",")
    return f"{first} {kind} {rest}".replace("_", " ")


def _is_about_rules(text: str) -> bool:
    return is_directive(text) or is_revocation(text)


def _is_reported(item: str) -> bool:
    return item.startswith(f"{_REPORTED}(")


def _as_reported(text: str) -> str:
    most = LIMITS["relational_map"].characters - len(_REPORTED) - 2
    return f"{_REPORTED}({text[:most].rstrip()})"


def _key(text: str) -> str:
    return one_line(text).casefold()
