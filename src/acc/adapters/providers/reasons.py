"""Why the library could not ask: its exceptions in our words."""

from collections.abc import Mapping

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
_BY_STATUS = {401: "key_refused", 403: "key_refused"}
_UNREADABLE = (theirs.UnexpectedModelBehavior, ValueError, RecursionError)


def failure(error: Exception, faults: Faults) -> ModelFailed:
    """Return what the library raised as a failure of ours."""
    status = getattr(error, "status_code", None)
    after = getattr(error, "retry_after", None)
    body = getattr(error, "body", None)
    return faults.because(
        _reason(error),
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
            return reason
    if type(error) is theirs.ModelAPIError or isinstance(error, _UNREADABLE):
        return "unreadable"
    if isinstance(error, OSError | TimeoutError):
        return "connection"
    return type(error).__name__


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
