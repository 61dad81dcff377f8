"""Validation of the model and memory names in an agent tree."""

from collections.abc import Container
from typing import Protocol

from acc.application.agents.base import BaseAgent
from acc.domain.errors import InvalidInput


class NameValidator(Protocol):
    """Knows which models and memories exist."""

    def validate_model(self, name: str) -> None:
        """Raise InvalidInput if no model of that name can be used."""
        ...

    def compressor_model(self, memory: str) -> str:
        """Return the model that compresses a memory, or an empty string if it needs none.

        Raises InvalidInput if there is no memory of that name.
        """
        ...


def validate_names(
    agent: BaseAgent, names: NameValidator, *, own_models: Container[str] = ()
) -> None:
    """Raise InvalidInput if an agent of the tree names an unknown model or memory.

    `own_models` are names that the application defines; they are always valid.
    """
    for node in agent.walk_all():
        model, memory = getattr(node, "model", None), getattr(node, "memory", None)
        try:
            if isinstance(model, str) and model not in own_models:
                names.validate_model(model)
            if isinstance(memory, str):
                _validate_compressor(names.compressor_model(memory), names, own_models)
        except InvalidInput as error:
            raise InvalidInput(f"agent {node.name!r}: {error}") from None


def _validate_compressor(model: str, names: NameValidator, own_models: Container[str]) -> None:
    if not model or model in own_models:
        return
    try:
        names.validate_model(model)
    except InvalidInput as error:
        raise InvalidInput(f"compressor: {error}") from None
