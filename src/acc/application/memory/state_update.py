"""Apply what the reader read in a turn to the rules and notes of an ACC memory."""

import re
from collections.abc import Iterable, Mapping, Sequence

from acc.application.memory.passages import passage_id
from acc.domain.ccs import LIMITS
from acc.domain.language import one_line, terms
from acc.domain.segmentation import Sentence
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.ccs import StandingConstraint
from acc.domain.value_objects.memory import Note, TurnSignal, sentence_id
from acc.domain.value_objects.reading import Act, Reading

MAX_NOTES = 64
RULE_PREFIX = "rule:"
#: Minimum score of a sentence to become a note.
_MIN_SCORE = 0.15
#: Constraints of one task are forgotten after so many turns.
_ONCE_TURNS = 6
#: A change that is shorter than this is shown with the rule that it changes.
_SELF_CONTAINED_LENGTH = 40
#: Minimum probability of the earlier fact that a sentence corrects.
_MIN_LINK = 0.3
#: The same for a rule that is changed or lifted: hiding a rule by mistake is worse.
_MIN_RULE_LINK = 0.45
#: Minimum probability of a rule, if a change does not take the place of one.
_MIN_RULE = 0.7
#: Minimum probability of a lift without an earlier sentence to become an open question.
_MIN_QUESTION = 0.5
#: A probable rule is shown before a fact that is less than so many times as probable.
_RULE_WEIGHT = 2.0
_ONCE_WEIGHT = 0.3
#: The words at the start of a sentence that name what it is about.
_SUBJECT_WORDS = 3
#: A number, or a code such as P4 or db-1.
_CODE = re.compile(r"[A-Za-z_-]*\d[\w.-]*")


class StateUpdate:
    """Rules and notes after the sentences of one turn.

    A rule is the user's sentence, word for word. Only its author can change or lift it. `retired`
    are the passages of superseded sentences, `changes` describe the turn, and `uncertain` is what
    the agent should ask about.
    """

    def __init__(
        self,
        signal: TurnSignal,
        *,
        constraints: Iterable[StandingConstraint],
        notes: Sequence[Note],
        texts: Mapping[str, str],
    ) -> None:
        self.constraints = list(constraints)
        self.notes = [note for note in notes if not _is_over(note, signal.turn_id)]
        self.retired: list[str] = []
        self.changes: list[str] = []
        self.uncertain: list[str] = []
        self.dropped: list[str] = []
        self.messages: list[str] = []
        self._signal = signal
        #: Texts of notes and of recalled sentences by id.
        self._texts = texts

    def apply(self, sentence: Sentence, reading: Reading) -> None:
        """Apply one sentence."""
        signal = self._signal
        note = Note(
            id=sentence_id(passage_id(signal.turn_id, 0), sentence.start, sentence.end),
            turn_id=signal.turn_id,
            act=_lasting_act(reading),
            score=_score(reading),
            words=reading.words,
        )
        match reading.act:
            case Act.SET:
                self._set(sentence.text)
            case Act.CHANGE | Act.CORRECT if not self._is_new_subject(sentence.text, reading):
                rules = len(self.constraints)
                old = self._supersede(reading)
                # What takes the place of a rule is a rule.
                if len(self.constraints) < rules or _is_rule(reading):
                    self._set(_changed(sentence.text, old), replaced=old)
                elif old:
                    self.changes.append(f"corrected: {old}")
                    if self.retired and not _stands_alone(sentence.text, old):
                        note = replace(note, replaced=self.retired[-1])
            case Act.LIFT:
                old = self._supersede(reading)
                if old:
                    self.changes.append(f"lifted: {old}")
                    return
                if reading.confidence >= _MIN_QUESTION:
                    self.uncertain.append(f"which rule is withdrawn: {sentence.text}")
        if note.score >= _MIN_SCORE:
            line = one_line(sentence.text)
            self.notes = [n for n in self.notes if self._texts.get(n.id) != line]
            self.notes.append(note)

    def _is_new_subject(self, text: str, reading: Reading) -> bool:
        target = self._texts.get(reading.target, "")
        return bool(target) and _is_about_another_thing(text, target)

    def finish(self) -> None:
        """Keep the notes that matter most, in the order of the conversation."""
        if len(self.notes) > MAX_NOTES:
            best = sorted(self.notes, key=lambda note: (note.score, note.turn_id))[-MAX_NOTES:]
            chosen = {note.id for note in best}
            self.notes = [note for note in self.notes if note.id in chosen]
        limit = LIMITS["constraints"].items
        self.dropped += [f"constraints: {rule.text}" for rule in self.constraints[:-limit]]
        self.constraints = self.constraints[-limit:]

    def _set(self, text: str, *, replaced: str = "") -> None:
        limit = LIMITS["constraints"].characters
        line = one_line(text)
        if len(line) > limit:
            self.dropped.append(f"constraints: the end of a rule of {len(line)} characters")
            line = line[: limit - 3].rstrip() + "..."
        if any(rule.text.casefold() == line.casefold() for rule in self.constraints):
            return
        self.constraints.append(StandingConstraint(text=line, set_by=self._signal.author))
        self.changes.append(f"replaced: {replaced}" if replaced else f"rule set: {line}")

    def _supersede(self, reading: Reading) -> str:
        """Remove the sentence that a reading refers to; return its text, empty if there is none."""
        text = self._texts.get(reading.target, "")
        rules = [rule for rule in self.constraints if rule.text == one_line(text)]
        is_fact = reading.act is Act.CORRECT and not rules
        if not text or reading.target_score < (_MIN_LINK if is_fact else _MIN_RULE_LINK):
            return ""
        for rule in rules:
            if rule.set_by != self._signal.author:
                author = self._signal.author
                self.messages.append(
                    f"{author} cannot change a rule that {rule.set_by} set: {rule.text}"
                )
                return ""
            self.constraints.remove(rule)
        for note in [n for n in self.notes if self._texts.get(n.id) == text]:
            self.notes.remove(note)
            self.retired.append(note.id)
        if not reading.target.startswith(RULE_PREFIX):
            self.retired.append(reading.target)
        return text


def _is_about_another_thing(new: str, old: str) -> bool:
    """Return True if two sentences start with different numbers or codes of the same kind.

    "Item 5 weighs 15 kg." states a fact about another item than "Item 4 weighs 14 kg.".
    """
    subjects = [_subject(new), _subject(old)]
    kinds = [_CODE.sub("#", subject) for subject in subjects]
    return subjects[0] != subjects[1] and kinds[0] == kinds[1]


def _subject(sentence: str) -> str:
    """Return the start of a sentence: the topic in Japanese, else the first words."""
    topic, particle, _ = sentence.partition("は")
    text = topic if particle else " ".join(sentence.split()[:_SUBJECT_WORDS])
    return text.casefold()


def _is_rule(reading: Reading) -> bool:
    """Return True if a change is certain enough to be a rule."""
    scores = reading.scores
    return scores.get(Act.SET, 0.0) + scores.get(Act.CHANGE, 0.0) >= _MIN_RULE


def _stands_alone(correction: str, earlier: str) -> bool:
    """Return True if a correction can be understood without the sentence that it corrects."""
    new, old = terms(correction), terms(earlier)
    shared = len(new & old)
    return shared >= 1 and 3 * shared >= len(old)


def by_importance(notes: Sequence[Note]) -> list[int]:
    """Return the places of notes, the most important first; newer ones first if they are equal."""
    order = [(note.score, note.turn_id, -place) for place, note in enumerate(notes)]
    return [-place for _, _, place in sorted(order, reverse=True)]


def _lasting_act(reading: Reading) -> Act:
    """Return the act of a note: a rule that was not certain enough to be one does not expire."""
    scores = reading.scores
    if reading.act is Act.ONCE and scores.get(Act.SET, 0.0) > scores.get(Act.ONCE, 0.0):
        return Act.SET
    return reading.act


def _is_over(note: Note, turn_id: int) -> bool:
    return note.act is Act.ONCE and turn_id - note.turn_id > _ONCE_TURNS


def _score(reading: Reading) -> float:
    """Return how much a sentence matters later: rules most, constraints of one answer least."""
    scores = reading.scores
    rule = sum(scores.get(act, 0.0) for act in (Act.SET, Act.CHANGE, Act.LIFT))
    fact = scores.get(Act.STATE, 0.0) + scores.get(Act.CORRECT, 0.0)
    return round(_RULE_WEIGHT * rule + fact + _ONCE_WEIGHT * scores.get(Act.ONCE, 0.0), 4)


def _changed(new: str, old: str) -> str:
    if not old or len(new) >= _SELF_CONTAINED_LENGTH:
        return new
    return f"{new} (instead of: {old})"
