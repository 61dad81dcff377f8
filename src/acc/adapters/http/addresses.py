"""Host and address policy of outgoing requests.

Only public addresses in their canonical notation are accepted. The operator's allow-list adds
exceptions.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

import httpx2

from acc.domain.errors import AddressRefused, InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_NON_PUBLIC_IPV4 = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network, unspecified
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
# Mapped, compatible, NAT64, unique local, link-local, site-local and multicast addresses are all
# outside the only block from which global unicast addresses are assigned.
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_NON_PUBLIC_IPV6 = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # Teredo, benchmarks, ORCHID
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
# IPv6 prefixes that embed an IPv4 address, with the number of bits to the right of it.
_IPV4_PREFIXES = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("::/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("64:ff9b:1::/48"), 0),
    (IPv6Network("2002::/16"), 80),
)
_METADATA_ADDRESSES = frozenset(
    ip_address(address)
    for address in (
        "100.100.100.200",
        "168.63.129.16",  # publicly assigned, but answers only inside Azure
        "169.254.169.254",
        "169.254.170.2",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
    )
)
_METADATA_NAMES = frozenset(
    (
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.azure.internal",
        "metadata.goog",
        "metadata.google.internal",
    )
)
_HOST_NAME = re.compile(r"(?!.{254})[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """A lower-case host, a port, and the address if the host is an address literal."""

    host: str
    port: int
    address: Address | None


class AllowList:
    """Non-public hosts and addresses that the operator allows.

    An entry is a host ("localhost", "*.corp.example"), an address, either of them with a port
    ("127.0.0.1:9000", "[::1]:9000"), or a network ("10.0.0.0/8"). An allowed host may resolve to
    any address. A network entry does not include the metadata addresses of cloud providers, nor
    IPv6 addresses that embed a refused IPv4 address: these must be listed individually.
    """

    def __init__(self, entries: Sequence[str] = ()) -> None:
        if isinstance(entries, str):
            raise InvalidInput(f"the allow-list must be a list of entries, got {entries!r}")
        self._entries = tuple(_parse_entry(text) for text in entries)

    def check_host(self, target: Target) -> bool:
        """Return True if the list names the host; raise AddressRefused for a bad literal."""
        if any(entry.names(target) for entry in self._entries):
            return True
        if target.host in _METADATA_NAMES:
            raise address_refused(target, "it is the metadata service of a cloud provider")
        if target.address is not None:
            self.check_addresses(target, [target.address])
        return False

    def check_addresses(self, target: Target, addresses: Sequence[Address]) -> None:
        """Raise AddressRefused unless every resolved address is public or allowed."""
        for address in addresses:
            if not is_public(address) and not self._allows(address, target.port):
                raise address_refused(target, f"it resolves to {address}, which is not public")

    def _allows(self, address: Address, port: int) -> bool:
        return any(
            self._network_allows(entry.network, address, port)
            for entry in self._entries
            if entry.network is not None and entry.port in (None, port)
        )

    def _network_allows(self, network: Network, address: Address, port: int) -> bool:
        if address not in network:
            return False
        if network.prefixlen == network.max_prefixlen:
            return True
        inner = embedded_ipv4(address)
        return address not in _METADATA_ADDRESSES and (
            inner is None or is_public(inner) or self._allows(inner, port)
        )


def is_public(address: Address) -> bool:
    """Return True if an address is globally routable."""
    if address in _METADATA_ADDRESSES:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _NON_PUBLIC_IPV4)
    return (
        address.scope_id is None
        and address in _PUBLIC_IPV6
        and not any(address in block for block in _NON_PUBLIC_IPV6)
    )


def parse_target(url: httpx2.URL) -> Target:
    """Return the target of a URL, or raise AddressRefused if the URL is not acceptable."""
    origin = display_origin(url)
    if url.scheme not in _DEFAULT_PORTS:
        raise AddressRefused(f"{origin}: the scheme must be http or https")
    if url.userinfo:
        raise AddressRefused(f"{origin}: the URL must not contain a user name or password")
    host = url.raw_host.decode("ascii").lower()
    if not host:
        raise AddressRefused(f"{origin}: the URL has no host")
    port = _DEFAULT_PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 65536:
        raise AddressRefused(f"{origin}: the port must be between 1 and 65535")
    return Target(host.removesuffix("."), port, parse_address(host))


def display_origin(url: httpx2.URL) -> str:
    """Return scheme, host and port of a URL: the part that errors and logs may contain."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def parse_address(host: str) -> Address | None:
    """Return the address if a host is a literal, None for a name; refuse unusual notations."""
    name = host.removesuffix(".")
    # Resolvers treat a host that ends in a number as an address, and read 010 or 0x7f differently.
    if ":" not in name and not _NUMERIC_LABEL.fullmatch(name.rpartition(".")[2]):
        if not _HOST_NAME.fullmatch(name):
            raise AddressRefused(f"{host!r} is not a valid host name")
        return None
    try:
        address = ip_address(host)
    except ValueError:
        raise AddressRefused(
            f"{host!r} is not an address in canonical notation, such as 203.0.113.7 or "
            "[2001:db8::7]"
        ) from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise AddressRefused(f"{host!r}: a URL must not contain an IPv6 zone")
    return address


def embedded_ipv4(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address embeds, if any."""
    if isinstance(address, IPv6Address):
        for block, shift in _IPV4_PREFIXES:
            if address in block:
                return IPv4Address((int(address) >> shift) & 0xFFFFFFFF)
    return None


def address_refused(target: Target, reason: str) -> AddressRefused:
    """Return the error for a target that must not be called.

    The message is the same for names that do not resolve and names that resolve to an internal
    address, so that callers cannot probe the internal network. `detail` has the reason.
    """
    place = f"[{target.host}]" if ":" in target.host else target.host
    problem = (
        "is not a public address"
        if target.address is not None
        else "does not resolve to a public address"
    )
    entry = place if target.port in _DEFAULT_PORTS.values() else f"{place}:{target.port}"
    fix = f"if the call is intended, the operator adds {entry!r} to the allow-list"
    return AddressRefused(
        f"{place} {problem}; {fix}",
        detail=f"{place} is refused: {reason}; {fix}",
        may_be_allowed=True,
    )


class _Entry(NamedTuple):
    name: str
    network: Network | None
    port: int | None

    def names(self, target: Target) -> bool:
        """Return True if the entry is a host name that matches the target."""
        if not self.name or self.port not in (None, target.port):
            return False
        if self.name.startswith("*."):
            return target.address is None and target.host.endswith(self.name[1:])
        return self.name == target.host


def _parse_entry(text: str) -> _Entry:
    entry = text.strip()
    try:
        return _Entry("", ip_network(entry), None)
    except ValueError:
        pass
    host = entry.removeprefix("*.")
    error = InvalidInput(
        f"allow-list: {text!r} is not a host, an address or a network; write for instance "
        '"localhost", "127.0.0.1:9000", "10.0.0.0/8" or "*.corp.example"'
    )
    if not host or any(char in host for char in "/@?#*\\ "):
        raise error
    try:
        url = httpx2.URL(f"http://{host}")
        target = parse_target(url)
    except (httpx2.InvalidURL, AddressRefused):
        raise error from None
    # httpx2 drops the default port of the scheme; here port 80 restricts the entry.
    port = 80 if re.search(r":0*80$", host) else url.port
    is_wildcard = entry.startswith("*.")
    if target.address is None:
        return _Entry(f"*.{target.host}" if is_wildcard else target.host, None, port)
    if is_wildcard:
        raise error
    return _Entry("", ip_network(target.address), port)
