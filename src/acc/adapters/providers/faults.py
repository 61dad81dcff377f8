"""What went wrong with a provider, in words that say what to do about it."""

import re
from collections.abc import Mapping

from pydantic_ai import exceptions as theirs

from acc.adapters.providers.choice import ModelChoice
from acc.domain.errors import ModelFailed

_MOST = 300
_WORTH_RETRYING = frozenset({408, 409, 425, 500, 502, 503, 504, 520, 522, 524, 529})
_BEARER = re.compile(r"(?i)\b(bearer|api[-_ ]?key|token)\b(\W{1,4})[\w.~+/=*-]{8,}")
_KEY_LIKE = re.compile(r"\b(?:sk|pk|gsk|xai|hf|AIza)[-_]?[\w*-]{12,}")

#: By class, the nearest first: a word for it, whether to try again, and what to do.
_KINDS: tuple[tuple[type[Exception], str, bool, str], ...] = (
    (theirs.ModelQuotaExceededError, "quota", False, "its account has no credit left: top it up"),
    (theirs.ModelRateLimitError, "rate_limit", True, "its rate limit is reached"),
    (theirs.ModelOverloadedError, "overloaded", True, "it is overloaded"),
    (theirs.ModelUnavailableError, "unavailable", True, "it is not available just now"),
    (theirs.ModelServerError, "server", True, "its server failed"),
    (theirs.ModelTimeoutError, "timeout", True, "no answer within {timeout:g} s"),
    (theirs.ModelRequestTimeout, "timeout", True, "no answer within {timeout:g} s"),
    (theirs.ModelConnectionError, "connection", True, "it cannot be reached"),
    (
        theirs.ModelAuthenticationError,
        "key_refused",
        False,
        "it refuses the key{variables}: check that it is whole, valid, and may use this model",
    ),
    (
        theirs.ModelNotFoundError,
        "unknown_model",
        False,
        "it has no such model: check the name{url}",
    ),
    (
        theirs.ModelContextWindowExceededError,
        "context_length",
        False,
        "the prompt is longer than its context: choose a smaller memory window, or another model",
    ),
    (theirs.ContentFilterError, "refused", False, "its content filter refused the request"),
    (theirs.ModelRequestRejectedError, "rejected", False, "it rejected the request"),
)
#: Where the number says it, whatever the words say.
_BY_STATUS: dict[int, type[Exception]] = {
    401: theirs.ModelAuthenticationError,
    403: theirs.ModelAuthenticationError,
}
_UNREADABLE = (theirs.UnexpectedModelBehavior, ValueError)


class Faults:
    """Words the failures of one model; its key is in none of them."""

    def __init__(self, choice: ModelChoice, key: str) -> None:
        self._choice = choice
        self._key = key

    def of(self, error: Exception) -> ModelFailed:
        """Return a failure as one of ours."""
        reason, retryable, advice = self._kind(error)
        status = getattr(error, "status_code", None)
        if isinstance(status, int) and status in _WORTH_RETRYING:
            retryable = True
        after = getattr(error, "retry_after", None)
        told = "" if reason == "key_refused" else self._told(error)
        number = f" ({status})" if isinstance(status, int) else ""
        return self.made(
            f"{self._filled(advice)}{number}{told}",
            reason=reason,
            retryable=retryable,
            retry_after=after if isinstance(after, int | float) else None,
        )

    def made(
        self,
        what: str,
        *,
        reason: str,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> ModelFailed:
        """Return a failure in the words given."""
        choice = self._choice
        return ModelFailed(
            self.cleaned(f"{choice.name}: {what}"),
            reason=reason,
            model=choice.name,
            provider=choice.provider,
            retryable=retryable,
            retry_after=retry_after,
        )

    def cleaned(self, text: str) -> str:
        """Return a text without the key, and without what looks like one."""
        if self._key:
            text = text.replace(self._key, "***")
        return _KEY_LIKE.sub("***", _BEARER.sub(r"\1\2***", text))

    def _kind(self, error: Exception) -> tuple[str, bool, str]:
        wanted = _BY_STATUS.get(getattr(error, "status_code", 0))
        for kind, reason, retryable, advice in _KINDS:
            if isinstance(error, kind) if wanted is None else kind is wanted:
                return reason, retryable, advice
        if isinstance(error, theirs.UserError):
            return "not_possible", False, "it cannot be asked like this"
        if type(error) is theirs.ModelAPIError or isinstance(error, _UNREADABLE):
            return "unreadable", True, "its answer cannot be read"
        if isinstance(error, OSError | TimeoutError):
            return "connection", True, "it cannot be reached"
        return "failed", False, f"{type(error).__name__}"

    def _filled(self, advice: str) -> str:
        choice = self._choice
        variables = " or ".join(choice.key_variables)
        return advice.format(
            timeout=choice.timeout,
            variables=f" in {variables}" if variables else "",
            url=" and the URL" if choice.base_url else "",
        )

    def _told(self, error: Exception) -> str:
        """Return what the provider said, if it said something short enough to be worth it."""
        body = getattr(error, "body", None)
        words = _message(body) or (str(error) if body is None else "")
        words = " ".join(words.split())
        return f": {words[:_MOST]}{'…' if len(words) > _MOST else ''}" if words else ""


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
