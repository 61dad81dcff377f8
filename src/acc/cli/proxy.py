"""`acc proxy`: bounded memory for clients of the OpenAI API."""

from typing import Annotated

from cyclopts import Parameter

from acc.application.memory.acc import DEFAULT_BUDGET_TOKENS
from acc.bootstrap import settings
from acc.bootstrap.proxy import ProxyOptions, serve_proxy
from acc.cli.output import configure_logging
from acc.cli.output import console as output
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import is_loopback_host, redact_secrets

_DEFAULT_PORT = 8080


def proxy(
    *,
    to: Annotated[
        str,
        Parameter(
            help="The base URL of an OpenAI-compatible server, such as https://api.openai.com/v1."
        ),
    ],
    store: Annotated[
        str,
        Parameter(
            help='The path of a SQLite file, a PostgreSQL URL, or "memory".', show_default=True
        ),
    ] = "memory",
    budget: Annotated[
        int,
        Parameter(
            help="Maximum tokens of the memory and the last exchange in each request.",
            show_default=True,
        ),
    ] = DEFAULT_BUDGET_TOKENS,
    embeddings: Annotated[
        str, Parameter(help="Embeddings for recall; see the memory guide.", show_default=True)
    ] = "none",
    compressor: Annotated[
        str,
        Parameter(help='The model that reads turns, or "rules" for the reader.', show_default=True),
    ] = "rules",
    api_key: Annotated[
        str,
        Parameter(
            help="The key for the server, env:NAME or a text. [default: the key of each client]",
            show_default=False,
        ),
    ] = "",
    token: Annotated[
        str,
        Parameter(help="The key that clients of the proxy must send, env:NAME or a text."),
    ] = "",
    host: Annotated[str, Parameter(help="The address to listen on.", show_default=True)] = (
        "127.0.0.1"
    ),
    port: Annotated[
        int | None,
        Parameter(
            help="The port to listen on; 0 selects a free port. [default: the variable PORT, or "
            "8080]",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Serve the OpenAI API in front of another server, with ACC memory instead of the history.

    Clients only change their base URL. The header X-Acc-Session names a conversation; without it,
    the proxy recognises the conversation by its first messages. The Responses API continues from
    previous_response_id.

    Example: acc proxy --to https://api.openai.com/v1 --store memory.db
    """
    options = ProxyOptions(
        to=to,
        store=store,
        budget=budget,
        embeddings=embeddings,
        compressor=compressor,
        api_key=settings.resolve_token(api_key) if api_key else "",
        token=settings.resolve_token(token) if token else "",
    )
    is_loopback = is_loopback_host(host)
    if not is_loopback and options.api_key and not options.token:
        raise InvalidInput(
            f"--host {host} is reachable from other machines, which would use --api-key; add "
            "--token env:NAME, so that only those who know the token can use the proxy"
        )

    def print_url(bound_port: int) -> None:
        name = f"[{host}]" if ":" in host else host
        lines = [
            f"OpenAI API at http://{name}:{bound_port}/v1",
            f"forwards to {redact_secrets(to)}",
        ]
        for line in lines:
            output().print(line, markup=False, highlight=False)

    configure_logging()
    selected = settings.default_port(_DEFAULT_PORT) if port is None else port
    return 0 if serve_proxy(options, host=host, port=selected, on_ready=print_url) else 1
