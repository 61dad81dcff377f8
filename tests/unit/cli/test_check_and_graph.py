import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Acc = Callable[..., Any]


def test_check_reports_problems_with_fixes(acc: Acc) -> None:
    done = acc("check", "shop:faulty")
    assert done.status == 1
    assert "reader: " in done.stdout
    assert "{notes}" in done.stdout
    assert "fix: " in done.stdout
    assert "高権限アクション" in done.stdout
    assert done.stdout.splitlines()[-1] == "3 problems, 2 warnings"


def test_check_accepts_a_valid_tree(acc: Acc) -> None:
    done = acc("check", "shop:valid_tree")
    assert (done.status, done.stdout.splitlines()[-1]) == (0, "0 problems, 0 warnings")


def test_check_prints_json(acc: Acc) -> None:
    report = json.loads(acc("check", "shop:faulty", "--json").stdout)
    assert report["severity"] == "problem"
    assert [rule["severity"] for rule in report["rules"]].count("problem") == 3


def test_graph_prints_mermaid_or_svg(acc: Acc) -> None:
    assert acc("graph", "shop:team").stdout.startswith("flowchart TD\n")
    assert acc("graph", "shop:team", "--format", "svg").stdout.startswith("<svg")


def test_graph_writes_the_format_of_the_file_name(acc: Acc, tmp_path: Path) -> None:
    file = tmp_path / "tree.svg"
    assert acc("graph", "shop:team", "--out", file).stdout == f"wrote {file}\n"
    assert "返品担当" in file.read_text(encoding="utf-8")


def test_graph_fails_when_the_file_cannot_be_written(acc: Acc, tmp_path: Path) -> None:
    done = acc("graph", "shop:team", "--out", tmp_path / "no" / "tree.svg")
    assert (done.status, "cannot write" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("graph", "shop:invalid_tree"), "max_iterations"),
        (("graph", "shop:team", "--out", "tree.png"), ".png is not supported"),
        (("check", "shop:invalid_tree"), "cannot be built"),
        (("chat", "shop:broken"), "KeyError: 'colour'"),
    ],
)
def test_invalid_usage_is_one_line_with_status_2(
    acc: Acc, arguments: tuple[str, ...], reason: str
) -> None:
    done = acc(*arguments)
    assert (done.status, done.stdout) == (2, "")
    assert reason in done.stderr.splitlines()[-1]
