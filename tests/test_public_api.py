"""The public names of `acc`, and what importing it loads."""

import ast
import inspect
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import acc
import acc.a2a
from acc import EventKind
from acc.domain.value_objects.event import TRANSIENT

ROOT = Path(__file__).parent.parent

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


PUBLIC_MODULES = {"acc", "acc.a2a", "acc.contracts", "acc.events", "acc.frameworks", "acc.testing"}


def _imported_modules(source: str) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module)
    own = {name for name in modules if name.partition(".")[0] == "acc"}
    # The submodules of acc.testing and acc.frameworks are public too.
    packages = ("acc.testing", "acc.frameworks")
    return {next((p for p in packages if name.startswith(f"{p}.")), name) for name in own}


def _documents() -> list[Path]:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "adr" not in path.parts]
    return [*ROOT.glob("*.md"), *pages, *(ROOT / "examples").glob("*.md")]


@pytest.mark.parametrize("path", _documents(), ids=lambda path: path.name)
def test_documentation_imports_only_public_modules(path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    used = {name for block in blocks for name in _imported_modules(textwrap.dedent(block))}
    assert used <= PUBLIC_MODULES


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_example_imports_only_public_modules(path: Path) -> None:
    assert _imported_modules(path.read_text("utf-8")) <= PUBLIC_MODULES


def test_a2a_module_defines_its_public_names() -> None:
    assert all(hasattr(acc.a2a, name) for name in acc.a2a.__all__)
    assert {"create_app", "receive_notifications", "verify_notification"} <= set(acc.a2a.__all__)


def test_agents_guide_lists_all_kinds_of_events() -> None:
    guide = (ROOT / "docs" / "agents.md").read_text()
    rows = [line for line in guide.splitlines() if line.startswith(("| stored |", "| shown, not"))]
    listed = [set(re.findall(r"`(\w+)`", row)) for row in rows]
    transient = {kind.value for kind in TRANSIENT}
    assert listed == [{kind.value for kind in EventKind} - transient, transient]
