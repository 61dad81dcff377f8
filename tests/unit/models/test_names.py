"""Names of models, and where their keys come from."""

import os
import re
import subprocess
import sys
from typing import Any

import pytest

from acc import Agent, InvalidInput, ProviderModel, Runner
from acc.adapters.models.errors import ModelErrors
from acc.application.models.names import (
    ModelName,
    is_provider_name,
    parse_model_name,
    split_alternatives,
)
from acc.bootstrap.agents import check_models
from acc.bootstrap.models import (
    MODEL_NAMES,
    check_model_ready,
    make_local_model,
    make_model,
)
from acc.bootstrap.settings import agent_model, read_variable
from acc.domain.model_names import KEY_VARIABLES, PROVIDER_ALIASES


def test_name_has_provider_model_url_and_settings() -> None:
    variables = parse_model_name(
        "openai-compatible:org/Qwen@v2@http://127.0.0.1:8080/v1?temperature=0&max_tokens=50"
        "&seed=7&key=MY_KEY&output=prompted&concurrency=2&tokens_per_minute=9000"
    )
    assert variables == ModelName(
        provider="openai-compatible",
        model="org/Qwen@v2",
        base_url="http://127.0.0.1:8080/v1",
        temperature=0.0,
        max_tokens=50,
        seed=7,
        api_key_env="MY_KEY",
        output="prompted",
        concurrency=2,
        tokens_per_minute=9000.0,
    )
    assert variables.name == "openai-compatible:org/Qwen@v2@http://127.0.0.1:8080/v1"


@pytest.mark.parametrize(
    ("name", "provider"),
    [("google-gla:g", "google"), ("gemini:g", "google"), ("openai:g", "openai")],
)
def test_alias_of_a_provider_is_accepted(name: str, provider: str) -> None:
    assert is_provider_name(name)
    assert parse_model_name(name).provider == provider


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt-5", "does not name a model"),
        ("opnai:gpt-5", "no provider 'opnai'"),
        ("openai:", "the model's name is missing"),
        ("openai:a\nb", "the model's name is missing"),
        ("openai:gpt-5?temprature=1", "has no setting 'temprature'"),
        ("openai:gpt-5?temperature=warm", "temperature must be a number"),
        ("openai:gpt-5?temperature=nan", "must be at least 0: nan"),
        ("openai:gpt-5?max_tokens=0", "max_tokens of openai:gpt-5 must be at least 1: 0"),
        ("openai:gpt-5?output=xml", "choose one of auto, native, prompted"),
        ("openai-compatible:m", "needs a URL"),
        ("groq:m@https://elsewhere.example/v1", "takes no base URL"),
        ("openai:m@https://user:pass@h.example/v1", "contains credentials"),
        ("openai:m@https://h.example:99999999/v1", "is not a URL"),
        ("openai:m@https:///v1", "is not an http or https URL"),
        ("openai:m@http://far.example/v1", "unencrypted"),
        ("openai:m@http://127.0.0.1.far.example/v1", "unencrypted"),
        ("openai:m@https://user:pass@h.example:99999999/v1", "is not a URL"),
        ("openai:m@proxy.example/v1", "openai:m is followed by an address without"),
        ("openai:m@localhost", "write openai:MODEL@https://proxy.example/v1"),
        ("anthropic:m@proxy:8080", "an address without http"),
        ("google:m@[::1]/v1", "an address without http"),
        ("openai:m@ftp://h.example/v1", "an address without http"),
        ("openai:m@user:pass@h.example/v1", "an address without http"),
        ("openai:m@https:/h.example/v1", "an address without http"),
        ("openai:https://user:pass@h.example/v1", "an address without http"),
        ("groq:m@h.example/v1", "groq:m is followed by an address without"),
        ("openai-compatible:m@127.0.0.1:8080/v1", "an address without http"),
        ("openai:m@HTTP://far.example/v1", "unencrypted"),
        ("openai:gpt-5?key=sk-pass@abcdefghij", "not the key itself"),
        ("openai:gpt-5?key=gsk_pass_abcdefghij", "not the key itself"),
        ("openai:gpt-5?key=pass12ab34cd56ef", "not the key itself"),
        ("openai:gpt-5?key=&key=鍵pass_", "not the key itself"),
        ("openai:gpt-5?key=pass@&temperature=warm", "temperature must be a number"),
        ("gpt-5?key=pass@", "does not name a model"),
    ],
)
def test_invalid_name_is_rejected_without_showing_secrets(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as variables:
        parse_model_name(name)
    assert "pass" not in str(variables.value)


@pytest.mark.parametrize(
    "url", ["HTTPS://proxy.example/v1", "Https://proxy.example/v1", "https://proxy.example/v1"]
)
def test_scheme_of_a_url_is_lowercased(url: str) -> None:
    for variables in (
        parse_model_name(f"openai:gpt@{url}?seed=1"),
        parse_model_name("openai:gpt?seed=1", base_url=url),
        parse_model_name("openai:gpt@https://other.example/v1?seed=1", base_url=url),
    ):
        assert variables == ModelName(
            provider="openai", model="gpt", base_url="https://proxy.example/v1", seed=1
        )


@pytest.mark.parametrize("url", ["proxy.example/v1", "proxy", "ftp://proxy.example", "//x", "@"])
@pytest.mark.parametrize("name", ["openai:gpt", "openai-compatible:m", "anthropic:c?seed=1"])
def test_invalid_base_url_is_rejected(name: str, url: str) -> None:
    with pytest.raises(InvalidInput, match="is not an http or https URL"):
        ProviderModel(name, base_url=url)


@pytest.mark.parametrize("base_url", [None, ""])
def test_empty_base_url_keeps_the_one_in_the_name(base_url: str | None) -> None:
    model = ProviderModel("openai:gpt@https://proxy.example/v1", base_url=base_url)
    assert model.model_name.base_url == "https://proxy.example/v1"


@pytest.mark.parametrize("model", ["claude@20250929", "org/Qwen@v2", "@cf/meta/llama-3.1-8b"])
def test_model_name_may_contain_an_at_sign(model: str) -> None:
    assert parse_model_name(f"litellm:{model}").model == model


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": "0"}, "temperature of openai:m must be a number, got '0'"),
        ({"top_p": True}, "top_p of openai:m must be a number, got True"),
        ({"attempts": "3"}, "attempts of openai:m must be a whole number, got '3'"),
        ({"attempts": 2.5}, "attempts of openai:m must be a whole number, got 2.5"),
        ({"concurrency": 1.5}, "concurrency of openai:m must be a whole number, got 1.5"),
        ({"concurrency": True}, "concurrency of openai:m must be a whole number, got True"),
        ({"thinking": True}, "thinking of openai:m must be text, got True"),
        ({"thinking": 5}, "thinking of openai:m must be text, got 5"),
        ({"base_url": 5}, "base_url of openai:m must be text, got 5"),
        ({"api_key_env": b"KEY"}, "api_key_env of openai:m must be text, got bytes"),
    ],
)
def test_setting_of_wrong_type_is_rejected(settings: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as variables:
        ProviderModel("openai:m", **settings)
    assert str(variables.value) == message


def test_none_takes_a_setting_from_the_name() -> None:
    variables = ProviderModel(
        "openai:m?temperature=0.5&attempts=2",
        temperature=None,
        attempts=None,
        thinking=None,
        timeout=3,
        api_key_env=None,
        output=None,
    ).model_name
    assert variables == parse_model_name("openai:m?temperature=0.5&attempts=2&timeout=3")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("local", "'local' is not a provider's model"),
        ("embedded", "'embedded' is not a provider's model"),
        (None, "None is not a provider's model"),
        ("openai:a|anthropic:b", "'openai:a|anthropic:b' is a list of models"),
        ("openai:a?thinking=low|anthropic:b", "'openai:a' is a list of models"),
    ],
)
def test_provider_model_rejects_other_models_and_lists(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        ProviderModel(name)


def test_key_variable_may_have_any_name_if_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("team_key", " k\n")
    assert (
        parse_model_name("openai:m?key=team_key", read_variable=read_variable).key(read_variable)
        == "k"
    )
    with pytest.raises(InvalidInput, match="no model 'opnai:m'"):
        MODEL_NAMES.check("opnai:m?key=sk-abcdefghijkl")


@pytest.mark.parametrize("key", ["two words", "a\nb", "鍵です", "a\x00b", "“quoted”", '"sk-1"'])
@pytest.mark.parametrize("name", ["openai:m", "openai-compatible:m@http://127.0.0.1:1/v1"])
def test_invalid_key_is_rejected_by_the_name_of_its_variable(
    name: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"OPENAI_API_KEY": key, "OPENAI_COMPATIBLE_API_KEY": key}
    monkeypatch.setattr(os, "environ", {**os.environ, **variables})
    variable = "OPENAI_COMPATIBLE_API_KEY" if "@" in name else "OPENAI_API_KEY"
    with pytest.raises(InvalidInput, match=f"{variable} does not hold a valid key") as raised:
        check_model_ready(name)
    assert key not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai:m", "OPENAI_BASE_URL"),
        ("openai-chat:m", "OPENAI_BASE_URL"),
        ("anthropic:m", "ANTHROPIC_BASE_URL"),
        ("google:m", "GOOGLE_GEMINI_BASE_URL"),
    ],
)
def test_base_url_variable_sends_no_key_unencrypted(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(key, "k")
    monkeypatch.setenv(variable, "http://far.example/v1")
    with pytest.raises(InvalidInput, match=f"{variable} would send the key"):
        check_model_ready(name)
    monkeypatch.setenv(variable, "http://[::1")
    with pytest.raises(InvalidInput, match=f"{variable} is not a URL"):
        check_model_ready(name)
    monkeypatch.setenv(variable, "http://127.0.0.1:1/v1")
    check_model_ready(name)


def test_unencrypted_server_receives_only_a_named_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "theirs")
    name = "openai-compatible:m@http://192.168.0.7:8080/v1"
    assert parse_model_name(name).key(read_variable) == ""
    assert parse_model_name(f"{name}?key=OPENAI_COMPATIBLE_API_KEY").key(read_variable) == "theirs"
    assert parse_model_name(name.replace("http:", "https:")).key(read_variable) == "theirs"
    error = ModelErrors(parse_model_name(name), "").create("key_refused", status=401)
    assert "only a named key is sent: ?key=OPENAI_COMPATIBLE_API_KEY (401)" in str(error)


def test_alternatives_are_split_in_order() -> None:
    assert split_alternatives(" openai:a | anthropic:b|") == ("openai:a", "anthropic:b")


def test_every_alias_is_a_known_provider() -> None:
    assert set(PROVIDER_ALIASES.values()) <= KEY_VARIABLES.keys()


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai:m", "OPENAI_API_KEY"),
        ("anthropic:m", "ANTHROPIC_API_KEY"),
        ("google:m", "GOOGLE_API_KEY or GEMINI_API_KEY"),
        ("openai:m?key=TEAM_KEY", "TEAM_KEY"),
    ],
)
def test_missing_key_error_names_its_variable(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(InvalidInput, match=f"set the environment variable {variable}$"):
        check_model_ready(name)
    with pytest.raises(InvalidInput, match=f"agent 'a': .*{variable}$"):
        check_models(Agent(name="a", model=name))


def test_key_of_openai_is_not_used_for_a_compatible_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    variables = parse_model_name("openai-compatible:m@http://127.0.0.1:1/v1")
    assert variables.key(read_variable) == ""
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "theirs")
    assert variables.key(read_variable) == "theirs"


def test_names_are_checked_without_key_and_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Runner(Agent(name="a", model="openai:gpt-5.2|anthropic:claude-x|embedded"))
    with pytest.raises(InvalidInput, match=r"agent 'a': .*no model 'gpt-5'.*openai:gpt-5"):
        Runner(Agent(name="a", model="gpt-5"))
    code = (
        "import sys, acc; acc.Runner(acc.Agent(name='a', model='openai:gpt-5.2'));"
        "acc.ProviderModel('openai:gpt-5.2');"
        "assert not {'pydantic_ai', 'openai', 'httpx2'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own interpreter


@pytest.mark.parametrize("name", ["openai:gpt-5.2", "ollama:a", "local"])
def test_missing_library_is_named_before_the_first_request(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    make_local_model.cache_clear()
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(InvalidInput, match="needs pydantic-ai: pip install"):
        check_model_ready(name)


def test_environment_chooses_the_agent_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACC_AGENT_MODEL", raising=False)
    assert agent_model() == "embedded"
    with pytest.raises(InvalidInput, match="ACC_AGENT_MODEL is not set to a model"):
        MODEL_NAMES.check("env:ACC_AGENT_MODEL")
    monkeypatch.setenv("ACC_AGENT_MODEL", "openai:a|embedded")
    assert agent_model() == "openai:a|embedded"
    MODEL_NAMES.check("env:ACC_AGENT_MODEL")
    with pytest.raises(InvalidInput, match="no model ''"):
        make_model("")


def test_provider_model_shows_settings_but_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    model = ProviderModel("openai:gpt-5.2?seed=1", temperature=0.5, timeout=3)
    assert repr(model) == "ProviderModel('openai:gpt-5.2')"
    assert (model.model_name.temperature, model.model_name.seed, model.model_name.timeout) == (
        0.5,
        1,
        3,
    )
    assert "canary" not in repr(model.model_name)
    moved = ProviderModel("openai-compatible:m?seed=2", base_url="http://127.0.0.1:1/v1")
    assert (moved.model_name.base_url, moved.model_name.seed) == ("http://127.0.0.1:1/v1", 2)
    with pytest.raises(InvalidInput, match="api_key_env names its variable"):
        ProviderModel("openai:gpt-5.2", api_key="canary")  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="no model 'embedded2'"):
        ProviderModel("embedded2")


@pytest.mark.parametrize(
    "name",
    [
        "litellm:cloudflare/@cf/meta/llama-2-7b-chat-int8",
        "openai:workers-ai/@cf/meta/llama-3.3-70b",
        "ollama:llama3@sha256:abcd",
        "openai:model@2024.05",
        "huggingface:org/model@refs/pr/1",
        "google:claude-sonnet@20250929",
    ],
)
def test_version_after_an_at_sign_is_part_of_the_model(name: str) -> None:
    variables = parse_model_name(name)
    assert (variables.base_url, variables.model) == ("", name.partition(":")[2])
