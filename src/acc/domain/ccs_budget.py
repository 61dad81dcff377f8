"""Shrinking a state until it fits its token budget.

Fields give way in a fixed order: what can be recalled again goes first, then what was merely
noticed, and the goal and the constraints last. Within a field the oldest item goes first.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from acc.domain.ccs_schema import LIMITS
from acc.domain.ccs_text import TEXT_FIELDS, join_fields, render_items
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.ccs import CompressedCognitiveState, UncertaintySignal

SMALLEST_BUDGET = 32
_DOUBTS = "uncertainty_signal"

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
    shrinking = _Shrinking(state)
    tokens = count(shrinking.text())
    # No more than this is freed by dropping the items so far; the whole is counted again only
    # when that might do, so that nothing is dropped in vain.
    least = tokens
    while tokens > budget:
        least -= shrinking.give_way(count)
        if least <= budget:
            tokens = least = count(shrinking.text())
    return shrinking.state(), tuple(shrinking.dropped), tokens


class _Shrinking:
    """A state within its items' limits, from which more is taken, the oldest of a field first.

    Every item is rendered once, and a state is built, and so checked, only at the end.
    """

    def __init__(self, state: CompressedCognitiveState) -> None:
        self.dropped: list[str] = []
        self._whole = state
        self._items = {name: _items(state, name) for name in LIMITS}
        self._texts = {name: render_items(state, name) for name in LIMITS}
        self._doubts = state.uncertainty_signal
        self._changed: set[str] = set()
        self._stage = 0
        for name, limit in LIMITS.items():
            while len(self._items[name]) > limit.items:
                self._drop_oldest(name)

    def text(self) -> str:
        """Return the text form of what is left."""
        return join_fields(self._texts)

    def state(self) -> CompressedCognitiveState:
        """Return what is left."""
        if not self._changed:
            return self._whole
        return replace(self._whole, **{name: self._left(name) for name in self._changed})

    def give_way(self, count: CountTokens) -> int:
        """Drop the item that is missed least, and return no less than the tokens it frees."""
        while self._stage < len(_GIVES_WAY):
            name, kept = _GIVES_WAY[self._stage]
            if len(self._items[name]) > kept:
                freed = _most_freed(name, self._texts[name], count)
                self._drop_oldest(name)
                return freed
            self._stage += 1
        freed = _most_freed(_DOUBTS, self._texts[_DOUBTS], count)
        self.dropped.append(f"{_DOUBTS}: level")
        self._doubts = UncertaintySignal()
        self._changed.add(_DOUBTS)
        self._texts[_DOUBTS] = []
        return freed

    def _drop_oldest(self, name: str) -> None:
        items, texts = self._items[name], self._texts[name]
        self.dropped.append(_describe(name, items.pop(0)))
        del texts[_oldest(name, texts)]
        self._changed.add(name)
        if name == _DOUBTS:
            self._doubts = replace(self._doubts, unconfirmed=tuple(items))
            if self._doubts == UncertaintySignal():
                texts.clear()

    def _left(self, name: str) -> Any:
        if name == _DOUBTS:
            return self._doubts
        return "" if name in TEXT_FIELDS else tuple(self._items[name])


def _items(state: CompressedCognitiveState, name: str) -> list[Any]:
    value = getattr(state, name)
    if name in TEXT_FIELDS:
        return [value] if value else []
    return list(value.unconfirmed if name == _DOUBTS else value)


def _oldest(name: str, texts: Sequence[str]) -> int:
    # The first text of an uncertainty is its level; the oldest doubt comes after it.
    return 1 if name == _DOUBTS and len(texts) > 1 else 0


def _most_freed(name: str, texts: Sequence[str], count: CountTokens) -> int:
    """Return at least what dropping a field's oldest item frees, separators and all."""
    whole_line = count(name) + 6 if len(texts) <= 2 else 0
    # Within its line an item follows a space, and so it is counted as part of the whole.
    return count(f" {texts[_oldest(name, texts)]}") + 4 + whole_line


def _describe(name: str, item: object) -> str:
    text = (
        item if isinstance(item, str) else getattr(item, "text", getattr(item, "artifact_id", ""))
    )
    return f"{name}: {text}"
