"""An agent's card: what it is, what it can do, and where and how to reach it."""

from collections.abc import Mapping
from typing import Any

from acc.domain.value_objects.base import Value

JSONRPC = "JSONRPC"
HTTP_JSON = "HTTP+JSON"


class Interface(Value, frozen=True, kw_only=True):
    """An address, the binding spoken there, and its generation: "1.0" or "0.3"."""

    url: str
    binding: str
    version: str
    tenant: str = ""


class Skill(Value, frozen=True, kw_only=True):
    """Something that an agent can do."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()


class Extension(Value, frozen=True, kw_only=True):
    """Something beyond the protocol that an agent offers or requires."""

    uri: str
    description: str = ""
    required: bool = False
    params: Mapping[str, Any] = {}


class Provider(Value, frozen=True, kw_only=True):
    """Who runs the agent."""

    organization: str
    url: str


class AgentCard(Value, frozen=True, kw_only=True):
    """A card, whatever generation it is written for.

    `security_schemes` are as 0.3 and OpenAPI write them, for instance
    `{"bearer": {"type": "http", "scheme": "bearer"}}`; `security` names those of which one is
    needed, each with its scopes.
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
    security: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    signatures: tuple[Mapping[str, Any], ...] = ()
