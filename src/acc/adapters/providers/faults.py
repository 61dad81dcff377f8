"""What went wrong with a provider, in words that say what to do about it."""

from acc.adapters.providers.choice import ModelChoice
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.endpoint import origin_of, redact_secrets

_MOST = 300
_WORTH_RETRYING = frozenset({408, 409, 425, 500, 502, 503, 504, 520, 522, 524, 529})

#: By a word for it: whether to try again, and what to do.
_KINDS: dict[str, tuple[bool, str]] = {
    "quota": (False, "its account has no credit left: top it up"),
    "rate_limit": (True, "its rate limit is reached"),
    "overloaded": (True, "it is overloaded"),
    "unavailable": (True, "it is not available just now"),
    "server": (True, "its server failed"),
    "timeout": (True, "no answer within {timeout:g} s"),
    "connection": (True, "it cannot be reached{where}"),
    "unreadable": (True, "its answer cannot be read"),
    "key_refused": (
        False,
        "it refuses the key{variables}: check that it is whole, valid, and may use this model",
    ),
    "unknown_model": (False, "it has no such model: check the name{url}"),
    "context_length": (
        False,
        "the prompt is longer than its context: choose a smaller memory window, or another model",
    ),
    "refused": (False, "its content filter refused the request"),
    "rejected": (False, "it rejected the request"),
    "not_possible": (False, "it cannot be asked like this"),
}
#: What to do where a key is refused that was not sent.
_WANTED = "it wants a key: set {variable}"
_NAMED = "it wants a key, and over plain http only one is sent that is named: ?key={variable}"


class Faults:
    """Words the failures of one model; its key is in none of them."""

    def __init__(self, choice: ModelChoice, key: str) -> None:
        self._choice = choice
        self._key = key
        self._hidden = [key]

    def hide(self, secret: str) -> None:
        """Keep another secret out of every failure."""
        self._hidden.append(secret)

    def because(
        self,
        reason: str,
        *,
        status: int = 0,
        told: str = "",
        retry_after: float | None = None,
    ) -> ModelFailed:
        """Return a failure by the word for it; `told` is what the provider said about it."""
        retryable, advice = _KINDS.get(reason, (False, reason))
        if reason == "key_refused" and not self._key and self._choice.key_variables:
            advice = _NAMED if self._choice.sends_only_named_key else _WANTED
        # Before it is cut, or a part of a key could be left at its end.
        words = "" if reason == "key_refused" else self.cleaned(" ".join(told.split()))
        number = f" ({status})" if status else ""
        said = f": {words[:_MOST]}{'…' if len(words) > _MOST else ''}" if words else ""
        return self.made(
            f"{self._filled(advice)}{number}{said}",
            reason=reason if reason in _KINDS else "failed",
            retryable=retryable or status in _WORTH_RETRYING,
            retry_after=retry_after,
        )

    def cut_off(self) -> ModelFailed:
        """Return the failure of an answer that broke off."""
        return self.made(
            "the connection was cut in the middle of the answer, which was thrown away",
            reason="cut_off",
            retryable=True,
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
        return redact_secrets(text, self._hidden)

    def _filled(self, advice: str) -> str:
        choice = self._choice
        variables, url = " or ".join(choice.key_variables), choice.base_url
        return advice.format(
            timeout=choice.timeout,
            where=f" at {origin_of(url)}: check the URL" if url else ": check the network",
            variable=variables,
            variables=f" in {variables}" if variables else "",
            url=" and the URL" if url else "",
        )
