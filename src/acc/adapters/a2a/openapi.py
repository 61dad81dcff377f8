"""The description of the HTTP+JSON side."""

import msgspec

from acc.domain.value_objects.card import AgentCard


def openapi_document(card: AgentCard) -> bytes:
    """Return the OpenAPI description of generation 1.0 of the HTTP+JSON binding."""
    return msgspec.json.encode(
        {"openapi": "3.1.0", "info": {"title": card.name, "version": card.version}, "paths": {}}
    )
