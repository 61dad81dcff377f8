"""Gates: conditions such as `acc.drift > 0.05` that make a run fail."""

import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from acc.domain.errors import InvalidGate
from acc.domain.metrics import METRIC_NAMES

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
_SIDE = r"([\w-]+\.[a-z_]+|[-+]?\d+(?:\.\d+)?(?:e-?\d+)?)"
_GATE = re.compile(rf"^\s*{_SIDE}\s*(<=|>=|==|!=|<|>)\s*{_SIDE}\s*$")

#: What a gate can refer to for an agent.
GATE_METRICS = (
    *METRIC_NAMES,
    "last_memory_tokens",
    "scored",
    "failed",
    "unscored",
    "fallbacks",
    "flagged",
)
Measures = Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """The result of a gate with an explanation."""

    gate: str
    failed: bool
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A condition that makes a run fail; each side is a number or `agent.metric`."""

    text: str
    left: str
    sign: str
    right: str

    @classmethod
    def parse(cls, text: str) -> "Gate":
        """Return the gate of a text, or raise InvalidGate."""
        match = _GATE.match(text)
        if match is None:
            raise InvalidGate(
                f"invalid gate {text!r}: expected AGENT.METRIC, one of < <= > >= == !=, and a "
                'number or AGENT.METRIC, for example "acc.drift > 0.05"'
            )
        return cls(text=text.strip(), left=match[1], sign=match[2], right=match[3])

    def check_names(self, agents: Collection[str]) -> None:
        """Raise InvalidGate if the gate refers to an unknown agent or metric."""
        for side in (self.left, self.right):
            if _number(side) is not None:
                continue
            agent, metric = side.rsplit(".", 1)
            if agent not in agents:
                known = ", ".join(agents)
                raise InvalidGate(f"gate {self.text!r}: unknown agent {agent!r}; agents: {known}")
            if metric not in GATE_METRICS:
                raise InvalidGate(
                    f"gate {self.text!r}: unknown metric {metric!r}; "
                    f"metrics: {', '.join(GATE_METRICS)}"
                )

    def evaluate(self, measures: Measures) -> GateResult:
        """Return the result of the gate; a metric without a value fails it."""
        left, right = _value(self.left, measures), _value(self.right, measures)
        if left is None or right is None:
            missing = self.left if left is None else self.right
            return GateResult(gate=self.text, failed=True, explanation=f"{missing} has no value")
        failed = _OPERATORS[self.sign](left, right)
        named = {
            side: f"{side} is {value:.6g}"
            for side, value in ((self.left, left), (self.right, right))
            if _number(side) is None
        }
        explanation = ", ".join(named.values()) or "refers to no agent"
        for agent in dict.fromkeys(side.rsplit(".", 1)[0] for side in named):
            counts = [measures[agent].get(status) or 0 for status in ("failed", "unscored")]
            if any(counts):
                turns = sum(counts) + (measures[agent].get("scored") or 0)
                explanation += f"; {sum(counts):g} of {turns:g} turns of {agent} have no score"
        return GateResult(gate=self.text, failed=failed, explanation=explanation)


def _number(side: str) -> float | None:
    try:
        return float(side)
    except ValueError:
        return None


def _value(side: str, measures: Measures) -> float | None:
    number = _number(side)
    if number is not None:
        return number
    agent, metric = side.rsplit(".", 1)
    return measures[agent].get(metric)
