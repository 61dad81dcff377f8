"""Findings of the doctor in Japanese."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from acc.adapters.console.doctor_phrases import translate_finding
from acc.application.doctor import findings

FOLDER = Path(findings.__file__).parent
MODULES = ("card_checks", "protocol_checks", "security_checks", "grpc_checks", "server")
#: Calls whose texts are shown, and names that hold such texts.
CALLS = {"ok", "note", "warn", "fail", "skipped", "verdict_from", "CheckSkipped", "append"}
CALLS |= {"InterfaceMissing", "require_rejection"}
NAMES = {"fix", "_FIX", "problem", "NO_INTERFACE"}
KEYWORDS = {"fix", "observation"}
#: Values of the server, and names of fields, standards and states.
UNTRANSLATED = re.compile(
    r"X at X|capabilities|[A-Z]*|(?:X[ ,:()]*)+|TLS|lf\.a2a\.v1\.A2AService|[a-z]+[A-Z]\w*"
)


def text_of(node: ast.expr) -> str | None:
    """Return a text with X for each value, None for something else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
    if isinstance(node, ast.IfExp):
        return text_of(node.body)
    return None


def shown_texts(module: str) -> Iterator[str]:
    """Yield the texts of a module that a report shows."""
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text())):
        values: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            values = [*node.args] if name in CALLS else []
            values += [word.value for word in node.keywords if word.arg in KEYWORDS]
            yield from (
                f"{text} (X)"
                for word in node.keywords
                if word.arg == "instead" and (text := text_of(word.value))
            )
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in NAMES:
            values = [node.value]
        for value in values:
            if (text := text_of(value)) is not None:
                yield re.sub(r"(?<=[a-z])X$", "", text)  # a part that follows a semicolon


@pytest.mark.parametrize("module", MODULES)
def test_every_text_of_a_check_is_translated(module: str) -> None:
    continued = {"respond with VersionNotSupportedError", "respond with text/event-stream"}
    continued |= {"number the events of a task", "continue the task when a client"}
    continued |= {"store the owner of each task, and", "resolve the address once"}
    continued |= {"accept a configuration with a public"}  # the next statement adds to them
    missing = []
    for text in set(shown_texts(module)):
        is_part = any(text.startswith(start) for start in continued)
        if not is_part and not UNTRANSLATED.fullmatch(text):
            parts = [text, *text.split("; ")]
            if all(translate_finding(part, "ja") == part for part in parts):
                missing.append(text)
    assert sorted(missing) == []


@pytest.mark.parametrize(
    ("text", "japanese"),
    [
        ("the card is not signed, which is optional", "カードに署名がありません（署名は任意です）"),
        (
            "name is missing or empty; skills is missing or empty",
            "name がないか空です；skills がないか空です",
        ),
        (
            "rejected, but with HTTP 400 instead of HTTP 404",
            "HTTP 404 ではなく HTTP 400 で拒否されました",
        ),
        (
            "the task continued and is completed; subscribing to it is then rejected",
            "タスクは継続して completed になり、その後の購読は拒否されます",
        ),
        ("a {strange} text", "a {strange} text"),
        ("https://a.example gave {x}", "https://a.example の応答は {x} です"),
    ],
)
def test_values_stay_and_parts_are_translated(text: str, japanese: str) -> None:
    assert translate_finding(text, "ja") == japanese
    assert translate_finding(text, "en") == text


def test_fixes_of_several_lines_are_translated() -> None:
    fix = (
        "respond with VersionNotSupportedError (-32009) to an unsupported version, and treat a "
        "request without A2A-Version as 0.3"
    )
    assert "VersionNotSupportedError（-32009）" in translate_finding(fix, "ja")
