import re
from ipaddress import IPv4Address, IPv6Address, ip_address

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import FakeResolver

from acc.adapters.http.addresses import AllowList, is_public, parse_target
from acc.adapters.http.client import check_url
from acc.domain.errors import AddressRefused, InvalidInput

PUBLIC = "93.184.215.14"

HOSTILE = (
    "http://127.0.0.1/",
    "http://127.8.9.10:8080/",
    "http://0.0.0.0/",
    "http://0/",
    "http://10.1.2.3/",
    "http://172.31.255.254/",
    "http://192.168.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/v2/credentials",
    "http://100.64.0.1/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.1./",
    "http://127.0.0.01/",
    "http://127%2e0.0.1/",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://①②⑦.0.0.1/",
    "http://[::]/",
    "http://[::1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:8.8.8.8]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::8.8.8.8]/",
    "http://[64:ff9b:1::a00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[2001:0:53aa:64c:0:0:80ff:fffe]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fd20:ce::254]/",
    "http://[ff02::1]/",
    "http://[100::1]/",
    "http://[5f00::1]/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://METADATA.google.internal./",
    "http://metadata/",
    "http://instance-data/",
    "http://user:secret@public.example/",
    "http://user@public.example/",
    "http://public.example\\@127.0.0.1/",
    "http://127.0.0.1#@public.example/",
    "ftp://public.example/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:70/",
    "unix:///var/run/docker.sock",
    "//public.example/",
    "public.example",
    "",
    "http://",
    "http:///path",
    "http://public..example/",
    "http://public.example:99999/",
    "http://public.example:-1/",
    "http://public.example:0/",
    "http://exa mple/",
    "http://public.example\r\nHost: x/",
    "http://" + "a" * 64 + ".example/",
    "http://inside.example/",
    "http://both.example/",
    "http://nowhere.example/",
    "http://localhost/",
    "http://v6.example/",
)


def resolver() -> FakeResolver:
    return FakeResolver(
        public_example=[[PUBLIC, "2606:2800:21f:cb07:6820:80da:af6b:8b2c"]],
        inside_example=[["10.0.0.8"]],
        both_example=[[PUBLIC, "10.0.0.8"]],
        v6_example=[["fe80::1%2"]],
        localhost=[["::1", "127.0.0.1"]],
        metadata=[[PUBLIC]],
    )


@pytest.mark.parametrize("url", HOSTILE)
async def test_hostile_url_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused) as caught:
        await check_url(url, resolve=resolver())
    assert "secret" not in str(caught.value)
    assert "10.0.0.8" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://public.example/",
        "https://PUBLIC.example:8443/a?b=c",
        "https://public.example./",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
    ],
)
async def test_public_url_is_accepted(url: str) -> None:
    await check_url(url, resolve=resolver())


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1234/"),
        ("127.0.0.1:9000", "http://127.0.0.1:9000/"),
        ("127.0.0.1:80", "http://127.0.0.1/"),
        ("[::1]:9000", "http://[::1]:9000/"),
        ("::1", "http://[::1]/"),
        ("localhost", "http://localhost/"),
        ("LocalHost.", "http://localhost:1/"),
        ("inside.example:443", "https://inside.example/"),
        ("*.example", "http://inside.example/"),
        ("10.0.0.0/8", "http://both.example/"),
        ("fc00::/7", "http://[fc00::1]/"),
        ("169.254.169.254", "http://169.254.169.254/"),
        ("metadata", "http://metadata/"),
        ("::ffff:127.0.0.1", "http://[::ffff:127.0.0.1]/"),
        ("64:ff9b::/96", "http://[64:ff9b::8.8.8.8]/"),
    ],
)
async def test_allow_list_entry_matches(entry: str, url: str) -> None:
    await check_url(url, [entry], resolve=resolver())


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("127.0.0.1:9000", "http://127.0.0.1:9001/"),
        ("127.0.0.1", "http://127.1/"),
        ("127.0.0.1", "http://localhost/"),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/"),
        ("inside.example:443", "http://inside.example/"),
        ("*.inside.example", "http://inside.example/"),
        ("*.example", "http://10.0.0.8/"),
        ("example", "http://inside.example/"),
        ("169.254.0.0/16", "http://169.254.169.254/"),
        ("fd00::/8", "http://[fd00:ec2::254]/"),
        ("64:ff9b::/96", "http://[64:ff9b::a9fe:a9fe]/"),
        ("2002::/16", "http://[2002:7f00:1::]/"),
        ("::/0", "http://[::ffff:10.0.0.1]/"),
        ("*.google.internal", "ftp://metadata.google.internal/"),
        ("inside.example", "http://u:p@inside.example/"),
    ],
)
async def test_allow_list_entry_does_not_match_others(entry: str, url: str) -> None:
    with pytest.raises(AddressRefused):
        await check_url(url, [entry], resolve=resolver())


async def test_embedded_ipv4_needs_its_own_entry() -> None:
    await check_url("http://[64:ff9b::a00:1]/", ["64:ff9b::/96", "10.0.0.0/8"])


@pytest.mark.parametrize(
    "entry",
    ["", "*", "*.", "10.0.0.1/8", "http://localhost", "a b", "127.1", "*.127.0.0.1", "x:y", "a/b"],
)
def test_invalid_allow_list_entry_is_named(entry: str) -> None:
    with pytest.raises(InvalidInput, match="allow-list") as caught:
        AllowList([entry])
    assert repr(entry) in str(caught.value)


def test_allow_list_given_as_string_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="must be a list"):
        AllowList("localhost")


async def test_error_is_equal_for_private_and_unknown_names() -> None:
    texts = []
    for host in ("inside.example", "nowhere.example"):
        with pytest.raises(AddressRefused) as caught:
            await check_url(f"http://{host}/", resolve=resolver())
        texts.append(str(caught.value).replace(host, "HOST"))
    assert texts[0] == texts[1]
    assert "allow-list" in texts[0]


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("http://10.0.0.1/", "10.0.0.1"),
        ("https://10.0.0.1/", "10.0.0.1"),
        ("http://10.0.0.1:9999/", "10.0.0.1:9999"),
        ("http://[::1]:9999/", "[::1]:9999"),
    ],
)
async def test_suggested_entry_allows_the_url(url: str, entry: str) -> None:
    with pytest.raises(AddressRefused, match=re.escape(f"adds {entry!r} to the allow-list")):
        await check_url(url)
    await check_url(url, [entry])


async def test_detail_has_the_resolved_address() -> None:
    with pytest.raises(AddressRefused) as caught:
        await check_url("http://both.example/", resolve=resolver())
    assert "10.0.0.8" in caught.value.detail
    with pytest.raises(AddressRefused) as caught:
        await check_url("http://nowhere.example/", resolve=resolver())
    assert "no such name" in caught.value.detail


async def test_name_without_address_is_refused() -> None:
    with pytest.raises(AddressRefused):
        await check_url("http://empty.example/", resolve=FakeResolver(empty_example=[[]]))


@given(st.integers(0, 2**32 - 1))
def test_public_ipv4_is_global_in_standard_library(number: int) -> None:
    address = IPv4Address(number)
    if is_public(address):
        assert address.is_global and not address.is_multicast and not address.is_reserved
    for carrier in (f"::ffff:{address}", f"::{address}", f"64:ff9b::{address}"):
        assert not is_public(ip_address(carrier))
    assert not is_public(IPv6Address((0x2002 << 112) | (number << 80)))


@given(st.integers(0, 2**128 - 1))
def test_public_ipv6_is_global_in_standard_library(number: int) -> None:
    address = IPv6Address(number)
    if is_public(address):
        assert address.is_global and not address.is_multicast and not address.is_reserved


@given(st.text(max_size=40))
async def test_arbitrary_host_is_refused_or_public(text: str) -> None:
    try:
        await check_url(f"http://{text}/", resolve=resolver())
    except AddressRefused:
        return
    target = parse_target(httpx2.URL(f"http://{text}/"))
    assert target.host == "public.example" or (target.address and is_public(target.address))
