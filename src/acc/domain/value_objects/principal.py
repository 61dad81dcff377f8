"""Who calls: the authenticated principal and the owner of stored data."""

from collections.abc import Collection
from typing import NamedTuple

from acc.domain.value_objects.base import Value


class Owner(NamedTuple):
    """Whose a task is: a caller within a tenant. For anyone else it does not exist."""

    tenant: str = ""
    caller: str = ""


class Principal(Value, frozen=True, kw_only=True):
    """A caller whose credentials were checked. `permissions` of None are all of them.

    `any_tenant` tells that the credentials are for no tenant, and the caller named one.
    """

    caller: str
    tenant: str = ""
    permissions: Collection[str] | None = None
    is_anonymous: bool = False
    any_tenant: bool = False

    @property
    def owner(self) -> Owner:
        """Return whose the caller's tasks are."""
        return Owner(self.tenant, self.caller)

    @property
    def account(self) -> Owner:
        """Return who has to keep to the limits, whatever tenant was named."""
        return Owner("" if self.any_tenant else self.tenant, self.caller)


ANONYMOUS = Principal(caller="anonymous", is_anonymous=True)
