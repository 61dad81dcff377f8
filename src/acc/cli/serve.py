"""`acc serve`: serve an agent over A2A."""

from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from sys import stderr
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from acc.application.a2a.quotas import check_limited_names
from acc.application.agents.base import BaseAgent
from acc.application.contracts.intents import IntentAgent, Intents
from acc.application.contracts.node_agents import NodeAgent
from acc.bootstrap import settings
from acc.bootstrap.a2a import (
    ServeOptions,
    card_signer,
    connection_limits,
    hmac_signer,
    jwt_signer,
    read_card,
    serve_forever,
)
from acc.bootstrap.agents import check_has_models, load_agent, log_requests
from acc.bootstrap.callers import (
    make_certificates,
    make_limiter,
    make_used_ids,
    make_verifier,
    split_issuer,
)
from acc.bootstrap.events import describe_carrier
from acc.bootstrap.storage import describe_store
from acc.bootstrap.tracing import start_tracing
from acc.cli.call import check_allow
from acc.cli.options import AllowEmbeddedOption, MetricsOption, OtelOption, VerboseOption
from acc.cli.output import configure_logging, console
from acc.cli.serve_options import AccessOptions, AddressOptions, LimitOptions, PushSigning
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import CardConfig
from acc.domain.value_objects.endpoint import (
    check_public_url,
    is_loopback_host,
    is_loopback_url,
    is_unspecified_host,
)
from acc.ports.outbound.auth_ports import NotificationSignerPort

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORT = 8000


def serve(
    agent: Annotated[str, Parameter(help="MODULE:AGENT or FILE.py:AGENT.")],
    /,
    *,
    address: AddressOptions | None = None,
    access: AccessOptions | None = None,
    limits: LimitOptions | None = None,
    protocol_version: Annotated[
        tuple[Literal["1.0", "0.3"], ...],
        Parameter(
            help="A protocol version to serve. [default: both]",
            negative=(),
            consume_multiple=False,
            show_default=False,
        ),
    ] = (),
    allow_embedded: AllowEmbeddedOption = False,
    no_deduplication: Annotated[
        bool,
        Parameter(
            help="Treat a repeated message, with the same id and parts, as a new one. The official "
            "conformance tests need it; clients that retry do not.",
            negative=(),
        ),
    ] = False,
    verbose: VerboseOption = False,
    ag_ui: Annotated[
        bool,
        Parameter(
            help="Serve front ends that use AG-UI at /ag-ui, with the same callers and limits. "
            "Requires the extra ag-ui.",
            negative=(),
        ),
    ] = False,
    otel: OtelOption = False,
    metrics: MetricsOption = False,
) -> int:
    """Serve an agent over A2A 1.0 and 0.3: as JSON-RPC and HTTP+JSON on one URL, and as gRPC.

    Notifications are signed with the secret in ACC_PUSH_SECRET, or with the key of --push-key.
    """
    address, access = address or AddressOptions(), access or AccessOptions()
    limits = limits or LimitOptions()
    has_certificates = address.tls_client_ca is not None or bool(address.tls_proxy)
    requires_auth = access.tokens is not None or bool(access.oidc) or has_certificates
    server_limits = limits.to_server_limits()
    limiter = make_limiter(
        limits.rate_limit,
        bytes_per_caller=limits.byte_limit,
        tools=limits.tool_limit,
        tokens_per_day=limits.token_quota,
        cost_per_day=limits.cost_quota,
        store=address.store if limits.rate_limit_store == "store" else limits.rate_limit_store,
        on_failure=limits.rate_limit_failure,
    )
    needs_used_ids = access.single_use_tokens or limits.replay_window is not None
    used_ids = make_used_ids(limits.replay_store or address.store) if needs_used_ids else None
    _check_engine(address.engine, limits)
    signing = _select_signing(access)
    sign_card = None if access.sign_card is None else card_signer(access.sign_card)
    check_allow(access.allow)
    if address.tls_cert is None and (address.tls_key or address.tls_client_ca):
        raise InvalidInput("--tls-key and --tls-client-ca require the certificate: --tls-cert FILE")
    certificates = (
        make_certificates(
            proxies=address.tls_proxy,
            header=address.tls_proxy_header,
            permissions=access.default_scope,
        )
        if has_certificates
        else None
    )
    card = None if address.card is None else read_card(address.card)
    public_url = _public_url(address, card)
    _check_host(address.host, is_protected=requires_auth or access.unprotected)
    if is_unspecified_host(address.host) and not public_url:
        raise InvalidInput(
            f"--host {address.host} is not an address that clients can call; add --public-url with "
            "the URL of this server for clients, which is published on the card"
        )
    _check_oidc(access, public_url, has_certificates=has_certificates)
    is_local = is_loopback_host(address.host) and (not public_url or is_loopback_url(public_url))
    configure_logging()
    root = _load(agent, allow_embedded=allow_embedded)
    check_limited_names(root, card, limits.rate_limit, limits.tool_limit)

    def make_options(listen_url: str) -> ServeOptions:
        url = (public_url or listen_url).rstrip("/")
        hosts = sorted({*_LOOPBACK, address.host, urlsplit(url).hostname or address.host})
        signer, public_keys = _make_signer(signing, access.push_key, url)
        return ServeOptions(
            public_url=url,
            card=card,
            store=address.store,
            verifier=make_verifier(
                tokens=access.tokens,
                issuers=access.oidc,
                audience=access.audience or (url,),
                default_scopes=access.default_scope,
                allow=access.allow,
                used_ids=used_ids if access.single_use_tokens else None,
            ),
            certificates=certificates,
            issuers=[split_issuer(issuer)[1] for issuer in access.oidc],
            allow=access.allow,
            hosts=None if requires_auth or access.unprotected else hosts,
            signer=signer,
            public_keys=public_keys,
            sign_card=sign_card,
            limits=server_limits,
            limiter=limiter,
            used_ids=used_ids,
            connections=connection_limits(limits.request_timeout),
            protocol_versions=tuple(dict.fromkeys(protocol_version)) or ("1.0", "0.3"),
            deduplicate=not no_deduplication,
            anonymous_listing=access.anonymous_listing or is_local,
            cors_origins=access.cors_origin,
            engine=address.engine,
            ag_ui=ag_ui,
            events_to=address.events_to,
        )

    if verbose:
        log_requests(stderr)
    tracing = start_tracing(requested=otel, metrics_page=metrics, service_name=root.name)
    try:
        started = serve_forever(
            root,
            make_options,
            host=address.host,
            port=_select_port(address),
            grpc_port=address.grpc_port,
            on_ready=lambda options: _print_summary(root, options),
            certificate=address.tls_cert,
            private_key=address.tls_key,
            client_authority=address.tls_client_ca,
        )
    finally:
        tracing.shutdown()
    return 0 if started else 1


def _load(agent: str, *, allow_embedded: bool) -> BaseAgent:
    with redirect_stdout(stderr):  # the command prints only its own output to stdout
        root = load_agent(agent)
    if not allow_embedded:
        check_has_models(root, flag="--allow-embedded")
    return root


def _select_port(address: AddressOptions) -> int:
    port = settings.default_port(_DEFAULT_PORT) if address.port is None else address.port
    if port and port == address.grpc_port:
        raise InvalidInput(f"--port and --grpc-port are both {port}; choose two ports")
    return port


def _check_host(host: str, *, is_protected: bool) -> None:
    """Raise InvalidInput if an unprotected server would be reachable from other machines."""
    if is_protected or is_loopback_host(host):
        return
    raise InvalidInput(
        f"without --tokens, --oidc or --tls-client-ca anyone who reaches {host} can use this "
        "agent; add --tokens FILE (see `acc token`), --oidc ISSUER or --tls-client-ca FILE, or "
        "--unprotected to allow it"
    )


def _check_engine(engine: str, limits: LimitOptions) -> None:
    """Raise InvalidInput for limits that the workers of an engine do not enforce."""
    if engine != "in-process" and (
        limits.tool_limit or limits.token_quota is not None or limits.cost_quota is not None
    ):
        raise InvalidInput(
            "--tool-limit, --token-quota and --cost-quota are not supported with --engine, because "
            "workers do not enforce them; remove them, or run the tasks in this process"
        )


def _check_oidc(access: AccessOptions, public_url: str, *, has_certificates: bool) -> None:
    """Raise InvalidInput for options of callers that contradict each other."""
    if access.oidc and not (access.audience or public_url):
        raise InvalidInput(
            "--oidc requires --audience URL, the audience that tokens for this agent must contain"
        )
    for option, value in (
        ("--audience", access.audience),
        ("--single-use-tokens", access.single_use_tokens),
    ):
        if value and not access.oidc:
            raise InvalidInput(f"{option} requires --oidc")
    if access.default_scope and not (access.oidc or has_certificates):
        raise InvalidInput("--default-scope requires --oidc, --tls-client-ca or --tls-proxy")
    if has_certificates and not all(split_issuer(issuer)[0] for issuer in access.oidc):
        raise InvalidInput(
            "with client certificates an issuer needs a prefix, such as --oidc "
            "staff=https://login.example.com, so that its callers differ from those of certificates"
        )


def _public_url(address: AddressOptions, card: CardConfig | None) -> str:
    """Return the URL that the options publish, empty for the address of the server."""
    declared = "" if card is None else card.url
    for option, url in (("--public-url", address.public_url), (f"{address.card}: url", declared)):
        if url:
            try:
                check_public_url(url)
            except InvalidInput as error:
                raise InvalidInput(f"{option}: {error}") from None
    if declared and address.public_url and declared.rstrip("/") != address.public_url.rstrip("/"):
        raise InvalidInput(
            f"--public-url {address.public_url} and the url {declared} in {address.card} differ; "
            "remove one of them"
        )
    return address.public_url or declared


def _select_signing(access: AccessOptions) -> PushSigning:
    """Return the signature of notifications, or raise InvalidInput for conflicting options."""
    secret, key = settings.push_secret(), access.push_key
    signing = access.push_signing
    if signing is None:
        signing = "jwt" if key is not None else "hmac" if secret else "none"
    if signing in ("hmac", "none"):
        if key is not None:
            raise InvalidInput(f"--push-key requires --push-signing jwt or bearer, not {signing}")
        if signing == "hmac" and not secret:
            raise InvalidInput("--push-signing hmac: set ACC_PUSH_SECRET to the shared secret")
    elif key is None:
        raise InvalidInput(f"--push-signing {signing} requires the private key: --push-key FILE")
    return signing


def _make_signer(
    signing: PushSigning, key: Path | None, url: str
) -> tuple[NotificationSignerPort | None, Mapping[str, Any] | None]:
    if signing == "none":
        return None, None
    if key is None:
        try:
            return hmac_signer(settings.push_secret()), None
        except InvalidInput as error:
            raise InvalidInput(f"ACC_PUSH_SECRET: {error}") from None
    try:
        return jwt_signer(key, issuer=url, bearer=signing == "bearer")
    except InvalidInput as error:
        raise InvalidInput(f"--push-key {key}: {error}") from None


def _example_call(root: BaseAgent) -> str:
    """Return example arguments of `acc call` for an agent."""
    if not isinstance(root, IntentAgent | NodeAgent):
        return '"hello"'
    contract = Intents(root).contracts[0]
    inputs = "".join(f" --input {name}=VALUE" for name in contract.required_inputs)
    return f"--intent {contract.name}{inputs}"


def _print_summary(root: BaseAgent, options: ServeOptions) -> None:
    url = options.public_url
    callers = "anonymous, this machine only"
    kinds = [
        kind
        for kind, verifier in (
            ("a token", options.verifier),
            ("a client certificate", options.certificates),
        )
        if verifier is not None
    ]
    if kinds:
        callers = f"with {' or '.join(kinds)}"
    elif options.hosts is None:
        callers = "ANONYMOUS, also from other machines"
    token = "" if options.verifier is None else " --token-env NAME"
    table = Table.grid(padding=(0, 2))
    table.add_row("serving", f"[bold]{root.name}[/bold] at {url}")
    table.add_row("card", f"{url}/.well-known/agent-card.json")
    if options.grpc is not None:
        table.add_row("grpc", options.grpc.target)
    if options.ag_ui:
        table.add_row("ag-ui", f"{url}/ag-ui")
    table.add_row("callers", callers)
    table.add_row("store", escape(describe_store(str(options.store))))
    if options.events_to:
        table.add_row("events to", escape(describe_carrier(options.events_to)))
    table.add_row("try", f"acc call {url} {_example_call(root)}{token}")
    console().print(table)
