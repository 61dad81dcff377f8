"""Map the errors of a provider to ModelFailed, with advice and without secrets."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

import httpx2
from pydantic_ai import exceptions as library

from acc.adapters.http.retry import retry_after_seconds
from acc.application.models.names import ModelName
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.endpoint import origin_of, redact_secrets

MAX_DETAIL_LENGTH = 300
_RETRYABLE_STATUS = frozenset({408, 409, 425, 500, 502, 503, 504, 520, 522, 524, 529})

#: By reason: whether a retry may succeed, and what is wrong and how to fix it.
_REASONS: dict[str, tuple[bool, str]] = {
    "quota": (False, "the account has no credit left: top it up"),
    "rate_limit": (True, "the rate limit is reached"),
    "overloaded": (True, "the provider is overloaded"),
    "unavailable": (True, "the provider is temporarily unavailable"),
    "server": (True, "the provider's server failed"),
    "timeout": (True, "no answer within {timeout:g} s"),
    "connection": (True, "the server cannot be reached{where}"),
    "unreadable": (True, "the response cannot be read{check}"),
    "cut_off": (True, "the connection was closed before the end of the answer"),
    "key_refused": (
        False,
        "the key{variables} was rejected: check that it is complete, valid, and may use this model",
    ),
    "unknown_model": (False, "the model does not exist: check the name{url}"),
    "context_length": (
        False,
        "the prompt exceeds the context of the model: use a smaller memory window or another model",
    ),
    "refused": (False, "the content filter rejected the request"),
    "length": (False, "max_tokens was used up before any text: allow more"),
    "rejected": (False, "the provider rejected the request"),
    "not_possible": (False, "the request cannot be sent"),
}
_KEY_MISSING = "a key is required: set {variable}"
_KEY_NOT_NAMED = (
    "a key is required, and over unencrypted http only a named key is sent: ?key={variable}"
)

#: The library's exceptions, subclasses first.
_EXCEPTIONS: tuple[tuple[type[BaseException], str], ...] = (
    (library.ModelQuotaExceededError, "quota"),
    (library.ModelRateLimitError, "rate_limit"),
    (library.ModelOverloadedError, "overloaded"),
    (library.ModelUnavailableError, "unavailable"),
    (library.ModelServerError, "server"),
    (library.ModelTimeoutError, "timeout"),
    (library.ModelRequestTimeout, "timeout"),
    (library.ModelConnectionError, "connection"),
    (library.ModelAuthenticationError, "key_refused"),
    (library.ModelNotFoundError, "unknown_model"),
    (library.ModelContextWindowExceededError, "context_length"),
    (library.ContentFilterError, "refused"),
    (library.ModelRequestRejectedError, "rejected"),
    (library.UserError, "not_possible"),
    (httpx2.TimeoutException, "timeout"),
    (httpx2.RemoteProtocolError, "cut_off"),
    (httpx2.ReadError, "cut_off"),
    (httpx2.TransportError, "connection"),
    (library.UnexpectedModelBehavior, "unreadable"),
    (ValueError, "unreadable"),
    (RecursionError, "unreadable"),
    (TimeoutError, "timeout"),
    (OSError, "connection"),
)
#: Statuses that decide, whatever the body says.
_STATUSES = {401: "key_refused", 403: "key_refused", 408: "timeout", 413: "context_length"}
#: Codes that the library does not sort.
_CODES = {
    "billing_hard_limit_reached": "quota",
    "content_filter": "refused",
    "exceed_context_size_error": "context_length",
    "server_is_overloaded": "overloaded",
}
_POLICY_CODE = re.compile(r"(?:\w+_)?(?:bio|content|cyber|misalignment)_policy(?:_violation)?")
_INVALID_KEY = re.compile(r"(?i)API_KEY_INVALID|\bAPI key (?:not valid|not found|expired)")
#: Google's RetryInfo and QuotaFailure.
_RETRY_DELAY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s")
_DAILY_QUOTA = re.compile(r"(?i)per_?day")


class ResponseTooLargeError(httpx2.TransportError):
    """A response exceeded the size limit."""


class ModelErrors:
    """Creates the ModelFailed errors of one model; they never contain its key.

    `url` is the base URL, if not that of the name, and `label` the name of the model in errors.
    """

    def __init__(self, name: ModelName, key: str, *, url: str = "", label: str = "") -> None:
        self._name = name
        self._url = url or name.base_url
        self._label = label or name.name
        self._key = key
        self._secrets = [key]

    def add_secret(self, secret: str) -> None:
        """Remove another secret from every error."""
        self._secrets.append(secret)

    def create(
        self,
        reason: str,
        *,
        status: int = 0,
        detail: str = "",
        retry_after: float | None = None,
    ) -> ModelFailed:
        """Return an error by its reason; `detail` is the provider's message."""
        retryable, advice = _REASONS[reason]
        if reason == "key_refused" and not self._key and self._name.key_variables:
            advice = _KEY_NOT_NAMED if self._name.sends_only_named_key else _KEY_MISSING
        # A provider's message about a rejected key may quote the key in part. Redact before
        # cutting, or part of a key could remain at the end.
        shown = "" if reason == "key_refused" else self._redact(" ".join(detail.split()))
        if len(shown) > MAX_DETAIL_LENGTH:
            shown = shown[:MAX_DETAIL_LENGTH] + "…"
        number = f" ({status})" if status else ""
        return self.with_message(
            f"{self._fill(advice)}{number}" + (f": {shown}" if shown else ""),
            reason=reason,
            retryable=retryable or status in _RETRYABLE_STATUS,
            retry_after=retry_after,
        )

    def with_message(
        self,
        message: str,
        *,
        reason: str,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> ModelFailed:
        """Return an error with a message of its own."""
        return ModelFailed(
            self._redact(f"{self._label}: {message}"),
            reason=reason,
            model=self._label,
            provider=self._name.provider,
            retryable=retryable,
            retry_after=retry_after,
        )

    def from_exception(self, error: Exception) -> ModelFailed:
        """Return the ModelFailed for an exception of the client library."""
        for cause in _causes(error):
            if isinstance(cause, ResponseTooLargeError):
                return self.create("unreadable", detail=str(cause))
            if getattr(cause, "status_code", 0) in range(300, 400):
                return self._redirected(cause)
        status = getattr(error, "status_code", 0)
        body = getattr(error, "body", None)
        detail = _message(body) or (str(error) if body is None else "")
        return self.create(
            _reason(error), status=status, detail=detail, retry_after=_retry_after(error)
        )

    def _redirected(self, error: Any) -> ModelFailed:
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        target = urljoin(self._url, headers.get("location", "")).partition("?")[0][:200]
        return self.with_message(
            f"the server redirects to {target} ({error.status_code}): use the final URL",
            reason="rejected",
        )

    def _redact(self, text: str) -> str:
        return redact_secrets(text, self._secrets)

    def _fill(self, advice: str) -> str:
        name = self._name
        variables, url = " or ".join(name.key_variables), name.base_url
        is_responses_api = name.provider in ("openai", "openai-responses")
        other_api = (
            "; a server with the Chat Completions API needs openai-compatible: instead of "
            f"{name.provider}:"
            if is_responses_api and self._url
            else ""
        )
        return advice.format(
            timeout=name.timeout,
            where=f" at {origin_of(url)}: check the URL" if url else ": check the network",
            variable=variables,
            variables=f" in {variables}" if variables else "",
            url=f" and the URL{other_api}" if url else "",
            check=f": check the URL{other_api}" if self._url else "",
        )


def _reason(error: Exception) -> str:
    codes = [getattr(error, f"provider_error_{name}", None) or "" for name in ("code", "type")]
    by_status = _STATUSES.get(getattr(error, "status_code", 0))
    if by_status is not None:
        return by_status
    if any(map(_POLICY_CODE.fullmatch, codes)):
        return "refused"
    for code in codes:
        if code in _CODES:
            return _CODES[code]
    reason = next((reason for kind, reason in _EXCEPTIONS if isinstance(error, kind)), "unreadable")
    if reason == "connection" and getattr(error, "phase", None) == "read":
        return "cut_off"
    body = getattr(error, "body", None)
    if type(error) is library.ModelAPIError and body is not None:
        return "server"  # an error event that says nothing more
    if reason == "rejected" and _INVALID_KEY.search(str(body)):
        return "key_refused"
    if reason == "rate_limit" and _is_daily_quota(body):
        return "quota"
    return reason


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _retry_after(error: Exception) -> float | None:
    headers = getattr(error, "headers", None)
    seconds = retry_after_seconds(headers) if headers else None
    if seconds is None:
        seconds = getattr(error, "retry_after", None)
    if seconds is not None:
        return float(seconds)
    delays = (str(detail.get("retryDelay")) for detail in _details(getattr(error, "body", None)))
    matches = (_RETRY_DELAY.fullmatch(delay) for delay in delays)
    return next((float(match[1]) for match in matches if match is not None), None)


def _inner(body: object) -> object:
    """Return the error object of an error body, wherever it is."""
    if isinstance(body, list) and body:
        body = body[0]
    return body.get("error", body) if isinstance(body, Mapping) else body


def _message(body: object) -> str:
    """Return the message of an error body; FastAPI has `detail`, as text or as a list."""
    error = _inner(body)
    if not isinstance(error, Mapping):
        return error if isinstance(error, str) else ""
    message = error.get("message") or error.get("detail") or ""
    if isinstance(message, list):
        items = (str(e.get("msg") or e) if isinstance(e, dict) else str(e) for e in message)
        return "; ".join(items)
    return str(message)


def _details(body: object) -> list[Mapping[str, object]]:
    error = _inner(body)
    details = error.get("details") if isinstance(error, Mapping) else None
    return [e for e in details if isinstance(e, dict)] if isinstance(details, list) else []


def _is_daily_quota(body: object) -> bool:
    """Return True if Google reports a quota that is exhausted until another day."""
    for detail in _details(body):
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, dict) and _DAILY_QUOTA.search(str(violation.get("quotaId"))):
                return True
    return False
