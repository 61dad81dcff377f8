"""The parts that everything is made of: version, token counter, models and memories."""

import os
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from acc.domain.errors import InvalidInput
from acc.ports.outbound.memory_ports import CompressorPort, EvidenceStorePort, MemoryPort
from acc.ports.outbound.model_ports import EmbedderPort, LanguageModelPort, TokenCounterPort

if TYPE_CHECKING:
    from acc.application.memory.acc import AccMemory
    from acc.application.memory.baselines import TranscriptMemory
    from acc.application.runtime.run import Services


MEMORIES = ("transcript", "retrieval", "acc", "oracle")
#: The compressor that needs no model.
RULES = "rules"
#: The variable that names the model of the memory `acc`, where nothing else does.
COMPRESSOR_VARIABLE = "ACC_COMPRESSOR_MODEL"


def version() -> str:
    """Return the installed version."""
    from importlib.metadata import version as installed

    return installed("acc-agents")


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
    embeddings: str | EmbedderPort = "none",
    compressor: str | LanguageModelPort = RULES,
) -> "AccMemory":
    """Return an ACC memory.

    `embeddings` lets recall go by meaning too: none, static, PROVIDER:MODEL such as
    openai:text-embedding-3-small, or an embedder of your own. `compressor` says who writes the
    state: the rules, or a model, by its name or as it is. What is named is opened for this memory,
    and closed by its `aclose`; a memory that a runner has made shares what its others have.
    """
    from acc.adapters.memory.qualifier import RuleQualifier
    from acc.application.memory.acc import AccMemory

    embedder, model = _embedder(embeddings), _compressor_model(compressor)
    memory = AccMemory(
        evidence=_evidence(embedder),
        qualifier=RuleQualifier(),
        compressor=_compressor(model, budget),
        tokens=token_counter(),
        budget=budget,
    )
    if _sharing() is None:
        named = ((embeddings, embedder), (compressor, model))
        memory.opened += [thing for choice, thing in named if isinstance(choice, str) and thing]
    return memory


def _sharing() -> "Services | None":
    """Return the services of the run that a memory is made for, if it is."""
    from acc.application.runtime.run import memory_services

    return memory_services.get()


def _embedder(choice: str | EmbedderPort) -> EmbedderPort | None:
    if choice == "none":
        return None
    if isinstance(choice, str):
        services = _sharing()
        return services.embedder(choice, _named_embedder) if services else _named_embedder(choice)
    if isinstance(choice, type) or not callable(getattr(choice, "embed", None)):
        raise InvalidInput(
            f"embeddings={choice!r}: a name is wanted, or an object with `async embed(texts)`"
        )
    return choice


def _evidence(embedder: EmbedderPort | None) -> EvidenceStorePort:
    if embedder is None:
        from acc.adapters.memory.bm25 import Bm25EvidenceStore

        return Bm25EvidenceStore()
    from acc.adapters.memory.hybrid import HybridEvidenceStore

    return HybridEvidenceStore(embedder=embedder)


def make_embedder(name: str) -> EmbedderPort | None:
    """Return an embedder by its name: static, PROVIDER:MODEL, or none for none."""
    return None if name == "none" else _named_embedder(name)


def _named_embedder(name: str) -> EmbedderPort:
    if name == "static":
        from acc.adapters.models.static_embeddings import StaticEmbedder

        return StaticEmbedder()
    from importlib.util import find_spec

    if find_spec("httpx2") is None:
        raise InvalidInput(f"embeddings {name!r} need httpx2: pip install 'acc-agents[models]'")
    from acc.adapters.models.embeddings import HostedEmbedder, parse_embeddings_name

    return HostedEmbedder(parse_embeddings_name(name))


def _compressor_model(choice: str | LanguageModelPort) -> LanguageModelPort | None:
    if choice == RULES:
        return None
    if not isinstance(choice, str):
        return choice
    services = _sharing()
    if services is not None:
        return services.model(choice)
    from acc.bootstrap.models import make_model

    return make_model(choice)


def _compressor(model: LanguageModelPort | None, budget: int) -> CompressorPort:
    from acc.adapters.memory.rule_compressor import RuleCompressor

    if model is None:
        return RuleCompressor()
    from acc.adapters.memory.model_compressor import ModelCompressor

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


@lru_cache(maxsize=1)
def _transcript_memory() -> "type[TranscriptMemory]":
    """Return the memory that every agent has if it asks for no other; each session makes one."""
    from acc.application.memory.baselines import TranscriptMemory

    return TranscriptMemory


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
    if kind == "transcript":
        return _transcript_memory()(tokens=LateTokenCounter(), window=window)
    from acc.adapters.memory.bm25 import Bm25EvidenceStore
    from acc.application.memory.baselines import OracleMemory, RetrievalMemory

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
