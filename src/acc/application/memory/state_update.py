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
#: Constraints of one task are dropped after this number of turns.
_ONCE_TURNS = 6
#: A change with fewer characters is stored together with the rule that it changes.
_SELF_CONTAINED_LENGTH = 40
#: Minimum probability of the link from a correction to the earlier fact.
_MIN_LINK = 0.3
#: The same for a changed or lifted rule; higher, because hiding a rule by mistake is worse.
_MIN_RULE_LINK = 0.45
#: Minimum probability that a change is a rule, if it does not replace a rule.
_MIN_RULE = 0.7
#: Minimum probability of a lift that becomes an open question if its rule is not found.
_MIN_QUESTION = 0.5
#: Weights of rules and of constraints of one task in the score of a note; a fact has 1.
_RULE_WEIGHT = 2.0
_ONCE_WEIGHT = 0.3
#: Rules with at least this probability are all equally certain: the oldest is dropped first.
_CERTAIN = 0.9
#: Places of the acts in `Reading.words`.
_SET, _CHANGE = map(tuple(Act).index, (Act.SET, Act.CHANGE))
#: A notice about dropped rules names so many of them, each up to this number of characters.
_MAX_NOTICE_RULES = 4
_NOTICE_RULE_LENGTH = 40
#: A notice may use one part in so many of the tokens for rules.
_NOTICE_SHARE = 4
#: Tokens of the field name and the level that are rendered around a notice.
_NOTICE_FRAME_TOKENS = 8
#: Number of words at the start of a sentence that are its subject if nothing ends it.
_SUBJECT_WORDS = 3
#: A number, or a code such as P4 or db-1.
_CODE = re.compile(r"[A-Za-z_-]*\d[\w.-]*")
#: A run of one Japanese script, or a word, number or time of another script.
_TOKEN = re.compile(
    r"[一-龠々]+|[ァ-ヶー]+|[ぁ-ん]+"
    r"|[^\W一-龠々ァ-ヶーぁ-ん]+(?:[.:,'’/-][^\W一-龠々ァ-ヶーぁ-ん]+)*"
)
#: A label such as "Milk:" at the start of a sentence.
_LABEL = re.compile(r"^[^:：]{1,40}[:：](?!\d)")
#: What ends a subject, the most certain first: "leaves" is also a noun.
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
    """Rules and notes after the sentences of one turn.

    A rule is the user's sentence, word for word. Only its author can change or lift it. `retired`
    has the ids of superseded sentences, `changes` describes the turn, and `uncertain` lists what
    the agent should ask about.
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
                self._set(sentence.text, reading.words)
            case Act.CHANGE | Act.CORRECT:
                rules = len(self.constraints)
                is_new = self._is_new_subject(sentence.text, reading)
                old = "" if is_new else self._supersede(reading)
                # A sentence that replaces a rule is a rule.
                if len(self.constraints) < rules or _is_rule(reading):
                    # A change of a rule is certainly a rule, so its words are not needed.
                    words = () if len(self.constraints) < rules else reading.words
                    self._set(_changed_rule_text(sentence.text, old), words, replaced=old)
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
        if not target:
            return False
        # A changed rule may have other words in several places.
        is_other = _has_other_subject if reading.act is Act.CORRECT else _has_other_code
        return is_other(text, target)

    def finish(self) -> None:
        """Keep the rules and notes that matter most, in the order of the conversation."""
        if len(self.notes) > MAX_NOTES:
            best = sorted(self.notes, key=lambda note: (note.score, note.turn_id))[-MAX_NOTES:]
            chosen = {note.id for note in best}
            self.notes = [note for note in self.notes if note.id in chosen]
        surplus = len(self.constraints) - LIMITS["constraints"].items
        for rule in least_certain_first(self.constraints, self.rule_words)[: max(surplus, 0)]:
            self.constraints.remove(rule)
            self.dropped.append(f"constraints: {rule.text}")
            self.uncertain.append(f"no longer kept, there are too many rules: {rule.text}")
        known = self.rule_words
        self.rule_words = {rule.text: known.get(rule.text, ()) for rule in self.constraints}

    def _set(self, text: str, words: tuple[int, ...], *, replaced: str = "") -> None:
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
        """Remove the sentence that a reading refers to; return its text, or "" if not found."""
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


def least_certain_first(
    rules: Iterable[StandingConstraint], words: Mapping[str, tuple[int, ...]]
) -> list[StandingConstraint]:
    """Return rules in the order in which they are dropped: uncertain ones, then the oldest.

    `words` are the `Reading.words` of the rules by text. A rule without them is certain.
    """
    return sorted(rules, key=lambda rule: _certainty(rule, words))


def _certainty(rule: StandingConstraint, words: Mapping[str, tuple[int, ...]]) -> float:
    known = words.get(rule.text)
    if not known:
        return _CERTAIN
    return min((known[_SET] + known[_CHANGE]) / sum(known), _CERTAIN)


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
        return fit_to_budget(shown, limit, count)
    ordered = least_certain_first(shown.constraints, words)
    certain = [rule for rule in ordered if _certainty(rule, words) >= _CERTAIN]
    reduced, dropped, tokens = fit_to_budget(_with_rules(shown, ordered), limit, count)
    if set(certain) <= set(reduced.constraints):
        return FittedState(_in_order(reduced, shown), dropped, tokens)
    limit = max(limit, certain_limit)
    notice_limit = limit // _NOTICE_SHARE
    room = max(limit - notice_limit - _NOTICE_FRAME_TOKENS, MIN_BUDGET_TOKENS)
    reduced, dropped, tokens = fit_to_budget(_with_rules(shown, certain), room, count)
    uncertain = [f"constraints: {rule.text}" for rule in ordered if rule not in certain]
    dropped = (*uncertain, *dropped)
    reduced = _in_order(reduced, shown)
    missing = [rule.text for rule in certain if rule not in reduced.constraints]
    if not missing:
        return FittedState(reduced, dropped, tokens)
    notice = _notice(missing, notice_limit, count)
    unconfirmed = (*reduced.uncertainty_signal.unconfirmed, notice)
    signal = UncertaintySignal(level=UncertaintyLevel.MEDIUM, unconfirmed=unconfirmed)
    reported = replace_state(reduced, uncertainty_signal=signal)
    size = count(render_prompt(reported))
    # A very small budget cannot contain the notice.
    if size <= limit:
        return FittedState(reported, dropped, size)
    return FittedState(reduced, dropped, tokens)


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

    "Ben's phone number is 9876." does not correct "Anna's phone number is 1234.". Such sentences
    share half of their words, or a third if both begin with a label such as "Ben:". The other
    words are replaced, some in the subject and some after it.
    """
    if _has_other_code(new, old):
        return True
    sentences = (new, old)
    if max(map(len, sentences)) > MAX_SENTENCE_LENGTH:
        return False
    tokens = [list(_TOKEN.finditer(sentence)) for sentence in sentences]
    words = [[token[0].casefold() for token in found] for found in tokens]
    codes = SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes()
    same = sum(end - start for kind, start, end, *_ in codes if kind == "equal")
    share = 3 if all(map(_LABEL.match, sentences)) else 2
    places = [code for code in codes if code[0] != "equal"]
    if share * same < max(map(len, words)) or not places:
        return False
    if any(kind != "replace" for kind, *_ in places):
        return False
    (_, first_new, _, first_old, _), (_, _, last_new, _, last_old) = places[0], places[-1]
    ranges = ((first_new, last_new), (first_old, last_old))
    return all(
        found[first].start() < _subject_end(sentence, found) < found[last - 1].end()
        for sentence, found, (first, last) in zip(sentences, tokens, ranges, strict=True)
    )


def _subject_end(sentence: str, tokens: Sequence[re.Match[str]]) -> int:
    """Return where the first words of a sentence end that say what it is about."""
    for pattern in _SUBJECT_ENDS:
        if (match := pattern.search(sentence)) is not None:
            return match.end() if pattern is _LABEL else match.start()
    return tokens[min(len(tokens), _SUBJECT_WORDS) - 1].end()


def _is_rule(reading: Reading) -> bool:
    """Return True if a change is certain enough to be a rule."""
    scores = reading.scores
    return scores.get(Act.SET, 0.0) + scores.get(Act.CHANGE, 0.0) >= _MIN_RULE


def _stands_alone(correction: str, earlier: str) -> bool:
    """Return True if a correction can be understood without the sentence that it corrects."""
    new, old = terms(correction), terms(earlier)
    shared = len(new & old)
    return shared >= 1 and 3 * shared >= len(old)


def _lasting_act(reading: Reading) -> Act:
    """Return the act of a note. A note that is probably a rule must not expire."""
    scores = reading.scores
    if reading.act is Act.ONCE and scores.get(Act.SET, 0.0) > scores.get(Act.ONCE, 0.0):
        return Act.SET
    return reading.act


def _score(reading: Reading) -> float:
    """Return how much a sentence matters later: rules most, constraints of one answer least."""
    scores = reading.scores
    rule = sum(scores.get(act, 0.0) for act in (Act.SET, Act.CHANGE, Act.LIFT))
    fact = scores.get(Act.STATE, 0.0) + scores.get(Act.CORRECT, 0.0)
    return round(_RULE_WEIGHT * rule + fact + _ONCE_WEIGHT * scores.get(Act.ONCE, 0.0), 4)


def _changed_rule_text(new: str, old: str) -> str:
    if not old or len(new) >= _SELF_CONTAINED_LENGTH:
        return new
    return f"{new} (instead of: {old})"
