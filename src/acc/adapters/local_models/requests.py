"""A prompt of ours as a request that the server takes."""

from collections.abc import Mapping
from typing import Any

from acc.adapters.chat.asking import bound_to, function, messages
from acc.adapters.local_models.choice import LocalChoice
from acc.ports.outbound.model_ports import Prompt

_MOST_CHARACTERS = 240
_MOST_ITEMS = 8
_NESTED = ("properties", "$defs", "definitions")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_FIXED = ("enum", "const", "pattern", "format", "maxLength")


def request_for(prompt: Prompt, choice: LocalChoice, *, tools: bool) -> dict[str, Any]:
    """Return the body of a request; the same prompt is always answered alike, as far as it goes."""
    body: dict[str, Any] = {
        "messages": messages(prompt),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": choice.max_tokens,
        "temperature": choice.temperature,
        "seed": choice.seed,
        # What is kept of earlier prompts changes the sums in their last digits, and so the words.
        "cache_prompt": False,
    }
    if prompt.output_schema is not None:
        body["response_format"] = bound_to(bounded(prompt.output_schema))
    if tools and prompt.tools:
        body["tools"] = [function(spec) for spec in prompt.tools]
    return body


def bounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose texts and lists come to an end, for small models go on for ever.

    What fits it fits the schema that was given.
    """
    found: dict[str, Any] = dict(schema)
    for key in _NESTED:
        if isinstance(found.get(key), Mapping):
            found[key] = {name: _bounded(inner) for name, inner in found[key].items()}
    for key in _LISTED:
        if isinstance(found.get(key), list):
            found[key] = [_bounded(inner) for inner in found[key]]
    for key in ("items", "additionalProperties"):
        if key in found:
            found[key] = _bounded(found[key])
    if found.get("type") == "string" and not any(key in found for key in _FIXED):
        found["maxLength"] = max(_MOST_CHARACTERS, found.get("minLength", 0))
    if found.get("type") == "array" and "maxItems" not in found:
        found["maxItems"] = max(_MOST_ITEMS, found.get("minItems", 0))
    return found


def _bounded(inner: Any) -> Any:
    return bounded(inner) if isinstance(inner, Mapping) else inner
