import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from acc.adapters.auth.card_signatures import (
    MAX_SIGNATURES,
    canonical,
    load_key,
    new_key,
    public_keys,
    sign,
    verify,
)
from acc.adapters.auth.keys import algorithms_of
from acc.domain.errors import InvalidInput, Unauthenticated

CARD: dict[str, Any] = {
    "name": "天気予報",
    "description": "Tells the weather.",
    "version": "1.0.0",
    "capabilities": {"streaming": True, "pushNotifications": False},
    "supportedInterfaces": [
        {"url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "w", "name": "Weather", "description": "Tells.", "tags": ["weather"]}],
}
KEY = new_key(kid="k1")


def encoded(content: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


@pytest.mark.parametrize("alg", ["ES256", "RS256", "PS256", "EdDSA", "Ed25519"])
def test_a_signed_card_verifies_with_the_public_key_alone(alg: str) -> None:
    key = new_key(alg)
    signature = sign(CARD, key, alg=alg, jku="https://a.example/jwks.json")
    header = json.loads(base64.urlsafe_b64decode(signature["protected"] + "=="))
    assert header == {
        "alg": alg,
        "typ": "JOSE",
        "kid": key.kid,
        "jku": "https://a.example/jwks.json",
    }
    published = KeySet.import_key_set(json.loads(json.dumps(public_keys([key]))))
    assert verify({**CARD, "signatures": [signature]}, [signature], keys=published) == key.kid


@pytest.mark.parametrize("curve", ["P-384", "P-521"])
def test_larger_curves_have_their_own_algorithm(curve: Any) -> None:
    key = ECKey.generate_key(curve, auto_kid=True)
    assert verify(CARD, [sign(CARD, key)], keys={key.kid or "": key}) == key.kid


def test_neither_order_nor_earlier_signatures_matter_but_all_else_does() -> None:
    first = sign(CARD, KEY)
    turned = dict(reversed(CARD.items()))
    assert verify(turned, [first], keys={"k1": KEY}) == "k1"
    again = sign({**CARD, "signatures": [first]}, KEY)
    assert verify(CARD, [again], keys={"k1": KEY}) == "k1"
    for changed in ({**CARD, "name": "x"}, {**CARD, "more": 1}, {**CARD, "skills": []}):
        with pytest.raises(Unauthenticated, match="k1"):
            verify(changed, [first], keys={"k1": KEY})


def test_one_good_signature_among_others_is_enough() -> None:
    other = new_key(kid="k2")
    signatures = [{"protected": "?", "signature": ""}, sign(CARD, other), sign(CARD, KEY)]
    assert verify(CARD, signatures, keys={"k1": KEY}) == "k1"


def test_only_so_many_signatures_are_looked_at() -> None:
    signatures = [{"protected": "", "signature": ""}] * MAX_SIGNATURES + [sign(CARD, KEY)]
    with pytest.raises(Unauthenticated):
        verify(CARD, signatures, keys={"k1": KEY})


def test_a_card_without_signature_is_not_verified() -> None:
    with pytest.raises(Unauthenticated, match="not signed"):
        verify(CARD, [], keys={"k1": KEY})


def test_a_key_that_is_not_trusted_is_refused_whatever_it_says_of_itself() -> None:
    stranger = new_key(kid="k1")
    with pytest.raises(Unauthenticated):
        verify(CARD, [sign(CARD, stranger)], keys={"k1": KEY})
    with pytest.raises(Unauthenticated, match="not known here: 'k9'"):
        verify(CARD, [sign(CARD, stranger, kid="k9")], keys={"k1": KEY})
    with pytest.raises(Unauthenticated, match="not known here"):
        verify(CARD, [sign(CARD, KEY)], keys=KeySet([new_key(kid="other")]))


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none", "kid": "k1"},
        {"alg": "None", "kid": "k1"},
        {"alg": "HS256", "kid": "k1"},
        {"alg": "RS256", "kid": "k1"},
        {"alg": "ES384", "kid": "k1"},
        {"alg": "ES256"},
        {"alg": "ES256", "kid": ""},
        {"alg": "ES256", "kid": 1},
        {"alg": 1, "kid": "k1"},
        {"kid": "k1"},
        {"alg": "ES256", "kid": "k1", "crit": ["exp"], "exp": 1},
        {"alg": "ES256", "kid": "k1", "b64": False, "crit": ["b64"]},
        {"alg": "ES256", "kid": "k1", "jwk": {"kty": "oct", "k": "AAAA"}},
    ],
)
def test_a_header_that_asks_for_anything_else_is_refused(header: dict[str, Any]) -> None:
    good = sign(CARD, KEY)
    for value in ("", good["signature"]):
        with pytest.raises(Unauthenticated):
            verify(CARD, [{"protected": encoded(header), "signature": value}], keys={"k1": KEY})


def test_a_public_key_is_no_shared_secret() -> None:
    protected = encoded({"alg": "HS256", "kid": "k1"})
    payload = base64.urlsafe_b64encode(canonical(CARD)).decode().rstrip("=")
    for secret in (KEY.as_pem(private=False), b"s" * 32):
        made = hmac.digest(secret, f"{protected}.{payload}".encode(), hashlib.sha256)
        forged = {"protected": protected, "signature": base64.urlsafe_b64encode(made).decode()}
        with pytest.raises(Unauthenticated, match="does not fit"):
            verify(CARD, [forged], keys={"k1": KEY})
        shared: Any = {"k1": OctKey.import_key("s" * 32)}
        with pytest.raises(Unauthenticated, match="not known"):
            verify(CARD, [forged], keys=shared)


@pytest.mark.parametrize(
    "signature",
    [
        {},
        {"protected": 1, "signature": ""},
        {"protected": "", "signature": None},
        {"protected": "%%%", "signature": "x"},
        {"protected": encoded({}), "signature": "x"},
        {"protected": "WzFd", "signature": "x"},
        {"protected": "/w", "signature": "x"},
        {"protected": "日本", "signature": "x"},
        {"protected": encoded({"alg": "ES256", "kid": "k1"}), "signature": "日本"},
        {"protected": encoded({"alg": "ES256", "kid": "k1"}), "signature": "a.b"},
        {"protected": "W" * 200_000, "signature": "x"},
    ],
)
def test_a_broken_signature_is_refused(signature: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated):
        verify(CARD, [signature], keys={"k1": KEY})


def test_a_signer_that_leaves_out_what_is_empty_is_verified_only_if_that_is_asked_for() -> None:
    signature = sign(CARD, KEY)
    sent = {**CARD, "iconUrl": "", "extra": {"list": [], "more": [{}, ""]}}
    with pytest.raises(Unauthenticated):
        verify(sent, [signature], keys={"k1": KEY})
    assert verify(sent, [signature], keys={"k1": KEY}, pruned=True) == "k1"
    with pytest.raises(Unauthenticated):
        verify({}, [signature], keys={"k1": KEY}, pruned=True)
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    with pytest.raises(Unauthenticated, match="deep"):
        verify({"a": deep}, [signature], keys={"k1": KEY}, pruned=True)


def test_signing_with_what_cannot_sign_is_refused() -> None:
    public = ECKey.import_key(public_keys([KEY])["keys"][0])
    with pytest.raises(InvalidInput, match="private"):
        sign(CARD, public)
    with pytest.raises(InvalidInput, match="ES256 would"):
        sign(CARD, KEY, alg="RS256")
    with pytest.raises(InvalidInput, match="kid"):
        sign(CARD, ECKey.generate_key("P-256"))
    with pytest.raises(InvalidInput, match="cannot be used"):
        sign(CARD, OKPKey.generate_key("X25519"), kid="x")
    with pytest.raises(InvalidInput, match="no key is made"):
        new_key("HS256")


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes = b"") -> bytes:
    locked = serialization.BestAvailableEncryption(password) if password else None
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        locked or serialization.NoEncryption(),
    )


def short_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 1024)  # noqa: S505 - to be refused


def test_a_key_is_read_from_pem_and_jwk_files(tmp_path: Path) -> None:
    path = tmp_path / "鍵"
    for made in (new_key(), new_key("EdDSA"), new_key("RS256")):
        path.write_bytes(made.as_pem(private=True))
        read = load_key(path)
        assert read.kid == made.thumbprint()
        assert verify(CARD, [sign(CARD, read)], keys={read.kid or "": made}) == read.kid
        path.write_bytes(made.as_pem(private=False))
        assert not load_key(path).is_private
        path.write_text(json.dumps(made.as_dict(private=True)))
        assert load_key(path).is_private
    path.write_text(json.dumps(public_keys([KEY])))
    assert load_key(path).kid == "k1"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "neither"),
        (b"secret", "neither"),
        (b"{", "not JSON"),
        (b"{}", '"kty" is missing'),
        (b'{"keys": []}', "holds 0 keys"),
        (b'{"keys": [1]}', "must hold one"),
        (b'{"kty": "EC"}', "not a JWK that can be read"),
        (b'{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}', "not a JWK that can be read"),
        (b'{"kty": "nothing"}', "not a JWK that can be read"),
        (b'{"kty": "oct", "k": "AAAA"}', "shared secret"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "not a PEM key"),
        (pem(ec.generate_private_key(ec.SECP256R1()), b"password"), "encrypted"),
        (pem(ec.generate_private_key(ec.SECP256K1())), "cannot be used"),
        (pem(short_key()), "at least 2048 bits"),
    ],
)
def test_a_wrong_key_file_is_told_why(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        load_key(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert fault in str(caught.value)


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_key(tmp_path / "none")


def test_published_keys_hold_nothing_private() -> None:
    assert set(public_keys([KEY])["keys"][0]) == {"kty", "crv", "x", "y", "kid"}
    assert "d" not in public_keys([new_key("RS256")])["keys"][0]


def test_neither_a_secret_nor_a_short_key_fits_an_algorithm() -> None:
    assert algorithms_of(OctKey.generate_key(256)) == ()
    with pytest.warns(SecurityWarning):
        assert algorithms_of(RSAKey.import_key(pem(short_key()))) == ()
