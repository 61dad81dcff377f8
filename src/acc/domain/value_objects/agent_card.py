"""The agent card: identity, skills and interfaces of an agent."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from acc.domain.value_objects.base import Value

JSONRPC = "JSONRPC"
HTTP_JSON = "HTTP+JSON"
GRPC = "GRPC"


class Interface(Value, frozen=True, kw_only=True):
    """A URL with its protocol binding and protocol version ("1.0" or "0.3")."""

    url: str
    binding: str
    version: str
    tenant: str = ""


#: Alternatives of security schemes, each with the scopes that it requires.
Security = tuple[Mapping[str, tuple[str, ...]], ...]


class Skill(Value, frozen=True, kw_only=True):
    """A capability of an agent.

    `security` lists the alternatives of scopes that a caller needs for it, in addition to those of
    the card: each entry maps the name of a security scheme to scopes.
    """

    id: str
    name: str
    description: str
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()
    security: Security = ()

    def is_allowed(self, permissions: Collection[str] | None) -> bool:
        """Return True if permissions cover one alternative; None covers all of them."""
        if permissions is None or not self.security:
            return True
        return any(
            all(scope in permissions for scopes in alternative.values() for scope in scopes)
            for alternative in self.security
        )


class Extension(Value, frozen=True, kw_only=True):
    """A protocol extension that an agent offers or requires."""

    uri: str
    description: str = ""
    required: bool = False
    params: Mapping[str, Any] = {}


class Provider(Value, frozen=True, kw_only=True):
    """The organisation that operates the agent."""

    organization: str
    url: str


class AgentCard(Value, frozen=True, kw_only=True):
    """An agent card, independent of the protocol version.

    `security_schemes` have the form of A2A 0.3 and OpenAPI, for instance
    `{"bearer": {"type": "http", "scheme": "bearer"}}`. `security` lists the alternatives: each
    entry maps scheme names to scopes. `state_transition_history` exists in 0.3 only; None if the
    card does not declare it.
    """

    name: str
    description: str
    version: str
    interfaces: tuple[Interface, ...]
    skills: tuple[Skill, ...] = ()
    input_modes: tuple[str, ...] = ("text/plain",)
    output_modes: tuple[str, ...] = ("text/plain",)
    streaming: bool = True
    push_notifications: bool = True
    extended_card: bool = False
    extensions: tuple[Extension, ...] = ()
    provider: Provider | None = None
    documentation_url: str = ""
    icon_url: str = ""
    security_schemes: Mapping[str, Mapping[str, Any]] = {}
    security: Security = ()
    signatures: tuple[Mapping[str, Any], ...] = ()
    state_transition_history: bool | None = None


class CardConfig(Value, frozen=True, kw_only=True):
    """What the owner of an agent declares on its card; the rest is derived from the agent.

    Without `skills`, the agent, its tools and its sub-agents are the skills. `public` and
    `extended` are patterns of the ids of skills that the public and the extended card list; a
    pattern that begins with `!` excludes: `("*", "!desk.*")`. The extended card has the declared
    and the derived skills, as far as the caller has their scopes. None as `push_notifications` or
    `extended_card` means: as the server is configured.
    """

    name: str = ""
    description: str = ""
    version: str = ""
    url: str = ""
    provider: Provider | None = None
    documentation_url: str = ""
    icon_url: str = ""
    skills: tuple[Skill, ...] = ()
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()
    security_schemes: Mapping[str, Mapping[str, Any]] = {}
    security: Security = ()
    push_notifications: bool | None = None
    extended_card: bool | None = None
    state_transition_history: bool | None = None
    public: tuple[str, ...] = ("*",)
    extended: tuple[str, ...] = ("*",)


class CardSeverity(StrEnum):
    """Severity of a finding; clients cannot use a card with an error."""

    ERROR = "error"
    WARNING = "warning"


class CardFinding(NamedTuple):
    """A problem of a card, the field that has it, and how to fix it."""

    severity: CardSeverity
    field: str
    text: str
    fix: str


def card_error(field: str, text: str, fix: str) -> CardFinding:
    """Return a finding about a field with which the card is invalid."""
    return CardFinding(CardSeverity.ERROR, field, text, fix)


def card_warning(field: str, text: str, fix: str) -> CardFinding:
    """Return a finding about a field of a valid card."""
    return CardFinding(CardSeverity.WARNING, field, text, fix)


class CardReport(Value, frozen=True, kw_only=True):
    """A card with its findings.

    `signed_by` is the kid of the key that signed the complete card, or None. `body` and `card` are
    limited to the signed content if the signature was verified.
    """

    url: str
    body: bytes
    findings: tuple[CardFinding, ...]
    card: AgentCard | None
    signed_by: str | None = None

    @property
    def is_valid(self) -> bool:
        """Return True if clients can use the card."""
        return not any(finding.severity is CardSeverity.ERROR for finding in self.findings)
