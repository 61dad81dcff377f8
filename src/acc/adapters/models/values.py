"""The values that stand in plain text: numbers, dates, addresses, codes, quotations, names."""

import re
from dataclasses import dataclass

from acc.domain.language import is_japanese, term_list, terms

EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+", re.ASCII)
URL = re.compile(r"https?://[^\s\"'<>」』、。]+", re.ASCII)
DATE = re.compile(r"(?<!\d)(\d{4})(?:-(\d{2})-(\d{2})(?!\d)|年(\d{1,2})月(\d{1,2})日)", re.ASCII)
DATE_TIME = re.compile(
    r"(?<!\d)\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})?", re.ASCII
)
CODE = re.compile(r"(?<![\w.@-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9][\w-]*(?![\w@])", re.ASCII)
_NUMBER = re.compile(
    r"(?<![\w.@:/-])(?P<sign>-?)(?P<before>(?:[$€£¥]|USD|EUR|GBP|JPY)?)\s?"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\d@:])(?!-\d)"
    r"(?P<after>\s?(?:円|ドル|ユーロ|(?:dollars?|euros?|yen|pounds?|usd|eur|gbp|jpy)\b))?"
    r"\s*(?P<unit>[A-Za-z]+|[\u3041-\u9fff]{0,2})",
    re.I | re.ASCII,
)
QUOTED = re.compile(
    r"\"([^\"]+)\"|“([^”]+)”|「([^」]+)」|『([^』]+)』|`([^`]+)`|(?<!\w)'([^']+)'(?!\w)"
)
_PROPER = re.compile(
    r"(?<![.!?:]\s)(?<!^)(?<![\w@.-])(?!I\b)[A-Z][\w’-]*(?:\s+(?!I\b)[A-Z][\w’-]*)*", re.M
)
_AFTER_PREPOSITION = re.compile(
    r"\b(?:in|for|at|near|of|to|from)\s+(?!the\b|a\b|an\b|my\b|your\b|our\b)"
    r"([A-Za-z][\w’-]*)(?=\s*(?:[?.!,]|$|now\b|today\b|tomorrow\b))",
    re.I,
)
_NAME = r"\u3400-\u9fff々\u30a1-\u30faーA-Za-z"
_TITLED = re.compile(rf"(?<![{_NAME}0-9])([{_NAME}0-9]+)(?:さん|様|氏|殿|御中)")
_OWNER = re.compile(rf"(?:^|[、。\s」])([{_NAME}]+)の(?=[^\s、。])")
#: What Japanese counters count, in the words that fields are called by.
_COUNTERS = {
    "人": "guest people person",
    "名": "guest people person",
    "泊": "night",
    "個": "quantity count",
    "冊": "quantity count",
    "日": "day",
    "分": "minute",
    "時間": "hour",
    "回": "time count",
    "件": "count limit",
}


@dataclass(frozen=True, slots=True)
class Counted:
    """A number in a text: whether it is money, and what it counts."""

    digits: str
    money: bool
    unit: frozenset[str]
    start: int


def numbers_of(text: str) -> list[Counted]:
    """Return the numbers of a text that are no part of a date, an address or a code."""
    for pattern in (URL, EMAIL, DATE_TIME, DATE, CODE):
        text = pattern.sub(lambda match: " x" + " " * (len(match[0]) - 2), text)
    found: list[Counted] = []
    for match in _NUMBER.finditer(text):
        unit = match["unit"] or ""
        counter = next((words for mark, words in _COUNTERS.items() if unit.startswith(mark)), unit)
        found.append(
            Counted(
                match["sign"] + match["digits"].replace(",", ""),
                bool(match["before"] or match["after"]),
                terms(counter),
                match.start(),
            )
        )
    return found


def as_number(digits: str, kind: str) -> int | float | None:
    """Return a number of a JSON type, or None where it is none."""
    number = float(digits)
    if number.is_integer():
        return int(number)
    return number if kind == "number" else None


def as_text(match: re.Match[str]) -> str:
    """Return what matched; a date is given as ISO 8601 does."""
    if match.re is not DATE:
        return match[0].rstrip(".")
    year, month, day = match[1], match[2] or match[4], match[3] or match[5]
    return f"{year}-{int(month):02}-{int(day):02}"


def quotations(text: str) -> list[str]:
    """Return the quoted strings of a text."""
    found = (
        next((g for g in match.groups() if g is not None), "") for match in QUOTED.finditer(text)
    )
    return [quoted.strip() for quoted in found if quoted.strip()]


def proper_names(text: str) -> list[str]:
    """Return what looks like the names of people and places, in order, without repeats."""
    bare = URL.sub(" x ", EMAIL.sub(" x ", text))
    bare = CODE.sub("x", bare)
    if is_japanese(bare):
        found = [match[1] for match in _TITLED.finditer(bare)]
        found = found or [match[1] for match in _OWNER.finditer(bare)]
    else:
        found = [match[0].rstrip("’-") for match in _PROPER.finditer(bare)]
        found = found or [match[1] for match in _AFTER_PREPOSITION.finditer(bare)]
    return [name for name in dict.fromkeys(found) if term_list(name)]
