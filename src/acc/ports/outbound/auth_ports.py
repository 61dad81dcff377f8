"""Ports for authentication of callers and signatures of notifications."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.principal import Principal


class TokenVerifierPort(Protocol):
    """Verifies bearer tokens."""

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token, or None if the token is unknown or expired.

        The duration must not reveal anything about valid tokens.
        """
        ...


class UsedIdsPort(Protocol):
    """Ids that may be used once, such as the `jti` of tokens, possibly shared by servers."""

    async def claim(self, kind: str, value: str, *, now: float, until: float) -> bool:
        """Use an id; return False if it was used before.

        It may be forgotten at the time `until`. Raises Unavailable if this cannot be decided.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections to the store of the ids."""
        ...


class CertificateVerifierPort(Protocol):
    """Identifies callers by their client certificates."""

    def verify(
        self, *, address: str, headers: Mapping[bytes, bytes], certificate: str
    ) -> Principal | None:
        """Return the caller of a request, or None if it has no acceptable certificate.

        `address` is the peer of the connection and `certificate` its certificate in PEM, which the
        TLS layer has verified; it is empty if there is none.
        """
        ...


class CredentialsPort(Protocol):
    """The credentials that are presented to a remote agent."""

    @property
    def can_refresh(self) -> bool:
        """Return True if rejected credentials can be replaced by new ones."""
        ...

    async def headers(self, card: AgentCard | None, *, refresh: bool = False) -> Mapping[str, str]:
        """Return the headers of a request, after a refresh if the last ones were rejected.

        Raises Unauthenticated if there are no credentials that fit the security schemes of the
        card, which is None while the card itself is requested.
        """
        ...


class NotificationSignerPort(Protocol):
    """Signs push notifications so that receivers can verify the sender."""

    def headers(self, body: bytes, *, audience: str) -> Mapping[str, str]:
        """Return the signature headers of a body that is sent to the URL `audience`."""
        ...


class CardVerifierPort(Protocol):
    """Verifies signatures of agent cards."""

    def verify(self, content: Mapping[str, Any], signatures: Sequence[Mapping[str, Any]]) -> str:
        """Return the kid of the key that signed a card, or raise Unauthenticated."""
        ...
