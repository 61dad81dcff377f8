"""The environment variables that configure acc.

Only this module reads the environment. Every function reads it when it is called, so a change of a
variable takes effect with the next call. `docs/environment.md` lists all variables.

Providers define further variables, such as `OPENAI_API_KEY`. Adapters that need one of them receive
`read_variable` or the value as an argument.
"""

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from acc.application.models.resolution import REFERENCE_PREFIX
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import is_sendable
from acc.ports.outbound.storage_ports import LEASE_SECONDS

#: Hosts and networks that may be called although they are not public, separated by commas.
ALLOW = "ACC_ALLOW"
#: A Valkey or Redis server through which processes share circuit breakers.
CIRCUIT_STORE = "ACC_CIRCUIT_STORE"
FILES = "ACC_FILES"
#: Seconds after which a lease of a session or task expires that is not renewed.
LEASE = "ACC_LEASE_SECONDS"
S3_ENDPOINT = "AWS_ENDPOINT_URL"
#: The model of agents that an evaluation constructs itself.
AGENT_MODEL = "ACC_AGENT_MODEL"
#: The model that compresses the memory `acc`.
COMPRESSOR_MODEL = "ACC_COMPRESSOR_MODEL"
#: The directory of cached model responses.
MODEL_CACHE = "ACC_MODEL_CACHE"
#: The secret that signs push notifications with HMAC.
PUSH_SECRET = "ACC_PUSH_SECRET"  # noqa: S105 - the name of a variable, not a secret
#: The bearer token for remote agents in an evaluation; `ACC_TOKEN_<NAME>` is for one agent.
TOKEN = "ACC_TOKEN"  # noqa: S105 - the name of a variable, not a secret

#: "json" writes the log of every command as JSON lines.
LOG_FORMAT = "ACC_LOG_FORMAT"
#: The key for a Temporal service that requires one.
TEMPORAL_API_KEY = "ACC_TEMPORAL_API_KEY"
#: The file to which GitHub Actions appends the summary of a step.
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"

#: The port of servers, as platforms for containers set it.
PORT = "PORT"

DEFAULT_AGENT_MODEL = "embedded"
DEFAULT_COMPRESSOR = "rules"
_MAX_PORT = 65_535
_MIN_LEASE_SECONDS = 3.0
_MAX_LEASE_SECONDS = 3_600.0
_VARIABLES = (
    *(ALLOW, CIRCUIT_STORE, FILES, LEASE, AGENT_MODEL, COMPRESSOR_MODEL, MODEL_CACHE, PUSH_SECRET),
    *(TOKEN, LOG_FORMAT, TEMPORAL_API_KEY),
)
_MIN_SIMILARITY = 0.85


def misspelled_variables() -> Iterator[str]:
    """Yield a message for each variable whose name is similar to one that acc reads."""
    for name in sorted(os.environ):
        if name.startswith("ACC_") and name not in _VARIABLES and not name.startswith(f"{TOKEN}_"):
            similar = get_close_matches(name, _VARIABLES, 1, cutoff=_MIN_SIMILARITY)
            if similar:
                yield f"acc does not read the variable {name}; did you mean {similar[0]}?"


def read_variable(name: str) -> str:
    """Return a variable without surrounding whitespace, or an empty string."""
    return os.environ.get(name, "").strip()


def default_port(fallback: int) -> int:
    """Return the port of the variable PORT, or `fallback`."""
    text = read_variable(PORT)
    if not text:
        return fallback
    if not text.isdecimal() or int(text) > _MAX_PORT:
        raise InvalidInput(f"the environment variable {PORT} must be a port number, got {text!r}")
    return int(text)


def lease_seconds() -> float:
    """Return the lease of sessions and tasks in `ACC_LEASE_SECONDS`, or the default."""
    text = read_variable(LEASE)
    try:
        seconds = float(text) if text else LEASE_SECONDS
    except ValueError:
        seconds = 0.0
    if not _MIN_LEASE_SECONDS <= seconds <= _MAX_LEASE_SECONDS:
        raise InvalidInput(
            f"the environment variable {LEASE} must be {_MIN_LEASE_SECONDS:g} to "
            f"{_MAX_LEASE_SECONDS:g} seconds without a unit, got {text!r}"
        )
    return seconds


def has_variable(name: str) -> bool:
    """Return True if the variable is set, even if it is empty."""
    return name in os.environ


def resolve_reference(reference: str) -> str:
    """Return the variable that `env:NAME` refers to; return other text unchanged."""
    if not reference.startswith(REFERENCE_PREFIX):
        return reference
    name = reference.removeprefix(REFERENCE_PREFIX)
    value = read_variable(name)
    if not value:
        raise InvalidInput(f"the environment variable {name!r} is not set or empty; set it")
    return value


def resolve_token(reference: str) -> str:
    """Return a bearer token, from the environment for "env:NAME"; the error hides its value."""
    token = resolve_reference(reference)
    if not is_sendable(token):
        is_reference = reference.startswith(REFERENCE_PREFIX)
        name = reference.removeprefix(REFERENCE_PREFIX)
        source = f"the environment variable {name}" if is_reference else "token"
        raise InvalidInput(f"{source} must contain printable ASCII without spaces")
    return token


def allowed_hosts() -> tuple[str, ...]:
    """Return the hosts and networks in `ACC_ALLOW`."""
    return tuple(filter(None, map(str.strip, read_variable(ALLOW).split(","))))


def circuit_store() -> str:
    """Return the URL in `ACC_CIRCUIT_STORE`, empty if circuits are not shared."""
    return read_variable(CIRCUIT_STORE)


def files_location() -> str:
    """Return the store of large files in `ACC_FILES`, empty if they are in the database."""
    return read_variable(FILES)


def s3_endpoint() -> str:
    """Return the URL of an S3-compatible server in `AWS_ENDPOINT_URL`, empty for AWS."""
    return read_variable(S3_ENDPOINT)


def agent_model() -> str:
    """Return the model name in `ACC_AGENT_MODEL`, or the embedded model."""
    return read_variable(AGENT_MODEL) or DEFAULT_AGENT_MODEL


def compressor_model() -> str:
    """Return the model name in `ACC_COMPRESSOR_MODEL`, or the rules."""
    return read_variable(COMPRESSOR_MODEL) or DEFAULT_COMPRESSOR


def model_cache() -> Path | None:
    """Return the directory in `ACC_MODEL_CACHE`, or None if responses are not cached."""
    directory = read_variable(MODEL_CACHE)
    return Path(directory) if directory else None


def push_secret() -> str:
    """Return the secret in `ACC_PUSH_SECRET`, or an empty string."""
    return os.environ.get(PUSH_SECRET, "")


def temporal_api_key() -> str:
    """Return the key in `ACC_TEMPORAL_API_KEY`, or an empty string."""
    return read_variable(TEMPORAL_API_KEY)


def agent_token_variable(agent_name: str) -> str:
    """Return the name of the variable with the token of one evaluated agent."""
    return f"{TOKEN}_{agent_name.replace('-', '_').upper()}"


def agent_token_reference(agent_name: str) -> str:
    """Return `env:NAME` for the variable with an agent's token, or an empty string."""
    for variable in (agent_token_variable(agent_name), TOKEN):
        if os.environ.get(variable):
            return f"{REFERENCE_PREFIX}{variable}"
    return ""


def has_json_logs() -> bool:
    """Return True if `ACC_LOG_FORMAT` is json; InvalidInput for other values than json and text."""
    value = read_variable(LOG_FORMAT).lower()
    if value not in ("", "text", "json"):
        raise InvalidInput(
            f"the environment variable {LOG_FORMAT} must be json or text, got {value!r}"
        )
    return value == "json"


def has_otlp_endpoint() -> bool:
    """Return True if a standard variable names the receiver of spans and metrics."""
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(map(read_variable, names))


def has_default_histograms() -> bool:
    """Return True if histograms are exported cumulatively and with explicit buckets."""
    defaults = {
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "cumulative",
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION": "explicit_bucket_histogram",
    }
    return all(read_variable(name) in ("", value) for name, value in defaults.items())


def exporter_of(signal: str) -> str:
    """Return the exporter of "traces" or "metrics": "otlp", "none", another name, or "".

    For "sdk", "none" means that OpenTelemetry is disabled.
    """
    if signal == "sdk":
        return "none" if read_variable("OTEL_SDK_DISABLED").lower() == "true" else ""
    return read_variable(f"OTEL_{signal.upper()}_EXPORTER").lower()


def prometheus_address() -> tuple[str, int]:
    """Return host and port at which metrics are published for Prometheus, by default local."""
    text = read_variable("OTEL_EXPORTER_PROMETHEUS_PORT") or "9464"
    if not text.isdecimal() or int(text) > _MAX_PORT:
        raise InvalidInput(
            f"the environment variable OTEL_EXPORTER_PROMETHEUS_PORT must be a port number, got "
            f"{text!r}"
        )
    return read_variable("OTEL_EXPORTER_PROMETHEUS_HOST") or "localhost", int(text)


def captures_message_content() -> bool:
    """Return True if spans may contain messages, arguments and results."""
    value = read_variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").lower()
    return value in ("true", "1", "span_only", "span_and_event")


def runtime_directory() -> str:
    """Return the directory in `XDG_RUNTIME_DIR`, or an empty string."""
    return read_variable("XDG_RUNTIME_DIR")


def silence_grpc() -> None:
    """Set GRPC_VERBOSITY, unless it is set: gRPC logs each malformed request to stderr."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def step_summary_file() -> Path | None:
    """Return the file for the summary of a step of GitHub Actions, or None elsewhere."""
    name = read_variable(STEP_SUMMARY)
    return Path(name) if name else None
