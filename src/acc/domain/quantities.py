"""Read numbers, units, dates and times, English or Japanese, in one normal form.

"15.4%", "15.4 percent" and "15.4パーセント" are one quantity; so are "fifteen" and 15, "2:30 pm"
and "14時30分", "1.2 million" and "120万", "90 minutes" and "1.5 hours".
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from acc.domain.language import normalize_text

_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINALS = [
    "zeroth",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
]
_WORDS = {word: number for number, word in enumerate(_SMALL)}
_WORDS |= {word: 10 * number for number, word in enumerate(_TENS, start=2)}
_WORDS["dozen"] = 12
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9}
_SCALES |= {"trillion": 10**12, "m": 10**6, "bn": 10**9, "k": 1_000, "dozen": 12}
_ANY_WORD = "|".join(sorted({*_WORDS, *_SCALES} - {"m", "bn", "k"}, key=len, reverse=True))
_SPELLED = re.compile(
    rf"\b(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))}"
    r"|a\s(?=(?:hundred|thousand|million)\b))"
    rf"(?:(?:[\s-]|\sand\s)?(?:{_ANY_WORD})){{0,12}}\b"
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_CLOCK_WORDS = re.compile(
    r"\bhalf(?: past)? (\d{1,2}|[a-z]+)\b|\b(noon|midday)\b|\bmidnight\b"
    r"|\b(\d{1,2}|[a-z]+)(?: o['’]clock)?(?:(?<=clock)| in the (morning|afternoon|evening))"
)
#: "1日2回" has one number: how often.
_PER_DAY = re.compile(r"(?<!\d)1(?=日に?\d+[回便食錠本杯])")
_DAY_ONE = re.compile(r"\b(day|phase|step|part|week|level|stage|number|room|group) one\b")
_TWICE = re.compile(r"\btwice\b")
_ORDINAL = re.compile(rf"\b(?:{'|'.join(_ORDINALS[3:])})\b")
#: "The one point 3 people made" has no decimal point: the digits after it are single.
_POINT = re.compile(r"(?<![\w.])(\d{1,9}) point (\d(?: \d)*)(?![\w.]|\s\w+ (?:made|raised))")
_ORDINAL_DIGITS = re.compile(r"(\d)(?:st|nd|rd|th)\b")
_KANJI_DIGITS = {digit: number for number, digit in enumerate("〇一二三四五六七八九")}
_KANJI_SCALES = {"十": 10, "百": 100, "千": 1_000, "万": 10**4, "億": 10**8, "兆": 10**12}
_KANJI_NUMBER = "〇一二三四五六七八九十百千万億兆"
_COUNTER = (
    "(?:パーセント|キロ|グラム|ミリ|トン|メートル|ドル|ユーロ|ポンド|ページ|ビット|対"
    "|分の|%|年|月|日|時|分|秒|週|円|人|名|件|個|台|本|回|軒|度|倍|割|点|歳|社|か|カ|ヶ|ヵ|番|つ|階|羽"
    "|匹|頭|枚|冊|室|両|基|隻|株|票|店|校|晩|得点|得|四半期|版|丁目|号|位|便)"
)
#: A Japanese number: digits with scales, or kanji that a counter or 第 marks as a number.
_JAPANESE = re.compile(
    rf"(?<![\d.,])\d[\d.,]{{0,20}}[千百]?[万億兆千百](?:[\d.,]{{0,8}}[千百]?[万億兆千百]){{0,4}}"
    rf"(?:\d[\d,]{{0,8}})?"
    rf"|(?<=第)(?:(?!四半期)[{_KANJI_NUMBER}]){{1,20}}|(?<![{_KANJI_NUMBER}])(?!十分[なにで])[{_KANJI_NUMBER}]{{1,20}}(?={_COUNTER})"
    rf"|(?<=分の)[{_KANJI_NUMBER}]{{1,20}}"
)
_JAPANESE_PART = re.compile(rf"\d[\d,]*(?:\.\d+)?|[{_KANJI_NUMBER}]")
_TIME_JAPANESE = re.compile(r"(午前|午後)?(\d{1,2})時(?!間)(?:(\d{1,2})分|(半))?")
_TIME = re.compile(
    r"\b(\d{1,2})(?:[:.](\d{2}))?(?::\d{2})?\s?([ap])\.?m\b\.?|(午前|午後)?(?<![\d:.])(\d{1,2}):(\d{2})"
    r"(?![\d:])"
)
_ISO_DATE = re.compile(r"\b((?:19|20)\d\d)[-/](\d{1,2})[-/](\d{1,2})\b")
MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_CURRENCY = {"$": "usd", "us$": "usd", "usd": "usd", "€": "eur", "eur": "eur", "£": "gbp"}
_CURRENCY |= {"gbp": "gbp", "¥": "jpy", "jpy": "jpy", "chf": "chf"}
#: Units by dimension, with their factors.
_FACTORS: dict[str, dict[str, float]] = {
    "%": {"%": 1, "percent": 1, "per cent": 1, "パーセント": 1, "pct": 1, "割": 10},
    "s": {
        "ms": 0.001,
        "millisecond": 0.001,
        "ミリ秒": 0.001,
        "s": 1,
        "sec": 1,
        "second": 1,
        "秒": 1,
        "秒間": 1,
        "min": 60,
        "minute": 60,
        "分": 60,
        "分間": 60,
        "h": 3600,
        "hr": 3600,
        "hour": 3600,
        "時間": 3600,
        "day": 86_400,
        "日間": 86_400,
        "week": 604_800,
        "週間": 604_800,
        "か月": 2_592_000,
        "カ月": 2_592_000,
        "ヶ月": 2_592_000,
        "month": 2_592_000,
        "year": 31_104_000,
        "年間": 31_104_000,
    },
    "g": {
        "mg": 0.001,
        "milligram": 0.001,
        "ミリグラム": 0.001,
        "g": 1,
        "gram": 1,
        "グラム": 1,
        "kg": 1000,
        "kilo": 1000,
        "kilogram": 1000,
        "キロ": 1000,
        "キログラム": 1000,
        "t": 1e6,
        "ton": 1e6,
        "tonne": 1e6,
        "トン": 1e6,
    },
    "m": {
        "mm": 0.001,
        "cm": 0.01,
        "m": 1,
        "metre": 1,
        "meter": 1,
        "メートル": 1,
        "km": 1000,
        "kilometre": 1000,
        "kilometer": 1000,
        "mile": 1609,
        "センチ": 0.01,
    },
    "l": {
        "ml": 0.001,
        "millilitre": 0.001,
        "milliliter": 0.001,
        "ミリリットル": 0.001,
        "l": 1,
        "litre": 1,
        "liter": 1,
        "リットル": 1,
    },
    "b": {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "megabyte": 1e6, "gigabyte": 1e9},
    "usd": {"dollar": 1, "ドル": 1, "us dollar": 1, "usd": 1},
    "eur": {"euro": 1, "ユーロ": 1, "eur": 1},
    "gbp": {"pound": 1, "ポンド": 1, "gbp": 1},
    "jpy": {"yen": 1, "円": 1, "jpy": 1},
}
_UNITS = {
    unit: (dimension, factor)
    for dimension, units in _FACTORS.items()
    for unit, factor in units.items()
}
_UNIT_NAMES = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_QUANTITY = re.compile(
    # Japanese writes a number directly after a word.
    rf"(?<![a-z0-9_.\u00c0-\u024f])(?<![a-z_]-)(?P<currency>us\$|[$€£¥]|(?:usd|eur|gbp|jpy|chf)(?=[\s\d]))?\s?"
    rf"(?P<number>\d[\d,]*(?:\.\d+)*)(?:[\s-]?(?P<scale>million|billion|trillion|thousand|bn|k|m)\b)?"
    rf"(?:[\s-]?(?P<unit>{_UNIT_NAMES})(?:e?s)?(?![a-z]))?"
    rf"|(?P<bare>\d[\d,]*(?:\.\d+)*)"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as text, with the dimension of its unit or an empty text."""

    number: str
    dimension: str = ""
    #: The number in the base unit of its dimension.
    amount: str = ""


def _text(value: float) -> str:
    return f"{value:.10g}"


def _spelled_value(text: str) -> int:
    total = current = 0
    for word in re.split(r"[\s-]+", text):
        if word in _SCALES and (current or total or word not in _WORDS):
            current = max(1, current) * _SCALES[word]
            if _SCALES[word] >= 1_000:
                total, current = total + current, 0
        elif word in _WORDS:
            current += _WORDS[word]
    return total + current


def _japanese_value(text: str) -> float:
    total = section = digit = 0.0
    has_digit = False
    for part in _JAPANESE_PART.findall(text):
        if part in _KANJI_SCALES:
            scale = _KANJI_SCALES[part]
            if scale < 10_000:
                section += (digit if has_digit else 1) * scale
            else:
                total += ((section + digit) or 1) * scale
                section = 0.0
            digit, has_digit = 0.0, False
        elif part in _KANJI_DIGITS:
            digit, has_digit = digit * 10 + _KANJI_DIGITS[part], True
        else:
            digit, has_digit = float(part.replace(",", "")), True
    return total + section + digit


def _clock(match: re.Match[str]) -> str:
    hour_text, minute_text = match[1] or match[5], match[2] or match[6] or "0"
    hour, minute = int(hour_text), int(minute_text)
    if hour > 24 or minute > 59:
        return match[0]
    half = match[3] or {"午前": "a", "午後": "p"}.get(match[4] or "", "")
    return f" {_hour(hour, half)}h{minute:02d} "


def _hour(hour: int, half: str) -> int:
    if half == "p" and hour < 12:
        return hour + 12
    return 0 if half == "a" and hour == 12 else hour


def _clock_japanese(match: re.Match[str]) -> str:
    half = {"午前": "a", "午後": "p"}.get(match[1] or "", "")
    minute = 30 if match[4] else int(match[3] or 0)
    return f" {_hour(int(match[2]), half)}h{minute:02d} "


def _clock_word(match: re.Match[str]) -> str:
    """Return a time in words; "half past six" has no half of the day and is marked with `~`."""
    if match[0] == "midnight":
        return " 0h00 "
    if match[2]:
        return " 12h00 "
    text = match[1] or match[3]
    hour = int(text) if text.isdigit() else _WORDS.get(text, 0)
    if not 1 <= hour <= 12:
        return match[0]
    if match[1]:
        return f" ~{hour}h30 "
    half = {"morning": "a", "afternoon": "p", "evening": "p"}.get(match[4] or "", "")
    return f" {_hour(hour, half)}h00 " if half else f" ~{hour}h00 "


def _iso_date(match: re.Match[str]) -> str:
    month = int(match[2])
    if not 1 <= month <= 12:
        return match[0]
    return f"{int(match[3])} {MONTHS[month - 1]} {match[1]}"


@lru_cache(maxsize=2_048)
def with_digits(text: str) -> str:
    """Return a text in lower case with numbers in digits, and times as 14h30."""
    plain = _THOUSANDS.sub("", normalize_text(text).casefold())
    if not plain.isascii():
        plain = _JAPANESE.sub(lambda match: _text(_japanese_value(match[0])), plain)
        plain = _TIME_JAPANESE.sub(_clock_japanese, plain)
        plain = _PER_DAY.sub("", plain)
    plain = _ISO_DATE.sub(_iso_date, plain)
    plain = _TIME.sub(_clock, plain)
    plain = _CLOCK_WORDS.sub(_clock_word, plain)
    plain = _DAY_ONE.sub(r"\1 1", plain)
    plain = _TWICE.sub("2 times", plain)
    plain = _ORDINAL_DIGITS.sub(r"\1", plain)
    plain = _ORDINAL.sub(lambda match: str(_ORDINALS.index(match[0])), plain)
    return _POINT.sub(_decimal, _SPELLED.sub(_spelled, plain))


def _decimal(match: re.Match[str]) -> str:
    """Return "fifteen point four" as 15.4."""
    return f"{match[1]}.{match[2].replace(' ', '')}"


def _spelled(match: re.Match[str]) -> str:
    # "one of them" is rarely a number.
    return match[0] if match[0] == "one" else str(_spelled_value(match[0]))


_CLOCK = re.compile(r"~?\b\d{1,2}h\d\d\b")
#: The result of a match, or a range.
_RESULT = re.compile(r"(?<![\w.-])(\d{1,3})(?:[-\u2013:]|対)(\d{1,3})(?![\d.-])")


@lru_cache(maxsize=2_048)
def quantities(text: str) -> frozenset[Quantity]:
    """Return the numbers of a text with their units; codes such as db-1 are not numbers."""
    plain = with_digits(text)
    found = {Quantity(clock) for clock in _CLOCK.findall(plain)}
    found |= {Quantity(f"{one}-{other}") for one, other in _RESULT.findall(plain)}
    for match in _QUANTITY.finditer(_CLOCK.sub(" ", plain)):
        if match["bare"] is not None:
            if plain.isascii() or not _is_part_of_code(match):
                found.update(_plain_quantity(match["bare"], match))
            continue
        number = match["number"].replace(",", "")
        if number.count(".") > 1:
            found.add(Quantity(number))
            continue
        value = float(number) * _SCALES.get(match["scale"] or "", 1)
        dimension, factor = _UNITS.get(match["unit"] or "", ("", 1.0))
        dimension = _CURRENCY.get(match["currency"] or "", dimension)
        if not dimension and match[0].endswith(" m"):
            # "2,140 m" is a length; "2m" and "$2 m" are millions.
            value, dimension = float(number), "m"
        amount = _text(value * factor) if dimension else ""
        found.add(Quantity(_text(value), dimension, amount))
    return frozenset(found)


def _is_part_of_code(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 2) : match.start()]
    return re.search(r"[a-z0-9._]$|[a-z0-9_]-$", before) is not None


def _plain_quantity(number: str, match: re.Match[str]) -> set[Quantity]:
    if _is_part_of_code(match) or number.count(".") > 1:
        return set()
    return {Quantity(_text(float(number.replace(",", ""))))}


_ONE = re.compile(r"\b(?:one|once|single)\b", re.I)


def known_quantities(text: str) -> frozenset[Quantity]:
    """Return the numbers that a text supports: "one" is a number here, too."""
    found = quantities(text)
    return found | {Quantity("1")} if _ONE.search(text) else found


def contains_quantity(known: frozenset[Quantity], wanted: Quantity) -> bool:
    """Return True if the quantity is among the known ones, in any unit of its dimension."""
    for quantity in known:
        if wanted.dimension and quantity.dimension:
            if (wanted.dimension, wanted.amount) == (quantity.dimension, quantity.amount):
                return True
        elif wanted.number == quantity.number or _is_same_time(wanted.number, quantity.number):
            return True
    return False


def _is_same_time(one: str, other: str) -> bool:
    """Return True for a full hour and a bare number, and for times without half of the day."""
    if "h" not in one and "h" not in other:
        return False
    hours: list[int] = []
    for text in (one, other):
        hour, _, minute = text.removeprefix("~").partition("h")
        if not hour.isdigit() or (not minute and int(hour) > 24):
            return False
        hours.append(60 * int(hour) + int(minute or 0))
    is_vague = one.startswith("~") or other.startswith("~") or "h" not in one or "h" not in other
    return hours[0] == hours[1] or (is_vague and abs(hours[0] - hours[1]) == 720)
