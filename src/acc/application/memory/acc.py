"""The ACC loop: recall, qualify, commit and record one bounded state."""

from collections.abc import Mapping, Sequence, Set

from msgspec import to_builtins

from acc.application.memory.messages import fit_messages, part_text
from acc.domain.ccs import (
    MIN_BUDGET_TOKENS,
    fit_to_budget,
    parse_state,
    render_state,
    to_payload,
    validate_state,
)
from acc.domain.format_rules import is_question
from acc.domain.language import Origin, direct_sentences, omit_middle, segments, sentences
from acc.domain.statements import Frame, frame, supersedes
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.ccs import CompressedCognitiveState
from acc.domain.value_objects.content import ChatMessage
from acc.domain.value_objects.memory import (
    MAX_CUE_LENGTH,
    ConversationTurn,
    Evidence,
    Source,
    TurnSignal,
    TurnTrace,
)
from acc.ports.outbound.memory_ports import (
    CompressorPort,
    EvidenceStorePort,
    MemoryView,
    QualifierPort,
    ReportingStorePort,
)
from acc.ports.outbound.model_ports import TokenCounterPort

DEFAULT_BUDGET_TOKENS = 512
_RECALL_LIMIT = 16
_SUPERSEDE_LIMIT = 6
_MAX_EVIDENCE_PER_TURN = 64
_MAX_EVIDENCE_LENGTH = 4_000
#: The last exchange gets at least this fraction of the budget.
_MIN_EXCHANGE_SHARE = 3


class AccMemory:
    """Memory of one bounded state that is replaced once a turn.

    The state has no other write path. It depends on the turn, the previous state and the qualified
    evidence only, so the cost of a turn does not grow with the conversation.
    """

    def __init__(
        self,
        *,
        evidence: EvidenceStorePort,
        qualifier: QualifierPort,
        compressor: CompressorPort,
        tokens: TokenCounterPort,
        budget: int = DEFAULT_BUDGET_TOKENS,
        recall_limit: int = _RECALL_LIMIT,
        owned_resources: Sequence[object] = (),
    ) -> None:
        """Create an empty memory; `aclose` closes `owned_resources`."""
        fit_to_budget(CompressedCognitiveState(), budget, tokens.count)
        self._evidence = evidence
        self._qualifier = qualifier
        self._compressor = compressor
        self._tokens = tokens
        self._budget = budget
        self._recall_limit = recall_limit
        self.owned_resources = tuple(owned_resources)
        self._state = CompressedCognitiveState()
        self._subjects = _SubjectIndex()
        self._last_exchange: tuple[ChatMessage, ...] = ()
        self._fallbacks = 0

    @property
    def state(self) -> CompressedCognitiveState:
        """Return the committed state."""
        return self._state

    @property
    def fallbacks(self) -> int:
        """Return the number of turns that the rules wrote because the model failed."""
        return self._fallbacks

    def snapshot(self) -> Mapping[str, object]:
        """Return the committed state as JSON data."""
        return to_payload(self._state)

    def restore(self, snapshot: Mapping[str, object]) -> None:
        """Replace the state by one that `snapshot` returned."""
        self._state = parse_state(snapshot)

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Commit the state of this turn and return it."""
        questions = [s for s in direct_sentences(signal.text) if is_question(s)]
        cue = (" ".join(questions) or signal.text)[:MAX_CUE_LENGTH]
        recalled = await self._evidence.recall(cue, limit=self._recall_limit)
        qualification = await self._qualifier.qualify(recalled, self._state, signal)
        # Words of tools and agents are shown as their own messages, never inside the state.
        evidence = tuple(item for item in qualification.qualified if item.source is Source.USER)
        proposal = await self._compressor.compress(signal, self._state, evidence)
        state, dropped, tokens = fit_to_budget(proposal.state, self._budget, self._tokens.count)
        validate_state(state)
        self._state = state
        shown, exchange, tokens = self._fit_view(state, tokens)
        self._fallbacks += bool(proposal.fallback)
        trace = TurnTrace(
            turn_id=signal.turn_id,
            recalled=recalled,
            qualified=qualification.qualified,
            rejected=qualification.rejected,
            committed=state,
            dropped=proposal.dropped + dropped,
            notes=proposal.notes + self._store_notes() + _truncation_notes(signal),
            tokens=tokens,
            usage=proposal.usage,
            fallback=proposal.fallback,
        )
        text = render_state(shown)
        return MemoryView(
            text=text,
            messages=exchange,
            tokens=tokens,
            trace=trace,
            detail=trace_data(trace, render_state(state)),
            usage=proposal.usage,
        )

    def _fit_view(
        self, state: CompressedCognitiveState, tokens: int
    ) -> tuple[CompressedCognitiveState, tuple[ChatMessage, ...], int]:
        """Return the state and the last exchange as they are shown, and their size.

        The exchange gets what the state leaves, and at least a share of the budget.
        """
        available = max(self._budget - tokens, self._budget // _MIN_EXCHANGE_SHARE)
        exchange, size = fit_messages(self._last_exchange, available, self._tokens.count)
        if tokens + size > self._budget:
            shown = max(self._budget - size, MIN_BUDGET_TOKENS)
            state, _, tokens = fit_to_budget(state, shown, self._tokens.count)
        return state, exchange, tokens + size

    async def record(self, turn: ConversationTurn) -> None:
        """Store the turn as evidence for later recall; the state does not change."""
        self._last_exchange = turn.messages
        steps = 0
        for message in turn.messages:
            if message.role == "assistant":
                continue
            text = "\n".join(part_text(part) for part in message.parts)
            signal = TurnSignal(
                turn_id=turn.turn_id,
                text=text[:_MAX_EVIDENCE_LENGTH],
                author=message.author,
                source=Source.USER if message.role == "user" else Source.TOOL,
                step=steps,
            )
            steps += 1
            for statement in extract_evidence(signal):
                await self._add_statement(statement)
        answer = turn.messages[-1] if turn.messages else None
        if answer is None or answer.role != "assistant" or not answer.text:
            return
        await self._evidence.add(
            [
                Evidence(
                    id=f"t{turn.turn_id}.a",
                    turn_id=turn.turn_id,
                    text=answer.text[:MAX_CUE_LENGTH],
                    source=Source.AGENT,
                    author="agent",
                )
            ]
        )

    async def aclose(self) -> None:
        """Close the connections of this memory; a later call opens them again."""
        for resource in self.owned_resources:
            close = getattr(resource, "aclose", None)
            if close is not None:
                await close()

    def _store_notes(self) -> tuple[str, ...]:
        store = self._evidence
        return store.drain_notes() if isinstance(store, ReportingStorePort) else ()

    async def _add_statement(self, statement: Evidence) -> None:
        """Store a statement and mark the statements that it supersedes."""
        parsed = frame(statement.text)
        if parsed is None:
            await self._evidence.add([statement])
            return
        older: dict[str, Evidence] = {}
        if statement.trusted:
            older = {known.id: known for known in self._subjects.get(parsed)}
            if parsed.update:
                # An update may name the same subject in slightly different words.
                cue = " ".join(sorted(parsed.subject))
                matches = await self._evidence.recall(
                    cue, limit=_SUPERSEDE_LIMIT, lexical_only=True
                )
                older |= {c.evidence.id: c.evidence for c in matches if c.superseded_by is None}
        await self._evidence.add([statement])
        superseded = {
            known.id for known in older.values() if supersedes(statement.text, known.text)
        }
        for known_id in superseded:
            await self._evidence.supersede(known_id, statement.id)
        self._subjects.add(parsed, statement, superseded=superseded)


def extract_evidence(signal: TurnSignal) -> list[Evidence]:
    """Return the statements of a turn, one per sentence; questions are skipped."""
    result: list[Evidence] = []
    for segment in segments(omit_middle(signal.text)):
        for sentence in sentences(segment.text):
            if is_question(sentence):
                continue
            if len(result) == _MAX_EVIDENCE_PER_TURN:
                return result
            result.append(
                Evidence(
                    id=f"{signal.step_id}.{len(result) + 1}",
                    turn_id=signal.turn_id,
                    text=sentence,
                    source=signal.source,
                    quoted=segment.origin is Origin.QUOTED,
                    author=signal.author,
                )
            )
    return result


def trace_data(trace: TurnTrace, ccs: str) -> dict[str, object]:
    """Return a trace as JSON data, for events, records and reports."""
    data: dict[str, object] = {
        "ccs": ccs,
        "recalled": [candidate.evidence.id for candidate in trace.recalled],
        "qualified": [{"id": item.id, "text": item.text} for item in trace.qualified],
        "rejected": [
            {
                "id": rejection.evidence.id,
                "text": rejection.evidence.text,
                "reason": rejection.reason.value,
                "explanation": rejection.explanation,
            }
            for rejection in trace.rejected
        ],
        "dropped": list(trace.dropped),
        "notes": list(trace.notes),
    }
    if trace.usage.llm_calls:
        # Without the cost, which is 0 if the same response comes from a cache.
        usage = replace(trace.usage, cost=None, priced_calls=0)
        data["compressor"] = {"usage": to_builtins(usage), "fallback": trace.fallback}
    return data


class _SubjectIndex:
    """The newest statements on each subject that are not superseded."""

    def __init__(self) -> None:
        # Keyed by hash to save memory; `supersedes` compares the subjects again.
        self._statements: dict[int, tuple[Evidence, ...]] = {}

    def get(self, parsed: Frame) -> tuple[Evidence, ...]:
        """Return the statements on the subject of a sentence."""
        return self._statements.get(hash(parsed.subject), ())

    def add(self, parsed: Frame, statement: Evidence, *, superseded: Set[str]) -> None:
        """Add a statement and remove the statements that it supersedes."""
        remaining = [known for known in self.get(parsed) if known.id not in superseded]
        newest = (*remaining[1 - _SUPERSEDE_LIMIT :], statement)
        self._statements[hash(parsed.subject)] = newest


def _truncation_notes(signal: TurnSignal) -> tuple[str, ...]:
    length = len(signal.text)
    if len(omit_middle(signal.text)) >= length:
        return ()
    return (f"turn {signal.turn_id}: the middle of {length:,} characters was not read",)
