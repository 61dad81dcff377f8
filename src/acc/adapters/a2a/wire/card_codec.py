"""Agent cards: one document for both protocol versions, and the content that is signed."""

from collections.abc import Mapping
from typing import Any

import msgspec

from acc.adapters.a2a.wire.json_fields import decode, encode, remote_response, require_text
from acc.adapters.a2a.wire.v1_types import WireStruct
from acc.domain.value_objects.agent_card import (
    GRPC,
    JSONRPC,
    AgentCard,
    Extension,
    Interface,
    Provider,
    Security,
    Skill,
)

PROTOCOL_V03 = "0.3"
_V03_CARD_VERSION = "0.3.0"
_PLAIN_TEXT = ("text/plain",)
#: For each type of security scheme: its name in 1.0 and the names of its fields there.
_SCHEME_FORMS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "apiKey": (
        "apiKeySecurityScheme",
        {"description": "description", "in": "location", "name": "name"},
    ),
    "http": (
        "httpAuthSecurityScheme",
        {"description": "description", "scheme": "scheme", "bearerFormat": "bearerFormat"},
    ),
    "oauth2": (
        "oauth2SecurityScheme",
        {
            "description": "description",
            "flows": "flows",
            "oauth2MetadataUrl": "oauth2MetadataUrl",
        },
    ),
    "openIdConnect": (
        "openIdConnectSecurityScheme",
        {"description": "description", "openIdConnectUrl": "openIdConnectUrl"},
    ),
    "mutualTLS": ("mtlsSecurityScheme", {"description": "description"}),
}
#: OAuth flows, the safest first.
_FLOWS = ("authorizationCode", "clientCredentials", "deviceCode", "implicit", "password")


class WireAgentInterface(WireStruct):
    """An interface, with the fields of both protocol versions."""

    url: str | None = None
    protocol_binding: str | None = None
    protocol_version: str | None = None
    tenant: str | None = None
    transport: str | None = None


class WireAgentExtension(WireStruct):
    """An extension that an agent supports."""

    uri: str | None = None
    description: str | None = None
    required: bool | None = None
    params: dict[str, Any] | None = None


class WireAgentCapabilities(WireStruct):
    """The optional features of an agent."""

    streaming: bool | None = None
    push_notifications: bool | None = None
    state_transition_history: bool | None = None
    extended_agent_card: bool | None = None
    extensions: list[WireAgentExtension] | None = None


class WireAgentSkill(WireStruct):
    """A skill of an agent."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    tags: list[str] | None = None
    examples: list[str] | None = None
    input_modes: list[str] | None = None
    output_modes: list[str] | None = None
    security_requirements: list[dict[str, Any]] | None = None
    security: list[dict[str, Any]] | None = None


class WireAgentProvider(WireStruct):
    """The organization that operates an agent."""

    organization: str | None = None
    url: str | None = None


class WireAgentCard(WireStruct):
    """An agent card, with the fields of both protocol versions."""

    name: str | None = None
    description: str | None = None
    version: str | None = None
    supported_interfaces: list[WireAgentInterface] | None = None
    url: str | None = None
    preferred_transport: str | None = None
    protocol_version: str | None = None
    additional_interfaces: list[WireAgentInterface] | None = None
    capabilities: WireAgentCapabilities | None = None
    supports_authenticated_extended_card: bool | None = None
    provider: WireAgentProvider | None = None
    documentation_url: str | None = None
    icon_url: str | None = None
    security_schemes: dict[str, dict[str, Any]] | None = None
    security_requirements: list[dict[str, Any]] | None = None
    security: list[dict[str, Any]] | None = None
    default_input_modes: list[str] | None = None
    default_output_modes: list[str] | None = None
    skills: list[WireAgentSkill] | None = None
    signatures: list[dict[str, Any]] | None = None


_card_decoder = msgspec.json.Decoder(WireAgentCard)


def write_public_card(card: AgentCard) -> bytes:
    """Encode the card that clients of both protocol versions read."""
    return encode(merged_card(card))


@remote_response
def read_card(data: bytes) -> AgentCard:
    """Decode a card of either protocol version; raise RemoteFailed if it is invalid."""
    return parse_card(data)


# To the wire


def card_content(card: AgentCard) -> dict[str, Any]:
    """Return the signed content of a card: its 1.0 form without signatures and defaults."""
    content: dict[str, Any] = {
        "name": card.name,
        "description": card.description,
        "version": card.version,
        "supportedInterfaces": [_interface_document(interface) for interface in card.interfaces],
        "capabilities": _capabilities_document(card),
        "defaultInputModes": list(card.input_modes),
        "defaultOutputModes": list(card.output_modes),
        "skills": [_skill_document(skill) for skill in card.skills],
    }
    if card.provider is not None:
        content["provider"] = {
            "organization": card.provider.organization,
            "url": card.provider.url,
        }
    optional = {
        "documentationUrl": card.documentation_url,
        "iconUrl": card.icon_url,
        "securitySchemes": {
            name: _to_v1_scheme(scheme) for name, scheme in card.security_schemes.items()
        },
        "securityRequirements": _to_v1_security(card.security),
    }
    return content | _non_empty(optional)


def merged_card(card: AgentCard) -> dict[str, Any]:
    """Return a card in its 1.0 form, with the fields of 0.3 if it has an interface for 0.3."""
    document = card_content(card)
    if card.security_schemes:
        document["securitySchemes"] = {
            name: {**_with_one_flow(scheme), **_to_v1_scheme(scheme)}
            for name, scheme in card.security_schemes.items()
        }
    if card.signatures:
        document["signatures"] = [dict(signature) for signature in card.signatures]
    legacy = [interface for interface in card.interfaces if interface.version == PROTOCOL_V03]
    if not legacy:
        return document
    document |= {
        "protocolVersion": _V03_CARD_VERSION,
        "url": legacy[0].url,
        "preferredTransport": legacy[0].binding,
        "additionalInterfaces": [
            {"url": _to_v03_url(interface, legacy[0].url), "transport": interface.binding}
            for interface in legacy
        ],
        "supportsAuthenticatedExtendedCard": card.extended_card,
    }
    if card.state_transition_history is not None:
        document["capabilities"]["stateTransitionHistory"] = card.state_transition_history
    if card.security:
        document["security"] = _to_v03_security(card.security)
    for skill, entry in zip(card.skills, document["skills"], strict=True):
        if skill.security:
            entry["security"] = _to_v03_security(skill.security)
    return document


def _to_v03_url(interface: Interface, main_url: str) -> str:
    """Return the URL of an interface; in 0.3 that of gRPC is a URL too, and not HOST:PORT."""
    if interface.binding != GRPC or "://" in interface.url:
        return interface.url
    return f"{main_url.partition('://')[0]}://{interface.url}"


def _to_v1_security(security: Security) -> list[dict[str, Any]]:
    return [
        {
            "schemes": {
                name: _non_empty({"list": list(scopes)}) for name, scopes in requirement.items()
            }
        }
        for requirement in security
    ]


def _to_v03_security(security: Security) -> list[dict[str, Any]]:
    return [
        {name: list(scopes) for name, scopes in requirement.items()} for requirement in security
    ]


def _non_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _interface_document(interface: Interface) -> dict[str, Any]:
    document = {
        "url": interface.url,
        "protocolBinding": interface.binding,
        "protocolVersion": interface.version,
    }
    return document | _non_empty({"tenant": interface.tenant})


def _capabilities_document(card: AgentCard) -> dict[str, Any]:
    extensions = [
        _non_empty(
            {
                "uri": extension.uri,
                "description": extension.description,
                "required": extension.required,
                "params": dict(extension.params),
            }
        )
        for extension in card.extensions
    ]
    return {
        "streaming": card.streaming,
        "pushNotifications": card.push_notifications,
        "extendedAgentCard": card.extended_card,
    } | _non_empty({"extensions": extensions})


def _skill_document(skill: Skill) -> dict[str, Any]:
    document = {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "tags": list(skill.tags),
    }
    optional = {
        "examples": list(skill.examples),
        "inputModes": list(skill.input_modes),
        "outputModes": list(skill.output_modes),
        "securityRequirements": _to_v1_security(skill.security),
    }
    return document | _non_empty(optional)


def _to_v1_scheme(scheme: Mapping[str, Any]) -> dict[str, Any]:
    """Return a security scheme in its 1.0 form; empty if 1.0 does not define its type."""
    form = _SCHEME_FORMS.get(scheme.get("type", ""))
    if form is None:
        return {}
    name, fields = form
    scheme = _with_one_flow(scheme)
    return {name: {v1: scheme[openapi] for openapi, v1 in fields.items() if scheme.get(openapi)}}


def _with_one_flow(scheme: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a security scheme with its safest OAuth flow; 1.0 allows only one."""
    flows = scheme.get("flows")
    if not isinstance(flows, Mapping) or len(flows) < 2:
        return scheme
    name = next((name for name in _FLOWS if name in flows), None)
    return {**scheme, "flows": {} if name is None else {name: flows[name]}}


# From the wire


def parse_card(data: bytes) -> AgentCard:
    """Decode a card of either protocol version; raise InvalidInput if it is invalid."""
    card = decode(_card_decoder, data, "card")
    capabilities = card.capabilities or WireAgentCapabilities()
    schemes = card.security_schemes or {}
    provider = card.provider
    # Signatures of 1.0 do not cover fields that only 0.3 defines.
    is_v1 = card.supported_interfaces is not None
    return AgentCard(
        name=require_text(card.name, "name"),
        description=card.description or "",
        version=card.version or "",
        interfaces=_parse_interfaces(card),
        skills=tuple(_parse_skill(skill, is_v1=is_v1) for skill in card.skills or ()),
        input_modes=_parse_modes(card.default_input_modes),
        output_modes=_parse_modes(card.default_output_modes),
        streaming=bool(capabilities.streaming),
        push_notifications=bool(capabilities.push_notifications),
        extended_card=bool(
            capabilities.extended_agent_card or card.supports_authenticated_extended_card
        ),
        extensions=tuple(
            Extension(
                uri=extension.uri or "",
                description=extension.description or "",
                required=bool(extension.required),
                params=extension.params or {},
            )
            for extension in capabilities.extensions or ()
        ),
        provider=None
        if provider is None
        else Provider(organization=provider.organization or "", url=provider.url or ""),
        documentation_url=card.documentation_url or "",
        icon_url=card.icon_url or "",
        security_schemes={name: to_openapi_scheme(scheme) for name, scheme in schemes.items()},
        security=tuple(
            parse_requirement(requirement)
            for requirement in card.security_requirements or card.security or ()
        ),
        signatures=tuple(card.signatures or ()),
        state_transition_history=None if is_v1 else capabilities.state_transition_history,
    )


def _parse_modes(modes: list[str] | None) -> tuple[str, ...]:
    return _PLAIN_TEXT if modes is None else tuple(modes)


def _minor_version(version: str | None) -> str:
    """Return major and minor of a protocol version; patch versions are compatible."""
    return ".".join((version or PROTOCOL_V03).split(".")[:2])


def _parse_interfaces(card: WireAgentCard) -> tuple[Interface, ...]:
    if card.supported_interfaces:
        return tuple(
            Interface(
                url=require_text(interface.url, f"supportedInterfaces[{index}].url"),
                binding=interface.protocol_binding or interface.transport or JSONRPC,
                version=_minor_version(
                    interface.protocol_version or card.protocol_version or "1.0"
                ),
                tenant=interface.tenant or "",
            )
            for index, interface in enumerate(card.supported_interfaces)
        )
    version = _minor_version(card.protocol_version)
    addresses = [(require_text(card.url, "url"), card.preferred_transport or JSONRPC)]
    for index, interface in enumerate(card.additional_interfaces or ()):
        url = require_text(interface.url, f"additionalInterfaces[{index}].url")
        addresses.append((url, interface.transport or JSONRPC))
    return tuple(
        Interface(url=url, binding=binding, version=version)
        for url, binding in dict.fromkeys(addresses)
    )


def _parse_skill(skill: WireAgentSkill, *, is_v1: bool) -> Skill:
    security = skill.security_requirements if is_v1 else skill.security
    return Skill(
        id=skill.id or skill.name or "",
        name=skill.name or skill.id or "",
        description=skill.description or "",
        tags=tuple(skill.tags or ()),
        examples=tuple(skill.examples or ()),
        input_modes=tuple(skill.input_modes or ()),
        output_modes=tuple(skill.output_modes or ()),
        security=tuple(parse_requirement(requirement) for requirement in security or ()),
    )


def parse_requirement(requirement: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """Return a security requirement of either protocol version."""
    schemes = requirement.get("schemes")
    if not isinstance(schemes, Mapping):
        schemes = requirement
    return {name: _parse_scopes(scopes) for name, scopes in schemes.items()}


def _parse_scopes(scopes: Any) -> tuple[str, ...]:
    if isinstance(scopes, Mapping):
        scopes = scopes.get("list")
    return tuple(str(scope) for scope in scopes) if isinstance(scopes, list) else ()


def to_openapi_scheme(scheme: Mapping[str, Any]) -> dict[str, Any]:
    """Return a security scheme of either form, or of both, in its OpenAPI form."""
    for kind, (name, fields) in _SCHEME_FORMS.items():
        v1_scheme = scheme.get(name)
        if isinstance(v1_scheme, Mapping) and scheme.get("type") in (None, kind):
            known = {openapi: v1_scheme[v1] for openapi, v1 in fields.items() if v1 in v1_scheme}
            return {"type": kind, **known}
    names = {name for name, _ in _SCHEME_FORMS.values()}
    return {key: value for key, value in scheme.items() if key not in names}
