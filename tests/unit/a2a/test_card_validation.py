"""Validation of cards, and of the fields that a signature covers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from acc.adapters.a2a.client.card_validation import (
    inspect_card,
    unsigned_fields,
    validate_card,
)
from acc.adapters.a2a.wire.card_codec import card_content, read_card, write_public_card
from acc.application.a2a.card_builder import build_card
from acc.application.agents.llm import LlmAgent
from acc.domain.errors import Unauthenticated
from acc.domain.value_objects.agent_card import CardReport, CardSeverity

URL = "https://agents.example.com"


def good(**fields: Any) -> dict[str, Any]:
    agent = LlmAgent(name="desk", description="Helps.")
    card = build_card(agent, url=URL, version="1", requires_auth=True, can_push=True)
    return {**json.loads(write_public_card(card)), **fields}


def findings(card: Any) -> list[tuple[str, str]]:
    problems = validate_card(json.dumps(card).encode())
    assert all(finding.text and finding.fix for finding in problems)
    return [(finding.severity.value, finding.field) for finding in problems]


def test_own_card_is_valid() -> None:
    assert findings(good()) == []


def test_legacy_card_is_valid_with_warning() -> None:
    card = good()
    del card["supportedInterfaces"]
    assert findings(card) == [("warning", "supportedInterfaces")]


@pytest.mark.parametrize(
    ("fields", "finding"),
    [
        ({"name": ""}, ("error", "name")),
        ({"description": 3}, ("error", "description")),
        ({"supportedInterfaces": []}, ("error", "supportedInterfaces")),
        ({"supportedInterfaces": ["x"]}, ("error", "supportedInterfaces[0]")),
        ({"url": "desk"}, ("error", "url")),
        ({"url": "http://[::1"}, ("error", "url")),
        ({"url": "http://desk.example.com"}, ("warning", "url")),
        ({"preferredTransport": "PIGEON"}, ("warning", "preferredTransport")),
        ({"preferredTransport": 3}, ("error", "preferredTransport")),
        ({"additionalInterfaces": {}}, ("error", "additionalInterfaces")),
        ({"additionalInterfaces": ["x"]}, ("error", "additionalInterfaces[0]")),
        ({"capabilities": []}, ("error", "capabilities")),
        ({"defaultInputModes": []}, ("error", "defaultInputModes")),
        ({"defaultOutputModes": ["text"]}, ("error", "defaultOutputModes[0]")),
        ({"skills": {}}, ("error", "skills")),
        ({"skills": []}, ("warning", "skills")),
        ({"skills": ["x"]}, ("error", "skills[0]")),
        ({"securitySchemes": []}, ("error", "securitySchemes")),
        ({"security": {}}, ("error", "security")),
        ({"security": ["x"]}, ("error", "security[0]")),
        ({"security": [{"other": []}]}, ("error", "security[0]")),
        ({"signatures": {}}, ("error", "signatures")),
        ({"signatures": [{"protected": "x"}]}, ("error", "signatures[0]")),
        ({"provider": "x"}, ("error", "provider")),
    ],
)
def test_invalid_field_is_found(fields: dict[str, Any], finding: tuple[str, str]) -> None:
    assert finding in findings(good(**fields))


def test_each_field_of_interface_and_skill_is_validated() -> None:
    skill = {"id": "a", "name": "", "tags": 3, "inputModes": ["x"]}
    card = good(supportedInterfaces=[{"url": "x"}], skills=[skill, {**skill, "name": "b"}])
    del card["protocolVersion"]
    assert findings(card) == [
        ("error", "supportedInterfaces[0].url"),
        ("error", "supportedInterfaces[0].protocolBinding"),
        ("error", "supportedInterfaces[0].protocolVersion"),
        ("warning", "protocolVersion"),
        ("error", "skills[0].name"),
        ("error", "skills[0].description"),
        ("error", "skills[0].tags"),
        ("error", "skills[0].inputModes[0]"),
        ("error", "skills[1].description"),
        ("error", "skills[1].tags"),
        ("error", "skills[1].id"),
        ("error", "skills[1].inputModes[0]"),
    ]


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"[" * 5000, b"{}"])
def test_document_that_is_not_a_card_is_invalid(body: bytes) -> None:
    assert any(finding.severity is CardSeverity.ERROR for finding in validate_card(body))


CARD: dict[str, Any] = {
    "name": "weather",
    "description": "Weather forecast.",
    "version": "1.0.0",
    "supportedInterfaces": [
        {"url": "https://a.example/1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": "https://a.example/3", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        {"url": "https://a.example/r", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
    ],
    "capabilities": {"streaming": True},
    "securitySchemes": {
        "bearer": {
            "httpAuthSecurityScheme": {"scheme": "bearer"},
            "scheme": "bearer",
            "type": "http",
        }
    },
    "securityRequirements": [{"schemes": {"bearer": {"list": ["read"]}}}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "w", "name": "Weather", "description": "Forecast.", "tags": ["weather"]}],
    "signatures": [{"protected": "p", "signature": "s"}],
    # Fields that the official server adds for 0.3 clients after signing.
    "additionalInterfaces": [{"transport": "HTTP+JSON", "url": "https://a.example/r"}],
    "preferredTransport": "JSONRPC",
    "protocolVersion": "0.3",
    "security": [{"bearer": ["read"]}],
    "url": "https://a.example/3",
}


class ContentVerifier:
    """Verifies exactly the content that it was given."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content

    def verify(self, content: Mapping[str, Any], signatures: Sequence[Mapping[str, Any]]) -> str:
        if content != self._content or not signatures:
            raise Unauthenticated("wrong signature")
        return "k1"


def inspect(document: dict[str, Any], *, signed: Mapping[str, Any]) -> CardReport:
    body = json.dumps(document).encode()
    return inspect_card("https://a.example", body, verifier=ContentVerifier(signed))


def signed_content(document: dict[str, Any]) -> dict[str, Any]:
    content = card_content(read_card(json.dumps(document).encode()))
    content_of_report: dict[str, Any] = json.loads(inspect(document, signed=content).body)
    return content_of_report


def unsigned(document: dict[str, Any]) -> list[str]:
    return unsigned_fields(document, read_card(json.dumps(document).encode()))


def test_legacy_fields_that_repeat_signed_content_are_signed() -> None:
    assert unsigned(CARD) == []
    assert unsigned({**CARD, "url": "https://a.example/r", "preferredTransport": "HTTP+JSON"}) == []
    assert unsigned({**CARD, "protocolVersion": "0.3.0", "iconUrl": "", "provider": None}) == []
    assert signed_content(CARD) == CARD


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "https://evil.example/"),
        ("preferredTransport", "GRPC"),
        ("additionalInterfaces", [{"url": "https://evil.example/", "transport": "JSONRPC"}]),
        ("additionalInterfaces", [{"url": "https://a.example/r", "transport": "JSONRPC"}]),
        ("additionalInterfaces", ["https://evil.example/"]),
        ("additionalInterfaces", {"url": "https://evil.example/"}),
        ("additionalInterfaces", [CARD["additionalInterfaces"][0] | {"proxy": "evil.example"}]),
        ("protocolVersion", "0.2.0"),
        ("security", []),
        ("security", [{"bearer": []}]),
        ("supportsAuthenticatedExtendedCard", 1),
        ("added", "anything"),
        ("added", 0),
    ],
)
def test_field_that_does_not_follow_from_signed_content_is_unsigned(field: str, value: Any) -> None:
    document = {**CARD, field: value}
    card = read_card(json.dumps(CARD).encode())
    assert unsigned_fields(document, card) == [field]
    report = inspect(document, signed=card_content(card))
    assert (report.signed_by, report.is_valid) == (None, False)
    if report.card is not None:  # else the card is not even readable
        assert field not in json.loads(report.body)
        assert field in [finding.field for finding in report.findings]


def test_additions_to_signed_field_are_removed() -> None:
    skills = [{**CARD["skills"][0], "security": [{"none": ["x"]}]}]
    schemes = {"bearer": {**CARD["securitySchemes"]["bearer"], "scheme": "basic"}}
    document = {**CARD, "skills": skills, "securitySchemes": schemes}
    assert unsigned(document) == ["securitySchemes", "skills"]
    signed = signed_content(document)
    assert signed["skills"] == CARD["skills"]
    assert signed["securitySchemes"] == {"bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}}}


def test_interface_of_1_0_is_not_valid_for_0_3() -> None:
    document = {**CARD, "url": "https://a.example/1"}
    assert unsigned(document) == ["url"]
    modern = {**CARD, "supportedInterfaces": CARD["supportedInterfaces"][:1]}
    assert unsigned(modern) == [
        "additionalInterfaces",
        "preferredTransport",
        "protocolVersion",
        "security",
        "url",
    ]


def test_card_signed_as_sent_has_signer() -> None:
    report = inspect(CARD, signed=CARD)
    assert (report.signed_by, report.is_valid, report.card is not None) == ("k1", True, True)


@pytest.mark.parametrize("document", [CARD, {**CARD, "signatures": []}, {"name": 1}])
def test_card_with_wrong_signature_is_invalid(document: dict[str, Any]) -> None:
    report = inspect(document, signed={})
    assert (report.signed_by, report.is_valid) == (None, False)
    assert "signatures" in [finding.field for finding in report.findings]


def test_signature_of_invalid_document_cannot_be_verified() -> None:
    report = inspect_card("https://a.example", b"[]", verifier=ContentVerifier({}))
    assert (report.card, report.is_valid) == (None, False)
