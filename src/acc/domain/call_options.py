"""Clear errors for calls with unknown, misplaced or missing options."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache

from acc.domain.errors import InvalidInput

_MIN_SIMILARITY = 0.6
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def check_call(
    cls: type[object],
    arguments: Sequence[object],
    options: Mapping[str, object],
    *,
    name: str = "",
    hints: Mapping[str, str] | None = None,
    error: type[InvalidInput] = InvalidInput,
) -> None:
    """Raise an error if `cls` cannot be called with these arguments; it names the fix.

    A hint is the option that has the meaning of an unknown one, such as `instruction`, or a
    sentence. `name` is what users call the class. A call without anything is not checked, because
    copies are created that way.
    """
    parameters = _parameters(cls)  # type: ignore[arg-type] # classes can be hashed
    if parameters is None or not (arguments or options):
        return
    name = name or cls.__name__
    given = f"{name}(...)" if "name" not in options else f"{name}(name={options['name']!r}, ...)"
    positional = [p for p in parameters.values() if p.kind in _POSITIONAL]
    if len(arguments) > len(positional):
        first = next(iter(parameters), "")
        raise error(
            f"{name} got {arguments[len(positional)]!r} without a keyword: its options have names, "
            f"as in {name}({first}=..., ...)"
        )
    unknown = [option for option in options if option not in parameters]
    if unknown:
        known = [option for option in parameters if not option.startswith("_")]
        advice = [_advice(option, known, hints or {}) for option in unknown]
        raise error(f"{given} has no option {'; '.join(advice)}")
    by_position = {p.name for p in positional[: len(arguments)]}
    missing = [option for option in _required(parameters) if option not in {*options, *by_position}]
    if missing:
        raise error(f"{given} needs {', '.join(f'{option}=...' for option in missing)}")


@lru_cache(maxsize=256)
def _parameters(cls: type[object]) -> dict[str, inspect.Parameter] | None:
    """Return the parameters of a class, None if it takes options that are not declared."""
    parameters = dict(inspect.signature(cls.__init__).parameters)
    parameters.pop(next(iter(parameters)))  # self
    kinds = {parameter.kind for parameter in parameters.values()}
    if kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}:
        return None
    return parameters


def _required(parameters: Mapping[str, inspect.Parameter]) -> Iterator[str]:
    return (name for name, p in parameters.items() if p.default is inspect.Parameter.empty)


def _advice(option: str, known: Sequence[str], hints: Mapping[str, str]) -> str:
    hint = hints.get(option.lower(), "")
    if hint and " " in hint:
        return f"{option!r}: {hint}"
    targets = [target for target in hint.split("|") if target in known]
    targets = targets or get_close_matches(option.lower(), known, 1, cutoff=_MIN_SIMILARITY)
    if targets:
        return f"{option!r}: use {targets[0]}=..."
    return f"{option!r}: choose from {', '.join(sorted(known))}"
