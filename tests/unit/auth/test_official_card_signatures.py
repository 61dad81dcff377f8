"""Card signatures verified against the official SDK in both directions."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from test_card_signatures import CARD, KEY

pytest.importorskip("jwt", reason="the SDK signs with PyJWT: pip install a2a-sdk[signing]")

from a2a.types import AgentCard
from a2a.utils.signing import (
    InvalidSignaturesError,
    create_agent_card_signer,
    create_signature_verifier,
)

from acc.adapters.auth.card_signatures import sign_card, verify_card
from acc.domain.errors import Unauthenticated


def test_official_sdk_verifies_our_signature() -> None:
    check = create_signature_verifier(lambda kid, jku: KEY.as_pem(private=False), ["ES256"])
    card = ParseDict({**CARD, "signatures": [sign_card(CARD, KEY)]}, AgentCard())
    check(card)
    card.name = "other"
    with pytest.raises(InvalidSignaturesError):
        check(card)


def test_signature_of_official_sdk_verifies() -> None:
    make = create_agent_card_signer(
        KEY.as_pem(private=True).decode(),
        {"kid": "k1", "alg": "ES256", "jku": None, "typ": "JOSE"},
    )
    sent: dict[str, Any] = MessageToDict(make(ParseDict(CARD, AgentCard())))
    assert verify_card(sent, sent["signatures"], keys={"k1": KEY}) == "k1"
    with pytest.raises(Unauthenticated):
        verify_card({**sent, "name": "other"}, sent["signatures"], keys={"k1": KEY})


def test_official_signature_without_empty_values_needs_ignore_empty() -> None:
    make = create_agent_card_signer(
        KEY.as_pem(private=True).decode(),
        {"kid": "k1", "alg": "ES256", "jku": None, "typ": "JOSE"},
    )
    card = {**CARD, "securityRequirements": [{"schemes": {"bearer": {"list": []}}}]}
    sent: dict[str, Any] = MessageToDict(make(ParseDict(card, AgentCard())))
    with pytest.raises(Unauthenticated):
        verify_card(sent, sent["signatures"], keys={"k1": KEY})
    assert verify_card(sent, sent["signatures"], keys={"k1": KEY}, ignore_empty=True) == "k1"
