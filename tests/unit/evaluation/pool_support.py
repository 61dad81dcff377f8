"""A model factory and a call recorder for tests of model pools."""

from collections.abc import AsyncIterator, Callable

from acc.domain.cost import ModelCall
from acc.domain.errors import AccError
from acc.domain.value_objects.base import replace
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest, ModelResponse
from acc.testing import ScriptedModel


class RecordedCalls:
    def __init__(self, error: AccError | None = None) -> None:
        self.calls: list[ModelCall] = []
        self._error = error

    def record(self, call: ModelCall) -> None:
        if self._error is not None:
            raise self._error
        self.calls.append(call)


class MeteringModel:
    """Reports its calls, as MeteredModel does."""

    def __init__(
        self,
        model: LanguageModelPort,
        call: ModelCall,
        on_call: Callable[[ModelCall], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._model = model
        self._call = call
        self._on_call = on_call
        self._on_error = on_error

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        try:
            answer = await self._model.complete(prompt)
        except BaseException as error:
            self._on_call(replace(self._call, failed=True))
            self._on_error(error)
            raise
        self._on_call(self._call)
        return answer

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        answer = await self.complete(prompt)
        yield answer.text
        yield answer


class SimpleModelFactory:
    """Creates scripted models; objects with a `name` are adopted under it."""

    def __init__(self) -> None:
        self.samples: list[str] = []
        self.opened: list[str] = []

    def display_name(self, name: str) -> str:
        return "" if name == "embedded" else name.partition("?")[0]

    def base_models(self, name: str) -> tuple[LanguageModelPort, ...]:
        self.opened.append(name)
        return (ClosableModel(),)

    def combine(
        self, name: str, alternatives: tuple[LanguageModelPort, ...], sample: str
    ) -> LanguageModelPort:
        self.samples.append(sample)
        return alternatives[0]

    def adopt(self, model: LanguageModelPort) -> tuple[LanguageModelPort, str]:
        return model, getattr(model, "name", "")

    def meter(
        self,
        model: LanguageModelPort,
        call: ModelCall,
        *,
        on_call: Callable[[ModelCall], None],
        on_error: Callable[[BaseException], None],
    ) -> LanguageModelPort:
        return MeteringModel(model, call, on_call, on_error)


class ClosableModel(ScriptedModel):
    def __init__(self, name: str = "") -> None:
        super().__init__("answer", repeat=True)
        self.name = name
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1
