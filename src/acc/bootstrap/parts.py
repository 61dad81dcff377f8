"""The parts that everything is made of: version, token counter, models and memories."""

from functools import lru_cache
from typing import TYPE_CHECKING

from acc.domain.errors import InvalidInput
from acc.ports.outbound.memory_ports import MemoryPort
from acc.ports.outbound.model_ports import TokenCounterPort

if TYPE_CHECKING:
    from acc.application.memory import AccMemory

MEMORIES = ("transcript", "retrieval", "acc", "oracle")
EMBEDDINGS = ("none", "static")


def version() -> str:
    """Return the installed version."""
    from importlib.metadata import version as installed

    return installed("acc")


@lru_cache(maxsize=1)
def token_counter() -> TokenCounterPort:
    """Return the process's token counter; its vocabulary takes a while to load."""
    from acc.adapters.models.tokens import BpeTokenCounter

    return BpeTokenCounter()


class LateTokenCounter:
    """Counts as the process's token counter does, and loads its vocabulary at the first count."""

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""
        return token_counter().count(text)


def acc_memory(*, budget: int = 512, embeddings: str = "none") -> "AccMemory":
    """Return an ACC memory on embedded parts. `embeddings="static"` re-ranks recall."""
    from acc.adapters.memory.compressor import RuleCompressor
    from acc.adapters.memory.qualifier import RuleQualifier
    from acc.adapters.memory.recall import Bm25EvidenceStore
    from acc.application.memory import AccMemory

    embedder = None
    if embeddings == "static":
        from acc.adapters.models.embeddings import StaticEmbedder

        embedder = StaticEmbedder()
    elif embeddings != "none":
        raise InvalidInput(f"no embeddings {embeddings!r}: choose one of {', '.join(EMBEDDINGS)}")
    return AccMemory(
        evidence=Bm25EvidenceStore(embedder=embedder),
        qualifier=RuleQualifier(),
        compressor=RuleCompressor(),
        tokens=token_counter(),
        budget=budget,
    )


def make_memory(kind: str, *, window: int = 4096, budget: int = 512) -> MemoryPort:
    """Return a memory by its name: transcript, retrieval, acc or oracle."""
    from acc.application.memory import OracleMemory, RetrievalMemory, TranscriptMemory

    if kind == "transcript":
        return TranscriptMemory(tokens=LateTokenCounter(), window=window)
    from acc.adapters.memory.recall import Bm25EvidenceStore

    if kind == "retrieval":
        return RetrievalMemory(evidence=Bm25EvidenceStore(), tokens=token_counter())
    if kind == "acc":
        return acc_memory(budget=budget)
    if kind == "oracle":
        return OracleMemory(tokens=token_counter())
    raise InvalidInput(f"no memory {kind!r}: choose one of {', '.join(MEMORIES)}")
