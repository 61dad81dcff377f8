"""What type checkers find in programs of users: planted mistakes, and nothing in correct programs.

Both checkers run in strict mode over the files in `tests/typing` and over the Python blocks of the
guides.
"""

import ast
import inspect
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import acc

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "typing"
GUIDES = (ROOT / "README.md", ROOT / "README.ja.md", ROOT / "docs" / "agents.md")
_MYPY_ERROR = re.compile(r"^(.+?):(\d+): error: (.*)$", re.MULTILINE)


def run_mypy(files: Sequence[Path], folder: Path) -> dict[tuple[str, int], str]:
    """Return the errors of mypy by file name and line; the configuration is strict."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603
    assert done.returncode in (0, 1), done.stderr + done.stdout
    found = _MYPY_ERROR.findall(done.stdout)
    return {(Path(file).name, int(line)): text for file, line, text in found}


def run_pyright(files: Sequence[Path], folder: Path) -> dict[tuple[str, int], str]:
    """Return the errors of pyright in strict mode by file name and line."""
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "include": ["*.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    for file in files:
        if file.parent != folder:
            (folder / file.name).write_bytes(file.read_bytes())
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
        + ["--project", str(folder)],
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr + done.stdout
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(files)
    return {
        (Path(error["file"]).name, error["range"]["start"]["line"] + 1): error["message"]
        for error in report["generalDiagnostics"]
        if error["severity"] == "error"
    }


CHECKERS = {"mypy": run_mypy, "pyright": run_pyright}


@pytest.mark.parametrize("checker", CHECKERS)
def test_planted_mistakes_are_found_and_nothing_else(checker: str, tmp_path: Path) -> None:
    file = PROGRAMS / "planted_mistakes.py"
    lines = enumerate(file.read_text("utf-8").splitlines(), start=1)
    planted = {
        (file.name, n): line.strip() for n, line in lines if re.search(r"# mistake \d", line)
    }
    assert len(planted) >= 12
    found = CHECKERS[checker]([file], tmp_path)
    assert [text for place, text in planted.items() if place not in found] == []
    assert {place: text for place, text in found.items() if place not in planted} == {}


@pytest.mark.parametrize("checker", CHECKERS)
def test_correct_programs_have_no_errors(checker: str, tmp_path: Path) -> None:
    assert CHECKERS[checker]([PROGRAMS / "correct_programs.py"], tmp_path) == {}


@pytest.mark.parametrize("checker", CHECKERS)
def test_python_blocks_of_guides_have_no_errors(checker: str, tmp_path: Path) -> None:
    files: list[Path] = []
    for guide in GUIDES:
        text = guide.read_text("utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for number, block in enumerate(blocks):
            file = tmp_path / f"{guide.stem.replace('.', '_')}_{number}.py"
            file.write_text(textwrap.dedent(block), encoding="utf-8")
            files.append(file)
    assert len(files) > len(GUIDES)
    assert CHECKERS[checker](files, tmp_path) == {}


#: Public signatures with `Any`, and the reason. JSON data has its own name, JsonData.
ANY_ALLOWED = {
    "FunctionAgent.function": "a function with any of several parameters and results",
    "FunctionTool.deps_type": "a type, which at run time can be any object",
    "tool(function)": "the implementation of two overloads, which have types",
    "tool(return)": "the implementation of two overloads, which have types",
}


def _uses_any(annotation: ast.expr) -> bool:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name) and node.id == "Any":
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_type = node.value.isidentifier() or "[" in node.value
            if is_type and _uses_any(ast.parse(node.value, mode="eval").body):
                return True
    return False


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, ast.expr]]:
    every = node.args
    for argument in (*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg):
        if argument is not None and argument.annotation is not None:
            yield f"({argument.arg})", argument.annotation
    if node.returns is not None:
        yield "(return)", node.returns


def _public_annotations(name: str) -> Iterator[tuple[str, ast.expr]]:
    target = getattr(acc, name)
    if not (inspect.isclass(target) or inspect.isfunction(target)):
        return
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(target))).body
    functions: list[tuple[str, ast.stmt]] = [(name, node)]
    if isinstance(node, ast.ClassDef):
        functions = [(f"{name}.{getattr(item, 'name', '')}", item) for item in node.body]
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                yield f"{name}.{item.target.id}", item.annotation
    for place, function in functions:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for argument, annotation in _annotations(function):
                yield place + argument, annotation


def _is_public(place: str) -> bool:
    name = place.partition("(")[0].rpartition(".")[2]
    return not name.startswith("_") or name in ("__init__", "__call__")


def test_public_signatures_use_any_only_with_a_reason() -> None:
    found = {
        place
        for name in acc.__all__
        for place, annotation in _public_annotations(name)
        if _is_public(place) and _uses_any(annotation)
    }
    assert found == ANY_ALLOWED.keys()
