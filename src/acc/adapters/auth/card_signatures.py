"""Signatures of agent cards: a JWS over the canonical JSON of the card without `signatures`."""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

import rfc8785
from joserfc import jws
from joserfc.errors import BadSignatureError, JoseError

from acc.adapters.auth.keys import (
    Keys,
    SignatureRegistry,
    SigningKey,
    choose_algorithm,
    find_key,
    supported_algorithms,
)
from acc.domain.errors import InvalidInput, Unauthenticated

MAX_SIGNATURES = 16
MAX_DEPTH = 100


def sign_card(
    content: Mapping[str, Any], key: SigningKey, *, kid: str = "", alg: str = "", jku: str = ""
) -> dict[str, str]:
    """Return the signature of a card in the form that is sent, for its `signatures`.

    `kid` and `alg` default to those of the key. `jku` is the URL of the public key set; verifiers
    must not trust a key because of it.
    """
    header = {
        "alg": choose_algorithm(key, alg),
        "typ": "JOSE",
        "kid": kid or key.kid or "",
        "jku": jku,
    }
    if not header["kid"]:
        raise InvalidInput("the key has no kid; pass kid=…, by which verifiers find the key")
    token = jws.serialize_compact(
        {name: value for name, value in header.items() if value},
        _payload(content),
        key,
        registry=SignatureRegistry([header["alg"]]),
    )
    protected, _, signature = token.split(".")
    return {"protected": protected, "signature": signature}


def verify_card(
    content: Mapping[str, Any],
    signatures: Sequence[Mapping[str, Any]],
    *,
    keys: Keys,
    ignore_empty: bool = False,
) -> str:
    """Return the kid of the trusted key that signed a card, or raise Unauthenticated.

    One valid signature suffices. Only `keys` are trusted: a `jku` is never fetched.

    With `ignore_empty`, empty values ("", [], {}) are removed from the card before verification,
    as some signers do. Their signatures do not cover these values: a security requirement without
    scopes, for instance, could have been modified.
    """
    if not signatures:
        raise Unauthenticated("the card is not signed")
    payload = _payload(drop_empty(content) if ignore_empty else content)
    problems = []
    for signature in signatures[:MAX_SIGNATURES]:
        try:
            return _verify_signature(payload, signature, keys)
        except Unauthenticated as error:
            problems.append(str(error))
    raise Unauthenticated(f"the card has no valid signature: {'; '.join(dict.fromkeys(problems))}")


class CardVerifier:
    """Verifies cards with one trusted key, whatever kid the signer uses for it.

    Implements CardVerifierPort.
    """

    def __init__(self, key: SigningKey) -> None:
        self._key = key

    def verify(self, content: Mapping[str, Any], signatures: Sequence[Mapping[str, Any]]) -> str:
        """Return the kid of the signature that verifies, or raise Unauthenticated."""
        names = (_kid(signature) for signature in signatures[:MAX_SIGNATURES])
        return verify_card(content, signatures, keys=dict.fromkeys(filter(None, names), self._key))


def drop_empty(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a card without empty values, as implementations based on protobuf see it."""
    return _drop_empty(content, MAX_DEPTH) or {}


def canonical_json(value: Any) -> bytes:
    """Return the canonical JSON (RFC 8785) of a value, or raise InvalidInput if it has none."""
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        raise InvalidInput(
            "an integer of 2^53 or more has no canonical JSON; use a string"
        ) from None
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise InvalidInput(f"the value has no canonical JSON: {error}") from None
    except RecursionError:
        raise InvalidInput("the value is nested too deep for canonical JSON") from None


def _payload(content: Mapping[str, Any]) -> bytes:
    return canonical_json({name: value for name, value in content.items() if name != "signatures"})


def _verify_signature(payload: bytes, signature: Mapping[str, Any], keys: Keys) -> str:
    protected, value = signature.get("protected"), signature.get("signature")
    if not isinstance(protected, str) or not isinstance(value, str):
        raise Unauthenticated("a signature has no protected header or no value")
    header = _read_header(protected)
    if not isinstance(header, dict) or not isinstance(header.get("alg"), str):
        raise Unauthenticated("the protected header of a signature is invalid")
    # Both change what is signed, and no card needs them.
    if "crit" in header or "b64" in header:
        raise Unauthenticated("a signature requires an extension that is not supported")
    key = find_key(keys, header.get("kid"))
    token = f"{protected}.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.{value}"
    try:
        jws.deserialize_compact(token, key, registry=SignatureRegistry(supported_algorithms(key)))
    except BadSignatureError:
        raise Unauthenticated(
            f"key {header['kid']!r}: the signature is from another key, or the card was modified"
        ) from None
    except (JoseError, ValueError) as error:
        raise Unauthenticated(f"key {header['kid']!r}: {error}") from None
    return str(header["kid"])


def _kid(signature: Mapping[str, Any]) -> str:
    protected = signature.get("protected")
    header = _read_header(protected) if isinstance(protected, str) else None
    kid = header.get("kid") if isinstance(header, dict) else None
    return kid if isinstance(kid, str) else ""


def _read_header(protected: str) -> Any:
    try:
        return json.loads(base64.urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return None


def _drop_empty(value: Any, depth: int) -> Any:
    if depth == 0:
        raise Unauthenticated(f"the card is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        entries = {name: _drop_empty(each, depth - 1) for name, each in value.items()}
        return {name: each for name, each in entries.items() if each is not None} or None
    if isinstance(value, list | tuple):
        items = (_drop_empty(each, depth - 1) for each in value)
        return [each for each in items if each is not None] or None
    return None if value == "" else value
