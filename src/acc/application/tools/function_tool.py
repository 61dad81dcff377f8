"""Functions as tools: the schema, conversion of arguments, and docstrings."""

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, overload

import msgspec

from acc.application.agents.base import BaseAgent, Confirm, check_name
from acc.application.runtime.context import RunContext
from acc.application.runtime.json_types import (
    decode_model,
    is_model_type,
    json_schema,
    to_builtins,
)
from acc.application.runtime.type_variables import (
    ParametersP,
    ResultT,
)
from acc.application.tools.tool import AgentTool, BaseTool, ToolContext, check_tool_options
from acc.domain.call_options import check_call, checked, explains_call
from acc.domain.errors import InvalidTree
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.flow import Effect, ToolLabels
from acc.ports.outbound.model_ports import ToolSpec

#: Options by the names that other libraries have for them.
_OPTION_HINTS = {
    "approval": "confirm",
    "needs_approval": "confirm",
    "require_approval": "confirm",
    "requires_approval": "confirm",
    "require_confirmation": "confirm",
    "name_override": "name",
    "description_override": "description",
    "tool_name": "name",
    "max_retries": "retries",
    "sequential": "use parallel=False",
    "is_long_running": "long_running",
}
_CONTEXT_NAMES = ("ctx", "context", "tool_context")
_ARGUMENTS_HEADING = re.compile(r"^\s*(?:Args|Arguments|Parameters|引数)\s*[:：]\s*$")
_OTHER_SECTION = re.compile(
    r"^(?:Returns|Raises|Yields|Examples?|Notes?|戻り値|例外)\s*[:：]|^:(?:returns?|rtype|raises)\b"
)
_ARGUMENT_LINE = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:[(（][^)）]*[)）])?\s*[:：]\s*(.+)$")
_PARAM_FIELD = re.compile(r"^\s*:param\s+(?:[\w\[\], |.]+\s)?(\w+)\s*:\s*(.+)$")


@explains_call({"function": "func", "fn": "func", "callable": "func"})
@dataclass(eq=False)
class FunctionTool(BaseTool, Generic[ParametersP, ResultT]):
    """A function as a tool. It can still be called like the function, with its types.

    `confirm` requests approval before a call: always (True), always with the given question, or if
    a predicate over the arguments returns True or a question. `requires` names a permission. After
    more than `retries` failures in a row the run fails. A `long_running` function only starts the
    work: the run pauses until its outcome is reported. With `parallel=False` a call never runs
    concurrently with other calls of the same model response. An `idempotent` function may be called
    again if the process died during a call.
    """

    func: Callable[ParametersP, ResultT]
    name: str = ""
    description: str = ""
    confirm: Confirm = False
    confirm_expires: float | None = None
    requires: str = ""
    timeout: float | None = None
    long_running: bool = False
    parallel: bool = True
    retries: int | None = None
    idempotent: bool = False
    labels: ToolLabels | None = None
    replayable: bool = field(default=False, init=False)
    #: Defaults that JSON cannot represent, such as infinity; models and people do not see them.
    hidden_defaults: Mapping[str, JsonData] = field(init=False, repr=False)
    #: The type of `ctx.deps` that the function declares, or None.
    deps_type: Any = field(init=False, repr=False, default=None)
    _spec: ToolSpec = field(init=False, repr=False)
    _arguments_type: type[Any] = field(init=False, repr=False)
    _context_name: str = field(init=False, repr=False, default="")
    _is_async: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        function = self.func
        _check_function(function)
        self.name = self.name or getattr(function, "__name__", "")
        if not self.name:
            raise InvalidTree(
                f"{function!r} has no __name__ and cannot be a tool: wrap it in a function with "
                "type hints"
            )
        if self.name == "<lambda>":
            raise InvalidTree(
                "a lambda has no name and cannot be a tool: write a function with def"
            )
        check_name(self.name, "a tool")
        check_tool_options(self)
        text, descriptions = parse_docstring(inspect.getdoc(function) or "")
        self.description = self.description or text
        parameters = self._parameters()
        try:
            self._arguments_type = msgspec.defstruct(
                "arguments",
                [self._struct_field(name, *found) for name, found in parameters.items()],
                kw_only=True,
                forbid_unknown_fields=True,
            )
            schema = _arguments_schema(self._arguments_type, descriptions)
        except InvalidTree:
            raise
        except (TypeError, ValueError, NameError, KeyError) as error:
            raise InvalidTree(
                f"tool {self.name!r}: no JSON schema for its signature: {error}"
            ) from None
        self.hidden_defaults = {
            name: default
            for name, (_, default) in parameters.items()
            if default is not inspect.Parameter.empty and not _is_json_representable(default)
        }
        for name in self.hidden_defaults:
            schema["properties"][name].pop("default", None)
        self._spec = ToolSpec(name=self.name, description=self.description, parameters=schema)
        if self.labels is not None:
            _check_labels(self.name, self.labels, parameters)
        self._is_async = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function, updated=())

    def __call__(self, /, *arguments: ParametersP.args, **named: ParametersP.kwargs) -> ResultT:
        """Call the function itself."""
        try:
            return self.func(*arguments, **named)
        except TypeError:
            advice = f"tools=[{self.name}] names a tool without calling it"
            check_call(self.func, arguments, named, advice=advice)
            raise  # from inside the function

    @property
    def spec(self) -> ToolSpec:
        """Return the name, description and schema that the model receives."""
        return self._spec

    def validate(self, arguments: Mapping[str, JsonData]) -> dict[str, JsonData]:
        """Return the arguments converted to their types, or raise msgspec.ValidationError."""
        return msgspec.structs.asdict(_decode(arguments, self._arguments_type))

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext) -> object:
        """Call the function; a function that is not async runs in a thread."""
        named = dict(arguments)
        if self._context_name:
            named[self._context_name] = ctx
        function: Callable[..., Any] = self.func
        if self._is_async:
            return await function(**named)
        threads = ctx.run_context.services.threads
        result = await threads.call(_call_in_thread, function, named)
        return await result if inspect.isawaitable(result) else result

    def _parameters(self) -> dict[str, tuple[Any, Any]]:
        """Return type and default of each argument except the tool context."""
        try:
            hints = typing.get_type_hints(self.func, include_extras=True)
        except NameError as error:
            raise InvalidTree(f"tool {self.name!r}: {error}; import the type") from None
        except TypeError:
            raise InvalidTree(f"tool {self.name!r}: expected a function with type hints") from None
        parameters: dict[str, tuple[Any, Any]] = {}
        for name, parameter in inspect.signature(self.func).parameters.items():
            hint = hints.get(name, Any)
            if _is_context_hint(hint) or (hint is Any and name in _CONTEXT_NAMES):
                if self._context_name:
                    raise InvalidTree(
                        f"tool {self.name!r}: {self._context_name!r} and {name!r} are both the "
                        "context; remove one of them"
                    )
                self._context_name = name
                self.deps_type = _context_deps(hint)
                continue
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise InvalidTree(
                    f"tool {self.name!r}: parameter {name!r} cannot be passed by name; write a "
                    "function whose parameters have names and type hints"
                )
            owner = getattr(self.func, "__qualname__", "").split(".")[-2:-1]
            if name == "self" and name not in hints and owner and owner[0].isidentifier():
                raise InvalidTree(
                    f"{owner[0]}.{self.name} is a method without its object: pass the method of "
                    f"an object, such as {owner[0]}().{self.name}"
                )
            if name not in hints:
                raise InvalidTree(f"tool {self.name!r}: parameter {name!r} needs a type hint")
            parameters[name] = (hint, parameter.default)
        return parameters

    def _struct_field(self, name: str, hint: Any, default: Any) -> Any:
        """Return the msgspec field of a parameter; its type must accept the default."""
        if default is inspect.Parameter.empty:
            return (name, hint)
        try:
            _decode(to_builtins(default), hint)
        except msgspec.ValidationError as error:
            if default is None:
                hint = hint | None
            elif _is_json_representable(default):
                raise InvalidTree(
                    f"tool {self.name!r}: the default of {name!r} does not match its type hint: "
                    f"{error}"
                ) from None
        if isinstance(default, list | dict | set) or is_model_type(type(default)):
            return (name, hint, msgspec.field(default_factory=functools.partial(deepcopy, default)))
        return (name, hint, default)


class _ToolDecorator(Protocol):
    """What `tool(...)` with options returns."""

    def __call__(
        self, function: Callable[ParametersP, ResultT], /
    ) -> FunctionTool[ParametersP, ResultT]: ...


@overload
def tool(function: Callable[ParametersP, ResultT], /) -> FunctionTool[ParametersP, ResultT]: ...


@overload
def tool(
    function: None = None,
    /,
    *,
    name: str | tuple[str, ...] = "",
    description: str = "",
    confirm: Confirm = False,
    confirm_expires: float | None = None,
    requires: str = "",
    timeout: float | None = None,
    long_running: bool = False,
    parallel: bool = True,
    retries: int | None = None,
    idempotent: bool = False,
    effect: Effect | None = None,
    target: Sequence[str] | None = None,
    ref: Sequence[str] = (),
    trusted: bool = False,
    secret: bool = False,
    labels: ToolLabels | None = None,
) -> _ToolDecorator: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | tuple[str, ...] = "",
    description: str = "",
    confirm: Confirm = False,
    confirm_expires: float | None = None,
    requires: str = "",
    timeout: float | None = None,
    long_running: bool = False,
    parallel: bool = True,
    retries: int | None = None,
    idempotent: bool = False,
    effect: Effect | None = None,
    target: Sequence[str] | None = None,
    ref: Sequence[str] = (),
    trusted: bool = False,
    secret: bool = False,
    labels: ToolLabels | None = None,
) -> "FunctionTool[..., Any] | _ToolDecorator":
    """Make a function a tool: `@tool`, or `@tool(confirm=True)` with options of FunctionTool.

    `effect`, `target`, `ref`, `name=(...)` with a tuple of parameters, `trusted` and `secret` are
    the labels of the tool, see ToolLabels. Write `labels=ToolLabels(name=(...))` if the tool also
    has a name of its own.
    """
    words = name if isinstance(name, tuple) else ()
    if effect is not None or target is not None or ref or words or trusted or secret:
        if labels is not None:
            raise InvalidTree("@tool: write the labels either as options or as labels=, not both")
        labels = ToolLabels(
            effect="write" if effect is None else effect,
            target=target,
            ref=ref,
            name=words,
            trusted=trusted,
            secret=secret,
        )

    def decorate(function: Callable[..., Any], /) -> FunctionTool[..., Any]:
        return FunctionTool(
            function,
            name="" if isinstance(name, tuple) else name,
            description=description,
            confirm=confirm,
            confirm_expires=confirm_expires,
            requires=requires,
            timeout=timeout,
            long_running=long_running,
            parallel=parallel,
            retries=retries,
            idempotent=idempotent,
            labels=labels,
        )

    # mypy does not see that `decorate` keeps the types of any function.
    return decorate if function is None else decorate(function)  # type: ignore[return-value]


if not TYPE_CHECKING:  # the declared options are those above
    tool = checked(tool, _OPTION_HINTS, error=InvalidTree)


def as_tool(item: "BaseTool | BaseAgent | Callable[..., object]") -> BaseTool:
    """Return an entry of a list of tools as a tool."""
    if isinstance(item, BaseAgent):
        return AgentTool(agent=item)
    if isinstance(item, BaseTool):
        return item
    if isinstance(item, type):
        raise InvalidTree(
            f"the class {item.__name__} is not a tool: pass a function or a method of an object, "
            f"such as {item.__name__}().method"
        )
    convert: Callable[[Any], BaseTool] | None = getattr(type(item), "as_tool", None)
    if convert is not None:  # such as a node with a contract
        return convert(item)
    if callable(item):
        return FunctionTool(item)
    advice = (
        "pass the function itself, such as tools=[search], without quotes and without calling it"
    )
    if isinstance(item, Mapping):
        advice = "pass a function with type hints; its schema is made from them"
    elif type(item).__module__ != "builtins":
        advice = f"pass a method of it, such as tools=[{type(item).__name__}().method]"
    raise InvalidTree(
        f"{item!r} is not a tool; expected a function with type hints, a tool or an agent: {advice}"
    )


def display_arguments(tool: BaseTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as JSON data for a person, without hidden defaults."""
    hidden = tool.hidden_defaults if isinstance(tool, FunctionTool) else {}
    visible = {
        name: value
        for name, value in arguments.items()
        if name not in hidden or value not in (hidden[name],)
    }
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(to_builtins(visible)))
    return data


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the description of a function and of each argument in its docstring."""
    lines: list[str] = []
    descriptions: dict[str, str] = {}
    in_arguments = False
    last = ""
    for line in text.splitlines():
        if _ARGUMENTS_HEADING.match(line):
            in_arguments = True
        elif match := _PARAM_FIELD.match(line):
            in_arguments, last = True, match[1]
            descriptions[last] = match[2].strip()
        elif _OTHER_SECTION.match(line):
            break
        elif in_arguments and (match := _ARGUMENT_LINE.match(line)):
            last = match[1]
            descriptions[last] = match[2].strip()
        elif in_arguments and last and line[:1].isspace():
            descriptions[last] = f"{descriptions[last]} {line.strip()}".strip()
        elif not line.startswith(":type "):
            lines.append(line)
    return "\n".join(lines).strip(), descriptions


def _check_function(function: object) -> None:
    """Raise InvalidTree for what cannot be a tool."""
    if isinstance(function, str):
        raise InvalidTree(f'@tool needs a keyword for its name: write @tool(name="{function}")')
    if isinstance(function, type):
        raise InvalidTree(
            f"the class {function.__name__} is not a tool: pass a function or a method of an "
            f"object, such as {function.__name__}().method"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTree(
            f"tool {getattr(function, '__name__', function)!r} yields: return one result, such "
            "as a list, and report progress with `await ctx.progress(text)`"
        )
    if isinstance(function, functools.partial):
        raise InvalidTree(
            f"{function!r} cannot be a tool: write a function with def that calls it, with a "
            "name, a docstring and type hints for the arguments that the model chooses"
        )


def _decode(data: Any, target: Any) -> Any:
    """Convert JSON data to a type; the keys of JSON objects are always strings."""
    return msgspec.convert(data, target, str_keys=True, dec_hook=decode_model)


def _is_context_hint(hint: Any) -> bool:
    """Return True if a hint is ToolContext, also with a type, in Annotated or in a union."""
    origin = typing.get_origin(hint)
    if origin in (Annotated, typing.Union, types.UnionType):
        return any(map(_is_context_hint, typing.get_args(hint)))
    return hint is ToolContext or origin is ToolContext


def _context_deps(hint: Any) -> Any:
    """Return the type of the dependencies in a hint such as `ToolContext[Deps]`, or None."""
    if typing.get_origin(hint) is ToolContext:
        return typing.get_args(hint)[0]
    return next(filter(None, map(_context_deps, typing.get_args(hint))), None)


def _call_in_thread(function: Callable[..., Any], named: Mapping[str, Any]) -> Any:
    """Call a function; KeyboardInterrupt and GeneratorExit of its own become errors."""
    try:
        return function(**named)
    except (GeneratorExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _check_labels(name: str, labels: ToolLabels, parameters: Mapping[str, object]) -> None:
    """Raise InvalidTree if a label names a parameter that the function does not have."""
    for option in ("target", "ref", "name"):
        for path in getattr(labels, option) or ():
            if path.partition(".")[0] not in parameters:
                raise InvalidTree(
                    f"tool {name!r}: {option} names the unknown parameter {path!r}; its parameters "
                    f"are {', '.join(parameters) or 'none'}"
                )


def _is_json_representable(value: Any) -> bool:
    """Return True if a value survives a JSON round trip; infinity does not."""
    data = to_builtins(value)
    return bool(msgspec.json.decode(msgspec.json.encode(data)) == data)


def _arguments_schema(arguments_type: type[Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    """Return the schema of the arguments with the descriptions of the docstring."""
    schema = json_schema(arguments_type)
    definitions = schema.get("$defs", {})
    top = definitions.pop("arguments")
    top.pop("title", None)
    for name, text in descriptions.items():
        if name in top.get("properties", {}):
            top["properties"][name].setdefault("description", text)
    if definitions:
        top["$defs"] = definitions
    return dict(top)


@tool(effect="none", trusted=True)
def exit_loop(ctx: ToolContext | RunContext) -> str:
    """End the loop: call this when its work is done and no further round is needed."""
    ctx.actions.escalate = True
    return ""
