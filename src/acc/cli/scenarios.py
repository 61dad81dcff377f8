"""`acc scenarios`: look at, check and start scenario files."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.table import Table

from acc.adapters.evaluation import scenarios as scenario_files
from acc.bootstrap.evaluation import load_scenario
from acc.cli.eval_view import console, print_error, print_json
from acc.domain.errors import InvalidInput, StorageFailed

app = App(
    name="scenarios",
    group="Evaluate agents",
    help="List, show, check and start evaluation scenarios.",
)

_Json = Annotated[bool, Parameter(help="Print as JSON.", negative=())]


@app.command(name="list")
def list_scenarios(*, json: _Json = False) -> int:
    """List the scenarios that come with acc."""
    templates = [scenario_files.load(name) for name in scenario_files.shipped_ids()]
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
    """Show the turns of a scenario as one seed makes them.

    Args:
        scenario: A shipped scenario's id, or a .toml file.
        seed: The episode's seed.
        json: Print as JSON.
    """
    rendered = load_scenario(scenario).render(seed)
    if json:
        print_json(msgspec.json.format(msgspec.json.encode(rendered), indent=2))
        return 0
    screen = console()
    screen.print(f"{rendered.title} ({rendered.id}, seed {seed})", style="bold", markup=False)
    for turn in rendered.turns:
        screen.print(f"\n{turn.turn_id}. {turn.topic.value}", style="bold cyan", markup=False)
        screen.print(turn.query, markup=False)
        expected = [" or ".join(item.any_of) for item in turn.expects]
        if turn.answer.value != "answer":
            expected.append(f"({turn.answer.value})")
        screen.print(f"right: {'; '.join(expected)}", style="green", markup=False)
        if turn.avoids:
            screen.print(f"wrong: {'; '.join(turn.avoids)}", style="red", markup=False)
        for constraint in turn.constraints + turn.amends:
            screen.print(f"rule:  {constraint.text}", style="magenta", markup=False)
    return 0


@app.command
def validate(*files: str) -> int:
    """Check scenario files, and say what is wrong by file, turn and field.

    Args:
        files: .toml files or shipped ids; without any, all shipped scenarios.
    """
    status = 0
    for reference in files or scenario_files.shipped_ids():
        try:
            template = load_scenario(reference)
        except InvalidInput as error:
            print_error(f"error: {error}")
            status = 2
        else:
            console().print(f"{template.source}: ok, {len(template.turns)} turns", markup=False)
    return status


@app.command
def new(name: str, /, *, folder: Path = Path()) -> int:
    """Write a small scenario to start from.

    Args:
        name: The scenario's id; the file is NAME.toml.
        folder: Where to write it.
    """
    text = scenario_files.starter(name)
    path = folder / f"{name}.toml"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidInput(f"{path} exists already") from None
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror}") from error
    console().print(f"wrote {path}; try: acc eval --scenario {path}", markup=False)
    return 0
