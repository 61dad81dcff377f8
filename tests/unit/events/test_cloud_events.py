"""CloudEvents as structured JSON."""

import pytest

from acc import InvalidInput
from acc.events import CloudEvent, decode_cloud_event, encode_cloud_event


def test_event_is_encoded_as_structured_json() -> None:
    event = CloudEvent(
        id="1",
        source="/apps/shop",
        type="order.created",
        time="2026-11-18T09:00:00Z",
        data={"品名": "緑茶"},
        extensions={"partitionkey": "7"},
    )
    body = encode_cloud_event(event)
    assert body.decode() == (
        '{"specversion":"1.0","id":"1","source":"/apps/shop","type":"order.created",'
        '"time":"2026-11-18T09:00:00Z","partitionkey":"7","data":{"品名":"緑茶"}}'
    )
    assert decode_cloud_event(body) == event


def test_payload_of_an_event_of_another_program_is_all_its_data() -> None:
    event = CloudEvent(id="1", source="s", type="t", data={"payload": 1, "other": 2})
    assert event.payload == {"payload": 1, "other": 2}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 5_000, "not JSON"),
        (b"[]", "not a CloudEvent"),
        (b'{"id": "1"}', "not a CloudEvent"),
        (b'{"specversion": "0.3", "id": "1", "source": "s", "type": "t"}', "not a CloudEvent"),
        (b'{"specversion": "1.0", "id": "1", "source": "s"}', "type"),
        (b'{"specversion": "1.0", "id": 1, "source": "s", "type": "t"}', "id"),
        (b'{"specversion": "1.0", "data": "' + b"x" * 70_000 + b'"}', "65,536"),
        (b'{"specversion": "1.0", "data": ' + b"[" * 400 + b"]" * 400 + b"}", "deeper than 100"),
        (b'{"specversion": "1.0", "data": ' + b'{"a":' * 400 + b"1" + b"}" * 401, "deeper than"),
    ],
)
def test_body_that_is_no_event_is_refused(body: bytes, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        decode_cloud_event(body)


def test_event_that_no_subscriber_could_read_is_not_encoded() -> None:
    data: list[object] = []
    for _ in range(150):
        data = [data]
    with pytest.raises(InvalidInput, match="deeper than 100 levels"):
        encode_cloud_event(CloudEvent(id="1", source="s", type="t", data=data))
