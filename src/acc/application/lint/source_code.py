"""What the code of a user's function contains: names, texts, and writes of variable keys."""

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

#: How deep calls of other functions are followed.
_MAX_DEPTH = 4
_UPDATES = frozenset({"update", "setdefault", "__setitem__"})


class CodeContent(NamedTuple):
    """What a function and the functions that it calls contain.

    `writes_variable_keys` is True if they write to a mapping with keys that are not in the code.
    """

    names: frozenset[str]
    texts: frozenset[str]
    writes_variable_keys: bool


def read_code(function: Callable[..., Any]) -> CodeContent:
    """Return what the code of a function contains, with that of the user's functions it calls."""
    reader = _Reader()
    reader.read(function, depth=0)
    writes = reader.has_variable_key or bool(reader.names & _UPDATES)
    return CodeContent(frozenset(reader.names), frozenset(reader.texts), writes)


class _Reader:
    def __init__(self) -> None:
        self.names: set[str] = set()
        self.texts: set[str] = set()
        self.has_variable_key = False
        self._visited: set[int] = set()

    def read(self, target: object, *, depth: int) -> None:
        """Add the content of a function, a partial function or an object with `__call__`."""
        if isinstance(target, partial):
            for value in (*target.args, *target.keywords.values()):
                self._add_value(value, depth)
            target = target.func
        function: Any = inspect.unwrap(target) if callable(target) else target
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType):
            function = vars(type(function)).get("__call__")
        if not isinstance(function, FunctionType) or id(function) in self._visited:
            return
        self._visited.add(id(function))
        for code in _all_code(function.__code__):
            self._add_code(code, function.__globals__, depth)
        for cell in function.__closure__ or ():
            try:
                self._add_value(cell.cell_contents, depth)
            except ValueError:  # an empty cell
                continue

    def _add_code(self, code: CodeType, variables: dict[str, Any], depth: int) -> None:
        self.names.update(code.co_names)
        for constant in code.co_consts:
            self.texts.update(_texts_in(constant))
        for name in code.co_names:
            value = variables.get(name)
            self._add_value(value, depth)
            if isinstance(value, ModuleType):  # such as constants.KEY
                for attribute in code.co_names:
                    self._add_value(vars(value).get(attribute), depth)
        previous: dis.Instruction | None = None
        for instruction in dis.get_instructions(code):
            if instruction.opname == "STORE_SUBSCR" and previous is not None:
                is_constant = previous.opname == "LOAD_CONST"
                is_global = previous.opname in ("LOAD_GLOBAL", "LOAD_ATTR")
                self.has_variable_key |= not is_constant and not is_global
            if instruction.opname != "CACHE":
                previous = instruction

    def _add_value(self, value: object, depth: int) -> None:
        if isinstance(value, str):
            self.texts.add(value)
        elif isinstance(value, Mapping):  # such as default values of the state
            self.texts.update(key for key in value if isinstance(key, str))
        elif isinstance(value, FunctionType) and depth < _MAX_DEPTH and _is_of_user(value):
            self.read(value, depth=depth + 1)


def _is_of_user(function: FunctionType) -> bool:
    module = (function.__module__ or "").partition(".")[0]
    return module != "acc" and "site-packages" not in function.__code__.co_filename


def _all_code(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions that are defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)


def _texts_in(constant: object) -> Iterator[str]:
    """Yield the texts of a constant; the keys of a literal dictionary are a tuple."""
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, tuple | frozenset):
        for item in constant:
            yield from _texts_in(item)
