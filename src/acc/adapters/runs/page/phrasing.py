"""Numbers, names and foreign text as the page shows them."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

TITLES = {
    "outcome": "outcome",
    "relevance": "relevance",
    "answer_quality": "answer quality",
    "instruction_following": "instruction following",
    "coherence": "coherence",
    "hallucination": "hallucination",
    "drift": "drift",
    "memory_tokens": "memory tokens",
}
NO_VALUE = "no value"
LOWER_IS_BETTER = frozenset({"hallucination", "drift", "memory_tokens"})
_RATES = frozenset({"hallucination", "drift"})
# Characters that are invisible or that turn the direction of text; tab and line end may stay.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]"
)


def plain(text: object) -> str:
    """Return text for HTML, with hidden characters shown by their number."""
    return escape(_HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", str(text)))


def name_of(agent: str, slots: Mapping[str, int]) -> str:
    """Return an agent's name with its colour before it."""
    mark = f'<span class="swatch agent-{slots[agent]}" aria-hidden="true"></span>'
    return f"{mark}<bdi>{plain(agent)}</bdi>"


def figure(metric: str, value: float | None) -> str:
    """Return a metric's value as people read it."""
    if value is None:
        return "not reported" if metric.endswith("memory_tokens") else NO_VALUE
    if metric in _RATES:
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if metric.endswith("memory_tokens") else f"{value:.2f}"


def signed(metric: str, value: float) -> str:
    """Return a difference with its sign; differences of rates are in points."""
    text = figure(metric, abs(value))
    if metric in _RATES:
        text = f"{100 * abs(value):.1f}"
    if not re.search(r"[1-9]", text):
        return text
    sign = "+" if value > 0 else "\N{MINUS SIGN}"
    return sign + text


def against(metric: str, mine: float, other: float) -> tuple[str, str]:
    """Return two values so that they can be told apart."""
    pair = figure(metric, mine), figure(metric, other)
    if pair[0] != pair[1]:
        return pair
    if metric in _RATES:
        return f"{100 * mine:.4f} %", f"{100 * other:.4f} %"
    return f"{mine:.4f}", f"{other:.4f}"


def unit_of(metric: str) -> str:
    """Return what a difference is counted in."""
    if metric in _RATES:
        return "percentage points"
    return "tokens" if metric == "memory_tokens" else "points of 10"


def mean_of(measures: Mapping[str, Any], metric: str) -> float | None:
    """Return a metric's mean, or None where there is nothing behind it."""
    found = measures.get(metric)
    return None if found is None else float(found["mean"])


def listed(words: Sequence[str]) -> str:
    """Return words as a sentence lists them."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def cell(html: str, *, kind: str = "td", number: bool = False, extra: str = "") -> str:
    """Return a cell of a table; its content is HTML."""
    scope = "" if kind == "td" else f' scope="{"row" if kind == "row" else "col"}"'
    tag = "td" if kind == "td" else "th"
    looks = " ".join(filter(None, ("number" if number else "", extra)))
    style = f' class="{looks}"' if looks else ""
    return f"<{tag}{scope}{style}>{html}</{tag}>"


def table(caption: str, head: Sequence[str], rows: Sequence[str]) -> str:
    """Return a table that scrolls in its own box."""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption><thead><tr>{''.join(head)}</tr></thead>"
        f"<tbody>{''.join(f'<tr>{row}</tr>' for row in rows)}</tbody></table></div>"
    )
