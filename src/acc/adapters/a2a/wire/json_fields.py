"""Decode untrusted JSON and report the field that is wrong."""

import binascii
import math
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from acc.adapters.system.decode_errors import field_error_of
from acc.domain.errors import InvalidInput, RemoteFailed
from acc.domain.text import replace_surrogates_in_data

T = TypeVar("T")
P = ParamSpec("P")
#: Deeper than any document of the protocol, and shallow enough to be encoded again.
MAX_DEPTH = 100
MAX_INT = 2**31 - 1
MAX_TENANT_LENGTH = 128
#: A session key contains the percent-encoded tenant.
_MAX_QUOTED_TENANT_LENGTH = 192
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_URL_SAFE = str.maketrans("-_", "+/")
_NUMBER = re.compile(r"-?[0-9]{1,10}(?:\.[0-9]{1,10})?(?:[eE][+-]?[0-9]{1,2})?")
#: A field name in snake case, as in the protobuf definition of the protocol.
_SNAKE_CASE_FIELD = re.compile(rb'"[a-z]+(?:_[a-z]+)+"\s*:')
#: The content of these fields belongs to the client; its names are not changed.
_OPAQUE_FIELDS = frozenset({"metadata", "data", "params"})
_encode = msgspec.json.Encoder().encode
#: An integer in JSON: 1, "1", 1.0 or 1e0.
IntegerField: TypeAlias = int | float | str | None


class InvalidJson(InvalidInput):
    """Report bytes that are not JSON."""

    code = "broken_json"


def field_error(field: str, text: str) -> InvalidInput:
    """Return the error for a field: what is wrong and what is expected."""
    return InvalidInput(f"{field}: {text}")


def decode(decoder: msgspec.json.Decoder[T], data: bytes, what: str) -> T:
    """Decode JSON; `what` names the document if the error has no field."""
    try:
        value = decoder.decode(data)
        if data.count(b"{") + data.count(b"[") > MAX_DEPTH:
            check_depth(msgspec.json.decode(data), what)
    except msgspec.ValidationError as error:
        raise _validation_error(error, what) from None
    except RecursionError:
        raise _too_deep(what) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise invalid_json(what, data) from None
    return value


def convert(value: Any, kind: type[T], what: str) -> T:
    """Convert decoded JSON to a wire type."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _validation_error(error, what) from None
    except RecursionError:
        raise _too_deep(what) from None


def encode(document: Any) -> bytes:
    """Encode a document as JSON; an unpaired surrogate is sent as `?`."""
    try:
        return _encode(document)
    except UnicodeEncodeError:
        return _encode(replace_surrogates_in_data(msgspec.to_builtins(document)))


def invalid_json(what: str, data: bytes) -> InvalidJson:
    """Return the error for bytes that are not JSON, with the reason if it is known."""
    if not data.strip():
        return InvalidJson(f"{what}: is not valid JSON: it is empty")
    try:
        data.decode()
    except UnicodeDecodeError:
        return InvalidJson(f"{what}: is not valid JSON: it is not UTF-8; check the encoding")
    if data.startswith(BOM_UTF8):
        return InvalidJson(f"{what}: is not valid JSON: remove the byte order mark")
    return InvalidJson(f"{what}: is not valid JSON{_syntax_error(data)}")


def _syntax_error(data: bytes) -> str:
    """Return what is wrong with JSON and at which byte, if it is known; never its content."""
    try:
        msgspec.json.decode(data)
    except RecursionError:
        return ""
    except msgspec.DecodeError as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        if b"\\ud" in data.lower() and ("surrogate" in reason or "truncated" in reason):
            reason += "; a surrogate must be one of a pair"
        return f": {reason[:1].lower()}{reason[1:]}"
    return ""


def camel_case_fields(data: bytes) -> bytes:
    """Return JSON with its fields in camel case; protobuf JSON allows both forms."""
    if _SNAKE_CASE_FIELD.search(data) is None:
        return data
    try:
        return msgspec.json.encode(_rename_fields(msgspec.json.decode(data)))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return data  # the decoder reports the error


def camel_case(name: str) -> str:
    """Return a snake-case name in camel case."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _rename_fields(value: Any) -> Any:
    if isinstance(value, list):
        return [_rename_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        camel_case(name): item if name in _OPAQUE_FIELDS else _rename_fields(item)
        for name, item in value.items()
    }


def check_depth(value: Any, what: str, limit: int = MAX_DEPTH) -> None:
    """Raise InvalidInput if a value is nested too deeply to be encoded everywhere."""
    level: Sequence[Any] = [value]
    for _ in range(limit):
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise _too_deep(what, limit)


def _children(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _too_deep(what: str, limit: int = MAX_DEPTH) -> InvalidInput:
    return field_error(what, f"is nested too deeply; use at most {limit} levels")


def _validation_error(error: msgspec.ValidationError, what: str) -> InvalidInput:
    """Return msgspec's error in the terms of JSON."""
    field, text = field_error_of(error)
    if text.endswith("out of range"):  # the path has no names in data without a type
        text = "contains a number that is out of range; send it as a string"
        field = "" if "[...]" in field else field
    return field_error(field or what, text)


def require_text(value: str | None, field: str) -> str:
    """Return a required string; raise InvalidInput if it is missing or empty."""
    if not value:
        raise field_error(field, "is required and cannot be empty")
    return value


def parse_integer(
    value: IntegerField, field: str, *, minimum: int = 0, maximum: int = MAX_INT
) -> int | None:
    """Return an integer that may be encoded as a string or float; None if it is absent."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        value = float(value) if _NUMBER.fullmatch(value) else math.nan
    if isinstance(value, float):
        if not value.is_integer():
            raise field_error(field, f"must be an integer of at least {minimum}")
        value = int(value)
    if value < minimum:
        raise field_error(field, f"must be at least {minimum}")
    if value > maximum:
        raise field_error(field, f"must be at most {maximum}")
    return value


def decode_base64(text: str, field: str) -> bytes:
    """Decode base64 text: either alphabet, with or without padding."""
    standard = text.translate(_URL_SAFE).rstrip("=")
    try:
        return binascii.a2b_base64(standard + "=" * (-len(standard) % 4), strict_mode=True)
    except ValueError:
        raise field_error(field, "is not base64; encode the bytes as in RFC 4648") from None


def encode_base64(data: bytes) -> str:
    """Encode bytes as base64 text."""
    return binascii.b2a_base64(data, newline=False).decode()


def format_timestamp(at: float) -> str | None:
    """Format a time as ISO 8601 in UTC with milliseconds; None if it is unknown (0)."""
    if not at:
        return None
    second, millisecond = divmod(round(at * 1000), 1000)
    return f"{_format_second(second)}.{millisecond:03}Z"


@lru_cache(maxsize=16)
def _format_second(second: int) -> str:
    # A server formats mostly the times of the last few seconds.
    return (_EPOCH + timedelta(seconds=second)).isoformat()[:-6]


def parse_timestamp(text: str, field: str) -> float:
    """Return the Unix time of ISO 8601 text; without an offset it is UTC."""
    try:
        moment = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise field_error(
            field, "is not an ISO 8601 time; expected a form like 2026-01-31T09:30:00.000Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) / timedelta(seconds=1)


def parse_timestamp_or_zero(text: str | None) -> float:
    """Return the Unix time of a remote server's timestamp; 0 if absent or invalid."""
    try:
        return parse_timestamp(text, "timestamp") if text else 0.0
    except InvalidInput:
        return 0.0


def check_tenant(tenant: str) -> None:
    """Raise InvalidInput if a tenant name is too long or ambiguous in a path."""
    is_long = len(tenant) > MAX_TENANT_LENGTH or len(quote(tenant)) > _MAX_QUOTED_TENANT_LENGTH
    if is_long or not tenant.isprintable() or "/" in tenant:
        raise field_error(
            "tenant", f"must be at most {MAX_TENANT_LENGTH} printable characters without a slash"
        )


def remote_response(read: Callable[P, T]) -> Callable[P, T]:
    """Report invalid input of a decorated reader as a failure of the remote server."""

    @wraps(read)
    def reader(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except InvalidInput as error:
            raise RemoteFailed(
                f"invalid response of the remote agent: {error}",
                remote_code="invalid_agent_response",
            ) from None

    return reader
