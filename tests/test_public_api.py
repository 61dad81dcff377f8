"""The public names of `acc`, and what importing it loads."""

import ast
import inspect
import json
import subprocess
import sys

import pytest

import acc

SOURCE = ast.parse(inspect.getsource(acc))


def names_for_type_checkers() -> dict[str, str]:
    """Return the names in the TYPE_CHECKING block of `acc/__init__.py`, with their modules."""
    return {
        alias.name: node.module
        for node in ast.walk(SOURCE)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("acc.")
        for alias in node.names
    }


def test_type_checkers_see_exactly_the_public_names() -> None:
    modules = {name: module for module, names in acc._PUBLIC_NAMES.items() for name in names}
    assert names_for_type_checkers() == modules
    assert sorted(modules) == acc.__all__


def test_public_names_are_listed_once() -> None:
    names = [name for names in acc._PUBLIC_NAMES.values() for name in names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", acc.__all__)
def test_public_name_can_be_imported(name: str) -> None:
    assert getattr(acc, name) is not None
    assert name in dir(acc)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Elephant'"):
        _ = acc.Elephant  # type: ignore[attr-defined]


def test_import_loads_only_the_standard_library_and_msgspec() -> None:
    code = (
        "import sys, json; before = set(sys.modules); import acc;"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded - sys.stdlib_module_names - {"acc", "msgspec"} == set()
