"""Callbacks of agents, and plugins: callbacks for all agents of a runner."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from acc.application.runtime.context import RunContext
from acc.application.runtime.type_variables import (
    AnyDepsT,
    MaybeAwaitable,
)
from acc.domain.call_options import accepts, explains_call
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.content import ToolResult
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from acc.application.tools.tool import BaseTool

#: Any callback, where its kind is not known.
Callback: TypeAlias = Callable[..., Any]
#: Arguments of a tool call, converted to the types of the tool's parameters.
ToolArguments: TypeAlias = dict[str, JsonData]

BeforeAgentCallback: TypeAlias = Callable[[RunContext[AnyDepsT]], MaybeAwaitable[str | None]]
AfterAgentCallback: TypeAlias = Callable[[RunContext[AnyDepsT], str], MaybeAwaitable[str | None]]
AgentErrorCallback: TypeAlias = Callable[
    [RunContext[AnyDepsT], Exception], MaybeAwaitable[str | None]
]
BeforeModelCallback: TypeAlias = Callable[
    [RunContext[AnyDepsT], ModelRequest],
    MaybeAwaitable[str | ModelResponse | ModelRequest | None],
]
AfterModelCallback: TypeAlias = Callable[
    [RunContext[AnyDepsT], ModelResponse], MaybeAwaitable[str | ModelResponse | None]
]
ModelErrorCallback: TypeAlias = Callable[
    [RunContext[AnyDepsT], ModelRequest, Exception], MaybeAwaitable[str | ModelResponse | None]
]
# The result of a tool is any value that can be converted to JSON, so callbacks return `object`.
BeforeToolCallback: TypeAlias = Callable[["BaseTool", ToolArguments, RunContext[AnyDepsT]], object]
AfterToolCallback: TypeAlias = Callable[
    ["BaseTool", ToolArguments, RunContext[AnyDepsT], ToolResult], object
]
ToolErrorCallback: TypeAlias = Callable[
    ["BaseTool", ToolArguments, RunContext[AnyDepsT], Exception], object
]

#: What callbacks are called with.
AGENT_CALLBACKS: Mapping[str, Sequence[str]] = {
    "before_agent_callback": ("ctx",),
    "after_agent_callback": ("ctx", "text"),
    "on_agent_error_callback": ("ctx", "error"),
}
MODEL_AND_TOOL_CALLBACKS: Mapping[str, Sequence[str]] = {
    "before_model_callback": ("ctx", "prompt"),
    "after_model_callback": ("ctx", "response"),
    "on_model_error_callback": ("ctx", "prompt", "error"),
    "before_tool_callback": ("tool", "arguments", "ctx"),
    "after_tool_callback": ("tool", "arguments", "ctx", "result"),
    "on_tool_error_callback": ("tool", "arguments", "ctx", "error"),
}
_CALLBACKS = {**AGENT_CALLBACKS, **MODEL_AND_TOOL_CALLBACKS}
#: Methods of plugins with more similar names are misspelled callbacks.
_MIN_SIMILARITY = 0.9
#: The callbacks of all plugins of a runner, by name.
PluginCallbacks: TypeAlias = Mapping[str, tuple[Callback, ...]]


@explains_call(advice="a plugin is a subclass that overrides callbacks")
class Plugin(Generic[AnyDepsT]):
    """Callbacks for all agents of a runner: override any of these methods, sync or async.

    They are called before the callbacks of an agent, with the same meaning. Pass plugins to
    `Runner(plugins=[...])`.
    """

    def before_agent_callback(self, ctx: RunContext[AnyDepsT]) -> MaybeAwaitable[str | None]:
        """Return a text to answer with it; the agent does not run then."""
        return None

    def after_agent_callback(
        self, ctx: RunContext[AnyDepsT], text: str
    ) -> MaybeAwaitable[str | None]:
        """Return a text to replace the answer of an agent."""
        return None

    def on_agent_error_callback(
        self, ctx: RunContext[AnyDepsT], error: Exception
    ) -> MaybeAwaitable[str | None]:
        """Return a text to answer with it although the agent failed."""
        return None

    def before_model_callback(
        self, ctx: RunContext[AnyDepsT], prompt: ModelRequest
    ) -> MaybeAwaitable[str | ModelResponse | ModelRequest | None]:
        """Return another request, or a response to use without a call of the model."""
        return None

    def after_model_callback(
        self, ctx: RunContext[AnyDepsT], response: ModelResponse
    ) -> MaybeAwaitable[str | ModelResponse | None]:
        """Return a response to replace that of the model."""
        return None

    def on_model_error_callback(
        self, ctx: RunContext[AnyDepsT], prompt: ModelRequest, error: Exception
    ) -> MaybeAwaitable[str | ModelResponse | None]:
        """Return a response to use although the model failed."""
        return None

    def before_tool_callback(
        self, tool: "BaseTool", arguments: ToolArguments, ctx: RunContext[AnyDepsT]
    ) -> object:
        """Return a result to use it without a call of the tool."""
        return None

    def after_tool_callback(
        self,
        tool: "BaseTool",
        arguments: ToolArguments,
        ctx: RunContext[AnyDepsT],
        result: ToolResult,
    ) -> object:
        """Return a result to replace that of the tool."""
        return None

    def on_tool_error_callback(
        self,
        tool: "BaseTool",
        arguments: ToolArguments,
        ctx: RunContext[AnyDepsT],
        error: Exception,
    ) -> object:
        """Return a result to use although the tool failed."""
        return None


def _resembles_callback(name: str) -> bool:
    """Return True for a name that is probably meant as that of a callback."""
    if name.startswith("_"):
        return False
    return (
        f"{name}_callback" in _CALLBACKS
        or name.endswith("_callback")
        or bool(get_close_matches(name, _CALLBACKS, 1, cutoff=_MIN_SIMILARITY))
    )


def plugin_callbacks(plugins: Sequence[object]) -> PluginCallbacks:
    """Return the callbacks that plugins define; methods of `Plugin` itself do nothing.

    Raises InvalidInput for an object without a callback, or with one of an unknown name or with
    other parameters.
    """
    if isinstance(plugins, Plugin) or not isinstance(plugins, Sequence):
        raise InvalidInput(f"plugins must be a list, such as [Audit()], got {plugins!r}")
    found: dict[str, tuple[Callback, ...]] = {}
    for plugin in plugins:
        if isinstance(plugin, type):
            raise InvalidInput(f"expected a plugin, got the class: write {plugin.__name__}()")
        unknown = [
            name for name in dir(plugin) if name not in _CALLBACKS and _resembles_callback(name)
        ]
        defined = [name for name in _CALLBACKS if _is_defined(plugin, name)]
        if unknown or not defined:
            problem = f"has the unknown method {unknown[0]}" if unknown else "has no callback"
            raise InvalidInput(
                f"plugin {type(plugin).__name__} {problem}; callbacks are {', '.join(_CALLBACKS)}"
            )
        for name in defined:
            callback, parameters = getattr(plugin, name), _CALLBACKS[name]
            if not accepts(callback, len(parameters)):
                raise InvalidInput(
                    f"plugin {type(plugin).__name__}: {name} is called with "
                    f"({', '.join(parameters)}): write def {name}(self, {', '.join(parameters)})"
                )
            found[name] = (*found.get(name, ()), callback)
    return found


def _is_defined(plugin: object, name: str) -> bool:
    method = getattr(type(plugin), name, None) or getattr(plugin, name, None)
    return callable(method) and method is not getattr(Plugin, name)


def as_callbacks(option: Any) -> tuple[Callback, ...]:
    """Return the callbacks of an option: none, one, or a list."""
    if option is None:
        return ()
    if isinstance(option, list | tuple):
        return tuple(option)
    return (option,)


def callbacks_of(ctx: RunContext, name: str) -> tuple[Callback, ...]:
    """Return the callbacks of a name for the agent of a context, those of plugins first."""
    plugins = ctx.run.plugins.get(name, ())
    own = getattr(ctx.agent, name, None)
    return plugins if own is None else (*plugins, *as_callbacks(own))


async def maybe_await(callback: Callback, *arguments: Any) -> Any:
    """Call a function or an async function and return its result."""
    result = callback(*arguments)
    return await result if inspect.isawaitable(result) else result


async def first_result(callbacks: Sequence[Callback], *arguments: Any) -> Any:
    """Call callbacks until one returns a value other than None, and return that value."""
    for callback in callbacks:
        result = await maybe_await(callback, *arguments)
        if result is not None:
            return result
    return None
