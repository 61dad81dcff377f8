"""Media types that a served agent accepts and produces."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import LlmAgent
from acc.application.runtime.run import Services
from acc.domain.value_objects.agent_card import CardConfig
from acc.domain.value_objects.content import Part
from acc.ports.outbound.model_ports import input_types

TEXT = "text/plain"
JSON = "application/json"
_BYTES = "application/octet-stream"


class Modes(NamedTuple):
    """The media types of messages to an agent and of its answers."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def served_modes(agent: BaseAgent, services: Services, config: CardConfig | None = None) -> Modes:
    """Return the media types that a server accepts: those of the card, else of the agent.

    A message does not say for which skill it is, so that the modes of all skills are accepted.
    """
    config = config or CardConfig()
    inputs = config.input_modes or input_modes(agent, services)
    outputs = config.output_modes or output_modes(agent)
    of_skills = [mode for skill in config.skills for mode in skill.input_modes]
    produced = [mode for skill in config.skills for mode in skill.output_modes]
    return Modes(
        tuple(dict.fromkeys((*inputs, *of_skills))), tuple(dict.fromkeys((*outputs, *produced)))
    )


def media_type(part: Part) -> str:
    """Return the media type of a part without its parameters."""
    declared = part.media_type and part.media_type.partition(";")[0].strip().lower()
    if declared:
        return declared
    if part.text is not None:
        return TEXT
    return _BYTES if part.raw is not None or part.url is not None else JSON


def accepts(kind: str, modes: Sequence[str]) -> bool:
    """Return True if a mode covers a media type; text/plain covers every text."""
    return kind in modes or any(
        fnmatchcase(kind, mode) or (mode == TEXT and kind.startswith("text/")) for mode in modes
    )


def input_modes(agent: BaseAgent, services: Services) -> tuple[str, ...]:
    """Return the media types that an agent accepts: its own, and files that all models accept."""
    declared = tuple(agent.input_modes)
    if agent.input_modes != BaseAgent.input_modes:
        return declared
    accepted: tuple[str, ...] | None = None
    for member in agent.walk():
        if isinstance(member, LlmAgent):
            types = input_types(services.model(member.model)) or ()
            accepted = types if accepted is None else tuple(t for t in accepted if t in types)
    return declared + tuple(f"{t}*" if t.endswith("/") else t for t in accepted or ())


def output_modes(agent: BaseAgent) -> tuple[str, ...]:
    """Return the media types that an agent produces; JSON first for structured output."""
    declared = tuple(agent.output_modes)
    if getattr(agent, "output_schema", None) is not None:
        return (JSON, *(mode for mode in declared if mode != JSON))
    return declared
