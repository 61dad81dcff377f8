"""Cards of which only the content of 1.0 was signed, as official servers sign theirs."""

import json
from typing import Any

import pytest

from acc.adapters.a2a.client.card_validation import signed_part, unsigned_fields
from acc.adapters.a2a.wire.card_codec import read_card

CARD: dict[str, Any] = {
    "name": "weather",
    "description": "Tells the weather.",
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
    "skills": [{"id": "w", "name": "Weather", "description": "Tells.", "tags": ["weather"]}],
    "signatures": [{"protected": "p", "signature": "s"}],
    # What the official server adds for clients of 0.3, after the card was signed.
    "additionalInterfaces": [{"transport": "HTTP+JSON", "url": "https://a.example/r"}],
    "preferredTransport": "JSONRPC",
    "protocolVersion": "0.3",
    "security": [{"bearer": ["read"]}],
    "url": "https://a.example/3",
}


def unsigned(document: dict[str, Any]) -> list[str]:
    return unsigned_fields(document, read_card(json.dumps(document).encode()))


def test_what_repeats_the_signed_content_for_clients_of_0_3_is_good() -> None:
    assert unsigned(CARD) == []
    assert unsigned({**CARD, "url": "https://a.example/r", "preferredTransport": "HTTP+JSON"}) == []
    assert unsigned({**CARD, "protocolVersion": "0.3.0", "iconUrl": "", "provider": None}) == []
    assert signed_part(CARD, read_card(json.dumps(CARD).encode())) == CARD


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
def test_what_does_not_follow_from_the_signed_content_is_named(field: str, value: Any) -> None:
    document = {**CARD, field: value}
    card = read_card(json.dumps(CARD).encode())
    assert unsigned_fields(document, card) == [field]
    assert field not in signed_part(document, card)


def test_what_was_put_into_a_signed_field_is_taken_out_again() -> None:
    skills = [{**CARD["skills"][0], "security": [{"none": ["x"]}]}]
    schemes = {"bearer": {**CARD["securitySchemes"]["bearer"], "scheme": "basic"}}
    document = {**CARD, "skills": skills, "securitySchemes": schemes}
    assert unsigned(document) == ["securitySchemes", "skills"]
    kept = signed_part(document, read_card(json.dumps(document).encode()))
    assert kept["skills"] == CARD["skills"]
    assert kept["securitySchemes"] == {"bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}}}


def test_an_address_of_1_0_is_none_that_clients_of_0_3_were_meant_to_call() -> None:
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
