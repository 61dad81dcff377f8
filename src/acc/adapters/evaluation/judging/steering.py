"""Answers that speak to the judge: found by fixed patterns, in English and Japanese.

A flag is a note on the record, never a verdict. Patterns are read on several forms of the text, so
that spacing, width, look-alike letters, invisible characters and base64 do not hide one.
"""

import base64
import binascii
import re
import unicodedata

from acc.adapters.evaluation.judging.steering_patterns import PATTERNS

#: Of a longer answer this much is read at its beginning and at its end.
_LONGEST_END = 200_000
#: Letters of other scripts that look Latin.
_LOOK_ALIKE = str.maketrans(
    {
        **dict(zip("\u0430\u0435\u0456\u043e\u0440\u0441\u0443\u0445", "aeiopcyx", strict=True)),
        **dict(zip("\u0455\u0458\u0501\u051b\u051d\u04bb\u0475\u04cf", "sjdqwhvl", strict=True)),
        **dict(zip("\u0410\u0412\u0415\u0406\u041a\u041c\u041d\u041e", "ABEIKMHO", strict=True)),
        **dict(zip("\u0420\u0421\u0422\u0425\u0405\u0408\u03bf\u03b1", "PCTXSJoa", strict=True)),
        **dict(zip("\u03bd\u03b9\u03c1\u03c4\u03c5\u03b5\u0131\u0261", "viptueig", strict=True)),
    }
)
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_TAGS = re.compile("[\U000e0020-\U000e007e]+")
_SPACED = re.compile(r"(?<!\w)(?:[a-z][ ._*-]){4,}[a-z](?!\w)", re.I)
_SPACED_JAPANESE = re.compile(
    r"(?<=[\u3041-\u30ff\u4e00-\u9fff])[ ._*-](?=[\u3041-\u30ff\u4e00-\u9fff])"
)
_ENCODED = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")


def steering_flags(answer: str) -> tuple[str, ...]:
    """Return the ways in which a text tries to steer who judges it, none for plain answers."""
    text = answer
    if len(answer) > 2 * _LONGEST_END:
        text = f"{answer[:_LONGEST_END]}\n{answer[-_LONGEST_END:]}"
    found: dict[str, None] = {}
    hidden = _TAGS.findall(text)
    if hidden:
        found["hides text"] = None
    for form in _forms(text, hidden):
        for flag, patterns in PATTERNS.items():
            if flag not in found and any(pattern.search(form) for pattern in patterns):
                found[flag] = None
    return tuple(found)


def _forms(text: str, hidden: list[str]) -> list[str]:
    """Return the text as it is read by a person, and what it holds in disguise."""
    bare = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).translate(_LOOK_ALIKE)
    forms = [bare]
    spaced = _SPACED.sub(lambda run: re.sub(r"[ ._*-]", "", run[0]), bare)
    if spaced != bare:
        # Words that were spelled apart have lost the spaces between them too.
        forms += [re.sub(r" {2,}", " ", spaced), re.sub(r"[ ._*-]", "", bare)]
    joined = _SPACED_JAPANESE.sub("", bare)
    if joined != bare:
        forms.append(joined)
    forms += ["".join(chr(ord(mark) - 0xE0000) for mark in run) for run in hidden]
    forms += filter(None, map(_decoded, _ENCODED.findall(bare)))
    return forms


def _decoded(run: str) -> str:
    try:
        text = base64.b64decode(run + "=" * (-len(run) % 4), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return text if text.isprintable() else ""
