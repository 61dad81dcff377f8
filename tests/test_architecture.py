"""Checks of file sizes, module names, imports and lock files."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from syntax_trees import parse

ROOT = Path(__file__).parent.parent
PYTHON = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
SOURCE = [path for path in PYTHON if path.is_relative_to(ROOT / "src")]
MAX_LINES = 600
FORBIDDEN_STEMS = {"utils", "helpers", "common", "misc", "manager", "base2"}


def test_files_have_at_most_600_lines() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PYTHON}
    assert [f"{p.relative_to(ROOT)}: {n}" for p, n in lengths.items() if n > MAX_LINES] == []


def test_module_names_are_not_generic() -> None:
    bad = [
        str(path.relative_to(ROOT))
        for path in SOURCE
        if path.stem.lstrip("_") in FORBIDDEN_STEMS or path.stem.endswith(("_v2", "_new", "_impl"))
    ]
    assert bad == []


def test_package_folders_have_an_init_module() -> None:
    folders = {path.parent for path in SOURCE}
    assert [str(f) for f in folders if not (f / "__init__.py").exists()] == []


def test_modules_with_one_importer_have_a_reason() -> None:
    script = ROOT / "benchmarks" / "structure.py"
    result = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(script), "--single"], capture_output=True, text=True, check=False
    )
    problems = [line for line in result.stdout.splitlines() if ": NO " in line]
    assert (problems, result.returncode) == ([], 0), result.stderr


def test_only_bootstrap_imports_inside_a_function() -> None:
    found: list[str] = []
    for path in SOURCE:
        # pytest imports its plugins in every session, also of projects that do not use acc there.
        if path.parent.name == "bootstrap" or path.name == "pytest_plugin.py":
            continue
        tree = parse(path)
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = [
                    n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)
                ]
                found += [f"{path.relative_to(ROOT)}:{node.lineno}" for node in inner]
    assert found == []


#: Modules that pass the environment of this process on to a child process.
CHILD_ENVIRONMENTS = {
    "adapters/evaluation/isolated_agent.py",
    "adapters/mcp/transports.py",
    "adapters/models/local_server.py",
}


def test_only_the_settings_module_reads_the_environment() -> None:
    package = ROOT / "src" / "acc"
    readers: set[str] = set()
    for path in SOURCE:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Attribute):
                uses = (
                    isinstance(node.value, ast.Name)
                    and node.value.id == "os"
                    and node.attr in {"environ", "getenv", "putenv"}
                )
            elif isinstance(node, ast.ImportFrom) and node.module == "os":
                uses = bool({n.name for n in node.names} & {"environ", "getenv", "putenv"})
            else:
                continue
            if uses:
                readers.add(str(path.relative_to(package)))
    assert readers - CHILD_ENVIRONMENTS == {"bootstrap/settings.py"}


def test_code_inside_acc_does_not_import_the_flat_api() -> None:
    found: list[str] = []
    for path in SOURCE:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "acc":
                names = [n.name for n in node.names if n.name not in {"bootstrap", "cli"}]
                found += [f"{path.relative_to(ROOT)}:{node.lineno} {name}" for name in names]
    assert found == []


@pytest.mark.parametrize("layer", ["domain", "ports", "application"])
def test_core_layers_import_only_standard_library_and_msgspec(layer: str) -> None:
    allowed = sys.stdlib_module_names | {"acc"} | ({"msgspec"} if layer == "application" else set())
    # Type checkers know it without an installed package; at run time it is not imported.
    if layer == "application":
        allowed |= {"typing_extensions"}
    found: set[str] = set()
    for path in (ROOT / "src" / "acc" / layer).rglob("*.py"):
        if path.name == "base.py":
            continue  # the base class of value objects uses msgspec
        for node in ast.walk(parse(path)):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules = [node.module]
            found |= {module.partition(".")[0] for module in modules}
    assert found - allowed == set()


def test_lock_files_have_hashes_and_no_urls() -> None:
    assert not (ROOT / "uv.lock").exists() or "uv.lock" in (ROOT / ".gitignore").read_text()
    for path in (ROOT / "requirements").iterdir():
        lock = path.read_text()
        assert "--hash=sha256:" in lock
        assert "://" not in lock


def test_typing_extensions_is_imported_for_type_checkers_only() -> None:
    for path in SOURCE:
        tree = parse(path)
        guarded = {
            id(node)
            for block in ast.walk(tree)
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for statement in block.body
            for node in ast.walk(statement)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "typing_extensions":
                assert id(node) in guarded, path
