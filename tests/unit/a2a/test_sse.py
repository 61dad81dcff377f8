import pytest
from hypothesis import given
from hypothesis import strategies as st

from acc.adapters.a2a.client.sse import EventReader, ServerEvent
from acc.domain.errors import RemoteFailed

STREAM = (
    b"\xef\xbb\xbf: hello\r\n\r\nid: 7\r\ndata: {\r\ndata:  1}\r\nevent: x\r\nretry: 5\r\n\r\n"
    b"data\ndata:b\n\n\nid:9\rdata: \xe6\x97\xa5\xe6\x9c\xac\r\rid: a\0b\ndata: last\n\ndata: cut"
)
EVENTS = [
    ServerEvent("7", b"{\n 1}"),
    ServerEvent("", b"\nb"),
    ServerEvent("9", "日本".encode()),
    ServerEvent("", b"last"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12).map(sorted))
def test_events_are_the_same_however_the_stream_is_cut_into_pieces(cuts: list[int]) -> None:
    reader = EventReader(max_bytes=100)
    pieces = [STREAM[a:b] for a, b in zip([0, *cuts], [*cuts, len(STREAM)], strict=True)]
    assert [event for piece in pieces for event in reader.feed(piece)] == EVENTS


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 95, b"data: 0123456789\n", b"x" * 60])
def test_an_event_beyond_the_bound_is_refused(piece: bytes) -> None:
    reader = EventReader(max_bytes=100)
    with pytest.raises(RemoteFailed, match="more than 100 bytes"):
        for _ in range(20):
            list(reader.feed(piece))


def test_events_that_are_done_do_not_count() -> None:
    reader = EventReader(max_bytes=20)
    assert len([event for _ in range(99) for event in reader.feed(b"data: 123456\n\n")]) == 99
