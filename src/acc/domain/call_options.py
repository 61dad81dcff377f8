"""Clear errors for calls with unknown, misplaced or missing options."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, partial, wraps
from typing import Any, NamedTuple, NoReturn, ParamSpec, TypeVar

from acc.domain.errors import InvalidInput

P = ParamSpec("P")
T = TypeVar("T")
_MIN_SIMILARITY = 0.6
#: Calls that were checked already: the target, the number of arguments and the names of options.
_valid_shapes: set[tuple[object, ...]] = set()
_MAX_SHAPES = 4_096
#: Longer values are named by their type in errors.
_MAX_SHOWN_LENGTH = 100
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def check_call(
    target: Callable[..., object],
    arguments: Sequence[object],
    options: Mapping[str, object],
    *,
    name: str = "",
    hints: Mapping[str, str] | None = None,
    error: type[InvalidInput] = InvalidInput,
    shows_values: bool = True,
    advice: str = "",
) -> None:
    """Raise an error if a class or method cannot be called like this; it names the fix.

    `arguments` include the object of a method. A hint is the option that has the meaning of an
    unknown one, such as `instruction`, or a sentence. `name` is what users call the target. Errors
    about credentials must not show values. `advice` follows every message.
    """
    shape = (target, len(arguments), *options)
    if shape in _valid_shapes:
        return
    signature = _signature(target)
    if signature is None:
        return
    parameters, required, positional = signature
    if (
        len(arguments) <= len(positional)
        and options.keys() <= parameters.keys()
        and required <= {*options, *positional[: len(arguments)]}
    ):
        if len(_valid_shapes) < _MAX_SHAPES:
            _valid_shapes.add(shape)
        return
    name, advice = name or target.__name__, advice and f"; {advice}"
    given = f"{name}(...)" if "name" not in options else f"{name}(name={options['name']!r}, ...)"
    unknown = [option for option in options if option not in parameters]
    if unknown:
        known = [option for option in parameters if option[0] != "_" and option != "self"]
        fixes = [_advice(option, known, hints or {}) for option in unknown]
        raise error(f"{given} has no option {'; '.join(fixes)}{advice}") from None
    if not parameters:
        raise error(f"{name}() takes no arguments, got {len(arguments)}{advice}") from None
    if len(arguments) > len(positional):
        first = next(option for option in parameters if option != "self")
        extra = arguments[len(positional)]
        given = repr(extra)
        if not shows_values or len(given) > _MAX_SHOWN_LENGTH:
            given = f"a value of type {type(extra).__name__}"
        raise error(
            f"{name} got {given} without a keyword: its options have names, "
            f"as in {name}({first}=..., ...){advice}"
        ) from None
    missing = sorted(required - {*options, *positional[: len(arguments)]})
    needed = ", ".join(f"{option}=..." for option in missing)
    raise error(f"{given} needs {needed}{advice}") from None


def checked(
    function: Callable[P, T], hints: Mapping[str, str], *, error: type[InvalidInput] = InvalidInput
) -> Callable[P, T]:
    """Return a function that raises an error for options that it does not have."""

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return function(*arguments, **options)
        except TypeError:
            check_call(function, arguments, options, hints=hints, error=error)
            raise

    return call


def explains_call(
    hints: Mapping[str, str] | None = None, *, shows_values: bool = True, advice: str = ""
) -> Callable[[T], T]:
    """Let a function or a class raise InvalidInput for calls that it cannot accept."""
    check = partial(check_call, hints=hints, shows_values=shows_values, advice=advice)

    def decorate(target: Any) -> Any:
        if not isinstance(target, type):

            @wraps(target)
            def call(*arguments: object, **options: object) -> object:
                try:
                    return target(*arguments, **options)
                except TypeError:
                    check(target, arguments, options)
                    raise

            return call
        initialize = target.__init__  # type: ignore[misc] # a class

        @wraps(initialize)
        def init(self: object, *arguments: object, **options: object) -> None:
            if initialize is not object.__init__:
                try:
                    initialize(self, *arguments, **options)
                except TypeError:
                    check(target, arguments, options)
                    raise
                return
            # A subclass may have another base class, which has a constructor.
            following = super(target, self).__init__  # type: ignore[arg-type] # a class
            if getattr(following, "__objclass__", None) is object:
                check(target, arguments, options, name=type(self).__name__)
            following(*arguments, **options)

        target.__init__ = init  # type: ignore[misc] # a class
        return target

    return decorate


class _Signature(NamedTuple):
    """The parameters of a class or function, and the names of those that matter for a check."""

    parameters: Mapping[str, inspect.Parameter]
    required: frozenset[str]
    positional: tuple[str, ...]


@lru_cache(maxsize=512)
def _signature(target: Callable[..., object]) -> _Signature | None:
    """Return the signature, None if the target takes options that are not declared."""
    if hasattr(target, "__struct_fields__"):
        parameters = dict(inspect.signature(target).parameters)
    else:
        # The constructor: a class may have a `__new__` that takes everything.
        function = target.__init__ if isinstance(target, type) else target  # type: ignore[misc] # a class
        if inspect.unwrap(function) is object.__init__:
            return _Signature({}, frozenset(), ())
        parameters = dict(inspect.signature(function).parameters)
        if isinstance(target, type):
            del parameters[next(iter(parameters))]  # self
    kinds = {parameter.kind for parameter in parameters.values()}
    if kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}:
        return None
    required = (n for n, p in parameters.items() if p.default is inspect.Parameter.empty)
    positional = tuple(n for n, p in parameters.items() if p.kind in _POSITIONAL)
    return _Signature(parameters, frozenset(required), positional)


def _advice(option: str, known: Sequence[str], hints: Mapping[str, str]) -> str:
    hint = hints.get(option.lower(), "")
    if hint and " " in hint:
        return f"{option!r}: {hint}"
    targets = [target for target in hint.split("|") if target in known]
    targets = targets or get_close_matches(option.lower(), known, 1, cutoff=_MIN_SIMILARITY)
    if targets:
        return f"{option!r}: use {targets[0]}=..."
    choices = f"choose from {', '.join(sorted(known))}" if known else "it takes no options"
    return f"{option!r}: {choices}"


def explain_attributes(hints: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """Let a class explain attributes that it does not have.

    A hint is an attribute that has the meaning of a missing one, or a sentence. Descriptors are
    used because `__getattr__` would make every access to the class slower.
    """

    def decorate(cls: type[T]) -> type[T]:
        for name, hint in hints.items():
            if not hasattr(cls, name):
                setattr(cls, name, _MissingAttribute(name, hint))
        cls.__dir__ = _existing_attributes  # type: ignore[method-assign, assignment] # for completion
        return cls

    return decorate


def explain_operations(hints: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """Let a class explain operations that it does not have, such as `__getitem__`."""

    def decorate(cls: type[T]) -> type[T]:
        for name, hint in hints.items():
            setattr(cls, name, _missing_operation(hint))
        return cls

    return decorate


def _missing_operation(hint: str) -> Callable[..., NoReturn]:
    def explain(self: object, *_: object) -> NoReturn:
        raise InvalidInput(f"{type(self).__name__} objects {hint}")

    return explain


def _existing_attributes(owner: object) -> list[str]:
    """Return the attributes of an object without those that only explain what to use."""
    cls = type(owner)
    return [
        name
        for name in object.__dir__(owner)
        if not isinstance(inspect.getattr_static(cls, name, None), _MissingAttribute)
    ]


class _MissingAttribute:
    """An attribute that does not exist; objects of the class may still define it."""

    __slots__ = ("_advice", "_name")

    def __init__(self, name: str, hint: str) -> None:
        self._name = name
        self._advice = hint if " " in hint else f"use .{hint}"

    def __get__(self, _: object, owner: type[object]) -> NoReturn:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}: {self._advice}"
        )


def check_awaitable(pending: T, owner: object, method: str) -> T:
    """Return what an async method returned, or raise TypeError if the method is not async."""
    if not hasattr(pending, "__await__"):
        name = f"{type(owner).__name__}.{method.partition('(')[0]}"
        raise TypeError(f"{name} must be `async def {method}`")
    return pending


def accepts(function: Callable[..., object], count: int) -> bool:
    """Return True if a function can be called with that many positional arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # functions implemented in C may have no signature
        return True
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
