"""One card serves clients of both protocol versions."""

import json

from wire_strategies import WIRES

from acc.adapters.a2a.wire.card_codec import card_content, merged_card
from acc.domain.value_objects.agent_card import AgentCard, Interface, Skill

ONE, OLD, REST = WIRES["1.0"], WIRES["0.3"], WIRES["0.3 over HTTP"]

CARD = AgentCard(
    name="会計",
    description="",
    version="1",
    interfaces=(
        Interface(url="https://example.com/a2a", binding="JSONRPC", version="1.0"),
        Interface(url="https://example.com/a2a", binding="JSONRPC", version="0.3"),
        Interface(url="https://example.com/http", binding="HTTP+JSON", version="0.3"),
    ),
    skills=(Skill(id="pay", name="Pay", description="Pays."),),
    extended_card=True,
    security_schemes={
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "oauth": {
            "type": "oauth2",
            "flows": {
                "password": {"tokenUrl": "https://example.com/p", "scopes": {}},
                "clientCredentials": {"tokenUrl": "https://example.com/t", "scopes": {}},
            },
        },
    },
    security=({"bearer": ()}, {"oauth": ("read",)}),
)


def test_merged_card_has_fields_of_both_versions() -> None:
    flow = {"clientCredentials": {"tokenUrl": "https://example.com/t", "scopes": {}}}
    signed = {
        "name": "会計",
        "description": "",
        "version": "1",
        "supportedInterfaces": [
            {
                "url": "https://example.com/a2a",
                "protocolBinding": "JSONRPC",
                "protocolVersion": "1.0",
            },
            {
                "url": "https://example.com/a2a",
                "protocolBinding": "JSONRPC",
                "protocolVersion": "0.3",
            },
            {
                "url": "https://example.com/http",
                "protocolBinding": "HTTP+JSON",
                "protocolVersion": "0.3",
            },
        ],
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "pay", "name": "Pay", "description": "Pays.", "tags": []}],
        "securitySchemes": {
            "bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}},
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
            "oauth": {"oauth2SecurityScheme": {"flows": flow}},
        },
        "securityRequirements": [
            {"schemes": {"bearer": {}}},
            {"schemes": {"oauth": {"list": ["read"]}}},
        ],
    }
    assert card_content(CARD) == signed
    assert merged_card(CARD) == {
        **signed,
        "securitySchemes": {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "httpAuthSecurityScheme": {"scheme": "bearer"},
            },
            "key": {
                "type": "apiKey",
                "in": "header",
                "name": "X-Key",
                "apiKeySecurityScheme": {"location": "header", "name": "X-Key"},
            },
            "oauth": {
                "type": "oauth2",
                "flows": flow,
                "oauth2SecurityScheme": {"flows": flow},
            },
        },
        "protocolVersion": "0.3.0",
        "url": "https://example.com/a2a",
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [
            {"url": "https://example.com/a2a", "transport": "JSONRPC"},
            {"url": "https://example.com/http", "transport": "HTTP+JSON"},
        ],
        "supportsAuthenticatedExtendedCard": True,
        "security": [{"bearer": []}, {"oauth": ["read"]}],
    }


def test_card_of_v03_is_read() -> None:
    document = {
        "name": "old",
        "description": "An old one.",
        "version": "2",
        "protocolVersion": "0.3.0",
        "url": "https://example.com/rpc",
        "additionalInterfaces": [
            {"url": "https://example.com/rpc", "transport": "JSONRPC"},
            {"url": "https://example.com/v1", "transport": "HTTP+JSON"},
        ],
        "capabilities": {"streaming": True},
        "supportsAuthenticatedExtendedCard": True,
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "", "tags": ["t"]}],
        "security": [{"bearer": []}],
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    }
    assert OLD.read_card(json.dumps(document).encode()) == AgentCard(
        name="old",
        description="An old one.",
        version="2",
        interfaces=(
            Interface(url="https://example.com/rpc", binding="JSONRPC", version="0.3"),
            Interface(url="https://example.com/v1", binding="HTTP+JSON", version="0.3"),
        ),
        skills=(Skill(id="s", name="S", description="", tags=("t",)),),
        push_notifications=False,
        extended_card=True,
        security_schemes={"bearer": {"type": "http", "scheme": "bearer"}},
        security=({"bearer": ()},),
    )
