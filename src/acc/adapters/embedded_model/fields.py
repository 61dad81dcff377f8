"""Extract values for the fields of a JSON schema from English and Japanese text.

No value is invented: it is in one of the texts, or the field is missing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acc.adapters.embedded_model.schemas import Schema, accepts, resolve_schema
from acc.domain.language import contains_text, is_japanese, normalize_text, term_list, terms

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
#: English field terms of Japanese counters.
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
class Quantity:
    """A number in a text, whether it is money, and the terms of its unit."""

    digits: str
    money: bool
    unit: frozenset[str]
    start: int


def _find_quantities(text: str) -> list[Quantity]:
    """Return the numbers of a text outside of dates, addresses and codes."""
    for pattern in (URL, EMAIL, DATE_TIME, DATE, CODE):
        text = pattern.sub(lambda match: " x" + " " * (len(match[0]) - 2), text)
    matches: list[Quantity] = []
    for match in _NUMBER.finditer(text):
        unit = match["unit"] or ""
        counter = next((words for mark, words in _COUNTERS.items() if unit.startswith(mark)), unit)
        matches.append(
            Quantity(
                match["sign"] + match["digits"].replace(",", ""),
                bool(match["before"] or match["after"]),
                terms(counter),
                match.start(),
            )
        )
    return matches


def _to_number(digits: str, kind: str) -> int | float | None:
    """Return a number of a JSON type, or None if the type does not allow it."""
    number = float(digits)
    if number.is_integer():
        return int(number)
    return number if kind == "number" else None


def _to_text(match: re.Match[str]) -> str:
    """Return the matched text; a date in ISO 8601 format."""
    if match.re is not DATE:
        return match[0].rstrip(".")
    year, month, day = match[1], match[2] or match[4], match[3] or match[5]
    return f"{year}-{int(month):02}-{int(day):02}"


def quotations(text: str) -> list[str]:
    """Return the quoted strings of a text."""
    matches = (
        next((g for g in match.groups() if g is not None), "") for match in QUOTED.finditer(text)
    )
    return [quoted.strip() for quoted in matches if quoted.strip()]


def _find_names(text: str) -> list[str]:
    """Return likely names of people and places, in order, without duplicates."""
    bare = URL.sub(" x ", EMAIL.sub(" x ", text))
    bare = CODE.sub("x", bare)
    if is_japanese(bare):
        matches = [match[1] for match in _TITLED.finditer(bare)]
        matches = matches or [match[1] for match in _OWNER.finditer(bare)]
    else:
        matches = [match[0].rstrip("’-") for match in _PROPER.finditer(bare)]
        matches = matches or [match[1] for match in _AFTER_PREPOSITION.finditer(bare)]
    return [name for name in dict.fromkeys(matches) if term_list(name)]


_ITEMS = re.compile(r"\s*(?:,|、|・|;|\band\b)\s*")
_STRING_END = re.compile(
    r"[,;\n、。]|\.(?:\s|$)|\s+(?:and|with|for)\s|\s+[A-Za-z_]+\s*[:=]"
    r"|(?:です|でした|だ|を|で|に)(?=[、。\s]|$)"
)
_LIST_END = re.compile(r"[\n。]|\.(?:\s|$)|;\s")
_LEADING = re.compile(r"^(?:the|an?|customer's|user's)\s+", re.I)
_ID_SUFFIX = re.compile(r"[_ ](?:id|no|nr|number|code|key)$", re.I)
_YES = re.compile(r"(?:true|yes|on|はい|する|有効|有り|あり)\b", re.I)
_NO = re.compile(r"(?:false|no|off|いいえ|しない|無効|無し|なし)\b", re.I)
_NOT_BEFORE = re.compile(r"(?:\bno|\bnot|\bnon|\bwithout|n['’]t)[\s-]+(?:\w+\s+)?$", re.I)
_NOT_AFTER = re.compile(r"^[はをも]?(?:\s*(?:しない|せず|不要|なし|無し|いりません|ではない))")
_EMAIL_NAMED = re.compile(r"e-?mail|mail_?address|メール", re.I)
_URL_NAMED = re.compile(r"\b(?:url|uri|link)\b", re.I)
_DATE_NAMED = re.compile(r"\b(?:date|day|deadline|due|until|since)\b|日付|年月日|期日|期限", re.I)
_ID_NAMED = re.compile(
    r"\b(?:id|ids|no|nr|code|number|sku|reference|ticket|key|account|番号)\b|番号|コード|識別子",
    re.I,
)
_MONEY_NAMED = re.compile(
    r"\b(?:amount|price|cost|costs|total|sum|fee|budget|value|money)\b|金額|料金|価格|予算|費用",
    re.I,
)
_TEXT_NAMED = re.compile(
    r"\b(?:request|query|question|text|message|prompt|input|content|body|topic|q|keywords?"
    r"|terms?|search|description|note|sentence|statement)\b",
    re.I,
)
_PLACE_NAMED = re.compile(
    r"\b(?:city|town|place|location|country|region|name|person|customer|user|client|author|owner"
    r"|company|recipient)\b|都市|場所|氏名|顧客|名前|会社",
    re.I,
)
_MAX_TEXT_LENGTH = 20_000
_MAX_VALUE_LENGTH = 1_000
_MAX_NUMBER_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Sources of values: the query, result objects and further texts, newest first."""

    query: str
    data: tuple[Mapping[str, Any], ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(slots=True)
class ExtractedFields:
    """Extracted values and the names of missing required fields."""

    values: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    #: True if a field contains the whole query.
    took_query: bool = False


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    schema: Schema
    required: bool

    @property
    def kind(self) -> str:
        return str(self.schema.get("type", "string"))

    @property
    def words(self) -> str:
        """Return the name and the description of the field as words."""
        spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", self.name).replace("_", " ")
        return f"{spaced} {self.schema.get('description', '')}"

    @property
    def labels(self) -> list[str]:
        """Return the labels that may precede its value, longest first."""
        spaced = self.name.replace("_", " ")
        labels = [self.name, spaced, _ID_SUFFIX.sub("", spaced)]
        described = str(self.schema.get("description", "")).strip(" .。")
        described = _LEADING.sub("", described)
        if 0 < len(described) <= 40 and len(described.split()) <= 3:
            labels.append(described)
        return sorted(dict.fromkeys(labels), key=len, reverse=True)

    def is_named(self, pattern: re.Pattern[str]) -> bool:
        return pattern.search(self.words) is not None

    @property
    def is_plain(self) -> bool:
        """Return True if the field accepts any text."""
        special = (_EMAIL_NAMED, _URL_NAMED, _DATE_NAMED, _ID_NAMED)
        return (
            self.kind == "string"
            and "enum" not in self.schema
            and not self.schema.get("format")
            and (self.is_named(_TEXT_NAMED) or not any(self.is_named(p) for p in special))
        )


def read_object(
    schema: Schema, sources: Sources, *, root: Schema | None = None, may_take_query: bool = False
) -> ExtractedFields:
    """Return the properties of an object schema that the sources contain.

    If `may_take_query` is True, a single required text field may take the whole query.
    """
    root = schema if root is None else root
    required = set(schema.get("required", ()))
    fields = [
        _Field(name, resolve_schema(sub, root)[0], name in required)
        for name, sub in schema.get("properties", {}).items()
    ]
    reader = _Reader(fields, sources, root)
    reader.read()
    if may_take_query:
        reader.take_query()
    values = {f.name: reader.values[f.name] for f in fields if f.name in reader.values}
    missing = [f.name for f in fields if f.required and f.name not in values]
    return ExtractedFields(values, missing, reader.took_query)


class _Reader:
    """Fills the fields of one object, from the most to the least reliable rule."""

    def __init__(self, fields: Sequence[_Field], sources: Sources, root: Schema) -> None:
        self._fields = fields
        self._sources = sources
        self._root = root
        self._query = normalize_text(sources.query[:_MAX_TEXT_LENGTH])
        self._texts = [normalize_text(text[:_MAX_TEXT_LENGTH]) for text in sources.texts]
        self.values: dict[str, Any] = {}
        self.took_query = False

    def read(self) -> None:
        self._by_label(self._query)
        self._by_kind(self._query)
        self._by_unit(self._query)
        self._from_data()
        for text in self._texts:
            self._by_label(text)
        self._assign_remaining_numbers()
        for text in self._texts:
            self._by_kind(text)
        self._plain_strings()

    def _missing(self) -> list[_Field]:
        return [f for f in self._fields if f.name not in self.values]

    def _by_label(self, text: str) -> None:
        for item in self._missing():
            for label in item.labels:
                value = _value_after_label(text, label, item, self._root)
                if value is not None:
                    self.values[item.name] = value
                    break

    def _by_kind(self, text: str) -> None:
        for item in self._missing():
            assigned = [str(value) for value in self.values.values()]
            value = _value_by_form(text, item, assigned)
            if value is not None:
                self.values[item.name] = value

    def _by_unit(self, text: str) -> None:
        counted = _find_quantities(text)
        for item in self._missing():
            if item.kind not in ("integer", "number"):
                continue
            words = terms(item.words)
            for number in counted:
                fits = number.money if item.is_named(_MONEY_NAMED) else bool(words & number.unit)
                if fits and number not in self._used(counted):
                    self.values[item.name] = _to_number(number.digits, item.kind)
                    break

    def _used(self, counted: Sequence[Quantity]) -> list[Quantity]:
        assigned = [str(v) for v in self.values.values() if not isinstance(v, bool)]
        used: list[Quantity] = []
        for value in assigned:
            for number in counted:
                same = number.digits == value or number.digits == value.removesuffix(".0")
                if number not in used and same:
                    used.append(number)
                    break
        return used

    def _from_data(self) -> None:
        for item in self._missing():
            for data in self._sources.data:
                value = _look_up(item, data)
                if value is not None and accepts(item.schema, value, self._root):
                    self.values[item.name] = value
                    break

    def _assign_remaining_numbers(self) -> None:
        wanted = [f for f in self._missing() if f.required and f.kind in ("integer", "number")]
        counted = _find_quantities(self._query)
        used = self._used(counted)
        left = [number for number in counted if number not in used]
        if wanted and len(left) == len(wanted):
            for item, number in zip(wanted, left, strict=True):
                self.values[item.name] = _to_number(number.digits, item.kind)

    def _plain_strings(self) -> None:
        wanted = [f for f in self._missing() if f.required and f.is_plain]
        if not wanted:
            return
        assigned = {value for value in self.values.values() if isinstance(value, str)}
        quoted = [text for text in quotations(self._query) if text not in assigned]
        if len(quoted) == len(wanted):
            self._assign(wanted, quoted)
            return
        texts = [f for f in wanted if f.is_named(_TEXT_NAMED)]
        self._assign(texts, quoted)
        names = [name for name in _find_names(self._query) if name not in {*assigned, *quoted}]
        self._assign([f for f in wanted if f not in texts], names)

    def _assign(self, fields: Sequence[_Field], texts: Sequence[str]) -> None:
        if len(fields) == len(texts):
            self.values |= {f.name: text for f, text in zip(fields, texts, strict=True)}

    def take_query(self) -> None:
        left = [f for f in self._missing() if f.required]
        needed = [f for f in self._fields if f.required]
        sole = len(left) == len(needed) == 1 or (len(left) == 1 and left[0].is_named(_TEXT_NAMED))
        item = left[0] if left else None
        if item is None or not sole or not item.is_plain or not self._query.strip():
            return
        if item.is_named(_TEXT_NAMED) or not item.is_named(_PLACE_NAMED):
            self.values[item.name] = self._sources.query.strip()
            self.took_query = True


def _value_after_label(text: str, label: str, item: _Field, root: Schema) -> Any:
    """Return the value that follows a label, as `label: value` or 「label は value」."""
    flat = re.escape(label).replace(r"\ ", r"[\s_-]")
    edge = r"(?<![A-Za-z0-9_])" if label[:1].isascii() else ""
    after = r"(?![A-Za-z0-9_])" if label[-1:].isascii() else ""
    sure = r"\s*(?:[:=]|\b(?:is|are|equals)\b|[はが])\s*"
    loose = r"|\s*(?:の|to|of|#)?\s*"
    if item.is_plain:
        loose = r"|\s*(?=[\"“「『`])"
    elif item.kind in ("array", "boolean"):
        loose = ""
    for match in re.finditer(f"{edge}{flat}{after}(?:{sure}{loose})", text, re.I):
        rest = text[match.end() : match.end() + _MAX_VALUE_LENGTH]
        value = _value_at(rest, item, root, tight="=" in match[0])
        if value is not None:
            return value
    return None


def _value_at(rest: str, item: _Field, root: Schema, *, tight: bool) -> Any:
    """Return the value of a field's type at the start of a text."""
    schema, kind = item.schema, item.kind
    if "enum" in schema:
        starts = [m for m in schema["enum"] if rest.casefold().startswith(str(m).casefold())]
        return max(starts, key=lambda member: len(str(member)), default=None)
    if kind in ("integer", "number"):
        number = next(
            (n for n in _find_quantities(rest[:_MAX_NUMBER_LENGTH]) if n.start <= 1), None
        )
        return None if number is None else _to_number(number.digits, kind)
    if kind == "boolean":
        return True if _YES.match(rest) else False if _NO.match(rest) else None
    if kind == "array":
        return _items(rest, schema, root)
    if kind != "string":
        return None
    special = _special(item)
    if special is not None:
        match = special.match(rest)
        return None if match is None else _to_text(match)
    if item.is_plain:
        return _string_at(rest, tight=tight)
    code = re.match(r"#?(?=[\w-]*\d)([A-Za-z0-9][\w-]*)", rest, re.ASCII)
    return code[1].rstrip("-") if code else None


def _string_at(rest: str, *, tight: bool) -> str | None:
    quoted = QUOTED.match(rest)
    if quoted is not None:
        return next(group for group in quoted.groups() if group is not None)
    end = re.search(r"[\s,;、。]|$", rest) if tight else _STRING_END.search(rest)
    value = rest[: end.start()] if end is not None else rest
    return value.strip(" .?!\"'") or None


def _items(rest: str, schema: Schema, root: Schema) -> list[Any] | None:
    end = _LIST_END.search(rest)
    listed = rest[: end.start()] if end is not None else rest
    inner, _ = resolve_schema(schema.get("items", {}), root)
    pieces = [piece.strip(" .\"'「」[]です") for piece in _ITEMS.split(listed)]
    kind = inner.get("type", "string")
    if kind == "string" and "enum" not in inner:
        return [piece for piece in pieces if piece] or None
    items = [_value_at(piece, _Field("item", inner, False), root, tight=False) for piece in pieces]
    return None if None in items or not items else items


def _special(item: _Field) -> re.Pattern[str] | None:
    """Return the pattern that the name or format of a field requires, or None."""
    form = item.schema.get("format", "")
    if form == "date-time":
        return DATE_TIME
    if form == "email" or (item.is_named(_EMAIL_NAMED) and not item.is_named(_TEXT_NAMED)):
        return EMAIL
    if form == "uri" or item.is_named(_URL_NAMED):
        return URL
    if form == "date" or (item.is_named(_DATE_NAMED) and item.kind == "string"):
        return DATE
    return None


def _value_by_form(text: str, item: _Field, assigned: Sequence[str]) -> Any:
    """Return a value that is recognisable by its form."""
    if "enum" in item.schema:
        named = [m for m in item.schema["enum"] if contains_text(text, str(m))]
        return named[0] if len(named) == 1 else None
    if item.kind == "boolean":
        return _flag(text, item)
    if item.kind != "string" or item.is_plain:
        return None
    special = _special(item)
    if special is not None:
        matches: Iterable[str] = map(_to_text, special.finditer(text))
    elif item.is_named(_ID_NAMED):
        bare = URL.sub(" ", EMAIL.sub(" ", DATE.sub(" ", text)))
        matches = [match[0] for match in CODE.finditer(bare)]
    else:
        return None
    return next((value for value in matches if value not in assigned), None)


def _flag(text: str, item: _Field) -> bool | None:
    for label in item.labels:
        if len(label) < 2:
            continue
        edge = r"(?<![A-Za-z0-9])" if label[:1].isascii() else ""
        flat = re.escape(label).replace(r"\ ", r"[\s_-]")
        match = re.search(f"{edge}{flat}", text, re.I)
        if match is not None:
            before, after = text[: match.start()], text[match.end() :]
            return not (_NOT_BEFORE.search(before) or _NOT_AFTER.match(after))
    return None


def _look_up(item: _Field, data: Mapping[str, Any]) -> Any:
    """Return the value of a result under the field's name or a similar unique name."""
    keys = {re.sub(r"[\W_]", "", key).casefold(): key for key in data if isinstance(key, str)}
    name = re.sub(r"[\W_]", "", item.name).casefold()
    if name in keys:
        return _convert(data[keys[name]], item)
    alike = [
        key for key in data if f"_{item.name}".endswith(f"_{key}") or key.endswith(f"_{item.name}")
    ]
    return _convert(data[alike[0]], item) if len(alike) == 1 else None


def _convert(value: Any, item: _Field) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if item.kind == "string" and number:
        return str(value)
    if item.kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value
