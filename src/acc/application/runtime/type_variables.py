"""Type variables of agents, contexts, results and tools.

Type checkers see defaults (PEP 696), so that `Agent` means `Agent[object, str]` and `ToolContext`
means `ToolContext[object]`. At run time the variables have no defaults, because Python has them
from 3.13 on.
"""

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    DepsT = TypeVar("DepsT", default=object, contravariant=True)
    OutputT = TypeVar("OutputT", default=str, covariant=True)
    ContextDepsT = TypeVar("ContextDepsT", default=object, covariant=True)
    # Any, because mypy does not join the agents of a list whose types differ: it replaces the
    # variable by its default, and only Any accepts all of them.
    AnyDepsT = TypeVar("AnyDepsT", default=Any, contravariant=True)
    AnyOutputT = TypeVar("AnyOutputT", default=Any, covariant=True)
    # Parameters and result of a function that is used as a tool. `FunctionTool` without types
    # means any function.
    ParametersP = ParamSpec("ParametersP", default=...)
    ResultT = TypeVar("ResultT", default=Any, covariant=True)
else:
    from typing import ParamSpec, TypeVar

    DepsT = TypeVar("DepsT", contravariant=True)
    OutputT = TypeVar("OutputT", covariant=True)
    ContextDepsT = TypeVar("ContextDepsT", covariant=True)
    AnyDepsT = TypeVar("AnyDepsT", contravariant=True)
    AnyOutputT = TypeVar("AnyOutputT", covariant=True)
    ParametersP = ParamSpec("ParametersP")
    ResultT = TypeVar("ResultT", covariant=True)

T = TypeVar("T")

#: The result of a function or of an async function.
MaybeAwaitable: TypeAlias = T | Awaitable[T]
OneOrMore: TypeAlias = T | Sequence[T]


class GenericDefaults:
    """Base class of generic classes that may be subscripted with fewer types than they have."""

    if not TYPE_CHECKING:

        def __class_getitem__(cls, types: object) -> object:
            """Return the generic alias; missing types are Any, as for type checkers."""
            given = types if isinstance(types, tuple) else (types,)
            missing = len(getattr(cls, "__parameters__", ())) - len(given)
            return super().__class_getitem__((*given, *[Any] * max(missing, 0)))
