"""Shrinking a state until it fits its token budget.

Fields give way in a fixed order: what can be recalled again goes first, then what was merely
noticed, and the goal and the constraints last. Within a field the oldest item goes first.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from acc.domain.ccs_schema import LIMITS
from acc.domain.ccs_text import render_items, render_state
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.ccs import CompressedCognitiveState, UncertaintySignal

SMALLEST_BUDGET = 32

CountTokens = Callable[[str], int]
#: Which field gives way next, and how many of its newest items it keeps at first.
_GIVES_WAY = (
    ("focal_entities", 4),
    ("relational_map", 6),
    ("predictive_cue", 0),
    ("episodic_trace", 0),
    ("retrieved_artifacts", 0),
    ("focal_entities", 0),
    ("relational_map", 0),
    ("uncertainty_signal", 0),
    ("semantic_gist", 0),
    ("goal_orientation", 0),
    ("constraints", 0),
)


def fit(
    state: CompressedCognitiveState, budget: int, count: CountTokens
) -> tuple[CompressedCognitiveState, tuple[str, ...], int]:
    """Return the state within `budget` tokens, what was dropped for it, and its tokens."""
    if budget < SMALLEST_BUDGET:
        raise InvalidInput(
            f"a token budget of {budget} is too small: the least is {SMALLEST_BUDGET}"
        )
    state, dropped = _within_items(state)
    tokens = count(render_state(state))
    # No more than this is freed by dropping the items so far; the whole is counted again only
    # when that might do, so that nothing is dropped in vain.
    least = tokens
    while tokens > budget:
        before = state
        state, lost = _give_way(state)
        dropped.append(lost)
        least -= _most_freed(before, lost.partition(": ")[0], count)
        if least <= budget:
            tokens = least = count(render_state(state))
    return state, tuple(dropped), tokens


def _most_freed(state: CompressedCognitiveState, name: str, count: CountTokens) -> int:
    """Return at least what dropping a field's oldest item frees, separators and all."""
    items = render_items(state, name)
    # The first item of an uncertainty is its level; the oldest doubt comes after it.
    oldest = items[1] if name == "uncertainty_signal" and len(items) > 1 else items[0]
    whole_line = count(name) + 6 if len(items) <= 2 else 0
    return count(oldest) + 4 + whole_line


def _within_items(state: CompressedCognitiveState) -> tuple[CompressedCognitiveState, list[str]]:
    dropped: list[str] = []
    for name, limit in LIMITS.items():
        while _items(state, name) > limit.items:
            state, lost = _without_oldest(state, name)
            dropped.append(lost)
    return state, dropped


def _items(state: CompressedCognitiveState, name: str) -> int:
    value = getattr(state, name)
    if isinstance(value, UncertaintySignal):
        return len(value.unconfirmed)
    return len(value) if isinstance(value, tuple) else int(bool(value))


def _give_way(state: CompressedCognitiveState) -> tuple[CompressedCognitiveState, str]:
    for name, kept in _GIVES_WAY:
        if _items(state, name) > kept:
            return _without_oldest(state, name)
    return CompressedCognitiveState(), "uncertainty_signal: level"


def _without_oldest(
    state: CompressedCognitiveState, name: str
) -> tuple[CompressedCognitiveState, str]:
    value = getattr(state, name)
    change: dict[str, Any]
    if isinstance(value, UncertaintySignal):
        oldest: object = value.unconfirmed[0]
        change = {name: replace(value, unconfirmed=value.unconfirmed[1:])}
    elif isinstance(value, tuple):
        oldest, change = value[0], {name: value[1:]}
    else:
        oldest, change = value, {name: ""}
    return replace(state, **change), _describe(name, oldest)


def _describe(name: str, item: object) -> str:
    text = (
        item if isinstance(item, str) else getattr(item, "text", getattr(item, "artifact_id", ""))
    )
    return f"{name}: {text}"
