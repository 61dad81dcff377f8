"""What the name of a model means: alternatives, variables, models that run here, and prices."""

from collections.abc import Mapping
from typing import Unpack

from acc.application.models.names import (
    GivenSettings,
    ModelName,
    ReadVariable,
    is_local_name,
    is_provider_name,
    parse_local_name,
    parse_model_name,
    split_alternatives,
)
from acc.domain.cost import Price
from acc.domain.errors import InvalidInput
from acc.domain.model_names import BUILT_IN_MODELS, suggest_model
from acc.domain.value_objects.endpoint import redact_secrets

#: The prefix of a reference to an environment variable: `env:NAME`.
REFERENCE_PREFIX = "env:"


class ModelNames:
    """Resolves the names of models. `read_variable` reads an environment variable."""

    def __init__(self, read_variable: ReadVariable) -> None:
        self._read_variable = read_variable

    def alternatives(self, name: str) -> tuple[str, ...]:
        """Return the models that a name means: alternatives, and the value of a variable."""
        found: list[str] = []
        for one in split_alternatives(name):
            if not one.startswith(REFERENCE_PREFIX):
                found.append(one)
                continue
            variable = one.removeprefix(REFERENCE_PREFIX)
            value = self._read_variable(variable)
            if not value:
                raise InvalidInput(
                    f"{one}: the environment variable {variable} is not set to a model"
                )
            found += split_alternatives(value)
        if not found:
            raise InvalidInput(unknown_model(name))
        return tuple(found)

    def check(self, name: str) -> None:
        """Raise InvalidInput if a name is invalid; keys and libraries are not needed."""
        for one in self.alternatives(name):
            self.hosted(one)

    def hosted(self, name: str) -> ModelName | None:
        """Return the provider's model that a name means, or None if the model runs here."""
        return None if runs_here(name) else self.parse(name)

    def parse(self, name: str, **settings: Unpack[GivenSettings]) -> ModelName:
        """Return a provider's model; `settings` take precedence over those in the name."""
        if not is_provider_name(name):
            raise InvalidInput(unknown_model(name))
        return parse_model_name(name, read_variable=self._read_variable, **settings)


def runs_here(name: str) -> bool:
    """Return True if a model needs no provider; raise InvalidInput if a local name is invalid."""
    if is_local_name(name):
        parse_local_name(name)
        return True
    return name in BUILT_IN_MODELS


def plain_name(name: str) -> str:
    """Return a model's name without its settings."""
    return name.partition("?")[0]


def unknown_model(name: str) -> str:
    """Return the error message for an unknown name."""
    suggestion = suggest_model(plain_name(name))
    meant = f"did you mean {redact_secrets(suggestion)}? " if suggestion else ""
    return (
        f"no model {redact_secrets(plain_name(name))!r}: {meant}choose "
        f"{', '.join(BUILT_IN_MODELS)}, PROVIDER:MODEL such as openai:gpt-5.2, or give the agent "
        "an object with `async complete(prompt)`"
    )


def price_for(name: ModelName, prices: Mapping[str, Price]) -> Price | None:
    """Return the given price of a model, by its name with or without its URL."""
    for key in (name.name, f"{name.provider}:{name.model}", name.model):
        if key in prices:
            return prices[key]
    return None
