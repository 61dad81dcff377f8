"""Validation of the models and memories in an agent tree."""

import warnings
from collections.abc import Container
from typing import Protocol

from acc.application.agents.base import BaseAgent, require
from acc.application.agents.option_hints import DefaultModel
from acc.domain.errors import EmbeddedModelWarning, InvalidInput, InvalidTree
from acc.domain.model_names import suggest_model
from acc.domain.value_objects.endpoint import redact_secrets


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


def default_model_advice(agent: BaseAgent) -> str:
    """Return what to do about agents of the tree without a model, empty if all have one."""
    names = [
        repr(node.name)
        for node in agent.walk_all()
        if isinstance(getattr(node, "model", None), DefaultModel)
    ]
    if not names:
        return ""
    return (
        f"no model is set for {', '.join(names)}: the embedded model answers, which follows fixed "
        "rules and is not a language model. Set model= to PROVIDER:MODEL, such as "
        '"openai:gpt-5.2", or to "embedded" if that is what you want'
    )


def warn_about_default_models(agent: BaseAgent) -> None:
    """Warn once per process if an agent of the tree has no model."""
    advice = default_model_advice(agent)
    if advice and not _warned:
        _warned.append(advice)
        warnings.warn(advice, EmbeddedModelWarning, stacklevel=3)


_warned: list[str] = []


def _validate_compressor(model: str, names: NameValidator, own_models: Container[str]) -> None:
    if not model or model in own_models:
        return
    try:
        names.validate_model(model)
    except InvalidInput as error:
        raise InvalidInput(f"compressor: {error}") from None


def check_model(agent: BaseAgent, model: object) -> None:
    """Raise InvalidTree if a value is neither a model nor the name of a model."""
    if not model:
        raise InvalidTree(
            f"agent {agent.name!r} has no model: set model= to PROVIDER:MODEL, such as "
            '"openai:gpt-5.2", or to "embedded"'
        )
    is_valid = isinstance(model, str) or callable(getattr(model, "complete", None))
    require(
        is_valid and not isinstance(model, type),
        agent,
        "model",
        "a name such as openai:gpt-5.2 or an object with `async complete(prompt)`",
    )
    for name in model.split("|") if isinstance(model, str) else ():
        name = name.strip()
        if suggestion := suggest_model(name):
            raise InvalidTree(
                f"agent {agent.name!r}: there is no model {redact_secrets(name)!r}; did you mean "
                f'model="{redact_secrets(suggestion)}"? Names have the form PROVIDER:MODEL'
            )
