"""The authenticated caller and the owner of stored data."""

from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import quote

from acc.domain.errors import InsufficientScope, PermissionDenied
from acc.domain.value_objects.base import Value, replace

#: Permission to send messages, cancel tasks and configure notifications.
INVOKE_SCOPE = "agent.invoke"
#: Permission to read tasks, streams and push configurations.
READ_SCOPE = "agent.read"


class Owner(NamedTuple):
    """Owner of a task: a caller within a tenant. Other callers get "not found"."""

    tenant: str = ""
    caller: str = ""

    @property
    def user_id(self) -> str:
        """Return the user id of the owner's sessions, unique for tenant and caller."""
        if self.tenant:
            return f"{quote(self.tenant, safe='')}/{self.caller}"
        return f"/{self.caller}" if "/" in self.caller else self.caller


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

    def require(self, scope: str) -> None:
        """Raise InsufficientScope if the caller does not have a scope."""
        if self.permissions is not None and scope not in self.permissions:
            raise InsufficientScope(scope)

    def within(self, tenant: str) -> "Principal":
        """Return the caller within a tenant, or raise PermissionDenied."""
        if not tenant or tenant == self.tenant:
            return self
        if self.tenant:
            raise PermissionDenied(
                "these credentials are for another tenant; omit the tenant of the request, or "
                "use its credentials"
            )
        return replace(self, tenant=tenant, any_tenant=True)


ANONYMOUS = Principal(caller="anonymous", is_anonymous=True)
