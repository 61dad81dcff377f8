"""Charts of a report: content, tables and drawings."""

import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import pytest

from acc.adapters.reports.chart_svg import (
    INK,
    PALETTE,
    axis_ticks,
    inline_svg,
    palette_css,
    standalone_svg,
)
from acc.adapters.reports.charts import (
    SLOT_COUNT,
    Chart,
    GroupPlot,
    TurnPlot,
    assign_slots,
    build_charts,
    chart_table,
    moving_average,
    stress_shares,
)
from acc.domain.metrics import METRIC_NAMES


def summary_of(
    names: Sequence[str], *, turns: int = 3, missing: Sequence[tuple[str, str]] = ()
) -> dict[str, Any]:
    """Return the parts of a summary that charts read; `missing` names agent and metric."""

    def value(agent: str, metric: str) -> float | None:
        if (agent, metric) in missing:
            return None
        return {"memory_tokens": 300.0, "hallucination": 0.2, "drift": 0.1}.get(metric, 8.0)

    def measures(agent: str) -> dict[str, Any]:
        return {
            metric: None
            if (mean := value(agent, metric)) is None
            else {"mean": mean, "deviation": 3.0, "low": mean - 3.0, "high": mean + 3.0}
            for metric in METRIC_NAMES
        }

    return {
        "configuration": {
            "agents": [
                {"name": name, "kind": name if name in {"acc", "oracle"} else "retrieval"}
                for name in names
            ]
        },
        "agents": {name: measures(name) for name in names},
        "domains": {"it_operations": {name: measures(name) for name in names}},
        "by_turn": {
            "turns": list(range(1, turns + 1)),
            "topics": [{"setup": 1, "prompt_injection": 1}] * turns,
            "agents": {
                name: {metric: [value(name, metric)] * turns for metric in METRIC_NAMES}
                for name in names
            },
        },
    }


def chart(summary: dict[str, Any], name: str) -> Chart:
    return next(found for found in build_charts(summary) if found.name == name)


def test_colour_of_agent_does_not_depend_on_other_agents() -> None:
    agents = [
        {"name": n, "kind": k} for n, k in (("a", "transcript"), ("acc", "acc"), ("o", "oracle"))
    ]
    slots = assign_slots(agents)
    assert slots["acc"] == assign_slots(agents[1:2])["acc"]
    assert slots["o"] == assign_slots(agents[2:])["o"]
    assert len(set(slots.values())) == 3
    assert list(slots) == ["a", "acc", "o"]


def test_more_agents_than_slots_share_slots() -> None:
    assert len(PALETTE) == SLOT_COUNT
    slots = assign_slots([{"name": str(number), "kind": "python:m:n"} for number in range(11)])
    assert len(slots) == 11
    assert set(slots.values()) <= set(range(len(PALETTE)))


def test_moving_average_preserves_gaps() -> None:
    assert moving_average([1.0, None, 3.0, 5.0], radius=1) == [1.0, None, 4.0, 4.0]
    assert moving_average([]) == []


def test_stress_is_the_share_of_episodes_past_setup() -> None:
    counts = [
        {"setup": 2},
        {"setup": 1, "conflict": 1},
        {"prompt_injection": 1, "poisoned_runbook": 1},
    ]
    assert stress_shares(counts) == [(0.0, 0.0), (0.5, 0.0), (1.0, 1.0)]


def test_unreported_memory_is_stated_and_not_drawn() -> None:
    summary = summary_of(["acc", "mine"], missing=[("mine", "memory_tokens")])
    found = chart(summary, "memory-by-turn")
    assert "Not reported by mine." in found.caption
    assert isinstance(found.plot, TurnPlot)
    assert [series.agent for series in found.plot.series] == ["acc"]
    assert chart(summary_of(["a"], missing=[("a", "memory_tokens")]), "memory-by-turn").plot is None


@pytest.mark.parametrize("turns", [1, 12])
def test_charts_are_drawn_for_one_and_eight_agents(turns: int) -> None:
    for names in (
        ["acc"],
        ["acc", "oracle", "x" * 60, "<b>&amp;", "日本", "5", "f'g\"", "\u202eh"],
    ):
        for found in build_charts(summary_of(names, turns=turns)):
            svg = standalone_svg(found)
            ElementTree.fromstring(svg)  # noqa: S314 - our own drawing
            assert svg.startswith("<svg") and "nan" not in svg
            assert "<b>" not in svg
            assert "\u202e" not in svg


def test_charts_can_share_one_page() -> None:
    charts = [inline_svg(found) for found in build_charts(summary_of(["acc", "oracle", "other"]))]
    whole = "".join(charts)
    identifiers = re.findall(r'\bid="([^"]*)"', whole)
    assert len(identifiers) == len(set(identifiers))
    known = {style.light for style in PALETTE} | {ink[0] for ink in INK.values()} | {"none"}
    used = set(re.findall(r'\b(?:fill|stroke)="([^"]*)"', whole))
    assert used <= known, f"colours that dark mode does not know: {used - known}"
    css = palette_css()
    assert all(style.light in css and style.dark in css for style in PALETTE)


def test_tables_contain_values_means_and_ranges() -> None:
    summary = summary_of(["acc", "mine"], turns=2, missing=[("mine", "drift")])
    by_turn = chart_table(chart(summary, "drift-by-turn"))
    assert by_turn.columns == ("turn", "acc", "acc, mean of 5 turns")
    assert by_turn.rows == (("1", "10.0 %", "10.0 %"), ("2", "10.0 %", "10.0 %"))
    scores = chart_table(chart(summary, "scores"))
    assert scores.columns == ("group", "acc", "mine")
    assert scores.rows[0] == ("relevance", "8.00 (5.00 to 10.00)", "8.00 (5.00 to 10.00)")
    domains = chart_table(chart(summary, "drift-by-domain"))
    assert domains.rows == (("it operations", "10.0 %", "no value"),)


def test_scores_of_few_scenarios_have_no_range() -> None:
    summary = summary_of(["acc"], turns=2)
    for name in ("relevance", "answer_quality", "instruction_following", "coherence"):
        summary["agents"]["acc"][name] |= {"low": None, "high": None}
    scores = chart(summary, "scores")
    assert chart_table(scores).rows[0] == ("relevance", "8.00")
    assert "Fewer than six scenarios give no interval" in scores.caption


def test_bands_mark_stress_and_injections() -> None:
    summary = summary_of(["acc"], turns=2)
    summary["by_turn"]["topics"] = [
        {"setup": 4},
        {"setup": 1, "conflict": 2, "prompt_injection": 1},
    ]
    plot = chart(summary, "drift-by-turn").plot
    assert isinstance(plot, TurnPlot)
    assert plot.stress == (0.0, 1.0)
    assert plot.injection == (0.0, 0.438)


def test_tooltips_name_the_turn_or_group_and_every_value() -> None:
    charts = build_charts(summary_of(["acc", "mine"], turns=2))
    lines = ElementTree.fromstring(inline_svg(charts[1]))  # noqa: S314 - our own drawing
    hits = [rect for rect in lines.iter("rect") if rect.get("class") == "hit"]
    assert [hit.findtext("title") for hit in hits][0] == (
        "turn 1\nacc: 20.0 % (mean of 5 turns: 20.0 %)\nmine: 20.0 % (mean of 5 turns: 20.0 %)"
    )
    assert len(hits) == 2
    domains = charts[4]
    assert isinstance(domains.plot, GroupPlot)
    assert "it operations\nacc: 8.00 (5.00 to 10.00)" in inline_svg(domains)


def test_missing_turn_interrupts_the_line() -> None:
    summary = summary_of(["acc"], turns=5)
    summary["by_turn"]["agents"]["acc"]["memory_tokens"] = [1.0, 2.0, None, 3.0, 4.0]
    drawing = ElementTree.fromstring(inline_svg(chart(summary, "memory-by-turn")))  # noqa: S314
    (path,) = [path.get("d") or "" for path in drawing.iter("path")]
    assert path.count("M") == 2 and path.count("L") == 2


@pytest.mark.parametrize(
    ("maximum", "ticks"),
    [
        (10.0, [0, 2, 4, 6, 8, 10]),
        (0.55, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
        (0.02, [0, 0.005, 0.01, 0.015, 0.02]),
        (3994, [0, 1000, 2000, 3000, 4000]),
    ],
)
def test_ticks_are_round_and_cover_the_maximum(maximum: float, ticks: list[float]) -> None:
    assert axis_ticks(maximum) == ticks


def test_many_long_groups_have_rotated_labels_inside_the_drawing() -> None:
    summary = summary_of(["acc"])
    measures = summary["domains"].pop("it_operations")
    summary["domains"] = {f"cybersecurity_operations_{number}": measures for number in range(9)}
    assert "rotate(-40)" in inline_svg(chart(summary, "drift-by-domain"))
