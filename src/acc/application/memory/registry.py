"""The memories by name. To add a memory, add its class here to `_FACTORIES`."""

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Protocol

from acc.application.memory.baselines import (
    UNLIMITED_TOKENS,
    LastMessagesMemory,
    OracleMemory,
    RetrievalMemory,
    TranscriptMemory,
)
from acc.application.memory.summary import SummaryMemory
from acc.domain.ccs import MIN_BUDGET_TOKENS
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import redact_secrets
from acc.ports.outbound.memory_ports import MemoryPort, RecallIndexPort
from acc.ports.outbound.model_ports import LanguageModelPort, TokenCounterPort

_ACC = "acc"
#: The memory whose summary a model may write.
SUMMARY = "summary"


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

    @property
    def budget(self) -> int:
        """Return the maximum tokens of an ACC state and of the memories compared with it."""
        ...

    def acc_memory(self, budget: int) -> MemoryPort:
        """Return an ACC memory with its reader and its index."""
        ...

    def summary_model(self) -> LanguageModelPort | None:
        """Return the model that writes summaries, or None to select sentences."""
        ...


#: A factory gets the tokens of `NAME@TOKENS`, or None for the default of the memory.
_FACTORIES: Mapping[str, Callable[[MemoryParts, int | None], MemoryPort]] = {
    "transcript": lambda parts, tokens: TranscriptMemory(
        tokens=parts.tokens, window=tokens or parts.window
    ),
    "retrieval": lambda parts, tokens: RetrievalMemory(
        index=parts.index(), tokens=parts.tokens, budget=tokens
    ),
    _ACC: lambda parts, tokens: parts.acc_memory(tokens or parts.budget),
    "full": lambda parts, _: TranscriptMemory(tokens=parts.tokens, window=UNLIMITED_TOKENS),
    "last-n": lambda parts, tokens: LastMessagesMemory(
        tokens=parts.tokens, budget=tokens or parts.budget
    ),
    "bm25": lambda parts, tokens: RetrievalMemory(
        index=parts.index(),
        tokens=parts.tokens,
        budget=tokens or parts.budget,
        words_only=True,
    ),
    SUMMARY: lambda parts, tokens: SummaryMemory(
        tokens=parts.tokens, budget=tokens or parts.budget, model=parts.summary_model()
    ),
    "oracle": lambda parts, _: OracleMemory(tokens=parts.tokens),
}
MEMORIES = tuple(_FACTORIES)
#: The others exist to be compared with in evaluations.
AGENT_MEMORIES = ("transcript", "retrieval", _ACC)
_UNLIMITED = ("full", "oracle")


def create_memory(name: str, parts: MemoryParts) -> MemoryPort:
    """Return a new memory by its name, or raise InvalidInput."""
    kind, tokens = split_budget(name)
    factory = _FACTORIES.get(kind)
    if factory is None and compressor_of(kind):
        factory = _FACTORIES[_ACC]
    if factory is None:
        raise _unknown(kind, MEMORIES)
    return factory(parts, tokens)


def split_budget(name: str) -> tuple[str, int | None]:
    """Return name and tokens of `NAME@TOKENS`; None if the name states no tokens."""
    kind, _, tokens = name.rpartition("@")
    if not kind or not tokens.isdecimal():
        return name, None
    if kind in _UNLIMITED:
        raise InvalidInput(f"{name!r}: the memory {kind} has no token budget; omit @{tokens}")
    if not MIN_BUDGET_TOKENS <= int(tokens) < UNLIMITED_TOKENS:
        raise InvalidInput(
            f"{name!r}: the budget must be at least {MIN_BUDGET_TOKENS} tokens and less than "
            f"{UNLIMITED_TOKENS:,}"
        )
    return kind, int(tokens)


def budget_tokens(name: str, *, window: int, budget: int) -> int | None:
    """Return the maximum tokens of a memory in an evaluation, or None if it has no maximum."""
    kind, tokens = split_budget(name)
    if tokens is not None:
        return tokens
    if kind in (*_UNLIMITED, "retrieval"):
        return None
    return window if kind == "transcript" else budget


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
    if name in MEMORIES and name not in AGENT_MEMORIES:
        raise InvalidInput(
            f"the memory {name!r} exists only in evaluations: choose one of "
            f"{', '.join(AGENT_MEMORIES)}, or acc:MODEL"
        )
    if not is_agent_memory(name):
        raise _unknown(name, AGENT_MEMORIES)


def suggest_memory(name: str, known: Collection[str]) -> str:
    """Return a question with the most similar name, or an empty string."""
    similar = get_close_matches(name.lower(), known, 1) or [
        one for one in known if (one[0], len(one)) == (name[:1].lower(), len(name))
    ]
    return f"did you mean {similar[0]!r}? " if similar else ""


def _unknown(name: str, known: tuple[str, ...]) -> InvalidInput:
    return InvalidInput(
        f"unknown memory {redact_secrets(name)!r}: {suggest_memory(name, known)}choose one of "
        f"{', '.join(known)}, or acc:MODEL"
    )
