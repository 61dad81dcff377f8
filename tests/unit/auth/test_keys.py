import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc.errors import SecurityWarning
from joserfc.jwk import OctKey, RSAKey
from test_card_signatures import CARD, KEY

from acc.adapters.auth.card_signatures import sign_card, verify_card
from acc.adapters.auth.keys import (
    generate_key,
    load_key,
    public_key_set,
    supported_algorithms,
)
from acc.domain.errors import InvalidInput


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes = b"") -> bytes:
    locked = serialization.BestAvailableEncryption(password) if password else None
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        locked or serialization.NoEncryption(),
    )


def short_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 1024)  # noqa: S505 - must be rejected


def test_key_is_loaded_from_pem_and_jwk_files(tmp_path: Path) -> None:
    path = tmp_path / "鍵"
    for made in (generate_key(), generate_key("EdDSA"), generate_key("RS256")):
        path.write_bytes(made.as_pem(private=True))
        read = load_key(path)
        assert read.kid == made.thumbprint()
        assert verify_card(CARD, [sign_card(CARD, read)], keys={read.kid or "": made}) == read.kid
        path.write_bytes(made.as_pem(private=False))
        assert not load_key(path).is_private
        path.write_text(json.dumps(made.as_dict(private=True)))
        assert load_key(path).is_private
    path.write_text(json.dumps(public_key_set([KEY])))
    assert load_key(path).kid == "k1"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "neither"),
        (b"secret", "neither"),
        (b"{", "not JSON"),
        (b"{}", '"kty" is missing'),
        (b'{"keys": []}', "got 0"),
        (b'{"keys": [1]}', "one key"),
        (b'{"kty": "EC"}', "the JWK is invalid"),
        (b'{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}', "the JWK is invalid"),
        (b'{"kty": "nothing"}', "the JWK is invalid"),
        (b'{"kty": "oct", "k": "AAAA"}', "shared secret"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "PEM key is invalid"),
        (pem(ec.generate_private_key(ec.SECP256R1()), b"password"), "encrypted"),
        (pem(ec.generate_private_key(ec.SECP256K1())), "not supported"),
        (pem(short_key()), "at least 2048 bits"),
    ],
)
def test_invalid_key_file_is_rejected(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        load_key(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert problem in str(caught.value)


def test_missing_key_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_key(tmp_path / "none")


def test_public_key_set_has_no_private_values() -> None:
    assert set(public_key_set([KEY])["keys"][0]) == {"kty", "crv", "x", "y", "kid"}
    assert "d" not in public_key_set([generate_key("RS256")])["keys"][0]


def test_symmetric_and_short_keys_have_no_algorithm() -> None:
    assert supported_algorithms(OctKey.generate_key(256)) == ()
    with pytest.warns(SecurityWarning):
        assert supported_algorithms(RSAKey.import_key(pem(short_key()))) == ()
