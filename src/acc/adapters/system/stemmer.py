"""English word stems by the Snowball algorithm."""

from collections.abc import Callable

import Stemmer


class SnowballStemmer:
    """Implements `Stemmer` of the recall rules for English words."""

    def __init__(self) -> None:
        #: Returns the stem of a word in lower case. It is not cached: the caller caches tokens.
        self.stem: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord
