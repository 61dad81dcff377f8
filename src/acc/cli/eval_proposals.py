"""`acc eval propose` and `acc eval confirm`: annotations of recorded conversations."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from acc.bootstrap import proposals
from acc.bootstrap.memory import compressor_name
from acc.cli.event_view import safe_text
from acc.cli.output import console, count_noun, print_error
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.proposal import Decision, Proposal, ProposalKind, ProposedConversation

_QUESTION = "Confirm? y yes, n no, s skip, q quit: "
_DECISIONS = {"y": Decision.CONFIRMED, "n": Decision.REJECTED, "s": Decision.PROPOSED}
_LABELS = {
    ProposalKind.RULE: "sets a rule",
    ProposalKind.CHANGED_RULE: "changes a rule",
    ProposalKind.LIFTED_RULE: "lifts a rule",
    ProposalKind.ONCE: "sets a rule for this answer",
    ProposalKind.FACT: "states a fact",
    ProposalKind.CHANGED_FACT: "corrects a fact",
    ProposalKind.EXPECT: "asks, and a correct answer contains",
    ProposalKind.AVOID: "asks, and a correct answer does not contain",
}


def propose(
    file: Annotated[Path, Parameter(help="The log of conversations.")],
    /,
    *,
    out: Annotated[
        Path,
        Parameter(alias="-o", help="The file of annotations to write; it must not exist."),
    ] = Path("annotations.toml"),
    replay_format: Annotated[
        str,
        Parameter(
            help="The format of the log: openai, langsmith, langfuse, events or csv. [default: "
            "detected from the content]",
            show_default=False,
        ),
    ] = "",
    compressor: Annotated[
        str,
        Parameter(
            help="What reads the messages of the user: the name of a model, or rules for the "
            "embedded reader. [default: the value of ACC_COMPRESSOR_MODEL, or rules]",
            show_default=False,
        ),
    ] = "",
) -> int:
    """Propose rules, facts and expected answers for a log of conversations.

    A proposal has no effect until a person confirms it, with acc eval confirm or in the file.

    Example: acc eval propose support.jsonl -o annotations.toml
    """
    if out.exists():
        raise InvalidInput(f"{out} already exists; its decisions would be lost. Choose another -o")
    if not out.parent.is_dir():
        raise InvalidInput(f"{out.parent} is not a directory; create it, or choose another -o")
    name = compressor_name("acc", compressor)
    found = asyncio.run(proposals.propose(file, form=replay_format, compressor=name))
    proposals.write_annotations(out, found)
    count = sum(len(turn.proposals) for one in found for turn in one.turns)
    console().print(
        f"wrote {count_noun(count, 'proposal')} for {count_noun(len(found), 'conversation')} to "
        f"{out}; next: acc eval confirm {out}",
        markup=False,
        soft_wrap=True,
    )
    return 0


def confirm(
    file: Annotated[Path, Parameter(help="The file of annotations.")],
    /,
) -> int:
    """Confirm or reject the proposals of acc eval propose one by one.

    Every decision is written at once, so the same command continues after `q` or Ctrl-C.

    Example: acc eval confirm annotations.toml
    """
    conversations = list(proposals.read_annotations(file))
    output = console()
    open_items = [
        (number, place, index)
        for number, conversation in enumerate(conversations)
        for place, turn in enumerate(conversation.turns)
        for index, proposal in enumerate(turn.proposals)
        if proposal.decision is Decision.PROPOSED
    ]
    for count, (number, place, index) in enumerate(open_items, 1):
        conversation = conversations[number]
        turn = conversation.turns[place]
        proposal = turn.proposals[index]
        title = f"\n{count} of {len(open_items)}: {conversation.id}, turn {turn.turn}"
        output.print(safe_text(title), style="bold")
        output.print(safe_text(f"message:  {turn.query}"), soft_wrap=True)
        for line in _proposal_lines(proposal):
            output.print(safe_text(line), soft_wrap=True)
        key = _ask()
        if key == "q":
            break
        conversations[number] = proposals.decide(conversation, place, index, _DECISIONS[key])
        proposals.write_annotations(file, conversations)
    output.print(decision_counts(conversations), markup=False)
    return 0


def decision_counts(conversations: Iterable[ProposedConversation]) -> str:
    """Return how many annotations are confirmed, rejected and undecided."""
    counts = Counter(
        proposal.decision
        for conversation in conversations
        for turn in conversation.turns
        for proposal in turn.proposals
    )
    return (
        f"{counts[Decision.CONFIRMED]} confirmed, {counts[Decision.REJECTED]} rejected, "
        f"{counts[Decision.PROPOSED]} undecided; only confirmed ones have an effect"
    )


def _proposal_lines(proposal: Proposal) -> list[str]:
    lines = [f"proposal: the user {_LABELS[proposal.kind]}"]
    if proposal.kind not in (ProposalKind.EXPECT, ProposalKind.AVOID):
        lines.append(f"text:     {proposal.text}")
    if proposal.rule is not None:
        parts = [proposal.rule.kind.value, str(proposal.rule.number or ""), *proposal.rule.words]
        lines.append(f"check:    {' '.join(part for part in parts if part)}")
    if proposal.values:
        lines.append(f"values:   {', '.join(proposal.values)}")
    return lines


def _ask() -> str:
    """Return the first valid key; the end of the input is `q`."""
    while True:
        console().print(_QUESTION, end="", markup=False)
        line = sys.stdin.readline()
        if not line:
            return "q"
        key = line.strip().casefold()[:1]
        if key == "q" or key in _DECISIONS:
            return key
        print_error("please enter y, n, s or q")
