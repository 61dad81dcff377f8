"""Write everything that follows from the recorded turns of a run."""

from collections.abc import Mapping, Sequence

import msgspec

from acc.adapters.reports import junit, page, results
from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.application.evaluation.results import EvaluationResults
from acc.domain.gates import Gate


def write_results(
    run: EvaluationDirectory,
    *,
    gates: Sequence[Gate] | None = None,
    errors: Mapping[str, str] | None = None,
    detail: int = page.DEFAULT_DETAILED_EPISODES,
) -> EvaluationResults:
    """Write summary, records, JUnit file and report page, and return the summary.

    Gates and errors are not part of the recorded turns: if they are None, those of the previous
    summary are used. `detail` is the number of episodes that get a page with every turn.
    """
    previous = results.read_summary(run)
    if gates is None:
        gates = [Gate.parse(gate["gate"]) for gate in previous.get("gates", [])]
    if errors is None:
        errors = previous.get("errors", {})
    tally = results.tally_turns(run)
    summary = results.summarize(run, tally, errors)
    checked = tuple(gate.evaluate(results.gate_measures(summary)) for gate in gates)
    summary["gates"] = [msgspec.to_builtins(gate) for gate in checked]
    text = msgspec.json.format(msgspec.json.encode(summary), indent=2)
    run.write("summary.json", text + b"\n")
    results.write_records(run)
    failed = {name: agent["failed"] for name, agent in summary["agents"].items()}
    run.write("junit.xml", junit.junit_xml(summary, checked, failed))
    report = page.write_report(run, summary, detail=detail)
    return EvaluationResults(
        summary=summary, gates=checked, first_errors=tally.first_errors, report=report
    )
