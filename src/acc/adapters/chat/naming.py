"""Tools under names that every provider takes, and their calls under our own again."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as dataclass_replace
from hashlib import sha256
from typing import Any

from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, ToolCall
from acc.ports.outbound.model_ports import ModelAnswer, Prompt, PromptMessage, ToolSpec

#: What all providers take as the name of an argument; some take more.
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9]+")
_MOST_KEPT = 40

Aliases = Mapping[str, str]


class Spoken:
    """A prompt as a provider takes it: names of tools that are not ASCII become names that are.

    The name in its own script goes into the description, for a model to go by. With `arguments` the
    names of arguments are held to what all providers take, too.
    """

    def __init__(self, prompt: Prompt, *, arguments: bool) -> None:
        self.prompt = prompt
        self._tools = _aliases("tool", (spec.name for spec in prompt.tools), str.isascii)
        self._arguments: dict[str, Aliases] = {}
        for spec in prompt.tools if arguments else ():
            fields = spec.parameters.get("properties")
            odd = _aliases("arg", fields if isinstance(fields, dict) else (), _ARGUMENT.fullmatch)
            if odd:
                self._arguments[spec.name] = odd
        if self._tools or self._arguments:
            self.prompt = replace(
                prompt,
                tools=tuple(map(self._tool, prompt.tools)),
                messages=tuple(map(self._message, prompt.messages)),
            )

    def heard(self, answer: ModelAnswer) -> ModelAnswer:
        """Return an answer with its calls under our names."""
        if not answer.calls or not (self._tools or self._arguments):
            return answer
        names = {alias: name for name, alias in self._tools.items()}
        return replace(answer, calls=tuple(self._ours(call, names) for call in answer.calls))

    def _ours(self, call: ToolCall, names: Aliases) -> ToolCall:
        name = names.get(call.name, call.name)
        own = {alias: key for key, alias in self._arguments.get(name, {}).items()}
        return replace(call, name=name, arguments=_renamed(call.arguments, own))

    def _tool(self, spec: ToolSpec) -> ToolSpec:
        alias, odd = self._tools.get(spec.name), self._arguments.get(spec.name)
        if alias is not None:
            spec = dataclass_replace(
                spec, name=alias, description=_described(spec.name, spec.description)
            )
        return (
            spec
            if odd is None
            else dataclass_replace(spec, parameters=_plain(spec.parameters, odd))
        )

    def _message(self, message: PromptMessage) -> PromptMessage:
        return replace(message, parts=tuple(map(self._part, message.parts)))

    def _part(self, part: Part) -> Part:
        call, result = part.call, part.result
        if call is not None:
            odd = self._arguments.get(call.name, {})
            name = self._tools.get(call.name, call.name)
            return replace(
                part, call=replace(call, name=name, arguments=_renamed(call.arguments, odd))
            )
        if result is not None and result.name in self._tools:
            return replace(part, result=replace(result, name=self._tools[result.name]))
        return part


def _aliases(kind: str, names: Iterable[str], is_plain: Callable[[str], object]) -> dict[str, str]:
    """Return what stands for each name that is not plain, the same whenever it is asked for."""
    return {name: _alias(kind, name) for name in names if not is_plain(name)}


def _alias(kind: str, name: str) -> str:
    kept = _NOT_PLAIN.sub("_", name).strip("_")[:_MOST_KEPT]
    mark = sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return "_".join(filter(None, (kind, kept, mark)))


def _plain(schema: Mapping[str, Any], odd: Aliases) -> dict[str, Any]:
    """Return the schema of a tool's arguments under other names."""
    fields: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        if name in odd and isinstance(field, dict):
            field = {**field, "description": _described(name, field.get("description", ""))}
        fields[odd.get(name, name)] = field
    required = [odd.get(name, name) for name in schema.get("required") or ()]
    return {**schema, "properties": fields, "required": required}


def _described(name: str, description: object) -> str:
    return f"{name}: {description}" if description else name


def _renamed(arguments: Mapping[str, Any], names: Aliases) -> Mapping[str, Any]:
    return {names.get(key, key): value for key, value in arguments.items()} if names else arguments
