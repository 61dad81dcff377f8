"""What of a card is good where only the content was signed that clients of 1.0 read."""

from collections.abc import Mapping
from typing import Any

from acc.adapters.a2a.codec.cards import LEGACY, card_content, merged_card
from acc.domain.value_objects.card import JSONRPC, AgentCard
from acc.domain.value_objects.value import changed


def unsigned_fields(document: Mapping[str, Any], card: AgentCard) -> list[str]:
    """Return the fields of a card as it was sent that do not follow from the content of 1.0.

    Official servers sign that content alone, and then add what clients of 0.3 read. Where this
    repeats what was signed it does no harm; anything else could have been put in by anyone.
    """
    follows = merged_card(changed(card, signatures=()))
    pairs = {(one.url, one.binding) for one in card.interfaces if one.version == LEGACY}
    return [
        name
        for name, value in document.items()
        if name != "signatures"
        and not _repeats_address(name, document, pairs)
        and not _is_within(value, follows.get(name))
    ]


def signed_part(document: Mapping[str, Any], card: AgentCard) -> dict[str, Any]:
    """Return a card without what is not signed of it."""
    content = card_content(card)
    unsigned = unsigned_fields(document, card)
    kept = {name: value for name, value in document.items() if name not in unsigned}
    return kept | {name: content[name] for name in unsigned if name in content}


def _repeats_address(name: str, document: Mapping[str, Any], pairs: set[tuple[str, str]]) -> bool:
    """Tell whether a field of 0.3 names no address but those of 0.3 that were signed."""
    if name in ("url", "preferredTransport"):
        return _is_pair(document.get("url"), document.get("preferredTransport"), pairs)
    if name == "additionalInterfaces":
        listed = document[name]
        return isinstance(listed, list) and all(
            isinstance(one, Mapping)
            and one.keys() <= {"url", "transport"}
            and _is_pair(one.get("url"), one.get("transport"), pairs)
            for one in listed
        )
    return name == "protocolVersion" and bool(pairs) and document[name] == LEGACY


def _is_pair(url: Any, transport: Any, pairs: set[tuple[str, str]]) -> bool:
    return any(url == one[0] and (transport or JSONRPC) == one[1] for one in pairs)


def _is_within(given: Any, held: Any) -> bool:
    """Tell whether a value says nothing beyond another; what is empty says nothing at all."""
    if isinstance(given, Mapping) and isinstance(held, Mapping):
        return all(_is_within(value, held.get(name)) for name, value in given.items())
    if isinstance(given, list) and isinstance(held, list):
        is_same_length = len(given) == len(held)
        return is_same_length and all(map(_is_within, given, held))
    if held is None:
        return given is None or given is False or given in ("", [], {})
    return type(given) is type(held) and bool(given == held)
