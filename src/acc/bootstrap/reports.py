"""Open run directories and write their results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acc.application.evaluation.plan import RecordedRun
from acc.application.evaluation.results import EvaluationResults
from acc.domain.cost import Accounts
from acc.domain.errors import InvalidInput, StorageFailed
from acc.domain.gates import Gate
from acc.domain.value_objects.evaluation import ClaimThreshold
from acc.domain.value_objects.evaluation_run import EvaluationConfig

if TYPE_CHECKING:
    from acc.adapters.reports.labels import LabelSession, RunLabelSessions
    from acc.adapters.reports.run_directory import EvaluationDirectory
    from acc.adapters.reports.run_list import RunFolder
    from acc.domain.labels import LabelReport, SampleMethod


def open_runs(path: Path) -> "RunFolder":
    """Return the evaluation runs in a folder."""
    from acc.adapters.evaluation.scenarios import ScenarioLibrary
    from acc.adapters.reports.run_list import RunFolder

    return RunFolder(path, scenario_turns=ScenarioLibrary().turn_count)


def create_run(path: Path, configuration: EvaluationConfig) -> "EvaluationDirectory":
    """Create a run directory, or continue the run in it if the configuration is the same."""
    from acc.adapters.reports.run_directory import EvaluationDirectory

    return EvaluationDirectory.create(path, configuration)


def open_run(path: Path) -> "EvaluationDirectory":
    """Open the run in a directory."""
    from acc.adapters.reports.run_directory import EvaluationDirectory

    return EvaluationDirectory.open(path)


def recorded_run(path: Path, configuration: EvaluationConfig) -> RecordedRun:
    """Return what is recorded in a directory, which may not exist yet."""
    from acc.adapters.reports import results

    return results.recorded_run(path, configuration)


def recorded_cost(directory: "EvaluationDirectory") -> Accounts:
    """Return the recorded cost of a run."""
    from acc.adapters.reports.costs import load_costs

    return load_costs(directory)


def write_results(
    directory: "EvaluationDirectory",
    *,
    gates: Sequence[Gate] | None = None,
    errors: Mapping[str, str] | None = None,
    detail: int = 100,
) -> EvaluationResults:
    """Write summary, records and report of a run, and return them."""
    from acc.adapters.reports import writer

    return writer.write_results(directory, gates=gates, errors=errors, detail=detail)


def export_run(directory: "EvaluationDirectory", path: Path, kind: str) -> int:
    """Write all turns of a run, and return the number of rows, or of logs for Inspect."""
    try:
        if kind == "inspect":
            from acc.adapters.reports.inspect_log import write_inspect

            return write_inspect(directory, path)
        if kind == "csv":
            from acc.adapters.reports.export import write_csv

            return write_csv(directory, path)
        from acc.adapters.reports.parquet import write_parquet

        return write_parquet(directory, path)
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"parquet needs the package {error.name}; install it: pip install 'acc-agents[parquet]'"
        ) from error
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror or error}") from error


def compare_runs(
    first: "EvaluationDirectory", second: "EvaluationDirectory"
) -> list[dict[str, Any]]:
    """Return the metrics of two runs with their paired differences."""
    from acc.adapters.reports.results import compare

    return compare(first, second)


def open_labels(
    directory: "EvaluationDirectory",
    *,
    rater: str,
    size: int,
    seed: int,
    method: "SampleMethod | None" = None,
) -> "LabelSession":
    """Return the sample of a run that a rater labels."""
    from acc.adapters.reports.labels import LabelSession

    return LabelSession(directory, rater=rater, size=size, seed=seed, method=method)


def open_label_sessions(
    directory: "EvaluationDirectory",
    *,
    size: int,
    seed: int,
    method: "SampleMethod | None" = None,
) -> "RunLabelSessions":
    """Return the samples of a run for several raters."""
    from acc.adapters.reports.labels import RunLabelSessions

    return RunLabelSessions(directory, size=size, seed=seed, method=method)


def report_labels(directory: "EvaluationDirectory") -> "LabelReport":
    """Return the agreement of raters and judge, and corrected rates."""
    from acc.adapters.reports.labels import label_items, require_labels
    from acc.domain.labels import label_report

    return label_report(label_items(directory), require_labels(directory))


def thresholds_from_labels(directory: "EvaluationDirectory") -> tuple[ClaimThreshold, ...]:
    """Return the claim thresholds of the labels of a run; no language without both labels."""
    from acc.adapters.reports.labels import label_items, require_labels
    from acc.domain.labels import label_thresholds, merge_labels

    known = {
        rater: {key: good for key, good in own.items() if good is not None}
        for rater, own in require_labels(directory).items()
    }
    return label_thresholds(label_items(directory), merge_labels(known))


def configuration_differences(
    first: "EvaluationDirectory", second: "EvaluationDirectory"
) -> list[dict[str, str]]:
    """Return what differs between two runs besides their results."""
    from acc.adapters.reports import run_differences

    return run_differences.configuration_differences(first, second)


def turn_counts(first: "EvaluationDirectory", second: "EvaluationDirectory") -> dict[str, int]:
    """Return the recorded turns of two runs, and how many are in both."""
    from acc.adapters.reports import run_differences

    return run_differences.turn_counts(first, second)


def scenario_differences(
    directory: "EvaluationDirectory", agent: str, versus: str
) -> dict[str, dict[str, list[float]]]:
    """Return the differences of two agents by declared metric and scenario."""
    from acc.adapters.reports import results

    return results.scenario_differences(directory, agent, versus)


def extend_run(path: Path, configuration: EvaluationConfig, *, dry_run: bool) -> RecordedRun:
    """Add episodes or scenarios to a run, and return what is recorded.

    With `dry_run` they are only checked, and nothing is written.
    """
    from acc.adapters.reports import results
    from acc.adapters.reports.run_directory import EvaluationDirectory

    return results.recorded(EvaluationDirectory.extend(path, configuration, dry_run=dry_run))
