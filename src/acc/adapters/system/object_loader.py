"""Loading of Python objects by reference, such as `shop.agents:root`."""

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from acc.domain.errors import AccError, InvalidInput


def load_object(reference: str) -> Any:
    """Return the object `MODULE:NAME`; the current directory is importable."""
    module_name, colon, name = reference.partition(":")
    if not colon or not module_name or not name:
        raise InvalidInput(f"{reference!r} must have the form MODULE:NAME")
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidInput(f"cannot import {module_name!r}: {error}") from error
    except AccError:
        raise
    except Exception as error:
        raise InvalidInput(f"cannot load {reference}: {describe_import_error(error)}") from error
    if not hasattr(module, name):
        raise InvalidInput(f"module {module_name!r} has no attribute {name!r}")
    return getattr(module, name)


def describe_import_error(error: Exception) -> str:
    """Return an error raised by a user's module in one line, with file and line number."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
