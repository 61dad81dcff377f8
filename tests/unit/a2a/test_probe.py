"""The probe: answers and streams as they come, and failures in our words."""

import httpx
import pytest

from acc.adapters.http.probe import HttpProbe
from acc.domain.errors import RemoteFailed
from acc.ports.outbound.remote_ports import ProbeRequest

ASKED = ProbeRequest(method="POST", url="https://agents.example/", headers={"X-A": "b"}, body=b"{}")
EVENTS = """: a comment
id: 1
data: {"a":
data: 1}
event: other

id: 2

data:last

data: unfinished"""


def probe(answer: httpx.Response | Exception) -> HttpProbe:
    def handle(request: httpx.Request) -> httpx.Response:
        assert (request.headers["x-a"], request.content) == ("b", b"{}")
        if isinstance(answer, Exception):
            raise answer
        return answer

    return HttpProbe(httpx.AsyncClient(transport=httpx.MockTransport(handle)))


async def test_an_answer_comes_as_it_is() -> None:
    answer = await probe(httpx.Response(418, headers={"X-Tea": "Green"}, text="短い")).exchange(
        ASKED
    )
    assert (answer.status, answer.headers["x-tea"]) == (418, "Green")
    assert answer.body.decode() == "短い"


async def test_events_are_read_as_the_standard_says() -> None:
    told = httpx.Response(200, headers={"content-type": "text/event-stream"}, text=EVENTS)
    async with probe(told).stream(ASKED) as stream:
        events = [(event.id, event.data) async for event in stream.events]
    assert events == [("1", '{"a":\n1}'), ("", "last")]


async def test_what_is_no_stream_has_a_body_that_is_bounded() -> None:
    async with probe(httpx.Response(400, text="no")).stream(ASKED) as stream:
        assert (stream.answer.status, stream.answer.body) == (400, b"no")
        assert [event async for event in stream.events] == []
    async with probe(httpx.Response(200, content=b"x" * 5_000_000)).stream(ASKED) as stream:
        assert len(stream.answer.body) <= 5_000_000


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (httpx.ReadTimeout("late"), "it did not answer in time"),
        (httpx.ConnectError("refused"), "it cannot be reached: refused"),
        (httpx.ReadError("gone"), "the connection broke: ReadError"),
    ],
)
async def test_failures_are_told_in_our_words(fault: Exception, told: str) -> None:
    with pytest.raises(RemoteFailed, match=told):
        await probe(fault).exchange(ASKED)
    with pytest.raises(RemoteFailed, match=told):
        async with probe(fault).stream(ASKED):
            pass
