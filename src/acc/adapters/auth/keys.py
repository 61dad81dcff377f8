"""Signing keys: generation, files, JWK sets and their algorithms."""

import json
import warnings
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from joserfc.errors import JoseError, SecurityWarning, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel
from joserfc.jwk import ECKey, KeyParameters, KeySet, OctKey, OKPKey, RSAKey, import_key
from joserfc.jws import JWSRegistry

from acc.domain.errors import InvalidInput, Unauthenticated

SigningKey: TypeAlias = ECKey | RSAKey | OKPKey
Keys: TypeAlias = KeySet | Mapping[str, SigningKey]
_MIN_RSA_BITS = 2048
_CURVES: Mapping[str, tuple[str, ...]] = {
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    # Two names of the same algorithm; the first is the more common one.
    "Ed25519": ("EdDSA", "Ed25519"),
}
_RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_SUPPORTED_KEYS = f"supported are {', '.join(_CURVES)}, and RSA with at least {_MIN_RSA_BITS} bits"


class SignatureRegistry(JWSRegistry):
    """Limits joserfc to the given algorithms, and allows large payloads."""

    max_header_length = 4096
    max_payload_length = 4 * 1024 * 1024

    def __init__(self, algorithms: Collection[str]) -> None:
        super().__init__(algorithms=algorithms, strict_check_header=False)

    def get_alg(self, name: str) -> JWSAlgModel:
        """Return an algorithm if it is allowed."""
        # The base class warns about the name EdDSA.
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError(f"algorithm {name!r} does not fit the key")
        return self.algorithms[name]

    def check_header(self, header: dict[str, Any]) -> None:
        """Check a header; the official SDK writes absent values as null."""
        super().check_header({name: value for name, value in header.items() if value is not None})


def generate_key(alg: str = "ES256", *, kid: str = "") -> SigningKey:
    """Return a new private key for an algorithm; the default kid is its thumbprint."""
    parameters: KeyParameters | None = {"kid": kid} if kid else None
    if alg in ("EdDSA", "Ed25519"):
        return OKPKey.generate_key("Ed25519", parameters, auto_kid=not kid)
    if alg in _RSA_ALGORITHMS:
        return RSAKey.generate_key(3072, parameters, auto_kid=not kid)
    if alg == "ES256":
        return ECKey.generate_key("P-256", parameters, auto_kid=not kid)
    raise InvalidInput(f"keys for {alg!r} cannot be generated; use ES256, EdDSA or RS256")


def load_key(path: Path) -> SigningKey:
    """Return the key in a PEM or JWK file, or raise InvalidInput.

    A key without a kid gets its thumbprint, which is the same at every start.
    """
    try:
        with warnings.catch_warnings():
            # joserfc only warns about short keys; here they are errors.
            warnings.simplefilter("ignore", SecurityWarning)
            return _parse_key(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def public_key_set(keys: Iterable[SigningKey]) -> dict[str, Any]:
    """Return the JWK set to publish, without private values."""
    return {"keys": [dict(key.as_dict(private=False)) for key in keys]}


def read_key_set(document: bytes | str | Mapping[str, Any]) -> dict[str, SigningKey]:
    """Return the keys of a published JWK set by kid, or raise InvalidInput.

    Keys that are not supported are ignored.
    """
    try:
        content = document if isinstance(document, Mapping) else json.loads(document)
        entries = [dict(entry) for entry in content["keys"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidInput('a JWK set must be a JSON object {"keys": [...]}') from None
    keys = [key for entry in entries if (key := _usable_key(entry)) is not None]
    if not keys:
        raise InvalidInput(f"the JWK set has no supported key with a kid; {_SUPPORTED_KEYS}")
    return {str(key.kid): key for key in keys}


def find_key(keys: Keys, kid: object) -> SigningKey:
    """Return the key with a kid, or raise Unauthenticated if it is not trusted."""
    if not isinstance(kid, str) or not kid:
        raise Unauthenticated("the signature has no kid")
    key: object = None
    if isinstance(keys, KeySet):
        key = next((each for each in keys.keys if each.kid == kid), None)
    else:
        key = keys.get(kid)
    if not isinstance(key, ECKey | RSAKey | OKPKey):
        raise Unauthenticated(f"the key {kid!r} is not trusted")
    return key


def supported_algorithms(key: object) -> tuple[str, ...]:
    """Return the algorithms of a key, the preferred one first; none for a symmetric key."""
    if isinstance(key, RSAKey):
        return _RSA_ALGORITHMS if key.raw_value.key_size >= _MIN_RSA_BITS else ()
    if isinstance(key, ECKey | OKPKey):
        return _CURVES.get(key.curve_name, ())
    return ()


def choose_algorithm(key: SigningKey, alg: str = "") -> str:
    """Return the algorithm to sign with, or raise InvalidInput if the key does not support it."""
    supported = supported_algorithms(key)
    if not supported:
        raise InvalidInput(f"the key is not supported; {_SUPPORTED_KEYS}")
    if alg and alg not in supported:
        raise InvalidInput(f"{alg!r} does not fit the key; use {' or '.join(supported)}")
    if not key.is_private:
        raise InvalidInput("signing requires a private key, got a public key")
    return alg or supported[0]


def _usable_key(data: dict[str, Any]) -> SigningKey | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            key = import_key(data)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, OctKey) or not key.kid or not supported_algorithms(key):
        return None
    return key


def _parse_key(content: bytes) -> SigningKey:
    text = content.lstrip()
    if text.startswith(b"{"):
        key = _parse_jwk(text)
    elif text.startswith(b"-----BEGIN"):
        key = _parse_pem(text)
    else:
        raise InvalidInput("the file contains neither a PEM (-----BEGIN …) nor a JWK ({…})")
    if not supported_algorithms(key):
        raise InvalidInput(f"the key is not supported; {_SUPPORTED_KEYS}")
    key.ensure_kid()
    return key


def _parse_jwk(text: bytes) -> SigningKey:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"the file is not JSON: {error}") from None
    if isinstance(data.get("keys"), list):
        if len(data["keys"]) != 1 or not isinstance(data["keys"][0], dict):
            raise InvalidInput(f"the JWK set must contain one key, got {len(data['keys'])}")
        data = data["keys"][0]
    if not isinstance(data.get("kty"), str):
        raise InvalidInput('the file is not a JWK: "kty" is missing')
    try:
        key = import_key(data)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"the JWK is invalid: {error}") from None
    if isinstance(key, OctKey):
        raise InvalidInput("the key is a shared secret; use an asymmetric key pair")
    return key


def _parse_pem(text: bytes) -> SigningKey:
    if b"ENCRYPTED" in text:
        raise InvalidInput(
            "the key is encrypted; store it without a password, readable by the server only"
        )
    for kind in (ECKey, RSAKey, OKPKey):
        try:
            return kind.import_key(text)
        except (JoseError, ValueError, TypeError):
            continue
    raise InvalidInput("the PEM key is invalid; expected a file such as `openssl genpkey` writes")
