"""Cards: one document that clients of both generations can read, and the form that is signed."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from acc.adapters.a2a.wire.json_fields import decode, encode, remote_response, require_text
from acc.adapters.a2a.wire.v1_types import Shape
from acc.domain.value_objects.agent_card import (
    JSONRPC,
    AgentCard,
    Extension,
    Interface,
    Provider,
    Skill,
)

#: The name that 1.0 gives to each type, and what becomes of its fields.
_FORMS: Mapping[str, tuple[str, Mapping[str, str]]] = {
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
_FLOWS = ("authorizationCode", "clientCredentials", "deviceCode", "implicit", "password")


def to_v1_scheme(scheme: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scheme as 1.0 writes it; one of no type that 1.0 knows is empty there."""
    form = _FORMS.get(scheme.get("type", ""))
    if form is None:
        return {}
    name, fields = form
    scheme = single_flow(scheme)
    return {name: {theirs: scheme[ours] for ours, theirs in fields.items() if scheme.get(ours)}}


def to_merged_scheme(scheme: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scheme in both forms side by side."""
    return {**single_flow(scheme), **to_v1_scheme(scheme)}


def single_flow(scheme: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a scheme with one OAuth flow, which is all that 1.0 has room for: the safest."""
    flows = scheme.get("flows")
    if not isinstance(flows, Mapping) or len(flows) < 2:
        return scheme
    chosen = next((name for name in _FLOWS if name in flows), None)
    return {**scheme, "flows": {} if chosen is None else {chosen: flows[chosen]}}


def to_openapi_scheme(scheme: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scheme that was written in either form, or in both, as OpenAPI writes it."""
    for kind, (name, fields) in _FORMS.items():
        held = scheme.get(name)
        if isinstance(held, Mapping) and scheme.get("type") in (None, kind):
            known = {ours: held[theirs] for ours, theirs in fields.items() if theirs in held}
            return {"type": kind, **known}
    names = {name for name, _ in _FORMS.values()}
    return {key: value for key, value in scheme.items() if key not in names}


PROTOCOL_V03 = "0.3"
_LEGACY_VERSION = "0.3.0"


class InterfaceShape(Shape):
    """An address, in the words of either generation."""

    url: str | None = None
    protocol_binding: str | None = None
    protocol_version: str | None = None
    tenant: str | None = None
    transport: str | None = None


class ExtensionShape(Shape):
    """An extension."""

    uri: str | None = None
    description: str | None = None
    required: bool | None = None
    params: dict[str, Any] | None = None


class CapabilitiesShape(Shape):
    """What an agent can do beyond answering."""

    streaming: bool | None = None
    push_notifications: bool | None = None
    extended_agent_card: bool | None = None
    extensions: list[ExtensionShape] | None = None


class SkillShape(Shape):
    """A skill."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    tags: list[str] | None = None
    examples: list[str] | None = None
    input_modes: list[str] | None = None
    output_modes: list[str] | None = None


class ProviderShape(Shape):
    """Who runs the agent."""

    organization: str | None = None
    url: str | None = None


class CardShape(Shape):
    """A card with the fields of both generations."""

    name: str | None = None
    description: str | None = None
    version: str | None = None
    supported_interfaces: list[InterfaceShape] | None = None
    url: str | None = None
    preferred_transport: str | None = None
    protocol_version: str | None = None
    additional_interfaces: list[InterfaceShape] | None = None
    capabilities: CapabilitiesShape | None = None
    supports_authenticated_extended_card: bool | None = None
    provider: ProviderShape | None = None
    documentation_url: str | None = None
    icon_url: str | None = None
    security_schemes: dict[str, dict[str, Any]] | None = None
    security_requirements: list[dict[str, Any]] | None = None
    security: list[dict[str, Any]] | None = None
    default_input_modes: list[str] | None = None
    default_output_modes: list[str] | None = None
    skills: list[SkillShape] | None = None
    signatures: list[dict[str, Any]] | None = None


_card = msgspec.json.Decoder(CardShape)
_PLAIN_TEXT = ("text/plain",)


def write_public_card(card: AgentCard) -> bytes:
    """Return the card that clients of both generations read."""
    return encode(merged_card(card))


@remote_response
def read_card(data: bytes) -> AgentCard:
    """Return a card that was written for 1.0, for 0.3, or for both; RemoteFailed if it is none."""
    return parse_card(data)


def card_content(card: AgentCard) -> dict[str, Any]:
    """Return what is signed of a card: its 1.0 form without signatures and without defaults."""
    content: dict[str, Any] = {
        "name": card.name,
        "description": card.description,
        "version": card.version,
        "supportedInterfaces": [_interface(interface) for interface in card.interfaces],
        "capabilities": _capabilities(card),
        "defaultInputModes": list(card.input_modes),
        "defaultOutputModes": list(card.output_modes),
        "skills": [_skill(skill) for skill in card.skills],
    }
    if card.provider is not None:
        content["provider"] = {
            "organization": card.provider.organization,
            "url": card.provider.url,
        }
    schemes = {name: to_v1_scheme(scheme) for name, scheme in card.security_schemes.items()}
    optional = {
        "documentationUrl": card.documentation_url,
        "iconUrl": card.icon_url,
        "securitySchemes": schemes,
        "securityRequirements": [_requirement(needed) for needed in card.security],
    }
    return content | _present(optional)


def merged_card(card: AgentCard) -> dict[str, Any]:
    """Return a card with the fields of both generations, those of 0.3 if it is spoken at all."""
    document = card_content(card)
    if card.security_schemes:
        document["securitySchemes"] = {
            name: to_merged_scheme(scheme) for name, scheme in card.security_schemes.items()
        }
    if card.signatures:
        document["signatures"] = [dict(signature) for signature in card.signatures]
    legacy = [interface for interface in card.interfaces if interface.version == PROTOCOL_V03]
    if not legacy:
        return document
    document |= {
        "protocolVersion": _LEGACY_VERSION,
        "url": legacy[0].url,
        "preferredTransport": legacy[0].binding,
        "additionalInterfaces": [
            {"url": interface.url, "transport": interface.binding} for interface in legacy
        ],
        "supportsAuthenticatedExtendedCard": card.extended_card,
    }
    if card.security:
        document["security"] = [
            {name: list(scopes) for name, scopes in needed.items()} for needed in card.security
        ]
    return document


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _interface(interface: Interface) -> dict[str, Any]:
    written = {
        "url": interface.url,
        "protocolBinding": interface.binding,
        "protocolVersion": interface.version,
    }
    return written | _present({"tenant": interface.tenant})


def _capabilities(card: AgentCard) -> dict[str, Any]:
    extensions = [
        _present(
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
    } | _present({"extensions": extensions})


def _skill(skill: Skill) -> dict[str, Any]:
    written = {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "tags": list(skill.tags),
    }
    optional = {
        "examples": list(skill.examples),
        "inputModes": list(skill.input_modes),
        "outputModes": list(skill.output_modes),
    }
    return written | _present(optional)


def _requirement(needed: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {"schemes": {name: _present({"list": list(held)}) for name, held in needed.items()}}


def parse_card(data: bytes) -> AgentCard:
    """Return a card, InvalidInput if it is none."""
    shape = decode(_card, data, "card")
    can = shape.capabilities or CapabilitiesShape()
    schemes = shape.security_schemes or {}
    return AgentCard(
        name=require_text(shape.name, "name"),
        description=shape.description or "",
        version=shape.version or "",
        interfaces=_interfaces(shape),
        skills=tuple(_skill_from(skill) for skill in shape.skills or ()),
        input_modes=_modes(shape.default_input_modes),
        output_modes=_modes(shape.default_output_modes),
        streaming=bool(can.streaming),
        push_notifications=bool(can.push_notifications),
        extended_card=bool(can.extended_agent_card or shape.supports_authenticated_extended_card),
        extensions=tuple(
            Extension(
                uri=held.uri or "",
                description=held.description or "",
                required=bool(held.required),
                params=held.params or {},
            )
            for held in can.extensions or ()
        ),
        provider=_provider(shape.provider),
        documentation_url=shape.documentation_url or "",
        icon_url=shape.icon_url or "",
        security_schemes={name: to_openapi_scheme(scheme) for name, scheme in schemes.items()},
        security=_security(shape.security_requirements or shape.security or ()),
        signatures=tuple(shape.signatures or ()),
    )


def _modes(modes: list[str] | None) -> tuple[str, ...]:
    return _PLAIN_TEXT if modes is None else tuple(modes)


def _provider(shape: ProviderShape | None) -> Provider | None:
    if shape is None:
        return None
    return Provider(organization=shape.organization or "", url=shape.url or "")


def _generation(version: str | None) -> str:
    """Return the generation that a version belongs to; patches make no difference."""
    return ".".join((version or PROTOCOL_V03).split(".")[:2])


def _interfaces(shape: CardShape) -> tuple[Interface, ...]:
    if shape.supported_interfaces:
        return tuple(
            Interface(
                url=require_text(held.url, f"supportedInterfaces[{index}].url"),
                binding=held.protocol_binding or held.transport or JSONRPC,
                version=_generation(held.protocol_version or shape.protocol_version or "1.0"),
                tenant=held.tenant or "",
            )
            for index, held in enumerate(shape.supported_interfaces)
        )
    version = _generation(shape.protocol_version)
    spoken = [(require_text(shape.url, "url"), shape.preferred_transport or JSONRPC)]
    for index, held in enumerate(shape.additional_interfaces or ()):
        url = require_text(held.url, f"additionalInterfaces[{index}].url")
        spoken.append((url, held.transport or JSONRPC))
    return tuple(
        Interface(url=url, binding=binding, version=version)
        for url, binding in dict.fromkeys(spoken)
    )


def _skill_from(shape: SkillShape) -> Skill:
    return Skill(
        id=shape.id or shape.name or "",
        name=shape.name or shape.id or "",
        description=shape.description or "",
        tags=tuple(shape.tags or ()),
        examples=tuple(shape.examples or ()),
        input_modes=tuple(shape.input_modes or ()),
        output_modes=tuple(shape.output_modes or ()),
    )


def _security(needs: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, tuple[str, ...]], ...]:
    return tuple(
        {name: _scopes(held) for name, held in _schemes(needed).items()} for needed in needs
    )


def _schemes(needed: Mapping[str, Any]) -> Mapping[str, Any]:
    schemes = needed.get("schemes")
    return schemes if isinstance(schemes, Mapping) else needed


def _scopes(held: Any) -> tuple[str, ...]:
    if isinstance(held, Mapping):
        held = held.get("list")
    return tuple(str(scope) for scope in held) if isinstance(held, list) else ()
