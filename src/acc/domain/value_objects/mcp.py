"""Where an MCP server is found, what it offers, and what a call of it gave."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.event import Part
from acc.domain.value_objects.remote import check_remote_url, origin_of


@dataclass(frozen=True, slots=True, kw_only=True)
class McpAddress:
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
        """Return what may be shown: the program or the origin, no arguments and no secrets."""
        return origin_of(self.url) if self.url else self.command[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolInfo:
    """A tool as its server describes it; the hints are what the server says, and no promise."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    destructive: bool | None = None
    read_only: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpAnswer:
    """What a call gave: parts in their order, and data where the server structures its answers."""

    parts: tuple[Part, ...] = ()
    structured: Any = None
    is_error: bool = False
