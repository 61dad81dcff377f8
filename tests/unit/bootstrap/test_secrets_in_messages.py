"""Credentials in names and URLs appear in no message, drawing or card."""

from typing import Any, Literal

import pytest

from acc import Agent, InvalidInput, MemoryName, Runner
from acc.a2a import create_app
from acc.bootstrap.agents import draw_graph
from acc.domain.value_objects.endpoint import redact_secrets


@pytest.mark.parametrize(
    "options",
    [
        {"model": "http://user:pass-word@127.0.0.1:1/v1"},
        {"memory": MemoryName("redis://user:pass-word@host/0")},
    ],
    ids=["model", "memory"],
)
def test_unknown_name_is_reported_without_its_password(options: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        Runner(Agent(name="a", **options))
    assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize("graph_format", ["mermaid", "svg"])
def test_drawing_has_no_password(graph_format: Literal["mermaid", "svg"]) -> None:
    url = "openai-compatible:m@http://user:pass-word@127.0.0.1:1/v1"
    agent = Agent(name="a", model=url, memory=MemoryName(f"acc:{url}?key=pass-word"))
    assert "pass-word" not in draw_graph(agent, graph_format)


def test_public_url_with_credentials_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="credentials") as caught:
        create_app(Agent(name="a"), public_url="https://user:pass-word@agent.example")
    assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://user:pass-word@h/x", "https://***@h/x"),
        ("https://h/x?token=pass-word&n=1", "https://h/x?token=***&n=1"),
        ("https://h/x@y", "https://h/x@y"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl!", "jwt ***!"),
        ("a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b", "a *** b"),
        ('"Authorization": "Basic dXNlcjpwYXNz"', '"Authorization": "Basic ***"'),
        ("Basic instructions for eyJewels", "Basic instructions for eyJewels"),
        ("openai:m?key=TEAM_KEY&seed=1", "openai:m?key=TEAM_KEY&seed=1"),
    ],
)
def test_redact_secrets_removes_credentials_of_urls(text: str, expected: str) -> None:
    assert redact_secrets(text) == expected
