"""The report's charts as plain Vega-Lite specifications."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acc.domain.value_objects.evaluation import OUTCOME_NAMES

Spec = dict[str, Any]

#: For each slot a colour on white and one on a dark page, a dash and a point; after Okabe and Ito,
#: darkened or lightened until they stand out from the page by 3 to 1.
PALETTE = (
    ("#0072b2", "#56b4e9", [1, 0], "circle"),
    ("#d55e00", "#f58b45", [7, 3], "square"),
    ("#00875f", "#2ec79c", [2, 2], "triangle-up"),
    ("#6b7075", "#a9b0b7", [9, 3, 2, 3], "diamond"),
    ("#b04a86", "#e59cc6", [4, 2], "cross"),
    ("#9a6a00", "#e6b422", [1, 3], "triangle-down"),
    ("#5b4fb0", "#aba0f2", [12, 3], "triangle-right"),
    ("#7a4a21", "#d0a682", [5, 2, 1, 2, 1, 2], "triangle-left"),
)
#: Other colours of a chart: on white, and on a dark page.
INK = {
    "text": ("#3a4147", "#c9d0d6"),
    "axis": ("#8b939a", "#78818a"),
    "grid": ("#e4e7ea", "#2c3238"),
    "stress": ("#c3c9ce", "#444c54"),
    "injection": ("#454c53", "#d5dbe0"),
}
INJECTION_TOPICS = frozenset({"poisoned_runbook", "prompt_injection"})
#: What stands for no stress: the opening turns, and turns without a topic.
CALM_TOPICS = frozenset({"setup", ""})
WIDTH, HEIGHT = 440, 280
_FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
_FOCUS, _CEILING = 0, 3
_REACH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart by name; without a specification there was nothing to draw."""

    name: str
    title: str
    caption: str
    spec: Spec | None


def slots_of(agents: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """Return each agent's place in the palette, the same in every chart and run of these agents."""
    found: dict[str, int] = {}
    for agent in agents:
        wanted = {"acc": _FOCUS, "oracle": _CEILING}.get(agent["kind"])
        if wanted is not None and wanted not in found.values():
            found[agent["name"]] = wanted
    free = [slot for slot in range(len(PALETTE)) if slot not in found.values()]
    others = [agent["name"] for agent in agents if agent["name"] not in found]
    for number, name in enumerate(others):
        found[name] = free[number % len(free)] if free else number % len(PALETTE)
    return {agent["name"]: found[agent["name"]] for agent in agents}


def charts_of(summary: Mapping[str, Any]) -> list[Chart]:
    """Return all charts of a run."""
    slots = slots_of(summary["configuration"]["agents"])
    return [
        _memory(summary, slots),
        _rate(summary, slots, "hallucination"),
        _rate(summary, slots, "drift"),
        _scores(summary, slots),
        _domains(summary, slots, "outcome"),
        _domains(summary, slots, "hallucination"),
        _domains(summary, slots, "drift"),
    ]


def smoothed(values: Sequence[float | None], reach: int = _REACH) -> list[float | None]:
    """Return the mean of each value and its neighbours; a gap stays a gap."""
    found: list[float | None] = []
    for place, value in enumerate(values):
        near = [v for v in values[max(0, place - reach) : place + reach + 1] if v is not None]
        found.append(None if value is None else round(sum(near) / len(near), 6))
    return found


def stress_shares(topics: Sequence[Mapping[str, int]]) -> list[tuple[float, float]]:
    """Return, turn by turn, the share of episodes under stress and of those with an injection."""
    found: list[tuple[float, float]] = []
    for counts in topics:
        total = sum(counts.values()) or 1
        calm = sum(count for topic, count in counts.items() if topic in CALM_TOPICS)
        injected = sum(count for topic, count in counts.items() if topic in INJECTION_TOPICS)
        found.append(((total - calm) / total, injected / total))
    return found


def _agent_scale(field: str, slots: Mapping[str, int]) -> Spec:
    place = {"color": 0, "strokeDash": 2, "shape": 3}[field]
    return {
        "field": "agent",
        "type": "nominal",
        "title": None,
        "sort": list(slots),
        "scale": {
            "domain": list(slots),
            "range": [PALETTE[slot][place] for slot in slots.values()],
        },
    }


def _turn_rows(
    summary: Mapping[str, Any], slots: Mapping[str, int], metric: str
) -> tuple[list[Spec], float]:
    turns = summary["by_turn"]["turns"]
    every = max(1, len(turns) // 8)
    rows: list[Spec] = []
    top = 0.0
    for number, agent in enumerate(slots):
        values = summary["by_turn"]["agents"][agent][metric]
        if all(value is None for value in values):
            continue
        top = max(top, *(value for value in values if value is not None))
        for place, (turn, value, smooth) in enumerate(
            zip(turns, values, smoothed(values), strict=True)
        ):
            rows.append(
                {
                    "agent": agent,
                    "turn": turn,
                    "value": value,
                    "smooth": smooth,
                    # Marks of different agents stand on different turns, not on each other.
                    "marked": place % every == number % every,
                }
            )
    return rows, top


def _turn_axes(turns: Sequence[int], top: float, *, title: str, share: bool) -> tuple[Spec, Spec]:
    x = {
        "field": "turn",
        "type": "quantitative",
        "title": "turn",
        "scale": {"domain": [turns[0] - 0.5, turns[-1] + 0.5], "nice": False},
        "axis": {"grid": False, "format": "d", "tickMinStep": 1, "offset": 14 if share else 4},
    }
    y = {
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [0, max(top, 0.05 if share else 1)], "nice": True},
        "axis": {"format": ".0%" if share else ",d", "tickCount": 5},
    }
    return x, y


def _line(field: str, x: Spec, y: Spec, slots: Mapping[str, int], mark: Spec) -> Spec:
    return {
        "mark": {"type": "line", **mark},
        "encoding": {
            "x": x,
            "y": {**y, "field": field},
            "color": _agent_scale("color", slots),
            "strokeDash": _agent_scale("strokeDash", slots),
        },
    }


def _marks(field: str, x: Spec, y: Spec, slots: Mapping[str, int]) -> Spec:
    return {
        "transform": [{"filter": "datum.marked"}],
        "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
        "encoding": {
            "x": x,
            "y": {**y, "field": field},
            "color": _agent_scale("color", slots),
            "shape": _agent_scale("shape", slots),
        },
    }


def _memory(summary: Mapping[str, Any], slots: Mapping[str, int]) -> Chart:
    rows, top = _turn_rows(summary, slots, "memory_tokens")
    told = {row["agent"] for row in rows}
    silent = [agent for agent in slots if agent not in told]
    caption = "Tokens of memory that an agent brings to a turn, mean over episodes."
    if silent:
        caption += f" Not reported by {', '.join(silent)}."
    spec = None
    if rows:
        x, y = _turn_axes(summary["by_turn"]["turns"], top, title="tokens", share=False)
        shown = {agent: slot for agent, slot in slots.items() if agent in told}
        line = _line("value", x, y, shown, {"strokeWidth": 2})
        spec = _whole(rows, [line, _marks("value", x, y, shown)])
    return Chart(name="memory-by-turn", title="Memory tokens by turn", caption=caption, spec=spec)


def _rate(summary: Mapping[str, Any], slots: Mapping[str, int], metric: str) -> Chart:
    rows, top = _turn_rows(summary, slots, metric)
    by_turn = summary["by_turn"]
    spec = None
    if rows:
        x, y = _turn_axes(by_turn["turns"], top, title=metric, share=True)
        layers = [
            *_strip(by_turn["turns"], by_turn["topics"], x),
            _line("value", x, y, slots, {"strokeWidth": 0.8, "opacity": 0.3}),
            _line("smooth", x, y, slots, {"strokeWidth": 2.2}),
            _marks("smooth", x, y, slots),
        ]
        spec = _whole(rows, layers)
    return Chart(
        name=f"{metric}-by-turn",
        title=f"{metric.capitalize()} by turn",
        caption=(
            "Thin: each turn; strong: mean of five turns around it. Below the axis, faint: at "
            "least half of the episodes are under stress; strong: with injected content, the "
            "more the stronger."
        ),
        spec=spec,
    )


def _strip(turns: Sequence[int], topics: Sequence[Mapping[str, int]], x: Spec) -> list[Spec]:
    """Return thin marks under the plot that show where stress and injections are."""
    stress: list[Spec] = []
    injection: list[Spec] = []
    for turn, (under, injected) in zip(turns, stress_shares(topics), strict=True):
        cell = {"from": turn - 0.5, "to": turn + 0.5}
        if under >= 0.5:
            stress.append(cell)
        if injected > 0:
            injection.append({**cell, "strength": round(0.25 + 0.75 * injected, 3)})
    layers: list[Spec] = []
    for rows, ink in ((stress, "stress"), (injection, "injection")):
        encoding: Spec = {
            "x": {**x, "field": "from"},
            "x2": {"field": "to"},
            "y": {"value": {"expr": "height + 3"}},
            "y2": {"value": {"expr": "height + 11"}},
        }
        if ink == "injection":
            encoding["opacity"] = {"field": "strength", "type": "quantitative", "scale": None}
        if rows:
            layers.append(
                {
                    "data": {"values": rows},
                    "mark": {"type": "rect", "color": INK[ink][0]},
                    "encoding": encoding,
                }
            )
    return layers


def _scores(summary: Mapping[str, Any], slots: Mapping[str, int]) -> Chart:
    rows = [
        {"group": name.replace("_", " "), "agent": agent, **_span(found, top=10.0)}
        for name in OUTCOME_NAMES
        for agent in slots
        if (found := summary["agents"][agent][name]) is not None
    ]
    return Chart(
        name="scores",
        title="Outcome scores",
        caption="Mean and one standard deviation over all scored turns; bars end at 0 and 10.",
        spec=_dodged(rows, slots, title="score, 0 to 10", top=10.0) if rows else None,
    )


def _domains(summary: Mapping[str, Any], slots: Mapping[str, int], metric: str) -> Chart:
    score = metric == "outcome"
    rows = [
        {
            "group": domain.replace("_", " "),
            "agent": agent,
            **(_span(found, top=10.0) if score else {"mean": found["mean"], "low": 0}),
        }
        for domain, agents in summary["domains"].items()
        for agent in slots
        if (found := agents[agent][metric]) is not None
    ]
    for row in rows:
        row.setdefault("high", row["mean"])
    top = 10.0 if score else max((row["mean"] for row in rows), default=0.0)
    title = "outcome, 0 to 10" if score else metric
    return Chart(
        name=f"{metric}-by-domain",
        title=f"{metric.capitalize()} by domain",
        caption="Mean of the four scores and one standard deviation; bars end at 0 and 10."
        if score
        else "Mean over the turns of each domain. Lower is better.",
        spec=_dodged(rows, slots, title=title, top=top) if rows else None,
    )


def _span(found: Mapping[str, float], *, top: float) -> dict[str, float]:
    mean, width = found["mean"], found["deviation"]
    return {"mean": mean, "low": max(0.0, mean - width), "high": min(top, mean + width)}


def _dodged(rows: list[Spec], slots: Mapping[str, int], *, title: str, top: float) -> Spec:
    """Return points with bars, side by side within each group."""
    groups = list(dict.fromkeys(row["group"] for row in rows))
    crowded = len(groups) > 5
    share = top < 10
    x = {
        "field": "group",
        "type": "nominal",
        "title": None,
        "sort": groups,
        "scale": {"paddingInner": 0.15, "paddingOuter": 0.1},
        "axis": {
            "labelAngle": -40 if crowded else 0,
            "labelExpr": "datum.label" if crowded else "split(datum.label, ' ')",
            "labelLimit": 110,
        },
    }
    offset = {"field": "agent", "type": "nominal", "sort": list(slots)}
    y = {
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [0, max(top, 0.02)], "nice": True},
        "axis": {
            "format": ".0%" if share and top >= 0.05 else (".1%" if share else "d"),
            "tickCount": 5,
        },
    }
    color = _agent_scale("color", slots)
    bars = {
        "mark": {"type": "rule", "strokeWidth": 1.6, "opacity": 0.75},
        "encoding": {
            "x": x,
            "xOffset": offset,
            "y": {**y, "field": "low"},
            "y2": {"field": "high"},
            "color": color,
        },
    }
    points = {
        "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
        "encoding": {
            "x": x,
            "xOffset": offset,
            "y": {**y, "field": "mean"},
            "color": color,
            "shape": _agent_scale("shape", slots),
        },
    }
    return _whole(rows, [bars, points])


def _whole(rows: Iterable[Spec], layers: list[Spec]) -> Spec:
    text, axis, grid = (INK[name][0] for name in ("text", "axis", "grid"))
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": WIDTH,
        "height": HEIGHT,
        "padding": 6,
        "autosize": {"type": "fit", "contains": "padding"},
        "data": {"values": list(rows)},
        "layer": layers,
        "config": {
            "aria": False,
            "font": _FONT,
            "view": {"stroke": None},
            "title": {
                "anchor": "start",
                "color": text,
                "subtitleColor": text,
                "fontSize": 14,
                "subtitleFontSize": 10.5,
                "subtitlePadding": 4,
                "offset": 10,
            },
            "axis": {
                "labelColor": text,
                "titleColor": text,
                "labelFontSize": 13,
                "titleFontSize": 13,
                "titleFontWeight": "normal",
                "titlePadding": 8,
                "gridColor": grid,
                "domainColor": axis,
                "tickColor": axis,
            },
            "axisY": {"domain": False, "ticks": False},
            "legend": {
                "orient": "top",
                "direction": "horizontal",
                "columns": 4,
                "columnPadding": 14,
                "labelColor": text,
                "labelFontSize": 13,
                "labelLimit": 130,
                "symbolSize": 80,
                "symbolOpacity": 1,
                "symbolStrokeWidth": 0,
                "offset": 8,
            },
        },
    }
