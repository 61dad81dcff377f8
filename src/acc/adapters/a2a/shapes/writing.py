"""Turn shapes into JSON, whatever an agent has put into them."""

from typing import Any

import msgspec

from acc.domain.errors import whole_data

_encode = msgspec.json.Encoder().encode


def encoded(document: Any) -> bytes:
    """Return a document as JSON; half a character, which no JSON can hold, becomes a mark."""
    try:
        return _encode(document)
    except UnicodeEncodeError:
        return _encode(whole_data(msgspec.to_builtins(document)))
