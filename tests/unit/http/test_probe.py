"""HttpProbe: responses, event streams and mapped errors."""

import httpx2
import pytest

from acc.adapters.http.probe import HttpProbe
from acc.domain.errors import RemoteFailed
from acc.ports.outbound.remote_ports import ProbeRequest

REQUEST = ProbeRequest(
    method="POST", url="https://agents.example/", headers={"X-A": "b"}, body=b"{}"
)
EVENTS = """: a comment
id: 1
data: {"a":
data: 1}
event: other

id: 2

data:last

data: unfinished"""


def probe(outcome: httpx2.Response | Exception) -> HttpProbe:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert (request.headers["x-a"], request.content) == ("b", b"{}")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(handle))
    return HttpProbe(client, client)


async def test_response_is_returned_unchanged() -> None:
    response = await probe(httpx2.Response(418, headers={"X-Tea": "Green"}, text="短い")).exchange(
        REQUEST
    )
    assert (response.status, response.headers["x-tea"]) == (418, "Green")
    assert response.body.decode() == "短い"


async def test_events_are_parsed() -> None:
    response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=EVENTS)
    async with probe(response).stream(REQUEST) as stream:
        events = [(event.id, event.data) async for event in stream.events]
    assert events == [("1", '{"a":\n1}'), ("", "last")]


async def test_response_without_stream_has_bounded_body() -> None:
    async with probe(httpx2.Response(400, text="no")).stream(REQUEST) as stream:
        assert (stream.response.status, stream.response.body) == (400, b"no")
        assert [event async for event in stream.events] == []
    async with probe(httpx2.Response(200, content=b"x" * 5_000_000)).stream(REQUEST) as stream:
        assert len(stream.response.body) <= 5_000_000


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (httpx2.ReadTimeout("late"), "did not respond in time"),
        (httpx2.ConnectError("refused"), "cannot be reached: refused"),
        (httpx2.ReadError("gone"), "the connection failed: ReadError"),
    ],
)
async def test_transport_errors_are_mapped(error: Exception, message: str) -> None:
    with pytest.raises(RemoteFailed, match=message):
        await probe(error).exchange(REQUEST)
    with pytest.raises(RemoteFailed, match=message):
        async with probe(error).stream(REQUEST):
            pass


async def test_event_beyond_limit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acc.adapters.http.probe.MAX_EVENT_BYTES", 100)
    body = b"data: short\n\ndata: " + b"x" * 200
    response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    with pytest.raises(RemoteFailed):
        async with probe(response).stream(REQUEST) as stream:
            assert [event.data async for event in stream.events] == ["short"]
