"""Payloads of calls of intents."""

import pytest

from acc.application.contracts.payloads import read_payload
from acc.domain.contract_errors import InvalidInputs


def test_unknown_field_of_a_request_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputs) as caught:
        read_payload({"intent": "summarize", "text": "One."})
    assert caught.value.code == "invalid_inputs"
    assert "expected intent, inputs, memory, context" in str(caught.value)
