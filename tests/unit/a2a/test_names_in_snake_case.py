"""Clients may write fields as the protocol's definition does."""

from acc.adapters.a2a.wire.json_fields import camel_case_fields
from acc.adapters.a2a.wire.protocol import Operation
from acc.adapters.a2a.wire.v1 import WireV1
from acc.application.a2a.requests import GetRequest, PushCreateRequest, SendRequest


def test_fields_may_be_in_snake_case() -> None:
    wire = WireV1()
    got = wire.read_request(Operation.GET, b'{"id": "t", "history_length": 3}')
    assert got == GetRequest(id="t", history_length=3)
    made = wire.read_request(Operation.PUSH_CREATE, b'{"task_id": "t", "url": "https://a.example"}')
    assert isinstance(made, PushCreateRequest)
    assert made.config.task_id == "t"


def test_names_of_the_clients_own_stay_as_they_are() -> None:
    sent = (
        b'{"message": {"message_id": "m", "role": "ROLE_USER", "metadata": {"a_b": {"c_d": 1}},'
        b' "parts": [{"data": {"e_f": [{"g_h": 2}]}, "media_type": "application/json"}]}}'
    )
    got = WireV1().read_request(Operation.SEND, sent)
    assert isinstance(got, SendRequest)
    assert got.message.message_id == "m"
    assert got.message.metadata == {"a_b": {"c_d": 1}}
    assert got.message.parts[0].data == {"e_f": [{"g_h": 2}]}
    assert got.message.parts[0].media_type == "application/json"


def test_what_is_no_json_is_left_to_whoever_reads_it() -> None:
    assert camel_case_fields(b'{"task_id": ') == b'{"task_id": '
