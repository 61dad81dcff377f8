import base64
import hashlib
import hmac
import json
import time
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey

import acc.adapters.auth.notification_signatures as notifications
from acc.adapters.auth.keys import generate_key, public_key_set, read_key_set
from acc.adapters.auth.notification_signatures import (
    BEARER_HEADER,
    HmacSigner,
    JwtSigner,
    NotificationVerifier,
    verify_notification,
)
from acc.domain.errors import InvalidInput, Unauthenticated

SECRET = "とても長い秘密の言葉"
BODY = '{"taskId": "t-1", "text": "完了"}'.encode()
URL = "https://receiver.example/hook"
KEY = generate_key(kid="k1")
KEYS = {"k1": KEY}


class Clock:
    def __init__(self, now: float = 1_700_000_000.25) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_plain_signature_is_hmac_of_body() -> None:
    headers = HmacSigner(SECRET).headers(BODY, audience=URL)
    expected = hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(expected, headers["X-Agent-Signature"])


@given(
    st.dictionaries(st.text(), st.text() | st.integers() | st.booleans()), st.binary(min_size=16)
)
def test_signed_notification_verifies(content: dict[str, Any], secret: bytes) -> None:
    body = json.dumps(content).encode()
    headers = HmacSigner(secret).headers(body, audience=URL)
    assert verify_notification(body, headers, secret=secret) == content


@pytest.mark.parametrize("alg", ["ES256", "RS256", "EdDSA"])
@pytest.mark.parametrize("header", ["X-A2A-Notification-Jwt", BEARER_HEADER])
def test_jwt_verifies_with_public_key(alg: str, header: str) -> None:
    key = generate_key(alg)
    signer = JwtSigner(key, issuer="https://agent.example", bearer=header == BEARER_HEADER)
    sent = signer.headers(BODY, audience=URL)
    published = read_key_set(json.dumps(public_key_set([key])))
    one = {header: sent[header]}
    content = verify_notification(BODY, one, keys=published, audience=URL)
    assert content == {"taskId": "t-1", "text": "完了"}


def test_key_set_ignores_unsupported_keys() -> None:
    other = {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}
    document = {"keys": [other, {"kty": "new"}, *public_key_set([KEY])["keys"]]}
    keys = read_key_set(document)
    assert list(keys) == [KEY.kid]
    assert not any(key.is_private for key in keys.values())


@pytest.mark.parametrize("document", ["", "[]", '{"keys": 1}', '{"keys": [1]}', "[" * 100_000])
def test_malformed_key_set_is_rejected(document: str) -> None:
    with pytest.raises(InvalidInput, match="JWK set"):
        read_key_set(document)


def test_key_set_without_usable_key_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="no supported key"):
        read_key_set({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}]})


def test_jwt_has_expected_header_and_claims() -> None:
    clock = Clock()
    token = JwtSigner(KEY, "k7", "https://agent.example", now=clock).headers(BODY, audience=URL)[
        "X-A2A-Notification-Jwt"
    ]
    head, claims = (
        json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]
    )
    assert head == {"typ": "JWT", "alg": "ES256", "kid": "k7"}
    assert len(claims.pop("jti")) > 16
    assert claims == {
        "iss": "https://agent.example",
        "aud": URL,
        "iat": 1_700_000_000,
        "exp": 1_700_000_300,
        "request_body_sha256": hashlib.sha256(BODY).hexdigest(),
    }


def test_header_names_are_case_insensitive() -> None:
    headers = HmacSigner(SECRET).headers(BODY, audience=URL)
    for turn in (str.lower, str.upper, str.title):
        turned = {turn(name): value for name, value in headers.items()}
        assert verify_notification(BODY, turned, secret=SECRET)


def test_verification_requires_secret_or_keys() -> None:
    with pytest.raises(InvalidInput, match="secret"):
        verify_notification(BODY, {})
    with pytest.raises(InvalidInput, match="audience"):
        verify_notification(BODY, {}, keys=KEYS)


@pytest.mark.parametrize("secret", ["", "short", b"15 bytes long.."])
def test_short_secret_is_rejected(secret: str | bytes) -> None:
    with pytest.raises(InvalidInput, match="16 bytes"):
        HmacSigner(secret)
    with pytest.raises(InvalidInput, match="16 bytes"):
        verify_notification(BODY, {}, secret=secret)


def test_jwt_signer_requires_kid_issuer_and_private_key() -> None:
    with pytest.raises(InvalidInput, match="kid"):
        JwtSigner(ECKey.generate_key("P-256"), issuer="i")
    with pytest.raises(InvalidInput, match="issuer"):
        JwtSigner(KEY)
    with pytest.raises(InvalidInput, match="private"):
        JwtSigner(ECKey.import_key(public_key_set([KEY])["keys"][0]), issuer="i")
    with pytest.raises(InvalidInput, match="not supported"):
        JwtSigner(OKPKey.generate_key("X25519"), "k", "i")


@pytest.mark.parametrize("name", list(HmacSigner(SECRET).headers(BODY, audience=URL)))
def test_missing_or_wrong_header_is_rejected(name: str) -> None:
    headers = dict(HmacSigner(SECRET).headers(BODY, audience=URL))
    for wrong in ("", "  ", "0" * 64, headers[name] + "0", "日本", "\ud800", "nan"):
        with pytest.raises(Unauthenticated):
            verify_notification(BODY, {**headers, name: wrong}, secret=SECRET)
    del headers[name]
    with pytest.raises(Unauthenticated, match=f"no {name}"):
        verify_notification(BODY, headers, secret=SECRET)


def test_other_body_or_secret_is_rejected() -> None:
    headers = HmacSigner(SECRET).headers(BODY, audience=URL)
    with pytest.raises(Unauthenticated, match="X-Agent-Signature"):
        verify_notification(BODY + b" ", headers, secret=SECRET)
    with pytest.raises(Unauthenticated):
        verify_notification(BODY, headers, secret=SECRET + "!")


def test_conflicting_duplicate_headers_are_rejected() -> None:
    headers = HmacSigner(SECRET).headers(BODY, audience=URL)
    doubled = {**headers, "x-agent-signature": "0" * 64}
    with pytest.raises(Unauthenticated, match="two different headers"):
        verify_notification(BODY, doubled, secret=SECRET)


@pytest.mark.parametrize(
    "signer", [HmacSigner(SECRET, now=Clock()), JwtSigner(KEY, "k1", "i", now=Clock())]
)
def test_notification_expires(signer: HmacSigner | JwtSigner) -> None:
    headers = signer.headers(BODY, audience=URL)

    def at(offset: float) -> NotificationVerifier:
        return NotificationVerifier(
            secret=SECRET, keys=KEYS, audience=URL, now=Clock(1_700_000_000 + offset)
        )

    for offset in (-59, 0, 299):
        assert at(offset).verify(BODY, headers)
    with pytest.raises(Unauthenticated, match="301 s old"):
        at(301.25).verify(BODY, headers)
    with pytest.raises(Unauthenticated, match="future"):
        at(-61).verify(BODY, headers)


def test_jwt_expires_whatever_max_age() -> None:
    headers = JwtSigner(KEY, "k1", "i", now=Clock(1_700_000_000)).headers(BODY, audience=URL)
    for max_age in (None, 10_000.0):
        late = NotificationVerifier(
            keys=KEYS, audience=URL, max_age=max_age, now=Clock(1_700_000_361)
        )
        with pytest.raises(Unauthenticated, match="expired"):
            late.verify(BODY, headers)


@pytest.mark.parametrize("signer", [HmacSigner(SECRET), JwtSigner(KEY, "k1", "i")])
def test_replay_is_rejected_but_new_attempt_is_accepted(
    signer: HmacSigner | JwtSigner,
) -> None:
    verifier = NotificationVerifier(secret=SECRET, keys=KEYS, audience=URL)
    headers = signer.headers(BODY, audience=URL)
    verifier.verify(BODY, headers)
    with pytest.raises(Unauthenticated, match="replayed"):
        verifier.verify(BODY, headers)
    verifier.verify(BODY, signer.headers(BODY, audience=URL))


def test_seen_signatures_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notifications, "_MAX_SEEN_IDS", 3)
    clock = Clock()
    signer, verifier = HmacSigner(SECRET, now=clock), NotificationVerifier(secret=SECRET, now=clock)
    for _ in range(10):
        clock.now += 1
        verifier.verify(BODY, signer.headers(BODY, audience=URL))
    assert len(verifier._seen) == 3
    clock.now += 1000
    verifier.verify(BODY, signer.headers(BODY, audience=URL))
    assert len(verifier._seen) == 1


def test_plain_signature_is_accepted_only_without_max_age() -> None:
    plain = {"X-Agent-Signature": hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest()}
    with pytest.raises(Unauthenticated, match="no X-Agent-Timestamp"):
        verify_notification(BODY, plain, secret=SECRET)
    verifier = NotificationVerifier(secret=SECRET, max_age=None)
    for _ in range(2):
        assert verifier.verify(BODY, plain)["taskId"] == "t-1"
    with pytest.raises(Unauthenticated):
        verifier.verify(BODY + b" ", plain)


def token(key: Any = KEY, alg: str = "ES256", kid: str = "k1", **changes: Any) -> str:
    now = time.time()
    claims = {
        "iss": "i",
        "aud": URL,
        "iat": now,
        "exp": now + 300,
        "jti": "j",
        "request_body_sha256": hashlib.sha256(BODY).hexdigest(),
        **changes,
    }
    present = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode({"alg": alg, "kid": kid}, present, key, algorithms=[alg])


def check(value: str) -> dict[str, Any]:
    return verify_notification(BODY, {"X-A2A-Notification-Jwt": value}, keys=KEYS, audience=URL)


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "https://other.example/"},
        {"aud": None},
        {"aud": [URL]},
        {"iat": None},
        {"iat": "now"},
        {"iat": True},
        {"exp": None},
        {"exp": 1},
        {"jti": None},
        {"jti": 1},
        {"request_body_sha256": None},
        {"request_body_sha256": "0" * 64},
        {"kid": "k2"},
        {"kid": ""},
        {"key": generate_key(kid="k1")},
        {"key": generate_key("RS256", kid="k1"), "alg": "RS256"},
        {"key": OctKey.import_key("s" * 40), "alg": "HS256"},
    ],
)
def test_jwt_with_wrong_claims_is_rejected(changes: dict[str, Any]) -> None:
    assert check(token())
    with pytest.raises(Unauthenticated):
        check(token(**changes))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x",
        "a.b.c",
        "..",
        "日本.a.b",
        "eyJhbGciOiJub25lIiwia2lkIjoiazEifQ.e30.",
        "eyJhbGciOiJFUzI1NiJ9.e30.AA",
        "W10.e30.AA",
    ],
)
def test_malformed_jwt_is_rejected(value: str) -> None:
    with pytest.raises(Unauthenticated):
        check(value)


def test_receiver_with_keys_requires_jwt() -> None:
    headers = HmacSigner(SECRET).headers(BODY, audience=URL)
    with pytest.raises(Unauthenticated, match="not signed"):
        verify_notification(BODY, headers, keys=KEYS, audience=URL)
    with pytest.raises(Unauthenticated, match="not signed"):
        verify_notification(BODY, {"Authorization": "Bearer own"}, keys=KEYS, audience=URL)
    with pytest.raises(Unauthenticated, match="not signed"):
        verify_notification(BODY, {"Authorization": f"Basic {token()}"}, keys=KEYS, audience=URL)


def test_receiver_with_keys_and_secret_accepts_hmac() -> None:
    headers = {**HmacSigner(SECRET).headers(BODY, audience=URL), "Authorization": "Bearer own"}
    assert verify_notification(BODY, headers, secret=SECRET, keys=KEYS, audience=URL)


@pytest.mark.parametrize("body", [b"", b"[1]", b"nonsense", b"\xff", b"[" * 100_000])
def test_signed_body_that_is_not_an_object_is_rejected(body: bytes) -> None:
    headers = HmacSigner(SECRET).headers(body, audience=URL)
    with pytest.raises(InvalidInput, match="not a JSON object"):
        verify_notification(body, headers, secret=SECRET)


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (BODY.decode(), {}, "body must be the received bytes, got str"),
        (None, {}, "body must be the received bytes, got NoneType"),
        (BODY, [("X-Agent-Signature", "x")], "headers must be a mapping, got list"),
        (BODY, None, "headers must be a mapping"),
        (BODY, {b"X-Agent-Signature": b"x"}, "must be str, got bytes"),
        (BODY, {"X-Agent-Signature": b"x"}, "must be str, got bytes"),
    ],
)
def test_wrong_argument_types_are_rejected(body: Any, headers: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        verify_notification(body, headers, secret=SECRET)


def test_headers_of_http_server_are_accepted() -> None:
    message = EmailMessage()
    for name, value in HmacSigner(SECRET).headers(BODY, audience=URL).items():
        message[name] = value
    headers: Any = message
    assert verify_notification(BODY, headers, secret=SECRET)["taskId"] == "t-1"
    body: Any = bytearray(BODY)
    assert verify_notification(body, headers, secret=SECRET)["taskId"] == "t-1"
