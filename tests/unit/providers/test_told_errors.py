"""What errors of providers are for us, by what they say."""

import time
from email.utils import formatdate
from typing import Any

import pytest

from acc.adapters.providers.choice import parse_choice
from acc.adapters.providers.faults import Faults
from acc.adapters.providers.telling import inner_error, seconds, worded
from acc.domain.errors import ModelFailed

_TYPE = "type.googleapis.com/google.rpc"


def told(body: object, status: int = 0, retry_after: float | None = None) -> ModelFailed:
    faults = Faults(parse_choice("openai:m"), "key")
    return worded(faults, inner_error(body), status, retry_after)


def exhausted(quota: str, delay: object) -> list[dict[str, Any]]:
    violation = {"quotaMetric": "requests", "quotaId": quota}
    details = [
        {"@type": f"{_TYPE}.QuotaFailure", "violations": [violation]},
        {"@type": f"{_TYPE}.RetryInfo", "retryDelay": delay},
    ]
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m", "details": details}
    return [{"error": error}]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("bio_policy", "refused"),
        ("cyber_policy", "refused"),
        ("image_content_policy_violation", "refused"),
        ("misalignment_policy_violation", "refused"),
        ("data_residency_mismatch", "rejected"),
        ("empty_image_file", "rejected"),
        ("image_too_large", "rejected"),
        ("invalid_image", "rejected"),
        ("invalid_prompt", "rejected"),
        ("unsupported_image_media_type", "rejected"),
        ("invalid_api_key", "key_refused"),
    ],
)
def test_what_is_no_better_the_next_time_is_not_asked_again(code: str, reason: str) -> None:
    error = told({"code": code, "message": "no"})
    assert (error.reason, error.retryable) == (reason, False)


@pytest.mark.parametrize("code", ["server_error", "vector_store_timeout", "someday", None])
def test_another_failure_of_a_response_is_the_servers(code: str | None) -> None:
    error = told({"code": code, "message": "no"})
    assert (error.reason, error.retryable) == ("server", True)


def test_a_policy_is_no_matter_of_the_key_whatever_the_number() -> None:
    body = {"error": {"code": "misalignment_policy_violation", "type": "invalid_request_error"}}
    assert told(body, 403).reason == "refused"


@pytest.mark.parametrize(
    ("delay", "wait"), [("34s", 34.0), ("1.5s", 1.5), ("soon", None), (7, None), (None, None)]
)
def test_google_tells_in_its_error_how_long_to_wait(delay: object, wait: float | None) -> None:
    body = exhausted("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", delay)
    error = told(body, 429)
    assert (error.reason, error.retryable, error.retry_after) == ("rate_limit", True, wait)
    assert told(body, 429, 2.0).retry_after == 2.0


def test_a_quota_of_the_day_that_is_used_up_is_not_asked_for_again() -> None:
    error = told(exhausted("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "34s"), 429)
    assert (error.reason, error.retryable) == ("quota", False)


@pytest.mark.parametrize("details", ["none", [1, {"violations": 1}, {"violations": [1, {}]}]])
def test_details_that_are_none_tell_nothing(details: object) -> None:
    error = told({"error": {"message": "m", "details": details}}, 429)
    assert (error.reason, error.retry_after) == ("rate_limit", None)


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ("no such field", "no such field"),
        ([{"loc": ["body"], "msg": "Field required"}, {"msg": "Too long"}], "required; Too long"),
        ([1, {"loc": []}], "1; {'loc': []}"),
        ({"why": "so"}, "{'why': 'so'}"),
    ],
)
def test_the_words_of_a_server_that_calls_them_detail_are_kept(detail: object, words: str) -> None:
    assert words in str(told({"detail": detail}, 422))


def test_an_answer_that_would_not_fit_is_too_long() -> None:
    words = "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"
    assert told({"error": {"type": "invalid_request_error", "message": words}}, 400).reason == (
        "context_length"
    )


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": "nan", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": "soon"}, None),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": formatdate(0)}, 0.0),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_read_where_it_can_be(
    headers: dict[str, str], wait: float | None
) -> None:
    assert seconds(headers) == wait


def test_how_long_to_wait_may_be_a_date() -> None:
    wait = seconds({"retry-after-ms": "soon", "retry-after": formatdate(time.time() + 60)})
    assert wait is not None and 50 < wait <= 60
