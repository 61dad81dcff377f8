"""Options of `acc serve`: address and storage, access, limits."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from acc.application.a2a.requests import ServerLimits
from acc.cli.output import parse_size
from acc.domain.errors import InvalidInput

PushSigning = Literal["hmac", "jwt", "bearer", "none"]
_DAY_SECONDS = 24 * 3600.0
_DEFAULTS = ServerLimits()


@Parameter(name="*", group="Address and storage", show_default=True)
@dataclass(frozen=True, kw_only=True)
class AddressOptions:
    """The address of the server and its storage."""

    host: Annotated[str, Parameter(help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int | None,
        Parameter(
            help="The port to listen on; 0 selects a free port. [default: the variable PORT, or "
            "8000]",
            show_default=False,
        ),
    ] = None
    grpc_port: Annotated[
        int | None,
        Parameter(
            help="The port of the gRPC binding; 0 selects a free port. Requires the extra grpc. "
            "[default: no gRPC]",
            show_default=False,
        ),
    ] = None
    public_url: Annotated[
        str,
        Parameter(
            help="The URL in the card, if it differs from the address. Required with --host "
            "0.0.0.0, unless --card has a url."
        ),
    ] = ""
    card: Annotated[
        Path | None,
        Parameter(
            help="A JSON or TOML file with fields of the agent card: name, skills, modes, "
            "security schemes; see the A2A guide."
        ),
    ] = None
    tls_cert: Annotated[
        Path | None, Parameter(help="A certificate chain (PEM); the server then uses https.")
    ] = None
    tls_key: Annotated[Path | None, Parameter(help="The private key (PEM) of the certificate.")] = (
        None
    )
    tls_client_ca: Annotated[
        Path | None,
        Parameter(
            help="CA certificates (PEM) of callers, who may then use a client certificate instead "
            "of a token. Requires --tls-cert."
        ),
    ] = None
    tls_proxy: Annotated[
        tuple[str, ...],
        Parameter(
            help="The address or network of a proxy that verifies client certificates and passes "
            "them in a header; can be repeated. [default: none]",
            negative=(),
            consume_multiple=False,
            show_default=False,
        ),
    ] = ()
    tls_proxy_header: Annotated[
        str, Parameter(help="The header in which a --tls-proxy passes the certificate.")
    ] = "Client-Cert"
    store: Annotated[
        str,
        Parameter(
            help='The store of sessions and tasks: "memory", the path of a SQLite file, which '
            "several servers of one machine may share, or postgresql://USER@HOST/DATABASE."
        ),
    ] = "memory"
    engine: Annotated[
        str,
        Parameter(
            help='Where tasks are executed: "in-process", or temporal://HOST:PORT/NAMESPACE for '
            "the workers of a Temporal service; see `acc worker`."
        ),
    ] = "in-process"
    events_to: Annotated[
        str,
        Parameter(
            help="Send the events that agents publish to nats://HOST:4222, valkey://HOST:6379, "
            "redis://HOST:6379 or another store, as `acc relay` does. [default: they stay in "
            "--store]",
            show_default=False,
        ),
    ] = ""


@Parameter(name="*", group="Access", show_default=False)
@dataclass(frozen=True, kw_only=True)
class AccessOptions:
    """Callers of the server, and hosts that it may call."""

    tokens: Annotated[
        Path | None,
        Parameter(help="A file of callers and token hashes; see `acc token`."),
    ] = None
    oidc: Annotated[
        tuple[str, ...],
        Parameter(
            help="An OIDC issuer whose JWTs are accepted, such as https://login.example.com. With "
            "several issuers, or --tokens, write PREFIX=URL: its callers are PREFIX/NAME.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    audience: Annotated[
        tuple[str, ...],
        Parameter(
            help="The audience that JWTs must have. [default: --public-url]",
            negative=(),
            consume_multiple=False,
            show_default=False,
        ),
    ] = ()
    default_scope: Annotated[
        tuple[str, ...],
        Parameter(
            help="A scope of JWTs without a scope claim, such as agent.invoke [default: none], and "
            "of client certificates [default: all].",
            negative=(),
            consume_multiple=False,
            show_default=False,
        ),
    ] = ()
    single_use_tokens: Annotated[
        bool,
        Parameter(
            help="Accept a JWT once; it needs a jti. For agents that sign a JWT for each request.",
            negative=(),
        ),
    ] = False
    unprotected: Annotated[
        bool,
        Parameter(
            help="Accept anonymous callers from other machines.",
            negative=(),
        ),
    ] = False
    anonymous_listing: Annotated[
        bool,
        Parameter(
            help="With --unprotected, allow every caller to list the tasks of all anonymous "
            "callers. On loopback without tokens this is always allowed.",
            negative=(),
        ),
    ] = False
    cors_origin: Annotated[
        tuple[str, ...],
        Parameter(
            help="A web origin whose pages may call the server, such as https://app.example.com, "
            "or *; can be repeated. [default: none]",
            negative=(),
            consume_multiple=False,
            show_default=False,
        ),
    ] = ()
    allow: Annotated[
        tuple[str, ...],
        Parameter(
            help="A private host, address or network that the server may call, for notifications, "
            "files and remote agents: for example localhost or 10.0.0.0/8.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    sign_card: Annotated[
        Path | None,
        Parameter(help="A private key (PEM or JWK) that signs the card."),
    ] = None
    push_signing: Annotated[
        PushSigning | None,
        Parameter(
            help="The signature of notifications: hmac with the secret in ACC_PUSH_SECRET, jwt "
            "with --push-key, bearer for a JWT that is also sent in Authorization, or none. "
            "[default: jwt with a key, hmac with a secret]",
            show_default=False,
        ),
    ] = None
    push_key: Annotated[
        Path | None,
        Parameter(
            help="A private key (PEM or JWK) that signs notifications; the public key is at "
            "/.well-known/jwks.json."
        ),
    ] = None


@Parameter(name="*", group="Limits", show_default=True)
@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """Limits per caller and time limits."""

    max_body: Annotated[
        str, Parameter(help="The size of a request in bytes, with an optional suffix K, M or G.")
    ] = "8M"
    max_tasks: Annotated[int, Parameter(help="Running tasks per caller.")] = _DEFAULTS.tasks
    max_waiting: Annotated[int, Parameter(help="Tasks per caller that wait for an answer.")] = (
        _DEFAULTS.waiting
    )
    max_streams: Annotated[int, Parameter(help="Open streams per caller.")] = _DEFAULTS.streams
    rate_limit: Annotated[
        tuple[str, ...],
        Parameter(
            help="Requests per caller, such as 100/minute; can be repeated, with a shorter period "
            "to limit bursts. INTENT=10/minute limits one intent. [default: no limit]",
            negative=(),
            consume_multiple=False,
            show_default=False,
        ),
    ] = ()
    byte_limit: Annotated[
        tuple[str, ...],
        Parameter(
            help="Bytes in requests per caller, such as 100000000/hour. [default: no limit]",
            negative=(),
            consume_multiple=False,
            show_default=False,
        ),
    ] = ()
    tool_limit: Annotated[
        tuple[str, ...],
        Parameter(
            help="Calls of a tool per caller, such as search=10/minute; can be repeated.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    token_quota: Annotated[
        int | None,
        Parameter(
            help="Tokens of models per caller and day. [default: no limit]", show_default=False
        ),
    ] = None
    cost_quota: Annotated[
        float | None,
        Parameter(
            help="Cost of models per caller and day, in US dollars. [default: no limit]",
            show_default=False,
        ),
    ] = None
    max_stored_tasks: Annotated[int, Parameter(help="Stored tasks per caller.")] = (
        _DEFAULTS.stored_tasks
    )
    max_stored: Annotated[
        str, Parameter(help="Bytes of messages in stored tasks per caller, like --max-body.")
    ] = "512M"
    rate_limit_store: Annotated[
        str,
        Parameter(
            help='Where requests are counted: "memory" of this process, or a place that several '
            'servers share: "store" for the store of --store, the path or URL of another '
            "store, or the URL of a Valkey or Redis server, such as valkey://localhost:6379."
        ),
    ] = "memory"
    rate_limit_failure: Annotated[
        Literal["allow", "deny"],
        Parameter(
            help="While the counters of --rate-limit-store do not respond, accept requests (allow) "
            "or reject them with 503 (deny)."
        ),
    ] = "allow"
    replay_window: Annotated[
        float | None,
        Parameter(
            help="Seconds that context.timestamp of an intent may differ from the time of the "
            "server; its context.nonce is accepted once. [default: not checked]",
            show_default=False,
        ),
    ] = None
    replay_store: Annotated[
        str,
        Parameter(
            help="Where used nonces and token ids are stored; the same values as for "
            "--rate-limit-store. [default: --store]",
            show_default=False,
        ),
    ] = ""
    request_timeout: Annotated[
        float, Parameter(help="Seconds for the headers, and for the body, of a request.")
    ] = _DEFAULTS.receive
    heartbeat: Annotated[
        float, Parameter(help="Seconds between keep-alive messages of an idle stream.")
    ] = _DEFAULTS.heartbeat
    grace: Annotated[float, Parameter(help="Seconds for running tasks when the server stops.")] = (
        _DEFAULTS.grace
    )
    keep_days: Annotated[
        float, Parameter(help="Days until a finished task and its context are deleted.")
    ] = _DEFAULTS.keep / _DAY_SECONDS

    def to_server_limits(self) -> ServerLimits:
        """Return the limits of the server, or raise InvalidInput."""
        for option, value in (
            ("--max-tasks", self.max_tasks),
            ("--max-waiting", self.max_waiting),
            ("--max-streams", self.max_streams),
            ("--max-stored-tasks", self.max_stored_tasks),
            ("--token-quota", self.token_quota),
            ("--cost-quota", self.cost_quota),
            ("--replay-window", self.replay_window),
            ("--request-timeout", self.request_timeout),
            ("--heartbeat", self.heartbeat),
            ("--grace", self.grace),
            ("--keep-days", self.keep_days),
        ):
            if value is not None and not value > 0:
                raise InvalidInput(f"{option} must be greater than 0, got {value:g}")
        counts = (self.rate_limit, self.byte_limit, self.tool_limit)
        has_quota = self.token_quota is not None or self.cost_quota is not None
        if self.rate_limit_store != "memory" and not any(counts) and not has_quota:
            raise InvalidInput(
                "--rate-limit-store requires a limit to count: --rate-limit, --byte-limit, "
                "--tool-limit, --token-quota or --cost-quota"
            )
        return ServerLimits(
            body=parse_size(self.max_body, "--max-body"),
            tasks=self.max_tasks,
            waiting=self.max_waiting,
            stored_tasks=self.max_stored_tasks,
            stored_bytes=parse_size(self.max_stored, "--max-stored"),
            streams=self.max_streams,
            receive=self.request_timeout,
            heartbeat=self.heartbeat,
            grace=self.grace,
            keep=self.keep_days * _DAY_SECONDS,
            replay_window=self.replay_window,
        )
