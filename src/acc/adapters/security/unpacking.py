"""Unpacking compressed answers a piece at a time, so that a few bytes cannot fill the memory."""

import zlib
from collections.abc import Iterator

#: No piece that comes out is larger, however much there is to come.
PIECE = 64 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_BEGINS_GZIP = 0x1F
_ENCODINGS = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}


class Unpacker:
    """Unpacks gzip or deflate. Of gzip several may follow one another; what else follows is left.

    `is_over` once nothing more can come, `is_whole` if what came so far may be all there is.
    """

    def __init__(self, encoding: str) -> None:
        self._is_gzip = encoding == "gzip"
        self._stream: zlib._Decompress | None = None
        self.is_over = False

    @property
    def is_whole(self) -> bool:
        """Tell whether nothing was cut off."""
        return self._stream is None or self._stream.eof

    def pieces(self, packed: bytes) -> Iterator[bytes]:
        """Give what further bytes unpack to; zlib.error if they are broken."""
        is_more = False
        while packed or is_more:
            stream = self._at(packed)
            if stream is None:
                return
            piece = stream.decompress(packed, PIECE)
            is_more = len(piece) == PIECE and not stream.eof
            packed = stream.unused_data or stream.unconsumed_tail
            if piece:
                yield piece

    def _at(self, packed: bytes) -> "zlib._Decompress | None":
        """Return what unpacks the bytes that come, None if the end lies before them."""
        if self._stream is not None and not self._stream.eof:
            return self._stream
        if self._stream is not None and not (self._is_gzip and packed[0] == _BEGINS_GZIP):
            self.is_over = True
            return None
        self._stream = zlib.decompressobj(_GZIP if self._is_gzip else _deflate_bits(packed[0]))
        return self._stream


def _deflate_bits(first: int) -> int:
    """Return how deflate is written: with a head, as the standard wants it, or without."""
    return zlib.MAX_WBITS if first & 0x0F == 8 else -zlib.MAX_WBITS


def encoding_of(header: str) -> str | None:
    """Return the encoding that a header names, empty for none; None if it cannot be unpacked."""
    each = [name.strip() for name in header.lower().split(",")]
    named = [name for name in each if name not in ("", "identity")]
    if not named:
        return ""
    return _ENCODINGS.get(named[0]) if len(named) == 1 else None
