"""Construction of runners and of the services that a run uses."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TextIO, cast

from acc.application.agents.base import BaseAgent, check_is_agent
from acc.application.agents.callbacks import Plugin
from acc.application.agents.validation import (
    default_model_advice,
    validate_names,
    warn_about_default_models,
)
from acc.application.memory.baselines import DEFAULT_WINDOW_TOKENS
from acc.application.memory.registry import check_agent_memory, is_acc
from acc.application.runtime.agent_memory import MAX_CACHED_MEMORIES, MemoryCache
from acc.application.runtime.run import Services
from acc.application.runtime.runner import SessionRunner
from acc.application.runtime.type_variables import AnyDepsT, AnyOutputT
from acc.bootstrap.engine import IN_PROCESS, make_engine
from acc.bootstrap.mcp import LazyMcpConnections
from acc.bootstrap.memory import RULES, compressor_name, make_memory, token_counter
from acc.bootstrap.models import (
    MODEL_NAMES,
    check_cache,
    check_model_ready,
    make_model,
)
from acc.bootstrap.schemas import LazySchemaValidator
from acc.bootstrap.settings import files_location, lease_seconds, model_cache
from acc.bootstrap.storage import make_blob_store, require_postgres
from acc.bootstrap.tracing import current_tracer
from acc.domain.call_options import check_call
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import DownloadLimits, RemoteEndpoint
from acc.domain.value_objects.run import RunConfig
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.engine_ports import EnginePort
from acc.ports.outbound.memory_ports import RecallIndexPort
from acc.ports.outbound.model_ports import LanguageModelPort
from acc.ports.outbound.remote_ports import RemoteAgentPort
from acc.ports.outbound.storage_ports import ArtifactStorePort, SessionStorePort
from acc.ports.outbound.system_ports import ClockPort, IdsPort, ThreadsPort

#: Options of the runner by the names that other libraries have for them.
_HINTS = {
    "app": "app_name",
    "name": "app_name",
    "root_agent": "agent",
    "session_service": "store",
    "session_store": "store",
    "artifact_service": "store",
    "checkpointer": "store",
    "database": "store",
    "db": "store",
    "url": "store",
    "memory": "set memory=... on the agents",
    "memory_service": "set memory=... on the agents",
    "model": "set model=... on the agents",
    "session_id": "pass session_id=... to run",
    "user_id": "pass user_id=... to run",
    "timeout": "pass config=RunConfig(timeout=...)",
    "max_turns": "pass config=RunConfig(max_llm_calls=...)",
    "run_config": "config",
}
GraphFormat = Literal["mermaid", "svg"]


class Runner(SessionRunner[AnyDepsT, AnyOutputT]):
    """Runs an agent tree for the sessions of an application.

    `store` is "memory", the path of a SQLite file, the URL of a PostgreSQL database, or a pair of
    your own stores for sessions and artifacts. `files` is where the content of large files is
    stored if not in the database: a directory, or s3://BUCKET/PREFIX. `models` defines model names
    in addition to "embedded" and those of providers, such as "openai:gpt-5.2".
    `max_cached_memories` is the number of memories, one for each agent and session, that stay in
    the process; others are restored from the store. `deps` are the dependencies of runs that are
    started without their own. `plugins` have callbacks for all agents. `engine` is "in-process", or
    the URL of a Temporal service, such as "temporal://localhost:7233", whose workers execute the
    runs (`acc worker`).
    """

    if not TYPE_CHECKING:

        def __new__(cls, *arguments: object, **options: object) -> "Runner":
            """Raise InvalidInput for options that the class does not have."""
            check_call(cls, arguments, options, hints=_HINTS)
            return super().__new__(cls)

    def __init__(
        self,
        agent: BaseAgent[AnyDepsT, AnyOutputT],
        *,
        app_name: str = "app",
        store: "str | Path | tuple[SessionStorePort, ArtifactStorePort]" = "memory",
        files: str | Path = "",
        config: RunConfig | None = None,
        models: Mapping[str, LanguageModelPort] | None = None,
        max_cached_memories: int = MAX_CACHED_MEMORIES,
        services: Services | None = None,
        deps: AnyDepsT | None = None,
        plugins: Sequence[Plugin[AnyDepsT]] = (),
        engine: "str | EnginePort" = IN_PROCESS,
    ) -> None:
        if models is not None:
            _check_models(models)
        if services is not None and not isinstance(services, Services):
            raise InvalidInput(
                f"services must be what make_services(...) returns, got {type(services).__name__}; "
                "to choose a store or models use store= and models="
            )
        if services is None and isinstance(agent, BaseAgent):
            check_names(agent, own_models=models or {})
        if isinstance(agent, BaseAgent) and "embedded" not in (models or {}):
            warn_about_default_models(agent)
        super().__init__(
            agent,
            app_name=app_name,
            services=services
            or make_services(
                store=store,
                files=files,
                models=models,
                max_cached_memories=max_cached_memories,
            ),
            config=config,
            deps=deps,
            plugins=plugins,
            engine=make_engine(engine, store if services is None else None),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close models, embedders, MCP connections, stores and the connection to the engine."""
        try:
            if self.engine is not None:
                await self.engine.aclose()
        finally:
            await super().aclose()


def check_names(agent: BaseAgent, *, own_models: Container[str] = ()) -> None:
    """Raise InvalidInput if an agent of the tree names an unknown model or memory."""
    validate_names(agent, _Names(validate=MODEL_NAMES.check), own_models=own_models)


def _check_models(models: object) -> None:
    found = models.values() if isinstance(models, Mapping) else (None,)
    if not all(callable(getattr(model, "complete", None)) for model in found):
        raise InvalidInput(
            "models must map names to objects with `async complete(prompt)`, such as "
            '{"mine": MyModel()}; names of providers are given to the agents'
        )


def check_models(agent: BaseAgent, *, accept_cached: bool = False) -> None:
    """Raise InvalidInput if a model of the tree has an unknown name, no key or no library.

    With `accept_cached`, only names are checked if model responses are cached on disk.
    """
    check_is_agent(agent)
    cache = model_cache()
    if cache is not None:
        check_cache(cache)
    only_names = cache is not None and accept_cached
    validate_names(agent, _Names(validate=MODEL_NAMES.check if only_names else check_model_ready))


def check_has_models(agent: BaseAgent, *, flag: str) -> None:
    """Raise InvalidInput if an agent of the tree has no model; `flag` allows it."""
    advice = default_model_advice(agent)
    if advice:
        raise InvalidInput(f"{advice}, or add {flag}")


class _ValidateModel(Protocol):
    def __call__(self, name: str, /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """Implements NameValidator with the models and memories of acc."""

    validate: _ValidateModel

    def validate_model(self, name: str) -> None:
        self.validate(name)

    def compressor_model(self, memory: str) -> str:
        check_agent_memory(memory)
        compressor = compressor_name(memory) if is_acc(memory) else RULES
        return "" if compressor == RULES else compressor


def make_services(
    *,
    store: "str | Path | tuple[SessionStorePort, ArtifactStorePort]" = "memory",
    files: str | Path = "",
    models: Mapping[str, LanguageModelPort] | None = None,
    max_cached_memories: int = MAX_CACHED_MEMORIES,
    clock: ClockPort | None = None,
    ids: IdsPort | None = None,
    allow: Sequence[str] = (),
) -> Services:
    """Return the services of a run; arguments replace the default ones.

    `allow` lists hosts and networks that remote agents, files and MCP servers may use although they
    are not public.
    """
    from acc.adapters.system.clock import RandomIds, SystemClock

    clock = clock or SystemClock()
    sessions, artifacts = (
        _check_pair(store) if isinstance(store, tuple) else make_stores(store, clock, files=files)
    )
    own_models = dict(models or {})
    remote_agents = _RemoteAgents(tuple(allow))
    services = Services(
        sessions=sessions,
        artifacts=artifacts,
        models=lambda name: own_models[name] if name in own_models else make_model(name),
        # The model of a compressor is one of the services, so that sessions share its connections.
        memories=lambda name: make_memory(
            name, window=DEFAULT_WINDOW_TOKENS, models=services.model
        ),
        tokens=token_counter,
        threads=threads(),
        clock=clock,
        ids=ids or RandomIds(),
        memory_cache=MemoryCache(max_entries=max_cached_memories),
        remote=remote_agents.get,
        fetch=remote_agents.download,
        intents=LazyIntentCaller(tuple(allow)),
        mcp=LazyMcpConnections(allow),
        schemas=LazySchemaValidator(),
        recall=lambda key, name: _recall_index(sessions, key, name),
        tracer=current_tracer(),
    )
    return services


def _recall_index(sessions: SessionStorePort, key: SessionKey, name: str) -> RecallIndexPort:
    """Return the recall index of an agent's memory, which has the lifetime of the session."""
    from acc.adapters.storage.in_memory import InMemorySessionStore
    from acc.bootstrap.memory import new_recall_index, term_extractor

    if isinstance(sessions, InMemorySessionStore):
        indexes = sessions.attachments(key)
        if name not in indexes:
            indexes[name] = new_recall_index()
        return cast("RecallIndexPort", indexes[name])
    make_index = getattr(sessions, "recall_index", None)
    if make_index is not None:
        return cast("RecallIndexPort", make_index(key, name, term_extractor()))
    return new_recall_index()


def _check_pair(store: tuple[Any, ...]) -> tuple[SessionStorePort, ArtifactStorePort]:
    if len(store) != 2 or not hasattr(store[0], "begin_turn") or not hasattr(store[1], "save"):
        raise InvalidInput(
            "a tuple as store must be (session store, artifact store), with the methods of "
            "SessionStorePort and ArtifactStorePort"
        )
    return store


class LazyIntentCaller:
    """Calls intents of other agents; the HTTP library is imported on first use."""

    def __init__(self, allow: tuple[str, ...] = ()) -> None:
        self._allow = allow

    async def call(
        self,
        url: str,
        payload: Mapping[str, Any],
        *,
        token: str = "",
        timeout: float = 60.0,  # noqa: ASYNC109 - a limit of the request
        allow: Sequence[str] = (),
        trace_parent: str = "",
    ) -> Mapping[str, Any]:
        """Return the outputs of an intent; failures are raised as subclasses of AccError."""
        from acc.bootstrap.a2a_client import make_intent_caller

        caller = make_intent_caller(allow=(*self._allow, *allow))
        return await caller.call(
            url, payload, token=token, timeout=timeout, trace_parent=trace_parent
        )


class _RemoteAgents:
    """Constructs one client per remote agent, which caches the agent's card."""

    def __init__(self, allow: tuple[str, ...]) -> None:
        self._allow = allow
        self._clients: dict[RemoteEndpoint, RemoteAgentPort] = {}

    def get(self, endpoint: RemoteEndpoint) -> RemoteAgentPort:
        from acc.bootstrap.a2a_client import make_remote

        if endpoint not in self._clients:
            self._clients[endpoint] = make_remote(endpoint, allow=self._allow)
        return self._clients[endpoint]

    async def download(self, url: str, limits: DownloadLimits) -> Part:
        from acc.bootstrap.a2a_client import download_file

        return await download_file(url, limits, allow=self._allow)


def make_stores(
    store: str | Path, clock: ClockPort, *, files: str | Path = ""
) -> tuple[SessionStorePort, ArtifactStorePort]:
    """Return stores in memory, in the SQLite file at a path, or in a PostgreSQL database.

    `files` is where the content of large files is stored: a directory, or s3://BUCKET/PREFIX. By
    default it is `ACC_FILES`, or the database if that is not set.
    """
    from acc.adapters.storage.location import PostgresLocation, parse_location

    if not isinstance(files, str | Path):
        raise InvalidInput(
            "files must be the path of a directory, or s3://BUCKET/PREFIX, got "
            f"{type(files).__name__}"
        )
    location = parse_location(store)
    if location is None:
        from acc.adapters.storage.in_memory import InMemoryArtifactStore, InMemorySessionStore

        in_memory = InMemoryArtifactStore()
        return InMemorySessionStore(
            clock=clock, lease=lease_seconds(), artifacts=in_memory
        ), in_memory
    from acc.adapters.storage.blob_artifacts import BlobArtifactStore

    blobs = make_blob_store(files or files_location())
    if isinstance(location, PostgresLocation):
        require_postgres()
        from acc.adapters.storage.postgres_artifacts import PostgresArtifactStore
        from acc.adapters.storage.postgres_sessions import PostgresSessionStore

        shared = PostgresSessionStore(location, clock=clock, lease=lease_seconds())
        return shared, BlobArtifactStore(PostgresArtifactStore(shared.database), blobs=blobs)
    from acc.adapters.storage.sqlite_sessions import SqliteArtifactStore, SqliteSessionStore

    sessions = SqliteSessionStore(location, clock=clock, lease=lease_seconds())
    return sessions, BlobArtifactStore(SqliteArtifactStore(sessions.database), blobs=blobs)


@lru_cache(maxsize=1)
def threads() -> ThreadsPort:
    """Return the threads of this process for blocking functions."""
    from acc.adapters.system.threads import DaemonThreads

    return DaemonThreads()


def load_agent(reference: str) -> BaseAgent:
    """Return the agent that `MODULE:AGENT` or `FILE.py:AGENT` refers to.

    `FRAMEWORK:MODULE:AGENT` is an agent of another framework, `openai:URL#MODEL` a model behind an
    OpenAI-compatible server.
    """
    from acc.adapters.system import agent_loader
    from acc.application.evaluation.configuration import CHAT_PREFIX
    from acc.bootstrap.frameworks import convert_agent, make_chat_agent, split_reference

    prefix, rest = split_reference(reference)
    if prefix == CHAT_PREFIX:
        return make_chat_agent(rest)
    return agent_loader.load_agent(
        rest, convert=partial(convert_agent, prefix=prefix, reference=reference)
    )


def draw_graph(agent: BaseAgent, graph_format: GraphFormat) -> str:
    """Return an agent tree as Mermaid text or as SVG."""
    if graph_format == "svg":
        from acc.adapters.diagrams.svg import svg

        return svg(agent)
    from acc.adapters.diagrams.graph import mermaid

    return mermaid(agent)


def log_warnings(stream: TextIO) -> None:
    """Write warnings and errors to a stream as text, unless logs are configured already."""
    from acc.adapters.system.logs import log_warnings_to

    log_warnings_to(stream)


def log_runs(stream: TextIO) -> None:
    """Write the log of runs to a stream as JSON lines."""
    from acc.adapters.system.logs import log_runs_to

    log_runs_to(stream)


def log_requests(stream: TextIO) -> None:
    """Write the logs of runs and of served requests to a stream as JSON lines."""
    from acc.adapters.system.logs import ACCESS_LOGGER, LOGGER, log_runs_to

    log_runs_to(stream, loggers=(LOGGER, ACCESS_LOGGER))
