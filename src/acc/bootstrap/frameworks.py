"""Construct agents of other frameworks, and ACC memories for other frameworks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from acc.application.evaluation.configuration import (
    CHAT_PREFIX,
    FRAMEWORK_PREFIXES,
    PYTHON_REFERENCE,
)
from acc.application.memory.acc import DEFAULT_BUDGET_TOKENS
from acc.application.memory.history import HistoryMemory
from acc.bootstrap.memory import RULES
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import redact_secrets
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.model_ports import EmbedderPort, LanguageModelPort

if TYPE_CHECKING:
    from acc.application.agents.framework import FrameworkAgent
    from acc.application.agents.llm import LlmAgent
    from acc.application.memory.acc import AccMemory
    from acc.application.runtime.run import Services

_URLS = ("http://", "https://")


def agent_class(name: str) -> "type[FrameworkAgent]":
    """Return the class for agents of a framework; ImportError if it is not installed."""
    from acc.adapters.frameworks.registry import FRAMEWORKS

    (framework,) = (one for one in FRAMEWORKS.values() if one.agent_class == name)
    return framework.load()


def convert_agent(target: Any, prefix: str = "", *, reference: str = "") -> Any:
    """Return an agent of another framework as an agent; other objects as they are.

    `prefix` names the framework that the object must belong to.
    """
    from acc.adapters.frameworks.registry import as_agent, find_framework

    prefix = prefix or find_framework(target)
    return as_agent(prefix, target, reference or type(target).__name__) if prefix else target


def load_target(reference: str) -> Any:
    """Return the object of a reference; that of a framework as an agent.

    A reference is MODULE:NAME, python:MODULE:NAME, FRAMEWORK:MODULE:NAME or openai:URL#MODEL.
    """
    from acc.adapters.system.object_loader import load_object

    prefix, rest = split_reference(reference)
    if prefix == CHAT_PREFIX:
        return make_chat_agent(rest)
    return convert_agent(load_object(rest), prefix, reference=reference)


def split_reference(reference: str) -> tuple[str, str]:
    """Return the framework that a reference names, if any, and the rest of the reference."""
    if reference.startswith(PYTHON_REFERENCE) and reference.count(":") > 1:
        return "", reference.removeprefix(PYTHON_REFERENCE)
    prefix, _, rest = reference.partition(":")
    if prefix in FRAMEWORK_PREFIXES or (prefix == CHAT_PREFIX and rest.startswith(_URLS)):
        return prefix, rest
    return "", reference


def make_chat_agent(reference: str) -> "LlmAgent":
    """Return an agent for `URL#MODEL`, a model behind an OpenAI-compatible server."""
    from acc.application.agents.llm import LlmAgent

    url, _, model = reference.partition("#")
    if not model:
        raise InvalidInput(
            f"{CHAT_PREFIX}:{redact_secrets(url)} names no model: write {CHAT_PREFIX}:URL#MODEL"
        )
    return LlmAgent(name="chat", model=f"openai-compatible:{model}@{url}", memory="transcript")


def make_history_memory(
    *,
    app_name: str,
    store: str | Path = "memory",
    budget: int = DEFAULT_BUDGET_TOKENS,
    embeddings: str | EmbedderPort = "none",
    compressor: str | LanguageModelPort = RULES,
    services: "Services | None" = None,
) -> HistoryMemory:
    """Return ACC memory for the histories of a framework, stored in memory or a SQLite file.

    `services`, if given, contain the store.
    """
    from acc.application.runtime.run import MemoryScope, memory_scope
    from acc.bootstrap.agents import make_services
    from acc.bootstrap.memory import acc_memory

    services = services or make_services(store=store)

    def create(key: SessionKey, name: str) -> "AccMemory":
        token = memory_scope.set(MemoryScope(services, key, name))
        try:
            return acc_memory(budget=budget, embeddings=embeddings, compressor=compressor)
        finally:
            memory_scope.reset(token)

    create(SessionKey(app_name=app_name, user_id="user", session_id="check"), "check")
    return HistoryMemory(
        sessions=services.sessions,
        create=create,
        ids=services.ids,
        clock=services.clock,
        app_name=app_name,
    )


class HistoryMemoryOptions:
    """The options of ACC memory, for a class of a framework that takes a `memory`.

    It precedes that class in the list of base classes.
    """

    _app_name: ClassVar[str]

    def __init__(
        self,
        *,
        store: str | Path = "memory",
        budget: int = DEFAULT_BUDGET_TOKENS,
        embeddings: str | EmbedderPort = "none",
        compressor: str | LanguageModelPort = RULES,
    ) -> None:
        super().__init__(
            memory=make_history_memory(  # type: ignore[call-arg]  # of the class of the framework
                app_name=self._app_name,
                store=store,
                budget=budget,
                embeddings=embeddings,
                compressor=compressor,
            )
        )


@contextmanager
def require_package(module: str, requirement: str) -> Iterator[None]:
    """Raise ImportError with the install command if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{module} needs {error.name}: run pip install {requirement!r}"
        ) from error
