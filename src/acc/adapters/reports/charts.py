"""Content of the charts of a report: which values are shown, and how they are formatted."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from acc.domain.value_objects.evaluation import OUTCOME_NAMES
from acc.domain.value_objects.stress_topic import INJECTION_TOPICS, StressTopic

#: Topics without stress: the opening turns, and turns without a topic.
CALM_TOPICS = frozenset({StressTopic.SETUP, ""})
#: Number of style slots that `assign_slots` distributes; the palette has one entry per slot.
SLOT_COUNT = 8
_FOCUS_SLOT, _CEILING_SLOT = 0, 3
#: Neighbours on each side that the moving average includes.
SMOOTHING_RADIUS = 2
_MAX_SCORE = 10.0
_MIN_SHARE_BY_TURN, _MIN_SHARE_BY_DOMAIN = 0.05, 0.02
#: Share of the episodes under stress from which on a turn is marked.
_STRESS_THRESHOLD = 0.5
# Invisible and bidirectional control characters, except tab and line feed; unpaired surrogates.
_HIDDEN_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e"
    "\u2066-\u2069\ud800-\udfff\ufeff]"
)


class Unit(StrEnum):
    """Unit of the vertical axis."""

    TOKENS = "tokens"
    SHARE = "share"
    SCORE = "score"

    def format_value(self, value: float | None) -> str:
        """Return a value as text for tooltips and tables."""
        if value is None:
            return "no value"
        if self is Unit.SHARE:
            return f"{100 * value:.1f} %"
        return f"{value:,.0f}" if self is Unit.TOKENS else f"{value:.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One value per turn of one agent; `smoothed` is empty if the values are drawn directly."""

    agent: str
    slot: int
    values: tuple[float | None, ...]
    smoothed: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlot:
    """Lines over turns; `stress` and `injection` have one opacity from 0 to 1 per turn."""

    turns: tuple[int, ...]
    series: tuple[Series, ...]
    stress: tuple[float, ...] = ()
    injection: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A mean with a range, of one agent in one group."""

    group: str
    agent: str
    slot: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlot:
    """Means with ranges, side by side in each group; `has_range` if they have intervals."""

    groups: tuple[str, ...]
    agents: Mapping[str, int]
    bars: tuple[Bar, ...]
    has_range: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart; `plot` is None if there are no values to draw."""

    name: str
    title: str
    caption: str
    y_title: str
    unit: Unit
    top: float
    plot: TurnPlot | GroupPlot | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartTable:
    """The values of a chart as a table; the first column names the turn or group."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def show_hidden(text: str) -> str:
    """Return text in which hidden characters are replaced by their code point, as [U+202E]."""
    return _HIDDEN_CHARACTERS.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def assign_slots(agents: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """Return the style slot of each agent, the same in every chart with these agents."""
    slots: dict[str, int] = {}
    for agent in agents:
        preferred = {"acc": _FOCUS_SLOT, "oracle": _CEILING_SLOT}.get(agent["kind"])
        if preferred is not None and preferred not in slots.values():
            slots[agent["name"]] = preferred
    free = [slot for slot in range(SLOT_COUNT) if slot not in slots.values()]
    others = [agent["name"] for agent in agents if agent["name"] not in slots]
    for number, name in enumerate(others):
        slots[name] = free[number % len(free)] if free else number % SLOT_COUNT
    return {agent["name"]: slots[agent["name"]] for agent in agents}


def build_charts(summary: Mapping[str, Any]) -> list[Chart]:
    """Return all charts of an evaluation."""
    slots = assign_slots(summary["configuration"]["agents"])
    return [
        _memory_chart(summary, slots),
        _rate_chart(summary, slots, "hallucination"),
        _rate_chart(summary, slots, "drift"),
        _score_chart(summary, slots),
        _domain_chart(summary, slots, "outcome"),
        _domain_chart(summary, slots, "hallucination"),
        _domain_chart(summary, slots, "drift"),
    ]


def moving_average(
    values: Sequence[float | None], radius: int = SMOOTHING_RADIUS
) -> list[float | None]:
    """Return the mean of each value and its neighbours; missing values stay missing."""
    means: list[float | None] = []
    for index, value in enumerate(values):
        window = values[max(0, index - radius) : index + radius + 1]
        present = [v for v in window if v is not None]
        means.append(None if value is None else round(sum(present) / len(present), 6))
    return means


def stress_shares(topics: Sequence[Mapping[str, int]]) -> list[tuple[float, float]]:
    """Return the share of episodes under stress and the share with an injection, per turn."""
    shares: list[tuple[float, float]] = []
    for counts in topics:
        total = sum(counts.values()) or 1
        calm = sum(count for topic, count in counts.items() if topic in CALM_TOPICS)
        injected = sum(count for topic, count in counts.items() if topic in INJECTION_TOPICS)
        shares.append(((total - calm) / total, injected / total))
    return shares


def chart_table(chart: Chart) -> ChartTable:
    """Return the values of a chart as text."""
    text = chart.unit.format_value
    if isinstance(chart.plot, TurnPlot):
        columns = ["turn"]
        values: list[tuple[float | None, ...]] = []
        for series in chart.plot.series:
            columns.append(series.agent)
            values.append(series.values)
            if series.smoothed:
                columns.append(f"{series.agent}, mean of {2 * SMOOTHING_RADIUS + 1} turns")
                values.append(series.smoothed)
        rows = [
            (str(turn), *(text(column[index]) for column in values))
            for index, turn in enumerate(chart.plot.turns)
        ]
        return ChartTable(columns=tuple(columns), rows=tuple(rows))
    if isinstance(chart.plot, GroupPlot):
        plot = chart.plot
        bars = {(bar.group, bar.agent): bar for bar in plot.bars}
        return ChartTable(
            columns=("group", *plot.agents),
            rows=tuple(
                (group, *(bar_text(chart, bars.get((group, agent))) for agent in plot.agents))
                for group in plot.groups
            ),
        )
    return ChartTable(columns=(), rows=())


def bar_text(chart: Chart, bar: Bar | None) -> str:
    """Return a mean as text, with its range if the chart has ranges."""
    text = chart.unit.format_value
    if bar is None:
        return text(None)
    has_range = isinstance(chart.plot, GroupPlot) and chart.plot.has_range
    return (
        f"{text(bar.mean)} ({text(bar.low)} to {text(bar.high)})" if has_range else text(bar.mean)
    )


def _series(
    summary: Mapping[str, Any], slots: Mapping[str, int], metric: str, *, smooth: bool
) -> tuple[Series, ...]:
    series = []
    for agent, slot in slots.items():
        values = summary["by_turn"]["agents"][agent][metric]
        if any(value is not None for value in values):
            smoothed = tuple(moving_average(values)) if smooth else ()
            series.append(Series(agent=agent, slot=slot, values=tuple(values), smoothed=smoothed))
    return tuple(series)


def _maximum(series: Sequence[Series]) -> float:
    return max(value for one in series for value in one.values if value is not None)


def _memory_chart(summary: Mapping[str, Any], slots: Mapping[str, int]) -> Chart:
    series = _series(summary, slots, "memory_tokens", smooth=False)
    reported = {one.agent for one in series}
    missing = [agent for agent in slots if agent not in reported]
    caption = "Tokens of memory that an agent brings to a turn, mean over episodes."
    if missing:
        caption += f" Not reported by {', '.join(missing)}."
    turns = tuple(summary["by_turn"]["turns"])
    return Chart(
        name="memory-by-turn",
        title="Memory tokens by turn",
        caption=caption,
        y_title="tokens",
        unit=Unit.TOKENS,
        top=max(1.0, _maximum(series)) if series else 1.0,
        plot=TurnPlot(turns=turns, series=series) if series else None,
    )


def _rate_chart(summary: Mapping[str, Any], slots: Mapping[str, int], metric: str) -> Chart:
    series = _series(summary, slots, metric, smooth=True)
    shares = stress_shares(summary["by_turn"]["topics"])
    plot = TurnPlot(
        turns=tuple(summary["by_turn"]["turns"]),
        series=series,
        stress=tuple(float(stressed >= _STRESS_THRESHOLD) for stressed, _ in shares),
        injection=tuple(
            round(0.25 + 0.75 * injected, 3) if injected > 0 else 0.0 for _, injected in shares
        ),
    )
    return Chart(
        name=f"{metric}-by-turn",
        title=f"{metric.capitalize()} by turn",
        caption=(
            f"Thin line: each turn. Thick line: mean of {2 * SMOOTHING_RADIUS + 1} turns around "
            "it. Band below the plot: faint where at least half of the episodes are under stress, "
            "strong where content is injected, stronger for more episodes."
        ),
        y_title=metric,
        unit=Unit.SHARE,
        top=max(_MIN_SHARE_BY_TURN, _maximum(series)) if series else _MIN_SHARE_BY_TURN,
        plot=plot if series else None,
    )


def _score_chart(summary: Mapping[str, Any], slots: Mapping[str, int]) -> Chart:
    bars = [
        _score_bar(name, agent, slot, values)
        for name in OUTCOME_NAMES
        for agent, slot in slots.items()
        if (values := summary["agents"][agent][name]) is not None
    ]
    return Chart(
        name="scores",
        title="Outcome scores",
        caption=_caption("Mean over all scored turns", bars),
        y_title="score, 0 to 10",
        unit=Unit.SCORE,
        top=_MAX_SCORE,
        plot=_group_plot(bars, slots, has_range=_has_range(bars)),
    )


def _domain_chart(summary: Mapping[str, Any], slots: Mapping[str, int], metric: str) -> Chart:
    is_score = metric == "outcome"
    bars = [
        _score_bar(domain, agent, slot, values)
        if is_score
        else Bar(
            group=domain.replace("_", " "),
            agent=agent,
            slot=slot,
            mean=values["mean"],
            low=0.0,
            high=values["mean"],
        )
        for domain, agents in summary["domains"].items()
        for agent, slot in slots.items()
        if (values := agents[agent][metric]) is not None
    ]
    highest = max((bar.mean for bar in bars), default=0.0)
    return Chart(
        name=f"{metric}-by-domain",
        title=f"{metric.capitalize()} by domain",
        caption=_caption("Mean of the four scores", bars)
        if is_score
        else "Mean over the turns of each domain. Lower is better.",
        y_title="outcome, 0 to 10" if is_score else metric,
        unit=Unit.SCORE if is_score else Unit.SHARE,
        top=_MAX_SCORE if is_score else max(_MIN_SHARE_BY_DOMAIN, highest),
        plot=_group_plot(bars, slots, has_range=is_score and _has_range(bars)),
    )


def _score_bar(group: str, agent: str, slot: int, values: Mapping[str, float]) -> Bar:
    mean = values["mean"]
    low, high = values.get("low"), values.get("high")
    return Bar(
        group=group.replace("_", " "),
        agent=agent,
        slot=slot,
        mean=mean,
        low=mean if low is None else max(0.0, low),
        high=mean if high is None else min(_MAX_SCORE, high),
    )


def _has_range(bars: Sequence[Bar]) -> bool:
    return any(bar.low != bar.high for bar in bars)


def _caption(text: str, bars: Sequence[Bar]) -> str:
    if not _has_range(bars):
        return f"{text}. Fewer than six scenarios give no interval."
    return f"{text}, with its 95 % interval over scenarios."


def _group_plot(
    bars: Sequence[Bar], slots: Mapping[str, int], *, has_range: bool
) -> GroupPlot | None:
    if not bars:
        return None
    groups = tuple(dict.fromkeys(bar.group for bar in bars))
    return GroupPlot(groups=groups, agents=slots, bars=tuple(bars), has_range=has_range)
