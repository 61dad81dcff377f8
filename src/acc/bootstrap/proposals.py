"""Annotations of recorded conversations, for the commands that propose and confirm them."""

from collections.abc import Sequence
from pathlib import Path

from acc.bootstrap.memory import RULES, make_reader
from acc.bootstrap.models import make_model
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.proposal import Decision, ProposedConversation


async def propose(
    path: Path, *, form: str = "", compressor: str = RULES
) -> tuple[ProposedConversation, ...]:
    """Return what a reader proposes for each conversation of a log."""
    from acc.adapters.evaluation.message_logs import read_logs
    from acc.application.evaluation.proposals import propose_annotations

    conversations = read_logs(path, form)
    model = None if compressor == RULES else make_model(compressor)
    try:
        reader = make_reader(model)
        return tuple([await propose_annotations(one, reader) for one in conversations])
    finally:
        if (close := getattr(model, "aclose", None)) is not None:
            await close()


def read_annotations(path: Path) -> tuple[ProposedConversation, ...]:
    """Return the annotations in a file, or raise InvalidInput."""
    from acc.adapters.evaluation import recorded_scenarios

    return recorded_scenarios.read_annotations(path)


def write_annotations(path: Path, conversations: Sequence[ProposedConversation]) -> None:
    """Write annotations to a file; an existing file is replaced in one step."""
    from acc.adapters.evaluation.recorded_scenarios import annotation_text
    from acc.adapters.reports.run_directory import write_atomically

    write_atomically(path, annotation_text(conversations).encode())


def decide(
    conversation: ProposedConversation, place: int, index: int, decision: Decision
) -> ProposedConversation:
    """Return a conversation with the decision about one proposal of one of its turns."""
    turns = list(conversation.turns)
    proposals = list(turns[place].proposals)
    proposals[index] = replace(proposals[index], decision=decision)
    turns[place] = replace(turns[place], proposals=tuple(proposals))
    return replace(conversation, turns=tuple(turns))
