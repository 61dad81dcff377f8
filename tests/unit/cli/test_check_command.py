import json
from collections.abc import Callable
from typing import Any

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


def test_check_fails_when_the_tree_is_invalid(acc: Acc) -> None:
    done = acc("check", "shop:invalid_tree")
    assert (done.status, done.stdout) == (2, "")
    assert "cannot be built" in done.stderr.splitlines()[-1]
