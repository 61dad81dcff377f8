"""Apply what the reader read in a turn to the rules and notes of an ACC memory."""

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
_MIN_CORRECTION = 0.6
_MIN_LINK_WITHOUT_WORDS = 0.8


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
            case Act.CHANGE:
                old = self._supersede(reading)
                self._set(_changed(sentence.text, old), replaced=old)
            case Act.LIFT:
                old = self._supersede(reading)
                if old:
                    self.changes.append(f"lifted: {old}")
                    return
                self.uncertain.append(f"which rule is withdrawn: {sentence.text}")
            case Act.CORRECT:
                old = self._supersede(reading)
                if old:
                    self.changes.append(f"corrected: {old}")
                    if self.retired and not _stands_alone(sentence.text, old):
                        note = replace(note, replaced=self.retired[-1])
        if note.score >= _MIN_SCORE:
            self.notes.append(note)

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
        if not text or not _is_similar(reading, text):
            return ""
        for rule in list(self.constraints):
            if rule.text == one_line(text):
                if rule.set_by != self._signal.author:
                    self.messages.append(
                        f"{self._signal.author} cannot change a rule that {rule.set_by} set: "
                        f"{rule.text}"
                    )
                    return ""
                self.constraints.remove(rule)
        for note in [n for n in self.notes if self._texts.get(n.id) == text]:
            self.notes.remove(note)
            self.retired.append(note.id)
        if not reading.target.startswith(RULE_PREFIX):
            self.retired.append(reading.target)
        return text


def _is_similar(reading: Reading, earlier: str) -> bool:
    """Return True if a sentence is likely enough to refer to an earlier one."""
    if reading.act is Act.CORRECT and reading.confidence < _MIN_CORRECTION:
        return False
    shared = terms(reading.text) & terms(earlier)
    return bool(shared) or reading.target_score >= _MIN_LINK_WITHOUT_WORDS


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
    """Return the probability that a sentence matters later; one-off constraints count less."""
    scores = reading.scores
    lasting = sum(
        scores.get(act, 0.0) for act in (Act.SET, Act.CHANGE, Act.STATE, Act.CORRECT, Act.LIFT)
    )
    return round(lasting + 0.3 * scores.get(Act.ONCE, 0.0), 4)


def _changed(new: str, old: str) -> str:
    if not old or len(new) >= _SELF_CONTAINED_LENGTH:
        return new
    return f"{new} (instead of: {old})"
