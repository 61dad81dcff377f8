"""What a provider's error says, as one of our words for it."""

import math
import re
import time
from collections.abc import Mapping
from contextlib import suppress
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
    "invalid_api_key": 401,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "permission_error": 403,
    "rate_limit_error": 429,
    "request_too_large": 413,
    "timeout_error": 504,
}
#: What no number is told for either, and is no better the next time.
_PERMANENT = re.compile(
    r"(?:image|invalid|unsupported)_\w+|data_residency_mismatch|empty_image_file"
)
_POLICY = re.compile(r"(?:\w+_)?(?:bio|content|cyber|misalignment)_policy(?:_violation)?")
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
            r"|number of tokens allowed|exceed context limit"
        ),
        "context_length",
    ),
    (re.compile(r"(?i)credit balance is too low"), "quota"),
)
#: What Google adds to an error: how long to wait, and of which quota nothing is left.
_DELAY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s")
_OF_A_DAY = re.compile(r"(?i)per_?day")


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
    number = status or next(filter(None, map(_number, names)), 0)
    return faults.because(
        _reason(found, names, number),
        status=status,
        told=_message(found),
        retry_after=_delay(found) if retry_after is None else retry_after,
    )


def _number(name: str) -> int:
    return _NUMBERED.get(name, 400 if _PERMANENT.fullmatch(name) else 0)


def _message(error: Mapping[str, object]) -> str:
    """Return what an error says, which FastAPI has as its detail: words, or a list of faults."""
    said = error.get("message") or error.get("detail") or ""
    if isinstance(said, list):
        said = "; ".join(str(e.get("msg") or e) if isinstance(e, dict) else str(e) for e in said)
    return str(said)


def _details(error: Mapping[str, object]) -> list[dict[str, object]]:
    found = error.get("details")
    return [e for e in found if isinstance(e, dict)] if isinstance(found, list) else []


def _delay(error: Mapping[str, object]) -> float | None:
    told = (_DELAY.fullmatch(str(detail.get("retryDelay"))) for detail in _details(error))
    return next((float(delay[1]) for delay in told if delay is not None), None)


def _is_used_up(error: Mapping[str, object]) -> bool:
    """Tell whether nothing is left of a quota until another day."""
    failed = (detail.get("violations") for detail in _details(error))
    violations = [e for found in failed if isinstance(found, list) for e in found]
    return any(isinstance(e, dict) and _OF_A_DAY.search(str(e.get("quotaId"))) for e in violations)


def _reason(error: Mapping[str, object], names: list[str], status: int) -> str:
    if any(map(_POLICY.fullmatch, names)):
        return "refused"
    called = next((_CALLED[name] for name in names if name in _CALLED), "")
    if called and status not in (401, 403):
        return called
    usual = "server" if not status or status >= _SERVERS_FAULT else "rejected"
    reason = _BY_STATUS.get(status, usual)
    if reason == "rate_limit" and _is_used_up(error):
        return "quota"
    if reason != "rejected":
        return reason
    said = str(error)
    return next((nearer for words, nearer in _IN_WORDS if words.search(said)), reason)


def seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long a server wants to be left alone, told as a number or as a date."""
    after = headers.get("retry-after", "")
    for told, unit in ((headers.get("retry-after-ms", ""), 1000), (after, 1)):
        with suppress(ValueError):
            found = float(told) / unit
            if math.isfinite(found):
                return max(0.0, found)
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (OverflowError, ValueError):
        return None
