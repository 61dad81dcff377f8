import re
from pathlib import Path

import pytest

from acc.adapters.system.clock import SystemClock
from acc.bootstrap import settings
from acc.bootstrap.a2a import make_task_store
from acc.bootstrap.agents import make_services
from acc.domain.errors import InvalidInput


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        settings.ALLOW,
        settings.AGENT_MODEL,
        settings.COMPRESSOR_MODEL,
        settings.LEASE,
        settings.MODEL_CACHE,
        settings.PUSH_SECRET,
        settings.TOKEN,
    ):
        monkeypatch.delenv(name, raising=False)


def test_defaults_apply_when_no_variable_is_set() -> None:
    assert settings.allowed_hosts() == ()
    assert settings.agent_model() == "embedded"
    assert settings.compressor_model() == "rules"
    assert settings.lease_seconds() == 30.0
    assert settings.model_cache() is None
    assert settings.push_secret() == ""
    assert settings.agent_token_reference("desk") == ""


def test_variables_are_read_at_call_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACC_ALLOW", " localhost, ,10.0.0.0/8 ")
    monkeypatch.setenv("ACC_AGENT_MODEL", " openai:gpt-5.2 ")
    monkeypatch.setenv("ACC_COMPRESSOR_MODEL", "embedded")
    monkeypatch.setenv("ACC_MODEL_CACHE", "cache/models")
    monkeypatch.setenv("ACC_PUSH_SECRET", " with space ")
    assert settings.allowed_hosts() == ("localhost", "10.0.0.0/8")
    assert settings.agent_model() == "openai:gpt-5.2"
    assert settings.compressor_model() == "embedded"
    assert settings.model_cache() == Path("cache/models")
    assert settings.push_secret() == " with space "


def test_lease_applies_to_sessions_tasks_and_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACC_LEASE_SECONDS", " 7.5 ")
    sessions = make_services().sessions
    tasks, _ = make_task_store("memory", sessions, SystemClock(), "app")
    assert (sessions.lease, tasks.lease) == (7.5, 7.5)


@pytest.mark.parametrize("text", ["2.9", "3601", "nan", "30 s", "三十"])
def test_invalid_lease_is_rejected_with_the_limits(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("ACC_LEASE_SECONDS", text)
    with pytest.raises(InvalidInput, match="3 to 3600 seconds"):
        settings.lease_seconds()


def test_token_of_one_agent_precedes_the_shared_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACC_TOKEN", "shared")
    assert settings.agent_token_reference("help-desk") == "env:ACC_TOKEN"
    monkeypatch.setenv("ACC_TOKEN_HELP_DESK", "own")
    assert settings.agent_token_reference("help-desk") == "env:ACC_TOKEN_HELP_DESK"


def test_reference_is_resolved_and_other_text_is_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_SECRET", "value\n")
    assert settings.resolve_reference("env:SOME_SECRET") == "value"
    assert settings.resolve_reference("plain") == "plain"


def test_reference_to_an_unset_variable_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY_SECRET", " ")
    for name in ("EMPTY_SECRET", "NO_SUCH_SECRET"):
        with pytest.raises(InvalidInput, match=name):
            settings.resolve_reference(f"env:{name}")


def test_documentation_lists_every_variable() -> None:
    page = (Path(__file__).parents[3] / "docs" / "environment.md").read_text(encoding="utf-8")
    source = Path(settings.__file__).read_text(encoding="utf-8")
    variables = set(re.findall(r'"((?:ACC|XDG)_[A-Z_]+)"', source))
    assert len(variables) >= 7
    assert {name for name in variables if f"`{name}`" not in page} == set()
