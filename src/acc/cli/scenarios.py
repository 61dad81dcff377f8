"""`acc scenarios`: list, show, validate and create scenario files."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.table import Table

from acc.bootstrap.evaluation import scenario_library
from acc.cli.output import console, print_error, print_json
from acc.domain.errors import InvalidInput, StorageFailed

app = App(name="scenarios", help="List, show, validate and create evaluation scenarios.")

_Json = Annotated[bool, Parameter(help="Print as JSON.", negative=())]


@app.command(name="list")
def list_scenarios(*, json: _Json = False) -> int:
    """List the shipped scenarios."""
    templates = scenario_library().shipped()
    if json:
        rows = [
            {
                "id": t.id,
                "title": t.entry.title,
                "domain": t.entry.domain,
                "language": t.entry.language,
                "turns": len(t.turns),
                "summary": t.entry.summary,
            }
            for t in templates
        ]
        print_json(msgspec.json.format(msgspec.json.encode(rows), indent=2))
        return 0
    table = Table(header_style="bold")
    for title in ("id", "domain", "language", "turns", "about"):
        table.add_column(title, no_wrap=title in {"id", "domain"})
    for template in templates:
        entry = template.entry
        table.add_row(
            template.id, entry.domain, entry.language, str(len(template.turns)), entry.summary
        )
    console().print(table)
    return 0


@app.command
def show(scenario: str, /, *, seed: int = 0, json: _Json = False) -> int:
    """Show the turns of a scenario for a seed.

    Args:
        scenario: The id of a shipped scenario, or a .toml file.
        seed: The seed of the episode.
        json: Print as JSON.
    """
    rendered = scenario_library().render(scenario, seed)
    if json:
        print_json(msgspec.json.format(msgspec.json.encode(rendered), indent=2))
        return 0
    output = console()
    output.print(f"{rendered.title} ({rendered.id}, seed {seed})", style="bold", markup=False)
    rules: dict[str, str] = {}
    for turn in rendered.turns:
        output.print(f"\n{turn.turn_id}. {turn.topic.value}", style="bold cyan", markup=False)
        output.print(turn.query, markup=False)
        expected = [" or ".join(item.any_of) for item in turn.expects]
        if turn.answer.value != "answer":
            expected.append(f"({turn.answer.value})")
        if expected:
            output.print(f"expected: {'; '.join(expected)}", style="green", markup=False)
        if turn.avoids:
            output.print(f"avoid:    {'; '.join(turn.avoids)}", style="red", markup=False)
        for constraint in turn.constraints + turn.amends:
            rules[constraint.id] = constraint.text
            output.print(f"rule:     {constraint.text}", style="magenta", markup=False)
        for rule_id in turn.lifts:
            output.print(f"lifted:   {rules.get(rule_id, rule_id)}", style="magenta", markup=False)
    return 0


@app.command
def validate(*files: str) -> int:
    """Validate scenario files and print errors with file, turn and field.

    Args:
        files: .toml files or ids of shipped scenarios. [default: all shipped scenarios]
    """
    status = 0
    library = scenario_library()
    for reference in files or [template.id for template in library.shipped()]:
        try:
            template = library.template(reference)
        except InvalidInput as error:
            print_error(f"error: {error}")
            status = 2
        else:
            console().print(
                f"{template.source}: ok, {len(template.turns)} turns; "
                f"{100 * template.variation():.0f} % of the queries differ between two seeds",
                markup=False,
            )
    return status


@app.command
def new(name: str, /, *, folder: Path = Path()) -> int:
    """Write a small example scenario.

    Args:
        name: The id of the scenario; the file is NAME.toml. The suffix may be given.
        folder: The folder of the file.
    """
    scenario_id = name.removesuffix(".toml")
    text = scenario_library().starter_text(scenario_id)
    path = folder / f"{scenario_id}.toml"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidInput(
            f"{path} already exists; choose another name, or another --folder"
        ) from None
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror}") from error
    console().print(f"wrote {path}; try: acc eval --scenario {path}", markup=False)
    return 0
