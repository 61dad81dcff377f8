"""An agent of the OpenAI Agents SDK with a scripted model."""

import json
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import script
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from recording import Sent

# Not by an import statement: to a type checker the name is that of a folder of tests.
sdk: Any = import_module("agents")
sdk.set_tracing_disabled(True)
#: The SDK returns the text of a tool's error to the model, and does not report it as an error.
HIDES_TOOL_ERRORS = True


def as_sent(item: Any) -> Sent:
    """Return an input item as the suites know it."""
    kind = item.get("type", "message")
    if kind == "function_call":
        return Sent("assistant", item["arguments"], (item["call_id"],))
    if kind == "function_call_output":
        return Sent("tool", str(item["output"]), (), (item["call_id"],))
    content = item["content"]
    text = content if isinstance(content, str) else "".join(one["text"] for one in content)
    return Sent(item["role"], text)


class ScriptedModel(sdk.Model):
    """Answers as the script says, and keeps the requests that it got."""

    def __init__(self) -> None:
        self.requests: list[list[Any]] = []

    async def get_response(
        self, system_instructions: Any, input: Any, *arguments: Any, **options: Any
    ) -> Any:
        self.requests.append(list(input))
        messages = [script.Message(one.role, one.text) for one in map(as_sent, input)]
        answer = script.reply(messages)
        output: Any
        if isinstance(answer, str):
            text = ResponseOutputText(text=answer, type="output_text", annotations=[])
            output = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            output = ResponseFunctionToolCall(
                call_id=f"call-{len(input)}",
                type="function_call",
                name=answer.name,
                arguments=json.dumps(answer.arguments),
            )
        usage = sdk.Usage(
            requests=1, input_tokens=script.INPUT_TOKENS, output_tokens=script.OUTPUT_TOKENS
        )
        return sdk.ModelResponse(output=[output], usage=usage, response_id=None)

    async def stream_response(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        response = await self.get_response(*arguments, **options)
        (output,) = response.output
        if isinstance(output, ResponseOutputMessage):
            words = str(getattr(output.content[0], "text", "")).split(" ")
            for number, word in enumerate(words):
                yield ResponseTextDeltaEvent(
                    type="response.output_text.delta",
                    delta=f" {word}" if number else word,
                    content_index=0,
                    item_id="m",
                    output_index=0,
                    sequence_number=number,
                    logprobs=[],
                )
        usage = {
            "input_tokens": script.INPUT_TOKENS,
            "output_tokens": script.OUTPUT_TOKENS,
            "total_tokens": script.INPUT_TOKENS + script.OUTPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        finished = Response(
            id="r",
            created_at=0,
            model="scripted",
            object="response",
            output=[output],
            parallel_tool_calls=False,
            tool_choice="auto",
            tools=[],
            usage=ResponseUsage.model_validate(usage),
        )
        yield ResponseCompletedEvent(
            type="response.completed", response=finished, sequence_number=99
        )


def delete(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


def build_agent() -> tuple[Any, ScriptedModel]:
    """Return an agent and its model."""
    model = ScriptedModel()
    tools = [
        sdk.function_tool(script.add),
        sdk.function_tool(script.broken),
        sdk.function_tool(delete, needs_approval=True),
    ]
    agent = sdk.Agent(name="desk", model=model, tools=tools, instructions="You are a helpful desk.")
    return agent, model


def make_agent(name: str) -> Any:
    """Return the agent as an agent of acc."""
    from acc.frameworks import OpenAIAgentsAgent

    return OpenAIAgentsAgent(build_agent()[0], name=name)


agent = build_agent()[0]


class MemoryConversation:
    """A conversation of an agent of the SDK with ACC memory, or without it for comparison."""

    def __init__(
        self,
        store: str = "memory",
        *,
        session_id: str = "a",
        has_memory: bool = True,
        **options: Any,
    ) -> None:
        from acc.frameworks.openai_agents import AccMemory

        self.memory = AccMemory(store=store, session_id=session_id, **options)
        self._agent, self._model = build_agent()
        self._items: list[Any] = []
        self._filter = self.memory if has_memory else None

    async def send(self, text: str) -> str:
        config = sdk.RunConfig(call_model_input_filter=self._filter)
        given = [*self._items, {"role": "user", "content": text}]
        result = await sdk.Runner.run(self._agent, given, run_config=config)
        self._items = result.to_input_list()
        return str(result.final_output)

    async def history(self) -> list[str]:
        """Return the texts of the user's messages that the framework stores."""
        return [one["content"] for one in self._items if one.get("role") == "user"]

    @property
    def requests(self) -> list[list[Sent]]:
        return [[as_sent(item) for item in request] for request in self._model.requests]

    def forget_requests(self) -> None:
        self._model.requests.clear()

    async def close(self) -> None:
        await self.memory._memory.aclose()
