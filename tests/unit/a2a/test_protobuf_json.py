"""What protobuf's JSON allows besides what it writes: numbers for names, and numbers as text."""

from typing import Any

import msgspec
import pytest

from acc.adapters.a2a.wire.protocol import Operation, Wire
from acc.adapters.a2a.wire.v03 import WireV03
from acc.adapters.a2a.wire.v03_rest import WireV03Rest
from acc.adapters.a2a.wire.v1 import WireV1
from acc.application.a2a.requests import GetRequest, ListRequest, SendRequest
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.task import Role, TaskState

ONE, OLD, OLD_REST = WireV1(), WireV03(), WireV03Rest()


def asked(wire: Wire, operation: Operation, params: Any) -> Any:
    return wire.read_request(operation, msgspec.json.encode(params))


def sent(wire: Wire, role: Any) -> SendRequest:
    parts = "content" if wire is OLD_REST else "parts"
    message = {"messageId": "m", "role": role, parts: [{"text": "hi"}]}
    found = asked(wire, Operation.SEND, {"message": message})
    assert isinstance(found, SendRequest)
    return found


@pytest.mark.parametrize("wire", [ONE, OLD_REST])
def test_a_role_may_be_a_number(wire: Wire) -> None:
    assert sent(wire, 1).message.role is Role.USER
    assert sent(wire, 2).message.role is Role.AGENT
    for wrong in (0, 3, True, 1.5, [1]):
        with pytest.raises(InvalidInput, match="role: "):
            sent(wire, wrong)


@pytest.mark.parametrize("wire", [ONE, OLD_REST])
def test_a_state_may_be_a_number(wire: Wire) -> None:
    for number, state in ((1, TaskState.SUBMITTED), (3, TaskState.COMPLETED), (0, None)):
        for told in (number, str(number)):
            found = asked(wire, Operation.LIST, {"status": told})
            assert isinstance(found, ListRequest)
            assert found.query.state is state
        found = wire.read_query(Operation.LIST, {}, {"status": str(number)})
        assert isinstance(found, ListRequest)
        assert found.query.state is state
    for wrong in (9, -1, 10**30, "9", "9" * 5000, "٣", "done"):
        with pytest.raises(InvalidInput, match="status: is not a task state; use one of .*TASK"):
            asked(wire, Operation.LIST, {"status": wrong})


def test_a_state_that_a_server_tells_may_be_a_number() -> None:
    for wire in (ONE, OLD_REST):
        for told, state in ((3, TaskState.COMPLETED), (99, TaskState.UNKNOWN)):
            task = {"id": "t", "contextId": "c", "status": {"state": told}}
            if wire is OLD_REST and state is TaskState.UNKNOWN:
                continue  # there what is no word is not read at all
            assert wire.read_task(msgspec.json.encode(task)).state is state


@pytest.mark.parametrize("wire", [ONE, OLD, OLD_REST])
def test_a_whole_number_may_be_written_in_every_way(wire: Wire) -> None:
    for told in (b"2", b'"2"', b"2.0", b"2e0", b"0.2e1", b'"2.0"', b'"2e0"', b'"20E-1"'):
        found = wire.read_request(Operation.GET, b'{"id":"t","historyLength":' + told + b"}")
        assert found == GetRequest(id="t", history_length=2)
        assert isinstance(found, GetRequest)
        assert type(found.history_length) is int
    for wrong, fault in (
        (b"1.5", "must be an integer of at least 0"),
        (b'"1.5"', "must be an integer of at least 0"),
        (b'"1_0"', "must be an integer of at least 0"),
        (b'"nan"', "must be an integer of at least 0"),
        (b"1e20", "must be at most"),
        (b'"1e99"', "must be at most"),
        (b"-1.0", "must be at least 0"),
        (b"true", "must be an integer or a string, not true or false"),
    ):
        with pytest.raises(InvalidInput, match=f"historyLength: {fault}"):
            wire.read_request(Operation.GET, b'{"id":"t","historyLength":' + wrong + b"}")
