"""Loading of agents by reference: `MODULE:AGENT` or `FILE.py:AGENT`."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acc.adapters.system.object_loader import describe_import_error, load_object
from acc.application.agents.base import BaseAgent
from acc.application.agents.function import FunctionAgent
from acc.application.tools.tool import BaseTool
from acc.domain.call_options import accepts
from acc.domain.errors import InvalidInput, InvalidTree


def load_agent(
    reference: str, *, convert: Callable[[Any], Any] = lambda target: target
) -> BaseAgent:
    """Return the agent of a reference.

    `convert` returns agents of other frameworks as agents. A function with a required
    parameter is an agent itself; another one, or a class, is called. Raises InvalidInput for every
    error in the module, with file and line number.
    """
    module, colon, name = reference.rpartition(":")
    if not colon or not module or not name:
        raise InvalidInput(
            f"{reference!r} is not an agent reference: expected MODULE:AGENT, such as "
            f"shop.agents:root, or FILE.py:AGENT{_list_agents_of(reference)}"
        )
    file = Path(module) if module.endswith(".py") else None
    if file is not None:
        module = _add_to_import_path(file)
    try:
        target = load_object(f"{module}:{name}")
        return _as_agent(reference, convert(target), convert)
    except InvalidInput as error:
        _check_loaded_from(module, file)
        problem = InvalidTree if isinstance(error, InvalidTree) else InvalidInput
        raise problem(f"{error}{_list_agents(module)}") from error


def _add_to_import_path(file: Path) -> str:
    """Make a file importable and return its module name."""
    if not file.is_file():
        raise InvalidInput(f"file {file} does not exist")
    directory = str(file.parent.resolve())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    return file.stem


def _check_loaded_from(module: str, file: Path | None) -> None:
    """Raise InvalidInput if a file has the name of another module, which was loaded instead."""
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if file is not None and loaded is not None and Path(loaded).resolve() != file.resolve():
        raise InvalidInput(f"file {file} has the name of the module {loaded}: rename the file")


def _as_agent(reference: str, target: Any, framework: Callable[[Any], Any]) -> BaseAgent:
    convert = getattr(type(target), "as_agent", None)
    if convert is not None:  # such as a node with a contract
        target = convert(target)
    if isinstance(target, BaseTool):
        raise InvalidInput(f"{reference} is a tool, not an agent; add it to the tools of an agent")
    if inspect.isfunction(target) and not accepts(target, 0):
        return FunctionAgent(target)
    if not isinstance(target, BaseAgent) and callable(target):
        _check_needs_no_arguments(reference, target)
        target = framework(_call_factory(reference, target))
    if not isinstance(target, BaseAgent):
        raise InvalidInput(
            f"{reference} is of type {type(target).__name__}; expected an agent of acc"
        )
    return target


def _call_factory(reference: str, factory: Callable[[], Any]) -> Any:
    try:
        target = factory()
    except Exception as error:
        problem = InvalidTree if isinstance(error, InvalidTree) else InvalidInput
        raise problem(f"{reference} cannot be built: {describe_import_error(error)}") from error
    if inspect.iscoroutine(target):
        target.close()
        raise InvalidInput(f"{reference} is an async function; expected one without async")
    return target


def _check_needs_no_arguments(reference: str, factory: Callable[..., Any]) -> None:
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise InvalidInput(
            f"{reference} cannot be called to create an agent: {error}; expected an agent, or a "
            "function without required arguments that returns one"
        ) from None
    except ValueError:  # functions implemented in C may have no signature
        return


def _list_agents_of(reference: str) -> str:
    """Return a hint with the agents of a file or module that is named without an agent."""
    module = reference.removesuffix(":")
    try:
        if module.endswith(".py"):
            module = _add_to_import_path(Path(module))
        load_object(f"{module}:__name__")
    except InvalidInput as error:
        return "" if "no module" in str(error) else f"; {error}"
    return _list_agents(module)


def _list_agents(module: str) -> str:
    """Return a hint with the agents of a module, or an empty string if it has none."""
    loaded = sys.modules.get(module)
    names = [n for n, v in vars(loaded).items() if isinstance(v, BaseAgent)] if loaded else []
    return f"; agents in {module}: {', '.join(names)}" if names else ""
