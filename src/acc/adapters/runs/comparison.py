"""Two runs side by side."""

import math
from collections.abc import Sequence
from typing import Any

from acc.adapters.runs.results import Tally, measures, tally_of
from acc.adapters.runs.run_directory import RunDirectory
from acc.domain.errors import InvalidInput
from acc.domain.metrics import METRIC_NAMES
from acc.domain.statistics import paired_difference


def compare(first: RunDirectory, second: RunDirectory) -> list[dict[str, Any]]:
    """Return a row for each agent and metric that both runs have, second minus first."""
    one, other = tally_of(first), tally_of(second)
    agents = [agent for agent in one.agents if agent in other.agents]
    if not agents:
        raise InvalidInput(
            f"the runs share"
            f" no agent: {', '.join(one.agents)} there, {', '.join(other.agents)} here"
        )
    means_one, means_other = measures(one), measures(other)
    rows: list[dict[str, Any]] = []
    for agent in agents:
        for name in METRIC_NAMES:
            row: dict[str, Any] = {
                "agent": agent,
                "metric": name,
                "first": _mean(means_one[agent][name]),
                "second": _mean(means_other[agent][name]),
            }
            found = paired_difference(
                _shared_differences(one, other, agent, name), seed=first.configuration.seed
            )
            if found is not None:
                row |= {"difference": found.mean, "low": found.low, "high": found.high}
                row |= {"pairs": found.pairs, "unit": found.unit, "clear": found.clear}
            rows.append(row)
    return rows


def _mean(found: dict[str, Any] | None) -> float | None:
    return None if found is None else float(found["mean"])


def _by_place(tally: Tally, values: Sequence[float]) -> dict[tuple[str, int], float]:
    return {
        (tally.episodes[episode].name, turn): values[place]
        for place, (episode, turn, _) in enumerate(tally.places)
    }


def _shared_differences(
    one: Tally, other: Tally, agent: str, metric: str
) -> dict[str, list[float]]:
    before = _by_place(one, one.column(agent, metric))
    after = _by_place(other, other.column(agent, metric))
    found: dict[str, list[float]] = {}
    for place, value in after.items():
        difference = value - before.get(place, math.nan)
        if not math.isnan(difference):
            found.setdefault(place[0], []).append(difference)
    return found
