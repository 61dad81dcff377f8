"""Why the library could not ask: its exceptions in our words."""

import re
from collections.abc import Mapping

import httpx2
from pydantic_ai import exceptions as theirs

from acc.adapters.providers.faults import Faults
from acc.domain.errors import ModelFailed

#: By class, the nearest first.
_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (theirs.ModelQuotaExceededError, "quota"),
    (theirs.ModelRateLimitError, "rate_limit"),
    (theirs.ModelOverloadedError, "overloaded"),
    (theirs.ModelUnavailableError, "unavailable"),
    (theirs.ModelServerError, "server"),
    (theirs.ModelTimeoutError, "timeout"),
    (theirs.ModelRequestTimeout, "timeout"),
    (theirs.ModelConnectionError, "connection"),
    (theirs.ModelAuthenticationError, "key_refused"),
    (theirs.ModelNotFoundError, "unknown_model"),
    (theirs.ModelContextWindowExceededError, "context_length"),
    (theirs.ContentFilterError, "refused"),
    (theirs.ModelRequestRejectedError, "rejected"),
    (theirs.UserError, "not_possible"),
)
#: Where the number says it, whatever the words say.
_BY_STATUS = {401: "key_refused", 403: "key_refused", 413: "context_length"}
#: How Google words a refused key, which it calls a bad request.
_BAD_KEY = re.compile(r"(?i)API_KEY_INVALID|\bAPI key (?:not valid|not found|expired)")
_CUT = (httpx2.RemoteProtocolError, httpx2.ReadError)
_UNREADABLE = (theirs.UnexpectedModelBehavior, ValueError, RecursionError)


def failure(error: Exception, faults: Faults) -> ModelFailed:
    """Return what the library raised as a failure of ours."""
    status = getattr(error, "status_code", None)
    after = getattr(error, "retry_after", None)
    body = getattr(error, "body", None)
    reason = _reason(error)
    if reason == "cut_off":
        return faults.cut_off()
    return faults.because(
        reason,
        status=status if isinstance(status, int) else 0,
        told=_message(body) or (str(error) if body is None else ""),
        retry_after=after if isinstance(after, int | float) else None,
    )


def _reason(error: Exception) -> str:
    by_status = _BY_STATUS.get(getattr(error, "status_code", 0))
    if by_status is not None:
        return by_status
    for kind, reason in _KINDS:
        if isinstance(error, kind):
            return _nearer(reason, error)
    if isinstance(error, _CUT):
        return "cut_off"
    if type(error) is theirs.ModelAPIError or isinstance(error, _UNREADABLE):
        return "unreadable"
    if isinstance(error, OSError | TimeoutError):
        return "connection"
    return type(error).__name__


def _nearer(reason: str, error: Exception) -> str:
    """Return what a failure is more precisely than the library's class says."""
    if reason == "connection" and getattr(error, "phase", None) == "read":
        return "cut_off"
    if reason == "rejected" and _BAD_KEY.search(str(getattr(error, "body", ""))):
        return "key_refused"
    return reason


def _message(body: object) -> str:
    """Return the message in a provider's error, wherever it keeps it."""
    if isinstance(body, str):
        return body
    if not isinstance(body, Mapping):
        return ""
    inner = body.get("error", body)
    if isinstance(inner, str):
        return inner
    found = inner.get("message", "") if isinstance(inner, Mapping) else ""
    return found if isinstance(found, str) else ""
