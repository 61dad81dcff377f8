"""Words that paraphrases exchange: synonyms, opposites, and words that add little to a claim.

A synonym of a word of the document supports a word of a claim nearly as well as the word itself; a
light word, such as "takes place" or 行う, hardly counts if it is missing.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from acc.domain.language import stem, term_list
from acc.domain.thesaurus import (
    GROUPS,
    GROUPS_JAPANESE,
    NEAR,
    NEAR_JAPANESE,
    OPPOSITES,
    OPPOSITES_JAPANESE,
)

_LIGHT = """
take takes taken took place come comes came coming go goes going went gone get gets got give gives
gave given make makes made happen happens occur be become became remain remains stay keep kept hold
have has had do does did done put set let run runs ran use used using need needs needed require
required want wants wanted would like may can must should shall will able possible allow allowed
there here also too again already still yet just only even both each every all any some own same
other another new old more less most least much many few several lot
time date day part number amount thing case way kind type piece item person people someone anybody
cost costs costing price paid pay pays provide provides provided provides offer include included
includes including contain contains consist consists cover covers covered available serve served
find found show shows shown tell told say says said state stated mention mentioned ask asks asked
according call called name named know known think believe expect expected plan planned mean means
left right back up down out off over away about around roughly approximately last lasts lasted
during within between since until before after because due reason cause caused
problem trouble issue fact status situation information detail details total overall
begin begins began start starts started end ends ended finish finished
currently now today present recent recently next following well long short early late
exactly fully completely itself himself herself themselves
"""
_LIGHT_JAPANESE = """
行 場合 予定 必要 時 時間 間 方 物 事 者 人 中 的 等 点 件 分 今 今回 現在 状態 状況 内容 結果
理由 原因
可能 出 入 取 付 掛 使 見 言 話 思 考 来 受 持 置 合 対象 関 際 後 前 以内 以上 全体 一部 部分 数 量
期間 期限 日 日付 料金 値段 金額 費用 代金 名 名前 場所 所 判断 確認 実施 開始 終了 会社 当 様 方法
"""


def _stems(text: str) -> list[str]:
    return [stem(word) if word.isascii() else word for word in text.split()]


def _groups(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        yield from (_stems(group) for group in line.split(" / ") if group.strip())


def _synonym_table() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = defaultdict(set)
    for group in (*_groups(GROUPS), *_groups(GROUPS_JAPANESE)):
        for term in group:
            table[term].update(group)
    for head, *near in (*_groups(NEAR), *_groups(NEAR_JAPANESE)):
        table[head].update(near)
        for term in near:
            table[term].add(head)
    return {term: frozenset(others - {term}) for term, others in table.items()}


def _opposite_table() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = defaultdict(set)
    for line in (*OPPOSITES.splitlines(), *OPPOSITES_JAPANESE.splitlines()):
        for pair in filter(None, line.split(" / ")):
            one, other = (_stems(side) for side in pair.split("|"))
            for first, second in ((one, other), (other, one)):
                for term in first:
                    table[term].update(second)
    return {term: frozenset(others) for term, others in table.items()}


_SYNONYMS = _synonym_table()
_OPPOSITES = _opposite_table()
_LIGHT_TERMS = frozenset((*_stems(_LIGHT), *_stems(_LIGHT_JAPANESE)))
_NONE: frozenset[str] = frozenset()


def synonyms(term: str) -> frozenset[str]:
    """Return the terms that can stand for a term."""
    return _SYNONYMS.get(term, _NONE)


def opposites(term: str) -> frozenset[str]:
    """Return the terms that exclude a term."""
    return _OPPOSITES.get(term, _NONE)


def listed_terms() -> frozenset[str]:
    """Return all terms that have a synonym or an opposite."""
    return frozenset((*_SYNONYMS, *_OPPOSITES))


def is_light(term: str) -> bool:
    """Return True if a term adds little to what a claim says."""
    return term in _LIGHT_TERMS


@lru_cache(maxsize=2_048)
def content_terms(text: str) -> tuple[str, ...]:
    """Return the terms of a text without light words, in order."""
    return tuple(term for term in term_list(text) if not is_light(term))
