"""A model of Inspect AI that repeats the last message."""

from typing import Any

from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    modelapi,
)

#: Requests of the model in the order of the calls.
REQUESTS: list[list[ChatMessage]] = []


class Echo(ModelAPI):
    """Repeats the last message."""

    async def generate(
        self, input: list[ChatMessage], tools: Any, tool_choice: Any, config: GenerateConfig
    ) -> ModelOutput:
        REQUESTS.append(list(input))
        output = ModelOutput.from_content(self.model_name, input[-1].text)
        words = sum(len(message.text.split()) for message in input)
        output.usage = ModelUsage(input_tokens=words, output_tokens=1, total_tokens=words + 1)
        return output


@modelapi(name="echo")
def echo() -> type[ModelAPI]:
    return Echo


model = get_model("echo/echo")
