"""English word stems by the Snowball algorithm."""

import Stemmer


class SnowballStemmer:
    """Implements `Stemmer` of the recall rules for English words."""

    def __init__(self) -> None:
        # It is fast, and the caller caches what it makes of the stems.
        self._stemmer = Stemmer.Stemmer("english", 0)

    def stem(self, word: str) -> str:
        """Return the stem of a word in lower case."""
        stem: str = self._stemmer.stemWord(word)
        return stem
