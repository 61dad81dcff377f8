"""`acc check` at a terminal; the other options are tested in tests/unit/cli."""

from pathlib import Path

from terminal import Terminal


def test_report_is_wrapped_and_indented_on_a_narrow_terminal() -> None:
    with Terminal("check", "shop:faulty", cwd=Path(__file__).parent) as terminal:
        assert terminal.wait() == 1
        assert "\n                  fix: " in terminal.output
