"""An agent's card, and where and on which terms a remote agent is called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.value import Value

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAddress:
    """Where a remote agent is found, and on which terms it is called.

    `url` is where its card is: a URL that ends in .json is the card itself, any other the place
    under which the well-known paths are. `token` goes to that URL's origin and to those of `trust`
    and nowhere else; "env:NAME" takes it from the environment when it is needed. `allow` lists
    hosts and networks that may be called although they are not public. `timeout` is for one message
    and all that comes of it. `retries` is how often a call is repeated that may not have arrived;
    a message keeps its id, by which a server can tell that it has it already. `streaming` of None
    is what the card says.
    """

    url: str
    token: str = field(default="", repr=False)
    allow: Sequence[str] = ()
    trust: Sequence[str] = ()
    timeout: float = 600.0
    retries: int = 5
    streaming: bool | None = None

    def __post_init__(self) -> None:
        check_remote_url(self.url)
        for name in ("allow", "trust"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise InvalidInput(f'{name} takes several entries, such as ("{given}",)')
            object.__setattr__(self, name, tuple(given))
        if not self.timeout > 0 or self.retries < 0:
            raise InvalidInput("timeout must be above 0, and retries not below it")
        if not isinstance(self.token, str) or not (self.token.isascii() and _is_line(self.token)):
            raise InvalidInput("token must be a text without spaces or line breaks")

    @property
    def place(self) -> str:
        """Return the origin, which may be shown: no path, query or credentials."""
        return origin_of(self.url)


def _is_line(token: str) -> bool:
    return token.isprintable() and " " not in token


def check_remote_url(url: str) -> None:
    """Refuse what is not the URL of an agent, and say what is."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput(f"{url!r} is no URL; write it like https://agents.example.com") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidInput(f"{url!r} is no URL of an agent; write https://agents.example.com")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("the URL holds credentials; give them as token instead")


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL, the port only if it is not the usual one."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    is_usual = parts.port is None or parts.port == usual
    return f"{parts.scheme}://{host}" if is_usual else f"{parts.scheme}://{host}:{parts.port}"
