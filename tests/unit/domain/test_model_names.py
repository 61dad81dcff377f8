"""Suggestions for names of models."""

import pytest

from acc.domain.model_names import KEY_VARIABLES, PROVIDER_ALIASES, suggest_model


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gemini-2.0-flash", "google:gemini-2.0-flash"),
        ("models/gemini-2.0-flash", "google:gemini-2.0-flash"),
        ("gpt-4o", "openai:gpt-4o"),
        ("o3-mini", "openai:o3-mini"),
        ("claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
        ("mistral-large-latest", "mistral:mistral-large-latest"),
        ("llama3.2:3b", "ollama:llama3.2:3b"),
        ("opnai:gpt-5", "openai:gpt-5"),
        ("antropic:claude-x", "anthropic:claude-x"),
        ("OpenAI:GPT-4o", "openai:GPT-4o"),
        ("openai/gpt-4o", "openai:gpt-4o"),
        ("openai : gpt-4o", "openai:gpt-4o"),
        ("gemini/gemini-2.0-flash", "google:gemini-2.0-flash"),
        ("google_genai:gemini-2.0-flash", "google:gemini-2.0-flash"),
        ("vertex_ai/gemini-2.0-flash", "google-cloud:gemini-2.0-flash"),
        ("gpt-4o?temperature=0", "openai:gpt-4o?temperature=0"),
        ("embeded", "embedded"),
        ("Embedded", "embedded"),
    ],
)
def test_foreign_or_misspelled_name_gets_a_suggestion(name: str, meant: str) -> None:
    assert suggest_model(name) == meant
    assert suggest_model(meant) == ""


@pytest.mark.parametrize(
    "name",
    [
        "embedded",
        "local",
        "local:/models/a.gguf?threads=2",
        "openai:gpt-5.2",
        "openrouter:openai/gpt-4o",
        "openai-compatible:m@http://127.0.0.1:8080/v1",
        "env:MODEL",
        "mine",
        "my-model",
        "scripted",
        "team:model",
        "",
    ],
)
def test_valid_and_unknown_names_get_no_suggestion(name: str) -> None:
    assert suggest_model(name) == ""


@pytest.mark.parametrize("provider", [*KEY_VARIABLES, *PROVIDER_ALIASES])
def test_every_provider_is_accepted_as_it_is(provider: str) -> None:
    assert suggest_model(f"{provider}:some-model") == ""
