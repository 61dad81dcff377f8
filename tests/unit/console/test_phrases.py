"""Errors and reasons of the console in Japanese."""

import ast
import re
from pathlib import Path

import pytest

import acc.adapters.console
import acc.adapters.reports.run_list
import acc.application.console
from acc.adapters.console.phrases import describe_error, translate_phrase
from acc.domain.errors import InvalidInput, ModelFailed, SessionBusy

JAPANESE = re.compile("[ぁ-んァ-ヶ一-龠]")
FOLDERS = [Path(acc.adapters.console.__path__[0]), Path(acc.application.console.__path__[0])]
FILES = [file for folder in FOLDERS for file in sorted(folder.glob("*.py"))]
RAISED = {"HTTPException", "InvalidInput", "NotFound", "SessionBusy", "NothingPending"}
RAISED |= {"StaleApproval", "AccError"}


def raised_texts(file: Path) -> list[str]:
    """Return the messages of errors that a module makes, with `x` for each value."""
    texts = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in RAISED:
            texts += [text for one in node.args if (text := literal(one))]
    return texts


def literal(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        values = (v.value if isinstance(v, ast.Constant) else "9" for v in node.values)
        return "".join(map(str, values))
    return ""


def test_every_error_of_the_console_is_translated() -> None:
    files = [*FILES, Path(acc.adapters.reports.run_list.__file__)]
    texts = [text for file in files for text in raised_texts(file)]
    assert len(texts) > 40
    assert [text for text in texts if not JAPANESE.search(translate_phrase(text, "ja"))] == []


def test_refusals_before_pages_are_translated() -> None:
    source = (FOLDERS[0] / "security.py").read_text(encoding="utf-8")
    texts = re.findall(r'return "([^"]+)", (?:\n\s*)?\d{3}\b', source)
    assert len(texts) >= 4
    assert [text for text in texts if not JAPANESE.search(translate_phrase(text, "ja"))] == []


def test_other_errors_are_described_by_their_code_with_the_text() -> None:
    described = describe_error(ModelFailed("timeout of m-1"), "ja")
    assert described == "モデルの呼び出しに失敗しました。（timeout of m-1）"
    assert describe_error(InvalidInput("odd"), "en") == "odd"


def test_values_are_part_of_the_translation() -> None:
    busy = SessionBusy("session 's1' has a run; wait until it ends, or stop it")
    assert describe_error(busy, "ja").startswith("セッション 's1' は実行中です")


@pytest.mark.parametrize(
    "text",
    [
        "read as set (0.93)",
        "recalled: it matches the message",
        "moved to constraints",
        "user, turn 3",
        "superseded: a later sentence changed, lifted or corrected it",
        "1,024 bytes, image/png",
        "change (0.95)",
        "tool turn 2",
        "May refund be called?",
        "semantic_gist. describes this turn",
        "t3.0. duplicate: the view already contains it",
    ],
)
def test_reasons_of_memories_are_translated(text: str) -> None:
    assert JAPANESE.search(translate_phrase(text, "ja"))
    assert translate_phrase(text, "en") == text
