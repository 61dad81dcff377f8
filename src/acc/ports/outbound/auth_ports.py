"""Who may come in, and how what leaves is signed."""

from collections.abc import Mapping
from typing import Protocol

from acc.domain.value_objects.principal import Principal


class TokenVerifierPort(Protocol):
    """Checks bearer tokens."""

    async def verify(self, token: str) -> Principal | None:
        """Return whose token this is, or None for one that is not, or no longer, good.

        How long that takes tells nothing about the tokens there are.
        """
        ...


class NotificationSignerPort(Protocol):
    """Signs notifications, so that who receives them can tell who sent them."""

    def headers(self, body: bytes, *, audience: str) -> Mapping[str, str]:
        """Return the headers to send with a body to an address."""
        ...
