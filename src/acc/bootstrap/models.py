"""Models by name: ours, and those of every provider; what they need loads when they are asked."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acc.bootstrap.local_models import is_local_name, make_local_model
from acc.domain.cost import FREE, CostCategory, ModelCall, Price
from acc.domain.errors import InvalidInput, ModelFailed
from acc.ports.outbound.model_ports import LanguageModelPort, ModelAnswer, Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from acc.adapters.providers.choice import ModelChoice
    from acc.adapters.providers.limiting import Limiter

MODELS = ("embedded", "local")
#: The variable that names the model of agents, where a command is not told.
AGENT_VARIABLE = "ACC_AGENT_MODEL"
#: The variable that names the folder where answers are kept.
CACHE_VARIABLE = "ACC_MODEL_CACHE"
_BY_VARIABLE = "env:"


def agent_model() -> str:
    """Return the name of the model that the environment chooses for agents."""
    return os.environ.get(AGENT_VARIABLE, "").strip() or "embedded"


def unknown_model(name: str) -> str:
    """Return what to say about a name that nobody answers to."""
    return (
        f"no model {plain_name(name)!r}: choose {', '.join(MODELS)}, PROVIDER:MODEL such as "
        "openai:gpt-5.2, or give the agent an object with `async complete(prompt)`"
    )


def _is_ours(name: str) -> bool:
    """Tell whether a name is that of a model which needs no provider."""
    return name in MODELS or is_local_name(name)


def check_model_name(name: str) -> None:
    """Refuse a name that nobody answers to; neither a key nor a library is needed for that."""
    for one in _named(name):
        if not _is_ours(one):
            _choice(one)


def check_model_ready(name: str) -> None:
    """Refuse a model that could not be asked: no such name, no key, no library."""
    for one in _named(name):
        if is_local_name(one):
            make_local_model(one)
        elif one not in MODELS:
            choice = _choice(one)
            choice.key()
            _check_installed(choice)


def make_model(name: str, *, cache: Path | None = None, sample: str = "") -> LanguageModelPort:
    """Return a model by its name, `FIRST|SECOND` for one that steps in for another.

    Answers of providers are kept in the folder `cache`, or in that which ACC_MODEL_CACHE names;
    `sample` tells independent draws apart.
    """
    return _joined(name, _cores(name), cache, sample)


class EpisodeModels:
    """The models of one episode: agents share a model's connections, and no draw of its answers.

    `on_call` hears what every call cost, but for those of the embedded model. `prices` are by the
    names that `--price` was given. `mistake` tells what has to be mended before a model can be
    asked: its key, its name, its library; whoever asked may have made do without.
    """

    def __init__(
        self,
        episode: str,
        *,
        cache: Path | None = None,
        prices: "Mapping[str, Price] | None" = None,
        on_call: "Callable[[ModelCall], None] | None" = None,
    ) -> None:
        self._episode = episode
        self._cache = cache
        self._prices = prices or {}
        self._on_call = on_call
        self._made: dict[str, tuple[LanguageModelPort, ...]] = {}
        self.mistake = ""

    def of(
        self, who: str, part: CostCategory = CostCategory.AGENT
    ) -> "Callable[[str], LanguageModelPort]":
        """Return what gives someone a model by its name, for one part."""

        def model(name: str) -> LanguageModelPort:
            if name not in self._made:
                self._made[name] = _cores(name, self._prices)
            # No agent can have the judge's name.
            draw = "(judge)" if part is CostCategory.JUDGE else who
            kept = _joined(name, self._made[name], self._cache, f"{self._episode}/{draw}")
            names = _named(name)
            if names == ("embedded",):
                return kept
            return self._metered(kept, who, part, " | ".join(map(plain_name, names)))

        return model

    def watched(
        self,
        model: LanguageModelPort,
        who: str,
        part: CostCategory = CostCategory.AGENT,
        name: str = "",
    ) -> LanguageModelPort:
        """Return a model that is not known by name, so that its calls count too."""
        if isinstance(model, ProviderModel):
            # Its connections belong to this loop; asking opens new ones.
            self._made[f"held {id(model)}"] = (model,)
            price = price_for(model.choice, self._prices)
            name = name or model.name
            if price is not None:
                from acc.adapters.providers.metering import PricedModel

                model = PricedModel(model, price)
        return self._metered(model, who, part, name or type(model).__name__)

    def _metered(
        self, model: LanguageModelPort, who: str, part: CostCategory, name: str
    ) -> LanguageModelPort:
        if self._on_call is None:
            return model
        from acc.adapters.providers.metering import MeteredModel

        call = ModelCall(category=part, agent="" if part is CostCategory.JUDGE else who, model=name)
        return MeteredModel(model, call, on_call=self._on_call, on_fault=self._take_fault)

    def _take_fault(self, fault: BaseException) -> None:
        if isinstance(fault, ModelFailed):
            is_configuration_error = fault.is_configuration_error
        else:
            is_configuration_error = isinstance(fault, InvalidInput)
        if is_configuration_error and not self.mistake:
            self.mistake = str(fault)

    async def aclose(self) -> None:
        """Close the models' connections."""
        for model in chain.from_iterable(self._made.values()):
            ending = getattr(model, "aclose", None)
            if ending is not None:
                await ending()


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """How a provider's model is asked; what is not said is left to the provider, or to us.

    `timeout` is how many seconds may pass without a byte, `attempts` counts the first, `max_wait`
    is the longest wait that a provider may ask for. `output` says how an answer is made to fit a
    schema: native, prompted, or auto. The limits hold within one process. `cache` is a folder where
    answers are kept.
    """

    base_url: str = ""
    api_key_env: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    thinking: str = ""
    output: str = "auto"
    timeout: float = 120.0
    attempts: int = 4
    max_wait: float = 60.0
    concurrency: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


class ProviderModel:
    """A model of a provider, with settings of its own: `ProviderModel("openai:gpt-5.2", seed=7)`.

    The settings are those of `ModelSettings`. The key is read from the environment, from
    `api_key_env` if that is given, and is held by nothing that can be printed or stored. What is
    needed to ask loads with the first question.
    """

    def __init__(self, name: str, *, cache: str | Path | None = None, **settings: Any) -> None:
        unknown = sorted(settings.keys() - {item.name for item in fields(ModelSettings)})
        if unknown:
            raise InvalidInput(f"{name} has no setting {', '.join(unknown)}")
        if not isinstance(name, str) or _is_ours(name):
            raise InvalidInput(
                f"{name!r} is no model of a provider, PROVIDER:MODEL such as openai:gpt-5.2; what "
                "is ours is given to an agent by its name alone"
            )
        self.choice = _choice(name, **settings)
        self._cache = None if cache is None else Path(cache)
        self._model: LanguageModelPort | None = None

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self.choice.name

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the answer to a prompt."""
        return await self._opened().complete(prompt)

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the text as it comes, and at the end the whole answer."""
        pieces: Any = self._opened().stream(prompt)  # type: ignore[attr-defined] # all of ours can
        try:
            async for piece in pieces:
                yield piece
        finally:
            await pieces.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._model is not None:
            await self._model.aclose()  # type: ignore[attr-defined] # all of ours can

    def __repr__(self) -> str:
        return f"ProviderModel({self.name!r})"

    def _opened(self) -> LanguageModelPort:
        if self._model is None:
            self._model = _hosted(self.choice)
            if self._cache is not None:
                from acc.adapters.providers.cache import CachedModel

                check_cache(self._cache)
                identity = {"models": [self.choice.identity]}
                self._model = CachedModel(
                    self._model, self._cache, identity=identity, name=self.name
                )
        return self._model


def _named(name: str) -> tuple[str, ...]:
    """Return the names in a name: alternatives, and what a variable of the environment holds."""
    from acc.adapters.providers.choice import alternatives

    found: list[str] = []
    for one in alternatives(name):
        if not one.startswith(_BY_VARIABLE):
            found.append(one)
            continue
        variable = one.removeprefix(_BY_VARIABLE)
        held = os.environ.get(variable, "").strip()
        if not held:
            raise InvalidInput(f"{one}: the environment variable {variable} names no model")
        found += alternatives(held)
    if not found:
        raise InvalidInput(unknown_model(name))
    return tuple(found)


def _choice(name: str, **settings: Any) -> "ModelChoice":
    from acc.adapters.providers.choice import is_provider_name, parse_choice

    if not is_provider_name(name):
        raise InvalidInput(unknown_model(name))
    return parse_choice(name, **settings)


def plain_name(name: str) -> str:
    """Return a model's name without its settings."""
    return name.partition("?")[0]


def names_of(name: str) -> tuple[str, ...]:
    """Return the models that a name means: alternatives, and what a variable holds."""
    return _named(name)


def price_for(choice: "ModelChoice", prices: "Mapping[str, Price]") -> Price | None:
    """Return the price that was given for a model, by its name with or without its URL."""
    for name in (choice.name, f"{choice.provider}:{choice.model}", choice.model):
        if name in prices:
            return prices[name]
    return None


def choice_of(name: str) -> "ModelChoice | None":
    """Return which model of a provider a name means, or None for one that is ours."""
    return None if _is_ours(name) else _choice(name)


def _cores(name: str, prices: "Mapping[str, Price] | None" = None) -> tuple[LanguageModelPort, ...]:
    """Return the models that a name means, without a cache."""
    names = _named(name)
    return tuple(_core(one, prices, len(names) == 1) for one in names)


def _joined(
    name: str, cores: tuple[LanguageModelPort, ...], cache: Path | None, sample: str
) -> LanguageModelPort:
    """Return models as one; each keeps its own answers, for they are not those of the first."""
    names = _named(name)
    found = [_kept(core, one, cache, sample) for core, one in zip(cores, names, strict=True)]
    if len(found) == 1:
        return found[0]
    from acc.adapters.providers.trying import FallbackModel

    return FallbackModel(found)


def _core(
    name: str, prices: "Mapping[str, Price] | None" = None, alone: bool = True
) -> LanguageModelPort:
    """Return one model without a cache; what runs here costs nothing."""
    model: LanguageModelPort
    price: Price | None = FREE
    if name == "embedded":
        from acc.adapters.embedded_model.model import EmbeddedModel

        model = EmbeddedModel()
        price = None if alone else FREE
    elif is_local_name(name):
        model = make_local_model(name)
    else:
        made = ProviderModel(name)
        model, price = made, price_for(made.choice, prices or {})
    if price is None or prices is None:
        return model
    from acc.adapters.providers.metering import PricedModel

    return PricedModel(model, price)


def _kept(
    model: LanguageModelPort, name: str, cache: Path | None, sample: str
) -> LanguageModelPort:
    """Return a model whose answers are kept on disk, if that is wanted and saves a call."""
    folder = cache or model_cache()
    if folder is None or _is_ours(name):
        return model
    from acc.adapters.providers.cache import CachedModel

    identity = {"models": [_choice(name).identity]}
    return CachedModel(model, folder, identity=identity, name=name, sample=sample)


def _check_installed(choice: "ModelChoice") -> None:
    from importlib.util import find_spec

    needed, extra = ("httpx2", "providers") if choice.is_direct else ("pydantic_ai", "models")
    if find_spec(needed) is None:
        raise InvalidInput(f"{choice.name} needs {needed}: pip install 'acc-agents[{extra}]'")


def _hosted(choice: "ModelChoice") -> LanguageModelPort:
    """Return a provider's model with its limits and retries around it."""
    choice.key()
    _check_installed(choice)
    from acc.adapters.providers.limiting import LimitedModel
    from acc.adapters.providers.trying import RetryingModel

    model = _asker(choice)
    limiter = _limiter(choice)
    if limiter is not None:
        model = LimitedModel(model, limiter)
    return RetryingModel(model, attempts=choice.attempts, max_wait=choice.max_wait)


def _asker(choice: "ModelChoice") -> LanguageModelPort:
    if choice.is_direct:
        from acc.adapters.providers.direct import DirectModel

        return DirectModel(choice)
    from acc.adapters.providers.hosted import HostedModel

    return HostedModel(choice)


@lru_cache(maxsize=256)
def _limiter(choice: "ModelChoice") -> "Limiter | None":
    """Return what all who ask a model in this process are held back by."""
    from acc.adapters.providers.limiting import Limiter, Limits

    limits = Limits(
        concurrency=choice.concurrency,
        requests_per_minute=choice.requests_per_minute,
        tokens_per_minute=choice.tokens_per_minute,
    )
    return None if limits.are_none else Limiter(limits, name=choice.name)


def check_cache(folder: Path) -> None:
    """Refuse a folder where no answer could be kept, before one is paid for."""
    from acc.adapters.providers.cache import check_folder

    check_folder(folder)


def model_cache() -> Path | None:
    """Return the folder that the environment names for answers to be kept in."""
    held = os.environ.get(CACHE_VARIABLE, "").strip()
    return Path(held) if held else None
