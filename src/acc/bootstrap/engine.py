"""Construct engines, which execute runs in workers."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from acc.bootstrap.settings import temporal_api_key
from acc.domain.errors import InvalidInput
from acc.ports.outbound.engine_ports import EnginePort

if TYPE_CHECKING:
    from acc.adapters.temporal.engine import TemporalEngine

IN_PROCESS = "in-process"


def make_engine(engine: "str | EnginePort", store: object) -> EnginePort | None:
    """Return an engine, None for runs in this process; InvalidInput if it cannot be used.

    Workers read the store, so that it must not be in the memory of this process.
    """
    if engine == IN_PROCESS:
        return None
    if not isinstance(engine, str):
        if not all(hasattr(engine, name) for name in ("start", "notify", "cancel")):
            raise InvalidInput(
                f'engine must be "{IN_PROCESS}" or a URL such as temporal://localhost:7233, got '
                f"{type(engine).__name__}"
            )
        return engine
    made = make_temporal_engine(engine)
    check_shared_store(store)
    return made


def make_temporal_engine(url: str) -> "TemporalEngine":
    """Return the engine at a URL; InvalidInput if the URL or the installation is wrong."""
    from acc.adapters.temporal.location import parse_location

    location = parse_location(url)
    if find_spec("temporalio") is None:
        raise InvalidInput(
            "the engine temporal:// requires temporalio; run: pip install 'acc-agents[temporal]'"
        )
    from acc.adapters.temporal.engine import TemporalEngine

    return TemporalEngine(location, api_key=temporal_api_key())


def check_shared_store(store: object) -> None:
    """Raise InvalidInput if the workers of an engine cannot read a store."""
    from acc.adapters.storage.location import parse_location

    if isinstance(store, str | Path) and parse_location(store) is None:
        raise InvalidInput(
            "an engine needs a store that its workers can read: the path of a SQLite file for "
            "workers on one machine, or postgresql://USER@HOST/DATABASE"
        )
