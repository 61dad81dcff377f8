"""Turn shapes into JSON, whatever an agent has put into them."""

from collections.abc import Mapping
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def encoded(document: Any) -> bytes:
    """Return a document as JSON; half a character, which no JSON can hold, becomes a mark."""
    try:
        return _encode(document)
    except UnicodeEncodeError:
        return _encode(_mended(msgspec.to_builtins(document)))


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_mended(key): _mended(held) for key, held in value.items()}
    return [_mended(held) for held in value] if isinstance(value, list) else value
