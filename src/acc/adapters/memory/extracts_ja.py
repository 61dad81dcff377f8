"""Extracts of Japanese sentences, compared in units of a word and its hiragana ending.

The word is in kanji, katakana, letters or digits; the hiragana gives its grammatical role. A unit
is kept or omitted as a whole, so that no word or particle can be exchanged. The last unit holds the
verb with its tense and negation and must stay; only its politeness may change.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from acc.domain.text import normalize_text

_CACHE_SIZE = 2_048
#: Texts that repeat a word more often are data and have no extracts.
MAX_REPEATS = 12
_SCRIPT = re.compile("[\u3041-\u3096\u30a1-\u30fa\u3400-\u9fff]")
_UNIT = re.compile(
    "(?P<word>[^\u3041-\u3096\\s、,:=;。.!()「」『』]*(?:[.,:](?=\\d)[^\u3041-\u3096\\s、,:=;。.!()「」『』]+)*)"
    "(?P<tail>[\u3041-\u3096]*)(?P<stop>[\\s、,:=;。.!()「」『』]*)"
)
#: What the rest of a sentence depends on; never left out.
_OPERATORS = re.compile(
    r"ない|ません|なけれ|なく|なし|ずに|もし|仮に|たら|れば|なら|場合|とき|限り|まで|前|後|以降|未|不|非|否"
    r"|かも|らし|そうで|言|聞|話|述|思|考|主張|報告|によ|よう|みたい|予定|計画|はず|べき|だけ|のみ|しか"
    r"|以外|除|ほぼ|約|およそ|程度|以上|以下|例え|例:|旧|元|または|あるいは|もしくは|おそらく|たぶん|多分|恐らく"
    r"|推定|疑|噂|嘘|誤|違|冗談|訂正|可能|希望|たい|か$|か、|(?<![\d一二三四五六七八九十])時[はに]|頃|半分|部分|一部|一時|仮|名目|形式|理論|表面|テスト|試験|訓練|演習"
    r"|シミュレ|夢|映画|小説|ゲーム|デモ|ほとんど|全|各|毎"
)
_POINTING = re.compile(r"それ|これ|その|この|あれ|あの|そう|こう")
_OPENING = re.compile(
    r"(?:(?:なお|また|ちなみに|参考までに|念のため|さて|では|まず|次に|最後に|現在は?|今は?)、?"
    r"|(?:補足|ご?連絡|お知らせ|更新|訂正|ご?報告|はい|お疲れ様です|お世話になっております)は?、)+"
)
_FULL_CLAUSE = re.compile(r"(?:です|ます|だ|した|ました|でした|る|い)(?:が|けど|けれど|し)$")
_PLACES = re.compile(r"(?:に|で|へ|から|にて)$")
_COUNTED = re.compile(r"[\d一二三四五六七八九十]")
_PART_ENDS = re.compile(r"(?:は|が|を|に|で|へ|も|から)$")
_OTHER_PARTS = re.compile(r"(?:は|が|を|と|も|や|て)$")
_STATES = re.compile(
    r"^$|(?:です|だ|だった|でした|である|[てで]い(?:る|ます|た|ました)|い)$|^(?:あり|ある|い)"
)
_TO_U = str.maketrans("いきぎしちにびみり", "うくぐすつぬぶむる")
_TO_A = str.maketrans("いきぎしちにびみり", "わかがさたなばまら")


@dataclass(frozen=True, slots=True)
class Unit:
    """A word, the hiragana behind it, and whether the sentence pauses there."""

    word: str
    tail: str
    pauses: bool

    @property
    def text(self) -> str:
        """Return the unit as it is read."""
        return f"{self.word}{self.tail}{'、' if self.pauses else ''}"


def contains_japanese(text: str) -> bool:
    """Return True if a text contains Japanese characters."""
    return _SCRIPT.search(text) is not None


@lru_cache(maxsize=_CACHE_SIZE)
def is_extract(text: str, source: str) -> bool:
    """Return True if a sentence is an extract of `source`."""
    wanted, original = _units(text), _units(source)
    words = [unit.word for unit in original]
    if not wanted or any(not 0 < words.count(unit.word) <= MAX_REPEATS for unit in wanted):
        return False
    reached = [-1]
    for unit in wanted[:-1]:
        reached = [
            place
            for place, other in enumerate(original)
            if _same(unit, other)
            and any(
                last < place and _may_leave_out(original, last, place) for last in reversed(reached)
            )
        ]
    return any(
        last < place
        and _may_leave_out(original, last, place)
        and _ends(wanted[-1], original, place)
        for last in reached
        for place in range(len(original))
    )


def is_verbatim(text: str, source: str) -> bool:
    """Return True if `source` contains a text as one piece, outside of any condition."""
    wanted, original = _units(text), _units(source)
    size = len(wanted)
    return bool(wanted) and any(
        all(map(_same, wanted[:-1], original[start:]))
        and _begins(wanted[-1], original[start + size - 1])
        and not _OPERATORS.search(_read(original[:start] + original[start + size :]))
        for start in range(len(original) - size + 1)
    )


def _read(units: Sequence[Unit]) -> str:
    return "".join(unit.text for unit in units)


def _begins(unit: Unit, other: Unit) -> bool:
    """Return True if two units differ at most in a neutral ending."""
    ending = other.tail.removeprefix(unit.tail)
    whole = unit.word == other.word and other.tail.startswith(unit.tail)
    return whole and _OPERATORS.search(ending) is None


@lru_cache(maxsize=_CACHE_SIZE)
def _units(text: str) -> tuple[Unit, ...]:
    found: list[Unit] = []
    for match in _UNIT.finditer(normalize_text(text).casefold().strip(" 。.!")):
        word, tail, stop = match["word"], match["tail"], match["stop"].strip()
        if word and not tail and stop in (":", "="):
            tail = "は"
        if word or tail:
            found.append(Unit(word, tail.removeprefix("さん"), stop in ("、", ",", ":")))
    return tuple(found)


def _same(unit: Unit, other: Unit) -> bool:
    return unit.word == other.word and unit.tail == other.tail


def _ends(unit: Unit, original: Sequence[Unit], place: int) -> bool:
    """Return True if a sentence may end with this unit at `place`."""
    other = original[place]
    if unit.word != other.word:
        return False
    if place == len(original) - 1:
        return bool(_endings(unit.tail) & _endings(other.tail))
    rest = _read(original[place + 1 :])
    if not other.pauses or not other.tail.endswith(("が", "けど", "けれど")):
        return False
    if _OPERATORS.search(rest) or _POINTING.search(rest) or not _FULL_CLAUSE.search(other.tail):
        return False
    tail = re.sub(r"(?:が|けど|けれど)$", "", other.tail)
    return bool(_endings(unit.tail) & _endings(tail))


@lru_cache(maxsize=_CACHE_SIZE)
def _endings(tail: str) -> frozenset[str]:
    """Return how the end of a sentence can be written, politely and plainly."""
    found = {tail}
    if tail.endswith("です"):
        found.add(tail[:-2])
    elif tail.endswith("でした"):
        found.add(f"{tail[:-3]}だった")
    elif tail.endswith("である"):
        found.add(tail[:-3])
    elif tail == "だ":
        found.add("")
    elif tail.endswith("ました"):
        found.add(f"{tail[:-3]}た")
    elif tail.endswith("ます"):
        found |= _plain_verbs(tail[:-2])
    elif tail.endswith("ありません"):
        found.add(f"{tail[:-5]}ない")
    elif tail.endswith("ません"):
        stem = tail[:-3]
        found |= {f"{stem}ない", f"{stem[:-1]}{stem[-1:].translate(_TO_A)}ない"}
    return frozenset(found)


def _plain_verbs(stem: str) -> set[str]:
    found = {f"{stem}る", f"{stem[:-1]}{stem[-1:].translate(_TO_U)}"}
    if stem == "し":
        found |= {"する", ""}
    return found


def _may_leave_out(original: Sequence[Unit], last: int, place: int) -> bool:
    gap = original[last + 1 : place]
    if not gap:
        return True
    text = _read(gap)
    if last < 0:
        return _OPENING.fullmatch(text) is not None or _is_clause(gap, text)
    if _OPERATORS.search(text) or not _PART_ENDS.search(original[last].tail):
        return False
    if any(_OTHER_PARTS.search(unit.tail) for unit in gap):
        return False
    # "Closed on Mondays" is not closed, and "does not run at night" may well run.
    end = original[-1]
    if _STATES.search(end.tail) or _OPERATORS.search(_read(original)):
        return False
    # In room 2 is where it was; in the film is not so at all.
    if any(unit.tail.endswith(("で", "にて")) and not _COUNTED.search(unit.word) for unit in gap):
        return False
    return _PLACES.search(gap[-1].tail) is not None


def _is_clause(gap: Sequence[Unit], text: str) -> bool:
    ended = gap[-1].pauses and _FULL_CLAUSE.search(gap[-1].tail) is not None
    return ended and _OPERATORS.search(text) is None
