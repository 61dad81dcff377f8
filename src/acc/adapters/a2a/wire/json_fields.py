"""Turn untrusted JSON into shapes, and say in the sender's words what is wrong with it."""

import binascii
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from acc.domain.errors import InvalidInput, RemoteFailed
from acc.domain.text import replace_surrogates_in_data

T = TypeVar("T")
P = ParamSpec("P")
#: Deeper than any document of the protocol, and shallow enough for whoever reads it after us.
MAX_DEPTH = 100
MAX_INT = 2**31 - 1
MAX_TENANT_LENGTH = 128
#: Sessions are kept under a name that the tenant's is a part of, percent signs and all.
_MOST_QUOTED = 192
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_URL_SAFE = str.maketrans("-_", "+/")
_NUMBER = re.compile(r"-?[0-9]{1,10}(?:\.[0-9]{1,10})?(?:[eE][+-]?[0-9]{1,2})?")
_PLACED = re.compile(r"(?P<fault>.*?)(?: - at `\$\.?(?P<field>.*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>[^`]+)`")
_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


class InvalidJson(InvalidInput):
    """Report bytes that are not JSON."""

    code = "broken_json"


def field_error(field: str, text: str) -> InvalidInput:
    """Return the error for a field: what is wrong with it, and what would be right."""
    return InvalidInput(f"{field}: {text}")


def decode(decoder: msgspec.json.Decoder[T], data: bytes, what: str) -> T:
    """Return JSON as a shape; `what` names the document where no field of it is at fault."""
    try:
        shape = decoder.decode(data)
        if data.count(b"{") + data.count(b"[") > MAX_DEPTH:
            check_depth(msgspec.json.decode(data), what)
    except msgspec.ValidationError as error:
        raise _described(error, what) from None
    except RecursionError:
        raise _too_deep(what) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise invalid_json(what, data) from None
    return shape


def invalid_json(what: str, data: bytes) -> InvalidJson:
    """Return the error for what is no JSON, with the reason as far as it is plain."""
    if not data.strip():
        return InvalidJson(f"{what}: is not valid JSON: it is empty")
    try:
        data.decode()
    except UnicodeDecodeError:
        return InvalidJson(f"{what}: is not valid JSON: it is not in UTF-8; check the encoding")
    return InvalidJson(f"{what}: is not valid JSON")


#: The name of a field in snake case, as the definition of the protocol itself writes it.
_SNAKE_NAME = re.compile(rb'"[a-z]+(?:_[a-z]+)+"\s*:')
#: What is inside these is the client's own and keeps its names.
_OPAQUE = frozenset({"metadata", "data", "params"})


def camel_case_fields(data: bytes) -> bytes:
    """Return JSON with its fields in camel case; protobuf's JSON may be written in either."""
    if _SNAKE_NAME.search(data) is None:
        return data
    try:
        return msgspec.json.encode(_camel_fields(msgspec.json.decode(data)))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return data  # whoever reads it next says what is wrong with it


def camel_case(name: str) -> str:
    """Return a name in camel case."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _camel_fields(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel_fields(held) for held in value]
    if not isinstance(value, dict):
        return value
    return {
        camel_case(name): held if name in _OPAQUE else _camel_fields(held)
        for name, held in value.items()
    }


def convert(value: Any, shape: type[T], what: str) -> T:
    """Return decoded JSON as a shape."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise _described(error, what) from None
    except RecursionError:
        raise _too_deep(what) from None


def check_depth(value: Any, what: str) -> None:
    """Refuse what is nested so deeply that it could not be written again everywhere."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for held in level for child in _children(held)]
        if not level:
            return
    raise _too_deep(what)


def _children(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _too_deep(what: str) -> InvalidInput:
    return field_error(what, f"is nested too deeply; use at most {MAX_DEPTH} levels")


def _described(error: msgspec.ValidationError, what: str) -> InvalidInput:
    placed = _PLACED.fullmatch(str(error))
    text, field = (placed["fault"], placed["field"]) if placed else (str(error), "")
    expected = _EXPECTED.match(text)
    if expected:
        wanted = [_WORDS.get(word, word) for word in expected["wanted"].split(" | ")]
        got = _WORDS.get(expected["got"], expected["got"])
        useless = {"null", *(["a number"] if "an integer" in wanted else ())}
        useful = [word for word in wanted if word not in useless] or wanted
        text = f"must be {' or '.join(useful)}, not {got}"
    else:
        text = text[:1].lower() + text[1:]
    return field_error(field or what, text)


def decode_base64(text: str, field: str) -> bytes:
    """Return the bytes that base64 text stands for: either alphabet, with or without padding."""
    plain = text.translate(_URL_SAFE).rstrip("=")
    try:
        return binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except ValueError:
        raise field_error(field, "is not base64; encode the bytes as RFC 4648 says") from None


def encode_base64(data: bytes) -> str:
    """Return bytes as base64 text."""
    return binascii.b2a_base64(data, newline=False).decode()


#: A whole number as JSON may hold it: 1, "1", 1.0 or 1e0.
IntegerField: TypeAlias = int | float | str | None


def parse_integer(
    value: IntegerField, field: str, *, least: int = 0, most: int = MAX_INT
) -> int | None:
    """Return a number that may have come as text or as a fraction of 1, None if there is none."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        value = float(value) if _NUMBER.fullmatch(value) else math.nan
    if isinstance(value, float):
        if not value.is_integer():
            raise field_error(field, f"must be a whole number of at least {least}")
        value = int(value)
    if value < least:
        raise field_error(field, f"must be at least {least}")
    if value > most:
        raise field_error(field, f"must be at most {most}")
    return value


def format_timestamp(at: float) -> str | None:
    """Return a time as ISO 8601 in UTC with milliseconds, None for one that is not known."""
    if not at:
        return None
    second, millisecond = divmod(round(at * 1000), 1000)
    return f"{_second(second)}.{millisecond:03}Z"


@lru_cache(maxsize=16)
def _second(number: int) -> str:
    """Return a second since the epoch in words; what a server tells is of the last few."""
    return (_EPOCH + timedelta(seconds=number)).isoformat()[:-6]


def parse_timestamp(text: str, field: str) -> float:
    """Return the time that ISO 8601 text stands for; without an offset it is taken as UTC."""
    try:
        moment = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise field_error(
            field, "is no time in ISO 8601; write it like 2026-01-31T09:30:00.000Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) / timedelta(seconds=1)


def parse_timestamp_or_zero(text: str | None) -> float:
    """Return the time that another server wrote, 0 for none or one that cannot be read."""
    try:
        return parse_timestamp(text, "timestamp") if text else 0.0
    except InvalidInput:
        return 0.0


def require_text(value: str | None, field: str) -> str:
    """Return text that must be there."""
    if not value:
        raise field_error(field, "is required and cannot be empty")
    return value


def check_tenant(tenant: str) -> None:
    """Refuse what cannot be the name of a tenant, and could be taken for more than one name."""
    is_long = len(tenant) > MAX_TENANT_LENGTH or len(quote(tenant)) > _MOST_QUOTED
    if is_long or not tenant.isprintable() or "/" in tenant:
        raise field_error(
            "tenant", f"use at most {MAX_TENANT_LENGTH} printable characters, and no slash"
        )


def remote_response(read: Callable[P, T]) -> Callable[P, T]:
    """Let a reader of a server's answers report what it cannot read as the server's failure."""

    @wraps(read)
    def reader(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except InvalidInput as error:
            raise RemoteFailed(
                f"the remote agent answered what cannot be read: {error}",
                remote_code="invalid_agent_response",
            ) from None

    return reader


_encode = msgspec.json.Encoder().encode


def encode(document: Any) -> bytes:
    """Return a document as JSON; half a character, which no JSON can hold, becomes a mark."""
    try:
        return _encode(document)
    except UnicodeEncodeError:
        return _encode(replace_surrogates_in_data(msgspec.to_builtins(document)))
