import json
import math
import struct

import pytest
from a2a.utils._jcs import CanonicalizationError, canonicalize
from hypothesis import given
from hypothesis import strategies as st

from acc.adapters.auth.canonical_json import MAX_DEPTH, canonical
from acc.domain.errors import InvalidInput

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


# Appendix B of RFC 8785: the bits of a number, and how it is written.
@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_written_as_the_rfc_says(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(number) == text.encode()


def test_the_example_of_the_rfc_comes_out_as_it_says() -> None:
    value = json.loads(
        r"""{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
        }"""
    )
    assert canonical(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_names_are_in_the_order_of_utf_16() -> None:
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    ordered = json.loads(canonical(dict.fromkeys(names, 0)))
    assert list(ordered) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@given(VALUES)
def test_what_is_written_reads_back_equal_and_comes_out_the_same(value: object) -> None:
    written = canonical(value)
    assert json.loads(written, parse_int=float) == value
    assert canonical(json.loads(written)) == written


@given(VALUES)
def test_the_official_sdk_writes_the_same(value: object) -> None:
    try:
        expected = canonicalize(value)
    except CanonicalizationError:
        return
    assert canonical(value).decode() == expected


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        2**53 + 1,
        10**400,
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        {None: 1},
        b"bytes",
        {1, 2},
        object(),
    ],
)
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        canonical([value])


def test_a_large_whole_number_is_written_only_if_it_stands_for_itself_alone() -> None:
    assert canonical(10**20) == b"100000000000000000000"
    assert canonical(-63971142427427450) == b"-63971142427427450"
    for ambiguous in (2**60, 2**60 + 1, 10**21):
        with pytest.raises(InvalidInput, match="as text"):
            canonical(ambiguous)


def test_nesting_has_an_end() -> None:
    value: object = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    canonical(value)
    with pytest.raises(InvalidInput, match="deep"):
        canonical([value])
