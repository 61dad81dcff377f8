"""The store through which processes share circuit breakers."""

from functools import lru_cache

from acc.bootstrap.settings import circuit_store
from acc.domain.errors import InvalidInput
from acc.ports.outbound.limit_ports import CircuitStorePort


def shared_circuits() -> CircuitStorePort | None:
    """Return the store in `ACC_CIRCUIT_STORE`, None if circuits are not shared."""
    url = circuit_store()
    return _open(url) if url else None


@lru_cache(maxsize=8)
def _open(url: str) -> CircuitStorePort:
    try:
        from acc.adapters.system.shared_circuits import ValkeyCircuits
    except ModuleNotFoundError:
        raise InvalidInput(
            "shared circuits require the package valkey; install acc-agents[valkey]"
        ) from None
    return ValkeyCircuits(url)
