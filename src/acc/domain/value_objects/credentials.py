"""Credentials that are presented to remote agents."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from acc.domain.call_options import explains_call
from acc.domain.errors import InvalidInput

#: Options under other names.
_HINTS = {
    "key": "value",
    "api_key": "value",
    "token": "value",
    "username": "user",
    "secret": "client_secret",
}


@explains_call(_HINTS, shows_values=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key, or "env:NAME"; the card names the header, else it is `header`."""

    value: str = field(repr=False)
    header: str = "X-API-Key"

    def __post_init__(self) -> None:
        _check_secret("value", self.value)
        if not self.header.replace("-", "").isalnum() or not self.header.isascii():
            raise InvalidInput(f"header must be the name of a header, got {self.header!r}")


@explains_call(_HINTS, shows_values=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class BasicAuth:
    """User and password of HTTP Basic; the password may be "env:NAME"."""

    user: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        _check_secret("password", self.password)
        if not self.user or ":" in self.user or not self.user.isprintable():
            raise InvalidInput("user must be printable, not empty and without a colon")


@explains_call(_HINTS, shows_values=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """OAuth2 client credentials; the secret may be "env:NAME".

    `token_url` is the token endpoint; an empty one is taken from the card. Only a token endpoint of
    this object gets the secret if the card names another origin than the agent's.
    """

    client_id: str
    client_secret: str = field(repr=False)
    token_url: str = ""
    scopes: Sequence[str] = ()
    audience: str = ""

    def __post_init__(self) -> None:
        _check_secret("client_secret", self.client_secret)
        if not self.client_id:
            raise InvalidInput("client_id must not be empty")
        if isinstance(self.scopes, str):
            raise InvalidInput(f'scopes must be a list, such as ("{self.scopes}",)')
        object.__setattr__(self, "scopes", tuple(self.scopes))


@explains_call(_HINTS, shows_values=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class SignedJwt:
    """A JWT that the agent signs for each request, with its own id (`jti`).

    `key` is a file with a private key. `issuer` and `subject` name the agent. The audience is the
    origin of the remote agent unless it is given.
    """

    key: Path
    issuer: str
    subject: str = ""
    audience: str = ""
    scopes: Sequence[str] = ("agent.invoke", "agent.read")
    lifetime: float = 60.0

    def __post_init__(self) -> None:
        if not self.issuer:
            raise InvalidInput("issuer must not be empty")
        if not 0 < self.lifetime <= 3600:
            raise InvalidInput(f"lifetime must be between 0 and 3600 s, got {self.lifetime!r}")
        object.__setattr__(self, "key", Path(self.key))
        object.__setattr__(self, "scopes", tuple(self.scopes))


@explains_call(shows_values=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class MutualTls:
    """A client certificate, which is presented in the TLS handshake.

    `cert` is a PEM file with the certificate chain, and with the private key unless `key` is given.
    `ca` is a PEM file with the CA of the remote agent, if it is not a public one.
    """

    cert: Path
    key: Path | None = None
    ca: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "cert", Path(self.cert))
        for name in ("key", "ca"):
            if (path := getattr(self, name)) is not None:
                object.__setattr__(self, name, Path(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """Files of the TLS connections to a remote agent, all PEM.

    `cert` and `key` are a client certificate as in `MutualTls`, which is presented in addition to
    other credentials. `ca` is the CA of the remote agent, if it is not a public one.
    """

    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.cert is None:
            raise InvalidInput("a private key requires its certificate")


RemoteAuth = ApiKey | BasicAuth | ClientCredentials | MutualTls | SignedJwt
#: One kind of credentials, or several of which the card of the agent decides.
AuthChoice = RemoteAuth | Sequence[RemoteAuth]


def _check_secret(name: str, value: object) -> None:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise InvalidInput(f"{name} must be a printable string that is not empty")
