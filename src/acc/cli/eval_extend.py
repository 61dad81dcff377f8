"""`acc eval extend`: more episodes, scenarios or agents for an evaluation run."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from acc.application.evaluation.plan import remaining_episodes
from acc.bootstrap import evaluation, reports
from acc.bootstrap.memory import version
from acc.cli.eval import evaluate
from acc.cli.eval_options import RunOptions
from acc.domain.errors import InvalidInput

_RUN = RunOptions()


def extend(
    directory: Annotated[Path, Parameter(help="The run directory.")],
    /,
    *,
    episodes: Annotated[
        int | None, Parameter(help="New number of episodes of each scenario.")
    ] = None,
    scenario: Annotated[
        str, Parameter(help="Scenarios to add: shipped ids or .toml files, with commas.")
    ] = "",
    agents: Annotated[
        str,
        Parameter(
            help="Agents to add, as in acc eval. The result is a new evaluation run, by default "
            "RUN-extended: the judge scores the new answers together with the recorded ones."
        ),
    ] = "",
    how: RunOptions = _RUN,
) -> int:
    """Add episodes, scenarios or agents to an evaluation run; recorded answers are kept.

    Example: acc eval extend runs/my-run --episodes 4
    Example: acc eval extend runs/my-run --agents mine=python:my_module:MyAgent
    """
    recorded = reports.open_run(directory).configuration
    current = version()
    if recorded.version != current:
        raise InvalidInput(
            f"{directory} was made with version {recorded.version} of acc, and this is "
            f"{current}; use that version, or start a new run"
        )
    library = evaluation.scenario_library()
    if agents:
        if episodes is not None or scenario:
            raise InvalidInput(
                "--agents cannot be combined with --episodes and --scenario; extend the run twice"
            )
        configuration = evaluation.make_configurator().with_agents(recorded, agents)
        left = remaining_episodes(recorded, reports.recorded_run(directory, recorded), library)
        if left.jobs:
            raise InvalidInput(
                f"{directory} is not complete: {len(left.jobs)} of its episodes have turns that "
                f"are not recorded; continue it first: acc eval extend {directory}"
            )
        target = how.out or directory.with_name(f"{directory.name}-extended")
        if target.resolve() == directory.resolve():
            raise InvalidInput("--out must not be the run that gets the agents")
        return evaluate(configuration, replace(how, out=target), answers=directory)
    if how.out is not None:
        raise InvalidInput("acc eval extend writes to the run itself; omit --out")
    known = {choice.id for choice in recorded.scenarios}
    names = [name.strip() for name in scenario.split(",") if name.strip()]
    added = [choice for name in names if (choice := library.choice(name)).id not in known]
    configuration = replace(
        recorded,
        episodes=recorded.episodes if episodes is None else episodes,
        scenarios=(*recorded.scenarios, *added),
    )
    known_turns = reports.extend_run(directory, configuration, dry_run=how.dry_run)
    return evaluate(configuration, replace(how, out=directory), recorded=known_turns)
