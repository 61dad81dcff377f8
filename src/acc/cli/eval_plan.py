"""`acc eval plan`: the power of an evaluation, from a pilot."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.table import Table

from acc.bootstrap import reports
from acc.cli.eval_view import plain_table
from acc.cli.output import console, print_json
from acc.domain.errors import InvalidInput
from acc.domain.metrics import spread
from acc.domain.statistics import MIN_SCENARIOS, detectable_difference, power

_PLANNED_SCENARIOS = (6, 8, 12, 16, 24, 36, 48)


def plan(
    directory: Annotated[Path, Parameter(help="The run directory of a pilot.")],
    /,
    *,
    agent: Annotated[str, Parameter(help="The agent that is compared.")] = "acc",
    versus: Annotated[str, Parameter(help="The agent that it is compared with.")] = "baseline",
    json: Annotated[bool, Parameter(help="Print everything as JSON.", negative=())] = False,
) -> int:
    """Print the power to find a difference of two agents, by number of scenarios.

    The difference and its deviation between scenarios come from a pilot, a small evaluation run.

    Example: acc eval plan runs/pilot --agent acc --versus baseline
    """
    pilot = reports.scenario_differences(reports.open_run(directory), agent, versus)
    rows = power_rows(pilot)
    if not rows:
        raise InvalidInput(
            f"{directory} cannot be a pilot: {agent} and {versus} need answers to the same turns "
            "of at least 2 scenarios; add scenarios with acc eval extend, or start a larger run"
        )
    if json:
        print_json(msgspec.json.format(msgspec.json.encode(rows), indent=2))
        return 0
    output = console()
    for table in power_tables(rows, f"{agent} minus {versus}"):
        output.print(table, "")
    if rows and rows[0]["pilot_scenarios"] < MIN_SCENARIOS:
        output.print(
            f"The pilot has {rows[0]['pilot_scenarios']} scenarios: the deviation between "
            "scenarios is a rough estimate.",
            markup=False,
        )
    if any(not row["difference"] for row in rows):
        output.print(
            "A difference of zero has no power with any number of scenarios: in the pilot both "
            "agents had equal values. Run more turns or scenarios.",
            markup=False,
        )
    return 0


def power_rows(pilot: Mapping[str, Mapping[str, Sequence[float]]]) -> list[dict[str, Any]]:
    """Return the power of each declared metric by number of scenarios."""
    rows: list[dict[str, Any]] = []
    for name, by_scenario in pilot.items():
        means = [sum(values) / len(values) for values in by_scenario.values() if values]
        measured = spread(means)
        if measured is None or len(means) < 2:
            continue
        rows.append(
            {
                "metric": name,
                "pilot_scenarios": len(means),
                "difference": round(measured.mean, 6),
                "deviation": round(measured.deviation, 6),
                "power": {
                    str(count): round(power(measured.mean, measured.deviation, count), 4)
                    for count in _PLANNED_SCENARIOS
                },
                "detectable": {
                    str(count): detectable_difference(measured.deviation, count)
                    for count in _PLANNED_SCENARIOS
                },
            }
        )
    return rows


def power_tables(rows: Sequence[Mapping[str, Any]], title: str) -> list[Table]:
    """Return the power and the detectable difference by number of scenarios, for each metric."""
    tables = []
    for row in rows:
        table = plain_table()
        table.title = (
            f"{row['metric']}, {title}: {row['difference']:+.3f}, deviation {row['deviation']:.3f}"
        )
        table.title_justify, table.title_style = "left", "bold"
        table.add_column("scenarios")
        for count in _PLANNED_SCENARIOS:
            table.add_column(str(count), justify="right", min_width=5)
        powers = (f"{100 * row['power'][str(count)]:.0f} %" for count in _PLANNED_SCENARIOS)
        table.add_row("power", *powers)
        found = [row["detectable"][str(count)] for count in _PLANNED_SCENARIOS]
        cells = ["-" if value is None else f"{value:.3f}" for value in found]
        table.add_row("detectable at 80 %", *cells)
        tables.append(table)
    return tables
