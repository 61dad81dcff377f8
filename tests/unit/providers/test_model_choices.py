"""How a model is named, and where its key comes from."""

import os
import re
import subprocess
import sys
from typing import Any

import pytest

from acc import Agent, InvalidInput, ProviderModel, Runner
from acc.adapters.providers.choice import (
    ALIASES,
    KEYS,
    ModelChoice,
    alternatives,
    is_provider_name,
    parse_choice,
)
from acc.adapters.providers.faults import Faults
from acc.bootstrap.agents import check_models
from acc.bootstrap.models import agent_model, check_model_name, check_model_ready, make_model


def test_a_name_says_provider_model_url_and_settings() -> None:
    found = parse_choice(
        "openai-compatible:org/Qwen@v2@http://127.0.0.1:8080/v1?temperature=0&max_tokens=50"
        "&seed=7&key=MY_KEY&output=prompted&concurrency=2&tokens_per_minute=9000"
    )
    assert found == ModelChoice(
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
    assert found.name == "openai-compatible:org/Qwen@v2@http://127.0.0.1:8080/v1"


@pytest.mark.parametrize(
    ("name", "provider"),
    [("google-gla:g", "google"), ("gemini:g", "google"), ("openai:g", "openai")],
)
def test_other_names_of_a_provider_are_understood(name: str, provider: str) -> None:
    assert is_provider_name(name)
    assert parse_choice(name).provider == provider


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("gpt-5", "names no model"),
        ("opnai:gpt-5", "no provider 'opnai'"),
        ("openai:", "a model's name is missing"),
        ("openai:a\nb", "a model's name is missing"),
        ("openai:gpt-5?temprature=1", "has no setting 'temprature'"),
        ("openai:gpt-5?temperature=warm", "temperature is a number"),
        ("openai:gpt-5?temperature=nan", "cannot be nan"),
        ("openai:gpt-5?max_tokens=0", "max_tokens of openai:gpt-5 cannot be 0"),
        ("openai:gpt-5?output=xml", "choose one of auto, native, prompted"),
        ("openai-compatible:m", "needs a URL"),
        ("groq:m@https://elsewhere.example/v1", "takes no base URL"),
        ("openai:m@https://user:pass@h.example/v1", "holds credentials"),
        ("openai:m@https://h.example:99999999/v1", "is no URL"),
        ("openai:m@https:///v1", "is no http or https URL"),
        ("openai:m@http://far.example/v1", "in the clear"),
        ("openai:m@http://127.0.0.1.far.example/v1", "in the clear"),
        ("openai:m@https://user:pass@h.example:99999999/v1", "is no URL"),
        ("openai:m@proxy.example/v1", "openai:m is followed by an address that is no URL"),
        ("openai:m@localhost", "no URL: write openai:MODEL@https://proxy.example/v1"),
        ("anthropic:m@proxy:8080", "an address that is no URL"),
        ("google:m@[::1]/v1", "an address that is no URL"),
        ("openai:m@ftp://h.example/v1", "an address that is no URL"),
        ("openai:m@user:pass@h.example/v1", "an address that is no URL"),
        ("openai:m@https:/h.example/v1", "an address that is no URL"),
        ("openai:https://user:pass@h.example/v1", "an address that is no URL"),
        ("groq:m@h.example/v1", "groq:m is followed by an address that is no URL"),
        ("openai-compatible:m@127.0.0.1:8080/v1", "an address that is no URL"),
        ("openai:m@HTTP://far.example/v1", "in the clear"),
        ("openai:gpt-5?key=sk-pass@abcdefghij", "not the key itself"),
        ("openai:gpt-5?key=gsk_pass_abcdefghij", "not the key itself"),
        ("openai:gpt-5?key=pass12ab34cd56ef", "not the key itself"),
        ("openai:gpt-5?key=&key=鍵pass_", "not the key itself"),
        ("openai:gpt-5?key=pass@&temperature=warm", "temperature is a number"),
        ("gpt-5?key=pass@", "names no model"),
    ],
)
def test_a_name_that_cannot_work_says_why(name: str, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault) as found:
        parse_choice(name)
    assert "pass" not in str(found.value)


@pytest.mark.parametrize(
    "url", ["HTTPS://proxy.example/v1", "Https://proxy.example/v1", "https://proxy.example/v1"]
)
def test_a_scheme_may_be_written_in_capitals(url: str) -> None:
    for found in (
        parse_choice(f"openai:gpt@{url}?seed=1"),
        parse_choice("openai:gpt?seed=1", base_url=url),
        parse_choice("openai:gpt@https://other.example/v1?seed=1", base_url=url),
    ):
        assert found == ModelChoice(
            provider="openai", model="gpt", base_url="https://proxy.example/v1", seed=1
        )


@pytest.mark.parametrize("url", ["proxy.example/v1", "proxy", "ftp://proxy.example", "//x", "@"])
@pytest.mark.parametrize("name", ["openai:gpt", "openai-compatible:m", "anthropic:c?seed=1"])
def test_a_base_url_that_is_none_is_refused_and_never_part_of_the_models_name(
    name: str, url: str
) -> None:
    with pytest.raises(InvalidInput, match="is no http or https URL"):
        ProviderModel(name, base_url=url)


@pytest.mark.parametrize("base_url", [None, ""])
def test_a_base_url_that_is_not_given_leaves_that_of_the_name(base_url: str | None) -> None:
    model = ProviderModel("openai:gpt@https://proxy.example/v1", base_url=base_url)
    assert model.choice.base_url == "https://proxy.example/v1"


@pytest.mark.parametrize("model", ["claude@20250929", "org/Qwen@v2", "@cf/meta/llama-3.1-8b"])
def test_a_models_name_may_hold_the_mark_that_stands_before_a_url(model: str) -> None:
    assert parse_choice(f"litellm:{model}").model == model


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"temperature": "0"}, "temperature of openai:m is a number, not '0'"),
        ({"top_p": True}, "top_p of openai:m is a number, not True"),
        ({"attempts": "3"}, "attempts of openai:m is a whole number, not '3'"),
        ({"attempts": 2.5}, "attempts of openai:m is a whole number, not 2.5"),
        ({"attempts": None}, "attempts of openai:m is a whole number, not None"),
        ({"concurrency": 1.5}, "concurrency of openai:m is a whole number, not 1.5"),
        ({"concurrency": True}, "concurrency of openai:m is a whole number, not True"),
        ({"timeout": None}, "timeout of openai:m is a number, not None"),
        ({"thinking": True}, "thinking of openai:m is a text, not True"),
        ({"thinking": 5}, "thinking of openai:m is a text, not 5"),
        ({"base_url": 5}, "base_url of openai:m is a text, not 5"),
        ({"api_key_env": b"KEY"}, "api_key_env of openai:m is a text, not bytes"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_refused_at_once(settings: Any, told: str) -> None:
    with pytest.raises(InvalidInput) as found:
        ProviderModel("openai:m", **settings)
    assert str(found.value) == told


def test_what_is_left_to_the_provider_may_be_said_so() -> None:
    left = {"temperature": None, "max_tokens": None, "concurrency": None, "thinking": None}
    found = ProviderModel("openai:m", **left, timeout=3, api_key_env=None, output=None).choice
    assert found == parse_choice("openai:m?timeout=3")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("local", "'local' is no model of a provider"),
        ("embedded", "'embedded' is no model of a provider"),
        (None, "None is no model of a provider"),
        ("openai:a|anthropic:b", "'openai:a|anthropic:b' is a list, and this takes one model"),
        ("openai:a?thinking=low|anthropic:b", "'openai:a' is a list, and this takes one model"),
    ],
)
def test_a_model_with_settings_is_one_of_a_provider(name: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(told)):
        ProviderModel(name)


def test_a_variable_may_have_any_name_if_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("team_key", " k\n")
    assert parse_choice("openai:m?key=team_key").key() == "k"
    with pytest.raises(InvalidInput, match="no model 'opnai:m'"):
        check_model_name("opnai:m?key=sk-abcdefghijkl")


@pytest.mark.parametrize("held", ["two words", "a\nb", "鍵です", "a\x00b", "“quoted”"])
@pytest.mark.parametrize("name", ["openai:m", "openai-compatible:m@http://127.0.0.1:1/v1"])
def test_what_can_be_no_key_is_refused_by_the_name_of_its_variable(
    name: str, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"OPENAI_API_KEY": held, "OPENAI_COMPATIBLE_API_KEY": held}
    monkeypatch.setattr(os, "environ", {**os.environ, **found})
    variable = "OPENAI_COMPATIBLE_API_KEY" if "@" in name else "OPENAI_API_KEY"
    with pytest.raises(InvalidInput, match=f"{variable} holds no key") as raised:
        check_model_ready(name)
    assert held not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai:m", "OPENAI_BASE_URL"),
        ("openai-chat:m", "OPENAI_BASE_URL"),
        ("anthropic:m", "ANTHROPIC_BASE_URL"),
        ("google:m", "GOOGLE_GEMINI_BASE_URL"),
    ],
)
def test_a_variable_moves_no_key_over_plain_http(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(key, "k")
    monkeypatch.setenv(variable, "http://far.example/v1")
    with pytest.raises(InvalidInput, match=f"in the clear to where {variable} says"):
        check_model_ready(name)
    monkeypatch.setenv(variable, "http://[::1")
    with pytest.raises(InvalidInput, match=f"{variable} holds no URL"):
        check_model_ready(name)
    monkeypatch.setenv(variable, "http://127.0.0.1:1/v1")
    check_model_ready(name)


def test_a_server_on_another_machine_gets_over_plain_http_only_a_key_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "theirs")
    name = "openai-compatible:m@http://192.168.0.7:8080/v1"
    assert parse_choice(name).key() == ""
    assert parse_choice(f"{name}?key=OPENAI_COMPATIBLE_API_KEY").key() == "theirs"
    assert parse_choice(name.replace("http:", "https:")).key() == "theirs"
    told = str(Faults(parse_choice(name), "").because("key_refused", status=401))
    assert "only one is sent that is named: ?key=OPENAI_COMPATIBLE_API_KEY (401)" in told


def test_alternatives_are_read_in_order() -> None:
    assert alternatives(" openai:a | anthropic:b|") == ("openai:a", "anthropic:b")


def test_every_alias_leads_to_a_provider() -> None:
    assert set(ALIASES.values()) <= KEYS.keys()


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai:m", "OPENAI_API_KEY"),
        ("anthropic:m", "ANTHROPIC_API_KEY"),
        ("google:m", "GOOGLE_API_KEY or GEMINI_API_KEY"),
        ("openai:m?key=TEAM_KEY", "TEAM_KEY"),
    ],
)
def test_a_missing_key_names_its_variable(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for held in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(held, raising=False)
    with pytest.raises(InvalidInput, match=f"set the environment variable {variable}$"):
        check_model_ready(name)
    with pytest.raises(InvalidInput, match=f"agent 'a': .*{variable}$"):
        check_models(Agent(name="a", model=name))


def test_the_key_of_openai_never_goes_to_an_imitator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    choice = parse_choice("openai-compatible:m@http://127.0.0.1:1/v1")
    assert choice.key() == ""
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "theirs")
    assert choice.key() == "theirs"


def test_names_are_checked_without_a_key_and_without_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Runner(Agent(name="a", model="openai:gpt-5.2|anthropic:claude-x|embedded"))
    with pytest.raises(InvalidInput, match=r"agent 'a': no model 'gpt-5'.*openai:gpt-5\.2"):
        Runner(Agent(name="a", model="gpt-5"))
    code = (
        "import sys, acc; acc.Runner(acc.Agent(name='a', model='openai:gpt-5.2'));"
        "acc.ProviderModel('openai:gpt-5.2');"
        "assert not {'pydantic_ai', 'openai', 'httpx2'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own interpreter


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("openai:gpt-5.2", "httpx2: pip install 'acc-agents[providers]'"),
        ("ollama:a", "'acc-agents[models]'"),
    ],
)
def test_what_is_not_installed_is_told_before_anything_is_asked(
    name: str, needed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    for module in ("httpx2", "pydantic_ai"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidInput, match=re.escape(needed)):
        check_model_ready(name)


def test_the_environment_chooses_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACC_AGENT_MODEL", raising=False)
    assert agent_model() == "embedded"
    with pytest.raises(InvalidInput, match="the environment variable ACC_AGENT_MODEL names no"):
        check_model_name("env:ACC_AGENT_MODEL")
    monkeypatch.setenv("ACC_AGENT_MODEL", "openai:a|embedded")
    assert agent_model() == "openai:a|embedded"
    check_model_name("env:ACC_AGENT_MODEL")
    with pytest.raises(InvalidInput, match="no model ''"):
        make_model("")


def test_a_model_with_settings_shows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    model = ProviderModel("openai:gpt-5.2?seed=1", temperature=0.5, timeout=3)
    assert repr(model) == "ProviderModel('openai:gpt-5.2')"
    assert (model.choice.temperature, model.choice.seed, model.choice.timeout) == (0.5, 1, 3)
    assert "canary" not in repr(model.choice)
    moved = ProviderModel("openai-compatible:m?seed=2", base_url="http://127.0.0.1:1/v1")
    assert (moved.choice.base_url, moved.choice.seed) == ("http://127.0.0.1:1/v1", 2)
    with pytest.raises(InvalidInput, match="has no setting api_key"):
        ProviderModel("openai:gpt-5.2", api_key="canary")
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
def test_a_name_may_have_a_version_behind_an_at_sign(name: str) -> None:
    choice = parse_choice(name)
    assert (choice.base_url, choice.model) == ("", name.partition(":")[2])
