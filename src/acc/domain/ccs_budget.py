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
    while tokens > budget:
        # Items are counted one by one, which costs little, until they come to the excess; then
        # the whole is counted again.
        excess = tokens - budget
        while excess > 0:
            name = _gives_way_next(state)
            freed = render_items(state, name)
            state, lost = _without_oldest(state, name)
            dropped.append(lost)
            # The separator goes too, and with a field's last item its name.
            excess -= count(freed[-1 if name == "uncertainty_signal" else 0]) + 1
            excess -= 0 if render_items(state, name) else 3
        tokens = count(render_state(state))
    return state, tuple(dropped), tokens


def _within_items(state: CompressedCognitiveState) -> tuple[CompressedCognitiveState, list[str]]:
    dropped: list[str] = []
    for name, limit in LIMITS.items():
        value = getattr(state, name)
        if not isinstance(value, tuple):
            continue
        over = len(value) - limit.items
        if over > 0:
            dropped += [_describe(name, item) for item in value[:over]]
            state = _with(state, name, value[over:])
    return state, dropped


def _gives_way_next(state: CompressedCognitiveState) -> str:
    return next(name for name, kept in _GIVES_WAY if len(render_items(state, name)) > kept)


def _without_oldest(
    state: CompressedCognitiveState, name: str
) -> tuple[CompressedCognitiveState, str]:
    value = getattr(state, name)
    if isinstance(value, UncertaintySignal):
        rest = replace(value, unconfirmed=value.unconfirmed[1:])
        if not value.unconfirmed:
            return replace(state, uncertainty_signal=UncertaintySignal()), f"{name}: {value.level}"
        return replace(state, uncertainty_signal=rest), _describe(name, value.unconfirmed[0])
    if isinstance(value, str):
        return _with(state, name, ""), _describe(name, value)
    return _with(state, name, value[1:]), _describe(name, value[0])


def _with(
    state: CompressedCognitiveState, name: str, value: tuple[Any, ...] | str
) -> CompressedCognitiveState:
    change: dict[str, Any] = {name: value}
    return replace(state, **change)


def _describe(name: str, item: object) -> str:
    text = (
        item if isinstance(item, str) else getattr(item, "text", getattr(item, "artifact_id", ""))
    )
    return f"{name}: {text}"
