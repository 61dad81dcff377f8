"""A model of any provider, asked through pydantic-ai's model classes; nothing is tried twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, cast

import httpx2
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from acc.adapters.chat.naming import Spoken
from acc.adapters.chat.writing import sendable
from acc.adapters.providers.choice import ModelChoice
from acc.adapters.providers.conversation import Conversation, parameters, tool_call
from acc.adapters.providers.faults import Faults
from acc.adapters.providers.opening import open_model
from acc.adapters.providers.pricing import Prices
from acc.adapters.providers.reasons import failure
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.content import Usage
from acc.ports.outbound.model_ports import ModelAnswer, Prompt

#: What goes wrong in a call, by whoever's hand; anything else is a mistake of ours.
_FAULTS = (
    AgentRunError,
    UserError,
    httpx2.HTTPError,
    OSError,
    TimeoutError,
    ValueError,
    RecursionError,
)
_SENT_AS_THEY_ARE = ("temperature", "top_p", "max_tokens", "seed", "thinking")


class HostedModel:
    """Asks one model of one provider.

    Connections belong to the event loop that opened them, so each loop gets its own; `aclose` ends
    those of the running one.
    """

    def __init__(self, choice: ModelChoice) -> None:
        self.choice = choice
        self._key = choice.key()
        self._faults = Faults(choice, self._key)
        self._conversation = Conversation()
        self._prices = Prices()
        self._settings = _settings(choice)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._model: Model | None = None
        self._stack = AsyncExitStack()

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the answer to a prompt."""
        model, spoken = self._opened(), Spoken(sendable(prompt), arguments=True)
        try:
            response = await model.request(
                self._conversation.messages(spoken.prompt),
                self._settings,
                self._parameters(model, spoken.prompt),
            )
        except _FAULTS as error:
            raise failure(error, self._faults) from None
        return spoken.heard(self._answer(response))

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the text as it comes, and at the end the whole answer.

        A stream that breaks off is a failure, however much of it had come.
        """
        model, spoken = self._opened(), Spoken(sendable(prompt), arguments=True)
        try:
            async with model_request_stream(
                model,
                self._conversation.messages(spoken.prompt),
                model_settings=self._settings,
                model_request_parameters=self._parameters(model, spoken.prompt),
                instrument=False,
            ) as pieces:
                async for event in pieces:
                    text = _text(event)
                    if text:
                        yield text
                response = pieces.get()
        except _FAULTS as error:
            raise failure(error, self._faults) from None
        yield spoken.heard(self._answer(response))

    async def aclose(self) -> None:
        """Close the connections."""
        stack, self._stack = self._stack, AsyncExitStack()
        self._loop = self._model = None
        await stack.aclose()

    def _opened(self) -> Model:
        loop = asyncio.get_running_loop()
        if self._model is None or self._loop is not loop:
            # What another loop opened cannot be closed from this one.
            self._stack = AsyncExitStack()
            self._model = self._open(self._stack)
            self._loop = loop
        return self._model

    def _open(self, stack: AsyncExitStack) -> Model:
        choice = self.choice
        try:
            return open_model(choice, self._key, self._faults, stack)
        except ImportError:
            raise self._faults.made(
                f"its client is not installed: pip install 'pydantic-ai-slim[{choice.provider}]'",
                reason="not_installed",
            ) from None
        except (UserError, ValueError, TypeError) as error:
            raise failure(error, self._faults) from None

    def _parameters(self, model: Model, prompt: Prompt) -> ModelRequestParameters:
        if prompt.output_schema is None:
            return parameters(prompt, native=False, native_with_tools=False)
        profile: Any = model.profile
        output = self.choice.output
        able = output != "prompted" and bool(profile.get("supports_json_schema_output"))
        both = profile.get("google_supports_tool_combination", "google" not in self.choice.provider)
        return parameters(prompt, native=able or output == "native", native_with_tools=bool(both))

    def _answer(self, response: ModelResponse) -> ModelAnswer:
        if response.state != "complete" or response.finish_reason is None:
            raise self._faults.cut_off()
        texts: list[str] = []
        calls = []
        for part in response.parts:
            if isinstance(part, TextPart):
                texts.append(part.content)
            elif isinstance(part, ToolCallPart):
                calls.append(tool_call(part))
        text = "".join(texts)
        if response.finish_reason == "content_filter":
            raise self._refused(response)
        if response.finish_reason == "length" and not text and not calls:
            raise self._faults.made(
                "it used up max_tokens before it said anything: allow more", reason="length"
            )
        self._conversation.keep(response, calls)
        usage = _usage(response, self._prices.cost(response))
        return ModelAnswer(text=text, calls=tuple(calls), usage=usage)

    def _refused(self, response: ModelResponse) -> ModelFailed:
        said = (response.provider_details or {}).get("refusal", "")
        words = f": {said[:300]}" if isinstance(said, str) and said else ""
        return self._faults.made(f"it refused to answer this{words}", reason="refused")


def _settings(choice: ModelChoice) -> ModelSettings:
    settings: dict[str, Any] = {"timeout": choice.timeout}
    for name in _SENT_AS_THEY_ARE:
        value = getattr(choice, name)
        if value is not None and value != "":
            settings[name] = value
    if choice.thinking in ("on", "off"):
        settings["thinking"] = choice.thinking == "on"
    return cast("ModelSettings", settings)


def _text(event: object) -> str:
    """Return the text that an event brings."""
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    return ""


def _usage(response: ModelResponse, cost: float | None) -> Usage:
    spent = response.usage
    return Usage(
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cached_tokens=spent.cache_read_tokens,
        cost=cost,
        priced_calls=0 if cost is None else 1,
    )
