"""Answering in a JSON schema: every value is read somewhere, or empty."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from acc.adapters.embedded_model.fields import Sources, quotations, read_object
from acc.adapters.embedded_model.schemas import accepts, empty_of, resolved
from acc.adapters.embedded_model.tools import LISTED, Happened, best_described
from acc.domain.language import contains_text
from acc.domain.text import normalize_text
from acc.ports.outbound.model_ports import Prompt

_ANSWER_NAMED = re.compile(
    r"\b(?:answer|text|summary|message|response|reply|content|output|result|report)\b|回答|要約|本文",
    re.I,
)


def answer_in_schema(prompt: Prompt, happened: Happened, answer: str) -> str:
    """Return JSON of the schema, read from query, results, words, memory and instruction.

    `answer` is what the model would say in plain words. What is required and cannot be read is the
    empty value of its type.
    """
    root = prompt.output_schema or {}
    return json.dumps(_value(root, root, prompt, happened, answer), ensure_ascii=False)


def _value(
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    prompt: Prompt,
    happened: Happened,
    answer: str,
) -> Any:
    schema, _ = resolved(schema, root)
    whole = [r.content for r in reversed(happened.results) if not r.is_error]
    for content in whole:
        if schema.get("type") in ("object", "array") and accepts(schema, content, root):
            return content
    if schema.get("type") == "object":
        return _object(schema, root, prompt, happened, answer)
    if "enum" in schema:
        return _choice(schema["enum"], prompt) or empty_of(root, root)
    if schema.get("type") == "array":
        listed = quotations(normalize_text(prompt.query))
        return listed if accepts(schema, listed, root) else empty_of(root, root)
    if schema.get("type", "string") == "string" and not schema.get("format"):
        return answer
    single = {"properties": {"value": schema}, "required": ["value"]}
    found = read_object(single, Sources(query=prompt.query, data=happened.data), root=root)
    return found.values.get("value", empty_of(root, root))


def _object(
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    prompt: Prompt,
    happened: Happened,
    answer: str,
) -> dict[str, Any]:
    memory = "\n".join(reversed(prompt.memory.split("\n")))
    texts = (*happened.texts, memory, prompt.instruction)
    sources = Sources(query=prompt.query, data=happened.data, texts=texts)
    reading = read_object(schema, sources, root=root)
    found = dict(reading.values)
    properties = schema.get("properties", {})
    texts_missing = [
        name
        for name in reading.missing
        if resolved(properties.get(name, {}), root)[0].get("type") == "string"
        and not resolved(properties[name], root)[0].keys() & {"enum", "format"}
    ]
    sole = len(properties) == 1
    for name in texts_missing:
        if sole or _ANSWER_NAMED.search(name.replace("_", " ")):
            found[name] = answer
    for name in schema.get("required", ()):
        if name not in found:
            found[name] = empty_of(properties.get(name, {}), root)
    return found


def _choice(members: Sequence[Any], prompt: Prompt) -> Any:
    """Return the member that the query names, or whose description in the instruction fits it."""
    named = [member for member in members if contains_text(prompt.query, str(member))]
    if len(named) == 1:
        return named[0]
    described = {str(member): "" for member in members}
    for name, text in LISTED.findall(prompt.instruction):
        if name in described:
            described[name] = text
    best = best_described(prompt.query, described, "")
    return next((member for member in members if str(member) == best), None)
