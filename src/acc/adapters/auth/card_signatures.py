"""Signing agent cards, and verifying the signatures of others.

A signature is a JWS over the card's canonical JSON without its `signatures`.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

from joserfc import jws
from joserfc.errors import BadSignatureError, JoseError

from acc.adapters.auth.canonical_json import canonical
from acc.adapters.auth.keys import (
    Keys,
    Signatures,
    SigningKey,
    algorithms_of,
    chosen_algorithm,
    key_named,
    load_key,
    new_key,
    public_keys,
)
from acc.domain.errors import InvalidInput, Unauthenticated

__all__ = [
    "canonical",
    "load_key",
    "new_key",
    "public_keys",
    "sign",
    "verify",
    "without_empty",
]
MAX_SIGNATURES = 16


def sign(
    content: Mapping[str, Any], key: SigningKey, *, kid: str = "", alg: str = "", jku: str = ""
) -> dict[str, str]:
    """Return a signature of a card as it will be sent, to be put among its `signatures`.

    `kid` and `alg` are the key's own unless they are given. `jku` says where the public key is
    published; nobody should trust it for that alone.
    """
    header = {
        "alg": chosen_algorithm(key, alg),
        "typ": "JOSE",
        "kid": kid or key.kid or "",
        "jku": jku,
    }
    if not header["kid"]:
        raise InvalidInput("the key has no name; give one with kid=…, by which others find it")
    kept = {name: value for name, value in header.items() if value}
    token = jws.serialize_compact(
        kept, _payload(content), key, registry=Signatures([header["alg"]])
    )
    protected, _, signature = token.split(".")
    return {"protected": protected, "signature": signature}


def verify(
    content: Mapping[str, Any],
    signatures: Sequence[Mapping[str, Any]],
    *,
    keys: Keys,
    pruned: bool = False,
) -> str:
    """Return the name of the trusted key that signed a card, or raise Unauthenticated.

    One good signature is enough. Only `keys` are trusted: a `jku` is never fetched.

    With `pruned`, what is empty ("", [], {}) is left out of the card before it is checked, as
    some signers do. Their signatures do not cover it: a security requirement without scopes, for
    instance, could have been exchanged.
    """
    if not signatures:
        raise Unauthenticated("the card is not signed")
    payload = _payload(without_empty(content) if pruned else content)
    faults = []
    for signature in signatures[:MAX_SIGNATURES]:
        try:
            return _verified(payload, signature, keys)
        except Unauthenticated as fault:
            faults.append(str(fault))
    raise Unauthenticated(f"no signature of the card is good: {'; '.join(dict.fromkeys(faults))}")


def without_empty(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a card without what is empty, as those read it who make it of protobuf messages."""
    return _pruned(content) or {}


def _payload(content: Mapping[str, Any]) -> bytes:
    return canonical({name: value for name, value in content.items() if name != "signatures"})


def _verified(payload: bytes, signature: Mapping[str, Any], keys: Keys) -> str:
    protected, value = signature.get("protected"), signature.get("signature")
    if not isinstance(protected, str) or not isinstance(value, str):
        raise Unauthenticated("a signature lacks its protected header or its value")
    header = _header(protected)
    key = key_named(keys, header.get("kid"))
    token = f"{protected}.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.{value}"
    try:
        jws.deserialize_compact(token, key, registry=Signatures(algorithms_of(key)))
    except BadSignatureError:
        raise Unauthenticated(
            f"key {header['kid']!r}: another key signed it, or the card was changed since"
        ) from None
    except (JoseError, ValueError) as fault:
        raise Unauthenticated(f"key {header['kid']!r}: {fault}") from None
    return str(header["kid"])


def _header(protected: str) -> dict[str, Any]:
    try:
        header = json.loads(base64.urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or not isinstance(header.get("alg"), str):
        raise Unauthenticated("a signature's protected header cannot be read")
    # Both change what is signed, and no card needs them.
    if "crit" in header or "b64" in header:
        raise Unauthenticated("a signature asks for an extension that is not known here")
    return header


def _pruned(value: Any, depth: int = 100) -> Any:
    if depth == 0:
        raise Unauthenticated("the card is nested too deep to be verified")
    if isinstance(value, Mapping):
        inner = {name: _pruned(each, depth - 1) for name, each in value.items()}
        return {name: each for name, each in inner.items() if each is not None} or None
    if isinstance(value, list | tuple):
        return [each for item in value if (each := _pruned(item, depth - 1)) is not None] or None
    return None if value == "" else value
