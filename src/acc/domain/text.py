"""Unpaired surrogates, which no store or network format can encode."""

from collections.abc import Mapping
from typing import Any


def replace_surrogates(text: str) -> str:
    """Return the text with `?` in place of each unpaired surrogate."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def replace_surrogates_in_data(value: Any) -> Any:
    """Return JSON data with unpaired surrogates replaced in strings and keys."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {
            replace_surrogates_in_data(key): replace_surrogates_in_data(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [replace_surrogates_in_data(item) for item in value]
    return value
