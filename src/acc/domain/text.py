"""Unicode handling: normalisation, control characters and unpaired surrogates."""

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_LINE_END = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def normalize_text(text: str) -> str:
    """Return `text` in NFKC, without control and direction characters."""
    if text.isascii() and text.isprintable():
        return text
    encodable = _LINE_END.sub("\n", text.encode("utf-8", "replace").decode())
    # Remove control characters first: their neighbours may combine afterwards.
    return unicodedata.normalize("NFKC", _CONTROL.sub("", encodable))


@lru_cache(maxsize=2_048)
def one_line(text: str) -> str:
    """Return normalised text on a single line, with single spaces."""
    return " ".join(normalize_text(text).split())


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
