"""The authenticated caller and the owner of stored data."""

from collections.abc import Collection
from typing import NamedTuple

from acc.domain.value_objects.base import Value


class Owner(NamedTuple):
    """Owner of a task: a caller within a tenant. Other callers get "not found"."""

    tenant: str = ""
    caller: str = ""


class Principal(Value, frozen=True, kw_only=True):
    """An authenticated caller. `permissions` of None means all permissions.

    `any_tenant` is True if the credentials are not bound to a tenant, so that the caller chose one.
    """

    caller: str
    tenant: str = ""
    permissions: Collection[str] | None = None
    is_anonymous: bool = False
    any_tenant: bool = False

    @property
    def owner(self) -> Owner:
        """Return the owner of the tasks of this caller."""
        return Owner(self.tenant, self.caller)

    @property
    def account(self) -> Owner:
        """Return the owner to which limits apply, independent of a chosen tenant."""
        return Owner("" if self.any_tenant else self.tenant, self.caller)


ANONYMOUS = Principal(caller="anonymous", is_anonymous=True)
