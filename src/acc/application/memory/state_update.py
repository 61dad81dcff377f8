"""Apply the readings of a turn to the rules and notes of an ACC memory."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as replace_state
from difflib import SequenceMatcher

from acc.application.memory.passages import passage_id
from acc.domain.ccs import (
    LIMITS,
    MIN_BUDGET_TOKENS,
    CountTokens,
    FittedState,
    fit_to_budget,
    render_prompt,
    render_state,
)
from acc.domain.language import MAX_SENTENCE_LENGTH, one_line, terms
from acc.domain.segmentation import Sentence
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.ccs import (
    CompressedCognitiveState,
    StandingConstraint,
    UncertaintyLevel,
    UncertaintySignal,
)
from acc.domain.value_objects.memory import Note, TurnSignal, sentence_id
from acc.domain.value_objects.reading import Act, Reading

MAX_NOTES = 64
RULE_PREFIX = "rule:"
#: Minimum score of a sentence to become a note.
_MIN_SCORE = 0.15
#: Notes with the act ONCE, which constrain one answer or task, are dropped after so many turns.
_ONCE_TURNS = 6
#: A change with fewer characters is stored together with the rule that it changes.
_SELF_CONTAINED_LENGTH = 40
#: Minimum probability that a correction refers to the fact that the reader found.
_MIN_FACT_LINK = 0.3
#: Minimum probability that a change or lift refers to the rule that the reader found. It is higher
#: than for facts, because it is worse to hide a rule by mistake.
_MIN_RULE_LINK = 0.45
#: A change that replaces no rule becomes a rule if it is one with at least this probability.
_MIN_RULE_PROBABILITY = 0.7
#: A lift whose rule is not found becomes an open question if it is at least this certain.
_MIN_QUESTION_CONFIDENCE = 0.5
#: Weights in the score of a note: rules, and sentences with the act ONCE. Facts have weight 1.
_RULE_WEIGHT = 2.0
_ONCE_WEIGHT = 0.3
#: A rule with at least this probability is certain.
_CERTAIN = 0.9
#: Indexes of the acts in `Reading.words`.
_SET_INDEX, _CHANGE_INDEX = map(tuple(Act).index, (Act.SET, Act.CHANGE))
#: Maximum number of dropped rules that a notice names.
_MAX_NOTICE_RULES = 4
#: Maximum number of characters of each rule in a notice.
_NOTICE_RULE_LENGTH = 40
#: The tokens for rules are divided by this number to get the limit of a notice.
_NOTICE_DIVISOR = 4
#: Tokens of the field name and the level that are rendered around a notice.
_NOTICE_FRAME_TOKENS = 8
#: Without a pattern that ends the subject of a sentence, its first words are the subject.
_SUBJECT_WORDS = 3
#: A number, or a code such as P4 or db-1.
_CODE = re.compile(r"[A-Za-z_-]*\d[\w.-]*")
#: A word, number or time. In Japanese, characters of one script in sequence.
_WORD = re.compile(
    r"[一-龠々]+|[ァ-ヶー]+|[ぁ-ん]+"
    r"|[^\W一-龠々ァ-ヶーぁ-ん]+(?:[.:,'’/-][^\W一-龠々ァ-ヶーぁ-ん]+)*"
)
#: A label such as "Milk:" at the start of a sentence.
_LABEL = re.compile(r"^[^:：]{1,40}[:：](?!\d)")
#: Patterns that end the subject, in the order in which they are tried. Uncertain ones are last:
#: "leaves" is also a noun.
_SUBJECT_ENDS = (
    _LABEL,
    re.compile(r"\b(?:is|are|was|were|will|has|have|had)\b", re.I),
    re.compile(
        r"\b(?:costs?|takes?|lasts?|needs?|starts?|ends?|begins?|opens?|closes?|leaves|departs"
        r"|arrives|lives|weighs|earns)\b",
        re.I,
    ),
    re.compile(r"(?<=[一-龠々ァ-ヶーA-Za-z0-9])は"),
    re.compile(r"(?<=[一-龠々ァ-ヶーA-Za-z0-9])[がをにで]"),
)


class StateUpdate:
    """The rules and notes of a memory while the sentences of one turn are applied.

    A rule (`StandingConstraint`) is a sentence of the user, word for word. Only its author can
    change or lift it.
    """

    def __init__(
        self,
        signal: TurnSignal,
        *,
        constraints: Iterable[StandingConstraint],
        notes: Sequence[Note],
        texts: Mapping[str, str],
        rule_words: Mapping[str, tuple[int, ...]],
    ) -> None:
        self.constraints = list(constraints)
        #: `Reading.words` of the rules by text, empty if unknown.
        self.rule_words = dict(rule_words)
        oldest = signal.turn_id - _ONCE_TURNS
        self.notes = [n for n in notes if n.act is not Act.ONCE or n.turn_id >= oldest]
        #: Ids of superseded sentences.
        self.retired: list[str] = []
        #: What the turn changed, for the trace of the state.
        self.changes: list[str] = []
        #: Open questions of the agent.
        self.uncertain: list[str] = []
        #: Items that did not fit.
        self.dropped: list[str] = []
        #: Rejected changes of rules.
        self.messages: list[str] = []
        self._signal = signal
        #: Texts of notes and of recalled sentences by id.
        self._texts = texts

    def apply(self, sentence: Sentence, reading: Reading) -> None:
        """Apply one sentence.

        - SET: it becomes a rule.
        - CHANGE, CORRECT: it replaces the earlier sentence. If that was a rule, or if this sentence
          probably is one, it becomes a rule.
        - LIFT: it removes the earlier sentence. If none is found, it can become an open question.
        - Other acts: the rules stay as they are.

        The sentence also becomes a note if its score suffices, but not after a successful lift.
        """
        signal = self._signal
        note = Note(
            id=sentence_id(passage_id(signal.turn_id, 0), sentence.start, sentence.end),
            turn_id=signal.turn_id,
            act=_note_act(reading),
            score=_note_score(reading),
            words=reading.words,
        )
        match reading.act:
            case Act.SET:
                self._add_rule(sentence.text, reading.words)
            case Act.CHANGE | Act.CORRECT:
                rules_before = len(self.constraints)
                is_new = self._is_new_subject(sentence.text, reading)
                old = "" if is_new else self._supersede(reading)
                replaces_rule = len(self.constraints) < rules_before
                if replaces_rule or _is_rule(reading):
                    # Without words, a rule counts as certain. One that replaces a rule is certain.
                    words = () if replaces_rule else reading.words
                    self._add_rule(_changed_rule_text(sentence.text, old), words, replaced=old)
                elif old:
                    self.changes.append(f"corrected: {old}")
                    if self.retired and not _stands_alone(sentence.text, old):
                        note = replace(note, replaced=self.retired[-1])
            case Act.LIFT:
                old = self._supersede(reading)
                if old:
                    self.changes.append(f"lifted: {old}")
                    return
                if reading.confidence >= _MIN_QUESTION_CONFIDENCE:
                    self.uncertain.append(f"which rule is withdrawn: {sentence.text}")
        if note.score >= _MIN_SCORE:
            # A repeated sentence replaces its earlier note.
            line = one_line(sentence.text)
            self.notes = [n for n in self.notes if self._texts.get(n.id) != line]
            self.notes.append(note)

    def _is_new_subject(self, text: str, reading: Reading) -> bool:
        """Return True if a sentence is about something else than the earlier sentence."""
        earlier = self._texts.get(reading.target, "")
        if not earlier:
            return False
        if reading.act is Act.CORRECT:
            return _has_other_subject(text, earlier)
        # The words of a rule and of its change often differ, so only codes are compared.
        return _has_other_code(text, earlier)

    def finish(self) -> None:
        """Drop the least important rules and notes above the limits; the order stays the same."""
        if len(self.notes) > MAX_NOTES:
            best = sorted(self.notes, key=lambda note: (note.score, note.turn_id))[-MAX_NOTES:]
            chosen = {note.id for note in best}
            self.notes = [note for note in self.notes if note.id in chosen]
        surplus = len(self.constraints) - LIMITS["constraints"].items
        for rule in least_certain_first(self.constraints, self.rule_words)[: max(surplus, 0)]:
            self.constraints.remove(rule)
            self.dropped.append(f"constraints: {rule.text}")
            self.uncertain.append(f"no longer kept, there are too many rules: {rule.text}")
        words = self.rule_words
        self.rule_words = {rule.text: words.get(rule.text, ()) for rule in self.constraints}

    def _add_rule(self, text: str, words: tuple[int, ...], *, replaced: str = "") -> None:
        """Add a rule of the author, unless the same rule exists."""
        limit = LIMITS["constraints"].characters
        line = one_line(text)
        if len(line) > limit:
            self.dropped.append(f"constraints: the end of a rule of {len(line)} characters")
            line = line[: limit - 3].rstrip() + "..."
        if any(rule.text.casefold() == line.casefold() for rule in self.constraints):
            return
        self.constraints.append(StandingConstraint(text=line, set_by=self._signal.author))
        self.rule_words[line] = words
        self.changes.append(f"replaced: {replaced}" if replaced else f"rule set: {line}")

    def _supersede(self, reading: Reading) -> str:
        """Remove the rules and notes of the sentence that a reading refers to; return its text.

        Return "" if the sentence is not found, if it is not probable that the reading refers to it,
        or if it is a rule of another author.
        """
        text = self._texts.get(reading.target, "")
        rules = [rule for rule in self.constraints if rule.text == one_line(text)]
        is_fact = reading.act is Act.CORRECT and not rules
        if not text or reading.target_score < (_MIN_FACT_LINK if is_fact else _MIN_RULE_LINK):
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
        if not reading.target.startswith(RULE_PREFIX):  # the id of a rule is not that of a sentence
            self.retired.append(reading.target)
        return text


def least_certain_first(
    rules: Iterable[StandingConstraint], words: Mapping[str, tuple[int, ...]]
) -> list[StandingConstraint]:
    """Return rules in the order in which they are dropped: uncertain ones, then certain ones.

    Uncertain rules are sorted by probability. Certain rules are sorted by age, the oldest first.
    `words` are the `Reading.words` of the rules by text. A rule without them is certain.
    """
    return sorted(rules, key=lambda rule: _certainty(rule, words))


def _certainty(rule: StandingConstraint, words: Mapping[str, tuple[int, ...]]) -> float:
    """Return the probability that a sentence is a rule; all certain rules have the same value."""
    probabilities = words.get(rule.text)
    if not probabilities:
        return _CERTAIN
    as_rule = probabilities[_SET_INDEX] + probabilities[_CHANGE_INDEX]
    return min(as_rule / sum(probabilities), _CERTAIN)


def fit_rules(
    state: CompressedCognitiveState,
    words: Mapping[str, tuple[int, ...]],
    count: CountTokens,
    *,
    limit: int,
    certain_limit: int,
) -> FittedState:
    """Return the rules, the goal and the open questions of a state within a limit of tokens.

    Uncertain rules are dropped first. If certain rules alone exceed `limit`, they may use up to
    `certain_limit` tokens. The result contains a notice about certain rules that were dropped.
    """
    shown = CompressedCognitiveState(
        constraints=state.constraints,
        goal_orientation=state.goal_orientation,
        uncertainty_signal=state.uncertainty_signal,
    )
    size = count(render_state(shown))
    if size <= limit:
        return FittedState(shown, (), size)
    if count(render_state(CompressedCognitiveState(constraints=state.constraints))) <= limit:
        return fit_to_budget(shown, limit, count)  # the goal and questions are dropped before rules
    ordered = least_certain_first(shown.constraints, words)
    certain = [rule for rule in ordered if _certainty(rule, words) >= _CERTAIN]
    reduced, dropped, tokens = fit_to_budget(_with_rules(shown, ordered), limit, count)
    if set(certain) <= set(reduced.constraints):
        return FittedState(_in_order(reduced, shown), dropped, tokens)
    fitted = _fit_certain_rules(shown, certain, count, limit=max(limit, certain_limit))
    uncertain = [f"constraints: {rule.text}" for rule in ordered if rule not in certain]
    return fitted._replace(dropped=(*uncertain, *fitted.dropped))


def _fit_certain_rules(
    shown: CompressedCognitiveState,
    certain: Sequence[StandingConstraint],
    count: CountTokens,
    *,
    limit: int,
) -> FittedState:
    """Return a state with certain rules only, and with a notice about those that do not fit."""
    notice_limit = limit // _NOTICE_DIVISOR
    rules_limit = max(limit - notice_limit - _NOTICE_FRAME_TOKENS, MIN_BUDGET_TOKENS)
    reduced, dropped, tokens = fit_to_budget(_with_rules(shown, certain), rules_limit, count)
    reduced = _in_order(reduced, shown)
    fitted = FittedState(reduced, dropped, tokens)
    missing = [rule.text for rule in certain if rule not in reduced.constraints]
    if not missing:
        return fitted
    notice = _notice(missing, notice_limit, count)
    unconfirmed = (*reduced.uncertainty_signal.unconfirmed, notice)
    signal = UncertaintySignal(level=UncertaintyLevel.MEDIUM, unconfirmed=unconfirmed)
    with_notice = replace_state(reduced, uncertainty_signal=signal)
    size = count(render_prompt(with_notice))
    # A very small budget cannot contain the notice.
    return FittedState(with_notice, dropped, size) if size <= limit else fitted


def _with_rules(
    state: CompressedCognitiveState, rules: Iterable[StandingConstraint]
) -> CompressedCognitiveState:
    return replace_state(state, constraints=tuple(rules))


def _in_order(
    reduced: CompressedCognitiveState, original: CompressedCognitiveState
) -> CompressedCognitiveState:
    """Return a reduced state with its rules in the order of the original one."""
    chosen = set(reduced.constraints)
    return _with_rules(reduced, [rule for rule in original.constraints if rule in chosen])


def _notice(rules: Sequence[str], limit: int, count: CountTokens) -> str:
    """Return a notice that asks the agent to tell the user which rules were dropped."""
    notice = f"tell the user: {len(rules)} rules have no room"
    for rule in rules[:_MAX_NOTICE_RULES]:
        longer = f'{notice}, "{rule[:_NOTICE_RULE_LENGTH].rstrip()}"'
        if count(longer) > limit:
            break
        notice = longer
    return notice


def _has_other_code(new: str, old: str) -> bool:
    """Return True if the subjects of two sentences differ only in a number or code.

    "Item 5 weighs 15 kg." does not correct "Item 4 weighs 14 kg.".
    """
    subjects = [_first_words(new), _first_words(old)]
    kinds = [_CODE.sub("#", subject) for subject in subjects]
    return subjects[0] != subjects[1] and kinds[0] == kinds[1]


def _first_words(sentence: str) -> str:
    """Return the start of a sentence: the topic in Japanese, else the first words."""
    topic, particle, _ = sentence.partition("は")
    text = topic if particle else " ".join(sentence.split()[:_SUBJECT_WORDS])
    return text.casefold()


def _has_other_subject(new: str, old: str) -> bool:
    """Return True if two sentences say the same about different things.

    "Ben's phone number is 9876." does not correct "Anna's phone number is 1234.". Three conditions
    must be met:

    - The sentences share half of their words, or a third if both begin with a label ("Ben:").
    - All other words are replaced; no word is only added or removed.
    - The replaced words begin in the subject and end after it.

    Sentences whose subjects differ only in a number or code need not meet them.
    """
    if _has_other_code(new, old):
        return True
    sentences = (new, old)
    if max(map(len, sentences)) > MAX_SENTENCE_LENGTH:
        return False
    matches = [list(_WORD.finditer(sentence)) for sentence in sentences]
    words = [[match[0].casefold() for match in found] for found in matches]
    edits = SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes()
    equal_words = sum(end - start for kind, start, end, *_ in edits if kind == "equal")
    divisor = 3 if all(map(_LABEL.match, sentences)) else 2
    changes = [edit for edit in edits if edit[0] != "equal"]
    if divisor * equal_words < max(map(len, words)) or not changes:
        return False
    if any(kind != "replace" for kind, *_ in changes):
        return False
    (_, first_new, _, first_old, _), (_, _, end_new, _, end_old) = changes[0], changes[-1]
    ranges = ((first_new, end_new), (first_old, end_old))
    return all(
        found[first].start() < _subject_end(sentence, found) < found[end - 1].end()
        for sentence, found, (first, end) in zip(sentences, matches, ranges, strict=True)
    )


def _subject_end(sentence: str, words: Sequence[re.Match[str]]) -> int:
    """Return the position in a sentence at which its subject ends."""
    for pattern in _SUBJECT_ENDS:
        if (match := pattern.search(sentence)) is not None:
            return match.end() if pattern is _LABEL else match.start()
    return words[min(len(words), _SUBJECT_WORDS) - 1].end()


def _is_rule(reading: Reading) -> bool:
    """Return True if a change is certain enough to be a rule."""
    scores = reading.scores
    return scores.get(Act.SET, 0.0) + scores.get(Act.CHANGE, 0.0) >= _MIN_RULE_PROBABILITY


def _stands_alone(correction: str, earlier: str) -> bool:
    """Return True if a correction can be understood without the sentence that it corrects."""
    new, old = terms(correction), terms(earlier)
    shared = len(new & old)
    return shared >= 1 and 3 * shared >= len(old)  # at least a third of the earlier terms


def _note_act(reading: Reading) -> Act:
    """Return the act of a note; a probable rule gets SET, because notes with ONCE expire."""
    scores = reading.scores
    if reading.act is Act.ONCE and scores.get(Act.SET, 0.0) > scores.get(Act.ONCE, 0.0):
        return Act.SET
    return reading.act


def _note_score(reading: Reading) -> float:
    """Return how much a sentence matters later: rules most, then facts, then the act ONCE."""
    scores = reading.scores
    rule = sum(scores.get(act, 0.0) for act in (Act.SET, Act.CHANGE, Act.LIFT))
    fact = scores.get(Act.STATE, 0.0) + scores.get(Act.CORRECT, 0.0)
    return round(_RULE_WEIGHT * rule + fact + _ONCE_WEIGHT * scores.get(Act.ONCE, 0.0), 4)


def _changed_rule_text(new: str, old: str) -> str:
    """Return the text of a changed rule; a short one also contains the replaced sentence."""
    if not old or len(new) >= _SELF_CONTAINED_LENGTH:
        return new
    return f"{new} (instead of: {old})"
