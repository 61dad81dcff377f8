"""Construct the proxy that gives clients of the OpenAI API a bounded memory."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from acc.application.memory.acc import DEFAULT_BUDGET_TOKENS
from acc.bootstrap.agents import make_services
from acc.bootstrap.frameworks import make_history_memory
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import redact_secrets

if TYPE_CHECKING:
    from starlette.applications import Starlette

_MISSING_PACKAGE = "the proxy needs the package {}; install it: pip install 'acc-agents[a2a]'"
#: Seconds that a model may take for an answer, or between two parts of a stream.
_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """The options of a proxy; `to` is the base URL of an OpenAI-compatible server."""

    to: str
    store: str = "memory"
    budget: int = DEFAULT_BUDGET_TOKENS
    embeddings: str = "none"
    compressor: str = "rules"
    api_key: str = ""
    token: str = ""


def make_proxy(options: ProxyOptions) -> "Starlette":
    """Return the proxy as an ASGI application."""
    url = urlsplit(options.to)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise InvalidInput(
            f"{redact_secrets(options.to)!r} is not the base URL of an OpenAI-compatible server, "
            "such as https://api.openai.com/v1"
        )
    try:
        from acc.adapters.http.client import guarded_client
        from acc.adapters.proxy.app import Proxy
        from acc.adapters.proxy.chains import ResponseChains
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING_PACKAGE.format(error.name)) from error

    services = make_services(store=options.store)
    memory = make_history_memory(
        app_name="proxy",
        budget=options.budget,
        embeddings=options.embeddings,
        compressor=options.compressor,
        services=services,
    )
    chains = ResponseChains(sessions=services.sessions, clock=services.clock, ids=services.ids)
    client = guarded_client(allow=(url.hostname,), timeout=_TIMEOUT)
    return Proxy(
        base_url=options.to,
        client=client,
        memory=memory,
        chains=chains,
        ids=services.ids,
        clock=services.clock,
        api_key=options.api_key,
        token=options.token,
    ).app()


def serve_proxy(
    options: ProxyOptions, *, host: str, port: int, on_ready: Callable[[int], None]
) -> bool:
    """Serve until a signal is received; return True if the proxy started.

    A store that cannot be used raises StorageFailed before the proxy listens. After SIGTERM the
    answers in progress are completed.
    """
    app = make_proxy(options)
    from acc.adapters.a2a.server.asgi import ConnectionLimits
    from acc.adapters.a2a.server.uvicorn import bind, run
    from acc.bootstrap.a2a import check_store

    asyncio.run(check_store(options.store))
    listener = bind(host, port)
    bound_port = listener.getsockname()[1]
    # A connection is closed after half of the time.
    limits = ConnectionLimits(stop=2 * _TIMEOUT)
    return run(app, listener, limits=limits, on_ready=lambda: on_ready(bound_port))
