"""The memories by name. To add a memory, add its class here to `_FACTORIES`."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Protocol

from acc.application.memory.baselines import OracleMemory, RetrievalMemory, TranscriptMemory
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import redact_secrets
from acc.ports.outbound.memory_ports import MemoryPort, RecallIndexPort
from acc.ports.outbound.model_ports import TokenCounterPort

_ACC = "acc"


class MemoryParts(Protocol):
    """What memories are made of. Each method returns a new part."""

    @property
    def window(self) -> int:
        """Return the maximum tokens of a transcript."""
        ...

    @property
    def tokens(self) -> TokenCounterPort:
        """Return the token counter."""
        ...

    def index(self) -> RecallIndexPort:
        """Return the recall index of the memory."""
        ...

    def acc_memory(self) -> MemoryPort:
        """Return an ACC memory with its reader and its index."""
        ...


_FACTORIES: Mapping[str, Callable[[MemoryParts], MemoryPort]] = {
    "transcript": lambda parts: TranscriptMemory(tokens=parts.tokens, window=parts.window),
    "retrieval": lambda parts: RetrievalMemory(index=parts.index(), tokens=parts.tokens),
    _ACC: lambda parts: parts.acc_memory(),
    "oracle": lambda parts: OracleMemory(tokens=parts.tokens),
}
MEMORIES = tuple(_FACTORIES)
#: The oracle reads the canonical memory, which exists only in evaluations.
AGENT_MEMORIES = tuple(name for name in MEMORIES if name != "oracle")


def create_memory(name: str, parts: MemoryParts) -> MemoryPort:
    """Return a new memory by its name, or raise InvalidInput."""
    factory = _FACTORIES.get(name)
    if factory is None and compressor_of(name):
        factory = _FACTORIES[_ACC]
    if factory is None:
        raise _unknown(name, MEMORIES)
    return factory(parts)


def compressor_of(name: str) -> str:
    """Return the model in `acc:MODEL`, or an empty string."""
    kind, _, model = name.partition(":")
    return model.strip() if kind == _ACC else ""


def is_acc(name: str) -> bool:
    """Return True for `acc` and `acc:MODEL`."""
    return name == _ACC or bool(compressor_of(name))


def is_agent_memory(name: str) -> bool:
    """Return True if an agent can have the memory; its model is not checked."""
    return name in AGENT_MEMORIES or is_acc(name)


def check_agent_memory(name: str) -> None:
    """Raise InvalidInput if an agent cannot have the memory; its model is not checked."""
    if name == "oracle":
        raise InvalidInput(
            "the memory 'oracle' exists only in evaluations: choose one of "
            f"{', '.join(AGENT_MEMORIES)}, or acc:MODEL"
        )
    if not is_agent_memory(name):
        raise _unknown(name, AGENT_MEMORIES)


def _unknown(name: str, known: tuple[str, ...]) -> InvalidInput:
    similar = get_close_matches(name.lower(), known, 1) or [
        one for one in known if (one[0], len(one)) == (name[:1].lower(), len(name))
    ]
    meant = f"did you mean {similar[0]!r}? " if similar else ""
    return InvalidInput(
        f"unknown memory {redact_secrets(name)!r}: {meant}choose one of {', '.join(known)}, "
        "or acc:MODEL"
    )
