"""Which model is meant, and how it is to be asked: read from a name, with nothing imported."""

import math
import os
import re
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from acc.adapters.chat.keys import held_key, is_clear, is_variable
from acc.domain.errors import InvalidInput

#: The variable that holds a provider's key, by the prefix of its models' names. Where there is
#: none, the provider takes its credentials from elsewhere, or needs none.
KEYS: dict[str, tuple[str, ...]] = {
    "alibaba": ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "azure": (),
    "bedrock": (),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "github": ("GITHUB_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "google-cloud": (),
    "groq": ("GROQ_API_KEY",),
    "heroku": ("HEROKU_INFERENCE_KEY",),
    "huggingface": ("HF_TOKEN",),
    "litellm": (),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "nebius": ("NEBIUS_API_KEY",),
    "ollama": (),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "openai-compatible": (),
    "openai-responses": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "ovhcloud": ("OVHCLOUD_API_KEY",),
    "sambanova": ("SAMBANOVA_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "vercel": ("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
    "vllm": (),
    "xai": ("XAI_API_KEY",),
    "zai": ("ZAI_API_KEY",),
}
#: What others call them.
ALIASES = {"gemini": "google", "google-gla": "google", "google-vertex": "google-cloud"}
#: Whose base URL may be named; the key of the provider goes there.
MOVABLE = frozenset(
    {"anthropic", "google", "openai", "openai-chat", "openai-compatible", "openai-responses"}
)
#: The key of an OpenAI-compatible server, if it wants one; that of OpenAI is never sent to it.
COMPATIBLE_KEY = "OPENAI_COMPATIBLE_API_KEY"
#: The variables by which the providers' own clients are moved, key and all.
_MOVED_BY = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "openai-chat": "OPENAI_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
}
OUTPUTS = ("auto", "native", "prompted")
_ALTERNATIVE = "|"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model of a provider, and how it is to be asked.

    `timeout` is how many seconds may pass without a byte. `output` says how an answer is made to
    fit a schema: by the provider (native), by asking for it (prompted), or by whichever works
    (auto). `attempts` counts the first; the limits hold within one process.
    """

    provider: str
    model: str
    base_url: str = ""
    api_key_env: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    thinking: str = ""
    output: str = "auto"
    timeout: float = 120.0
    attempts: int = 4
    max_wait: float = 60.0
    concurrency: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    def __post_init__(self) -> None:
        if self.provider not in KEYS:
            raise InvalidInput(
                f"no provider {self.provider!r}: choose one of {', '.join(sorted(KEYS))}"
            )
        if not self.model.strip() or not self.model.isprintable():
            raise InvalidInput(f"{self.provider}: a model's name is missing, as in openai:gpt-5.2")
        self._check_kinds()
        if not self.base_url and _ADDRESS.search(self.model):
            raise InvalidInput(
                f"{self.provider}:{_NAME_ENDS.split(self.model)[0]} is followed by an address that "
                f"is no URL: write {self.provider}:MODEL@https://proxy.example/v1"
            )
        _check_url(self.provider, self.base_url)
        if self.api_key_env and not is_variable(self.api_key_env):
            raise InvalidInput(
                f"{self.name}: key takes the name of the environment variable that holds the key, "
                "such as TEAM_KEY, and not the key itself"
            )
        if self.output not in OUTPUTS:
            raise InvalidInput(f"output={self.output!r}: choose one of {', '.join(OUTPUTS)}")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise InvalidInput(f"{name} of {self.name} cannot be {value!r}")

    def _check_kinds(self) -> None:
        """Refuse what is no text where one is wanted, and no number where that is."""
        for item in fields(self):
            value, wanted = getattr(self, item.name), "a text"
            is_fit = isinstance(value, str)
            if item.name in _LEAST:
                is_whole = item.name in _WHOLE
                wanted = "a whole number" if is_whole else "a number"
                is_fit = isinstance(value, int if is_whole else int | float)
                is_fit = is_fit and not isinstance(value, bool) or value is item.default is None
            if not is_fit:
                who = f"{self.provider}:{self.model}"
                # In the place of its variable's name a key itself may have been given.
                shown = type(value).__name__ if item.name == "api_key_env" else repr(value)
                raise InvalidInput(f"{item.name} of {who} is {wanted}, not {shown}")

    @property
    def name(self) -> str:
        """Return the model's name as it is written."""
        return f"{self.provider}:{self.model}" + (f"@{self.base_url}" if self.base_url else "")

    @property
    def identity(self) -> dict[str, object]:
        """Return everything about the choice that an answer depends on."""
        return {item: getattr(self, item) for item in _DECIDING}

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Return the environment variables that may hold the key."""
        if self.api_key_env:
            return (self.api_key_env,)
        return (COMPATIBLE_KEY,) if self.provider == "openai-compatible" else KEYS[self.provider]

    @property
    def address(self) -> str:
        """Return where the provider was moved to, by the name or by a variable; else empty."""
        variable = _MOVED_BY.get(self.provider, "")
        return self.base_url or os.environ.get(variable, "").strip()

    @property
    def is_direct(self) -> bool:
        """Tell whether the provider is asked without a library in between."""
        return self.provider in MOVABLE

    @property
    def sends_only_named_key(self) -> bool:
        """Tell whether the key would go in the clear, so that only one named for it may."""
        return self.provider == "openai-compatible" and is_clear(self.base_url)

    def key(self) -> str:
        """Return the key, or say which variable should hold it; empty where none is needed."""
        self._check_moved()
        is_free = self.provider == "openai-compatible" and not self.api_key_env
        if is_free and self.sends_only_named_key:
            return ""
        variables = self.key_variables
        found = held_key(self.name, variables)
        if not found and variables and not is_free:
            raise InvalidInput(
                f"{self.name} needs a key: set the environment variable {' or '.join(variables)}"
            )
        return found

    def _check_moved(self) -> None:
        """Refuse a variable that would send the key elsewhere in the clear."""
        variable = _MOVED_BY.get(self.provider, "")
        url = "" if self.base_url else os.environ.get(variable, "").strip()
        try:
            is_readable = is_clear(url)
        except ValueError:
            raise InvalidInput(f"{variable} holds no URL") from None
        if is_readable:
            raise InvalidInput(
                f"the key of {self.provider} would go in the clear to where {variable} says: https"
            )


#: The least that a number may be.
_LEAST: dict[str, float] = {
    "temperature": 0.0,
    "top_p": 0.0,
    "max_tokens": 1,
    "seed": 0,
    "timeout": 0.001,
    "attempts": 1,
    "max_wait": 0.0,
    "concurrency": 1,
    "requests_per_minute": 0.001,
    "tokens_per_minute": 1,
}
_DECIDING = (
    "provider",
    "model",
    "base_url",
    "temperature",
    "top_p",
    "max_tokens",
    "seed",
    "thinking",
    "output",
)
_WHOLE = frozenset({"max_tokens", "seed", "attempts", "concurrency"})
_TEXTS = {"thinking": "thinking", "output": "output", "key": "api_key_env"}
_TEXT_FIELDS = frozenset({"base_url", *_TEXTS.values()})
#: A URL within a name, with the mark before it, and how one begins.
_URL = re.compile(r"@https?://.*", re.I | re.S)
_SCHEME = re.compile(r"^https?:", re.I)
_NAME_ENDS = re.compile("@|://")
#: What ends like an address, which would be taken for a part of the model's name.
_ADDRESS = re.compile(
    r"://|[^/]@(?:https?:|localhost(?![^:/])|(?:[\w-]+\.)+[a-z][\w-]*(?:[:/]|$)"
    r"|\d+(?:\.\d+){3}|\[|[\w.-]+:\d+(?:/|$))[^@]*$",
    re.I,
)


def alternatives(name: str) -> tuple[str, ...]:
    """Return the models of `FIRST|SECOND`, each to be asked when those before it cannot answer."""
    return tuple(part.strip() for part in name.split(_ALTERNATIVE) if part.strip())


def is_provider_name(name: str) -> bool:
    """Tell whether a name begins like that of a provider's model."""
    prefix, colon, _ = name.partition(":")
    return bool(colon) and ALIASES.get(prefix, prefix) in KEYS


def parse_choice(name: str, **given: Any) -> ModelChoice:
    """Return the choice that `PROVIDER:MODEL[@BASE_URL][?SETTING=VALUE&…]` names.

    What is `given` counts before what the name says; a text that is empty or None was not given.
    """
    if _ALTERNATIVE in name:
        raise InvalidInput(
            f"{name.partition('?')[0]!r} is a list, and this takes one model: give the list to an "
            "agent as its model's name"
        )
    head, question, query = name.partition("?")
    prefix, colon, model = head.partition(":")
    if not colon:
        raise InvalidInput(f"{head!r} names no model: write PROVIDER:MODEL, as in openai:gpt-5.2")
    settings = _settings(head, query) if question else {}
    found = _URL.search(model)
    if found:
        model, settings["base_url"] = model[: found.start()], found[0][1:]
    settings |= {key: value for key, value in given.items() if not _is_left_out(key, value)}
    if isinstance(settings.get("base_url"), str):
        settings["base_url"] = _SCHEME.sub(lambda scheme: scheme[0].lower(), settings["base_url"])
    return ModelChoice(provider=ALIASES.get(prefix, prefix), model=model, **settings)


def _is_left_out(key: str, value: object) -> bool:
    return key in _TEXT_FIELDS and (value is None or value == "")


def _settings(name: str, query: str) -> dict[str, Any]:
    known = {item.name for item in fields(ModelChoice)} - {
        "provider",
        "model",
        "base_url",
        "api_key_env",
    }
    found: dict[str, Any] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key in _TEXTS:
            found[_TEXTS[key]] = value
        elif key in known:
            found[key] = _number(name, key, value)
        else:
            raise InvalidInput(
                f"{name} has no setting {key!r}: choose of "
                f"{', '.join(sorted(known | _TEXTS.keys()))}"
            )
    return found


def _number(name: str, key: str, value: str) -> float | int:
    try:
        return int(value) if key in _WHOLE else float(value)
    except ValueError:
        raise InvalidInput(f"{name}: {key} is a number, not {value!r}") from None


def _check_url(provider: str, url: str) -> None:
    if not url:
        if provider == "openai-compatible":
            raise InvalidInput(
                "openai-compatible needs a URL: openai-compatible:MODEL@http://127.0.0.1:8080/v1"
            )
        return
    if provider not in MOVABLE:
        raise InvalidInput(
            f"{provider} takes no base URL in its name; those that do: {', '.join(sorted(MOVABLE))}"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput(f"{_shown(url)!r} is no URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidInput(f"{_shown(url)!r} is no http or https URL")
    if provider != "openai-compatible" and is_clear(url):
        raise InvalidInput(
            f"the key of {provider} would go to {parts.hostname} in the clear: https"
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidInput(
            f"the URL of {parts.hostname} holds credentials or a query; keys are read from the "
            "environment: name the variable with ?key=VARIABLE"
        )


def _shown(url: str) -> str:
    return re.sub(r"//[^/]*@", "//***@", url)
