"""JSON in the one form of RFC 8785, so that equal values have equal bytes."""

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

from acc.domain.errors import InvalidInput

MAX_DEPTH = 100
_EXACT = 2**53


def canonical(value: object) -> bytes:
    """Return the canonical JSON of a plain value, or raise InvalidInput if it has none."""
    try:
        return _text(value, MAX_DEPTH).encode()
    except UnicodeEncodeError:
        raise InvalidInput("half of a surrogate pair cannot be written as JSON") from None


def _text(value: object, depth: int) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if depth == 0:
        raise InvalidInput(f"nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        return _object(value, depth - 1)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return f"[{','.join(_text(each, depth - 1) for each in value)}]"
    raise InvalidInput(f"{type(value).__name__} cannot be written as JSON")


def _object(value: Mapping[object, object], depth: int) -> str:
    names = [name for name in value if isinstance(name, str)]
    if len(names) < len(value):
        raise InvalidInput("the names in a JSON object must be text")
    # The order is that of UTF-16, in which what lies beyond the first plane comes before U+E000.
    names.sort(key=lambda name: name.encode("utf-16-be"))
    pairs = (
        f"{json.dumps(name, ensure_ascii=False)}:{_text(value[name], depth)}" for name in names
    )
    return f"{{{','.join(pairs)}}}"


def _number(value: int | float) -> str:
    if isinstance(value, int):
        return _whole(value)
    if not math.isfinite(value):
        raise InvalidInput(f"{value} cannot be written as JSON")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    # Python and ECMAScript agree on the digits, the fewest that give the number back, and differ
    # in where they put the point.
    decimal = Decimal(repr(abs(value))).normalize().as_tuple()
    digits = "".join(map(str, decimal.digits))
    return sign + _placed(digits, len(digits) + int(decimal.exponent))


def _placed(digits: str, point: int) -> str:
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def _whole(value: int) -> str:
    if abs(value) <= _EXACT:
        return str(value)
    # Beyond, several whole numbers are one number to others. Only the one that they would write
    # may stand for it, or a signature would cover a value that it does not fix.
    try:
        written = _number(float(value))
    except OverflowError:
        written = ""
    if written != str(value):
        raise InvalidInput("a whole number is too large to be exact in JSON; write it as text")
    return written
