"""Views of an evaluation: plan, progress, costs and result tables."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.cells import cell_len
from rich.console import Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from acc.application.evaluation.configuration import budget_text
from acc.application.evaluation.cost import CostTracker
from acc.application.evaluation.plan import Plan, PlannedCost, cost_of, estimate_of
from acc.application.evaluation.results import RATES, account_from_fields, metric_text
from acc.application.evaluation.token_estimate import Estimate
from acc.cli.output import console, count_noun, error_console, print_json
from acc.domain.cost import Account, Accounts, CostCategory, dollars, spender
from acc.domain.metrics import metric
from acc.domain.value_objects.evaluation_run import TurnCompleted
from acc.ports.outbound.live_evaluation_ports import EpisodeEvent

#: Exit status if the cost limit ended a command.
COST_LIMIT_STATUS = 4
_PROGRESS_INTERVAL_SECONDS = 5.0
_UNKNOWN_PRICE = "price not known"
_PROGRESS_METRICS = ("outcome", "hallucination", "drift", "memory_tokens")
_TITLES = {
    "outcome": "outcome",
    "relevance": "relevance",
    "answer_quality": "answer quality",
    "instruction_following": "instruction following",
    "coherence": "coherence",
    "hallucination": "hallucination",
    "drift": "drift",
    "memory_tokens": "memory tokens",
    "last_memory_tokens": "memory tokens, last turn",
}
_RESULT_METRICS = (
    "outcome",
    "relevance",
    "answer_quality",
    "instruction_following",
    "coherence",
    "hallucination",
    "drift",
    "memory_tokens",
    "last_memory_tokens",
)
_DECLARED = ("outcome", "hallucination", "drift")
#: Spaces between the columns of a table.
_COLUMN_GAP = 2
_COST_COLUMNS = ("calls", "from cache", "failed", "tokens in", "tokens out", "cost")


class ProgressView:
    """Shows a running evaluation: a live table on a terminal, lines elsewhere."""

    def __init__(
        self,
        agents: Sequence[str],
        *,
        turns: int,
        done: int,
        quiet: bool,
        cost: CostTracker,
    ) -> None:
        self._console = error_console()
        self._agents = agents
        self._cost = cost
        self._turns = turns
        self._done = self._recorded = done
        self._quiet = quiet
        self._sums = {agent: {name: [0.0, 0] for name in _PROGRESS_METRICS} for agent in agents}
        self._failed = dict.fromkeys(agents, 0)
        self._started = self._last_line = time.monotonic()
        self._live: Live | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("turns"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._task = self._progress.add_task("evaluating", total=turns, completed=done)

    def __enter__(self) -> "ProgressView":
        if not self._quiet and self._done:
            self._print(f"continuing: {self._done} of {self._turns} turns are recorded")
            if self._done == self._turns:
                self._print(
                    "no turn is run again: after a change of an agent, delete the run directory "
                    "or choose another --out"
                )
        if not self._quiet and self._console.is_terminal:
            self._live = Live(
                get_renderable=self._render, console=self._console, refresh_per_second=8
            )
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*error)
        elif not self._quiet:
            self._print_line()

    def update(self, event: EpisodeEvent) -> None:
        """Show an event of an episode."""
        if isinstance(event, TurnCompleted):
            self._add_turn(event)
        is_due = time.monotonic() - self._last_line > _PROGRESS_INTERVAL_SECONDS
        if is_due and self._live is None and not self._quiet:
            self._print_line()

    def _add_turn(self, event: TurnCompleted) -> None:
        self._done += 1
        for record in event.turn.records:
            self._failed[record.agent_name] += bool(record.error)
            for name in _PROGRESS_METRICS:
                value = metric(record, name)
                if value is not None:
                    total = self._sums[record.agent_name][name]
                    total[0] += value
                    total[1] += 1
        label = f"{event.episode} turn {event.turn.query.turn_id}"
        self._progress.update(self._task, completed=self._done, description=label)

    def _render(self) -> Group:
        table = Table(box=None, pad_edge=False)
        table.add_column("agent", style="bold")
        for name in _PROGRESS_METRICS:
            table.add_column(_TITLES[name], justify="right")
        table.add_column("failed", justify="right")
        for agent in self._agents:
            cells = [self._mean(agent, name) for name in _PROGRESS_METRICS]
            table.add_row(agent, *cells, str(self._failed[agent]))
        accounts = self._cost.accounts
        if not accounts.by_spender:
            return Group(self._progress, table)
        rows = [
            (spender(category, agent), account)
            for category, agent, account in accounts.rows(self._agents)
        ]
        costs = cost_table(rows, accounts.total, self._cost.limit)
        return Group(self._progress, table, "", costs)

    def _mean(self, agent: str, name: str) -> str:
        total, count = self._sums[agent][name]
        return "-" if not count else metric_text(name, total / count)

    def _print_line(self) -> None:
        self._last_line = time.monotonic()
        seconds = self._last_line - self._started
        costs = ""
        if self._cost.accounts.by_spender:
            costs = f", {describe_cost(self._cost.accounts, self._cost.limit)}"
        left = ""
        if self._recorded < self._done < self._turns:
            speed = (self._done - self._recorded) / max(seconds, 0.001)
            left = f", about {(self._turns - self._done) / speed:.0f} s left"
        self._print(f"{self._done}/{self._turns} turns, {seconds:.0f} s{left}{costs}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False)


def print_plan(plan: Plan, *, limit: float | None = None, as_json: bool = False) -> None:
    """Print a plan as text or as JSON."""
    if as_json:
        print_json(msgspec.json.format(msgspec.json.encode(plan_fields(plan)), indent=2))
        return
    output = console()
    for line in _plan_facts(plan):
        output.print(line, markup=False)
    if plan.parts:
        output.print("", _plan_table(plan), "")
        for number, line in enumerate(plan.assumptions):
            lead = "Assumptions: " if not number else "             "
            output.print(lead + line, markup=False, style="dim")
    for line in _plan_notes(plan, limit):
        output.print(line, markup=False)
    output.print("Nothing was called and nothing was written.", markup=False)


def _plan_facts(plan: Plan) -> list[str]:
    config = plan.configuration
    recorded = f", {plan.recorded:,} of them recorded" if plan.recorded else ""
    cost = [f"cost:      {dollars(plan.spent)} so far"] if plan.spent else []
    return [
        f"agents:    {', '.join(agent.name for agent in config.agents)}",
        f"judge:     {config.judge}",
        f"scenarios: {', '.join(scenario.id for scenario in config.scenarios)}",
        f"episodes:  {plan.episodes:,} ({config.episodes:,} of each scenario)",
        f"turns:     {plan.turns:,}{recorded}",
        *cost,
    ]


def _plan_table(plan: Plan) -> Table:
    table = plain_table()
    table.add_column("used by", style="bold", no_wrap=True)
    table.add_column("model")
    for title in ("calls", "tokens in", "tokens out", "cost"):
        table.add_column(title, justify="right")
    for part in plan.parts:
        cells = ("depends on your code", "", "", "")
        if part.estimate is not None:
            cells = (*_estimate_cells(part.estimate), _format_range(part.cost))
        table.add_row(part.name, _models_text(plan, part), *cells)
    for category in CostCategory:
        if 1 < len(parts := plan.of(category)) < len(plan.parts):
            cells = (*_estimate_cells(estimate_of(parts)), _format_range(cost_of(parts)))
            table.add_row(f"all {category.value}s", "", *cells, style="bold")
    if len(plan.parts) > 1:
        cells = (*_estimate_cells(plan.total), _format_range(plan.cost))
        table.add_row("total", "", *cells, style="bold")
    return table


def _models_text(plan: Plan, part: PlannedCost) -> str:
    """Return the models of a part: alternatives with "|", judges that all vote with a comma."""
    judging = plan.configuration.judging
    vote = part.category is CostCategory.JUDGE and judging is not None and judging.others
    return (", " if vote else " | ").join(part.models)


def _estimate_cells(estimate: Estimate) -> tuple[str, str, str]:
    return str(estimate.calls), str(estimate.input), str(estimate.output)


def _format_range(cost: tuple[float, float] | None) -> str:
    if cost is None:
        return _UNKNOWN_PRICE
    low, high = map(dollars, cost)
    return low if low == high else f"{low} to {high}"


def _plan_notes(plan: Plan, limit: float | None) -> list[str]:
    lines = []
    if not plan.parts:
        lines.append("No model is called that costs money.")
    if plan.unmetered:
        lines.append(
            f"Not included: the cost of {', '.join(plan.unmetered)}, which is not metered."
        )
    lines += [
        f"The price of {_models_text(plan, part)} is not known: --price {part.models[0]}=IN/OUT"
        for part in plan.parts
        if part.estimate is not None and part.cost is None
    ]
    cost = plan.cost
    if limit is not None and cost is not None:
        effect = "is sufficient"
        if plan.spent + cost[0] > limit:
            effect = "stops the run before its end"
        elif plan.spent + cost[1] > limit:
            effect = "may stop the run before its end"
        lines.append(f"By this estimate --max-cost {dollars(limit)} {effect}.")
    return list(dict.fromkeys(lines))


def plan_fields(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON data."""
    return {
        "configuration": msgspec.to_builtins(plan.configuration),
        "episodes": plan.episodes,
        "turns": plan.turns,
        "recorded_turns": plan.recorded,
        "spent": round(plan.spent, 6),
        "parts": [_part_fields(part) for part in plan.parts],
        "cost": _cost_fields(plan.cost),
        "by_category": {
            category.value: {
                **_estimate_fields(estimate_of(parts)),
                "cost": _cost_fields(cost_of(parts)),
            }
            for category in CostCategory
            if (parts := plan.of(category))
        },
        "unmetered": list(plan.unmetered),
        "assumptions": list(plan.assumptions),
    }


def _part_fields(part: PlannedCost) -> dict[str, Any]:
    return {
        "category": part.category.value,
        "agent": part.agent,
        "models": list(part.models),
        "measured": part.is_measured,
        **({} if part.estimate is None else _estimate_fields(part.estimate)),
        "cost": _cost_fields(part.cost),
    }


def _estimate_fields(estimate: Estimate) -> dict[str, dict[str, int]]:
    spans = {
        "calls": estimate.calls,
        "input_tokens": estimate.input,
        "output_tokens": estimate.output,
    }
    return {name: {"low": span.low, "high": span.high} for name, span in spans.items()}


def _cost_fields(cost: tuple[float, float] | None) -> dict[str, float] | None:
    return None if cost is None else {"low": round(cost[0], 6), "high": round(cost[1], 6)}


def cost_table(
    rows: Sequence[tuple[str, Account]], total: Account, limit: float | None = None
) -> Table:
    """Return the cost by agent, compressor and judge; columns without values are left out."""
    table = plain_table()
    table.add_column("cost of", style="bold", no_wrap=True)
    optional = {"from cache": total.from_cache, "failed": total.failed}
    titles = [title for title in _COST_COLUMNS if optional.get(title, True)]
    for title in titles:
        table.add_column(title, justify="right")
    for name, account in rows:
        table.add_row(name, *(_cost_cell(account, title) for title in titles))
    cells = [_cost_cell(total, title) for title in titles]
    cells[-1] += "" if limit is None else f" of {dollars(limit)}"
    table.add_row("total", *cells, style="bold")
    return table


def _cost_cell(account: Account, title: str) -> str:
    numbers = {
        "calls": account.calls,
        "from cache": account.from_cache,
        "failed": account.failed,
        "tokens in": account.input_tokens,
        "tokens out": account.output_tokens,
    }
    return account.cost_text if title == "cost" else f"{numbers[title]:,}"


def summary_cost_table(summary: Mapping[str, Any]) -> Table | None:
    """Return the cost of a run, or None if no model was called."""
    cost = summary.get("cost")
    if not cost:
        return None
    rows = [
        (spender(CostCategory(row["category"]), row["agent"]), account_from_fields(row))
        for row in cost["spent"]
    ]
    return cost_table(rows, account_from_fields(cost["total"]))


def describe_cost(accounts: Accounts, limit: float | None) -> str:
    """Return the cost so far on one line."""
    total = accounts.total
    parts = []
    for category, name in (
        (CostCategory.AGENT, "agents"),
        (CostCategory.COMPRESSOR, "compressors"),
        (CostCategory.JUDGE, "judge"),
    ):
        account = accounts.of(category)
        if account is not None:
            parts.append(f"{name} {account.cost_text}")
    allowed = "" if limit is None else f" of {dollars(limit)}"
    tokens = f"{total.input_tokens:,} tokens in, {total.output_tokens:,} out"
    cached = f", {total.from_cache:,} answers from the cache" if total.from_cache else ""
    spent = total.cost_text if total.cost is None else f"{total.cost_text}{allowed} spent"
    return f"{spent} ({'; '.join(parts)}; {tokens}{cached})"


def result_table(summary: Mapping[str, Any], agents: Sequence[str] | None = None) -> Table:
    """Return the metrics, one row each, with a column for each agent, by default for all.

    Means of declared measures have their 95 % interval over scenarios, if there is one.
    """
    rows = list(_result_rows(list(summary["agents"].values())))
    names = list(summary["agents"])
    table = plain_table()
    table.add_column("", style="bold", no_wrap=True)
    shown = [index for index, name in enumerate(names) if agents is None or name in agents]
    for index in shown:
        table.add_column(names[index], justify="right")
    for title, cells, style in rows:
        table.add_row(title, *(cells[index] for index in shown), style=style)
    return table


def result_tables(summary: Mapping[str, Any], width: int) -> Group:
    """Return the result table, as several tables if its columns do not fit into a width."""
    rows = list(_result_rows(list(summary["agents"].values())))
    room = width - max(len(title) for title, _, _ in rows) - _COLUMN_GAP
    groups: list[list[str]] = [[]]
    left = room
    for index, agent in enumerate(summary["agents"]):
        cells = [agent, *(cells[index] for _, cells, _ in rows)]
        needed = max(map(cell_len, cells)) + _COLUMN_GAP
        if groups[-1] and needed > left:
            groups.append([])
            left = room
        groups[-1].append(agent)
        left -= needed
    tables = [result_table(summary, group) for group in groups]
    return Group(*(part for table in tables for part in ("", table)))


def _result_rows(
    agents: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, list[str], str]]:
    """Yield title, cells and style of each row; rows without values are left out."""
    budgets = [measures.get("budget") for measures in agents]
    if any(budgets):
        cells = [budget_text(budget) if budget else "-" for budget in budgets]
        yield "memory budget, tokens", cells, ""
    for name in _RESULT_METRICS:
        yield _TITLES[name], [_mean_cell(name, measures) for measures in agents], ""
        if name in _DECLARED and any(m[name] and m[name].get("high") for m in agents):
            ends = [_interval_cell(name, measures[name]) for measures in agents]
            yield "  95 % interval", ends, "dim"
        if name == "hallucination":
            for key, title in (("recall", "claim recall"), ("helpful", "complete answers")):
                yield title, [_share_cell(measures.get(key)) for measures in agents], ""
    yield from _failure_rows(agents)


def _failure_rows(
    agents: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, list[str], str]]:
    counts = {"failed": "failed turns", "unscored": "unscored turns", "flagged": "flagged"}
    for key, title in counts.items():
        if any(measures.get(key) for measures in agents):
            yield title, [str(measures.get(key, 0)) for measures in agents], "red"
    if any(measures["failed"] for measures in agents):
        for name in _DECLARED:
            worst = [measures.get("worst_case", {}).get(name) for measures in agents]
            cells = [metric_text(name, value) for value in worst]
            yield f"{_TITLES[name]}, failed turns as worst case", cells, ""


def _mean_cell(name: str, measures: Mapping[str, Any]) -> str:
    if name == "memory_tokens" and measures["last_memory_tokens"] and not measures[name]:
        return "-"  # tokens were reported, but no turn has a score
    return metric_text(name, measures[name]["mean"] if measures[name] else None)


def _interval_cell(name: str, fields: Mapping[str, Any] | None) -> str:
    if not fields or fields.get("low") is None:
        return "-"
    low, high = (metric_text(name, fields[end]) for end in ("low", "high"))
    return f"{low.removesuffix(' %')}–{high}"


def _share_cell(fields: Mapping[str, Any] | None) -> str:
    return "-" if not fields else f"{100 * fields['mean']:.1f} %"


def agreement_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return the agreement of the judge's votes, and the effects of order and length."""
    agreement = summary.get("agreement") or {}
    lines = []
    if "alpha" in agreement:
        parts = [
            f"{_TITLES.get(name, name)} "
            + ("no variation" if a["value"] is None else f"{a['value']:.2f}")
            for name, a in agreement["alpha"].items()
            if a["units"]
        ]
        lines.append(f"agreement of the judge's votes (Krippendorff's alpha): {', '.join(parts)}")
    if "order" in agreement:
        parts = [
            f"{_TITLES[name]} {o['mean_absolute']:.2f}" for name, o in agreement["order"].items()
        ]
        lines.append(f"mean difference of the scores in reversed order: {', '.join(parts)}")
    if "length" in agreement:
        length = agreement["length"]
        lines.append(
            f"outcome of the longer of two answers minus that of the shorter one: "
            f"{length['mean']:+.2f}, mean of {length['pairs']} pairs of the same turns"
        )
    return lines


def paired_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the paired differences with their intervals."""
    table = plain_table()
    for title in ("same turns", "metric", "difference", "95 % interval over scenarios"):
        table.add_column(title, justify="left" if title[0] in "sm" else "right")
    for row in rows:
        style = "" if row["clear"] else "dim"
        table.add_row(
            f"{row['agent']} − {row['versus']}",
            _TITLES[row["metric"]],
            format_difference(row["metric"], row["mean"]),
            _interval(row),
            style=style,
        )
    return table


def _interval(row: Mapping[str, Any]) -> str:
    if row["low"] is None:
        return f"none: {count_noun(row['scenarios'], 'scenario')}"
    low, high = (format_difference(row["metric"], row[end]) for end in ("low", "high"))
    return f"{low} to {high}"


def unclear_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return the range of the hallucination of each agent whose answers have unclear claims."""
    lines = []
    for agent, measures in summary["agents"].items():
        bounds = measures.get("hallucination_range")
        if bounds and bounds["low"] != bounds["high"]:
            low, high = (f"{100 * bounds[end]:.1f}" for end in ("low", "high"))
            lines.append(f"{agent}: hallucination {low} to {high} % with unclear claims")
    return lines


def format_difference(name: str, value: float) -> str:
    """Return a signed difference; rates are in percentage points."""
    if name in RATES:
        return f"{100 * value:+z.1f} pp"
    return f"{value:+z,.0f}" if name.endswith("memory_tokens") else f"{value:+z.2f}"


def comparison_table(rows: Sequence[Mapping[str, Any]], first: str, second: str) -> Table:
    """Return the metrics of two runs side by side."""
    table = plain_table()
    for title in ("agent", "metric", first, second, "difference", "95 % interval over scenarios"):
        table.add_column(title, justify="left" if title in {"agent", "metric"} else "right")
    for row in rows:
        name = row["metric"]
        cells = [
            row["agent"],
            _TITLES[name],
            metric_text(name, row["first"]),
            metric_text(name, row["second"]),
        ]
        if "difference" in row:
            cells += [format_difference(name, row["difference"]), _interval(row)]
        else:
            cells += ["-", "no turns in common"]
        table.add_row(*cells, style="" if row.get("clear") else "dim")
    return table


def plain_table() -> Table:
    """Return an empty table without lines."""
    return Table(header_style="bold", box=None, padding=(0, _COLUMN_GAP, 0, 0), pad_edge=False)
