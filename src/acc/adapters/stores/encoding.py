"""How values are written down as JSON, and refused where they cannot be."""

from typing import Any

import msgspec

from acc.domain.errors import InvalidInput

_ENCODER = msgspec.json.Encoder()


def encoded(value: object, what: str) -> bytes:
    """Return a value as JSON; InvalidInput, naming what it is, if there is no JSON for it."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"{what} cannot be stored: {error}") from error


def readable(value: object, what: str, decoder: "msgspec.json.Decoder[Any]") -> bytes:
    """Return a value as JSON that can be read again: what cannot would make the rest unusable."""
    body = encoded(value, what)
    try:
        decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{what} cannot be stored: {error}") from error
    return body
