"""Fill a JSON schema from the prompt; a value that is not there is empty."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from acc.adapters.embedded_model.fields import Sources, quotations, read_object
from acc.adapters.embedded_model.schemas import accepts, empty_value, resolve_schema
from acc.adapters.embedded_model.tools import (
    AGENT_LIST_ITEM,
    TurnHistory,
    best_described,
    message_texts,
)
from acc.domain.language import contains_text, normalize_text
from acc.ports.outbound.model_ports import ModelRequest

_ANSWER_NAMED = re.compile(
    r"\b(?:answer|text|summary|message|response|reply|content|output|result|report)\b|回答|要約|本文",
    re.I,
)


def answer_in_schema(prompt: ModelRequest, history: TurnHistory, answer: str) -> str:
    """Return JSON that fits the output schema, filled from the prompt.

    `answer` is the plain-text answer of the model. A required value that is not in the prompt is
    the empty value of its type.
    """
    root = prompt.output_schema or {}
    return json.dumps(_value(root, root, prompt, history, answer), ensure_ascii=False)


def _value(
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    prompt: ModelRequest,
    history: TurnHistory,
    answer: str,
) -> Any:
    schema, _ = resolve_schema(schema, root)
    whole = [r.content for r in reversed(history.results) if not r.is_error]
    for content in whole:
        if schema.get("type") in ("object", "array") and accepts(schema, content, root):
            return content
    if schema.get("type") == "object":
        return _object(schema, root, prompt, history, answer)
    if "enum" in schema:
        return _choice(schema["enum"], prompt) or empty_value(root, root)
    if schema.get("type") == "array":
        listed = quotations(normalize_text(prompt.query))
        return listed if accepts(schema, listed, root) else empty_value(root, root)
    if schema.get("type", "string") == "string" and not schema.get("format"):
        return answer
    single = {"properties": {"value": schema}, "required": ["value"]}
    extracted = read_object(single, Sources(query=prompt.query, data=history.data), root=root)
    return extracted.values.get("value", empty_value(root, root))


def _object(
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    prompt: ModelRequest,
    history: TurnHistory,
    answer: str,
) -> dict[str, Any]:
    lines = "\n".join((prompt.memory, *message_texts(prompt.earlier))).split("\n")
    texts = (*history.texts, "\n".join(reversed(lines)), prompt.instruction)
    sources = Sources(query=prompt.query, data=history.data, texts=texts)
    extracted = read_object(schema, sources, root=root)
    values = dict(extracted.values)
    properties = schema.get("properties", {})
    texts_missing = [
        name
        for name in extracted.missing
        if resolve_schema(properties.get(name, {}), root)[0].get("type") == "string"
        and not resolve_schema(properties[name], root)[0].keys() & {"enum", "format"}
    ]
    sole = len(properties) == 1
    for name in texts_missing:
        if sole or _ANSWER_NAMED.search(name.replace("_", " ")):
            values[name] = answer
    for name in schema.get("required", ()):
        if name not in values:
            values[name] = empty_value(properties.get(name, {}), root)
    return values


def _choice(members: Sequence[Any], prompt: ModelRequest) -> Any:
    """Return the member that the query names or whose description matches the query."""
    named = [member for member in members if contains_text(prompt.query, str(member))]
    if len(named) == 1:
        return named[0]
    described = {str(member): "" for member in members}
    for name, text in AGENT_LIST_ITEM.findall(prompt.instruction):
        if name in described:
            described[name] = text
    best = best_described(prompt.query, described, "")
    return next((member for member in members if str(member) == best), None)
