"""Loading of Python objects by reference, such as `shop.agents:root`."""

import importlib
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from sysconfig import get_paths
from typing import Any

from acc.domain.errors import InvalidInput, InvalidTree

#: Folders whose code is not that of the user.
_LIBRARIES = tuple(
    str(Path(folder))
    for folder in (Path(__file__).parents[2], get_paths()["stdlib"], get_paths()["purelib"])
)


def load_object(reference: str) -> Any:
    """Return the object `MODULE:NAME`; the current directory is importable.

    Raises InvalidInput for every error of the module, with the file and line of the user's code.
    """
    module_name, colon, name = reference.partition(":")
    if not colon or not module_name or not name:
        raise InvalidInput(f"{reference!r} must have the form MODULE:NAME")
    if "/" in module_name and not module_name.endswith(".py"):
        module_path = module_name.strip("./").replace("/", ".")
        raise InvalidInput(
            f"{module_name!r} is a path; write the name of the module: {module_path}:{name}"
        )
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        problem = InvalidTree if isinstance(error, InvalidTree) else InvalidInput
        raise problem(_describe_load_error(module_name, error)) from error
    if not hasattr(module, name):
        public = [attribute for attribute in vars(module) if not attribute.startswith("_")]
        similar = get_close_matches(name, public, 1)
        advice = f"; did you mean {module_name}:{similar[0]}?" if similar else ""
        raise InvalidInput(f"module {module_name!r} has no attribute {name!r}{advice}")
    return getattr(module, name)


def _module(file: str) -> str:
    """Return the name of the module of a file in the working directory."""
    return file.removesuffix(".py").removeprefix("./").replace("/", ".")


def _describe_load_error(module_name: str, error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if f"{module_name}.".startswith(f"{error.name}."):
            if module_name.endswith(".py"):
                name = _module(module_name)
                return f"{module_name!r} is a file; write the name of the module: {name}:NAME"
            return (
                f"there is no module {module_name!r} in {Path.cwd()} or among the installed "
                f"packages; for a file write {module_name.replace('.', '/')}.py:NAME"
            )
        package = error.name.partition(".")[0]
        place = describe_import_error(error)
        return f"cannot import {module_name!r}: {place}; install {package!r} or correct the import"
    if isinstance(error, SystemExit):
        place = describe_import_error(error)
        return (
            f"cannot import {module_name!r}: {place}; move what the module does into a function "
            'or behind `if __name__ == "__main__":`'
        )
    return f"cannot import {module_name!r}: {describe_import_error(error)}"


def describe_import_error(error: BaseException) -> str:
    """Return an error raised by a user's module in one line, with file and line of their code."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not is_library(frame.filename)]
    name = f"{type(error).__name__}: " if not isinstance(error, InvalidInput) else ""
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{name}{error}{place}"


def is_library(filename: str) -> bool:
    """Return True for a file of Python, of this package or of an installed one."""
    return filename.startswith("<") or filename.startswith(_LIBRARIES)
