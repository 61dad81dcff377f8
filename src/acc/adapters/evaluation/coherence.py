"""How coherent an answer is: repetitions, contradictions, and sentences without grammar.

Grammar is checked by pairs of words that do not follow each other in a sentence. This finds most
texts whose words are in a random order, and no other errors.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from acc.domain.language import STOPWORDS, is_japanese, sentences, terms
from acc.domain.statement_frames import supersedes

_LEAST_WORDS = 6
_PARTICLE = re.compile("[はがをにでとのへも]")
_IS_DATA = re.compile(r"[{}\[\]|/]")
#: The letter A as a name: "Option A is".
_LETTER_NAME = re.compile(r"(?<=\w )A(?= )")
_TOKEN = re.compile(r"[a-z]+(?:['’-][a-z]+)*|[^\s\w]|\w+")
_ARTICLES = frozenset(["the", "a", "an", "my", "our", "their", "every"])
_PREPOSITIONS = frozenset(
    ["of", "to", "in", "on", "at", "by", "for", "with", "from", "into", "about"]
)
_AUXILIARIES = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "be",
        "has",
        "have",
        "had",
        "will",
        "would",
        "can",
        "could",
        "must",
        "should",
        "does",
        "did",
    ]
)
_FINITE = _AUXILIARIES - frozenset(["be", "have"])
_CONJUNCTIONS = frozenset(["and", "or", "but"])
_PRONOUNS = frozenset(["i", "he", "she", "they", "we", "you", "it"])
#: Words that cannot follow a word of each kind.
_IMPOSSIBLE = (
    (_ARTICLES, _ARTICLES | _PREPOSITIONS | _AUXILIARIES | _CONJUNCTIONS | _PRONOUNS),
    (
        frozenset(["of", "at", "from", "into", "with", "for", "about"]),
        _FINITE | frozenset(["and", "or", "but", "of", "he", "she", "they", "we", "i"]),
    ),
    (_FINITE - frozenset(["has", "had"]), _FINITE | frozenset(["and", "but"])),
    (_CONJUNCTIONS, frozenset(["of", "but"])),
    (frozenset(("to",)), _FINITE | frozenset(["of", "but", "from", "to"])),
)
_INCOMPLETE_ENDS = frozenset(
    ["the", "a", "an", "of", "and", "or", "but", "my", "our", "their", "every"]
)
_JAPANESE_FAULT = re.compile(
    "^[をがはへ](?=[\u3400-\u9fff\u30a1-\u30fa])"
    "|を[をはがのでへ]|[がはにで]を|がは|のが?に(?=[はがを])|[はがを]へ"
    "|を。?$|[\u3400-\u9fff][ゃゅょぁぃぅぇぉ]|(?:^|[、。])[ゃゅょっぁぃぅぇぉーん]"
    "|んん|っ[あ-おな-のま-ん]"
)


def coherence(answer: str, claims: Sequence[str]) -> float:
    """Return from 1 less for sentences that repeat or contradict another or have no grammar."""
    found = sentences(answer)
    if not found:
        return 1.0
    repeated = len(found) - len({" ".join(sorted(terms(text))) or text for text in found})
    broken = sum(has_no_grammar(text) for text in found)
    contradicting = sum(
        any(
            supersedes(claim, other) or supersedes(other, claim)
            for other in claims
            if other != claim
        )
        for claim in claims
    )
    contradictions = 0.5 * contradicting / len(claims) if len(claims) > 1 else 0.0
    return max(0.0, 1 - contradictions - (repeated + broken) / len(found))


def has_no_grammar(text: str) -> bool:
    """Return True if a long sentence is a list of content words, or its words are mixed up."""
    if _IS_DATA.search(text):
        return False
    if is_japanese(text):
        is_list = len(text) >= 4 * _LEAST_WORDS and not _PARTICLE.search(text)
        return is_list or bool(_JAPANESE_FAULT.search(text))
    tokens = _TOKEN.findall(_LETTER_NAME.sub("x", text).casefold().rstrip(".!?"))
    words = [token for token in tokens if token[0].isalpha()]
    if len(words) < _LEAST_WORDS:
        return False
    if not any(word in STOPWORDS for word in words) and not {",", ":"} & set(tokens):
        return True
    return tokens[-1] in _INCOMPLETE_ENDS or any(
        first in before and second in after
        for first, second in pairwise(tokens)
        for before, after in _IMPOSSIBLE
    )
