"""What a wire is: how one protocol puts a question, and how its answers are read."""

from collections.abc import Mapping
from typing import Any, Protocol

from acc.adapters.chat.heard import Heard
from acc.adapters.chat.turns import Kept, in_words, unfolded
from acc.adapters.providers.choice import ModelChoice
from acc.ports.outbound.model_ports import Prompt

#: What a setting becomes in the body of a request, by the setting's name.
Settings = dict[str, dict[str, Any]]


class Wire(Protocol):
    """One protocol, for one model."""

    #: Where the provider is, unless it is moved.
    home: str
    #: Whether an answer is streamed even if it is wanted whole, for it may take long.
    streams_always: bool
    #: Whether the names of arguments must be plain ASCII, as those of tools must everywhere.
    wants_plain_arguments: bool

    def path(self, *, streams: bool) -> str:
        """Return where the question goes."""
        ...

    def headers(self, key: str) -> dict[str, str]:
        """Return what goes with every question."""
        ...

    def settings(self) -> Settings:
        """Return what the settings of the choice become."""
        ...

    def body(self, prompt: Prompt, kept: Kept, *, streams: bool) -> dict[str, Any]:
        """Return a prompt, without the settings."""
        ...

    def heard(self) -> Heard:
        """Return an answer that is yet to be read."""
        ...


def bearer(key: str) -> dict[str, str]:
    """Return a key as most want it."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def as_they_are(choice: ModelChoice, **names: str) -> Settings:
    """Return the settings that are a number, each under the name that the wire has for it."""
    found: Settings = {}
    for setting, name in names.items():
        value = getattr(choice, setting)
        if value is not None:
            found[setting] = {name: value}
    return found


def merged(*bodies: Mapping[str, Any]) -> dict[str, Any]:
    """Return bodies as one; what two have under one name is put together, and None takes it out."""
    found: dict[str, Any] = {}
    for body in bodies:
        for name, value in body.items():
            held = found.pop(name, None)
            if value is None:
                continue
            if isinstance(held, dict) and isinstance(value, dict):
                value = {**held, **value}
            found[name] = value
    return found


class Shape:
    """How an answer is made to fit the schema of a prompt.

    `native` is the schema that the provider is to keep to, if it can; `told` asks for it in words
    otherwise. `is_object` tells whether the answer is an object, which is all that most can bind.
    """

    def __init__(self, prompt: Prompt, *, native: bool) -> None:
        schema = None if prompt.output_schema is None else unfolded(prompt.output_schema)
        self.is_object = schema is not None and schema.get("type") == "object"
        self.native = schema if native and self.is_object else None
        self.told = "" if schema is None or self.native is not None else in_words(schema)
