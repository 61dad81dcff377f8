"""Writing what people said as JSON: half a character, which cannot be written, is left out."""

from typing import Any, Literal

import msgspec

from acc.domain.text import replace_surrogates, replace_surrogates_in_data
from acc.ports.outbound.model_ports import Prompt


def as_json(value: object) -> bytes:
    """Return a value as JSON; anything that is no plain data is its text.

    A lone half of a surrogate pair, as a file name or a terminal may bring it, becomes a question
    mark. It is looked for only where there is one.
    """
    return _encoded(value, None)


def sorted_json(value: object) -> bytes:
    """Return a value as JSON in which nothing depends on the order of keys."""
    return _encoded(value, "deterministic")


def sendable(prompt: Prompt) -> Prompt:
    """Return a prompt without halves of characters: the same one, if it has none."""
    try:
        msgspec.json.encode(prompt, enc_hook=_as_text)
    except UnicodeEncodeError:
        return msgspec.convert(_writable(prompt), Prompt)
    return prompt


def _encoded(value: object, order: Literal["deterministic"] | None) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_as_text, order=order)
    except UnicodeEncodeError:
        return msgspec.json.encode(_writable(value), order=order)


def _writable(value: object) -> Any:
    return replace_surrogates_in_data(msgspec.to_builtins(value, enc_hook=_as_text))


def _as_text(value: object) -> str:
    return replace_surrogates(str(value))
