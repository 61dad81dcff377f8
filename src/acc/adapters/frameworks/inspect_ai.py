"""Models of Inspect AI as language models of acc."""

from inspect_ai.model import ChatMessage as InspectMessage
from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, Model

from acc.domain.value_objects.content import ChatMessage, Usage
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse


class InspectModel:
    """Answers with the model of an Inspect task; implements LanguageModelPort.

    Calls are part of the log of Inspect, with its cache, limits and usage.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the answer of the model; instruction and memory are a system message."""
        system = "\n\n".join(text for text in (prompt.instruction, prompt.memory) if text)
        messages: list[InspectMessage] = [ChatMessageSystem(content=system)] if system else []
        messages += map(_message, prompt.messages)
        output = await self._model.generate(messages)
        used = output.usage
        return ModelResponse(
            text=output.completion,
            usage=Usage(
                llm_calls=1,
                input_tokens=used.input_tokens if used else 0,
                output_tokens=used.output_tokens if used else 0,
            ),
        )


def _message(message: ChatMessage) -> InspectMessage:
    if message.role == "assistant":
        return ChatMessageAssistant(content=message.text)
    return ChatMessageUser(content=message.text)
