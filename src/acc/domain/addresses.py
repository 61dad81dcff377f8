"""Addresses in text: e-mail addresses, URLs, domains, account and phone numbers.

Disguised spellings are recognised: percent-encoding, character references, base64, base32 and hex,
full-width forms, invisible characters, look-alike letters, and dots that are spelled out or
surrounded by spaces.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from html import unescape
from urllib.parse import unquote

_MAX_DECODINGS = 3
_CACHE_SIZE = 1_024
#: An encoded address: at least as long as the base64 of "a@b.jp", and a bound on the work.
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{8,4096}={0,6}(?![A-Za-z0-9+/_=-])")
_HEX = re.compile(
    r"(?<![a-z0-9])(?:0x|\\x)?[0-9a-f]{2}(?:[ :,]?(?:0x|\\x)?[0-9a-f]{2}){5,2048}", re.I
)
_HEX_MARKS = re.compile(r"0x|\\x|[ :,]", re.I)
_MAX_ENCODED = 64
#: Letters of other scripts that look like Latin ones.
_LOOK_ALIKES = str.maketrans(
    "аеорсухіјѕһԁԛԝьіαβεηικνορτυχγғқҳмнкпгзбΑΒΕΖΗΙΚΜΝΟΡΤΥΧАВЕКМНОРСТУХІЈЅ",
    "aeopcyxijshdqwbiabehikvoptuxyfkhmhknrzbABEZHIKMNOPTYXABEKMHOPCTYXIJS",
)
_DOTS = re.compile(r"[。｡．․‧∙⋅·]")
_SPELLED_DOT = re.compile(
    r"\s*[\[({<]\s*(?:\.|dot|ドット)\s*[\])}>]\s*|(?<=\w)\s+dot\s+(?=\w)", re.I
)
_SPELLED_AT = re.compile(
    r"\s*[\[({<]\s*(?:@|at|アット)\s*[\])}>]\s*|(?<=\w)\s+at\s+(?=[\w-]+\.[a-z]{2,})", re.I
)
_SPACED_DOT = re.compile(r"(?<=[A-Za-z0-9-])\s+\.\s*(?=[A-Za-z0-9])")
_SPACED_AT = re.compile(r"(?<=[A-Za-z0-9])\s*@\s*(?=[A-Za-z0-9])")
_COMMON_ENDINGS = (
    "com|net|org|info|biz|edu|gov|mil|io|dev|app|xyz|online|site|shop|top|club|live|store|tech|page"
    "|link|click|cloud|me|co|ai|jp|uk|de|fr|us|ru|cn|eu|ch|in|br|tv|cc|ly|to"
)
_SPLIT_ENDING = re.compile(rf"(?<=[A-Za-z0-9-]\.)\s+(?=(?:{_COMMON_ENDINGS})\b)", re.I)
_SPLIT_SCHEME = re.compile(r"\bh(?:tt|xx|\*\*)p(s?)\s*:\s*/\s*/\s*", re.I)
_FILE_ENDINGS = re.compile(
    "txt|docx?|xlsx?|pptx?|pdf|csv|tsv|json|xml|ya?ml|toml|html?|png|jpe?g|gif|svg|webp|mp3|mp4|wav"
    "|log|ini|cfg|bak|tmp|js|css|java|cpp|ipynb|sql|odt|ods|rtf|gz|tar",
    re.I,
)
_DATE = re.compile(
    r"\b(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
    r"(?:[T ]+\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|(?<![\d-])\d{3}-\d{4}(?![\d-])",  # a Japanese postal code
    re.ASCII,
)
_TLD = r"(?:[a-z]{2,24}|xn--[a-z0-9-]{2,40})"
_HOST = rf"(?:[a-z0-9](?:[a-z0-9-]{{0,61}}[a-z0-9])?\.){{1,8}}{_TLD}(?![a-z0-9])"
_PATH = r"(?::\d{2,5})?(?:[/?#][^\s<>\"'`、。，」』）)\]}]*)?"
_ADDRESS = re.compile(
    rf"(?P<email>[a-z0-9._%+-]{{1,64}}@{_HOST})"
    r"|(?P<scheme>(?:https?|ftp|file|data|javascript|mailto|tel|ws|wss|ssh):(?://)?[^\s<>\"'`、。」』]+)"
    rf"|(?P<ip>(?<![\d.])\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?![\d.]\d){_PATH})"
    rf"|(?P<domain>(?<![a-z0-9@]){_HOST}{_PATH})"
    r"|(?P<iban>(?<![a-z0-9])[a-z]{2}\d{2}(?:[a-z0-9]{10,30}|[ -][a-z0-9]{4}"
    r"(?:[ -](?=[a-z]*\d)[a-z0-9]{4}){1,6}(?:[ -](?=[a-z]*\d)[a-z0-9]{1,3})?)(?![a-z0-9]))"
    r"|(?P<number>(?<![a-z0-9])\+?\d(?:[ \-./()]{0,2}\d){6,}(?![a-z0-9]))",
    re.I | re.ASCII,
)
_FOREIGN = re.compile(rf"[^\W\d_a-zA-Z]+(?:\.[^\W_]+)*\.{_TLD}(?![A-Za-z0-9])")
_SEPARATORS = re.compile(r"[ \-./()]")


@dataclass(frozen=True, slots=True)
class Address:
    """An address in a text: `key` identifies it, `text` is how it is spelled.

    `is_disguised` is True if it only shows after decoding or with look-alike letters replaced.
    """

    key: str
    text: str
    is_disguised: bool = False


def decode(text: str) -> str:
    """Return a text without encodings, full-width forms and invisible characters."""
    for _ in range(_MAX_DECODINGS):
        decoded = unquote(unescape(text))
        if decoded == text:
            break
        text = decoded
    text = unicodedata.normalize("NFKC", text)
    return "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Mn") or c in "\n\t")


@lru_cache(maxsize=_CACHE_SIZE)
def addresses(text: str) -> tuple[Address, ...]:
    """Return the addresses in a text, each once."""
    plain = _found(_DATE.sub(" ", unicodedata.normalize("NFKC", text)))
    decoded = decode(text).translate(_LOOK_ALIKES)
    decoded = _SPLIT_SCHEME.sub(r"http\1://", _SPELLED_DOT.sub(".", _DOTS.sub(".", decoded)))
    decoded = _SPACED_AT.sub("@", _SPELLED_AT.sub("@", decoded))
    decoded = _SPLIT_ENDING.sub("", _SPACED_DOT.sub(".", decoded))
    found = dict(plain)
    hidden = _found(_DATE.sub(" ", decoded))
    for spelled in plain.values():  # a link may contain encoded text; the link itself is checked
        decoded = decoded.replace(spelled, " ")
    for inner in _encoded_texts(decoded):
        hidden |= _found(_DATE.sub(" ", inner))
    disguised = {
        key: Address(key, spelled, is_disguised=True)
        for key, spelled in hidden.items()
        if key not in plain
    }
    return (*(Address(key, spelled) for key, spelled in found.items()), *disguised.values())


def address_key(value: str) -> str:
    """Return the key of a value that is one address and nothing else, or an empty string."""
    value = value.strip()
    found = addresses(value)
    if len(found) != 1 or found[0].is_disguised or value != unicodedata.normalize("NFKC", value):
        return ""
    return found[0].key if _SEPARATORS.sub("", found[0].text) == _SEPARATORS.sub("", value) else ""


def _encoded_texts(text: str, depth: int = 1) -> Iterator[str]:
    """Yield the readable texts that are encoded in a text, also those that are encoded twice."""
    pieces = [match[0] for match in _ENCODED.finditer(text)]
    pieces += [match[0] for match in _HEX.finditer(text)]
    for piece in pieces[:_MAX_ENCODED]:
        for inner in _decodings(piece):
            yield inner
            if depth < _MAX_DECODINGS:
                yield from _encoded_texts(inner, depth + 1)


def _decodings(piece: str) -> Iterator[str]:
    """Yield what a piece of text means as hex, base32 or base64, if that is readable text."""
    body, digits = piece.rstrip("="), _HEX_MARKS.sub("", piece)
    # A word before separated digits, such as "be 65 76", is not a part of the text.
    errors = "ignore" if digits != piece else "strict"
    decoders: tuple[Callable[[], bytes], ...] = (
        lambda: bytes.fromhex(digits).decode(errors=errors).encode(),
        lambda: base64.b32decode(body.upper() + "=" * (-len(body) % 8)),
        lambda: base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True),
        lambda: base64.b64decode(body + "=" * (-len(body) % 4), validate=True),
    )
    for decode_bytes in decoders:
        try:
            inner = decode_bytes().decode()
        except (ValueError, binascii.Error):
            continue
        if inner.isprintable() or inner.replace("\n", "").replace("\t", "").isprintable():
            yield inner


def _found(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in _ADDRESS.finditer(text):
        spelled = match[0].rstrip(".,;:!?'\")]}")
        if match.lastgroup == "domain" and _is_file_or_sentence(spelled):
            continue
        found.setdefault(_key(spelled, match.lastgroup or ""), spelled)
    for match in _FOREIGN.finditer(text):
        found.setdefault(match[0].casefold(), match[0])
    return found


def _is_file_or_sentence(spelled: str) -> bool:
    """Return True for a file name, and for a sentence that starts right after a period."""
    if spelled[:4].casefold() == "www." or re.search(r"[/?#:]", spelled):
        return False
    ending = spelled.rpartition(".")[2]
    if _FILE_ENDINGS.fullmatch(ending):
        return True
    is_capitalized = ending[:1].isupper() and ending[1:].islower()
    return is_capitalized and re.fullmatch(_COMMON_ENDINGS, ending, re.I) is None


def _key(spelled: str, kind: str) -> str:
    """Return the form of an address in which equal addresses are equal."""
    if kind in ("iban", "number"):
        return _SEPARATORS.sub("", spelled).upper()
    if kind == "email":
        return spelled.casefold()
    spelled = re.sub(r"^(?:https?://|mailto:)", "", spelled, flags=re.I)
    host, mark, rest = re.match(r"([^/?#]*)([/?#]?)(.*)", spelled, re.S).groups()  # type: ignore[union-attr]
    return f"{host.casefold()}{mark}{rest}".rstrip("/")
