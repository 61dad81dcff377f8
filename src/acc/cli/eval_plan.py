"""`acc eval plan`: the power of an evaluation, from a pilot."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from acc.bootstrap import reports
from acc.cli.eval_view import power_rows, power_tables
from acc.cli.output import console, print_json
from acc.domain.errors import InvalidInput
from acc.domain.statistics import MIN_SCENARIOS


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
