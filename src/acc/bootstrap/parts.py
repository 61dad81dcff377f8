"""The parts that everything is made of: version, token counter, models and memories."""

import os
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from acc.domain.errors import InvalidInput
from acc.ports.outbound.memory_ports import CompressorPort, MemoryPort
from acc.ports.outbound.model_ports import LanguageModelPort, TokenCounterPort

if TYPE_CHECKING:
    from acc.application.memory import AccMemory

MEMORIES = ("transcript", "retrieval", "acc", "oracle")
EMBEDDINGS = ("none", "static")
#: The compressor that needs no model.
RULES = "rules"
#: The variable that names the model of the memory `acc`, where nothing else does.
COMPRESSOR_VARIABLE = "ACC_COMPRESSOR_MODEL"


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


def acc_memory(
    *,
    budget: int = 512,
    embeddings: str = "none",
    compressor: str | LanguageModelPort = RULES,
) -> "AccMemory":
    """Return an ACC memory. `embeddings="static"` re-ranks recall.

    `compressor` says who writes the state: the rules, or a model, by its name or as it is.
    """
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
        compressor=_compressor(compressor, budget),
        tokens=token_counter(),
        budget=budget,
    )


def _compressor(choice: str | LanguageModelPort, budget: int) -> CompressorPort:
    from acc.adapters.memory.compressor import RuleCompressor

    if choice == RULES:
        return RuleCompressor()
    from acc.adapters.memory.model_compressor import ModelCompressor
    from acc.bootstrap.models import make_model

    model = make_model(choice) if isinstance(choice, str) else choice
    return ModelCompressor(model, RuleCompressor(), tokens=token_counter(), budget=budget)


def compressor_of(kind: str, default: str = "") -> str:
    """Return who writes the state of the memory `acc` or `acc:MODEL`: "rules", or a model's name.

    What the memory's name does not say is said by `default`, or else by the environment.
    """
    named = kind.partition(":")[2].strip()
    return named or default or os.environ.get(COMPRESSOR_VARIABLE, "").strip() or RULES


def is_memory(kind: str) -> bool:
    """Tell whether a memory answers to a name; whether its model does is another question."""
    return kind in MEMORIES or (kind.startswith("acc:") and bool(kind.partition(":")[2].strip()))


def make_memory(
    kind: str,
    *,
    window: int = 4096,
    budget: int = 512,
    compressor: str = "",
    models: Callable[[str], LanguageModelPort] | None = None,
) -> MemoryPort:
    """Return a memory by its name: transcript, retrieval, acc, acc:MODEL or oracle.

    `compressor` is who writes the state of a plain `acc`; without it ACC_COMPRESSOR_MODEL is.
    `models` turns the names of models into models.
    """
    from acc.application.memory import OracleMemory, RetrievalMemory, TranscriptMemory

    if kind == "transcript":
        return TranscriptMemory(tokens=LateTokenCounter(), window=window)
    from acc.adapters.memory.recall import Bm25EvidenceStore

    if kind == "retrieval":
        return RetrievalMemory(evidence=Bm25EvidenceStore(), tokens=token_counter())
    if kind == "acc" or kind.startswith("acc:"):
        named = compressor_of(kind, compressor)
        if models is None or named == RULES:
            return acc_memory(budget=budget, compressor=named)
        return acc_memory(budget=budget, compressor=models(named))
    if kind == "oracle":
        return OracleMemory(tokens=token_counter())
    raise InvalidInput(f"no memory {kind!r}: choose one of {', '.join(MEMORIES)}, or acc:MODEL")
