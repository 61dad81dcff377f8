"""Names follow the glossary: no private vocabulary in code, tests, benchmarks and examples."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from syntax_trees import parse

ROOT = Path(__file__).parent.parent
FILES = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
WORDS = ("told", "held", "kept", "said", "heard", "spoken")
FORBIDDEN_NAME = re.compile(
    rf"(?:^|_)(?:{'|'.join(WORDS)})(?:_|\d|$)"
    rf"|(?:{'|'.join(word.title() for word in WORDS)})(?=[A-Z\d]|$)"
)
#: Only files with these texts are parsed, because parsing is slow.
ANY_WORD = re.compile("|".join(WORDS), re.IGNORECASE)
#: Words that end in "ing" and are nouns of the field, not verbs.
NOUNS = frozenset({"reading", "blinding", "grounding", "string", "testing", "tracing"})
FORBIDDEN_DOCSTRING = re.compile(r"(?:Tell whether|Tell |Give |Refuse |Take in )")


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def test_names_avoid_private_vocabulary() -> None:
    offenders = []
    for path in FILES:
        has_words = ANY_WORD.search(path.read_text("utf-8"))
        names = [(0, path.stem), *(_names(parse(path)) if has_words else ())]
        offenders += [
            f"{path.relative_to(ROOT)}:{line}: {name}"
            for line, name in names
            if FORBIDDEN_NAME.search(name)
        ]
    assert offenders == []


def test_modules_are_named_after_nouns() -> None:
    stems = {path: path.stem.rpartition("_")[2] for path in FILES if "src" in path.parts}
    assert [
        str(path.relative_to(ROOT))
        for path, stem in stems.items()
        if stem.endswith("ing") and stem not in NOUNS
    ] == []


def test_docstrings_start_with_a_conventional_verb() -> None:
    offenders = []
    for path in FILES:
        if not FORBIDDEN_DOCSTRING.search(path.read_text("utf-8")):
            continue
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                if FORBIDDEN_DOCSTRING.match(text):
                    offenders.append(f"{path.relative_to(ROOT)}: {text.splitlines()[0]}")
    assert offenders == []
