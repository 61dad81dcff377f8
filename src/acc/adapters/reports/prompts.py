"""What the model of each agent got in a turn, and how long the agent took.

This is stored beside the recorded turns, in `prompts/`, because times differ between equal runs.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from acc.adapters.reports.run_directory import (
    EvaluationDirectory,
    JsonLinesFile,
    LineAppender,
    RecordedEpisode,
)
from acc.domain.text import replace_surrogates_in_data
from acc.domain.value_objects.evaluation_run import EpisodeJob
from acc.domain.value_objects.live_evaluation import TurnResult

_FOLDER = "prompts"


class AgentPrompt(msgspec.Struct, frozen=True, omit_defaults=True):
    """The prompt of an agent besides the query, if it is known, and its time in seconds.

    A message is `query N` or `answer N` of an earlier turn, or a role with a text.
    """

    seconds: float | None = None
    instruction: str = ""
    memory: str = ""
    messages: tuple[str | dict[str, str], ...] = ()


class TurnPrompts(msgspec.Struct, frozen=True):
    """The prompts of one turn by agent."""

    turn: int
    agents: dict[str, AgentPrompt]


_DECODER = msgspec.json.Decoder(TurnPrompts)


def _encode(prompts: TurnPrompts) -> bytes:
    try:
        return msgspec.json.encode(prompts) + b"\n"
    except UnicodeEncodeError:
        data = replace_surrogates_in_data(msgspec.to_builtins(prompts))
        return msgspec.json.encode(data) + b"\n"


def prompt_file(run: EvaluationDirectory, job: EpisodeJob) -> JsonLinesFile[TurnPrompts]:
    """Return the file of the prompts of an episode."""
    path = run.path / _FOLDER / f"{job.name}.jsonl"
    return JsonLinesFile(path, encode=_encode, decode=_DECODER.decode)


class ObservedEpisode:
    """Implements EpisodeJournalPort: stores the prompts of each turn before the turn."""

    def __init__(self, journal: RecordedEpisode, prompts: LineAppender[TurnPrompts]) -> None:
        self._journal = journal
        self._prompts = prompts

    def read(self) -> tuple[TurnResult, ...]:
        """Return the recorded turns."""
        return self._journal.read()

    def append(self, result: TurnResult) -> None:
        """Store prompts and times, then the turn."""
        agents = {
            response.agent_name: msgspec.convert(
                {
                    "seconds": result.seconds.get(response.agent_name),
                    **response.prompt,
                },
                AgentPrompt,
            )
            for response in result.responses
        }
        self._prompts.append(TurnPrompts(result.query.turn_id, agents))
        self._journal.append(result)


def prompt_fields(
    prompt: AgentPrompt | None, texts: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    """Return time, memory and complete prompt; `texts` has role and text of named messages."""
    if prompt is None:
        return {"seconds": None, "instruction": "", "memory": "", "messages": ""}
    messages = []
    for message in prompt.messages:
        if isinstance(message, str):
            role, text = texts.get(message, ("", message))
        else:
            role, text = message["role"], message["text"]
        messages.append({"role": role, "text": text})
    return {
        "seconds": prompt.seconds,
        "instruction": prompt.instruction,
        "memory": prompt.memory,
        "messages": msgspec.json.encode(messages).decode() if messages else "",
    }
