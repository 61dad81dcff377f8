"""Find sentences that set a lasting objective."""

import re
from functools import lru_cache

from acc.domain.language import MAX_SENTENCE_LENGTH

_CACHE_SIZE = 2_048
_GOAL = re.compile(
    r"\b(?:(?:our|the|my|main|overall|primary) (?:\w+ )?(?:goals?|objectives?|aim|mission"
    r"|priority) (?:is|are|remains?)\b|we (?:need|want|aim) to\b|i want us to\b"
    r"|the job is to\b)"
    r"|(?:目標|目的|ゴール|最優先事項|狙い)は|を目指",
    re.I,
)


@lru_cache(maxsize=_CACHE_SIZE)
def states_goal(sentence: str) -> bool:
    """Return True if a sentence sets a lasting objective."""
    return _GOAL.search(sentence[:MAX_SENTENCE_LENGTH]) is not None
