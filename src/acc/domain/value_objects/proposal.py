"""Proposed annotations of a recorded conversation; only confirmed ones count.

No agent and no model may import this module; an import contract checks this.
"""

from enum import StrEnum

from acc.domain.value_objects.base import Value
from acc.domain.value_objects.format_rule import FormatRule


class ProposalKind(StrEnum):
    """What a proposal says about a message of the user."""

    #: The message sets a standing rule.
    RULE = "rule"
    #: The message replaces an earlier rule, which `id` names.
    CHANGED_RULE = "changed_rule"
    #: The message withdraws an earlier rule, which `id` names.
    LIFTED_RULE = "lifted_rule"
    #: The message sets a rule for its own answer.
    ONCE = "once"
    #: The message states a fact.
    FACT = "fact"
    #: The message corrects an earlier fact, which `id` names.
    CHANGED_FACT = "changed_fact"
    #: A correct answer contains each of the values.
    EXPECT = "expect"
    #: A correct answer contains none of the values.
    AVOID = "avoid"


class Decision(StrEnum):
    """What a person decided about a proposal."""

    PROPOSED = "proposed"
    CONFIRMED = "confirmed"
    REJECTED = "rejected"


class Proposal(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One proposed annotation of a turn."""

    kind: ProposalKind
    text: str
    id: str = ""
    rule: FormatRule | None = None
    values: tuple[str, ...] = ()
    decision: Decision = Decision.PROPOSED


class ProposedTurn(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The proposals for one message of the user; turns are numbered from 1."""

    turn: int
    query: str
    proposals: tuple[Proposal, ...] = ()


class ProposedConversation(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The turns of a conversation that have proposals."""

    id: str
    turns: tuple[ProposedTurn, ...] = ()
