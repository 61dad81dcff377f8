from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Acc = Callable[..., Any]


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
        (("shop:invalid_tree",), "max_iterations"),
        (("shop:team", "--out", "tree.png"), ".png is not supported"),
    ],
)
def test_graph_fails_with_invalid_arguments(
    acc: Acc, arguments: tuple[str, ...], reason: str
) -> None:
    done = acc("graph", *arguments)
    assert (done.status, done.stdout) == (2, "")
    assert reason in done.stderr.splitlines()[-1]
