import base64
import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey

from acc.adapters.auth.card_signatures import (
    MAX_SIGNATURES,
    CardVerifier,
    canonical_json,
    sign_card,
    verify_card,
)
from acc.adapters.auth.keys import generate_key, public_key_set
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
KEY = generate_key(kid="k1")


def encoded(content: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


@pytest.mark.parametrize("alg", ["ES256", "RS256", "PS256", "EdDSA", "Ed25519"])
def test_signed_card_verifies_with_public_key(alg: str) -> None:
    key = generate_key(alg)
    signature = sign_card(CARD, key, alg=alg, jku="https://a.example/jwks.json")
    header = json.loads(base64.urlsafe_b64decode(signature["protected"] + "=="))
    assert header == {
        "alg": alg,
        "typ": "JOSE",
        "kid": key.kid,
        "jku": "https://a.example/jwks.json",
    }
    published = KeySet.import_key_set(json.loads(json.dumps(public_key_set([key]))))
    assert verify_card({**CARD, "signatures": [signature]}, [signature], keys=published) == key.kid


@pytest.mark.parametrize("curve", ["P-384", "P-521"])
def test_larger_curves_use_their_algorithm(curve: Any) -> None:
    key = ECKey.generate_key(curve, auto_kid=True)
    assert verify_card(CARD, [sign_card(CARD, key)], keys={key.kid or "": key}) == key.kid


def test_signature_ignores_order_and_signatures_only() -> None:
    first = sign_card(CARD, KEY)
    turned = dict(reversed(CARD.items()))
    assert verify_card(turned, [first], keys={"k1": KEY}) == "k1"
    again = sign_card({**CARD, "signatures": [first]}, KEY)
    assert verify_card(CARD, [again], keys={"k1": KEY}) == "k1"
    for changed in ({**CARD, "name": "x"}, {**CARD, "more": 1}, {**CARD, "skills": []}):
        with pytest.raises(Unauthenticated, match="k1"):
            verify_card(changed, [first], keys={"k1": KEY})


def test_one_valid_signature_suffices() -> None:
    other = generate_key(kid="k2")
    signatures = [{"protected": "?", "signature": ""}, sign_card(CARD, other), sign_card(CARD, KEY)]
    assert verify_card(CARD, signatures, keys={"k1": KEY}) == "k1"


def test_signatures_beyond_limit_are_ignored() -> None:
    signatures = [{"protected": "", "signature": ""}] * MAX_SIGNATURES + [sign_card(CARD, KEY)]
    with pytest.raises(Unauthenticated):
        verify_card(CARD, signatures, keys={"k1": KEY})


def test_unsigned_card_is_rejected() -> None:
    with pytest.raises(Unauthenticated, match="not signed"):
        verify_card(CARD, [], keys={"k1": KEY})


def test_untrusted_key_is_rejected() -> None:
    stranger = generate_key(kid="k1")
    with pytest.raises(Unauthenticated):
        verify_card(CARD, [sign_card(CARD, stranger)], keys={"k1": KEY})
    with pytest.raises(Unauthenticated, match="'k9' is not trusted"):
        verify_card(CARD, [sign_card(CARD, stranger, kid="k9")], keys={"k1": KEY})
    with pytest.raises(Unauthenticated, match="not trusted"):
        verify_card(CARD, [sign_card(CARD, KEY)], keys=KeySet([generate_key(kid="other")]))


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
def test_unsupported_header_is_rejected(header: dict[str, Any]) -> None:
    good = sign_card(CARD, KEY)
    for value in ("", good["signature"]):
        with pytest.raises(Unauthenticated):
            verify_card(
                CARD, [{"protected": encoded(header), "signature": value}], keys={"k1": KEY}
            )


def test_public_key_is_not_used_as_hmac_secret() -> None:
    protected = encoded({"alg": "HS256", "kid": "k1"})
    payload = base64.urlsafe_b64encode(canonical_json(CARD)).decode().rstrip("=")
    for secret in (KEY.as_pem(private=False), b"s" * 32):
        made = hmac.digest(secret, f"{protected}.{payload}".encode(), hashlib.sha256)
        forged = {"protected": protected, "signature": base64.urlsafe_b64encode(made).decode()}
        with pytest.raises(Unauthenticated, match="does not fit"):
            verify_card(CARD, [forged], keys={"k1": KEY})
        shared: Any = {"k1": OctKey.import_key("s" * 32)}
        with pytest.raises(Unauthenticated, match="not trusted"):
            verify_card(CARD, [forged], keys=shared)


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
def test_malformed_signature_is_rejected(signature: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated):
        verify_card(CARD, [signature], keys={"k1": KEY})


def test_empty_values_are_ignored_only_on_request() -> None:
    signature = sign_card(CARD, KEY)
    sent = {**CARD, "iconUrl": "", "extra": {"list": [], "more": [{}, ""]}}
    with pytest.raises(Unauthenticated):
        verify_card(sent, [signature], keys={"k1": KEY})
    assert verify_card(sent, [signature], keys={"k1": KEY}, ignore_empty=True) == "k1"
    with pytest.raises(Unauthenticated):
        verify_card({}, [signature], keys={"k1": KEY}, ignore_empty=True)
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    with pytest.raises(Unauthenticated, match="deep"):
        verify_card({"a": deep}, [signature], keys={"k1": KEY}, ignore_empty=True)


def test_signing_with_unsuitable_key_fails() -> None:
    public = ECKey.import_key(public_key_set([KEY])["keys"][0])
    with pytest.raises(InvalidInput, match="private"):
        sign_card(CARD, public)
    with pytest.raises(InvalidInput, match="use ES256"):
        sign_card(CARD, KEY, alg="RS256")
    with pytest.raises(InvalidInput, match="kid"):
        sign_card(CARD, ECKey.generate_key("P-256"))
    with pytest.raises(InvalidInput, match="not supported"):
        sign_card(CARD, OKPKey.generate_key("X25519"), kid="x")
    with pytest.raises(InvalidInput, match="HS256"):
        generate_key("HS256")


def test_card_verifier_accepts_any_kid_of_its_key() -> None:
    verifier = CardVerifier(KEY)
    assert verifier.verify(CARD, [sign_card(CARD, KEY, kid="other")]) == "other"
    invalid: list[list[dict[str, str]]] = [[], [{}], [{"protected": "?"}]]
    for signatures in (*invalid, [sign_card(CARD, generate_key())]):
        with pytest.raises(Unauthenticated):
            verifier.verify(CARD, signatures)


def test_canonical_json_sorts_names_by_utf16_and_formats_numbers() -> None:
    value = {"\U0001f600": 1e30, "\ufb33": 4.50, "\u20ac": [True, None, -0.0]}
    expected = '{"\u20ac":[true,null,0],"\U0001f600":1e+30,"\ufb33":4.5}'
    assert canonical_json(value).decode() == expected


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, 2**53, 10**400, "\ud800", {"\udfff": 1}, {1: 2}, b"bytes", {1}]
)
def test_value_without_canonical_json_is_rejected(value: object) -> None:
    with pytest.raises(InvalidInput):
        canonical_json([value])


def test_deeply_nested_value_has_no_canonical_json() -> None:
    value: object = 1
    for _ in range(10_000):
        value = [value]
    with pytest.raises(InvalidInput, match="deep"):
        canonical_json(value)
