"""Names of models: `PROVIDER:MODEL[@BASE_URL][?SETTING=VALUE&…]` and `local[:FILE][?…]`.

Reading a name imports no client library.
"""

import ipaddress
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypedDict, Unpack
from urllib.parse import parse_qsl, urlsplit

from acc.domain.errors import InvalidInput
from acc.domain.model_names import KEY_VARIABLES, PROVIDER_ALIASES
from acc.domain.value_objects.endpoint import redact_secrets

#: Providers whose base URL may be given. The key is sent to that URL.
MOVABLE = frozenset(
    {"anthropic", "google", "openai", "openai-chat", "openai-compatible", "openai-responses"}
)
#: The key of an OpenAI-compatible server. The key of OpenAI is never sent to such a server.
COMPATIBLE_KEY = "OPENAI_COMPATIBLE_API_KEY"
#: The environment variables that set the base URL of a provider, as its own client reads them.
BASE_URL_VARIABLES = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "openai-chat": "OPENAI_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
}
OUTPUT_MODES = ("auto", "native", "prompted")
_SEPARATOR = "|"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelName:
    """A provider's model and its settings.

    `timeout` is the longest time in seconds without a byte. `output` is how an answer is made to
    match a schema: by the provider (native), by asking for it (prompted), or by what the model
    supports (auto). `attempts` includes the first one. Limits apply within one process.
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
        if self.provider not in KEY_VARIABLES:
            known = ", ".join(sorted(KEY_VARIABLES))
            raise InvalidInput(f"no provider {self.provider!r}: choose one of {known}")
        if not self.model.strip() or not self.model.isprintable():
            raise InvalidInput(
                f"{self.provider}: the model's name is missing: write PROVIDER:MODEL, for example "
                "openai:gpt-5.2"
            )
        self._check_types()
        if not self.base_url and _ADDRESS.search(self.model):
            raise InvalidInput(
                f"{self.provider}:{_NAME_ENDS.split(self.model)[0]} is followed by an address "
                f"without http:// or https://: write {self.provider}:MODEL@https://proxy.example/v1"
            )
        _check_base_url(self.provider, self.base_url)
        if self.output not in OUTPUT_MODES:
            modes = ", ".join(OUTPUT_MODES)
            raise InvalidInput(f"output={self.output!r}: choose one of {modes}")
        for name, least in _MINIMUM.items():
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise InvalidInput(f"{name} of {self.name} must be at least {least:g}: {value!r}")

    def _check_types(self) -> None:
        """Raise InvalidInput if a field has the wrong type."""
        for item in fields(self):
            value, expected = getattr(self, item.name), "text"
            is_valid = isinstance(value, str)
            if item.name in _MINIMUM:
                is_whole = item.name in _WHOLE_NUMBERS
                expected = "a whole number" if is_whole else "a number"
                is_valid = isinstance(value, int if is_whole else int | float)
                is_valid = is_valid and not isinstance(value, bool) or value is item.default is None
            if not is_valid:
                # The key itself may have been given in place of its variable's name.
                shown = type(value).__name__ if item.name == "api_key_env" else repr(value)
                raise InvalidInput(
                    f"{item.name} of {self.provider}:{self.model} must be {expected}, got {shown}"
                )

    @property
    def name(self) -> str:
        """Return the name as it is written, without settings."""
        return f"{self.provider}:{self.model}" + (f"@{self.base_url}" if self.base_url else "")

    @property
    def identity(self) -> dict[str, object]:
        """Return everything in the name that an answer depends on."""
        return {item: getattr(self, item) for item in _IDENTITY}

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Return the environment variables that may hold the key."""
        if self.api_key_env:
            return (self.api_key_env,)
        if self.provider == "openai-compatible":
            return (COMPATIBLE_KEY,)
        return KEY_VARIABLES[self.provider]

    def address(self, read_variable: "ReadVariable") -> str:
        """Return the base URL from the name or from its variable, or an empty text."""
        variable = BASE_URL_VARIABLES.get(self.provider, "")
        return self.base_url or (read_variable(variable) if variable else "")

    @property
    def sends_only_named_key(self) -> bool:
        """Return True if the key would be sent unencrypted, so that it must be named."""
        return self.provider == "openai-compatible" and is_unencrypted(self.base_url)

    def key(self, read_variable: "ReadVariable") -> str:
        """Return the key, or an empty text if none is needed.

        Raises:
            InvalidInput: The key is missing; the message names the variable to set.
        """
        self._check_base_url_variable(read_variable)
        is_optional = self.provider == "openai-compatible" and not self.api_key_env
        if is_optional and self.sends_only_named_key:
            return ""
        key = read_key(self.name, self.key_variables, read_variable)
        if not key and self.key_variables and not is_optional:
            variables = " or ".join(self.key_variables)
            raise InvalidInput(f"{self.name} needs a key: set the environment variable {variables}")
        return key

    def _check_base_url_variable(self, read_variable: "ReadVariable") -> None:
        """Raise InvalidInput if a variable would send the key to another host unencrypted."""
        variable = BASE_URL_VARIABLES.get(self.provider, "")
        url = "" if self.base_url or not variable else read_variable(variable)
        try:
            is_open = is_unencrypted(url)
        except ValueError:
            raise InvalidInput(f"{variable} is not a URL") from None
        if is_open:
            raise InvalidInput(
                f"{variable} would send the key of {self.provider} unencrypted: use an https URL"
            )


_MINIMUM: dict[str, float] = {
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
_IDENTITY = (
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
_WHOLE_NUMBERS = frozenset({"max_tokens", "seed", "attempts", "concurrency"})
#: Settings that are text: their name in a model's name, and the field.
_TEXT_SETTINGS = {"thinking": "thinking", "output": "output", "key": "api_key_env"}
_TEXT_FIELDS = frozenset({"base_url", *_TEXT_SETTINGS.values()})
_URL = re.compile(r"@https?://.*", re.I | re.S)
_SCHEME = re.compile(r"^https?:", re.I)
_NAME_ENDS = re.compile("@|://")
#: An address at the end of a name, without a scheme: it would be read as part of the model's name.
_ADDRESS = re.compile(
    r"://|[^/]@(?:https?:|localhost(?![^:/])|(?:[\w-]+\.)+[a-z][\w-]*(?:[:/]|$)"
    r"|\d+(?:\.\d+){3}|\[|[\w.-]+:\d+(?:/|$))[^@]*$",
    re.I,
)


def split_alternatives(name: str) -> tuple[str, ...]:
    """Return the models of `FIRST|SECOND`."""
    return tuple(part.strip() for part in name.split(_SEPARATOR) if part.strip())


def is_provider_name(name: str) -> bool:
    """Return True if a name begins with a provider's prefix."""
    prefix, colon, _ = name.partition(":")
    return bool(colon) and PROVIDER_ALIASES.get(prefix, prefix) in KEY_VARIABLES


class ReadVariable(Protocol):
    """Reads an environment variable."""

    def __call__(self, name: str, /) -> str:
        """Return the value without surrounding whitespace, or an empty text."""
        ...


def no_variables(name: str, /) -> str:
    """Return an empty text, as if no environment variable were set."""
    return ""


class GivenSettings(TypedDict, total=False):
    """The settings of a ModelName that are given beside its name; None means not given."""

    base_url: str | None
    api_key_env: str | None
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    seed: int | None
    thinking: str | None
    output: str | None
    timeout: float | None
    attempts: int | None
    max_wait: float | None
    concurrency: int | None
    requests_per_minute: float | None
    tokens_per_minute: float | None


def parse_model_name(
    name: str, *, read_variable: ReadVariable = no_variables, **settings: Unpack[GivenSettings]
) -> ModelName:
    """Return the model that `PROVIDER:MODEL[@BASE_URL][?SETTING=VALUE&…]` names.

    `settings` take precedence over those in the name. Empty text and None count as not given. The
    name of a key's variable must be in upper case, unless `read_variable` knows the variable.
    """
    if _SEPARATOR in name:
        raise InvalidInput(
            f"{name.partition('?')[0]!r} is a list of models; one model is expected here. A list "
            "can be given to an agent as the name of its model."
        )
    head, question, query = name.partition("?")
    prefix, colon, model = head.partition(":")
    if not colon:
        raise InvalidInput(
            f"{head!r} does not name a model: write PROVIDER:MODEL, for example openai:gpt-5.2"
        )
    parsed = _parse_settings(head, query) if question else {}
    found = _URL.search(model)
    if found:
        model, parsed["base_url"] = model[: found.start()], found[0][1:]
    for key, value in settings.items():
        if value is not None and (key not in _TEXT_FIELDS or value != ""):
            parsed[key] = value
    if isinstance(parsed.get("base_url"), str):
        parsed["base_url"] = _SCHEME.sub(lambda scheme: scheme[0].lower(), parsed["base_url"])
    result = ModelName(provider=PROVIDER_ALIASES.get(prefix, prefix), model=model, **parsed)
    if result.api_key_env and not is_variable_name(result.api_key_env, read_variable):
        raise InvalidInput(f"{result.name}: {KEY_EXPLANATION}")
    return result


def _parse_settings(name: str, query: str) -> dict[str, Any]:
    not_settings = {"provider", "model", "base_url", "api_key_env"}
    known = {item.name for item in fields(ModelName)} - not_settings
    found: dict[str, Any] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key in _TEXT_SETTINGS:
            found[_TEXT_SETTINGS[key]] = value
        elif key in known:
            found[key] = _parse_number(name, key, value, whole=key in _WHOLE_NUMBERS)
        else:
            settings = ", ".join(sorted(known | _TEXT_SETTINGS.keys()))
            raise InvalidInput(f"{name} has no setting {key!r}: choose one of {settings}")
    return found


def _parse_number(name: str, key: str, value: str, *, whole: bool) -> float | int:
    try:
        return int(value) if whole else float(value)
    except ValueError:
        raise InvalidInput(f"{name}: {key} must be a number, got {value!r}") from None


def _check_base_url(provider: str, url: str) -> None:
    if not url:
        if provider == "openai-compatible":
            raise InvalidInput(
                "openai-compatible needs a URL: openai-compatible:MODEL@http://127.0.0.1:8080/v1"
            )
        return
    if provider not in MOVABLE:
        movable = ", ".join(sorted(MOVABLE))
        raise InvalidInput(f"{provider} takes no base URL; providers that take one: {movable}")
    shown = re.sub(r"//[^/]*@", "//***@", url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput(f"{shown!r} is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidInput(f"{shown!r} is not an http or https URL")
    if provider != "openai-compatible" and is_unencrypted(url):
        raise InvalidInput(
            f"the key of {provider} would be sent to {parts.hostname} unencrypted: use https"
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidInput(
            f"the URL of {parts.hostname} contains credentials or a query. Keys are read from the "
            "environment: name the variable with ?key=VARIABLE"
        )


# Keys

KEY_EXPLANATION = (
    "key takes the name of the environment variable that holds the key, for example TEAM_KEY, not "
    "the key itself"
)


_QUOTES = ("'", '"')


def read_key(name: str, variables: Iterable[str], read_variable: ReadVariable) -> str:
    """Return the key of a model from the first variable that is set, or an empty text."""
    for variable in variables:
        key = read_variable(variable)
        if key[:1] in _QUOTES and key[:1] == key[-1:]:
            raise InvalidInput(
                f"{name}: {variable} does not hold a valid key: it is in quotation marks; set it "
                "without them"
            )
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise InvalidInput(
                f"{name}: {variable} does not hold a valid key: it contains spaces, line breaks or "
                "characters that are not ASCII"
            )
        if key:
            return key
    return ""


def is_unencrypted(url: str) -> bool:
    """Return True if what is sent to a URL leaves this machine unencrypted."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname == "localhost":
        return False
    try:
        return not ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True


def is_variable_name(name: str, read_variable: ReadVariable = no_variables) -> bool:
    """Return True if `name` is an environment variable's name and does not look like a key."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name) or redact_secrets(name) != name:
        return False
    return name.isupper() or bool(read_variable(name))


# Local models

LOCAL = "local"
_LOCAL_RANGES: dict[str, tuple[float, float]] = {
    "context": (256, 1_048_576),
    "threads": (1, 512),
    "slots": (1, 64),
    "idle_minutes": (0.01, 10_080),
    "start_seconds": (1, 3600),
    "max_tokens": (1, 1_048_576),
    "temperature": (0, 2),
    "seed": (0, 4_294_967_294),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModelName:
    """A model file, the settings of its server, and the settings of a request.

    An empty `path` means the packaged small model. `context` is the number of tokens of a prompt
    and its answer together; `slots` is the number of requests answered at once. The server stops
    after `idle_minutes` without a request.
    """

    path: str = ""
    context: int = 8192
    threads: int = 1
    slots: int = 2
    idle_minutes: float = 10.0
    start_seconds: float = 300.0
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 7

    def __post_init__(self) -> None:
        for setting, (least, most) in _LOCAL_RANGES.items():
            value = getattr(self, setting)
            if not least <= value <= most:
                raise InvalidInput(
                    f"{self.name}: {setting} must be {least:g} to {most:g}, got {value}"
                )

    @property
    def name(self) -> str:
        """Return the name as it is written, without settings."""
        return f"{LOCAL}:{self.path}" if self.path else LOCAL

    def server_settings(self) -> dict[str, object]:
        """Return the settings of the server process."""
        return {
            "context": self.context,
            "threads": self.threads,
            "slots": self.slots,
            "idle_minutes": self.idle_minutes,
            "start_seconds": self.start_seconds,
        }


_LOCAL_WHOLE_NUMBERS = {item.name for item in fields(LocalModelName) if item.type is int}


def is_local_name(name: str) -> bool:
    """Return True if a name is that of a local model."""
    return name == LOCAL or name.startswith((f"{LOCAL}:", f"{LOCAL}?"))


def parse_local_name(name: str) -> LocalModelName:
    """Return the model that `local[:FILE][?SETTING=VALUE&…]` names."""
    head, _, query = name.partition("?")
    prefix, colon, path = head.partition(":")
    if prefix != LOCAL or (colon and not path.strip()):
        raise InvalidInput(
            f"{name!r} does not name a local model: write local, or local:/path/model.gguf"
        )
    settings: dict[str, float] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in _LOCAL_RANGES:
            choices = ", ".join(_LOCAL_RANGES)
            raise InvalidInput(f"{head} has no setting {key!r}: choose one of {choices}")
        settings[key] = _parse_number(head, key, value, whole=key in _LOCAL_WHOLE_NUMBERS)
    return LocalModelName(path=path, **settings)  # type: ignore[arg-type] # ints where declared


_IMAGES_AND_PDF = ("image/", "application/pdf")
#: The media types of files that models accept, by provider.
_MEDIA_TYPES: dict[str, tuple[str, ...]] = {
    "google": (*_IMAGES_AND_PDF, "audio/", "video/"),
    "google-cloud": (*_IMAGES_AND_PDF, "audio/", "video/"),
    "openai-chat": (*_IMAGES_AND_PDF, "audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3"),
    "openai-compatible": ("image/",),
    "ollama": ("image/",),
    "vllm": ("image/",),
}


def media_types(provider: str) -> tuple[str, ...]:
    """Return the media types of files that models of a provider accept."""
    return _MEDIA_TYPES.get(provider, _IMAGES_AND_PDF)
