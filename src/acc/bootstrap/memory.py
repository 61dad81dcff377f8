"""Construct memories, their compressors and embedders, and the token counter."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from acc.application.memory.registry import compressor_of, create_memory
from acc.bootstrap.settings import compressor_model, read_variable
from acc.domain.errors import InvalidInput
from acc.ports.outbound.memory_ports import CompressorPort, EvidenceStorePort, MemoryPort
from acc.ports.outbound.model_ports import EmbedderPort, LanguageModelPort, TokenCounterPort

if TYPE_CHECKING:
    from acc.application.memory.acc import AccMemory
    from acc.application.runtime.run import Services

#: Name of the rule-based compressor.
RULES = "rules"


def version() -> str:
    """Return the installed version."""
    from importlib.metadata import version as distribution_version

    return distribution_version("acc-agents")


@lru_cache(maxsize=1)
def token_counter() -> TokenCounterPort:
    """Return the token counter of the process; the first call loads its vocabulary."""
    from acc.adapters.models.tokens import BpeTokenCounter

    return BpeTokenCounter()


class LazyTokenCounter:
    """Token counter that loads its vocabulary at the first count."""

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`."""
        return token_counter().count(text)


def acc_memory(
    *,
    budget: int = 512,
    embeddings: str | EmbedderPort = "none",
    compressor: str | LanguageModelPort = RULES,
) -> "AccMemory":
    """Return an ACC memory.

    `embeddings` adds semantic recall: none, static, PROVIDER:MODEL such as
    openai:text-embedding-3-small, or an embedder object. `compressor` writes the state: rules, the
    name of a model, or a model object. Models and embedders given by name are opened for this
    memory and closed by its `aclose`; memories that a runner creates share them.
    """
    from acc.adapters.memory.qualifier import RuleQualifier
    from acc.application.memory.acc import AccMemory

    embedder, model = _embedder(embeddings), _compressor_model(compressor)
    resources: list[object] = []
    if _run_services() is None:
        named = ((embeddings, embedder), (compressor, model))
        resources = [item for choice, item in named if isinstance(choice, str) and item]
    return AccMemory(
        evidence=_evidence(embedder),
        qualifier=RuleQualifier(),
        compressor=_compressor(model, budget),
        tokens=token_counter(),
        budget=budget,
        owned_resources=resources,
    )


def _run_services() -> "Services | None":
    """Return the services of the run that the memory is created for, or None."""
    from acc.application.runtime.run import memory_services

    return memory_services.get()


def _embedder(choice: str | EmbedderPort) -> EmbedderPort | None:
    if choice == "none":
        return None
    if isinstance(choice, str):
        services = _run_services()
        return services.embedder(choice, _named_embedder) if services else _named_embedder(choice)
    if isinstance(choice, type) or not callable(getattr(choice, "embed", None)):
        raise InvalidInput(
            f"embeddings must be a name or an object with `async embed(texts)`, got {choice!r}"
        )
    return choice


def _evidence(embedder: EmbedderPort | None) -> EvidenceStorePort:
    if embedder is None:
        from acc.adapters.memory.bm25 import Bm25EvidenceStore

        return Bm25EvidenceStore()
    from acc.adapters.memory.hybrid import HybridEvidenceStore

    return HybridEvidenceStore(embedder=embedder)


def make_embedder(name: str) -> EmbedderPort | None:
    """Return the embedder static or PROVIDER:MODEL, or None for none."""
    return None if name == "none" else _named_embedder(name)


def _named_embedder(name: str) -> EmbedderPort:
    if name == "static":
        from acc.adapters.models.static_embeddings import StaticEmbedder

        return StaticEmbedder()
    from importlib.util import find_spec

    if find_spec("httpx2") is None:
        raise InvalidInput(
            f"embeddings {name!r} require httpx2; run: pip install 'acc-agents[models]'"
        )
    from acc.adapters.models.embeddings import HostedEmbedder, parse_embeddings_name

    embeddings = parse_embeddings_name(name, read_variable=read_variable)
    return HostedEmbedder(embeddings, read_variable=read_variable)


def _compressor_model(choice: str | LanguageModelPort) -> LanguageModelPort | None:
    if choice == RULES:
        return None
    if not isinstance(choice, str):
        return choice
    services = _run_services()
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


def compressor_name(kind: str, default: str = "") -> str:
    """Return the compressor of `acc` or `acc:MODEL`: "rules" or a model name.

    Without a model in the name it is `default`, or else the one that the environment names.
    """
    return compressor_of(kind) or default or compressor_model()


@dataclass(frozen=True, slots=True, kw_only=True)
class _MemoryParts:
    """Implements MemoryParts."""

    name: str
    window: int
    budget: int
    compressor: str
    models: Callable[[str], LanguageModelPort] | None
    tokens: TokenCounterPort = LazyTokenCounter()

    def evidence(self) -> EvidenceStorePort:
        from acc.adapters.memory.bm25 import Bm25EvidenceStore

        return Bm25EvidenceStore()

    def acc_memory(self) -> MemoryPort:
        named = compressor_name(self.name, self.compressor)
        if self.models is None or named == RULES:
            return acc_memory(budget=self.budget, compressor=named)
        return acc_memory(budget=self.budget, compressor=self.models(named))


def make_memory(
    kind: str,
    *,
    window: int = 4096,
    budget: int = 512,
    compressor: str = "",
    models: Callable[[str], LanguageModelPort] | None = None,
) -> MemoryPort:
    """Return the memory transcript, retrieval, acc, acc:MODEL or oracle.

    `compressor` is the compressor of a plain `acc`; the default is ACC_COMPRESSOR_MODEL. `models`
    returns the model of a name.
    """
    parts = _MemoryParts(
        name=kind, window=window, budget=budget, compressor=compressor, models=models
    )
    return create_memory(kind, parts)
