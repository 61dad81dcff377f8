"""Models by name. Client libraries are imported with the first request."""

from collections.abc import AsyncIterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acc.adapters.models.local_files import LOCAL_INSTALL, model_file
from acc.application.models.names import (
    ModelName,
    is_local_name,
    media_types,
    parse_local_name,
)
from acc.application.models.resolution import ModelNames, price_for, runs_here
from acc.application.tracing.circuits import report_circuits
from acc.bootstrap.circuits import shared_circuits
from acc.bootstrap.settings import model_cache, read_variable, runtime_directory
from acc.bootstrap.tracing import current_tracer
from acc.domain.call_options import explains_call
from acc.domain.circuit_breaker import CircuitBreaker
from acc.domain.cost import FREE, Price
from acc.domain.errors import InvalidInput
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest, ModelResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acc.adapters.models.wrappers import RateLimiter

MODEL_NAMES = ModelNames(read_variable)
_HINTS = {
    "api_key": "the key is read from the environment; api_key_env names its variable",
    "max_output_tokens": "max_tokens",
    "reasoning_effort": "thinking",
    "url": "base_url",
    "retries": "attempts",
    "max_retries": "attempts",
}


def check_model_ready(name: str) -> None:
    """Raise InvalidInput if a model cannot be asked: unknown name, no key, no library."""
    for one in MODEL_NAMES.alternatives(name):
        if is_local_name(one):
            make_local_model(one)
        elif hosted := MODEL_NAMES.hosted(one):
            hosted.key(read_variable)
            _check_installed(hosted)


def make_model(name: str, *, cache: Path | None = None, sample: str = "") -> LanguageModelPort:
    """Return a model by its name; in `FIRST|SECOND` the second one is the fallback.

    Answers of providers are cached in the folder `cache`, or in that of ACC_MODEL_CACHE; `sample`
    separates independent draws.
    """
    return with_fallback(name, base_models(name), cache, sample)


@explains_call(_HINTS)
class ProviderModel:
    """A provider's model with settings: `ProviderModel("openai-chat:gpt-5.2", seed=7)`.

    A setting that is None is taken from the name, and else has its default. `timeout` is the
    longest time in seconds without a byte (120). `attempts` includes the first one (4). `max_wait`
    is the longest wait in seconds that a provider may ask for (60). `output` is how an answer is
    made to match a schema: native, prompted, or auto. Limits apply within one process.

    The key is read from the environment, from `api_key_env` if that is given. It is in nothing that
    can be printed or stored. `cache` is a folder for answers. Client libraries are imported with
    the first request.
    """

    def __init__(
        self,
        name: str,
        *,
        cache: str | Path | None = None,
        base_url: str | None = None,
        api_key_env: str | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        thinking: str | None = None,
        output: str | None = None,
        timeout: float | None = None,
        attempts: int | None = None,
        max_wait: float | None = None,
        concurrency: int | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
    ) -> None:
        if not isinstance(name, str) or runs_here(name):
            raise InvalidInput(
                f"{name!r} is not a provider's model: write PROVIDER:MODEL, for example "
                "openai:gpt-5.2. The models embedded and local are given to an agent by name."
            )
        self.model_name = MODEL_NAMES.parse(
            name,
            base_url=base_url,
            api_key_env=api_key_env,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            seed=seed,
            thinking=thinking,
            output=output,
            timeout=timeout,
            attempts=attempts,
            max_wait=max_wait,
            concurrency=concurrency,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
        )
        self._cache = None if cache is None else Path(cache)
        self._model: LanguageModelPort | None = None

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self.model_name.name

    @property
    def input_types(self) -> tuple[str, ...]:
        """Return the media types of files that the model accepts."""
        return media_types(self.model_name.provider)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the response to a request."""
        return await self._opened().complete(prompt)

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the text as it arrives, and then the whole response."""
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
            self._model = _hosted_model(self.model_name)
            if self._cache is not None:
                from acc.adapters.models.cache import CachedModel

                check_cache(self._cache)
                identity = {"models": [self.model_name.identity]}
                self._model = CachedModel(
                    self._model, self._cache, identity=identity, name=self.name
                )
        return self._model


def base_models(
    name: str, prices: "Mapping[str, Price] | None" = None, *, processes: int = 1
) -> tuple[LanguageModelPort, ...]:
    """Return the models that a name means, without a cache.

    Rate limits are divided by the number of processes that call the model at the same time.
    """
    names = MODEL_NAMES.alternatives(name)
    is_alone = len(names) == 1
    return tuple(_base_model(one, prices, is_alone=is_alone, processes=processes) for one in names)


def with_fallback(
    name: str, models: tuple[LanguageModelPort, ...], cache: Path | None, sample: str
) -> LanguageModelPort:
    """Return models as one; each has a cache of its own, because their answers differ."""
    names = MODEL_NAMES.alternatives(name)
    found = [_cached(model, one, cache, sample) for model, one in zip(models, names, strict=True)]
    if len(found) == 1:
        return found[0]
    from acc.adapters.models.wrappers import FallbackModel

    return FallbackModel(found)


def _base_model(
    name: str, prices: "Mapping[str, Price] | None", *, is_alone: bool, processes: int
) -> LanguageModelPort:
    """Return one model without a cache; a model that runs here is free."""
    model: LanguageModelPort
    price: Price | None = FREE
    if name == "embedded":
        from acc.adapters.embedded_model.model import EmbeddedModel

        model = EmbeddedModel()
        price = None if is_alone else FREE
    elif is_local_name(name):
        model = make_local_model(name)
    else:
        limits = MODEL_NAMES.parse(name)
        made = ProviderModel(
            name,
            concurrency=limits.concurrency and max(1, limits.concurrency // processes),
            requests_per_minute=limits.requests_per_minute
            and limits.requests_per_minute / processes,
            tokens_per_minute=limits.tokens_per_minute and limits.tokens_per_minute / processes,
        )
        model, price = made, price_for(made.model_name, prices or {})
    if price is None or prices is None:
        return model
    from acc.adapters.models.wrappers import PricedModel

    return PricedModel(model, price)


def _cached(
    model: LanguageModelPort, name: str, cache: Path | None, sample: str
) -> LanguageModelPort:
    """Return a model with a cache, if there is a folder and the model does not run here."""
    folder = cache or model_cache()
    if folder is None or runs_here(name):
        return model
    from acc.adapters.models.cache import CachedModel

    identity = {"models": [MODEL_NAMES.parse(name).identity]}
    return CachedModel(model, folder, identity=identity, name=name, sample=sample)


def _check_installed(name: ModelName) -> None:
    if find_spec("pydantic_ai") is None:
        raise InvalidInput(f"{name.name} needs pydantic-ai: pip install 'acc-agents[models]'")


def _hosted_model(name: ModelName) -> LanguageModelPort:
    """Return a provider's model with its rate limits and retries."""
    key = name.key(read_variable)
    _check_installed(name)
    from acc.adapters.models.breaker import BreakerModel
    from acc.adapters.models.provider import PydanticAiModel
    from acc.adapters.models.retry import RetryingModel
    from acc.adapters.models.wrappers import LimitedModel

    model: LanguageModelPort = PydanticAiModel(name, key=key, url=name.address(read_variable))
    limiter = _limiter(name)
    if limiter is not None:
        model = LimitedModel(model, limiter)
    model = RetryingModel(model, attempts=name.attempts, max_wait=name.max_wait)
    return BreakerModel(model, _breaker(name), circuits=shared_circuits())


@lru_cache(maxsize=256)
def _breaker(name: ModelName) -> CircuitBreaker:
    """Return the circuit breaker that all models of this name share in this process."""
    return CircuitBreaker(name.name, on_change=report_circuits(current_tracer))


@lru_cache(maxsize=256)
def _limiter(name: ModelName) -> "RateLimiter | None":
    """Return the rate limiter that all models of this name share in this process."""
    from acc.adapters.models.wrappers import RateLimiter, RateLimits

    limits = RateLimits(
        concurrency=name.concurrency,
        requests_per_minute=name.requests_per_minute,
        tokens_per_minute=name.tokens_per_minute,
    )
    return None if limits.are_unlimited else RateLimiter(limits, name=name.name)


@lru_cache(maxsize=64)
def make_local_model(name: str) -> LanguageModelPort:
    """Return a local model by its name, created once; the first request starts its server."""
    if find_spec("fcntl") is None:
        raise InvalidInput(f"{name}: local models need a system with POSIX file locks")
    local = parse_local_name(name)
    if find_spec("pydantic_ai") is None:
        raise InvalidInput(f"{name} needs pydantic-ai: {LOCAL_INSTALL}")
    model_file(local)
    from acc.adapters.models.local import LocalModel
    from acc.bootstrap.agents import threads

    return LocalModel(local, threads=threads(), runtime_base=runtime_directory())


def check_cache(folder: Path) -> None:
    """Raise InvalidInput if a folder cannot be used as the answer cache."""
    from acc.adapters.models.cache import check_folder

    check_folder(folder)
