"""Who calls us, whom we call, on which terms, and what may be repeated of what they say."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import Part

_BEARER = re.compile(r"(?i)\b(bearer|api[-_ ]?key|token)\b(\W{1,4})[\w.~+/=*-]{8,}")
_KEY_LIKE = re.compile(
    r"\b(?:(?:sk|pk|rk|gsk|xai|hf|gh[opsu]|github_pat|glpat|xox[abps])[-_]|AIza|AKIA)[\w*-]{12,}"
)
#: A shorter one is hardly a secret, and cutting it would leave little of a text.
_LEAST_SECRET = 4
#: What the file of a program ends in that another program runs.
_SCRIPTS = frozenset({".cjs", ".jar", ".js", ".mjs", ".php", ".py", ".rb", ".sh", ".ts"})


def redact_secrets(text: str, known: Iterable[str] = ()) -> str:
    """Return a text without the secrets that are known, and without what looks like a key.

    Known ones are cut also where they are written as URLs write them, in whole or in part.
    """
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) < _LEAST_SECRET:
            continue
        text = text.replace(secret, "***")
        if "%" in text or "+" in text:
            text = re.sub("".join(map(_as_in_urls, secret)), "***", text)
    return _KEY_LIKE.sub("***", _BEARER.sub(r"\1\2***", text))


def _as_in_urls(letter: str) -> str:
    """Return a pattern for a letter as it is, and as a URL or a URL within one writes it."""
    codes = (f"%(?:25)*(?i:{byte:02x})" for byte in letter.encode("utf-8", "replace"))
    forms = [re.escape(letter), "".join(codes), *([r"\+"] if letter == " " else [])]
    return f"(?:{'|'.join(forms)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEndpoint:
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
            raise InvalidInput("timeout must be above 0 seconds, and retries 0 or more")
        if not isinstance(self.token, str) or not is_sendable(self.token):
            raise InvalidInput("token must be a text without spaces or line breaks")

    @property
    def place(self) -> str:
        """Return the origin, which may be shown: no path, query or credentials."""
        return origin_of(self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpEndpoint:
    """Where an MCP server is found, and on which terms it is used.

    Either a `command`, which is started and spoken to by its standard streams, or a `url`. A
    started server gets hardly anything of our environment, and what `env` gives; a value or token
    of "env:NAME" is taken from the environment when it is needed. `allow` lists hosts and networks
    that may be called although they are not public. `start_timeout` bounds how long a server may
    take to be ready, retries included. An answer of more than `max_bytes` is not taken.
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
            raise InvalidInput('command is a list of words, such as ["python", "server.py"]')
        if isinstance(self.allow, str):
            raise InvalidInput(f'allow takes several entries, such as ("{self.allow}",)')
        for name in ("command", "allow", "env"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if bool(self.command) == bool(self.url):
            raise InvalidInput("an MCP server has either a command that starts it or a url")
        words = (*self.command, self.cwd, *(text for pair in self.env for text in pair))
        if not all(isinstance(word, str) and "\0" not in word for word in words):
            raise InvalidInput("command, cwd and env hold texts")
        if self.url:
            check_remote_url(self.url)
        if self.token and not (self.token.isascii() and self.token.isprintable()):
            raise InvalidInput("token must be a text without line breaks")
        if " " in self.token or (self.token and not self.url):
            raise InvalidInput("a token is one word, and for a url; give a command its env")
        if not 0 < self.start_timeout < math.inf or self.max_bytes <= 0:
            raise InvalidInput("start_timeout and max_bytes must be above 0, and have an end")

    @property
    def place(self) -> str:
        """Return what may be shown: the origin or the program, no arguments and no secrets."""
        return origin_of(self.url) if self.url else self.program

    @property
    def program(self) -> str:
        """Return the name of the file that is run, be it by an interpreter."""
        files = [PurePath(word) for word in self.command]
        return next((file.name for file in files if file.suffix in _SCRIPTS), files[0].name)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolInfo:
    """A tool as its server describes it; the hints are what the server says, and no promise."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    destructive: bool | None = None
    read_only: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolResult:
    """What a call gave: parts in their order, and data where the server structures its answers."""

    parts: tuple[Part, ...] = ()
    structured: Any = None
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadLimits:
    """Which files are taken: media types, such as "image/*", how large, and within how long."""

    types: Sequence[str] = ("*/*",)
    max_bytes: int = 8 * 1024 * 1024
    timeout: float = 30.0

    def __post_init__(self) -> None:
        if isinstance(self.types, str):
            raise InvalidInput(f'types takes several entries, such as ("{self.types}",)')
        wanted = tuple(kind.strip().lower() for kind in self.types)
        if not wanted or not all(kind.count("/") == 1 and kind.isascii() for kind in wanted):
            raise InvalidInput('types are media types, such as "application/pdf" or "image/*"')
        object.__setattr__(self, "types", wanted)
        if self.max_bytes <= 0 or not 0 < self.timeout < math.inf:
            raise InvalidInput("max_bytes and timeout must be above 0, and have an end")


def is_sendable(token: str) -> bool:
    """Tell whether a token can stand in a header: without spaces, line breaks, or other letters."""
    return token.isascii() and token.isprintable() and " " not in token


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
