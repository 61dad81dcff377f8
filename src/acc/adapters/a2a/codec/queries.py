"""The query of an address as the params of a call, and the other way round."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from acc.adapters.a2a.shapes.reading import fault

_SNAKE = {
    "context_id": "contextId",
    "page_size": "pageSize",
    "page_token": "pageToken",
    "history_length": "historyLength",
    "status_timestamp_after": "statusTimestampAfter",
    "last_updated_after": "lastUpdatedAfter",
    "include_artifacts": "includeArtifacts",
}
_TEXT = ("contextId", "pageToken", "statusTimestampAfter", "lastUpdatedAfter", "status", "tenant")
_NUMBERS = ("pageSize", "historyLength")
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def as_params(query: Mapping[str, str]) -> bytes:
    """Return the query of an address as JSON; names may be in snake case, as older clients write.

    What is empty is absent.
    """
    given = {_SNAKE.get(name, name): value for name, value in query.items() if value}
    params: dict[str, Any] = {name: given[name] for name in (*_TEXT, *_NUMBERS) if name in given}
    if "includeArtifacts" in given:
        truth = _TRUTHS.get(given["includeArtifacts"].lower())
        if truth is None:
            raise fault("includeArtifacts", "must be true or false")
        params["includeArtifacts"] = truth
    try:
        return msgspec.json.encode(params)
    except UnicodeEncodeError:
        raise fault("query", "is not valid UTF-8; encode its values as RFC 3986 says") from None


def as_query(params: bytes, in_path: Collection[str] = ()) -> dict[str, str]:
    """Return the params of a call as a query, without what stands in the path."""
    fields: dict[str, Any] = msgspec.json.decode(params)
    return {name: _text(value) for name, value in fields.items() if name not in in_path}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
