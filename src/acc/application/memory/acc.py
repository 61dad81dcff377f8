"""The ACC loop: recall passages, read sentences, qualify passages, commit the state, record."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as replace_state
from typing import Any

import msgspec

from acc.application.memory.evidence import (
    EvidenceSelection,
    passage_size,
    prefer_named_speakers,
)
from acc.application.memory.messages import fit_messages
from acc.application.memory.notes import choose_notes, clip_item, fact_item, rank_notes
from acc.application.memory.passages import (
    has_files,
    passage_id,
    turn_passages,
    user_sentences,
    without_sentences,
)
from acc.application.memory.state_update import RULE_PREFIX, StateUpdate, fit_rules
from acc.application.memory.turn_trace import trace_data
from acc.domain.call_options import explains_call
from acc.domain.ccs import (
    LIMITS,
    MIN_BUDGET_TOKENS,
    fit_to_budget,
    parse_state,
    render_prompt,
    render_state,
    to_payload,
    validate_state,
)
from acc.domain.entities import extract_entities
from acc.domain.errors import InvalidInput
from acc.domain.goals import states_goal
from acc.domain.language import normalize_text
from acc.domain.quotations import Origin
from acc.domain.segmentation import Sentence, split_message
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    UncertaintyLevel,
    UncertaintySignal,
    item_content,
)
from acc.domain.value_objects.content import (
    NO_USAGE,
    ChatMessage,
)
from acc.domain.value_objects.memory import (
    MAX_CUE_LENGTH,
    ConversationTurn,
    Match,
    Note,
    Passage,
    ReadSentence,
    Source,
    TurnSignal,
    TurnTrace,
    parse_sentence_id,
    passage_of_sentence,
    sentence_id,
)
from acc.domain.value_objects.reading import RULE_ACTS, Act, EarlierSentence, Reading
from acc.ports.outbound.memory_ports import (
    MemoryView,
    MeteredReaderPort,
    ReaderPort,
    RecallIndexPort,
    ReportingIndexPort,
)
from acc.ports.outbound.model_ports import ItemTokenCounterPort, TokenCounterPort

DEFAULT_BUDGET_TOKENS = 1_024
#: Maximum number of passages that are recalled for a turn.
_RECALL_LIMIT = 48
#: Share of the budget that is reserved for rules and facts before evidence is selected.
_STATE_SHARE = 0.2
#: The same in tokens: with a large budget, no more is reserved.
_MAX_STATE_TOKENS = 100
#: Largest share of the budget for rules, and the share that certain rules may use.
_RULES_SHARE = 0.25
_CERTAIN_RULES_SHARE = 0.6
#: Share of the budget that the last exchange may use, even if evidence then gets less.
_EXCHANGE_SHARE = 0.2
#: Share of the budget for evidence; a longer exchange is shortened to leave it.
_MIN_EVIDENCE_SHARE = 0.6
#: A passage is weak if its score is below this share of the best score. Facts come before it.
_WEAK_MATCH = 0.3
#: Largest share of the tokens for evidence that one message may use.
_PASSAGE_SHARE = 0.5
#: Maximum number of sentences of a message that are read.
_MAX_SENTENCES = 400
_MAX_QUOTED_SENTENCES = 20
#: Maximum number of earlier sentences that the reader gets.
_MAX_EARLIER = 40
#: Maximum number of notes and of recalled messages that these sentences come from.
_MAX_EARLIER_NOTES = 12
_MAX_EARLIER_PASSAGES = 4
_MAX_SUPERSEDED = 128
#: Items whose tokens are known; a state has about 50.
_MAX_ITEM_COUNTS = 128
_NOTE_DECODER = msgspec.json.Decoder(Note)


def _parse_note(data: object) -> Note:
    """Return a note of a snapshot: JSON as a text, or an object of an earlier version."""
    return _NOTE_DECODER.decode(data) if isinstance(data, str) else msgspec.convert(data, Note)


@explains_call(
    {"max_tokens": "budget", "budget_tokens": "budget", "model": "reader"},
    advice="acc_memory(budget=...) creates one with the shipped parts",
)
class AccMemory:
    """Memory with one bounded state that every turn replaces.

    Only `view` replaces the state: once for each message, and again if tool results of a long turn
    are shortened. The new state depends only on the turn, the previous state and the recalled
    passages, so the cost of a turn does not grow with the conversation. The state refers to
    passages; a view shows their text for one turn.
    """

    def __init__(
        self,
        *,
        reader: ReaderPort,
        index: RecallIndexPort,
        tokens: TokenCounterPort,
        budget: int = DEFAULT_BUDGET_TOKENS,
        owned_resources: Sequence[object] = (),
    ) -> None:
        """Create an empty memory; `aclose` closes `owned_resources`."""
        fit_to_budget(CompressedCognitiveState(), budget, tokens.count)
        self._reader = reader
        self._index = index
        # These checks are slow, so they are made once and not in every turn.
        self._metered = reader if isinstance(reader, MeteredReaderPort) else None
        self._reporting = index if isinstance(index, ReportingIndexPort) else None
        self._count = tokens.count
        self._item_counter = tokens if isinstance(tokens, ItemTokenCounterPort) else None
        #: The tokens of items that the texts of the last states had.
        self._item_tokens: dict[str, int] = {}
        self._budget = budget
        self.owned_resources = tuple(owned_resources)
        self._state = CompressedCognitiveState()
        #: `Reading.words` of each rule, by the text of the rule; empty if unknown.
        self._rule_words: dict[str, tuple[int, ...]] = {}
        self._notes: tuple[Note, ...] = ()
        #: Texts by id: of the notes, and of the sentences that the notes replaced.
        self._texts: dict[str, str] = {}
        self._has_note_texts = True
        #: The JSON of each note, by id.
        self._stored_notes: dict[str, str] = {}
        #: The item of the state for each note, by id.
        self._facts: dict[str, str] = {}
        #: Ids of superseded sentences, which are never shown again.
        self._superseded: tuple[str, ...] = ()
        #: The same ids by the id of their passage.
        self._hidden: dict[str, list[str]] = {}
        #: Passages without their superseded sentences, by id.
        self._reduced: dict[str, Passage] = {}
        #: Ids of superseded sentences whose replacement is not in the index yet.
        self._retired: tuple[str, ...] = ()
        self._last_turn: ConversationTurn | None = None
        #: The last message that was read, and its sentences.
        self._read_text = ""
        self._read_sentences: tuple[ReadSentence, ...] = ()
        self._cue = ""
        self._fallbacks = 0

    @property
    def state(self) -> CompressedCognitiveState:
        """Return the committed state."""
        return self._state

    @property
    def fallbacks(self) -> int:
        """Return in how many turns the embedded reader replaced a model that failed."""
        return self._fallbacks

    def snapshot(self) -> Mapping[str, object]:
        """Return the committed state and the notes as JSON data."""
        return {
            "ccs": to_payload(self._state),
            "rule_words": [list(self._rule_words[rule.text]) for rule in self._state.constraints],
            "notes": self._note_data(),
            "superseded": list(self._superseded),
            "retired": list(self._retired),
        }

    def _note_data(self) -> list[str]:
        """Return the notes as JSON texts; each note is encoded once.

        A snapshot is encoded much faster if its notes are texts.
        """
        known = self._stored_notes
        self._stored_notes = {
            note.id: known.get(note.id) or msgspec.json.encode(note).decode()
            for note in self._notes
        }
        return list(self._stored_notes.values())

    def restore(self, snapshot: Mapping[str, object]) -> None:
        """Replace the state with the result of an earlier `snapshot`."""
        self._state = parse_state(snapshot["ccs"])
        words = msgspec.convert(snapshot["rule_words"], list[tuple[int, ...]])
        texts = [rule.text for rule in self._state.constraints]
        self._rule_words = dict(zip(texts, words, strict=True))
        self._notes = tuple(map(_parse_note, msgspec.convert(snapshot["notes"], list[Any])))
        self._retired = msgspec.convert(snapshot["retired"], tuple[str, ...])
        self._superseded, self._hidden, self._reduced = (), {}, {}
        self._supersede(msgspec.convert(snapshot["superseded"], tuple[str, ...]))
        self._texts, self._stored_notes, self._facts = {}, {}, {}
        self._has_note_texts = False

    async def has_turn(self, turn_id: int) -> bool:
        """Return True if the index contains a turn."""
        return bool(await self._index.get([passage_id(turn_id, 0)]))

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Commit the state of this turn; return it with the evidence and the last exchange."""
        if not isinstance(signal, TurnSignal):
            expected = 'TurnSignal(turn_id=1, text="...")'
            raise InvalidInput(f"view(...) needs {expected}, got {type(signal).__name__}")
        if signal.source is not Source.USER:
            return await self._view_of_results(signal)
        sentences = split_message(signal.text)
        direct = [s for s in sentences if s.origin is Origin.DIRECT][:_MAX_SENTENCES]
        questions = [s.text for s in direct if s.text.rstrip().endswith(("?", "？", "か。"))]
        self._cue = (" ".join(questions) or signal.text)[:MAX_CUE_LENGTH]
        recalled = await self._recall()
        await self._load_note_texts()
        earlier = self._earlier_sentences(recalled)
        readings = await self._reader.read([s.text for s in direct], earlier)
        known = {**self._texts, **{sentence.id: sentence.text for sentence in earlier}}
        update = StateUpdate(
            signal,
            constraints=self._state.constraints,
            notes=self._notes,
            texts=known,
            rule_words=self._rule_words,
        )
        for sentence, reading in zip(direct, readings, strict=True):
            update.apply(sentence, reading)
        quoted = [s.text for s in sentences if s.origin is Origin.QUOTED][:_MAX_QUOTED_SENTENCES]
        await self._add_quoted_rules_as_questions(quoted, update)
        update.finish()
        self._read_text = signal.text
        self._read_sentences = tuple(
            [
                ReadSentence(start=s.start, end=s.end, words=reading.words)
                for s, reading in zip(direct, readings, strict=True)
            ]
        )
        passage = passage_id(signal.turn_id, 0)
        known |= {sentence_id(passage, s.start, s.end): s.text for s in direct}
        self._set_notes(update.notes, known)
        self._rule_words = update.rule_words
        self._retired = tuple(update.retired)
        if update.retired:
            self._supersede(update.retired)
        base = self._base_state(signal, direct, readings, update)
        return self._commit(signal, base, recalled, tuple(readings), update)

    async def _view_of_results(self, signal: TurnSignal) -> MemoryView:
        """Commit the state again in a long turn, after tool results were shortened."""
        recalled = await self._recall()
        await self._load_note_texts()
        entry = f"turn {signal.turn_id}: tool results are shown shortened"
        base = replace_state(self._state, episodic_trace=(entry,), relational_map=())
        return self._commit(signal, base, recalled, (), None)

    async def record(self, turn: ConversationTurn) -> None:
        """Store the turn in the index, so that later turns can recall it; keep the state."""
        if not isinstance(turn, ConversationTurn):
            expected = "ConversationTurn.of(1, query, answer)"
            raise InvalidInput(f"record(...) needs {expected}, got {type(turn).__name__}")
        passages = turn_passages(turn, self._count)
        if passages and passages[0].text == self._read_text and turn.messages[0].role == "user":
            passages[0] = replace(passages[0], sentences=self._read_sentences)
        elif self._notes and self._notes[-1].turn_id == turn.turn_id:
            self._drop_unrecorded_notes(turn.turn_id, passages[0].text if passages else "")
        await self._index.add(passages)
        await self._retire(passage_id(turn.turn_id, 0))
        self._last_turn = turn

    async def aclose(self) -> None:
        """Close the connections of this memory; a later call opens them again."""
        for resource in self.owned_resources:
            close = getattr(resource, "aclose", None)
            if close is not None:
                await close()

    # Reading

    async def _recall(self) -> tuple[Match, ...]:
        matches = await self._index.search(self._cue, limit=_RECALL_LIMIT)
        return tuple(prefer_named_speakers(matches, self._cue))

    async def _load_note_texts(self) -> None:
        """Load the texts of notes that are missing after `restore` from the index."""
        if self._has_note_texts:
            return
        known = self._texts
        missing = [note.id for note in self._notes if note.id not in known]
        missing += [n.replaced for n in self._notes if n.replaced and n.replaced not in known]
        if not missing:
            return
        wanted = list(dict.fromkeys(map(passage_of_sentence, missing)))
        found = {p.id: normalize_text(p.text) for p in await self._index.get(wanted)}
        for sentence in missing:
            passage, start, end = parse_sentence_id(sentence)
            if passage in found:
                known[sentence] = " ".join(found[passage][start:end].split())

    def _set_notes(self, notes: Sequence[Note], texts: Mapping[str, str]) -> None:
        """Replace the notes; the tokens of each note are counted once."""
        self._notes = tuple([n if n.tokens else self._with_token_count(n, texts) for n in notes])
        ids = [note.id for note in notes] + [note.replaced for note in notes if note.replaced]
        try:
            self._texts, self._has_note_texts = {i: texts[i] for i in ids}, True
        except KeyError:
            self._texts = {i: texts[i] for i in ids if i in texts}
            self._has_note_texts = False

    def _fact(self, note: Note) -> str:
        """Return the item of the state for a note; it does not change, so it is cached."""
        fact = self._facts.get(note.id)
        if fact is None:
            fact = fact_item(note, self._texts)
            if not note.replaced or note.replaced in self._texts:
                self._facts[note.id] = fact
        return fact

    def _with_token_count(self, note: Note, texts: Mapping[str, str]) -> Note:
        if note.id not in texts:
            return note
        return replace(note, tokens=self._count(fact_item(note, texts)) + 2)

    def _drop_unrecorded_notes(self, turn_id: int, text: str) -> None:
        """Drop notes of a turn whose sentences are not part of its recorded message.

        The notes were read from the signal, and the recorded message may differ from it.
        """
        passage = passage_id(turn_id, 0)
        recorded = {sentence_id(passage, s.start, s.end): s.text for s in split_message(text)}
        checked = [n for n in self._notes if n.turn_id != turn_id or n.id in recorded]
        self._set_notes(checked, {**self._texts, **recorded})

    def _supersede(self, ids: Iterable[str]) -> None:
        """Add ids of superseded sentences; drop the oldest ids if there are too many."""
        merged = tuple(dict.fromkeys((*self._superseded, *ids)))[-_MAX_SUPERSEDED:]
        earlier, self._superseded, self._hidden = self._hidden, merged, {}
        for sentence in merged:
            self._hidden.setdefault(passage_of_sentence(sentence), []).append(sentence)
        self._reduced = {
            passage: reduced
            for passage, reduced in self._reduced.items()
            if self._hidden.get(passage) == earlier.get(passage)
        }

    def _earlier_sentences(self, recalled: Sequence[Match]) -> list[EarlierSentence]:
        """Return the rules, notes and recalled sentences that a new sentence may refer to."""
        texts = self._texts
        noted = [(texts[note.id], note) for note in self._notes if note.id in texts]
        found: dict[str, EarlierSentence] = {}
        for number, rule in enumerate(self._state.constraints):
            found[rule.text] = EarlierSentence(
                id=f"{RULE_PREFIX}{number}",
                text=rule.text,
                act=Act.SET,
                confidence=1.0,
                words=self._rule_words[rule.text],
            )
        for text, note in noted[: -_MAX_EARLIER_NOTES - 1 : -1]:
            if text not in found:
                found[text] = EarlierSentence(
                    id=note.id,
                    text=text,
                    act=note.act,
                    turn_id=note.turn_id,
                    confidence=min(note.score, 1.0),
                    words=note.words,
                )
        passages = [m.passage for m in recalled if m.passage.source is Source.USER]
        for passage in passages[:_MAX_EARLIER_PASSAGES]:
            for text, start, end, words in user_sentences(passage):
                found.setdefault(
                    text,
                    EarlierSentence(
                        id=sentence_id(passage.id, start, end),
                        text=text,
                        turn_id=passage.turn_id,
                        words=words,
                    ),
                )
        return list(found.values())[:_MAX_EARLIER]

    async def _add_quoted_rules_as_questions(
        self, quoted: Sequence[str], update: StateUpdate
    ) -> None:
        """Add the rules in quoted text to the open questions, because nobody confirmed them."""
        if not quoted:
            return
        update.changes.append("shown text was not adopted")
        for reading in await self._reader.read(quoted, ()):
            if reading.act in RULE_ACTS:
                update.uncertain.append(f"quoted text, not confirmed: {reading.text}")

    async def _retire(self, replacement: str) -> None:
        """Hide a passage from recall if a superseded sentence is at least 80 % of its text."""
        for old, start, end in map(parse_sentence_id, self._retired):
            found = await self._index.get([old, replacement])
            if old == replacement or len(found) < 2:
                continue
            if (end - start) * 5 >= 4 * len(normalize_text(found[0].text)):
                await self._index.retire([old], replaced_by=replacement)
        self._retired = ()

    # Commit

    def _base_state(
        self,
        signal: TurnSignal,
        direct: Sequence[Sentence],
        readings: Sequence[Reading],
        update: StateUpdate,
    ) -> CompressedCognitiveState:
        """Return the new state without facts and without references to passages."""
        facts = [r.text for r in readings if r.act in (Act.STATE, Act.CORRECT)]
        trace = [f"turn {signal.turn_id}: {change}" for change in update.changes]
        if facts:
            trace.append(f"turn {signal.turn_id}: {len(facts)} new statements")
        gist = direct[-1].text if direct else signal.text
        earlier = list(self._state.uncertainty_signal.unconfirmed)
        unconfirmed = tuple(
            clip_item(item, "uncertainty_signal")
            for item in dict.fromkeys(earlier + update.uncertain)
        )[-LIMITS["uncertainty_signal"].items :]
        level = UncertaintyLevel.MEDIUM if unconfirmed else UncertaintyLevel.LOW
        goal = self._state.goal_orientation
        for sentence in direct:
            if states_goal(sentence.text):
                goal = clip_item(sentence.text, "goal_orientation")
        return replace_state(
            self._state,
            episodic_trace=tuple(clip_item(item, "episodic_trace") for item in trace)[
                -LIMITS["episodic_trace"].items :
            ],
            semantic_gist=clip_item(gist, "semantic_gist"),
            focal_entities=self._entities(facts),
            relational_map=(),
            goal_orientation=goal,
            constraints=tuple(update.constraints),
            predictive_cue="next: answer",
            uncertainty_signal=UncertaintySignal(level=level, unconfirmed=unconfirmed),
            retrieved_artifacts=(),
        )

    def _entities(self, facts: Sequence[str]) -> tuple[str, ...]:
        if not facts:
            return self._state.focal_entities
        found = {item_content(item).casefold(): item for item in self._state.focal_entities}
        for item in (item for fact in facts for item in extract_entities(fact)):
            found.pop(item_content(item).casefold(), None)
            found[item_content(item).casefold()] = item
        return tuple(found.values())[-LIMITS["focal_entities"].items :]

    def _commit(
        self,
        signal: TurnSignal,
        base: CompressedCognitiveState,
        recalled: tuple[Match, ...],
        readings: tuple[Reading, ...],
        update: StateUpdate | None,
    ) -> MemoryView:
        rules, dropped, rules_tokens = fit_rules(
            base,
            self._rule_words,
            self._count_state,
            limit=max(int(self._budget * _RULES_SHARE), MIN_BUDGET_TOKENS),
            certain_limit=int(self._budget * _CERTAIN_RULES_SHARE),
        )
        share = min(int(self._budget * _STATE_SHARE), _MAX_STATE_TOKENS)
        ranked = rank_notes(self._notes, self._texts, rules.constraints, signal.turn_id)
        _, tokens = choose_notes(ranked, rules_tokens, share)
        available = self._budget - tokens
        exchange, exchange_tokens = self._last_exchange(available)
        room = available - exchange_tokens
        evidence = EvidenceSelection(
            superseded=self._hidden,
            current=self._without_superseded,
            last_turn=self._last_turn.turn_id if self._last_turn is not None else 0,
            max_length=max(int(room * _PASSAGE_SHARE) * 4, 80),
            count=self._count,
        )
        weak = _WEAK_MATCH * max([match.score for match in recalled], default=0.0)
        evidence.add([match for match in recalled if match.score >= weak], room)
        if any(message.is_shortened for message in exchange):
            # Give the exchange the tokens that the evidence does not need.
            exchange, exchange_tokens = self._fit_exchange(available - evidence.tokens)
        # Facts get all remaining tokens. Weak matches get the tokens that the facts do not need.
        left = self._budget - exchange_tokens - evidence.tokens
        chosen, _ = choose_notes(ranked, rules_tokens, left)
        facts = tuple(dict.fromkeys(map(self._fact, chosen)))
        text = render_prompt(replace_state(rules, relational_map=facts))
        while (tokens := self._count_state(text)) > left and facts:  # escaped text is longer
            facts = facts[1:]
            text = render_prompt(replace_state(rules, relational_map=facts))
        left = self._budget - exchange_tokens - evidence.tokens - tokens
        evidence.add(recalled, left)
        qualified = evidence.passages()
        references = tuple(
            ArtifactReference(artifact_id=p.id, provenance=f"{p.source.value} turn {p.turn_id}")
            for p in qualified[: LIMITS["retrieved_artifacts"].items]
        )
        state = replace_state(base, relational_map=facts, retrieved_artifacts=references)
        validate_state(state, previous=self._state)
        self._state = state
        usage, fallback = NO_USAGE, ""
        if self._metered is not None:
            usage, fallback = self._metered.drain_usage()
        self._fallbacks += bool(fallback)
        trace = TurnTrace(
            turn_id=signal.turn_id,
            readings=readings,
            recalled=recalled,
            qualified=tuple(qualified),
            rejected=evidence.rejected,
            committed=state,
            dropped=(*(update.dropped if update else ()), *dropped),
            notes=(
                *(update.messages if update else ()),
                *(self._reporting.drain_warnings() if self._reporting is not None else ()),
            ),
            tokens=tokens + exchange_tokens + evidence.tokens,
            usage=usage,
            fallback=fallback,
        )
        return MemoryView(
            text=text,
            messages=(*evidence.messages(qualified), *exchange),
            tokens=trace.tokens,
            trace=trace,
            detail={**trace_data(trace, render_state(state)), "snapshot": self.snapshot()},
            usage=usage,
        )

    def _count_state(self, text: str) -> int:
        """Return the tokens of the text of a state; each of its items is counted once."""
        if self._item_counter is None:
            return self._count(text)
        if len(self._item_tokens) > _MAX_ITEM_COUNTS:
            self._item_tokens = {}
        return self._item_counter.count_items(text, self._item_tokens)

    def _last_exchange(self, available: int) -> tuple[tuple[ChatMessage, ...], int]:
        """Return the last exchange and its size; it is shortened to leave room for evidence."""
        if self._last_turn is None:
            return (), 0
        if any(map(has_files, self._last_turn.messages)):
            return self._fit_exchange(available)  # a file cannot be shortened
        share = max(int(self._budget * _EXCHANGE_SHARE), MIN_BUDGET_TOKENS)
        free = available - int(self._budget * _MIN_EVIDENCE_SHARE)
        return self._fit_exchange(min(available, max(share, free)))

    def _fit_exchange(self, available: int) -> tuple[tuple[ChatMessage, ...], int]:
        messages = () if self._last_turn is None else self._last_turn.messages
        return fit_messages(messages, available, self._count)

    def _without_superseded(self, passage: Passage) -> Passage:
        """Return a passage without its superseded sentences, and with its new size."""
        reduced = self._reduced.get(passage.id)
        if reduced is None:
            places = map(parse_sentence_id, self._hidden[passage.id])
            reduced = without_sentences(passage, places)
            if reduced.text and not reduced.tokens:
                size = passage_size(reduced, len(reduced.text), self._count)
                reduced = replace(reduced, tokens=size)
            self._reduced[passage.id] = reduced
        return reduced
