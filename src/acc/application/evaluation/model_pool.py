"""The models of one episode: shared connections, metered calls, one configuration error."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any, Protocol

from acc.application.runtime.pausable_timeout import pause_deadlines
from acc.domain.cost import CostCategory, ModelCall
from acc.domain.errors import AccError, InvalidInput, ModelFailed
from acc.ports.outbound.live_evaluation_ports import CallRecorderPort
from acc.ports.outbound.model_ports import (
    LanguageModelPort,
    ModelRequest,
    ModelResponse,
    input_types,
)

#: Reasons of failed calls that say nothing about the request: the provider does not answer now.
_OUTAGE_REASONS = frozenset(
    {"connection", "unavailable", "overloaded", "rate_limit", "circuit_open"}
)


class ModelFactory(Protocol):
    """Creates the models of a pool by name, with the prices and the cache of the run."""

    def display_name(self, name: str) -> str:
        """Return a model's name without settings, or "" for a model that is not metered."""
        ...

    def base_models(self, name: str) -> tuple[LanguageModelPort, ...]:
        """Return the alternatives that a name lists, each with its own connections."""
        ...

    def combine(
        self, name: str, models: tuple[LanguageModelPort, ...], sample: str
    ) -> LanguageModelPort:
        """Return alternatives as one model; cached answers are shared within a sample."""
        ...

    def adopt(self, model: LanguageModelPort) -> tuple[LanguageModelPort, str]:
        """Return a model object of the user with its price applied, and its name."""
        ...

    def meter(
        self,
        model: LanguageModelPort,
        call: ModelCall,
        *,
        on_call: Callable[[ModelCall], None],
        on_error: Callable[[BaseException], None],
    ) -> LanguageModelPort:
        """Return a model that reports each of its calls and errors."""
        ...


class ModelPool:
    """Provides the models of one episode.

    Agents share the connections of a model, but not its cached answers. Calls of the embedded
    model are not metered. After a configuration error no metered model is called again.
    """

    def __init__(
        self,
        episode: str,
        *,
        models: ModelFactory,
        calls: CallRecorderPort,
        max_connections: int | None = None,
    ) -> None:
        """Create a pool; `max_connections` limits the concurrent calls to each provider."""
        self._episode = episode
        self._max_connections = max_connections
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._outage = ""
        self._models = models
        self._calls = calls
        self._open: dict[str, tuple[LanguageModelPort, ...]] = {}
        self._error: Exception | None = None

    @property
    def configuration_error(self) -> str:
        """Return the first error that no retry can fix: a wrong key, name or library."""
        return "" if self._error is None else str(self._error)

    @property
    def outage(self) -> str:
        """Return why a provider could not be reached since the last `clear_outage`, or ""."""
        return self._outage

    def clear_outage(self) -> None:
        """Forget an outage: the turn was answered and scored nevertheless."""
        self._outage = ""

    @asynccontextmanager
    async def connection(self, name: str) -> AsyncIterator[None]:
        """Wait for a free connection to the provider of a model; deadlines do not include it."""
        if self._max_connections is None:
            yield
            return
        provider = name.partition(":")[0]
        slots = self._slots.setdefault(provider, asyncio.Semaphore(self._max_connections))
        with pause_deadlines():
            await slots.acquire()
        try:
            yield
        finally:
            slots.release()

    def model(
        self, name: str, *, agent: str, category: CostCategory = CostCategory.AGENT
    ) -> LanguageModelPort:
        """Return a model by name for an agent, its compressor or the judge."""
        if name not in self._open:
            self._open[name] = self._models.base_models(name)
        # No agent can be named "(judge)".
        owner = "(judge)" if category is CostCategory.JUDGE else agent
        model = self._models.combine(name, self._open[name], f"{self._episode}/{owner}")
        display_name = self._models.display_name(name)
        return self._metered(model, agent, category, display_name) if display_name else model

    def meter(
        self,
        model: LanguageModelPort,
        *,
        agent: str,
        category: CostCategory = CostCategory.AGENT,
        name: str = "",
    ) -> LanguageModelPort:
        """Return a model object of the user with its calls metered."""
        adopted, own_name = self._models.adopt(model)
        if own_name:
            # Its connections belong to the event loop of the episode and are closed with it.
            self._open[f"object {id(model)}"] = (model,)
        return self._metered(adopted, agent, category, name or own_name or type(model).__name__)

    async def aclose(self) -> None:
        """Close the connections of all models."""
        for model in chain.from_iterable(self._open.values()):
            close = getattr(model, "aclose", None)
            if close is not None:
                await close()

    def raise_error(self) -> None:
        """Raise the configuration error, if there is one."""
        if self._error is not None:
            raise self._error

    def _metered(
        self, model: LanguageModelPort, agent: str, category: CostCategory, name: str
    ) -> LanguageModelPort:
        owner = "" if category is CostCategory.JUDGE else agent
        call = ModelCall(category=category, agent=owner, model=name)
        metered = self._models.meter(
            model, call, on_call=self._record_call, on_error=self._record_error
        )
        return _PooledModel(metered, self, name)

    def _record_call(self, call: ModelCall) -> None:
        try:
            self._calls.record(call)
        except AccError as error:
            # A cost that cannot be stored is not an error of the agent.
            self._error = self._error or error
            raise

    def _record_error(self, error: BaseException) -> None:
        is_permanent = isinstance(error, InvalidInput) or (
            isinstance(error, ModelFailed) and error.is_configuration_error
        )
        if is_permanent and isinstance(error, Exception):
            self._error = self._error or error
        elif isinstance(error, ModelFailed) and error.reason in _OUTAGE_REASONS:
            self._outage = str(error)


class _PooledModel:
    """Refuses calls after a configuration error in the pool."""

    def __init__(self, model: LanguageModelPort, pool: ModelPool, name: str) -> None:
        self._model = model
        self._pool = pool
        self._name = name

    @property
    def input_types(self) -> tuple[str, ...] | None:
        return input_types(self._model)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        self._pool.raise_error()
        async with self._pool.connection(self._name):
            return await self._model.complete(prompt)

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        self._pool.raise_error()
        pieces: Any = self._model.stream(prompt)  # type: ignore[attr-defined] # metered models stream
        async with self._pool.connection(self._name):
            try:
                async for piece in pieces:
                    yield piece
            finally:
                await pieces.aclose()
