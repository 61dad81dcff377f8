"""The charts of a report, from summaries of every shape a run can have."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from acc.adapters.runs.charts import (
    INK,
    PALETTE,
    Chart,
    charts_of,
    slots_of,
    smoothed,
    stress_shares,
)
from acc.adapters.runs.page.drawing import inline_svg, standalone_svg
from acc.adapters.runs.page.sections import palette_css
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
            else {"mean": mean, "deviation": 3.0}
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
    return next(found for found in charts_of(summary) if found.name == name)


def test_an_agent_keeps_its_colour_whoever_else_takes_part() -> None:
    agents = [
        {"name": n, "kind": k} for n, k in (("a", "transcript"), ("acc", "acc"), ("o", "oracle"))
    ]
    slots = slots_of(agents)
    assert slots["acc"] == slots_of(agents[1:2])["acc"]
    assert slots["o"] == slots_of(agents[2:])["o"]
    assert len(set(slots.values())) == 3
    assert list(slots) == ["a", "acc", "o"]


def test_more_agents_than_colours_still_get_one() -> None:
    slots = slots_of([{"name": str(number), "kind": "python:m:n"} for number in range(11)])
    assert len(slots) == 11
    assert set(slots.values()) <= set(range(len(PALETTE)))


def test_smoothing_keeps_gaps_and_takes_what_neighbours_there_are() -> None:
    assert smoothed([1.0, None, 3.0, 5.0], reach=1) == [1.0, None, 4.0, 4.0]
    assert smoothed([]) == []


def test_stress_is_the_share_of_episodes_past_setup() -> None:
    counts = [
        {"setup": 2},
        {"setup": 1, "conflict": 1},
        {"prompt_injection": 1, "poisoned_runbook": 1},
    ]
    assert stress_shares(counts) == [(0.0, 0.0), (0.5, 0.0), (1.0, 1.0)]


def test_memory_that_was_not_reported_is_said_and_not_drawn_as_zero() -> None:
    summary = summary_of(["acc", "mine"], missing=[("mine", "memory_tokens")])
    found = chart(summary, "memory-by-turn")
    assert "Not reported by mine." in found.caption
    assert found.spec is not None
    assert {row["agent"] for row in found.spec["data"]["values"]} == {"acc"}
    assert chart(summary_of(["a"], missing=[("a", "memory_tokens")]), "memory-by-turn").spec is None


@pytest.mark.parametrize("turns", [1, 12])
def test_every_chart_draws_with_one_and_with_eight_agents(turns: int) -> None:
    for names in (
        ["acc"],
        ["acc", "oracle", "x" * 60, "<b>&amp;", "日本", "5", "f'g\"", "\u202eh"],
    ):
        for found in charts_of(summary_of(names, turns=turns)):
            svg = standalone_svg(found)
            assert svg.startswith("<svg") and "NaN" not in svg
            assert "<b>" not in svg


def test_a_page_can_hold_all_charts_and_colour_them() -> None:
    charts = [inline_svg(found) for found in charts_of(summary_of(["acc", "oracle", "other"]))]
    whole = "".join(charts)
    identifiers = re.findall(r'\bid="([^"]*)"', whole)
    assert len(identifiers) == len(set(identifiers))
    known = {colours[0] for colours in (*PALETTE, *INK.values())} | {"none", "transparent"}
    used = set(re.findall(r'\b(?:fill|stroke)="([^"]*)"', whole))
    assert used <= known, f"colours that dark mode does not know: {used - known}"
    css = palette_css()
    assert all(colours[0] in css and colours[1] in css for colours in PALETTE)
