"""Chat completions: as OpenAI has them, and as its imitators do."""

import os
from typing import Any

from acc.adapters.chat.answering import Answer
from acc.adapters.chat.asking import bound_to, function, messages
from acc.adapters.chat.turns import Kept
from acc.adapters.providers.choice import ModelChoice
from acc.adapters.providers.wires.schemas import strict
from acc.adapters.providers.wires.wire import Settings, Shape, as_they_are, bearer
from acc.ports.outbound.model_ports import Prompt, ToolSpec

OPENAI = "https://api.openai.com/v1"
EFFORTS = {"on": "medium", "off": "none"}
#: The variables by which OpenAI is told who pays, as its own client knows them.
_PAYERS = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}


def openai_headers(key: str) -> dict[str, str]:
    """Return what goes with every question to OpenAI."""
    found = {name: os.environ.get(variable, "").strip() for name, variable in _PAYERS.items()}
    return bearer(key) | {name: value for name, value in found.items() if value}


class CompatibleWire:
    """Chat completions of a server of which nothing more is known."""

    home = ""
    streams_always = False
    wants_plain_arguments = True  # it may be anyone's behind it
    _cap = "max_tokens"

    def __init__(self, choice: ModelChoice) -> None:
        self._choice = choice

    def path(self, *, streams: bool) -> str:
        """Return where the question goes."""
        return "/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        """Return what goes with every question."""
        return bearer(key)

    def settings(self) -> Settings:
        """Return what the settings of the choice become."""
        choice = self._choice
        found = as_they_are(
            choice, temperature="temperature", top_p="top_p", max_tokens=self._cap, seed="seed"
        )
        if choice.thinking:
            effort = EFFORTS.get(choice.thinking, choice.thinking)
            found["thinking"] = {"reasoning_effort": effort}
        return found

    def body(self, prompt: Prompt, kept: Kept, *, streams: bool) -> dict[str, Any]:
        """Return a prompt, without the settings."""
        shape = Shape(prompt, native=self._choice.output != "prompted")
        body: dict[str, Any] = {"model": self._choice.model}
        bound = self._bound(shape)
        if bound is not None:
            body["response_format"] = bound
        if prompt.tools:
            body["tools"] = [self._tool(spec) for spec in prompt.tools]
        body["messages"] = self._messages(prompt, shape.told, kept)
        if streams:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def heard(self) -> Answer:
        """Return an answer that is yet to be read."""
        return Answer()

    def _bound(self, shape: Shape) -> dict[str, Any] | None:
        return None if shape.native is None else bound_to(shape.native)

    def _tool(self, spec: ToolSpec) -> dict[str, Any]:
        return function(spec)

    def _messages(self, prompt: Prompt, told: str, kept: Kept) -> list[dict[str, Any]]:
        return messages(prompt, images=True, told=told, kept=kept)


class OpenAIChatWire(CompatibleWire):
    """Chat completions of OpenAI itself, which binds calls and answers to a schema."""

    home = OPENAI
    wants_plain_arguments = False
    _cap = "max_completion_tokens"

    def headers(self, key: str) -> dict[str, str]:
        """Return what goes with every question."""
        return openai_headers(key)

    def _bound(self, shape: Shape) -> dict[str, Any] | None:
        if shape.native is None:
            return {"type": "json_object"} if shape.is_object else None
        bound = strict(shape.native)
        format_ = bound_to(shape.native if bound is None else bound)
        format_["json_schema"]["strict"] = bound is not None
        return format_

    def _tool(self, spec: ToolSpec) -> dict[str, Any]:
        made = function(spec)
        bound = strict(made["function"]["parameters"])
        if bound is not None:
            made["function"] |= {"parameters": bound, "strict": True}
        return made

    def _messages(self, prompt: Prompt, told: str, kept: Kept) -> list[dict[str, Any]]:
        return messages(prompt, images=True, files=True, told=told, by_turns=False, kept=kept)
