"""Endpoints of remote agents and MCP servers, download limits, redaction of secrets."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.credentials import AuthChoice, ClientTls, RemoteAuth

_DEFAULT_PORTS = {"http": 80, "https": 443, "grpc": 80, "grpcs": 443}
_GRPC_SCHEMES = {"http": "grpc", "https": "grpcs", "grpc": "grpc", "grpcs": "grpcs"}
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_CREDENTIAL = re.compile(
    r"(?i)\b(bearer|api[-_ ]?key|token|authorization\W{1,5}basic)\b(\W{1,4})[\w.~+/=*-]{8,}"
)
_API_KEY = re.compile(
    r"\b(?:(?:sk|pk|rk|gsk|xai|hf|gh[opsu]|github_pat|glpat|xox[abps])[-_]|AIza|AKIA|ASIA)[\w*-]{12,}"
    # JSON web tokens, and private keys in PEM
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
#: Shorter secrets are not redacted: they would match ordinary text.
_URL_CREDENTIALS = re.compile(r"(?<=//)[^/\s@]*@")
# An upper-case value is the name of an environment variable, as in `openai:m?key=TEAM_KEY`.
_QUERY_SECRET = re.compile(
    r"([?&](?:api[-_]?key|key|pass(?:word|wd)?|secret|token)=)(?![A-Z][A-Z0-9_]*\b)[^&\s'\"]+"
)
# `password=…` and `"client_secret": "…"`; the name of an environment variable is not a secret.
_ASSIGNED_SECRET = re.compile(
    r"((?i:pass(?:word|wd|phrase)|secret|api[-_]?key|access[-_]?token|パスワード|暗証番号)"
    r"[\\\"']{0,2}\s?[=:：]\s?[\\\"']{0,2})(?![A-Z][A-Z0-9_]*\b|env:)[^\s\"'\\&,;、。]{3,}"
)
_MIN_SECRET_LENGTH = 4
_SCRIPT_SUFFIXES = frozenset({".cjs", ".jar", ".js", ".mjs", ".php", ".py", ".rb", ".sh", ".ts"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEndpoint:
    """Location of a remote agent and the options of its calls.

    `url` is the URL of the card if it ends in .json, else the base of the well-known paths. With
    the scheme grpc, or grpcs for TLS, it is the address of a gRPC server.
    `token` is sent to the origin of `url` and to the origins in `trust` only; "env:NAME" refers to
    an environment variable. `allow` lists hosts and networks that may be called although they are
    not public. `timeout` applies to one message including its task. `retries` is the number of
    further attempts of a call that may not have arrived; a message keeps its id, so that the server
    can detect duplicates. `streaming` of None means: as the card declares. After `max_failures`
    messages in a row that got no answer, messages fail at once for `recovery` seconds. `auth` are
    credentials instead of a token. Credentials are sent over https or to loopback only, unless
    `insecure`. `tls` has a client certificate and the CA of the agent.
    """

    url: str
    token: str = field(default="", repr=False)
    allow: Sequence[str] = ()
    trust: Sequence[str] = ()
    timeout: float = 600.0
    retries: int = 5
    streaming: bool | None = None
    max_failures: int = 5
    recovery: float = 30.0
    auth: AuthChoice | None = None
    insecure: bool = False
    tls: ClientTls | None = None

    def __post_init__(self) -> None:
        check_agent_url(self.url)
        if self.max_failures < 0 or not 0 < self.recovery < math.inf:
            raise InvalidInput("max_failures must be >= 0, and recovery positive and finite")
        for name in ("allow", "trust"):
            object.__setattr__(self, name, _entries(name, getattr(self, name)))
        if not self.timeout > 0 or self.retries < 0:
            raise InvalidInput("timeout must be positive, and retries must be >= 0")
        if not isinstance(self.token, str) or not is_sendable(self.token):
            raise InvalidInput("token must be printable ASCII without spaces")
        if self.token and self.auth is not None:
            raise InvalidInput("set either token or auth, not both")
        if isinstance(self.auth, list | tuple):
            object.__setattr__(self, "auth", tuple(self.auth))
        options = self.auth if isinstance(self.auth, tuple) else (self.auth,)
        if self.auth is not None and not (
            options and all(isinstance(one, RemoteAuth) for one in options)
        ):
            raise InvalidInput(
                "auth must be ApiKey, BasicAuth, ClientCredentials, MutualTls or SignedJwt, or a "
                f"list, got {type(self.auth).__name__}"
            )

    @property
    def origin(self) -> str:
        """Return the origin of the URL: the part that errors and logs may contain."""
        return origin_of(self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpEndpoint:
    """Location of an MCP server and the options of its use.

    Either a `command`, which is started and uses its standard streams, or a `url`. A started server
    inherits only a few environment variables, plus those in `env`. In `env` and `token`, "env:NAME"
    refers to an environment variable. `allow` lists hosts and networks that may be called although
    they are not public. `start_timeout` applies to the start including retries. Responses of more
    than `max_bytes` are rejected.
    """

    command: Sequence[str] = ()
    url: str = ""
    token: str = field(default="", repr=False)
    env: Sequence[tuple[str, str]] = field(default=(), repr=False)
    cwd: str = ""
    allow: Sequence[str] = ()
    start_timeout: float = 30.0
    max_bytes: int = 4 * 1024 * 1024

    def __post_init__(self) -> None:
        if isinstance(self.command, str):
            raise InvalidInput('command must be a list, such as ["python", "server.py"]')
        if not isinstance(self.command, Sequence):
            raise InvalidInput(
                f'command must be a list, such as ["python", "server.py"], got {self.command!r}'
            )
        object.__setattr__(self, "command", tuple(self.command))
        object.__setattr__(self, "allow", _entries("allow", self.allow))
        object.__setattr__(self, "env", tuple(self.env))
        if bool(self.command) == bool(self.url):
            raise InvalidInput("an MCP server needs either a command or a url")
        words = (*self.command, self.cwd, *(text for pair in self.env for text in pair))
        if not all(isinstance(word, str) and "\0" not in word for word in words):
            raise InvalidInput("command, cwd and env must be strings without NUL characters")
        if self.url:
            check_remote_url(self.url)
        if self.token and not self.url:
            raise InvalidInput("token requires a url; pass secrets of a command in env")
        if not is_sendable(self.token):
            raise InvalidInput("token must be printable ASCII without spaces")
        if not 0 < self.start_timeout < math.inf or self.max_bytes <= 0:
            raise InvalidInput("start_timeout and max_bytes must be positive and finite")

    @property
    def display_name(self) -> str:
        """Return the origin or the program: the part that errors and logs may contain."""
        return origin_of(self.url) if self.url else self.program

    @property
    def program(self) -> str:
        """Return the file name of the program, or of the script that an interpreter runs."""
        files = [PurePath(word) for word in self.command]
        return next((file.name for file in files if file.suffix in _SCRIPT_SUFFIXES), files[0].name)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolInfo:
    """A tool as its MCP server describes it; the hints are not guaranteed."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    destructive: bool | None = None
    read_only: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolResult:
    """Result of an MCP tool call: parts in order, and structured content if there is any."""

    parts: tuple[Part, ...] = ()
    structured: Any = None
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadLimits:
    """Limits of a download: media type patterns such as "image/*", size and time."""

    types: Sequence[str] = ("*/*",)
    max_bytes: int = 8 * 1024 * 1024
    timeout: float = 30.0

    def __post_init__(self) -> None:
        types = tuple(name.strip().lower() for name in _entries("types", self.types))
        if not types or not all(name.count("/") == 1 and name.isascii() for name in types):
            raise InvalidInput('types must be media types, such as "application/pdf" or "image/*"')
        object.__setattr__(self, "types", types)
        if self.max_bytes <= 0 or not 0 < self.timeout < math.inf:
            raise InvalidInput("timeout and max_bytes must be positive and finite")


def redact_secrets(text: str, known: Iterable[str] = ()) -> str:
    """Return a text without the known secrets and without anything that looks like a key.

    Known secrets are also redacted if they are percent-encoded, completely or partially.
    """
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) < _MIN_SECRET_LENGTH:
            continue
        text = text.replace(secret, "***")
        if "%" in text or "+" in text:
            text = re.sub("".join(map(_percent_encoded_pattern, secret)), "***", text)
    text = _QUERY_SECRET.sub(r"\1***", _URL_CREDENTIALS.sub("***@", text))
    text = _ASSIGNED_SECRET.sub(r"\1***", text)
    return _API_KEY.sub("***", _CREDENTIAL.sub(r"\1\2***", text))


def is_sendable(token: str) -> bool:
    """Return True if a token can be sent in a header: printable ASCII without spaces."""
    return token.isascii() and token.isprintable() and " " not in token


def check_remote_url(url: str) -> None:
    """Raise InvalidInput unless `url` is an absolute http or https URL without credentials."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput(f"{url!r} is not a URL such as https://agents.example.com") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidInput(
            f"{url!r} is not an absolute http or https URL such as https://agents.example.com"
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("the URL must not contain credentials; pass them as token")


def is_grpc_url(url: str) -> bool:
    """Return True if a URL is the address of a gRPC server."""
    return url.lower().startswith(("grpc://", "grpcs://"))


def check_agent_url(url: str) -> None:
    """Raise InvalidInput unless `url` is a URL like `check_remote_url`, or of a gRPC server."""
    if not isinstance(url, str) or not is_grpc_url(url):
        check_remote_url(url)
        return
    parts = urlsplit(url)
    check_remote_url(urlunsplit(parts._replace(scheme="https")))
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidInput(
            f"{url!r} is not the address of a gRPC server such as grpcs://agents.example.com:443"
        )


def to_grpc_url(address: str, *, encrypted: bool) -> str:
    """Return the URL of the gRPC interface of a card, empty if it is not an address.

    Cards name a gRPC server as HOST:PORT, or with a URL. HOST:PORT does not say whether the server
    uses TLS: `encrypted` does.
    """
    default = "grpcs" if encrypted else "grpc"
    try:
        parts = urlsplit(address if "://" in address else f"{default}://{address}")
        port = parts.port
    except ValueError:
        return ""
    scheme = _GRPC_SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname or port == 0 or parts.username is not None:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{scheme}://{host}:{port or _DEFAULT_PORTS[scheme]}"


def check_public_url(url: str) -> None:
    """Raise InvalidInput unless clients can call `url`, which is published on a card."""
    check_remote_url(url)
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise InvalidInput(f"{url!r} must not have a query or a fragment")
    if is_unspecified_host(parts.hostname or ""):
        raise InvalidInput(
            f"{url!r} names every address of this machine, which clients cannot call; use the name "
            "or address under which they reach the server, such as https://agents.example.com"
        )


def is_unspecified_host(host: str) -> bool:
    """Return True for the addresses that listen everywhere: 0.0.0.0 and ::."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL, without the default port of the scheme."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    is_default_port = parts.port in (None, _DEFAULT_PORTS.get(parts.scheme))
    return f"{parts.scheme}://{host}" + ("" if is_default_port else f":{parts.port}")


def is_loopback_url(url: str) -> bool:
    """Return True if the host of a URL is a loopback address or localhost."""
    return is_loopback_host(urlsplit(url).hostname or "")


def is_loopback_host(host: str) -> bool:
    """Return True for a loopback address and localhost."""
    host = host.removesuffix(".")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def add_scheme(url: str) -> str:
    """Return a URL that a user typed with a scheme: http for loopback hosts, else https."""
    if "://" in url:
        return url
    try:
        is_loopback = is_loopback_url(f"http://{url}")
    except ValueError:  # not a URL, which is reported later
        is_loopback = False
    return f"http://{url}" if is_loopback else f"https://{url}"


def loopback_allow_entries(url: str) -> tuple[str, ...]:
    """Return the allow-list entries for a loopback URL that a user typed; none for other URLs.

    They include the other names of the host, since a card may use 127.0.0.1 instead of localhost,
    but only this port: a redirect, or a card, must not lead to another local server.
    """
    check_agent_url(url)
    if not is_loopback_url(url):
        return ()
    parts = urlsplit(url)
    host = (parts.hostname or "").removesuffix(".")
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    names = (f"[{host}]" if ":" in host else host, *_LOOPBACK_HOSTS)
    return tuple(dict.fromkeys(f"{name}:{port}" for name in names))


def _entries(name: str, value: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise InvalidInput(f'{name} must be a list of strings, such as ("{value}",)')
    return tuple(value)


def _percent_encoded_pattern(char: str) -> str:
    """Return a pattern for a character as it is, and percent-encoded once or repeatedly."""
    codes = (f"%(?:25)*(?i:{byte:02x})" for byte in char.encode("utf-8", "replace"))
    forms = [re.escape(char), "".join(codes), *([r"\+"] if char == " " else [])]
    return f"(?:{'|'.join(forms)})"
