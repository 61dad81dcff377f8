"""`acc compare`: two evaluation runs side by side."""

from pathlib import Path

import msgspec

from acc.bootstrap import reports
from acc.cli.eval_view import comparison_table
from acc.cli.event_view import safe_text
from acc.cli.output import console, count_noun, print_json


def compare(first: Path, second: Path, /, *, json: bool = False) -> int:
    """Compare two evaluation runs, turn by turn.

    Only turns that both runs have are compared: turns with the same scenario, seed and number.

    Args:
        first: A run directory.
        second: Another run directory.
        json: Print the comparison as JSON.
    """
    one, other = reports.open_run(first), reports.open_run(second)
    rows = reports.compare_runs(one, other)
    settings = reports.configuration_differences(one, other)
    turns = reports.turn_counts(one, other)
    if json:
        data = {"differences": rows, "settings": settings, "turns": turns}
        print_json(msgspec.json.format(msgspec.json.encode(data), indent=2))
        return 0
    output = console()
    output.print(comparison_table(rows, first.name, second.name))
    if turns["common"] < max(turns["first"], turns["second"]):
        output.print(
            f"\nThe means are those of all turns: {turns['first']} of {first.name}, "
            f"{turns['second']} of {second.name}. The differences are those of the "
            f"{count_noun(turns['common'], 'turn')} that both runs have.",
            markup=False,
        )
    if settings:
        output.print("\nThe runs also differ in:", markup=False)
        for row in settings:
            line = f"  {row['what']}: {row['first']}, then {row['second']}"
            output.print(safe_text(line), soft_wrap=True)
    return 0
