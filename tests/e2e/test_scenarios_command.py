"""`acc scenarios`."""

import json
from pathlib import Path

import pytest
from command import acc


def test_shipped_scenarios_can_be_listed_shown_and_validated() -> None:
    listed = json.loads(acc("scenarios", "list", "--json").stdout)
    assert {row["turns"] for row in listed} == {50}
    assert "it-operations-ja" in acc("scenarios", "list").stdout
    text = acc("scenarios", "show", "it-operations-ja", "--seed", "3").stdout
    assert "50. " in text
    assert "expected: " in text
    assert "lifted:   " in text
    assert "expected: \n" not in text
    rendered = json.loads(acc("scenarios", "show", "it-operations", "--json").stdout)
    assert len(rendered["turns"]) == 50
    done = acc("scenarios", "validate")
    assert done.returncode == 0
    assert done.stdout.count(": ok, 50 turns") == len(listed) >= 24


def test_new_scenario_can_be_evaluated(tmp_path: Path) -> None:
    created = acc("scenarios", "new", "my-own", cwd=tmp_path)
    assert "acc eval --scenario my-own.toml" in created.stdout
    assert acc("scenarios", "validate", "my-own.toml", cwd=tmp_path).returncode == 0
    without_suffix = acc("scenarios", "validate", "my-own", cwd=tmp_path)
    assert "Did you mean 'my-own.toml'?" in without_suffix.stderr
    done = acc("eval", "--scenario", "my-own.toml", "--episodes", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert next((tmp_path / "runs").iterdir()).name.startswith("my-own-3x-")
    again = acc("scenarios", "new", "my-own.toml", cwd=tmp_path)
    assert again.returncode == 2
    assert "already exists" in again.stderr


@pytest.mark.parametrize("name", ["My Own", "../up", ""])
def test_invalid_scenario_name_is_rejected(tmp_path: Path, name: str) -> None:
    done = acc("scenarios", "new", name, cwd=tmp_path)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_validate_reports_file_turn_and_field(tmp_path: Path) -> None:
    acc("scenarios", "new", "mine", cwd=tmp_path)
    file = tmp_path / "mine.toml"
    file.write_text(file.read_text().replace('expect = ["@limit"]', 'expect = ["@unknown"]'))
    done = acc("scenarios", "validate", "mine.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "mine.toml: turn 2: expect: no earlier turn establishes 'unknown'" in done.stderr
