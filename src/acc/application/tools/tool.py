"""Tools: functions with type hints that a model may call, and agents used as such."""

import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, Protocol, overload, runtime_checkable

import msgspec

from acc.application.agents.base import BaseAgent, Confirm, check_name
from acc.application.runtime.artifacts import Artifacts
from acc.application.runtime.context import RunContext
from acc.application.runtime.state import StateView
from acc.domain.errors import InvalidInput, InvalidTree
from acc.domain.value_objects.content import Part
from acc.ports.outbound.model_ports import ToolSpec

_CONTEXT_NAMES = ("ctx", "context", "tool_context")
_ARGUMENTS = re.compile(r"^\s*(?:Args|Arguments|Parameters|引数)\s*[:：]\s*$")
_SECTION = re.compile(
    r"^(?:Returns|Raises|Yields|Examples?|Notes?|戻り値|例外)\s*[:：]|^:(?:returns?|rtype|raises)\b"
)
_ARGUMENT = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:[(（][^)）]*[)）])?\s*[:：]\s*(.+)$")
_FIELD = re.compile(r"^\s*:param\s+(?:[\w\[\], |.]+\s)?(\w+)\s*:\s*(.+)$")


@dataclass(slots=True)
class ToolActions:
    """What a tool asks of the run. `escalate` ends the innermost loop."""

    escalate: bool = False


class ToolContext:
    """What a tool is given besides its arguments."""

    __slots__ = ("_context", "_staged", "_view", "actions", "call_id")

    def __init__(self, context: RunContext, call_id: str) -> None:
        self._context = context
        self._view = StateView(context.state)
        self._staged: list[tuple[str, str | bytes, str]] = []
        self.call_id = call_id
        self.actions = ToolActions()

    @property
    def state(self) -> MutableMapping[str, Any]:
        """Return the session's state, as far as it is granted to the agent."""
        return self._view

    @property
    def artifacts(self) -> Artifacts:
        """Return the files that the agents of this session share."""
        return self._context.artifacts

    async def fetch(
        self,
        source: Part | str,
        *,
        types: Sequence[str] = ("*/*",),
        max_bytes: int = 8 * 1024 * 1024,
        timeout: float = 30.0,  # noqa: ASYNC109 - a limit of the download
    ) -> Part:
        """Return a file that a part, or a URL, refers to, as `RunContext.fetch` does."""
        return await self._context.fetch(source, types=types, max_bytes=max_bytes, timeout=timeout)

    @property
    def agent_name(self) -> str:
        """Return who called the tool."""
        return self._context.agent.name

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self._context.run_id

    @property
    def session_id(self) -> str:
        """Return the session's id."""
        return self._context.session_id

    @property
    def user_id(self) -> str:
        """Return the user's id, or nothing where it is not granted."""
        return self._context.user_id

    @property
    def request_id(self) -> str:
        """Return the request's id."""
        return self._context.call.request_id

    @property
    def trace_id(self) -> str:
        """Return the id that ties together the logs of everything this request caused."""
        return self._context.call.trace_id

    @property
    def caller(self) -> str:
        """Return on whose behalf the agent works."""
        return self._context.call.caller

    @property
    def permissions(self) -> Collection[str] | None:
        """Return the permissions that the call carries; None stands for all."""
        return self._context.call.permissions

    def save_artifact(
        self,
        filename: str,
        artifact: str | bytes | Part,
        *,
        media_type: str = "text/plain; charset=utf-8",
    ) -> None:
        """Store a further version of a file once the tool has returned; no await needed."""
        if isinstance(artifact, Part):
            media_type = artifact.media_type or media_type
            held = artifact.text if artifact.text is not None else artifact.raw
            if held is None:
                raise InvalidInput("a part with neither text nor raw bytes is no file")
            artifact = held
        self._staged.append((filename, artifact, media_type))

    async def progress(self, text: str, *, detail: Mapping[str, Any] | None = None) -> None:
        """Show the progress of the tool; this is not stored."""
        await self._context.progress(text, detail=detail)

    async def settle(self) -> None:
        """Store what the tool staged."""
        for name, content, media_type in self._staged:
            await self.artifacts.save(name, content, media_type=media_type)

    def close(self) -> None:
        """Refuse further writes from a function that was given up on."""
        self._view.close()


@runtime_checkable
class Tool(Protocol):
    """Anything that a model may call."""

    name: str
    description: str
    confirm: Confirm
    confirm_expires: float | None
    requires: str
    timeout: float | None
    long_running: bool
    parallel: bool
    #: Whether it may be begun again in a resumed run, because all it does is on record.
    replayable: bool

    @property
    def spec(self) -> ToolSpec:
        """Return the tool as a model sees it."""
        ...

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the tool takes them, or raise msgspec.ValidationError."""
        ...

    async def invoke(
        self, context: RunContext, tool_context: ToolContext, arguments: Mapping[str, Any]
    ) -> Any:
        """Do what the tool does."""
        ...


@dataclass(eq=False)
class FunctionTool:
    """A function as a tool. It can still be called as the function it is.

    `confirm` asks a person first: always (True), by a predicate over the arguments, or always with
    the words given. `requires` names a permission. A `long_running` function only starts the work:
    the run pauses, and the outcome is handed in later. With `parallel=False` it never runs beside
    other calls of the same answer.
    """

    func: Callable[..., Any]
    name: str = ""
    description: str = ""
    confirm: Confirm = False
    confirm_expires: float | None = None
    requires: str = ""
    timeout: float | None = None
    long_running: bool = False
    parallel: bool = True
    replayable: bool = field(default=False, init=False)
    #: Defaults that JSON has no words for, as infinity, so that neither models nor people see them.
    untold: Mapping[str, Any] = field(init=False, repr=False)
    _spec: ToolSpec = field(init=False, repr=False)
    _takes: type[Any] = field(init=False, repr=False)
    _context_name: str = field(init=False, repr=False, default="")
    _is_async: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        target = self.func
        self.name = self.name or getattr(target, "__name__", "")
        if not self.name:
            raise InvalidTree(
                f"{target!r} has no name to be called by as a tool: give a function with type "
                "hints that calls it"
            )
        check_name(self.name, "a tool")
        _check_terms(self)
        text, described = read_docstring(inspect.getdoc(target) or "")
        self.description = self.description or text
        parameters = self._parameters()
        try:
            found = [_field(name, *given) for name, given in parameters.items()]
            self._takes = msgspec.defstruct(
                "arguments", found, kw_only=True, forbid_unknown_fields=True
            )
            schema = _schema(self._takes, described)
        except _WrongDefault as error:
            raise InvalidTree(f"tool {self.name!r}: {error}") from None
        except (TypeError, ValueError, NameError, KeyError) as error:
            raise InvalidTree(f"tool {self.name!r}: its signature has no schema: {error}") from None
        self.untold = {
            name: default
            for name, (_, default) in parameters.items()
            if default is not inspect.Parameter.empty and not _is_told(default)
        }
        for name in self.untold:
            schema["properties"][name].pop("default", None)
        self._spec = ToolSpec(name=self.name, description=self.description, parameters=schema)
        self._is_async = inspect.iscoroutinefunction(target)
        functools.update_wrapper(self, target, updated=())

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        """Call the function itself."""
        return self.func(*arguments, **named)

    @property
    def spec(self) -> ToolSpec:
        """Return the tool as a model sees it."""
        return self._spec

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them, or raise msgspec.ValidationError."""
        return msgspec.structs.asdict(_read(arguments, self._takes))

    async def invoke(
        self, context: RunContext, tool_context: ToolContext, arguments: Mapping[str, Any]
    ) -> Any:
        """Call the function; one that is not async runs in a thread and blocks nobody."""
        named = dict(arguments)
        if self._context_name:
            named[self._context_name] = tool_context
        if self._is_async:
            return await self.func(**named)
        found = await context.services.threads.call(_contained, self.func, named)
        return await found if inspect.isawaitable(found) else found

    def _parameters(self) -> dict[str, tuple[Any, Any]]:
        """Return name, type and default of each argument; the context is not one of them."""
        try:
            hints = typing.get_type_hints(self.func, include_extras=True)
        except NameError as error:
            raise InvalidTree(f"tool {self.name!r}: {error}; import the type it names") from None
        except TypeError:
            raise InvalidTree(f"tool {self.name!r}: give a function with type hints") from None
        found: dict[str, tuple[Any, Any]] = {}
        for name, parameter in inspect.signature(self.func).parameters.items():
            kind = hints.get(name, Any)
            if _is_context(kind) or (kind is Any and name in _CONTEXT_NAMES):
                self._context_name = name
                continue
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise InvalidTree(f"tool {self.name!r}: {name!r} cannot be given by its name")
            if name not in hints:
                raise InvalidTree(f"tool {self.name!r}: {name!r} needs a type hint")
            found[name] = (kind, parameter.default)
        return found


def _is_context(kind: Any) -> bool:
    """Tell whether a hint asks for the context, with a note on it or with None beside it."""
    if typing.get_origin(kind) in (Annotated, typing.Union, types.UnionType):
        return any(map(_is_context, typing.get_args(kind)))
    return kind is ToolContext


def _contained(function: Callable[..., Any], named: Mapping[str, Any]) -> Any:
    """Call a function in its thread, where nobody can have pressed Ctrl-C or closed anything."""
    try:
        return function(**named)
    except (GeneratorExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _check_terms(given: "FunctionTool | AgentTool") -> None:
    """Refuse terms under which nothing could be called."""
    if not (isinstance(given.confirm, bool | str) or callable(given.confirm)):
        raise InvalidTree(
            f"tool {given.name!r}: confirm is True, a text to ask with, or a function, not "
            f"{given.confirm!r}"
        )
    for name in ("timeout", "confirm_expires"):
        seconds = getattr(given, name)
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            raise InvalidTree(f"tool {given.name!r}: {name} cannot be {seconds!r}")


class _WrongDefault(Exception):
    """Says which default its own type hint does not take."""


def _field(name: str, kind: Any, default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return (name, kind)
    kind = _kind_with_default(name, kind, default)
    if isinstance(default, list | dict | set) or _is_model(type(default)):
        return (name, kind, msgspec.field(default_factory=functools.partial(deepcopy, default)))
    return (name, kind, default)


def _kind_with_default(name: str, kind: Any, default: Any) -> Any:
    """Return a hint that takes its default too, as whoever is shown that may give it."""
    try:
        _read(as_data(default), kind)
    except msgspec.ValidationError as error:
        if default is None:
            return kind | None
        if _is_told(default):
            raise _WrongDefault(f"the default of {name!r} does not fit its hint: {error}") from None
    return kind


def _is_told(default: Any) -> bool:
    """Tell whether JSON has words for a default: there are none for infinity."""
    data = as_data(default)
    return bool(msgspec.json.decode(msgspec.json.encode(data)) == data)


def as_shown(tool: "Tool", arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as a person is shown them, from whatever record they are read."""
    untold = tool.untold if isinstance(tool, FunctionTool) else {}
    told = {
        name: value
        for name, value in arguments.items()
        if name not in untold or value not in (untold[name],)
    }
    shown: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(as_data(told)))
    return shown


def as_data(value: Any) -> Any:
    """Return what msgspec read as plain data, with the defaults it left to the classes."""
    return msgspec.to_builtins(_whole(value), str_keys=True, enc_hook=model_as_data)


def _read(data: Any, kind: Any) -> Any:
    """Return data of JSON, whose keys are texts whatever they stand for, as a type has it."""
    return msgspec.convert(data, kind, str_keys=True, dec_hook=as_model)


def as_model(kind: type[Any], data: Any) -> Any:
    """Return data as a class of pydantic's has it, or of another library with such methods."""
    _check_model(kind)
    return kind.model_validate_json(msgspec.json.encode(data))


def model_as_data(value: Any) -> Any:
    """Return what such a class holds, under the names that its schema has."""
    if not _is_model(type(value)):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
    return value.model_dump(mode="json", by_alias=True)


def _is_model(kind: type[Any]) -> bool:
    methods = ("model_json_schema", "model_validate_json", "model_dump")
    return all(hasattr(kind, name) for name in methods)


def _whole(value: Any) -> Any:
    if is_dataclass(value):
        return {item.name: _whole(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return value


def _check_model(kind: type[Any]) -> None:
    if not _is_model(kind):
        raise TypeError(
            f"{kind.__name__} is of no kind that can be read from JSON: take a dataclass, a "
            "TypedDict, a msgspec.Struct, a pydantic model, or types as str and list[int]"
        )


def json_schema(of: Any) -> dict[str, Any]:
    """Return the JSON schema of a type."""
    parts: dict[str, Any] = {}

    def of_model(kind: type[Any]) -> dict[str, Any]:
        _check_model(kind)
        found = dict(kind.model_json_schema())
        _add_parts(parts, found.pop("$defs", {}))
        return found

    schema = msgspec.json.schema(of, schema_hook=of_model)
    if parts:
        # What refers to them does so from the top.
        _add_parts(parts, schema.get("$defs", {}))
        schema["$defs"] = parts
    # msgspec 0.22 finds fields whose names are not ASCII only once they have been written.
    msgspec.json.encode(schema)
    return schema


def _add_parts(parts: dict[str, Any], further: Mapping[str, Any]) -> None:
    for name, part in further.items():
        if parts.setdefault(name, part) != part:
            raise TypeError(f"two of its classes are called {name}")


def _schema(takes: type[Any], described: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON schema of the arguments, with what the docstring says about each."""
    schema = json_schema(takes)
    definitions = schema.get("$defs", {})
    top = definitions.pop("arguments")
    top.pop("title", None)
    for name, text in described.items():
        if name in top.get("properties", {}):
            top["properties"][name].setdefault("description", text)
    if definitions:
        top["$defs"] = definitions
    return dict(top)


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return what a docstring says about a function, and about each of its arguments."""
    said: list[str] = []
    described: dict[str, str] = {}
    within = False
    last = ""
    for line in text.splitlines():
        if _ARGUMENTS.match(line):
            within = True
        elif found := _FIELD.match(line):
            within, last = True, found[1]
            described[last] = found[2].strip()
        elif _SECTION.match(line):
            break
        elif within and (found := _ARGUMENT.match(line)):
            last = found[1]
            described[last] = found[2].strip()
        elif within and last and line[:1].isspace():
            described[last] = f"{described[last]} {line.strip()}".strip()
        elif not line.startswith(":type "):
            said.append(line)
    return "\n".join(said).strip(), described


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    function: None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    confirm: Confirm = False,
    confirm_expires: float | None = None,
    requires: str = "",
    timeout: float | None = None,
    long_running: bool = False,
    parallel: bool = True,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool: `@tool`, or `@tool(confirm=True)` with what FunctionTool takes."""
    if function is not None:
        return FunctionTool(function, **options)
    return lambda target: FunctionTool(target, **options)


@dataclass(eq=False, kw_only=True)
class AgentTool:
    """An agent as a tool: it gets a request, and its answer is the result.

    Its events are those of the run. It shares the state, hears nothing of the conversation, and an
    escalation inside it ends at it.
    """

    agent: BaseAgent
    name: str = ""
    description: str = ""
    confirm: Confirm = False
    confirm_expires: float | None = None
    requires: str = ""
    timeout: float | None = math.inf
    long_running: bool = field(default=False, init=False)
    parallel: bool = True
    replayable: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self.name = self.name or self.agent.name
        check_name(self.name, "a tool")
        _check_terms(self)
        self.description = self.description or self.agent.description
        if not self.description:
            raise InvalidTree(f"agent {self.name!r} as a tool needs a description to be chosen by")

    @property
    def spec(self) -> ToolSpec:
        """Return the tool as a model sees it."""
        request = {"type": "string", "description": "What the agent is asked to do"}
        parameters = {"type": "object", "properties": {"request": request}, "required": ["request"]}
        return ToolSpec(name=self.name, description=self.description, parameters=parameters)

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request, or raise msgspec.ValidationError."""
        return {"request": msgspec.convert(arguments, _Request).request}

    async def invoke(
        self, context: RunContext, tool_context: ToolContext, arguments: Mapping[str, Any]
    ) -> Any:
        """Run the agent on the request."""
        quiet = context.fork("alone", history=False)
        return (await quiet.run_agent(self.agent, message=arguments["request"])).text


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    request: str


@tool
def exit_loop(ctx: ToolContext) -> str:
    """End the loop: call this when its work is done and no further round is needed."""
    ctx.actions.escalate = True
    return ""


def as_tool(item: "Tool | BaseAgent | Callable[..., Any]") -> Tool:
    """Return anything that may stand in a list of tools as a tool."""
    if isinstance(item, BaseAgent):
        return AgentTool(agent=item)
    if isinstance(item, Tool):
        return item
    if callable(item):
        return FunctionTool(item)
    raise InvalidTree(f"{item!r} is no tool: give a function with type hints, a tool or an agent")
