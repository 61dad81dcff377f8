"""Build the agent card of an agent."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acc.application.a2a.intake import JSON, output_modes
from acc.application.a2a.projection import INPUT_REQUEST, MEMORY_FOOTPRINT
from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import LlmAgent
from acc.application.contracts.node_agents import NodeAgent
from acc.application.contracts.schemas import contract_of_agent
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import (
    HTTP_JSON,
    JSONRPC,
    AgentCard,
    Extension,
    Interface,
    Skill,
)
from acc.domain.value_objects.contract import (
    INTENTS_EXTENSION,
    IntentContract,
    contract_to_json,
)
from acc.domain.value_objects.principal import INVOKE_SCOPE, READ_SCOPE

PROTOCOL_VERSIONS = ("1.0", "0.3")
EXTENSIONS = (
    Extension(
        uri=INPUT_REQUEST,
        description="A task that requires input contains its requests as data and accepts answers "
        "as data: approve, deny, or approve with changed arguments.",
    ),
    Extension(
        uri=MEMORY_FOOTPRINT,
        description="The metadata of a completed task contains the number of memory tokens that "
        "were shown to the agent.",
    ),
)
_BEARER: Mapping[str, Mapping[str, Any]] = {"bearer": {"type": "http", "scheme": "bearer"}}


def build_card(
    agent: BaseAgent,
    *,
    url: str,
    version: str,
    requires_auth: bool,
    can_push: bool,
    input_modes: tuple[str, ...] | None = None,
    protocol_versions: Sequence[str] = PROTOCOL_VERSIONS,
    contracts: Sequence[IntentContract] = (),
) -> AgentCard:
    """Return the public card; `requires_auth` if callers need a token."""
    unknown = sorted(set(protocol_versions).difference(PROTOCOL_VERSIONS))
    if unknown or not protocol_versions:
        raise InvalidInput(
            f"protocol_versions must be a selection of {', '.join(PROTOCOL_VERSIONS)}, "
            f"got {', '.join(unknown) or 'none'}"
        )
    base = url.rstrip("/")
    return AgentCard(
        name=agent.name,
        description=agent.description or f"The agent {agent.name}.",
        version=version,
        interfaces=tuple(
            Interface(url=address, binding=binding, version=protocol_version)
            for protocol_version in PROTOCOL_VERSIONS
            if protocol_version in protocol_versions
            for address, binding in ((f"{base}/", JSONRPC), (base, HTTP_JSON))
        ),
        skills=tuple(_skills(agent)),
        input_modes=tuple(agent.input_modes) if input_modes is None else input_modes,
        output_modes=output_modes(agent),
        streaming=True,
        push_notifications=can_push,
        extended_card=requires_auth,
        extensions=(*EXTENSIONS, _intents_extension(contracts)),
        security_schemes=_BEARER if requires_auth else {},
        security=({"bearer": ()},) if requires_auth else (),
    )


def _intents_extension(contracts: Sequence[IntentContract]) -> Extension:
    skills = {contract.name: contract_to_json(contract) for contract in contracts}
    return Extension(
        uri=INTENTS_EXTENSION,
        description="A message names a skill in its metadata and has the inputs as data. Inputs "
        "that violate the schema of the skill are rejected before a task is created.",
        params={"skills": skills} if skills else {},
    )


def openid_security(issuers: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a card that name OIDC issuers and the scopes of the operations."""
    names = ["oidc"] if len(issuers) == 1 else [f"oidc-{n}" for n, _ in enumerate(issuers, 1)]
    return {
        "security_schemes": {
            name: {
                "type": "openIdConnect",
                "openIdConnectUrl": f"{issuer.rstrip('/')}/.well-known/openid-configuration",
            }
            for name, issuer in zip(names, issuers, strict=True)
        },
        "security": tuple({name: (INVOKE_SCOPE, READ_SCOPE)} for name in names),
    }


def extended_skills(agent: BaseAgent, card: AgentCard) -> tuple[Skill, ...]:
    """Return the skills of the whole tree with tool arguments, for authenticated callers."""
    skills: dict[str, Skill] = {skill.id: skill for skill in card.skills}
    for member in agent.walk():
        for skill in _skills(member, with_arguments=True):
            skills[skill.id] = skill
    return tuple(skills.values())


def _skills(agent: BaseAgent, *, with_arguments: bool = False) -> Iterator[Skill]:
    yield _agent_skill(agent)
    if isinstance(agent, LlmAgent):
        yield from _tool_skills(agent, with_arguments)
    for child in agent.sub_agents:
        yield _agent_skill(child)


def _agent_skill(agent: BaseAgent) -> Skill:
    contract = contract_of_agent(agent)
    name = agent.name if contract is None else contract.name
    is_structured = getattr(agent, "output_schema", None) is not None
    is_structured = is_structured or isinstance(agent, NodeAgent)
    return Skill(
        id=name,
        name=_title(name),
        description=agent.description or f"The agent {agent.name}.",
        tags=("agent", type(agent).__name__),
        input_modes=() if contract is None else (JSON,),
        output_modes=(JSON,) if is_structured else (),
    )


def _tool_skills(agent: LlmAgent, with_arguments: bool) -> Iterator[Skill]:
    for tool in agent.own_tools.values():
        description = tool.description or f"The tool {tool.name} of {agent.name}."
        if with_arguments:
            properties: Mapping[str, Any] = tool.spec.parameters.get("properties", {})
            arguments = [
                f"{name} ({field.get('type', 'any')})" for name, field in properties.items()
            ]
            description += f" Arguments: {', '.join(arguments)}." if arguments else ""
        yield Skill(
            id=f"{agent.name}.{tool.name}",
            name=_title(tool.name),
            description=description,
            tags=("tool", agent.name),
        )


def _title(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")
