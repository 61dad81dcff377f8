"""Callers with client certificates: names, headers of proxies, presentation by RemoteAgent."""

import base64
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from certificates import Authority, Issued

from acc import ApiKey, MutualTls, RemoteAgent
from acc.a2a import ClientCertificates, Principal
from acc.bootstrap.a2a_client import make_credentials, make_remote
from acc.domain.errors import InvalidInput, Unauthenticated
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.endpoint import RemoteEndpoint

PROXY = "10.0.0.5"


def direct(issued: Issued, **options: Any) -> Principal | None:
    return ClientCertificates(**options).verify(
        address="192.0.2.7", headers={}, certificate=issued.pem
    )


def forwarded(value: str, address: str = PROXY, *, pem: str = "") -> Principal | None:
    certificates = ClientCertificates(proxies=(PROXY, "10.1.0.0/16", "fd00::/8"))
    headers = {b"client-cert": value.encode()}
    return certificates.verify(address=address, headers=headers, certificate=pem)


@pytest.mark.parametrize(
    ("names", "caller"),
    [
        ({"uris": ("agent://checkout_agent",), "dns": ("a.example",)}, "agent://checkout_agent"),
        ({"common_name": "old", "dns": ("a.example", "b.example")}, "a.example"),
        ({"common_name": "請求"}, "請求"),
    ],
)
def test_caller_is_uri_else_dns_name_else_common_name(
    tmp_path: Path, names: Any, caller: str
) -> None:
    principal = direct(Authority(tmp_path).issue(**names))
    assert principal is not None
    assert (principal.caller, principal.permissions) == (caller, None)


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"common_name": "a\u202eb"},
        {"common_name": " "},
        {"uris": ("agent://a", "agent://b")},
        {"common_name": "a", "expired": True},
    ],
)
def test_certificate_without_a_clear_caller_is_rejected_and_logged(
    tmp_path: Path, names: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "acc.auth")
    assert direct(Authority(tmp_path).issue(**names)) is None
    assert "rejected" in caplog.text


def test_permissions_of_certificates_are_limited(tmp_path: Path) -> None:
    principal = direct(Authority(tmp_path).issue("a"), permissions=["agent.read"])
    assert principal is not None
    assert principal.permissions == {"agent.read"}


def test_named_proxy_passes_certificates_in_three_forms(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue(uris=("spiffe://shop/desk",))
    rfc9440 = f":{base64.b64encode(issued.der).decode()}:"
    envoy = f'Hash=00;Cert="{quote(issued.pem)}";Subject="";URI=spiffe://shop/admin'
    for value in (rfc9440, quote(issued.pem), envoy):
        for address in (PROXY, "10.1.2.3", f"::ffff:{PROXY}", "fd00::1"):
            principal = forwarded(value, address)
            assert principal is not None, (value, address)
            assert principal.caller == "spiffe://shop/desk"


@pytest.mark.parametrize("address", ["10.0.0.6", "192.0.2.7", "127.0.0.1", "", "testclient"])
def test_header_of_others_is_ignored_and_logged(
    tmp_path: Path, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "acc.auth")
    authority = Authority(tmp_path)
    value = quote(authority.issue("admin").pem)
    assert forwarded(value, address) is None
    assert "not a named proxy" in caplog.text
    own = forwarded(value, address, pem=authority.issue("own").pem)
    assert own is not None
    assert own.caller == "own"


def test_certificate_of_the_proxy_itself_is_not_the_caller(tmp_path: Path) -> None:
    proxy = Authority(tmp_path).issue("proxy").pem
    certificates = ClientCertificates(proxies=(PROXY,))
    assert certificates.verify(address=PROXY, headers={}, certificate=proxy) is None
    assert forwarded("", pem=proxy) is None


def test_invalid_headers_of_a_proxy_are_rejected(tmp_path: Path) -> None:
    pem, der = (issued := Authority(tmp_path).issue("a")).pem, issued.der
    encoded = base64.b64encode(der).decode()
    envoy = f'Cert="{quote(pem)}"'
    for value in (
        "",
        ":",
        "::",
        ":!!!:",
        encoded,
        f":{encoded[:-8]}:",
        f":{encoded}:, :{encoded}:",
        quote(pem + pem),
        f"{envoy},{envoy}",
        'Hash=00;URI=agent://a;Subject="CN=a"',
        "CN=a",
        "a" * 20_000,
        quote(pem.replace("MI", "M!")),
    ):
        assert forwarded(value) is None, value


@pytest.mark.parametrize(
    "options",
    [{"proxies": "10.0.0.5"}, {"proxies": ["proxy.example"]}, {"header": "a b"}, {"header": ""}],
)
def test_invalid_options_are_rejected(options: Any) -> None:
    with pytest.raises(InvalidInput):
        ClientCertificates(**options)


async def test_card_decides_whether_the_certificate_meets_its_requirements(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("a")
    auth = (MutualTls(cert=issued.chain, key=issued.key), ApiKey(value="k"))
    endpoint = RemoteEndpoint(url="https://agent.example", auth=auth)
    credentials = make_credentials(endpoint, ())
    assert credentials is not None

    def card(**schemes: Any) -> AgentCard:
        security = tuple({name: ()} for name in schemes)
        return AgentCard(
            name="a",
            description="d",
            version="1",
            interfaces=(),
            security_schemes=schemes,
            security=security,
        )

    mtls, key = {"type": "mutualTLS"}, {"type": "apiKey", "in": "header", "name": "K"}
    assert await credentials.headers(card(mtls=mtls, key=key)) == {}
    assert await credentials.headers(card(key=key, mtls=mtls)) == {"K": "k"}
    with pytest.raises(Unauthenticated):
        await credentials.headers(card(basic={"type": "http", "scheme": "basic"}))


def test_unusable_client_certificate_is_explained(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.issue("a"), authority.issue("b")
    old = authority.issue("c", expired=True)
    for files, words in (
        ({"cert": tmp_path / "none.pem"}, "none.pem cannot be read"),
        ({"cert": tmp_path}, "cannot be read"),
        ({"cert": one.key}, "expected a PEM file with a certificate"),
        ({"cert": one.chain}, "expected a PEM file with a private key"),
        ({"cert": one.chain, "key": other.key}, "does not belong to the client certificate"),
        ({"cert": one.chain, "key": tmp_path / "none.key"}, "none.key cannot be read"),
        ({"cert": old.chain, "key": old.key}, "expired on"),
        ({"cert": one.chain, "key": one.key, "ca": tmp_path / "none.pem"}, "the CA"),
    ):
        agent = RemoteAgent(name="a", url="https://agent.example", auth=MutualTls(**files))
        with pytest.raises(InvalidInput, match=words):
            make_remote(agent.endpoint)
