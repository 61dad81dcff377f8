"""Encode requests as JSON; unpaired surrogates, which cannot be encoded, become `?`."""

from typing import Any, Literal

import msgspec

from acc.domain.text import replace_surrogates as replace_surrogates
from acc.domain.text import replace_surrogates_in_data as replace_surrogates_in
from acc.ports.outbound.model_ports import ModelRequest


def to_json(value: object) -> bytes:
    """Return a value as JSON. Objects that JSON does not know are written as text."""
    return _encode(value, None)


def to_sorted_json(value: object) -> bytes:
    """Return a value as JSON that does not depend on the order of keys."""
    return _encode(value, "deterministic")


def to_text(value: object) -> str:
    """Return text unchanged, and anything else as JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def without_surrogates(request: ModelRequest) -> ModelRequest:
    """Return the request, or a copy without unpaired surrogates if it has any."""
    try:
        msgspec.json.encode(request, enc_hook=_as_text)
    except UnicodeEncodeError:
        return msgspec.convert(_encodable(request), ModelRequest)
    return request


def _encode(value: object, order: Literal["deterministic"] | None) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_as_text, order=order)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(value), order=order)


def _encodable(value: object) -> Any:
    return replace_surrogates_in(msgspec.to_builtins(value, enc_hook=_as_text))


def _as_text(value: object) -> str:
    return replace_surrogates(str(value))
