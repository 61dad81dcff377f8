"""What the library raises, in our words."""

import pytest
from pydantic_ai import exceptions as theirs

from acc.adapters.providers.choice import parse_choice
from acc.adapters.providers.faults import Faults
from acc.adapters.providers.reasons import failure

FAULTS = Faults(parse_choice("google-cloud:gemini"), "")


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "API key not valid. Please pass a valid API key."}},
        {"error": {"message": "no", "details": [{"reason": "API_KEY_INVALID"}]}},
    ],
)
def test_a_refused_key_that_is_called_a_bad_request_is_told_as_such(body: object) -> None:
    error = theirs.ModelRequestRejectedError("gemini", "no", body=body)
    assert failure(error, FAULTS).reason == "key_refused"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("plain words", "plain words"),
        ({"error": "a text"}, "a text"),
        ({"message": "at the top"}, "at the top"),
    ],
)
def test_the_message_is_found_wherever_it_is_kept(body: object, words: str) -> None:
    error = theirs.ModelRequestRejectedError("gemini", "no", body=body)
    assert words in str(failure(error, FAULTS))


def test_no_part_of_a_key_is_left_where_long_words_are_cut() -> None:
    key = "zebra-quilt-9971"
    faults = Faults(parse_choice("openai:m"), key)
    for length in range(280, 305):
        told = str(faults.because("rejected", told="x" * length + key.replace("-", "%2D")))
        assert "zeb" not in told and "quilt" not in told
