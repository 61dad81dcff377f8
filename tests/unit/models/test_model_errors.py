"""ModelFailed errors from the exceptions of the client library."""

import pytest
from pydantic_ai import exceptions as library

from acc.adapters.models.errors import ModelErrors
from acc.application.models.names import parse_model_name

ERRORS = ModelErrors(parse_model_name("google-cloud:gemini"), "")


def rejected(body: object, status: int = 400) -> library.ModelHTTPError:
    category = library.ModelRequestRejectedError
    return library.ModelHTTPError.for_category(
        category, status_code=status, model_name="gemini", body=body
    )


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "API key not valid. Please pass a valid API key."}},
        {"error": {"message": "no", "details": [{"reason": "API_KEY_INVALID"}]}},
    ],
)
def test_invalid_key_with_status_400_is_key_refused(body: object) -> None:
    assert ERRORS.from_exception(rejected(body)).reason == "key_refused"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("plain text", "plain text"),
        ({"error": "a text"}, "a text"),
        ({"message": "at the top"}, "at the top"),
        ([{"error": {"message": "in a list"}}], "in a list"),
        ({"detail": "no such field"}, "no such field"),
        (
            {"detail": [{"loc": ["body"], "msg": "Field required"}, {"msg": "Long"}]},
            "required; Long",
        ),
        ({"detail": [1, {"loc": []}]}, "1; {'loc': []}"),
    ],
)
def test_message_is_found_in_every_form_of_body(body: object, text: str) -> None:
    assert text in str(ERRORS.from_exception(rejected(body, 422)))


@pytest.mark.parametrize("details", ["none", [1, {"violations": 1}, {"violations": [1, {}]}]])
def test_invalid_details_are_ignored(details: object) -> None:
    error = library.ModelHTTPError.for_category(
        library.ModelRateLimitError,
        status_code=429,
        model_name="m",
        body={"error": {"message": "m", "details": details}},
    )
    found = ERRORS.from_exception(error)
    assert (found.reason, found.retryable, found.retry_after) == ("rate_limit", True, None)


def test_key_is_removed_before_a_message_is_cut() -> None:
    key = "zebra-quilt-9971"
    errors = ModelErrors(parse_model_name("openai:m"), key)
    for length in range(280, 305):
        text = str(errors.create("rejected", detail="x" * length + key.replace("-", "%2D")))
        assert "zeb" not in text and "quilt" not in text


def test_added_secret_is_removed() -> None:
    errors = ModelErrors(parse_model_name("azure:m"), "")
    errors.add_secret("zebra-quilt-9971")
    assert "zebra" not in str(errors.create("rejected", detail="key zebra-quilt-9971"))


def test_label_replaces_the_name() -> None:
    errors = ModelErrors(parse_model_name("openai:m"), "", label="local")
    error = errors.create("server")
    assert str(error).startswith("local: ")
    assert error.model == "local"
