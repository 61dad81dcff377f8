"""The authenticated caller and the owner of stored data."""

from collections.abc import Collection
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import quote

from acc.domain.errors import InsufficientScope, PermissionDenied
from acc.domain.value_objects.base import Value, replace

#: Permission to send messages, cancel tasks and configure notifications.
INVOKE_SCOPE = "agent.invoke"
#: Permission to read tasks, streams and push configurations.
READ_SCOPE = "agent.read"
#: Prefixes of the callers of runs that a server starts, before the `user_id` of the owner.
A2A_CALLER, AG_UI_CALLER = SERVER_PREFIXES = ("a2a://", "ag-ui://")
#: Networks of IPv6 that one subscriber usually has.
_SUBSCRIBER_PREFIX = 64
_CACHED_ADDRESSES = 1024


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
    `address` is where the requests of an anonymous caller come from, empty if it is not known.
    """

    caller: str
    tenant: str = ""
    permissions: Collection[str] | None = None
    is_anonymous: bool = False
    any_tenant: bool = False
    address: str = ""

    @property
    def owner(self) -> Owner:
        """Return the owner of the tasks of this caller."""
        return Owner(self.tenant, self.caller)

    @property
    def account(self) -> Owner:
        """Return the owner to which limits apply, independent of a chosen tenant.

        Anonymous callers are one owner of tasks, but have limits for each address.
        """
        if self.is_anonymous and self.address:
            return Owner(f"address/{self.address}", self.caller)
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


@lru_cache(_CACHED_ADDRESSES)
def limited_address(address: str) -> str:
    """Return an address as limits count it: of IPv6, the network that one subscriber has."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((parsed, _SUBSCRIBER_PREFIX), strict=False))
    return str(parsed)
