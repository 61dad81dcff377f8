"""What a run looks like: live progress on a terminal, plain lines elsewhere, tables at the end."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console, Group
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

from acc.adapters.reports.costs import account_from_fields
from acc.bootstrap.evaluation_plan import Plan, PlannedPart, plan_of, span_text, total_of
from acc.domain.cost import Account, Accounts, CostCategory, ModelCall, Price, dollars, spender
from acc.domain.metrics import metric
from acc.domain.value_objects.evaluation_run import EvaluationConfig
from acc.domain.value_objects.live_evaluation import TurnResult

_UNKNOWN = "price not known"


def show_plan(
    configuration: EvaluationConfig,
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


_NUMBERS = ("calls", "from cache", "failed", "tokens in", "tokens out", "cost")


def spent_table(
    rows: Sequence[tuple[str, Account]], total: Account, limit: float | None = None
) -> Table:
    """Return who spent what; a column stands only where there is something in it."""
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("spent by", style="bold", no_wrap=True)
    titles = [
        title for title in _NUMBERS if title not in ("from cache", "failed") or _any(total, title)
    ]
    for title in titles:
        table.add_column(title, justify="right")
    allowed = "" if limit is None else f" of {dollars(limit)}"
    for name, account in rows:
        table.add_row(name, *(_cell(account, title) for title in titles))
    last = [_cell(total, title) for title in titles]
    table.add_row("together", *last[:-1], last[-1] + allowed, style="bold")
    return table


def live_table(accounts: Accounts, agents: Sequence[str], limit: float | None) -> Table:
    """Return what was spent so far."""
    rows = [(spender(part, agent), one) for part, agent, one in accounts.rows(agents)]
    return spent_table(rows, accounts.total, limit)


def live_words(accounts: Accounts, limit: float | None) -> str:
    """Return what was spent so far in a few words, by part."""
    total = accounts.total
    parts = []
    for part, name in (
        (CostCategory.AGENT, "agents"),
        (CostCategory.COMPRESSOR, "compressors"),
        (CostCategory.JUDGE, "judge"),
    ):
        account = accounts.of(part)
        if account is not None:
            parts.append(f"{name} {account.money}")
    allowed = "" if limit is None else f" of {dollars(limit)}"
    tokens = f"{total.input_tokens:,} tokens in, {total.output_tokens:,} out"
    kept = f", {total.kept:,} answers from the cache" if total.kept else ""
    return f"{total.money}{allowed} spent ({'; '.join(parts)}; {tokens}{kept})"


def summary_table(summary: Mapping[str, Any]) -> Table | None:
    """Return what a run cost, or None where no model was asked."""
    cost = summary.get("cost")
    if not cost:
        return None
    rows = [
        (spender(CostCategory(row["part"]), row["agent"]), account_from_fields(row))
        for row in cost["spent"]
    ]
    return spent_table(rows, account_from_fields(cost["total"]))


def _any(total: Account, title: str) -> bool:
    return bool(total.kept if title == "from cache" else total.failed)


def _cell(account: Account, title: str) -> str:
    numbers = {
        "calls": account.calls,
        "from cache": account.kept,
        "failed": account.failed,
        "tokens in": account.input_tokens,
        "tokens out": account.output_tokens,
    }
    return account.money if title == "cost" else f"{numbers[title]:,}"


_LINE_EVERY = 5.0
#: Control characters, but for tab and line feed, become pictures of themselves.
_STEERING = {n: 0x2400 + n for n in range(32) if chr(n) not in "\t\n"}


#: Others have no picture; of those that turn text around, these make it read as what it is not.
_STEERING |= dict.fromkeys(
    [*range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD
)


#: A table in a file or a pipe need not be squeezed.
_FILE_WIDTH = 160
_SHOWN = ("outcome", "hallucination", "drift", "memory_tokens")
_TITLES = {
    "outcome": "outcome",
    "relevance": "relev.",
    "answer_quality": "quality",
    "instruction_following": "instr.",
    "coherence": "coher.",
    "hallucination": "hallucin.",
    "drift": "drift",
    "memory_tokens": "tokens",
    "last_memory_tokens": "last turn",
}


def console() -> Console:
    """Return the console for results; lines are wrapped only where someone looks at them."""
    seen = sys.stdout.isatty()
    return Console(
        highlight=False, emoji=False, soft_wrap=not seen, width=None if seen else _FILE_WIDTH
    )


def error_console() -> Console:
    """Return the console for progress and errors."""
    return Console(stderr=True, highlight=False, emoji=False, soft_wrap=not sys.stderr.isatty())


def harmless(text: str) -> str:
    """Return text in which the signs that would steer a terminal can be seen."""
    return text.translate(_STEERING)


def print_error(text: str) -> None:
    """Tell what went wrong, in whosever words."""
    error_console().print(harmless(text), markup=False)


class RunScreen:
    """Shows a run while it goes on; use it as a context manager."""

    def __init__(
        self,
        agents: Sequence[str],
        *,
        turns: int,
        done: int,
        quiet: bool,
        accounts: Accounts | None = None,
        limit: float | None = None,
    ) -> None:
        self._console = error_console()
        self._agents = agents
        #: What models cost, which somebody else counts.
        self._accounts = accounts or Accounts()
        self._limit = limit
        self._turns = turns
        self._done = done
        self._quiet = quiet
        self._sums = {agent: {name: [0.0, 0] for name in _SHOWN} for agent in agents}
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

    def __enter__(self) -> "RunScreen":
        if not self._quiet and self._console.is_terminal:
            self._live = Live(self._picture(), console=self._console, refresh_per_second=8)
            self._live.__enter__()
        elif not self._quiet and self._done:
            self._say(f"continuing: {self._done} of {self._turns} turns are on record")
        return self

    def __exit__(self, *problem: Any) -> None:
        if self._live is not None:
            self._live.update(self._picture())
            self._live.__exit__(*problem)
        elif not self._quiet:
            self._line()

    def on_turn(self, episode: str, result: TurnResult) -> None:
        """Take note of a turn."""
        self._done += 1
        for record in result.records:
            self._failed[record.agent_name] += bool(record.error)
            for name in _SHOWN:
                value = metric(record, name)
                if value is not None:
                    total = self._sums[record.agent_name][name]
                    total[0] += value
                    total[1] += 1
        if self._live is not None:
            label = f"{episode} turn {result.query.turn_id}"
            self._progress.update(self._task, completed=self._done, description=label)
            self._live.update(self._picture())
        elif not self._quiet and time.monotonic() - self._last_line > _LINE_EVERY:
            self._line()

    def on_call(self, call: ModelCall) -> None:
        """Take note of a model's call, which is counted already."""
        if self._live is not None:
            self._live.update(self._picture())
        elif not self._quiet and time.monotonic() - self._last_line > _LINE_EVERY:
            self._line()

    def _picture(self) -> Group:
        table = Table(box=None, pad_edge=False)
        table.add_column("agent", style="bold")
        for name in _SHOWN:
            table.add_column(_TITLES[name], justify="right")
        table.add_column("failed", justify="right")
        for agent in self._agents:
            cells = [self._mean(agent, name) for name in _SHOWN]
            table.add_row(agent, *cells, str(self._failed[agent]))
        if not self._accounts.by_spender:
            return Group(self._progress, table)
        spent = live_table(self._accounts, self._agents, self._limit)
        return Group(self._progress, table, "", spent)

    def _mean(self, agent: str, name: str) -> str:
        total, count = self._sums[agent][name]
        return "-" if not count else figure(name, total / count)

    def _line(self) -> None:
        self._last_line = time.monotonic()
        seconds = self._last_line - self._started
        spent = ""
        if self._accounts.by_spender:
            spent = f", {live_words(self._accounts, self._limit)}"
        self._say(f"{self._done}/{self._turns} turns, {seconds:.0f} s{spent}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False)


def figure(name: str, value: float | None) -> str:
    """Return a metric's value as people read it."""
    if value is None:
        return "not reported" if name.endswith("memory_tokens") else "-"
    if name in {"hallucination", "drift"}:
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if name.endswith("memory_tokens") else f"{value:.2f}"


def result_table(summary: Mapping[str, Any]) -> Table:
    """Return the table that ends a run."""
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("agent", style="bold", no_wrap=True)
    names = (
        "relevance",
        "answer_quality",
        "instruction_following",
        "coherence",
        "hallucination",
        "drift",
        "memory_tokens",
        "last_memory_tokens",
    )
    for name in names:
        table.add_column(_TITLES[name], justify="right")
    odd = any(m["failed"] or m["unscored"] for m in summary["agents"].values())
    flagged = any(m.get("flagged") for m in summary["agents"].values())
    if odd:
        table.add_column("failed / unscored", justify="right", style="red")
    if flagged:
        table.add_column("flagged", justify="right", style="red")
    for agent, measures in summary["agents"].items():
        cells = [figure(name, measures[name]["mean"] if measures[name] else None) for name in names]
        if measures["last_memory_tokens"] and not measures["memory_tokens"]:
            cells[names.index("memory_tokens")] = (
                "-"  # tokens are reported, and no turn has a score
            )
        if odd:
            cells.append(f"{measures['failed']} / {measures['unscored']}")
        if flagged:
            cells.append(str(measures.get("flagged", 0)))
        table.add_row(agent, *cells)
    return table


def agreement_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return how far the judge agreed with itself, in a line for votes and one for order."""
    found = summary.get("agreement") or {}
    lines = []
    if "alpha" in found:
        parts = [
            f"{_TITLES.get(name, name)} "
            + ("no variation" if a["value"] is None else f"{a['value']:.2f}")
            for name, a in found["alpha"].items()
            if a["units"]
        ]
        lines.append(f"agreement of the judge's votes (Krippendorff's alpha): {', '.join(parts)}")
    if "order" in found:
        parts = [f"{_TITLES[name]} {o['mean_absolute']:.2f}" for name, o in found["order"].items()]
        lines.append(f"the opposite order changed the scores on average by: {', '.join(parts)}")
    return lines


def paired_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the paired differences with their intervals."""
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("same turns", "metric", "difference", "95 % interval"):
        table.add_column(title, justify="left" if title[0] in "sm" else "right")
    for row in rows:
        style = "" if row["clear"] else "dim"
        table.add_row(
            f"{row['agent']} − {row['versus']}",
            _TITLES[row["metric"]],
            difference(row["metric"], row["mean"]),
            f"{difference(row['metric'], row['low'])} to {difference(row['metric'], row['high'])}",
            style=style,
        )
    return table


def difference(name: str, value: float) -> str:
    """Return a signed difference as people read it; rates are in percentage points."""
    if name in {"hallucination", "drift"}:
        return f"{100 * value:+.1f} pp"
    return f"{value:+,.0f}" if name.endswith("memory_tokens") else f"{value:+.2f}"


def print_json(data: bytes) -> None:
    """Write machine-readable output as it is."""
    sys.stdout.write(data.decode())
    sys.stdout.write("\n")


def comparison_table(rows: Sequence[Mapping[str, Any]], first: str, second: str) -> Table:
    """Return two runs side by side."""
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("agent", "metric", first, second, "difference", "95 % interval, same turns"):
        table.add_column(title, justify="left" if title in {"agent", "metric"} else "right")
    for row in rows:
        name = row["metric"]
        cells = [
            row["agent"],
            _TITLES[name],
            figure(name, row["first"]),
            figure(name, row["second"]),
        ]
        if "difference" in row:
            low, high = difference(name, row["low"]), difference(name, row["high"])
            cells += [difference(name, row["difference"]), f"{low} to {high}"]
        else:
            cells += ["-", "no turns in common"]
        table.add_row(*cells, style="" if row.get("clear") else "dim")
    return table


#: The exit status where all that may be spent is spent.
OUT_OF_MONEY = 4
