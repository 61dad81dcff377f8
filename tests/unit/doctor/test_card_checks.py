"""Checks that depend on the content of the card."""

from typing import Any

import pytest
from scripted_server import ScriptedServer, card
from test_checks import (
    FAIL,
    HTTP,
    HTTP_V03,
    NEW,
    NOTHING_DECLARED,
    OK,
    SKIPPED,
    V03,
    WARN,
    interface,
    run_check,
    signed,
    skill,
)

from acc.application.doctor.findings import CheckStatus

CARDS: list[tuple[str, CheckStatus, str, Any]] = [
    ("card-fields", FAIL, "name is missing or empty", card(name="")),
    ("card-fields", FAIL, "capabilities is missing", card(capabilities=None)),
    ("card-fields", FAIL, "supportedInterfaces is", card(url=None, supportedInterfaces=None)),
    ("card-fields", FAIL, "protocolVersion is missing", card(protocolVersion=None)),
    ("card-versions", OK, "offers 0.3, 1.0", card()),
    ("card-versions", OK, "offers 1.0", NEW),
    ("card-versions", WARN, "offers 0.3", V03),
    ("card-skills", FAIL, "greet has no tags", card(skills=[skill(tags=[])])),
    ("card-skills", FAIL, "skill 1 has no id", card(skills=[skill(id="")])),
    ("card-skills", FAIL, "greet is not unique", card(skills=[skill(), skill()])),
    (
        "card-skills",
        WARN,
        "the description of greet is short: 'Greets.'",
        card(skills=[skill(description="Greets.")]),
    ),
    ("card-modes", FAIL, "defaultInputModes: none", card(defaultInputModes=[])),
    ("card-modes", FAIL, "defaultOutputModes: text, 7", card(defaultOutputModes=["text", 7])),
    (
        "card-interfaces",
        FAIL,
        "1 has no protocolVersion",
        card(supportedInterfaces=[interface(protocolVersion=None)]),
    ),
    (
        "card-interfaces",
        FAIL,
        "'/rpc' is not an absolute URL",
        card(supportedInterfaces=[interface(url="/rpc")]),
    ),
    (
        "card-interfaces",
        FAIL,
        "'http://[x' is not an absolute URL",
        card(supportedInterfaces=[interface(url="http://[x")]),
    ),
    ("card-interfaces", FAIL, "no interface", card(supportedInterfaces=[], url=None)),
    ("card-interfaces", FAIL, "no interface", card(supportedInterfaces=None, url=None)),
    (
        "card-interfaces",
        FAIL,
        "1 has no url",
        card(supportedInterfaces=[interface(url=None)], url=7),
    ),
    ("card-signature", OK, "1, well-formed", signed("eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ")),
    ("card-signature", FAIL, "signature 1 has no alg, kid", signed("e30")),
    ("card-signature", FAIL, "signature 1 has no alg, kid", signed(7)),
    ("card-signature", FAIL, "signature 1 has no alg, kid", signed("a")),
    ("card-signature", FAIL, "signature 1 has no alg, kid", signed("W10")),
    (
        "card-signature",
        FAIL,
        "signature 1 has no value",
        signed("eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ", ""),
    ),
    ("card-signature", FAIL, "algorithm none", signed("eyJhbGciOiJub25lIiwia2lkIjoiayJ9")),
    ("list", SKIPPED, "0.3 cannot list tasks", V03),
    ("versions", SKIPPED, "0.3 requests have no version", V03),
    ("cancel-ended", OK, "TaskNotCancelable", V03),
    ("unknown-task", OK, "-32001 TaskNotFoundError", HTTP_V03),
    ("unknown-task", OK, "HTTP 400 -32001", HTTP),
    ("unknown-method", OK, "HTTP 404", HTTP),
    ("size-limit", OK, "rejected with 413", HTTP),
    (
        "auth-declared",
        FAIL,
        "the server requires credentials, but the card does not",
        card(securitySchemes=None),
    ),
    ("auth-declared", WARN, "none is required", card(securityRequirements=None)),
    (
        "auth-declared",
        WARN,
        "k (apiKey), which cannot expire",
        card(securitySchemes={"k": {"apiKeySecurityScheme": {}}}),
    ),
    (
        "auth-declared",
        WARN,
        "only k (unknown kind), which cannot expire or be limited",
        card(securitySchemes={"k": 7}),
    ),
    ("auth-declared", OK, "k (oauth2)", card(securitySchemes={"k": {"oauth2SecurityScheme": {}}})),
    ("push-targets", SKIPPED, "does not declare push", NOTHING_DECLARED),
    ("push-works", SKIPPED, "does not declare push", NOTHING_DECLARED),
    ("resume", SKIPPED, "does not declare streaming", NOTHING_DECLARED),
    ("subscribe", SKIPPED, "does not declare streaming", NOTHING_DECLARED),
    ("stream", FAIL, "the server streams although the card does not declare it", NOTHING_DECLARED),
    (
        "push-undeclared",
        FAIL,
        "the configuration was accepted (a result (HTTP 200))",
        NOTHING_DECLARED,
    ),
    ("https", FAIL, "http://agents.example/ is not encrypted", card(url="http://agents.example/")),
]


@pytest.mark.parametrize(("check", "status", "observation", "document"), CARDS)
async def test_card_is_checked(
    check: str, status: CheckStatus, observation: str, document: Any
) -> None:
    result = await run_check(check, ScriptedServer(document))
    assert (result.status, observation in result.observation) == (status, True), result.observation
    assert bool(result.fix) == (status in (WARN, FAIL))
