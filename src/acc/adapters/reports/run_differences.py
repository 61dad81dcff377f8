"""How two evaluation runs differ besides their results: configuration and turns."""

from acc.adapters.reports.results import tally_turns
from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.domain.value_objects.evaluation_run import EvaluationConfig


def configuration_differences(
    first: EvaluationDirectory, second: EvaluationDirectory
) -> list[dict[str, str]]:
    """Return what differs between two runs besides their results.

    Scenario text and rules are compared by the digest of each scenario that both runs have.
    """
    one, other = first.configuration, second.configuration
    rows = [
        {"what": name, "first": str(mine), "second": str(theirs)}
        for name in (
            "model",
            "compressor",
            "window",
            "budget",
            "judge",
            "turns",
            "episodes",
            "seed",
            "timeout",
            "version",
        )
        if (mine := getattr(one, name)) != (theirs := getattr(other, name))
    ]
    rows += [
        {"what": f"settings of the judge: {name}", "first": str(mine), "second": str(theirs)}
        for name in ("judging", "claim_thresholds", "visible_characters")
        if (mine := getattr(one, name)) != (theirs := getattr(other, name))
    ]
    digests = {scenario.id: scenario.digest for scenario in other.scenarios}
    rows += [
        {
            "what": f"text or rules of scenario {scenario.id}",
            "first": scenario.digest[:12],
            "second": digests[scenario.id][:12],
        }
        for scenario in one.scenarios
        if scenario.id in digests and digests[scenario.id] != scenario.digest
    ]
    for what, ours, theirs in (
        ("scenarios", _ids(one), _ids(other)),
        ("agents", [agent.name for agent in one.agents], [agent.name for agent in other.agents]),
    ):
        if set(ours) != set(theirs):
            only = [
                ", ".join(name for name in mine if name not in others) or "none"
                for mine, others in ((ours, theirs), (theirs, ours))
            ]
            row = {"what": f"{what} that the other run does not have"}
            rows.append({**row, "first": only[0], "second": only[1]})
    kinds = {agent.name: agent.kind for agent in other.agents}
    rows += [
        {"what": f"agent {agent.name}", "first": agent.kind, "second": kinds[agent.name]}
        for agent in one.agents
        if agent.name in kinds and kinds[agent.name] != agent.kind
    ]
    return rows


def turn_counts(first: EvaluationDirectory, second: EvaluationDirectory) -> dict[str, int]:
    """Return the recorded turns of two runs, and how many are in both."""
    one, other = _turns(first), _turns(second)
    return {"first": len(one), "second": len(other), "common": len(one & other)}


def _turns(run: EvaluationDirectory) -> set[tuple[str, int]]:
    tally = tally_turns(run)
    return {(tally.episodes[episode].name, turn) for episode, turn, _ in tally.turns}


def _ids(configuration: EvaluationConfig) -> list[str]:
    return [scenario.id for scenario in configuration.scenarios]
