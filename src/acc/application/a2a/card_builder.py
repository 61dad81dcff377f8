"""The card of an agent, made from the agent itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acc.application.a2a.intake import JSON, input_modes, output_modes
from acc.application.a2a.projection import INPUT_REQUEST, MEMORY_FOOTPRINT
from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import LlmAgent
from acc.domain.value_objects.agent_card import (
    HTTP_JSON,
    JSONRPC,
    AgentCard,
    Extension,
    Interface,
    Skill,
)

EXTENSIONS = (
    Extension(
        uri=INPUT_REQUEST,
        description="A task that waits for input says as data what it asks, and takes the answer "
        "as data: approve, deny, or approve with other arguments.",
    ),
    Extension(
        uri=MEMORY_FOOTPRINT,
        description="A task that is completed says in its metadata how many tokens of memory the "
        "agent was shown.",
    ),
)
BEARER: Mapping[str, Mapping[str, Any]] = {"bearer": {"type": "http", "scheme": "bearer"}}


def build_card(
    agent: BaseAgent, *, url: str, version: str, requires_auth: bool, can_push: bool
) -> AgentCard:
    """Return the card that everyone may read; `requires_auth` if callers need a token."""
    base = url.rstrip("/")
    return AgentCard(
        name=agent.name,
        description=agent.description or f"The agent {agent.name}.",
        version=version,
        interfaces=(
            Interface(url=f"{base}/", binding=JSONRPC, version="1.0"),
            Interface(url=base, binding=HTTP_JSON, version="1.0"),
            Interface(url=f"{base}/", binding=JSONRPC, version="0.3"),
            Interface(url=base, binding=HTTP_JSON, version="0.3"),
        ),
        skills=tuple(_skills(agent)),
        input_modes=input_modes(agent),
        output_modes=output_modes(agent),
        streaming=True,
        push_notifications=can_push,
        extended_card=requires_auth,
        extensions=EXTENSIONS,
        security_schemes=BEARER if requires_auth else {},
        security=({"bearer": ()},) if requires_auth else (),
    )


def extended_skills(agent: BaseAgent, card: AgentCard) -> tuple[Skill, ...]:
    """Return the skills of the whole tree, with what the tools take: for known callers alone."""
    found: dict[str, Skill] = {skill.id: skill for skill in card.skills}
    for member in agent.walk():
        for skill in _skills(member, with_arguments=True):
            found[skill.id] = skill
    return tuple(found.values())


def _skills(agent: BaseAgent, *, with_arguments: bool = False) -> Iterator[Skill]:
    yield _of_agent(agent)
    if isinstance(agent, LlmAgent):
        yield from _of_tools(agent, with_arguments)
    for child in agent.sub_agents:
        yield _of_agent(child)


def _of_agent(agent: BaseAgent) -> Skill:
    is_structured = getattr(agent, "output_schema", None) is not None
    return Skill(
        id=agent.name,
        name=_title(agent.name),
        description=agent.description or f"What the agent {agent.name} does.",
        tags=("agent", type(agent).__name__),
        output_modes=(JSON,) if is_structured else (),
    )


def _of_tools(agent: LlmAgent, with_arguments: bool) -> Iterator[Skill]:
    for tool in agent.own_tools.values():
        description = tool.description or f"The tool {tool.name} of {agent.name}."
        if with_arguments:
            named = _arguments(tool.spec.parameters)
            description += f" Arguments: {', '.join(named)}." if named else ""
        yield Skill(
            id=f"{agent.name}.{tool.name}",
            name=_title(tool.name),
            description=description,
            tags=("tool", agent.name),
        )


def _arguments(schema: Mapping[str, Any]) -> Sequence[str]:
    fields: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    return [f"{name} ({field.get('type', 'any')})" for name, field in fields.items()]


def _title(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")
