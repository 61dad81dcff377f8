"""Propose annotations of recorded conversations; a person confirms or rejects them."""

import re

from acc.domain.format_rules import is_question, read_rule
from acc.domain.language import contains_text, sentences, terms, values
from acc.domain.quotations import direct_sentences
from acc.domain.value_objects.format_rule import EXCLUSIVE_KINDS, FormatRule, RuleKind
from acc.domain.value_objects.proposal import (
    Proposal,
    ProposalKind,
    ProposedConversation,
    ProposedTurn,
)
from acc.domain.value_objects.reading import Act, EarlierSentence, Reading
from acc.domain.value_objects.recorded_conversation import RecordedConversation
from acc.ports.outbound.memory_ports import ReaderPort

#: Number of earlier messages that a model reader gets.
_DIALOGUE_MESSAGES = 4
#: Minimum share of the terms of a question in a fact that may be the answer.
_MIN_QUESTION_SHARE = 0.5
_NUMBER = re.compile(
    r"\d+(?:[,.:/]\d+)*(?:千|万|億)?(?:時|分|秒|年|月|日|円|人|名|個|件|台|階|号|％|%)?"
)
_NOUN_JAPANESE = re.compile(r"は、?([^をがにでとは、。\d]{1,12}?)(?:です|だ|になります)。?$")
_RULE_KINDS = frozenset({ProposalKind.RULE, ProposalKind.CHANGED_RULE})


async def propose_annotations(
    conversation: RecordedConversation, reader: ReaderPort
) -> ProposedConversation:
    """Return rules, facts and expected answers that a reader finds in the user's messages."""
    proposer = _Proposer(reader)
    turns: list[ProposedTurn] = []
    dialogue: list[str] = []
    number = 0
    for message in conversation.messages:
        if message.role == "user":
            number += 1
            proposals = await proposer.read(number, message.text, dialogue[-_DIALOGUE_MESSAGES:])
            if proposals:
                turns.append(
                    ProposedTurn(turn=number, query=message.text, proposals=tuple(proposals))
                )
        dialogue.append(message.text)
    return ProposedConversation(id=conversation.id, turns=tuple(turns))


class _Proposer:
    """Tracks the rules and facts of one conversation, as if all proposals were confirmed."""

    def __init__(self, reader: ReaderPort) -> None:
        self._reader = reader
        self._earlier: dict[str, EarlierSentence] = {}
        self._active: dict[str, Proposal] = {}
        self._count = 0

    async def read(self, turn: int, query: str, dialogue: list[str]) -> list[Proposal]:
        """Return the proposals for one message."""
        texts = direct_sentences(query)
        readings = await self._reader.read(texts, list(self._earlier.values()), dialogue=dialogue)
        found: list[Proposal] = []
        for reading in readings:
            proposal = self._propose(reading)
            if proposal is None:
                continue
            found.append(proposal)
            if proposal.kind is ProposalKind.LIFTED_RULE:
                self._earlier.pop(proposal.id, None)
                self._active.pop(proposal.id, None)
            elif proposal.kind is not ProposalKind.ONCE:
                self._active[proposal.id] = proposal
                self._earlier[proposal.id] = EarlierSentence(
                    id=proposal.id,
                    text=reading.text,
                    act=reading.act,
                    turn_id=turn,
                    confidence=reading.confidence,
                    words=reading.words,
                )
        expected = self._expectation([text for text in sentences(query) if is_question(text)])
        return [*found, expected] if expected is not None else found

    def _propose(self, reading: Reading) -> Proposal | None:
        target = self._active.get(reading.target)
        match reading.act:
            case Act.SET:
                return self._rule(reading.text, ProposalKind.RULE)
            case Act.ONCE:
                return self._rule(reading.text, ProposalKind.ONCE)
            case Act.CHANGE | Act.CORRECT if target is not None and target.kind in _RULE_KINDS:
                return self._rule(reading.text, ProposalKind.CHANGED_RULE, target.id)
            case Act.CHANGE:
                return self._rule(reading.text, ProposalKind.RULE)
            case Act.LIFT if target is not None and target.kind in _RULE_KINDS:
                return Proposal(kind=ProposalKind.LIFTED_RULE, text=reading.text, id=reading.target)
            case Act.CORRECT if target is not None:
                return self._fact(reading.text, ProposalKind.CHANGED_FACT, target.id)
            case Act.STATE | Act.CORRECT if not is_question(reading.text):
                return self._fact(reading.text, ProposalKind.FACT)
        return None

    def _rule(self, text: str, kind: ProposalKind, earlier_id: str = "") -> Proposal:
        parsed = read_rule(text)
        rule = FormatRule(kind=RuleKind.POLICY) if parsed is None else parsed.rule
        if kind is ProposalKind.RULE and rule.kind in EXCLUSIVE_KINDS:
            # A second limit of the same kind replaces the first.
            for active in self._active.values():
                if active.rule is not None and active.rule.kind is rule.kind:
                    kind, earlier_id = ProposalKind.CHANGED_RULE, active.id
        return Proposal(kind=kind, text=text, id=earlier_id or self._new_id("rule"), rule=rule)

    def _fact(self, text: str, kind: ProposalKind, earlier_id: str = "") -> Proposal:
        return Proposal(
            kind=kind, text=text, id=earlier_id or self._new_id("fact"), values=values_in(text)
        )

    def _expectation(self, questions: list[str]) -> Proposal | None:
        """Propose the values of the fact that shares most terms with a question as its answer."""
        best: tuple[float, Proposal] | None = None
        for question in questions:
            question_terms = terms(question)
            for fact in self._active.values():
                answers = tuple(v for v in fact.values if not contains_text(question, v))
                share = len(question_terms & terms(fact.text)) / max(1, len(question_terms))
                # Of two equally similar facts, the newer one is used.
                if answers and share >= _MIN_QUESTION_SHARE and (not best or share >= best[0]):
                    best = share, Proposal(kind=ProposalKind.EXPECT, text=question, values=answers)
        return best[1] if best else None

    def _new_id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count}"


def values_in(text: str) -> tuple[str, ...]:
    """Return the numbers, identifiers and names of a text, as written and in order.

    If there are none, return the noun at the end of a Japanese sentence.
    """
    spans = [match.span() for match in _NUMBER.finditer(text)]
    for value in values(text):
        if (match := re.search(re.escape(value), text, re.IGNORECASE)) is not None:
            spans.append(match.span())
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        # The words of a name, and the parts of a time such as 15時20分, are one value.
        if merged and not text[merged[-1][1] : start].strip() and start - merged[-1][1] <= 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif not merged or start > merged[-1][1]:
            merged.append((start, end))
    found = [text[start:end] for start, end in merged]
    if not found and (noun := _NOUN_JAPANESE.search(text)) is not None:
        found = [noun[1]]
    return tuple(value for value in dict.fromkeys(found) if contains_text(text, value))
