"""Putting what tools gave back into words."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from acc.domain.value_objects.event import ToolResult

_MOST_ITEMS = 8
_MOST_VALUE = 400


def tell_results(results: Sequence[ToolResult], *, japanese: bool) -> list[str]:
    """Return what tools gave back as sentences; what failed or was refused is told as such."""
    told: list[str] = []
    for result in results:
        if result.is_error:
            told.append(_told_error(result, japanese=japanese))
            continue
        lines = lines_of(result.content)
        if not lines:
            told.append(
                f"{result.name} は完了しました。" if japanese else f"{result.name} is done."
            )
        elif isinstance(result.content, str | Mapping):
            told += lines
        else:
            told.append(f"{result.name}: {', '.join(lines)}")
    return told


def lines_of(content: Any) -> list[str]:
    """Return plain data as short lines."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content.strip()] if content.strip() else []
    if isinstance(content, Mapping):
        return [f"{key}: {_short(value)}" for key, value in list(content.items())[:_MOST_ITEMS]]
    if isinstance(content, list | tuple):
        return [_short(value) for value in content[:_MOST_ITEMS]]
    return [_short(content)]


def _short(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, list | tuple) and all(
        isinstance(one, str | int | float) for one in value
    ):
        text = ", ".join(_short(one) for one in value)
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_VALUE else f"{text[:_MOST_VALUE]} …"


def _told_error(result: ToolResult, *, japanese: bool) -> str:
    content = result.content if isinstance(result.content, Mapping) else {"error": result.content}
    if "status" in content:
        why = content.get("reason") or content["status"]
        if japanese:
            return f"{result.name} は実行されませんでした: {why}"
        return f"{result.name} was not carried out: {why}"
    text = str(content.get("error", ""))
    if japanese:
        return f"{result.name} は完了できませんでした: {text}"
    return text if result.name in text else f"{result.name} failed: {text}"
