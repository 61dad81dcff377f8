"""Output types of agents: the schema, decoding of answers, and partial outputs of a stream."""

import re
import types
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol

import msgspec

from acc.application.agents.base import BaseAgent
from acc.application.runtime.context import UNSET, RunContext
from acc.application.runtime.json_types import decode_model, json_schema, to_builtins
from acc.application.runtime.result import RunResult
from acc.application.runtime.type_variables import (
    AnyOutputT,
)
from acc.domain.call_options import explain_attributes
from acc.domain.errors import OutputUnavailable
from acc.domain.value_objects.base import ExplainedMeta, JsonData, Value
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.event import Event, EventKind

#: What `OutputType.decode` raises for an answer of another type.
INVALID_OUTPUT = (msgspec.MsgspecError, UnicodeEncodeError, RecursionError)
_CODE_FENCE = "```"
_BYTE_ORDER_MARK = "\ufeff"
#: A string, which may be incomplete at the end of the text, a sign, or another scalar.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*("|\\?\Z)|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_PARTIAL_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")
_CLOSING = {"{": "}", "[": "]"}
#: A partial output is decoded again when the text has grown by this share, so that the cost of all
#: decodings is proportional to the length of the text.
_GROWTH = 1 / 32


#: Attributes by the names that other libraries have for them.
_ATTRIBUTE_HINTS = {
    "text": "use .data for what has arrived, or .output for a value of the output type",
    "content": "use .data for what has arrived, or .output for a value of the output type",
    "delta": "use .data for what has arrived, or .output for a value of the output type",
    "value": "output",
    "kind": "events have a kind: use runner.stream(...)",
}


@explain_attributes(_ATTRIBUTE_HINTS)
class PartialOutput(Value, Generic[AnyOutputT], frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """An output while it is generated.

    `data` is what has arrived, as JSON data or text. `output` is `data` as a value of the output
    type, or None while something required is missing; a list has its complete items. `attempt`
    counts from 1: if the model's answer is rejected, the next attempt starts again. The last
    partial output of a stream has the `result`; everything before it can still be rejected.
    `author` is the agent that generates it.
    """

    author: str
    data: JsonData
    output: AnyOutputT | None = None
    attempt: int = 1
    result: RunResult[AnyOutputT] | None = None


class OutputType:
    """A type that answers must have, with its JSON schema.

    Unions of classes that msgspec cannot distinguish are decoded one by one: the first member whose
    fields include all fields of the answer, else the first that accepts it.
    """

    def __init__(self, of: object) -> None:
        self.of = of
        self._decoder = _make_decoder(of)
        self.schema: Mapping[str, JsonData] = self._decoder.schema()
        self._accepts_text = str in _members(of)

    def decode(self, text: str) -> object:
        """Return an answer as a value; one of INVALID_OUTPUT if it has another type.

        Text that is not a JSON object or array is accepted as it is if the type is a union with
        str.
        """
        body = strip_code_fence(text)
        if self._accepts_text:
            try:
                data = msgspec.json.decode(body)
            except (msgspec.MsgspecError, RecursionError):
                return text
            if not isinstance(data, dict | list):
                return data if isinstance(data, str) else text
        return self._decoder.decode(body)

    def convert_partial(self, data: JsonData) -> object:
        """Return incomplete JSON data as a value, UNSET if something required is missing.

        The last item of a list may be incomplete and is left out then.
        """
        for part in (data, data[:-1]) if isinstance(data, list) else (data,):
            with suppress(*INVALID_OUTPUT):
                return self._decoder.decode(msgspec.json.encode(part))
        return UNSET


def decode_partial(text: str) -> JsonData:
    """Return the data in an incomplete answer, UNSET if there is none."""
    completed = complete_json(_partial_body(text))
    return msgspec.json.decode(completed) if completed else UNSET


def _type_advice(value: object) -> str:
    """Return what to write in place of a value that is not a type."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], type):
        return f"write list[{value[0].__name__}]"
    if isinstance(value, Mapping):
        return "use a dataclass, a TypedDict, a msgspec.Struct or a pydantic model"
    if type(value).__module__ != "builtins":
        return f"write the class {type(value).__name__}"
    return "write the class itself, without quotes"


def make_output_type(of: object) -> OutputType | None:
    """Return an output type, or None for str; TypeError if it has no JSON schema."""
    if of is str:
        return None
    if not (isinstance(of, type) or typing.get_origin(of) is not None or _members(of)):
        raise TypeError(f"{of!r} is not a type: {_type_advice(of)}")
    return OutputType(of)


class OutputAssembler(Generic[AnyOutputT]):
    """Builds partial outputs from the events of a run and from its result."""

    def __init__(self, root: BaseAgent[Any, AnyOutputT]) -> None:
        self._root = root
        self._author = ""
        self._text = ""
        #: The number of the attempt of each agent that answers.
        self._attempts: dict[str, int] = {}

    def update(self, item: Event | RunResult[AnyOutputT]) -> PartialOutput[AnyOutputT] | None:
        """Return the next partial output, or None if an event does not change it.

        Branches and agents that are used as tools do not answer, so they are left out.
        """
        if isinstance(item, RunResult):
            return self._final(item)
        if item.branch or self._root.find(item.author) is None:
            return None
        if item.kind is EventKind.DELTA:
            if item.author != self._author:
                self._author, self._text = item.author, ""
            self._text += item.text
            return self._partial(item, self._text, self._text)
        if item.kind is EventKind.FAULT:
            self._attempts[item.author] = self._attempts.get(item.author, 1) + 1
        if item.kind is EventKind.PARTIAL_OUTPUT:
            self._attempts[item.author] = item.detail["attempt"]
            return self._partial(item, item.partial_output, UNSET)
        if item.kind in (EventKind.MESSAGE, EventKind.TOOL_CALLS, EventKind.FAULT):
            self._text = ""
        return None

    def _partial(self, event: Event, data: JsonData, text: object) -> PartialOutput[AnyOutputT]:
        """Return data as a value of the root's type or, in a workflow, of the author's type."""
        root = self._root
        agent = root if hasattr(root, "output") else root.find(event.author)
        of = getattr(agent, "output", None)
        value: Any = of.convert_partial(data) if isinstance(of, OutputType) else text
        return PartialOutput(
            author=event.author,
            data=data,
            output=None if value is UNSET else value,
            attempt=self._attempts.get(event.author, 1),
        )

    def _final(self, result: RunResult[AnyOutputT]) -> PartialOutput[AnyOutputT]:
        author = result.answered_by
        attempt = self._attempts.get(author, 1)
        data: JsonData = result.text or None
        output: AnyOutputT | None = None
        with suppress(OutputUnavailable):  # the result has the reason
            output = result.output
            data = to_builtins(output)
        return PartialOutput(
            author=author, data=data, output=output, attempt=attempt, result=result
        )


class PartialOutputs:
    """Shows the partial outputs of one model response."""

    def __init__(self, ctx: RunContext, *, attempt: int) -> None:
        self._ctx = ctx
        self._attempt = attempt
        self._text = ""
        self._next_length = 1.0
        self._last: JsonData = UNSET

    async def add(self, delta: str) -> None:
        """Add a piece of text; show the data if it has changed."""
        self._text += delta
        if len(self._text) < self._next_length:
            return
        self._next_length = len(self._text) * (1 + _GROWTH)
        data = decode_partial(self._text)
        if data is UNSET or data == self._last:
            return
        self._last = data
        await self._ctx.emit(
            EventKind.PARTIAL_OUTPUT,
            parts=(Part(is_null=True) if data is None else Part(data=data),),
            detail={"attempt": self._attempt},
        )


def strip_code_fence(text: str) -> str:
    """Return the content of the code fence that ends a text, else the whole text.

    A text with two fences is not split: the content between them is not valid JSON, and the model
    receives this error.
    """
    text = text.strip().removeprefix(_BYTE_ORDER_MARK).strip()
    _, fence, fenced = text.removesuffix(_CODE_FENCE).partition(_CODE_FENCE)
    if not fence or not text.endswith(_CODE_FENCE):
        return text
    return _without_language(fenced)


def complete_json(text: str) -> str:
    """Return the complete part of an incomplete JSON text as valid JSON, or an empty string.

    An incomplete string is included as far as it goes; an incomplete number is not.
    """
    stack: list[str] = []
    expects_key = [False]
    safe_end, safe_stack = 0, tuple(stack)
    candidates: list[str] = []
    for match in _TOKEN.finditer(text):
        symbol, end = match[0], match.end()
        if symbol in _CLOSING:
            stack.append(symbol)
            expects_key.append(symbol == "{")
        elif symbol in ("}", "]"):
            if not stack:
                return ""
            stack.pop()
            expects_key.pop()
        elif symbol in (",", ":"):
            expects_key[-1] = symbol == "," and stack[-1:] == ["{"]
            continue
        elif expects_key[-1] or (symbol[0] != '"' and end == len(text)):
            continue
        elif symbol[0] == '"' and match[1] != '"':
            candidates.append(_close(_PARTIAL_ESCAPE.sub(r"\1", text) + '"', stack))
            continue
        safe_end, safe_stack = end, tuple(stack)
    candidates.append(_close(text[:safe_end], safe_stack))
    return next(filter(_is_json, candidates), "")


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except INVALID_OUTPUT:
        return False
    return True


def _close(text: str, stack: Sequence[str]) -> str:
    return text + "".join(_CLOSING[opening] for opening in reversed(stack))


def _partial_body(text: str) -> str:
    """Return the JSON of an incomplete answer, which may start with an open code fence."""
    before, fence, fenced = text.lstrip().removeprefix(_BYTE_ORDER_MARK).partition(_CODE_FENCE)
    if not fence:
        return before
    return _without_language(fenced.partition(_CODE_FENCE)[0])


def _without_language(fenced: str) -> str:
    body = fenced.strip()
    return body[4:] if body[:4].lower() == "json" else body


def _members(of: object) -> tuple[Any, ...]:
    """Return the members of a union type, none for other types."""
    return typing.get_args(of) if typing.get_origin(of) in (typing.Union, types.UnionType) else ()


class _Decoder(Protocol):
    def schema(self) -> dict[str, Any]: ...

    def decode(self, body: str | bytes) -> object: ...


def _make_decoder(of: Any) -> _Decoder:
    try:
        return _NativeDecoder(of)
    except (TypeError, ValueError):
        if members := _members(of):
            return _UnionDecoder(members)
        if typing.get_origin(of) is list:
            return _ListDecoder(*typing.get_args(of))
        raise


class _NativeDecoder:
    """A type that msgspec decodes, also with pydantic models in it."""

    def __init__(self, of: Any) -> None:
        self._schema = json_schema(of)
        self._decoder = msgspec.json.Decoder(of, dec_hook=decode_model)
        #: Names of the fields of an object, to choose between the members of a union.
        root = self._schema
        name = str(root.get("$ref", "")).rpartition("/")[2]
        self.fields = frozenset((root.get("$defs", {}).get(name) or root).get("properties", ()))

    def schema(self) -> dict[str, Any]:
        return self._schema

    def decode(self, body: str | bytes) -> object:
        return self._decoder.decode(body)


class _UnionDecoder:
    def __init__(self, members: Sequence[Any]) -> None:
        self._members = [_make_decoder(member) for member in members]

    def schema(self) -> dict[str, Any]:
        schemas = [dict(member.schema()) for member in self._members]
        definitions: dict[str, Any] = {}
        for schema in schemas:
            for name, definition in schema.pop("$defs", {}).items():
                if definitions.setdefault(name, definition) != definition:
                    raise TypeError(f"two different classes are named {name}")
        return {"anyOf": schemas, **({"$defs": definitions} if definitions else {})}

    def decode(self, body: str | bytes) -> object:
        data = msgspec.json.decode(body)
        names = set(data) if isinstance(data, dict) else set()
        values: list[object] = []
        errors: list[str] = []
        for member in self._members:
            try:
                value = member.decode(body)
            except msgspec.MsgspecError as error:
                errors.append(str(error))
                continue
            if names <= getattr(member, "fields", names):
                return value
            values.append(value)
        if not values:
            raise msgspec.ValidationError("; or ".join(dict.fromkeys(errors)))
        return values[0]


class _ListDecoder:
    """A list of a union that msgspec does not decode."""

    def __init__(self, item: Any) -> None:
        self._item = _make_decoder(item)

    def schema(self) -> dict[str, Any]:
        schema = dict(self._item.schema())
        definitions = schema.pop("$defs", None)
        array = {"type": "array", "items": schema}
        return {**array, "$defs": definitions} if definitions else array

    def decode(self, body: str | bytes) -> object:
        items = msgspec.json.decode(body, type=list[msgspec.Raw])
        return [self._item.decode(bytes(item)) for item in items]


def output_of(root: "BaseAgent", last: "RunContext") -> object:
    """Return the answer of a run as a value of the root's output type, or why it is not one.

    After a transfer the answer is that of another agent, whose output type may differ.
    """
    if last.agent is root and last.output is not UNSET:
        return last.output
    try:
        return root.decode_output(last.text)
    except INVALID_OUTPUT as error:
        return OutputUnavailable(
            f"the answer of {last.agent.name!r} does not have the output type of "
            f"{root.name!r}: {error}"
        )
