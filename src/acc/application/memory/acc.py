"""The memories: the ACC loop, and beside it transcript, retrieval and the oracle."""

from collections.abc import Mapping, Set

from msgspec import to_builtins

from acc.domain.ccs import as_payload, check_limits, fit, parse_state, render_state
from acc.domain.format_rules import is_question
from acc.domain.language import Origin, said, segments, sentences, within_reach
from acc.domain.statements import Frame, frame, supersedes
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.ccs import CompressedCognitiveState
from acc.domain.value_objects.memory import Decision, Evidence, Source, TurnSignal, TurnTrace
from acc.ports.outbound.memory_ports import (
    CompressorPort,
    EvidenceStorePort,
    MemoryView,
    NotingStorePort,
    QualifierPort,
)
from acc.ports.outbound.model_ports import TokenCounterPort

DEFAULT_BUDGET = 512
_RECALL_LIMIT = 16
_SUPERSEDE_LIMIT = 6
_MOST_ARTIFACTS_A_TURN = 64
_MOST_CUE = 2_000


class AccMemory:
    """Recall, qualify, commit: one bounded state, replaced once a turn.

    Nothing else writes the state. A turn's state depends on the turn, the state before it and the
    evidence that passed the gate, so its cost does not grow with the conversation.
    """

    def __init__(
        self,
        *,
        evidence: EvidenceStorePort,
        qualifier: QualifierPort,
        compressor: CompressorPort,
        tokens: TokenCounterPort,
        budget: int = DEFAULT_BUDGET,
        recall_limit: int = _RECALL_LIMIT,
    ) -> None:
        fit(CompressedCognitiveState(), budget, tokens.count)
        self._evidence = evidence
        self._qualifier = qualifier
        self._compressor = compressor
        self._tokens = tokens
        self._budget = budget
        self._recall_limit = recall_limit
        self._state = CompressedCognitiveState()
        self._subjects = _Subjects()
        #: How many turns the rules wrote because the compressor's model could not be used.
        self.fallbacks = 0
        #: What was opened for this memory alone, and is closed with it.
        self.opened: list[object] = []

    @property
    def state(self) -> CompressedCognitiveState:
        """Return the committed state."""
        return self._state

    def snapshot(self) -> Mapping[str, object]:
        """Return the committed state as plain data."""
        return as_payload(self._state)

    def restore(self, snapshot: Mapping[str, object]) -> None:
        """Take up a state that was committed earlier."""
        self._state = parse_state(snapshot)

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Commit this turn's state and return it as the agent's whole memory."""
        recalled = await self._evidence.recall(_cue(signal), limit=self._recall_limit)
        gate = await self._qualifier.qualify(recalled, self._state, signal)
        proposal = await self._compressor.compress(signal, self._state, gate.qualified)
        state, dropped, tokens = fit(proposal.state, self._budget, self._tokens.count)
        check_limits(state)
        self._state = state
        self.fallbacks += bool(proposal.fallback)
        trace = TurnTrace(
            turn_id=signal.turn_id,
            recalled=recalled,
            qualified=gate.qualified,
            refused=gate.refused,
            committed=state,
            dropped=proposal.dropped + dropped,
            notes=proposal.notes + self._store_notes() + _unread(signal),
            tokens=tokens,
            spent=proposal.spent,
            fallback=proposal.fallback,
        )
        text = render_state(state)
        return MemoryView(
            text=text,
            tokens=tokens,
            trace=trace,
            detail=trace_fields(trace, text),
            spent=proposal.spent,
        )

    async def aclose(self) -> None:
        """Close the connections that are this memory's alone; asking again opens them."""
        for opened in self.opened:
            ending = getattr(opened, "aclose", None)
            if ending is not None:
                await ending()

    def _store_notes(self) -> tuple[str, ...]:
        store = self._evidence
        return store.take_notes() if isinstance(store, NotingStorePort) else ()

    async def keep(self, signal: TurnSignal, decision: Decision) -> None:
        """Persist the turn as evidence for later recall; the state stays as it is."""
        for artifact in artifacts_of(signal):
            await self._replace_older(artifact)
        if not decision.text:
            return
        answer = Evidence(
            id=f"{signal.place}.a",
            turn_id=signal.turn_id,
            text=decision.text[:_MOST_CUE],
            source=Source.AGENT,
            author="agent",
        )
        await self._evidence.add([answer])

    async def _replace_older(self, artifact: Evidence) -> None:
        taken = frame(artifact.text)
        if taken is None:
            await self._evidence.add([artifact])
            return
        older: dict[str, Evidence] = {}
        if artifact.trusted:
            older = {known.id: known for known in self._subjects.of(taken)}
            if taken.update:
                # It may call the same subject by nearly the same words.
                cue = " ".join(sorted(taken.subject))
                found = await self._evidence.recall(cue, limit=_SUPERSEDE_LIMIT, by_words=True)
                older |= {c.artifact.id: c.artifact for c in found if c.superseded_by is None}
        await self._evidence.add([artifact])
        replaced = {known.id for known in older.values() if supersedes(artifact.text, known.text)}
        for known_id in replaced:
            await self._evidence.supersede(known_id, artifact.id)
        self._subjects.add(taken, artifact, instead_of=replaced)


class _Subjects:
    """The newest artifacts on each subject that no other on it has replaced."""

    def __init__(self) -> None:
        # By the hash of a subject, which takes less room: whoever asks looks at the words again.
        self._known: dict[int, tuple[Evidence, ...]] = {}

    def of(self, taken: Frame) -> tuple[Evidence, ...]:
        """Return what is known on the subject of a sentence."""
        return self._known.get(hash(taken.subject), ())

    def add(self, taken: Frame, artifact: Evidence, *, instead_of: Set[str]) -> None:
        """Note an artifact, and forget those of its subject that it replaces."""
        left = [known for known in self.of(taken) if known.id not in instead_of]
        self._known[hash(taken.subject)] = (*left[1 - _SUPERSEDE_LIMIT :], artifact)


def trace_fields(trace: TurnTrace, ccs: str) -> dict[str, object]:
    """Return a loop's trace as plain data, for events, records and reports."""
    fields: dict[str, object] = {
        "ccs": ccs,
        "recalled": [c.artifact.id for c in trace.recalled],
        "qualified": [{"id": a.id, "text": a.text} for a in trace.qualified],
        "refused": [
            {
                "id": r.artifact.id,
                "text": r.artifact.text,
                "reason": r.reason.value,
                "why": r.explanation,
            }
            for r in trace.refused
        ],
        "dropped": list(trace.dropped),
        "notes": list(trace.notes),
    }
    if trace.spent.llm_calls:
        # Without the money: the same commit is free when its answer comes from a cache.
        usage = replace(trace.spent, cost=None, priced_calls=0)
        fields["compressor"] = {"usage": to_builtins(usage), "fallback": trace.fallback}
    return fields


def _unread(signal: TurnSignal) -> tuple[str, ...]:
    length = len(signal.text)
    if len(within_reach(signal.text)) >= length:
        return ()
    return (f"turn {signal.turn_id}: of {length:,} characters the middle was not read",)


def _cue(signal: TurnSignal) -> str:
    """Return what the turn asks, or all that it says where it asks nothing."""
    questions = [sentence for sentence in said(signal.text) if is_question(sentence)]
    return (" ".join(questions) or signal.text)[:_MOST_CUE]


def artifacts_of(signal: TurnSignal) -> list[Evidence]:
    """Return what a turn states, sentence by sentence; questions state nothing."""
    found: list[Evidence] = []
    for segment in segments(within_reach(signal.text)):
        for sentence in sentences(segment.text):
            if is_question(sentence):
                continue
            if len(found) == _MOST_ARTIFACTS_A_TURN:
                return found
            found.append(
                Evidence(
                    id=f"{signal.place}.{len(found) + 1}",
                    turn_id=signal.turn_id,
                    text=sentence,
                    source=signal.source,
                    quoted=segment.origin is Origin.QUOTED,
                    author=signal.author,
                )
            )
    return found
