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
from acc.adapters.auth.card_signatures import new_key, public_keys
from acc.adapters.auth.keys import trusted_keys
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
KEY = new_key(kid="k1")
KEYS = {"k1": KEY}


class Clock:
    def __init__(self, now: float = 1_700_000_000.25) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_the_plain_signature_verifies_with_a_few_lines_anywhere() -> None:
    headers = HmacSigner(SECRET).headers(BODY, audience=URL)
    expected = hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(expected, headers["X-Agent-Signature"])


@given(
    st.dictionaries(st.text(), st.text() | st.integers() | st.booleans()), st.binary(min_size=16)
)
def test_what_is_signed_verifies(content: dict[str, Any], secret: bytes) -> None:
    body = json.dumps(content).encode()
    headers = HmacSigner(secret).headers(body, audience=URL)
    assert verify_notification(body, headers, secret=secret) == content


@pytest.mark.parametrize("alg", ["ES256", "RS256", "EdDSA"])
@pytest.mark.parametrize("header", ["X-A2A-Notification-Jwt", BEARER_HEADER])
def test_a_jwt_verifies_with_the_public_key_alone(alg: str, header: str) -> None:
    key = new_key(alg)
    signer = JwtSigner(key, issuer="https://agent.example", bearer=header == BEARER_HEADER)
    sent = signer.headers(BODY, audience=URL)
    published = trusted_keys(json.dumps(public_keys([key])))
    one = {header: sent[header]}
    found = verify_notification(BODY, one, keys=published, audience=URL)
    assert found == {"taskId": "t-1", "text": "完了"}


def test_published_keys_hold_nothing_private_and_only_those_that_sign() -> None:
    other = {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}
    document = {"keys": [other, {"kty": "new"}, *public_keys([KEY])["keys"]]}
    found = trusted_keys(document)
    assert list(found) == [KEY.kid]
    assert not any(key.is_private for key in found.values())


@pytest.mark.parametrize("document", ["", "[]", '{"keys": 1}', '{"keys": [1]}', "[" * 100_000])
def test_what_is_no_set_of_keys_is_refused(document: str) -> None:
    with pytest.raises(InvalidInput, match="JWK Set"):
        trusted_keys(document)


def test_a_set_without_a_key_that_can_be_used_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no key that can be used"):
        trusted_keys({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}]})


def test_a_jwt_says_who_when_whom_and_what() -> None:
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


def test_names_of_headers_are_read_in_any_case() -> None:
    headers = HmacSigner(SECRET).headers(BODY, audience=URL)
    for turn in (str.lower, str.upper, str.title):
        turned = {turn(name): value for name, value in headers.items()}
        assert verify_notification(BODY, turned, secret=SECRET)


def test_with_neither_secret_nor_keys_nothing_is_verified() -> None:
    with pytest.raises(InvalidInput, match="secret"):
        verify_notification(BODY, {})
    with pytest.raises(InvalidInput, match="audience"):
        verify_notification(BODY, {}, keys=KEYS)


@pytest.mark.parametrize("secret", ["", "short", b"15 bytes long.."])
def test_a_secret_that_could_be_guessed_is_refused(secret: str | bytes) -> None:
    with pytest.raises(InvalidInput, match="16 bytes"):
        HmacSigner(secret)
    with pytest.raises(InvalidInput, match="16 bytes"):
        verify_notification(BODY, {}, secret=secret)


def test_a_signer_without_name_or_private_key_is_refused() -> None:
    with pytest.raises(InvalidInput, match="kid"):
        JwtSigner(ECKey.generate_key("P-256"), issuer="i")
    with pytest.raises(InvalidInput, match="issuer"):
        JwtSigner(KEY)
    with pytest.raises(InvalidInput, match="private"):
        JwtSigner(ECKey.import_key(public_keys([KEY])["keys"][0]), issuer="i")
    with pytest.raises(InvalidInput, match="cannot be used"):
        JwtSigner(OKPKey.generate_key("X25519"), "k", "i")


@pytest.mark.parametrize("name", list(HmacSigner(SECRET).headers(BODY, audience=URL)))
def test_each_header_must_be_there_and_right(name: str) -> None:
    headers = dict(HmacSigner(SECRET).headers(BODY, audience=URL))
    for wrong in ("", "  ", "0" * 64, headers[name] + "0", "日本", "\ud800", "nan"):
        with pytest.raises(Unauthenticated):
            verify_notification(BODY, {**headers, name: wrong}, secret=SECRET)
    del headers[name]
    with pytest.raises(Unauthenticated, match=f"no {name}"):
        verify_notification(BODY, headers, secret=SECRET)


def test_another_body_or_secret_is_refused() -> None:
    headers = HmacSigner(SECRET).headers(BODY, audience=URL)
    with pytest.raises(Unauthenticated, match="X-Agent-Signature does not fit"):
        verify_notification(BODY + b" ", headers, secret=SECRET)
    with pytest.raises(Unauthenticated):
        verify_notification(BODY, headers, secret=SECRET + "!")


def test_two_headers_of_one_name_that_differ_are_refused() -> None:
    headers = HmacSigner(SECRET).headers(BODY, audience=URL)
    doubled = {**headers, "x-agent-signature": "0" * 64}
    with pytest.raises(Unauthenticated, match="two headers"):
        verify_notification(BODY, doubled, secret=SECRET)


@pytest.mark.parametrize(
    "signer", [HmacSigner(SECRET, now=Clock()), JwtSigner(KEY, "k1", "i", now=Clock())]
)
def test_a_notification_is_good_for_so_long(signer: HmacSigner | JwtSigner) -> None:
    headers = signer.headers(BODY, audience=URL)

    def at(moment: float) -> NotificationVerifier:
        return NotificationVerifier(
            secret=SECRET, keys=KEYS, audience=URL, now=Clock(1_700_000_000 + moment)
        )

    for moment in (-59, 0, 299):
        assert at(moment).verify(BODY, headers)
    with pytest.raises(Unauthenticated, match="301 s old"):
        at(301.25).verify(BODY, headers)
    with pytest.raises(Unauthenticated, match="future"):
        at(-61).verify(BODY, headers)


def test_a_jwt_is_never_good_beyond_its_own_end() -> None:
    headers = JwtSigner(KEY, "k1", "i", now=Clock(1_700_000_000)).headers(BODY, audience=URL)
    for max_age in (None, 10_000.0):
        late = NotificationVerifier(
            keys=KEYS, audience=URL, max_age=max_age, now=Clock(1_700_000_361)
        )
        with pytest.raises(Unauthenticated, match="expired"):
            late.verify(BODY, headers)


@pytest.mark.parametrize("signer", [HmacSigner(SECRET), JwtSigner(KEY, "k1", "i")])
def test_a_notification_is_taken_once_and_another_attempt_is_another(
    signer: HmacSigner | JwtSigner,
) -> None:
    verifier = NotificationVerifier(secret=SECRET, keys=KEYS, audience=URL)
    headers = signer.headers(BODY, audience=URL)
    verifier.verify(BODY, headers)
    with pytest.raises(Unauthenticated, match="came before"):
        verifier.verify(BODY, headers)
    verifier.verify(BODY, signer.headers(BODY, audience=URL))


def test_what_was_seen_is_forgotten_when_it_can_no_longer_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notifications, "_MAX_REMEMBERED", 3)
    clock = Clock()
    signer, verifier = HmacSigner(SECRET, now=clock), NotificationVerifier(secret=SECRET, now=clock)
    for _ in range(10):
        clock.now += 1
        verifier.verify(BODY, signer.headers(BODY, audience=URL))
    assert len(verifier._seen) == 3
    clock.now += 1000
    verifier.verify(BODY, signer.headers(BODY, audience=URL))
    assert len(verifier._seen) == 1


def test_a_sender_that_signs_the_body_alone_is_taken_only_if_age_does_not_matter() -> None:
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
    kept = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode({"alg": alg, "kid": kid}, kept, key, algorithms=[alg])


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
        {"key": new_key(kid="k1")},
        {"key": new_key("RS256", kid="k1"), "alg": "RS256"},
        {"key": OctKey.import_key("s" * 40), "alg": "HS256"},
    ],
)
def test_a_jwt_that_says_anything_else_is_refused(changes: dict[str, Any]) -> None:
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
def test_what_is_no_jwt_is_refused(value: str) -> None:
    with pytest.raises(Unauthenticated):
        check(value)


def test_a_receiver_with_keys_is_not_content_with_less() -> None:
    headers = HmacSigner(SECRET).headers(BODY, audience=URL)
    with pytest.raises(Unauthenticated, match="not signed"):
        verify_notification(BODY, headers, keys=KEYS, audience=URL)
    with pytest.raises(Unauthenticated, match="not signed"):
        verify_notification(BODY, {"Authorization": "Bearer own"}, keys=KEYS, audience=URL)
    with pytest.raises(Unauthenticated, match="not signed"):
        verify_notification(BODY, {"Authorization": f"Basic {token()}"}, keys=KEYS, audience=URL)


def test_a_receiver_may_have_both_and_keep_its_own_credential() -> None:
    headers = {**HmacSigner(SECRET).headers(BODY, audience=URL), "Authorization": "Bearer own"}
    assert verify_notification(BODY, headers, secret=SECRET, keys=KEYS, audience=URL)


@pytest.mark.parametrize("body", [b"", b"[1]", b"nonsense", b"\xff", b"[" * 100_000])
def test_a_genuine_body_that_is_no_object_is_told_apart(body: bytes) -> None:
    headers = HmacSigner(SECRET).headers(body, audience=URL)
    with pytest.raises(InvalidInput, match="genuine"):
        verify_notification(body, headers, secret=SECRET)


@pytest.mark.parametrize(
    ("body", "headers", "told"),
    [
        (BODY.decode(), {}, "body must be the bytes that came in, not str"),
        (None, {}, "body must be the bytes that came in, not NoneType"),
        (BODY, [("X-Agent-Signature", "x")], "headers must map names to values, not be a list"),
        (BODY, None, "headers must map names to values"),
        (BODY, {b"X-Agent-Signature": b"x"}, "must be texts, not bytes"),
        (BODY, {"X-Agent-Signature": b"x"}, "must be texts, not bytes"),
    ],
)
def test_what_is_no_body_or_no_headers_is_told(body: Any, headers: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        verify_notification(body, headers, secret=SECRET)


def test_the_headers_of_the_standard_librarys_server_are_taken() -> None:
    came = EmailMessage()
    for name, value in HmacSigner(SECRET).headers(BODY, audience=URL).items():
        came[name] = value
    headers: Any = came
    assert verify_notification(BODY, headers, secret=SECRET)["taskId"] == "t-1"
    body: Any = bytearray(BODY)
    assert verify_notification(body, headers, secret=SECRET)["taskId"] == "t-1"
