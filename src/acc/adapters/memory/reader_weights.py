"""The trained classifier of the embedded reader: features, weights and scores.

A sentence is a set of hashed n-grams of words and characters. A row of the weights has one signed
byte for each act. Training and inference share this module.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from math import exp, log, sqrt
from operator import itemgetter
from zlib import crc32

from acc.domain.language import is_japanese, normalize_text
from acc.domain.value_objects.reading import Act

#: Acts in the order of the columns of the weights.
ACTS = tuple(Act)
#: Number of rows of the weights of a language; a feature is the remainder of its hash.
ROWS = 1 << 17
#: In characters. Of a longer sentence the beginning and the end are read.
MAX_LENGTH = 400
_MAGIC = b"ACCREAD1"
_RESOURCE = "reader.bin"
#: Apostrophes and full stops tell who writes, not what a sentence does.
_TYPING = re.compile(r"(?<=\w)['’‘](?=\w)|[.。…,、;~〜ー-]+\s*$")
_DIGITS = re.compile(r"\d+")
_TOKEN = re.compile(
    r"[a-z0-9']+(?:-[a-z0-9']+)*|[\u3041-\u3096]+|[\u30a1-\u30fc]+|[\u3400-\u9fff々]+"
    r"|[^\sa-z0-9'\u3041-\u3096\u30a1-\u30fc\u3400-\u9fff]"
)
#: Longest n-gram of characters.
_CHARACTERS = 5
#: Longest n-gram of words.
_WORDS = 3
#: Longest beginning and ending of a Japanese sentence that is a feature of its own.
_ENDING = 8
#: Longest n-gram of the frame of an English sentence.
_FRAME_WORDS = 5
# Seeds that separate the kinds of features.
_WORD, _SKIP, _FIRST, _LAST, _SHAPE, _FRAME = 1, 2, 3, 4, 5, 6
#: English words that carry the form of a sentence and not its topic: closed classes of words, and
#: the most common verbs about speaking and deciding.
_FORM_WORDS = frozenset(
    b"""
a an the this that these those my your his her its our their me you him us them i we he she it
they who which what when where why how if unless until while because so since as than then though
although but and or nor not no never always ever every each any all both only just also too even
still again anymore more most less least much many few some such same other another else instead
rather either neither to of in on at by for with without from into onto over under about after
before between through during within per off out up down back via is are was were be been being am
do does did done doing dont doesnt didnt cant wont wouldnt shouldnt isnt arent wasnt have has had
having will would shall should can could may might must need needs want wants let lets please pls
kindly ok okay yes yeah now today tomorrow im ive id ill youre youve thats theres heres whats one
two three four five ten first last next there here thing things stuff way time times rule rules
forget remember stop keep use make give write put say tell ask answer reply call go get got like
prefer longer needed necessary required allowed fine rest mind whenever wherever whatever
""".split()
)
#: Endings that tell the form of a word of the topic.
_WORD_ENDINGS = (b"ing", b"ed", b"ly", b"tion", b"er", b"est", b"s")


def normalize_sentence(text: str) -> str:
    """Return the text that is read: one case, no typing habits, numbers as 0."""
    if len(text) > MAX_LENGTH:
        text = f"{text[: MAX_LENGTH // 2]} {text[-MAX_LENGTH // 2 :]}"
    plain = _TYPING.sub("", normalize_text(text).casefold())
    return " ".join(_DIGITS.sub("0", plain).split())


def features(text: str) -> set[int]:
    """Return the features of a sentence as hashes of 32 bits."""
    plain = normalize_sentence(text)
    japanese = is_japanese(plain)
    found = _character_features(plain.replace(" ", "") if japanese else plain, japanese=japanese)
    words = [token.encode() for token in _TOKEN.findall(plain)]
    found |= _word_features(words, japanese=japanese)
    size = len(plain) // 8 if japanese else (len(words) + 2) // 4
    language = b"ja" if japanese else b"en"
    found.add(crc32(language, _SHAPE))
    found.add(crc32(b"%s%d" % (language, min(size, 10)), _SHAPE))
    if plain.endswith(("?", "か")):
        found.add(crc32(b"question", _SHAPE))
    return found


def _character_features(text: str, *, japanese: bool) -> set[int]:
    data = f"\x02{text}\x03".encode("utf-16-le", "surrogatepass")
    end = len(data)
    found: set[int] = set()
    for size in range(2 if japanese else 4, 2 * _CHARACTERS + 1, 2):
        found.update([crc32(data[i : i + size]) for i in range(0, end - size + 1, 2)])
    if japanese:
        for size in range(6, 2 * _ENDING + 3, 2):
            found.add(crc32(data[:size], _FIRST))
            found.add(crc32(data[-size:], _LAST))
    return found


def _word_features(words: list[bytes], *, japanese: bool) -> set[int]:
    if japanese:
        found = {crc32(word, _WORD) for word in words}
        found.update(
            [crc32(b"%s %s" % pair, _WORD) for pair in zip(words, words[1:], strict=False)]
        )
        return found
    framed = [b"^", *words, b"$"]
    found = set()
    for size in range(1, _WORDS + 1):
        found.update(
            [crc32(b" ".join(framed[i : i + size]), _WORD) for i in range(len(framed) - size + 1)]
        )
    found.update([crc32(b"%s %s" % pair, _SKIP) for pair in zip(framed, framed[2:], strict=False)])
    frame = [b"^", *map(_form, words), b"$"]
    for size in range(2, _FRAME_WORDS + 1):
        found.update(
            [crc32(b" ".join(frame[i : i + size]), _FRAME) for i in range(len(frame) - size + 1)]
        )
    if len(words) > 1:
        found.add(crc32(b" ".join(words[:2]), _FIRST))
        found.add(crc32(b" ".join(words[:3]), _FIRST))
        found.add(crc32(words[1], _FIRST))
        found.add(crc32(words[-1], _LAST))
        found.add(crc32(b" ".join(words[-2:]), _LAST))
    return found


@lru_cache(maxsize=4_096)
def _form(word: bytes) -> bytes:
    """Return a word of the form of a sentence as it is, and another one by its ending only."""
    if word in _FORM_WORDS or not word[:1].isalnum():
        return word
    if word[:1].isdigit():
        return b"0"
    endings = (ending for ending in _WORD_ENDINGS if word.endswith(ending))
    ending = next((e for e in endings if len(word) > len(e) + 2), b"")
    return b"~" + ending


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageWeights:
    """Trained parameters of one language.

    `columns` has one byte for each act and row: a weight divided by `scale`, plus 128. `links` and
    `links_with_vectors` are the parameters of `reader_links`.
    """

    columns: tuple[bytes, ...]
    scale: float
    bias: tuple[float, ...]
    links: tuple[float, ...]
    links_with_vectors: tuple[float, ...]

    def scores(self, text: str) -> tuple[float, ...]:
        """Return the probability of each act from the words of the sentence alone."""
        hashes = [value % ROWS for value in features(text)]
        select = itemgetter(*hashes)
        factor = self.scale / sqrt(len(hashes))
        offset = 128 * len(hashes)
        return softmax(
            [
                (sum(select(column)) - offset) * factor + bias
                for column, bias in zip(self.columns, self.bias, strict=True)
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderWeights:
    """Trained parameters; languages other than Japanese use the English ones."""

    english: LanguageWeights
    japanese: LanguageWeights

    def of(self, text: str) -> LanguageWeights:
        """Return the weights of the language of a text."""
        return self.japanese if is_japanese(text) else self.english


def softmax(values: Sequence[float]) -> tuple[float, ...]:
    """Return probabilities that are proportional to the exponentials of the values."""
    highest = max(values)
    powers = [exp(value - highest) for value in values]
    total = sum(powers)
    return tuple(power / total for power in powers)


def log_sum(values: Sequence[float]) -> float:
    """Return the logarithm of the sum of the exponentials of the values."""
    highest = max(values)
    return highest + log(sum(exp(value - highest) for value in values))


def encode_weights(weights: ReaderWeights) -> bytes:
    """Return the content of the weights file."""
    languages = (weights.english, weights.japanese)
    header = json.dumps(
        {
            "acts": [act.value for act in ACTS],
            "languages": [
                {
                    "scale": language.scale,
                    "bias": language.bias,
                    "links": language.links,
                    "links_with_vectors": language.links_with_vectors,
                }
                for language in languages
            ],
        },
        separators=(",", ":"),
    ).encode()
    columns = (column for language in languages for column in language.columns)
    return b"".join([_MAGIC, len(header).to_bytes(4, "little"), header, *columns])


def decode_weights(data: bytes) -> ReaderWeights:
    """Return the weights of a file that `encode_weights` wrote."""
    start = len(_MAGIC) + 4
    table = start + int.from_bytes(data[len(_MAGIC) : start], "little")
    if data[: len(_MAGIC)] != _MAGIC or len(data) - table != 2 * ROWS * len(ACTS):
        raise ValueError(f"{_RESOURCE} is not a weights file with {ROWS} rows; run `make reader`")
    header = json.loads(data[start:table])
    if header["acts"] != [act.value for act in ACTS]:
        raise ValueError(f"{_RESOURCE} has weights for other acts; run `make reader`")
    columns = [data[i : i + ROWS] for i in range(table, len(data), ROWS)]
    english, japanese = (
        LanguageWeights(
            columns=tuple(columns[i * len(ACTS) : (i + 1) * len(ACTS)]),
            scale=language["scale"],
            bias=tuple(language["bias"]),
            links=tuple(language["links"]),
            links_with_vectors=tuple(language["links_with_vectors"]),
        )
        for i, language in enumerate(header["languages"])
    )
    return ReaderWeights(english=english, japanese=japanese)


@lru_cache(maxsize=1)
def load_weights() -> ReaderWeights:
    """Return the shipped weights; they are read once per process."""
    return decode_weights(files("acc.adapters.memory").joinpath(_RESOURCE).read_bytes())
