"""`acc eval --dry-run`: what would be run, asked and paid."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from acc.bootstrap.planning import Plan, PlannedPart, plan_of, span_text, total_of
from acc.domain.spending import Price, dollars
from acc.domain.value_objects.evaluation_run import RunConfiguration

_UNKNOWN = "price not known"


def show_plan(
    configuration: RunConfiguration,
    path: Path,
    *,
    prices: Mapping[str, Price],
    limit: float | None = None,
    as_json: bool = False,
) -> int:
    """Print the plan; nothing is asked and nothing is written."""
    plan = plan_of(configuration, path, prices)
    if as_json:
        written = msgspec.json.format(msgspec.json.encode(plan_fields(plan)), indent=2)
        sys.stdout.write(written.decode() + "\n")
        return 0
    seen = sys.stdout.isatty()
    console = Console(highlight=False, emoji=False, soft_wrap=not seen, width=None if seen else 160)
    for line in _facts(plan):
        console.print(line, markup=False)
    if plan.parts:
        console.print("", _table(plan), "")
        for number, line in enumerate(plan.assumptions):
            lead = "Assumed: " if not number else "         "
            console.print(lead + line, markup=False, style="dim")
    for line in _verdicts(plan, limit):
        console.print(line, markup=False)
    console.print("Nothing was asked and nothing was written.", markup=False)
    return 0


def _facts(plan: Plan) -> list[str]:
    configuration = plan.configuration
    scenarios = ", ".join(scenario.id for scenario in configuration.scenarios)
    agents = ", ".join(agent.name for agent in configuration.agents)
    left = f", {plan.recorded:,} of them on record already" if plan.recorded else ""
    spent = [f"spent:     {dollars(plan.spent)} so far"] if plan.spent else []
    return [
        f"agents:    {agents}",
        f"judge:     {configuration.judge}",
        f"scenarios: {scenarios}",
        f"episodes:  {plan.episodes:,} ({configuration.episodes:,} of each scenario)",
        f"turns:     {plan.turns:,}{left}",
        *spent,
    ]


def _table(plan: Plan) -> Table:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("who", style="bold", no_wrap=True)
    table.add_column("model")
    for title in ("calls", "tokens in", "tokens out", "cost"):
        table.add_column(title, justify="right")
    for part in plan.parts:
        table.add_row(part.name, " | ".join(part.models), *_spans(part), _money(part))
    if len(plan.parts) > 1:
        total = total_of(plan)
        spans = (span_text(span) for span in (total.calls, total.input, total.output))
        cost = plan.cost
        money = _UNKNOWN if cost is None else _range(cost)
        table.add_row("together", "", *spans, money, style="bold")
    return table


def _spans(part: PlannedPart) -> tuple[str, str, str]:
    take = part.take
    if take is None:
        return ("your code decides", "", "")
    return (span_text(take.calls), span_text(take.input), span_text(take.output))


def _money(part: PlannedPart) -> str:
    if part.take is None:
        return ""
    return _UNKNOWN if part.cost is None else _range(part.cost)


def _range(cost: tuple[float, float]) -> str:
    low, high = map(dollars, cost)
    return low if low == high else f"{low} to {high}"


def _verdicts(plan: Plan, limit: float | None) -> list[str]:
    lines = []
    if not plan.parts:
        lines.append("No model is asked that costs anything.")
    if plan.unseen:
        lines.append(f"Not seen: what {', '.join(plan.unseen)} may spend by themselves.")
    lines += [
        f"The price of {' | '.join(part.models)} is not known: --price {part.models[0]}=IN/OUT"
        for part in plan.parts
        if part.take is not None and part.cost is None
    ]
    cost = plan.cost
    if limit is not None and cost is not None:
        if plan.spent + cost[0] > limit:
            word = "stops the run before its end"
        else:
            tight = plan.spent + cost[1] > limit
            word = "may stop the run before its end" if tight else "suffices"
        lines.append(f"--max-cost {dollars(limit)} {word}, by this estimate.")
    return list(dict.fromkeys(lines))


def plan_fields(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain data."""
    return {
        "configuration": msgspec.to_builtins(plan.configuration),
        "episodes": plan.episodes,
        "turns": plan.turns,
        "recorded_turns": plan.recorded,
        "spent": round(plan.spent, 6),
        "parts": [_part_fields(part) for part in plan.parts],
        "cost": _cost_fields(plan.cost),
        "unseen": list(plan.unseen),
        "assumptions": list(plan.assumptions),
    }


def _part_fields(part: PlannedPart) -> dict[str, Any]:
    take = part.take
    spans = {} if take is None else {"calls": take.calls, "input_tokens": take.input}
    if take is not None:
        spans["output_tokens"] = take.output
    return {
        "part": part.part.value,
        "agent": part.agent,
        "models": list(part.models),
        **{name: {"low": span.low, "high": span.high} for name, span in spans.items()},
        "cost": _cost_fields(part.cost),
    }


def _cost_fields(cost: tuple[float, float] | None) -> dict[str, float] | None:
    return None if cost is None else {"low": round(cost[0], 6), "high": round(cost[1], 6)}
