"""A card's faults are found, each with its place and a fix."""

import json
from typing import Any

import pytest

from acc.adapters.a2a.client.card_validation import Weight, check_card
from acc.adapters.a2a.wire.card_codec import write_public_card
from acc.application.a2a.card_builder import build_card
from acc.application.agents.llm import LlmAgent

URL = "https://agents.example.com"


def good(**fields: Any) -> dict[str, Any]:
    agent = LlmAgent(name="desk", description="Helps.")
    card = build_card(agent, url=URL, version="1", requires_auth=True, can_push=True)
    return {**json.loads(write_public_card(card)), **fields}


def findings(card: Any) -> list[tuple[str, str]]:
    found = check_card(json.dumps(card).encode())
    assert all(finding.text and finding.fix for finding in found)
    return [(finding.weight.value, finding.field) for finding in found]


def test_our_own_card_has_no_faults() -> None:
    assert findings(good()) == []


def test_a_card_of_the_older_generation_is_good_with_a_warning() -> None:
    card = good()
    del card["supportedInterfaces"]
    assert findings(card) == [("warning", "supportedInterfaces")]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"name": ""}, ("fault", "name")),
        ({"description": 3}, ("fault", "description")),
        ({"supportedInterfaces": []}, ("fault", "supportedInterfaces")),
        ({"supportedInterfaces": ["x"]}, ("fault", "supportedInterfaces[0]")),
        ({"url": "desk"}, ("fault", "url")),
        ({"url": "http://[::1"}, ("fault", "url")),
        ({"url": "http://desk.example.com"}, ("warning", "url")),
        ({"preferredTransport": "PIGEON"}, ("warning", "preferredTransport")),
        ({"preferredTransport": 3}, ("fault", "preferredTransport")),
        ({"additionalInterfaces": {}}, ("fault", "additionalInterfaces")),
        ({"additionalInterfaces": ["x"]}, ("fault", "additionalInterfaces[0]")),
        ({"capabilities": []}, ("fault", "capabilities")),
        ({"defaultInputModes": []}, ("fault", "defaultInputModes")),
        ({"defaultOutputModes": ["text"]}, ("fault", "defaultOutputModes[0]")),
        ({"skills": {}}, ("fault", "skills")),
        ({"skills": []}, ("warning", "skills")),
        ({"skills": ["x"]}, ("fault", "skills[0]")),
        ({"securitySchemes": []}, ("fault", "securitySchemes")),
        ({"security": {}}, ("fault", "security")),
        ({"security": ["x"]}, ("fault", "security[0]")),
        ({"security": [{"other": []}]}, ("fault", "security[0]")),
        ({"signatures": {}}, ("fault", "signatures")),
        ({"signatures": [{"protected": "x"}]}, ("fault", "signatures[0]")),
        ({"provider": "x"}, ("fault", "provider")),
    ],
)
def test_a_fault_is_found_in_its_place(fields: dict[str, Any], found: tuple[str, str]) -> None:
    assert found in findings(good(**fields))


def test_each_part_of_an_interface_and_of_a_skill_is_checked() -> None:
    skill = {"id": "a", "name": "", "tags": 3, "inputModes": ["x"]}
    card = good(supportedInterfaces=[{"url": "x"}], skills=[skill, {**skill, "name": "b"}])
    del card["protocolVersion"]
    assert findings(card) == [
        ("fault", "supportedInterfaces[0].url"),
        ("fault", "supportedInterfaces[0].protocolBinding"),
        ("fault", "supportedInterfaces[0].protocolVersion"),
        ("warning", "protocolVersion"),
        ("fault", "skills[0].name"),
        ("fault", "skills[0].description"),
        ("fault", "skills[0].tags"),
        ("fault", "skills[0].inputModes[0]"),
        ("fault", "skills[1].description"),
        ("fault", "skills[1].tags"),
        ("fault", "skills[1].id"),
        ("fault", "skills[1].inputModes[0]"),
    ]


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"[" * 5000, b"{}"])
def test_what_is_no_card_is_told_so(body: bytes) -> None:
    assert any(finding.weight is Weight.FAULT for finding in check_card(body))
