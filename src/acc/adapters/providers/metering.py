"""Models that tell what every call costs, and models whose price is set by who uses them."""

from collections.abc import AsyncIterator, Callable

from acc.adapters.providers.trying import close, streamed
from acc.domain.cost import ModelCall, Price
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Usage
from acc.ports.outbound.model_ports import LanguageModelPort, ModelAnswer, Prompt

OnCall = Callable[[ModelCall], None]


class MeteredModel:
    """Asks a model, and tells `on_call` of every call when it is over, also of one that failed.

    `call` is one of which nothing but who asks whom is known yet; `on_fault` hears what it failed
    with.
    """

    def __init__(
        self,
        model: LanguageModelPort,
        call: ModelCall,
        *,
        on_call: OnCall,
        on_fault: Callable[[BaseException], None] = lambda fault: None,
    ) -> None:
        self._model = model
        self._call = call
        self._on_call = on_call
        self._on_fault = on_fault

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the answer to a prompt."""
        try:
            answer = await self._model.complete(prompt)
        except BaseException as fault:
            # Also what is given up: it may have been charged for.
            self._failed()
            self._on_fault(fault)
            raise
        self._told(answer)
        return answer

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the text as it comes, and at the end the whole answer."""
        answered = False
        try:
            async for piece in streamed(self._model, prompt):
                if isinstance(piece, ModelAnswer):
                    answered = True
                    self._told(piece)
                yield piece
        except BaseException as fault:
            self._on_fault(fault)
            raise
        finally:
            if not answered:
                self._failed()

    async def aclose(self) -> None:
        """Close the model's connections."""
        await close(self._model)

    def _failed(self) -> None:
        self._on_call(replace(self._call, failed=True))

    def _told(self, answer: ModelAnswer) -> None:
        # A model may be anyone's code; what it returns is checked by who asked.
        usage = getattr(answer, "usage", None)
        if not isinstance(usage, Usage):
            self._failed()
            return
        self._on_call(
            replace(
                self._call,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                cost=usage.cost,
                from_cache=answer.kept,
            )
        )


class PricedModel:
    """Asks a model and prices its answers; where it does not tell its tokens, there is no price."""

    def __init__(self, model: LanguageModelPort, price: Price) -> None:
        self._model = model
        self._price = price

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the answer to a prompt."""
        return self._priced(await self._model.complete(prompt))

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the text as it comes, and at the end the whole answer."""
        async for piece in streamed(self._model, prompt):
            yield self._priced(piece) if isinstance(piece, ModelAnswer) else piece

    async def aclose(self) -> None:
        """Close the model's connections."""
        await close(self._model)

    def _priced(self, answer: ModelAnswer) -> ModelAnswer:
        usage = answer.usage
        told = usage.input_tokens or usage.output_tokens
        free = not (self._price.input or self._price.output)
        cost = self._price.cost(usage.input_tokens, usage.output_tokens) if told or free else None
        priced = replace(usage, cost=cost, priced_calls=0 if cost is None else 1)
        return replace(answer, usage=priced)
