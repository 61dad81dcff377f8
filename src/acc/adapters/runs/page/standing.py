"""How one agent stands against the others, read from a run's summary."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acc.adapters.runs.page.phrasing import LOWER_IS_BETTER, TITLES, mean_of

FOCUS = "acc"
HEADLINE_METRICS = ("outcome", "hallucination", "drift", "memory_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One agent minus another on the same turns."""

    metric: str
    agent: str
    versus: str
    mean: float
    low: float
    high: float
    clear: bool
    pairs: int
    unit: str

    @property
    def verdict(self) -> str:
        """Return better, worse or no clear difference, for the first agent."""
        if not self.clear:
            return "no clear difference"
        return "better" if (self.mean < 0) == (self.metric in LOWER_IS_BETTER) else "worse"

    def turned(self) -> "Difference":
        """Return the same seen from the other agent."""
        return Difference(
            metric=self.metric,
            agent=self.versus,
            versus=self.agent,
            mean=-self.mean,
            low=-self.high,
            high=-self.low,
            clear=self.clear,
            pairs=self.pairs,
            unit=self.unit,
        )


@dataclass(slots=True, kw_only=True)
class Loss:
    """A metric in which an agent's mean is worse than another's, overall or in some domain."""

    metric: str
    versus: str
    overall: tuple[float, float] | None = None
    worse: bool = False
    clear: bool = False
    domains: dict[str, tuple[float, float]] = field(default_factory=dict)


def differences_of(summary: Mapping[str, Any], focus: str | None) -> list[Difference]:
    """Return the paired differences, those of the focus seen from its side."""
    found = [Difference(**row) for row in summary["paired"]]
    return [row.turned() if row.versus == focus else row for row in found]


def focus_of(summary: Mapping[str, Any]) -> str | None:
    """Return the agent the page speaks of, or None if no agent has its name."""
    return FOCUS if FOCUS in summary["agents"] else None


def ceilings_of(summary: Mapping[str, Any]) -> frozenset[str]:
    """Return the agents that read the judge's memory and so do not compete."""
    agents = summary["configuration"]["agents"]
    return frozenset(agent["name"] for agent in agents if agent["kind"] == "oracle")


def losses_of(summary: Mapping[str, Any], focus: str) -> list[Loss]:
    """Return everything in which the focus is worse on the mean, by opponent and metric."""
    clear = {
        (row.metric, row.versus)
        for row in differences_of(summary, focus)
        if row.agent == focus and row.verdict == "worse"
    }
    found: list[Loss] = []
    for versus in summary["agents"]:
        for metric in TITLES:
            loss = Loss(metric=metric, versus=versus, clear=(metric, versus) in clear)
            loss.overall = _pair(summary["agents"], metric, focus, versus)
            loss.worse = _is_worse(metric, loss.overall)
            for domain, agents in summary["domains"].items():
                pair = _pair(agents, metric, focus, versus)
                if pair is not None and _is_worse(metric, pair):
                    loss.domains[domain] = pair
            if loss.worse or loss.domains:
                found.append(loss)
    return found


def _pair(
    agents: Mapping[str, Any], metric: str, focus: str, versus: str
) -> tuple[float, float] | None:
    mine, other = mean_of(agents[focus], metric), mean_of(agents[versus], metric)
    if mine is None or other is None:
        return None
    return mine, other


def _is_worse(metric: str, pair: tuple[float, float] | None) -> bool:
    if pair is None:
        return False
    return pair[0] > pair[1] if metric in LOWER_IS_BETTER else pair[0] < pair[1]
