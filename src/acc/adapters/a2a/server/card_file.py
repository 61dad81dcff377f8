"""Read the file of an agent card: the fields of A2A cards, as JSON or TOML."""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from acc.adapters.a2a.wire.card_codec import parse_requirement, to_openapi_scheme
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import CardConfig, Provider, Security, Skill

_MAX_FILE_BYTES = 1024 * 1024
#: Fields of cards that follow from the options of the server.
_DERIVED = {
    "supportedInterfaces": "--public-url",
    "additionalInterfaces": "--public-url",
    "preferredTransport": "--public-url",
    "protocolVersion": "--protocol-version",
    "signatures": "--sign-card",
}
_UNKNOWN = re.compile(
    r"Object contains unknown field `(?P<name>[^`]*)`(?: - at `\$\.?(?P<at>.*)`)?"
)
_AT = re.compile(r"(?P<text>.*) - at `\$\.?(?P<at>.*)`", re.DOTALL)


class _Struct(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    pass


class _Capabilities(_Struct, frozen=True, kw_only=True):
    streaming: bool = True
    push_notifications: bool | None = None
    state_transition_history: bool | None = None
    extended_agent_card: bool | None = None


class _Skill(_Struct, frozen=True, kw_only=True):
    id: str
    name: str
    description: str
    tags: list[str] = []
    examples: list[str] = []
    input_modes: list[str] = []
    output_modes: list[str] = []
    security: list[dict[str, Any]] = []
    security_requirements: list[dict[str, Any]] = []


class _Provider(_Struct, frozen=True, kw_only=True):
    organization: str
    url: str


class _Card(_Struct, frozen=True, kw_only=True):
    name: str = ""
    description: str = ""
    version: str = ""
    url: str = ""
    provider: _Provider | None = None
    documentation_url: str = ""
    icon_url: str = ""
    capabilities: _Capabilities = _Capabilities()
    security_schemes: dict[str, dict[str, Any]] = {}
    security: list[dict[str, Any]] = []
    security_requirements: list[dict[str, Any]] = []
    default_input_modes: list[str] = []
    default_output_modes: list[str] = []
    skills: list[_Skill] = []
    supports_authenticated_extended_card: bool | None = None
    public: tuple[str, ...] = ("*",)
    extended: tuple[str, ...] = ("*",)


def read_card_file(path: Path) -> CardConfig:
    """Return the card of a JSON or TOML file, or raise InvalidInput that names the field."""
    try:
        content = path.read_bytes()
        if len(content) > _MAX_FILE_BYTES:
            raise InvalidInput(f"card {path}: must have at most {_MAX_FILE_BYTES} bytes")
        text = content.decode()
    except OSError as error:
        raise InvalidInput(f"card {path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"card {path}: is not UTF-8 text") from None
    try:
        document = (
            tomllib.loads(text) if path.suffix.lower() == ".toml" else msgspec.json.decode(text)
        )
    except (tomllib.TOMLDecodeError, msgspec.DecodeError, RecursionError) as error:
        kind = "TOML" if path.suffix.lower() == ".toml" else "JSON"
        raise InvalidInput(f"card {path}: is not {kind} ({error})") from None
    try:
        return _to_config(msgspec.convert(document, _Card))
    except msgspec.ValidationError as error:
        raise InvalidInput(f"card {path}: {_explain(str(error))}") from None
    except InvalidInput as error:
        raise InvalidInput(f"card {path}: {error}") from None


def _explain(text: str) -> str:
    unknown = _UNKNOWN.fullmatch(text)
    if unknown is not None:
        name = unknown["name"]
        field = f"{unknown['at']}.{name}" if unknown["at"] else name
        if field in _DERIVED:
            option = _DERIVED[field]
            return f"{field}: follows from the options of the server; remove it and use {option}"
        return f"{field}: is not a field of a card; correct the name or remove it"
    located = _AT.fullmatch(text)
    return text if located is None else f"{located['at']}: {located['text']}"


def _to_config(card: _Card) -> CardConfig:
    capabilities = card.capabilities
    if not capabilities.streaming:
        raise InvalidInput("capabilities.streaming: must be true, because the server streams")
    extended = capabilities.extended_agent_card
    return CardConfig(
        name=card.name,
        description=card.description,
        version=card.version,
        url=card.url,
        provider=None
        if card.provider is None
        else Provider(organization=card.provider.organization, url=card.provider.url),
        documentation_url=card.documentation_url,
        icon_url=card.icon_url,
        skills=tuple(
            Skill(
                id=skill.id,
                name=skill.name,
                description=skill.description,
                tags=tuple(skill.tags),
                examples=tuple(skill.examples),
                input_modes=tuple(skill.input_modes),
                output_modes=tuple(skill.output_modes),
                security=_security(skill.security_requirements or skill.security),
            )
            for skill in card.skills
        ),
        input_modes=tuple(card.default_input_modes),
        output_modes=tuple(card.default_output_modes),
        security_schemes={
            name: to_openapi_scheme(scheme) for name, scheme in card.security_schemes.items()
        },
        security=_security(card.security_requirements or card.security),
        push_notifications=capabilities.push_notifications,
        extended_card=card.supports_authenticated_extended_card if extended is None else extended,
        state_transition_history=capabilities.state_transition_history,
        public=card.public,
        extended=card.extended,
    )


def _security(requirements: list[dict[str, Any]]) -> Security:
    return tuple(parse_requirement(requirement) for requirement in requirements)
