"""Build the agent card of an agent."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from acc.application.a2a.extensions import EVENT_IDS
from acc.application.a2a.media_modes import JSON, Modes, output_modes
from acc.application.a2a.projection import INPUT_REQUEST, MEMORY_FOOTPRINT
from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import LlmAgent
from acc.application.contracts.node_agents import NodeAgent
from acc.application.contracts.schemas import contract_of_agent
from acc.application.runtime.state import matches_patterns
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import (
    GRPC,
    HTTP_JSON,
    JSONRPC,
    AgentCard,
    CardConfig,
    Extension,
    Interface,
    Security,
    Skill,
)
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.contract import (
    INTENTS_EXTENSION,
    IntentContract,
    contract_to_json,
)
from acc.domain.value_objects.principal import INVOKE_SCOPE, READ_SCOPE, Principal

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
_EVENT_IDS_EXTENSION = Extension(
    uri=EVENT_IDS,
    description="Over gRPC, the metadata of each item of a stream contains the id of its event. A "
    "client that subscribes again with the metadata last-event-id gets the events after it.",
)
_MAX_SIGNED_CARDS = 100
_BEARER: Mapping[str, Mapping[str, Any]] = {"bearer": {"type": "http", "scheme": "bearer"}}
_MUTUAL_TLS: Mapping[str, Mapping[str, Any]] = {"mtls": {"type": "mutualTLS"}}


def build_card(
    agent: BaseAgent,
    *,
    url: str,
    version: str,
    requires_auth: bool,
    can_push: bool,
    modes: Modes | None = None,
    protocol_versions: Sequence[str] = PROTOCOL_VERSIONS,
    contracts: Sequence[IntentContract] = (),
    issuers: Sequence[str] = (),
    mutual_tls: bool = False,
    config: CardConfig | None = None,
    grpc_target: str = "",
) -> AgentCard:
    """Return the card with all skills that the public card may list, before `public_card`.

    `requires_auth` is True if callers need a token; `issuers` are the OIDC issuers of tokens. With
    `mutual_tls` they need a client certificate, or a token if `requires_auth`.
    `grpc_target` is HOST:PORT of the gRPC server, if there is one.
    """
    config = config or CardConfig()
    unknown = sorted(set(protocol_versions).difference(PROTOCOL_VERSIONS))
    if unknown or not protocol_versions:
        raise InvalidInput(
            f"protocol_versions must be a selection of {', '.join(PROTOCOL_VERSIONS)}, "
            f"got {', '.join(unknown) or 'none'}"
        )
    base = url.rstrip("/")
    modes = modes or Modes(tuple(agent.input_modes), output_modes(agent))
    schemes, security = _security(config, requires_auth, issuers, mutual_tls)
    return AgentCard(
        name=config.name or agent.name,
        description=config.description or agent.description or f"The agent {agent.name}.",
        version=config.version or version,
        interfaces=tuple(
            Interface(url=address, binding=binding, version=protocol_version)
            for protocol_version in PROTOCOL_VERSIONS
            if protocol_version in protocol_versions
            for address, binding in (
                (config.url or f"{base}/", JSONRPC),
                (base, HTTP_JSON),
                *([(grpc_target, GRPC)] if grpc_target else ()),
            )
        ),
        skills=config.skills or _with_security(_skills(agent), contracts, security),
        input_modes=config.input_modes or modes.inputs,
        output_modes=config.output_modes or modes.outputs,
        streaming=True,
        push_notifications=can_push,
        extended_card=(requires_auth or mutual_tls) and config.extended_card is not False,
        extensions=(
            *EXTENSIONS,
            *([_EVENT_IDS_EXTENSION] if grpc_target else ()),
            _intents_extension(contracts),
        ),
        provider=config.provider,
        documentation_url=config.documentation_url,
        icon_url=config.icon_url,
        security_schemes=schemes,
        security=security,
        state_transition_history=config.state_transition_history,
    )


def public_card(
    card: AgentCard, contracts: Sequence[IntentContract], config: CardConfig | None = None
) -> AgentCard:
    """Return a card with the skills and contracts that its owner lists for everyone."""
    patterns = CardConfig().public if config is None else config.public
    skills = tuple(skill for skill in card.skills if matches_patterns(patterns, skill.id))
    return _with_skills(card, skills, contracts)


class ExtendedCards:
    """The cards of authenticated callers: the skills for which they have the scopes.

    `sign` returns a card with its signatures.
    """

    def __init__(
        self,
        agent: BaseAgent,
        card: AgentCard,
        *,
        contracts: Sequence[IntentContract] = (),
        config: CardConfig | None = None,
        sign: Callable[[AgentCard], AgentCard],
    ) -> None:
        patterns = CardConfig().extended if config is None else config.extended
        skills = {skill.id: skill for skill in card.skills}
        derived = (skill for one in agent.walk() for skill in _skills(one, with_arguments=True))
        has_own = config is not None and bool(config.skills)
        for skill in _with_security(derived, contracts, card.security):
            if not has_own or skill.id not in skills:
                skills[skill.id] = skill
        self._card = card
        self._contracts = contracts
        self._sign = sign
        self._skills = [skill for name, skill in skills.items() if matches_patterns(patterns, name)]
        #: Signed cards by the positions of their skills.
        self._signed: dict[tuple[int, ...], AgentCard] = {}

    def card_for(self, principal: Principal) -> AgentCard:
        """Return the card of a caller."""
        allowed = principal.permissions
        visible = tuple(
            index for index, skill in enumerate(self._skills) if skill.is_allowed(allowed)
        )
        card = self._signed.get(visible)
        if card is None:
            skills = tuple(self._skills[index] for index in visible)
            card = self._sign(_with_skills(self._card, skills, self._contracts))
            if len(self._signed) < _MAX_SIGNED_CARDS:
                self._signed[visible] = card
        return card


def _with_skills(
    card: AgentCard, skills: tuple[Skill, ...], contracts: Sequence[IntentContract]
) -> AgentCard:
    """Return a card with these skills, and the contracts of these skills only."""
    listed = listed_contracts(contracts, skills)
    extensions = tuple(
        _intents_extension(listed) if extension.uri == INTENTS_EXTENSION else extension
        for extension in card.extensions
    )
    return replace(card, skills=skills, extensions=extensions)


def listed_contracts(
    contracts: Sequence[IntentContract], skills: Sequence[Skill]
) -> tuple[IntentContract, ...]:
    """Return the contracts of the skills of a card."""
    ids = {skill.id for skill in skills}
    return tuple(contract for contract in contracts if contract.name in ids)


def listed_names(names: Iterable[str], config: CardConfig) -> tuple[str, ...]:
    """Return the names of intents whose skills the public card lists."""
    own = {skill.id for skill in config.skills}
    return tuple(
        name for name in names if matches_patterns(config.public, name) and (not own or name in own)
    )


def _security(
    config: CardConfig, requires_auth: bool, issuers: Sequence[str], mutual_tls: bool
) -> tuple[Mapping[str, Mapping[str, Any]], Security]:
    if not requires_auth and not mutual_tls:
        return {}, ()
    if config.security_schemes:
        every: Security = tuple(
            {name: declared_scopes(scheme)} for name, scheme in config.security_schemes.items()
        )
        return config.security_schemes, config.security or every
    schemes: Mapping[str, Mapping[str, Any]] = {}
    security: Security = ()
    if requires_auth:
        schemes, security = _openid_security(issuers) if issuers else (_BEARER, ({"bearer": ()},))
    if mutual_tls:
        schemes, security = {**schemes, **_MUTUAL_TLS}, (*security, {"mtls": ()})
    return schemes, security


def declared_scopes(scheme: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the scopes of the flows of an OAuth2 scheme."""
    flows = scheme.get("flows")
    scopes: dict[str, None] = {}
    for flow in flows.values() if isinstance(flows, Mapping) else ():
        if isinstance(flow, Mapping) and isinstance(flow.get("scopes"), Mapping):
            scopes |= dict.fromkeys(flow["scopes"])
    return tuple(scopes)


def _with_security(
    skills: Iterable[Skill], contracts: Sequence[IntentContract], security: Security
) -> tuple[Skill, ...]:
    """Return skills with the permissions that their contracts require as scopes."""
    required = {contract.name: contract.permissions for contract in contracts}
    return tuple(
        replace(
            skill,
            security=tuple(
                dict.fromkeys(alternative, tuple(required[skill.id])) for alternative in security
            ),
        )
        if required.get(skill.id) and security
        else skill
        for skill in skills
    )


def _intents_extension(contracts: Sequence[IntentContract]) -> Extension:
    skills = {contract.name: contract_to_json(contract) for contract in contracts}
    return Extension(
        uri=INTENTS_EXTENSION,
        description="A message names a skill in its metadata and has the inputs as data. Inputs "
        "that violate the schema of the skill are rejected before a task is created.",
        params={"skills": skills} if skills else {},
    )


def _openid_security(
    issuers: Sequence[str],
) -> tuple[Mapping[str, Mapping[str, Any]], Security]:
    """Return OIDC issuers as security schemes, and the scopes of the operations."""
    names = ["oidc"] if len(issuers) == 1 else [f"oidc-{n}" for n, _ in enumerate(issuers, 1)]
    schemes = {
        name: {
            "type": "openIdConnect",
            "openIdConnectUrl": f"{issuer.rstrip('/')}/.well-known/openid-configuration",
        }
        for name, issuer in zip(names, issuers, strict=True)
    }
    return schemes, tuple({name: (INVOKE_SCOPE, READ_SCOPE)} for name in names)


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
