"""Load objects of user code by `MODULE:NAME`."""

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from acc.domain.errors import AccError, InvalidInput


def load_object(reference: str) -> Any:
    """Return the object that `MODULE:NAME` refers to; the current folder is searched too."""
    module_name, colon, name = reference.partition(":")
    if not colon or not module_name or not name:
        raise InvalidInput(f"{reference!r} must be MODULE:NAME")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidInput(f"cannot import {module_name!r}: {error}") from error
    except AccError:
        raise
    except Exception as error:
        raise InvalidInput(f"cannot load {reference}: {error_with_location(error)}") from error
    if not hasattr(module, name):
        raise InvalidInput(f"{module_name!r} has no {name!r}")
    return getattr(module, name)


def error_with_location(error: Exception) -> str:
    """Return the error of a user's module on one line, with file and line number."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
