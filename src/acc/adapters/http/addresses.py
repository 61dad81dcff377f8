"""Which hosts and addresses may be called from here.

Everything is refused that is not plainly a public address written in its usual form, unless the
operator's allow-list names it.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

import httpx

from acc.domain.errors import AddressRefused, InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_NOT_PUBLIC_4 = tuple(
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
# Mapped, compatible, NAT64, unique local, link-local, site-local and multicast addresses all lie
# outside the one block from which public addresses are given out.
_PUBLIC_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # Teredo, benchmarks, ORCHID
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
# The prefixes that carry an IPv4 address, and how far from the right it ends.
_CARRIERS = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("::/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("64:ff9b:1::/48"), 0),
    (IPv6Network("2002::/16"), 80),
)
_METADATA = frozenset(
    ip_address(address)
    for address in (
        "100.100.100.200",
        "168.63.129.16",  # public by its number, and answers only inside one cloud
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
_NAME = re.compile(r"(?!.{254})[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """A host, as it is asked for in lower case, and the address that it is, if it is one."""

    host: str
    port: int
    address: Address | None


def is_public(address: Address) -> bool:
    """Tell whether an address is plainly one of the open internet."""
    if address in _METADATA:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _NOT_PUBLIC_4)
    return (
        address.scope_id is None
        and address in _PUBLIC_6
        and not any(address in block for block in _NOT_PUBLIC_6)
    )


def target_of(url: httpx.URL) -> Target:
    """Return what a URL would call, or raise AddressRefused for one that hides it."""
    shown = shown_url(url)
    if url.scheme not in _PORTS:
        raise AddressRefused(f"{shown} cannot be called: only http and https URLs can")
    if url.userinfo:
        raise AddressRefused(f"{shown} carries a user name or password, which a URL must not")
    host = url.raw_host.decode("ascii").lower()
    if not host:
        raise AddressRefused(f"{shown} names no host")
    port = _PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 65536:
        raise AddressRefused(f"{shown} names a port that does not exist")
    return Target(host.removesuffix("."), port, address_of(host))


def shown_url(url: httpx.URL) -> str:
    """Return a URL as it may be shown: without its credentials, its path or its query."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def address_of(host: str) -> Address | None:
    """Return the address that a host is, or None for a name; refuse other spellings of either."""
    name = host.removesuffix(".")
    if ":" in name:
        return _address(host)
    # What ends in a number is an address to every resolver, and each reads 010 or 0x7f its way.
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return _address(host)
    if not _NAME.fullmatch(name):
        raise AddressRefused(f"{host!r} is not the name of a host")
    return None


def _address(host: str) -> Address:
    try:
        address = ip_address(host)
    except ValueError:
        raise AddressRefused(
            f"{host!r} is an address in an unusual spelling; "
            "write it as 203.0.113.7 or [2001:db8::7]"
        ) from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise AddressRefused(f"{host!r} names a network interface, which a URL must not")
    return address


def carried(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address is another way to."""
    if isinstance(address, IPv6Address):
        for block, shift in _CARRIERS:
            if address in block:
                return IPv4Address((int(address) >> shift) & 0xFFFFFFFF)
    return None


class _Entry(NamedTuple):
    text: str
    name: str
    network: Network | None
    port: int | None


class AllowList:
    """What the operator lets us call although it is not public.

    An entry is a host ("localhost", "*.corp.example"), an address, either with a port
    ("127.0.0.1:9000", "[::1]:9000"), or a block ("10.0.0.0/8"). A host that is named may stand
    for any address. A block does not open the addresses at which clouds hand out credentials,
    nor IPv6 detours to IPv4 addresses that are refused: those have to be named one by one.
    """

    def __init__(self, entries: Sequence[str] = ()) -> None:
        if isinstance(entries, str):
            raise InvalidInput(f"the allow-list is a list of entries, not the text {entries!r}")
        self._entries = tuple(_entry(text) for text in entries)

    def check_host(self, target: Target) -> bool:
        """Tell whether the list names a host; raise AddressRefused if nothing else could help."""
        if any(_names(entry, target) for entry in self._entries):
            return True
        if target.host in _METADATA_NAMES:
            raise refused(target, "it is where a cloud hands out credentials")
        if target.address is not None:
            self.check_addresses(target, [target.address])
        return False

    def check_addresses(self, target: Target, addresses: Sequence[Address]) -> None:
        """Raise AddressRefused if one of the addresses that a host stands for is a bad one."""
        for address in addresses:
            if not is_public(address) and not self._opens(address, target.port):
                raise refused(target, f"it stands for {address}, which is not public")

    def _opens(self, address: Address, port: int) -> bool:
        return any(
            self._admits(entry.network, address, port)
            for entry in self._entries
            if entry.network is not None and entry.port in (None, port)
        )

    def _admits(self, network: Network, address: Address, port: int) -> bool:
        if address not in network:
            return False
        if network.prefixlen == network.max_prefixlen:
            return True
        inner = carried(address)
        return address not in _METADATA and (
            inner is None or is_public(inner) or self._opens(inner, port)
        )


def refused(target: Target, reason: str) -> AddressRefused:
    """Return the error for a host that may not be called, with a text that tells no secrets.

    A name that stands for nothing and one that stands for an address of ours get the same text,
    so that nobody can ask us for the names of a network that they do not see.
    """
    place = f"[{target.host}]" if ":" in target.host else target.host
    is_address = target.address is not None
    fault = "is not a public address" if is_address else "does not stand for a public address"
    entry = place if target.port in _PORTS.values() else f"{place}:{target.port}"
    fix = f"if it is meant to be called, the operator adds {entry!r} to the allow-list"
    return AddressRefused(
        f"{place} {fault}; {fix}",
        detail=f"{place} is refused: {reason}; {fix}",
        may_be_allowed=True,
    )


def _names(entry: _Entry, target: Target) -> bool:
    if not entry.name or entry.port not in (None, target.port):
        return False
    if entry.name.startswith("*."):
        return target.address is None and target.host.endswith(entry.name[1:])
    return entry.name == target.host


def _entry(text: str) -> _Entry:
    cleaned = text.strip()
    try:
        return _Entry(text, "", ip_network(cleaned), None)
    except ValueError:
        pass
    host = cleaned.removeprefix("*.")
    wrong = InvalidInput(
        f"allow-list: {text!r} is neither a host, an address nor a block; write for instance "
        '"localhost", "127.0.0.1:9000", "10.0.0.0/8" or "*.corp.example"'
    )
    if not host or any(mark in host for mark in "/@?#*\\ "):
        raise wrong
    try:
        url = httpx.URL(f"http://{host}")
        target = target_of(url)
    except (httpx.InvalidURL, AddressRefused):
        raise wrong from None
    # httpx leaves out the port of the scheme, which here says something.
    port = 80 if re.search(r":0*80$", host) else url.port
    if target.address is None:
        name = f"*.{target.host}" if cleaned.startswith("*.") else target.host
        return _Entry(text, name, None, port)
    if cleaned.startswith("*."):
        raise wrong
    return _Entry(text, "", ip_network(target.address), port)
