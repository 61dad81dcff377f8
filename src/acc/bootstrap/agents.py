"""What a run of agents is made of: stores, models, memories, threads, clock."""

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acc.application.agents.base import BaseAgent
from acc.application.runtime.agent_memory import MemoryCache
from acc.application.runtime.run import Services
from acc.application.runtime.runner import SessionRunner
from acc.application.tools.tool import Tool
from acc.bootstrap.mcp import LateMcpConnections
from acc.bootstrap.memory import RULES, compressor_of, is_memory, make_memory, token_counter
from acc.bootstrap.models import (
    check_cache,
    check_model_name,
    check_model_ready,
    make_model,
    model_cache,
)
from acc.domain.errors import AccError, InvalidInput, InvalidTree
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import DownloadLimits, RemoteEndpoint
from acc.domain.value_objects.run import RunConfig
from acc.ports.outbound.model_ports import LanguageModelPort
from acc.ports.outbound.remote_ports import FetchFile, RemoteAgentPort
from acc.ports.outbound.storage_ports import ArtifactStorePort, SessionStorePort
from acc.ports.outbound.system_ports import ClockPort, IdsPort, ThreadsPort

if TYPE_CHECKING:
    from acc.ports.outbound.memory_ports import MemoryPort


MEMORIES = ("transcript", "retrieval", "acc")


class Runner(SessionRunner):
    """Runs a tree of agents for the sessions of an application.

    `store` says where sessions live: "memory", the path of a SQLite file, or a pair of stores of
    your own for sessions and artifacts. `models` answer to names of your choosing, beside
    "embedded" and those of providers, such as "openai:gpt-5.2".
    """

    def __init__(
        self,
        agent: BaseAgent,
        *,
        app_name: str = "app",
        store: "str | Path | tuple[SessionStorePort, ArtifactStorePort]" = "memory",
        config: RunConfig | None = None,
        models: dict[str, LanguageModelPort] | None = None,
        services: Services | None = None,
    ) -> None:
        if services is None and isinstance(agent, BaseAgent):
            _check_choices(agent, models or {})
        super().__init__(
            agent,
            app_name=app_name,
            services=services or make_services(store=store, models=models),
            config=config,
        )


def _check_choices(agent: BaseAgent, models: Mapping[str, LanguageModelPort]) -> None:
    """Refuse names of models and memories that nobody answers to, before a run needs them."""
    for found in agent.everyone():
        model, memory = getattr(found, "model", None), getattr(found, "memory", None)
        if isinstance(model, str) and model not in models:
            try:
                check_model_name(model)
            except InvalidInput as error:
                raise InvalidInput(f"agent {found.name!r}: {error}") from None
        if isinstance(memory, str):
            _check_memory(found.name, memory, models)


def _check_memory(agent: str, memory: str, models: Mapping[str, LanguageModelPort]) -> None:
    if memory == "oracle" or not is_memory(memory):
        raise InvalidInput(f"agent {agent!r}: {_unknown_memory(memory)}")
    if memory.partition(":")[0] != "acc":
        return
    compressor = compressor_of(memory)
    if compressor not in models:
        try:
            _check_compressor(compressor, check_model_name)
        except InvalidInput as error:
            raise InvalidInput(f"agent {agent!r}: {error}") from None


def check_models(agent: BaseAgent, *, kept_may_do: bool = False) -> None:
    """Refuse a tree with a model that could not be asked: no such name, no key, no library.

    Compressors' models are looked at too. With `kept_may_do` neither key nor library is wanted
    where answers are kept on disk.
    """
    cache = model_cache()
    if cache is not None:
        check_cache(cache)
    check = check_model_name if cache is not None and kept_may_do else check_model_ready
    for found in agent.everyone():
        model, memory = getattr(found, "model", None), getattr(found, "memory", None)
        try:
            if isinstance(model, str) and model:
                check(model)
            if isinstance(memory, str) and memory.partition(":")[0] == "acc":
                _check_compressor(compressor_of(memory), check)
        except InvalidInput as error:
            raise InvalidInput(f"agent {found.name!r}: {error}") from None


def _check_compressor(name: str, check: Callable[[str], None]) -> None:
    try:
        if name != RULES:
            check(name)
    except InvalidInput as error:
        raise InvalidInput(f"the compressor: {error}") from None


def _unknown_memory(name: str) -> str:
    return f"no memory {name!r}: choose one of {', '.join(MEMORIES)}, or acc:MODEL"


def make_services(
    *,
    store: "str | Path | tuple[SessionStorePort, ArtifactStorePort]" = "memory",
    models: dict[str, LanguageModelPort] | None = None,
    clock: ClockPort | None = None,
    ids: IdsPort | None = None,
    allow: Sequence[str] = (),
) -> Services:
    """Return the ports that a run may use; what is not given is ours.

    `allow` lists hosts and networks where remote agents, files and MCP servers may be although they
    are not public.
    """
    from acc.adapters.system.clock import RandomIds, SystemClock

    clock = clock or SystemClock()
    sessions, artifacts = store if isinstance(store, tuple) else make_stores(store, clock)
    named = dict(models or {})
    services = Services(
        sessions=sessions,
        artifacts=artifacts,
        models=lambda name: named[name] if name in named else make_model(name),
        memories=make_conversation_memory,
        tokens=token_counter,
        threads=threads(),
        clock=clock,
        ids=ids or RandomIds(),
        memory_cache=MemoryCache(),
        remote=_remotes(tuple(allow)),
        fetch=_files(tuple(allow)),
        mcp=LateMcpConnections(allow),
        schema_error=_schema_error,
    )
    # A compressor's model is one of the run's, so that sessions share its connections.
    services.memories = partial(make_conversation_memory, models=services.model)
    return services


def _schema_error(schema: Mapping[str, Any], value: Any) -> str:
    from acc.adapters.system.json_schema import schema_error

    return schema_error(schema, value)


def _remotes(allow: tuple[str, ...]) -> Callable[[RemoteEndpoint], RemoteAgentPort]:
    """Return what makes the client of an address, once, so that its card is kept."""
    known: dict[RemoteEndpoint, RemoteAgentPort] = {}

    def remote(address: RemoteEndpoint) -> RemoteAgentPort:
        if address not in known:
            from acc.bootstrap.a2a_client import make_remote

            known[address] = make_remote(address, allow=allow)
        return known[address]

    return remote


def _files(allow: tuple[str, ...]) -> FetchFile:
    """Return what fetches files, through the guarded HTTP client that remote agents use."""

    async def fetch(url: str, terms: DownloadLimits) -> Part:
        from acc.bootstrap.a2a_client import fetch_guarded

        return await fetch_guarded(url, terms, allow=allow)

    return fetch


def make_stores(store: str | Path, clock: ClockPort) -> tuple[SessionStorePort, ArtifactStorePort]:
    """Return stores in memory, or in the SQLite file at a path."""
    if not isinstance(store, str | os.PathLike):
        raise InvalidInput(
            f'store is "memory", the path of a SQLite file, or a pair of stores, not {store!r}'
        )
    if store in ("memory", ":memory:"):
        from acc.adapters.storage.in_memory import InMemoryArtifactStore, InMemorySessionStore

        files = InMemoryArtifactStore()
        return InMemorySessionStore(clock=clock, artifacts=files), files
    from acc.adapters.storage.sqlite_sessions import SqliteArtifactStore, SqliteSessionStore

    path = Path(os.fspath(store).removeprefix("sqlite:///").removeprefix("sqlite:"))
    sessions = SqliteSessionStore(path, clock=clock)
    return sessions, SqliteArtifactStore(sessions.database)


def make_conversation_memory(
    name: str,
    *,
    window: int = 4096,
    budget: int = 512,
    compressor: str = "",
    models: Callable[[str], LanguageModelPort] | None = None,
) -> "MemoryPort":
    """Return a memory for an agent by its name."""
    if name == "oracle" or not is_memory(name):
        raise InvalidInput(_unknown_memory(name))
    return make_memory(name, window=window, budget=budget, compressor=compressor, models=models)


@lru_cache(maxsize=1)
def threads() -> ThreadsPort:
    """Return the process's threads for functions that block."""
    from acc.adapters.system.threads import DaemonThreads

    return DaemonThreads()


def load_agent(reference: str) -> BaseAgent:
    """Return the agent that `MODULE:NAME` names; a function or class is called to make it."""
    from acc.adapters.evaluation.agents import load_object

    found: Any = load_object(reference)
    if isinstance(found, Tool):
        raise InvalidInput(f"{reference} is a tool, not an agent; an agent may have it in tools")
    if not isinstance(found, BaseAgent) and callable(found):
        _check_takes_nothing(reference, found)
        found = found()
    if not isinstance(found, BaseAgent):
        raise InvalidInput(f"{reference} is a {type(found).__name__}, not an agent of acc")
    return found


def _check_takes_nothing(reference: str, maker: Callable[..., Any]) -> None:
    try:
        inspect.signature(maker).bind()
    except TypeError as error:
        raise InvalidInput(
            f"{reference} cannot be called to make an agent: {error}; name an agent, or a function "
            "that makes one and takes no arguments"
        ) from None
    except ValueError:  # a class or function of another language, which cannot be asked
        return


FORMATS = ("mermaid", "svg")


def load_tree(reference: str) -> BaseAgent:
    """Return the agent that `MODULE:AGENT` or `FILE.py:AGENT` names.

    Whatever goes wrong in the module is told in one line, with its place.
    """
    module, colon, name = reference.rpartition(":")
    if not colon or not module or not name:
        raise InvalidInput(
            f"{reference!r} names no agent: write MODULE:AGENT, as in shop.agents:root, or "
            "FILE.py:AGENT"
        )
    if module.endswith(".py"):
        module = _importable(Path(module))
    try:
        agent = load_agent(f"{module}:{name}")
    except InvalidTree as error:
        raise InvalidTree(f"{reference} cannot be built: {error}") from error
    except AccError as error:
        raise InvalidInput(f"{error}{_agents_in(module)}") from error
    except Exception as error:
        from acc.adapters.evaluation.agents import with_place

        raise InvalidInput(f"cannot load {reference}: {with_place(error)}") from error
    return agent


def _importable(path: Path) -> str:
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}")
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return path.stem


def _agents_in(module: str) -> str:
    loaded = sys.modules.get(module)
    found = [n for n, v in vars(loaded).items() if isinstance(v, BaseAgent)] if loaded else []
    return f"; the agents in it are {', '.join(found)}" if found else ""


def draw_tree(agent: BaseAgent, form: str) -> str:
    """Return a drawing of a tree as Mermaid text or as SVG."""
    if form == "svg":
        from acc.adapters.diagrams.svg import svg

        return svg(agent)
    from acc.adapters.diagrams.graph import mermaid

    return mermaid(agent)
