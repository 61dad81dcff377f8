"""Who calls."""

from collections.abc import Collection
from typing import NamedTuple

from acc.domain.value_objects.value import Value


class Owner(NamedTuple):
    """Whose a task is: a caller within a tenant. For anyone else it does not exist."""

    tenant: str = ""
    caller: str = ""


class Principal(Value, frozen=True, kw_only=True):
    """A caller whose credentials were checked. `permissions` of None are all of them."""

    caller: str
    tenant: str = ""
    permissions: Collection[str] | None = None
    is_anonymous: bool = False

    @property
    def owner(self) -> Owner:
        """Return whose the caller's tasks are."""
        return Owner(self.tenant, self.caller)


ANONYMOUS = Principal(caller="anonymous", is_anonymous=True)
