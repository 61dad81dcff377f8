"""The base class of frequently created values."""

from collections.abc import Iterable
from difflib import get_close_matches
from enum import EnumMeta, StrEnum
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec

from acc.domain.call_options import check_call
from acc.domain.errors import InvalidInput

#: JSON data. `Any`, because the application knows the type of each key and the library does not:
#: with `object`, every read would need a cast.
JsonData: TypeAlias = Any


# A value never refers to itself, so the garbage collector can skip it, which saves a tenth of the
# CPU time of a server with many values in memory.
class Value(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    gc=False,
):
    """A frozen value, created eight times as fast as a frozen dataclass; see docs/adr/0013.

    Fields with their default value are omitted in JSON and in `repr`.
    """


class ExplainedMeta(type(msgspec.Struct)):  # type: ignore[misc] # msgspec does not export its type
    """Explains wrong calls of values that users create. A call takes half a microsecond more."""

    if not TYPE_CHECKING:  # type checkers know the fields

        def __call__(cls, *arguments: object, **options: object) -> object:
            """Create a value, or raise InvalidInput that explains what is wrong with the call."""
            try:
                return super().__call__(*arguments, **options)
            except TypeError:
                check_call(cls, arguments, options, hints=_HINTS)
                raise


class _ExplainedEnumMeta(EnumMeta):
    """Explains names that an enumeration does not have."""

    if not TYPE_CHECKING:  # type checkers know the members

        def __getattr__(cls, name: str) -> Any:
            members = cls.__dict__.get("_member_map_", {})
            if name in members:  # Python 3.11 looks members up here
                return members[name]
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(f"{cls.__name__} has no member {name}: {_choice(name, members)}")


class ExplainedEnum(StrEnum, metaclass=_ExplainedEnumMeta):
    """An enumeration for users, with errors that name the members."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        choice = _choice(value, [member.value for member in cls])
        raise InvalidInput(f"{value!r} is not a value of {cls.__name__}: {choice}")


def _choice(name: object, known: Iterable[str]) -> str:
    names = list(known)
    folded = {str(one).casefold(): one for one in names}
    close = get_close_matches(str(name).casefold(), folded, 1)
    return f"use {folded[close[0]]}" if close else f"choose from {', '.join(names)}"


#: Fields under the names of other libraries.
_HINTS = {
    "content": "text|parts",
    "body": "text|parts",
    "value": "text|data",
    "json": "data",
    "bytes": "raw",
    "image": "raw",
    "file": "raw",
    "file_uri": "url",
    "uri": "url",
    "mime_type": "media_type",
    "content_type": "media_type",
    "name": "filename|author",
    "tool_calls": "calls",
    "user_id": "caller",
    "user": "caller",
    "scopes": "permissions",
    "turn": "turn_id",
    "args": "arguments",
    "input": "arguments",
    "tool_call_id": "call_id|id",
    "function_call_id": "call_id|id",
    "tool_name": "name",
    "result": "content",
    "exit_code": "exit_status",
    "returncode": "exit_status",
    "output": "content",
    "prompt_tokens": "input_tokens",
    "request_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "response_tokens": "output_tokens",
    "system": "instruction",
    "system_prompt": "instruction",
    "instructions": "instruction",
}


def set_field(value: Value, name: str, content: object) -> None:
    """Set a field of a value during its construction."""
    msgspec.structs.force_setattr(value, name, content)


#: Returns a copy of a value with some fields replaced.
replace = msgspec.structs.replace
