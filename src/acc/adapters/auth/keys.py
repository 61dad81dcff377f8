"""Keys to sign and verify with: made, read from files, and matched to algorithms."""

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
    # The second is the newer name of the same; what others write is still the first.
    "Ed25519": ("EdDSA", "Ed25519"),
}
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


class Signatures(JWSRegistry):
    """What joserfc may use: exactly the algorithms that were chosen, and content of any length."""

    max_header_length = 4096
    max_payload_length = 4 * 1024 * 1024

    def __init__(self, algorithms: Collection[str]) -> None:
        super().__init__(algorithms=algorithms, strict_check_header=False)

    def get_alg(self, name: str) -> JWSAlgModel:
        """Return an algorithm if it was chosen."""
        # The base would warn of EdDSA for its name alone.
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError(f"{name!r} does not fit the key")
        return self.algorithms[name]

    def check_header(self, header: dict[str, Any]) -> None:
        """Check a header, in which the official SDK writes what is not given as null."""
        super().check_header({name: value for name, value in header.items() if value is not None})


def algorithms_of(key: object) -> tuple[str, ...]:
    """Return the algorithms that fit a key, the usual one first; none for a symmetric key."""
    if isinstance(key, RSAKey):
        return _RSA if key.raw_value.key_size >= _MIN_RSA_BITS else ()
    if isinstance(key, ECKey | OKPKey):
        return _CURVES.get(key.curve_name, ())
    return ()


def chosen_algorithm(key: SigningKey, alg: str = "") -> str:
    """Return the algorithm to sign with, or raise InvalidInput for one that does not fit."""
    fitting = algorithms_of(key)
    if not fitting:
        raise InvalidInput(f"the key cannot be used: {_WANTED}")
    if alg and alg not in fitting:
        raise InvalidInput(f"{alg!r} does not fit the key; {' or '.join(fitting)} would")
    if not key.is_private:
        raise InvalidInput("the key is a public one; signing needs the private key")
    return alg or fitting[0]


_WANTED = f"it must be one of {', '.join(_CURVES)}, or RSA with at least {_MIN_RSA_BITS} bits"


def new_key(alg: str = "ES256", *, kid: str = "") -> SigningKey:
    """Return a new private key for an algorithm, with a name of its own unless it is given one."""
    named: KeyParameters | None = {"kid": kid} if kid else None
    if alg in ("EdDSA", "Ed25519"):
        return OKPKey.generate_key("Ed25519", named, auto_kid=not kid)
    if alg in _RSA:
        return RSAKey.generate_key(3072, named, auto_kid=not kid)
    if alg == "ES256":
        return ECKey.generate_key("P-256", named, auto_kid=not kid)
    raise InvalidInput(f"no key is made for {alg!r}; ES256 is the usual choice")


def load_key(path: Path) -> SigningKey:
    """Return the key in a PEM or JWK file, or raise InvalidInput naming what is wrong with it.

    A key that has no name gets its thumbprint as one, which is the same at every start.
    """
    try:
        with warnings.catch_warnings():
            # What joserfc only warns of, a key that is too short, is an error here.
            warnings.simplefilter("ignore", SecurityWarning)
            return _key_in(path.read_bytes())
    except OSError as fault:
        raise InvalidInput(f"{path}: cannot be read: {fault.strerror or fault}") from None
    except InvalidInput as fault:
        raise InvalidInput(f"{path}: {fault}") from None


def public_keys(keys: Iterable[SigningKey]) -> dict[str, Any]:
    """Return the JWK Set to publish, in which there is nothing private."""
    return {"keys": [dict(key.as_dict(private=False)) for key in keys]}


def trusted_keys(document: bytes | str | Mapping[str, Any]) -> dict[str, SigningKey]:
    """Return the keys of a JWK Set that a sender publishes, by name, or raise InvalidInput.

    Keys that nothing here is signed with are left out.
    """
    try:
        found = document if isinstance(document, Mapping) else json.loads(document)
        listed = [dict(one) for one in found["keys"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidInput('is not a JWK Set: it must be {"keys": [...]}') from None
    kept = [key for one in listed if (key := _usable(one)) is not None]
    if not kept:
        raise InvalidInput(f"the JWK Set holds no key that can be used: {_WANTED}, with a kid")
    return {str(key.kid): key for key in kept}


def _usable(data: dict[str, Any]) -> SigningKey | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            key = import_key(data)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    is_good = key.kid and algorithms_of(key)
    return key if is_good and not isinstance(key, OctKey) else None


def key_named(keys: Keys, kid: object) -> SigningKey:
    """Return the key of a name, or raise Unauthenticated if nobody trusts it."""
    if not isinstance(kid, str) or not kid:
        raise Unauthenticated("the signature does not name its key (kid)")
    held: object = None
    if isinstance(keys, KeySet):
        held = next((key for key in keys.keys if key.kid == kid), None)
    else:
        held = keys.get(kid)
    if not isinstance(held, ECKey | RSAKey | OKPKey):
        raise Unauthenticated(f"the signature was made with a key that is not known here: {kid!r}")
    return held


def _key_in(content: bytes) -> SigningKey:
    text = content.lstrip()
    if text.startswith(b"{"):
        key = _jwk_in(text)
    elif text.startswith(b"-----BEGIN"):
        key = _pem_in(text)
    else:
        raise InvalidInput("holds neither a PEM (-----BEGIN …) nor a JWK ({…})")
    if not algorithms_of(key):
        raise InvalidInput(f"the key cannot be used: {_WANTED}")
    key.ensure_kid()
    return key


def _jwk_in(text: bytes) -> SigningKey:
    try:
        data = json.loads(text)
    except ValueError as fault:
        raise InvalidInput(f"is not JSON: {fault}") from None
    if isinstance(data.get("keys"), list):
        if len(data["keys"]) != 1 or not isinstance(data["keys"][0], dict):
            raise InvalidInput(f"holds {len(data['keys'])} keys; it must hold one")
        data = data["keys"][0]
    if not isinstance(data.get("kty"), str):
        raise InvalidInput('is not a JWK: "kty" is missing')
    try:
        key = import_key(data)
    except (JoseError, ValueError, TypeError, KeyError) as fault:
        raise InvalidInput(f"is not a JWK that can be read: {fault}") from None
    if isinstance(key, OctKey):
        raise InvalidInput("holds a shared secret; a signature that anyone can check needs a pair")
    return key


def _pem_in(text: bytes) -> SigningKey:
    if b"ENCRYPTED" in text:
        raise InvalidInput("is encrypted; write it without a password, readable by the server only")
    for kind in (ECKey, RSAKey, OKPKey):
        try:
            return kind.import_key(text)
        except (JoseError, ValueError, TypeError):
            continue
    raise InvalidInput("is not a PEM key that can be read")
