"""What a provider's error says, as one of our words for it."""

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from acc.adapters.providers.faults import Faults
from acc.domain.errors import ModelFailed

#: What providers call an error, and what it is for us.
_CALLED = {
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "content_filter": "refused",
    "context_length_exceeded": "context_length",
    "exceed_context_size_error": "context_length",
    "insufficient_quota": "quota",
    "model_not_found": "unknown_model",
    "overloaded_error": "overloaded",
    "rate_limit_exceeded": "rate_limit",
    "server_is_overloaded": "overloaded",
}
#: The number that an error has which comes within a stream, and so without one.
_NUMBERED = {
    "api_error": 500,
    "authentication_error": 401,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "permission_error": 403,
    "rate_limit_error": 429,
    "request_too_large": 413,
    "timeout_error": 504,
}
_BY_STATUS = {
    401: "key_refused",
    402: "quota",
    403: "key_refused",
    404: "unknown_model",
    408: "timeout",
    413: "context_length",
    429: "rate_limit",
    503: "unavailable",
    529: "overloaded",
}
_SERVERS_FAULT = 500
#: What some say in words only, and call a bad request.
_IN_WORDS = (
    (re.compile(r"(?i)API_KEY_INVALID|\bAPI key (?:not valid|not found|expired)"), "key_refused"),
    (
        re.compile(
            r"(?i)prompt is too long|maximum context length|input token count"
            r"|number of tokens allowed"
        ),
        "context_length",
    ),
    (re.compile(r"(?i)credit balance is too low"), "quota"),
)


def inner_error(body: object) -> object:
    """Return the error in what was sent as one, wherever it is kept."""
    if isinstance(body, list) and body:
        body = body[0]
    return body.get("error", body) if isinstance(body, dict) else body


def worded(
    faults: Faults, error: object, status: int = 0, retry_after: float | None = None
) -> ModelFailed:
    """Return a provider's error as one of ours."""
    found = error if isinstance(error, Mapping) else {"message": str(error)}
    names = [str(found.get(key)) for key in ("code", "type")]
    if not status and re.fullmatch(r"[45][0-9]{2}", names[0]):
        status = int(names[0])
    number = status or next((_NUMBERED[name] for name in names if name in _NUMBERED), 0)
    return faults.because(
        _reason(found, names, number),
        status=status,
        told=str(found.get("message") or ""),
        retry_after=retry_after,
    )


def _reason(error: Mapping[str, object], names: list[str], status: int) -> str:
    called = next((_CALLED[name] for name in names if name in _CALLED), "")
    if called and status not in (401, 403):
        return called
    usual = "server" if not status or status >= _SERVERS_FAULT else "rejected"
    reason = _BY_STATUS.get(status, usual)
    if reason != "rejected":
        return reason
    said = str(error)
    return next((nearer for words, nearer in _IN_WORDS if words.search(said)), reason)


def seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long a server wants to be left alone, told as a number or as a date."""
    after = headers.get("retry-after", "")
    try:
        if "retry-after-ms" in headers:
            found = float(headers["retry-after-ms"]) / 1000
        else:
            found = float(after)
    except ValueError:
        try:
            found = parsedate_to_datetime(after).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, found) if math.isfinite(found) else None
