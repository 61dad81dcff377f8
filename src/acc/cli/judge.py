"""`acc judge`: compare a judge with labelled examples, and with labels of a run."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter
from rich.progress import Progress
from rich.table import Table

from acc.application.evaluation import cost
from acc.application.evaluation.configuration import JudgeOptions, judge_reference
from acc.application.use_cases.calibrate_judge import (
    CalibrationResult,
    CalibrationSummary,
    summarize_calibration,
)
from acc.bootstrap import evaluation, reports
from acc.bootstrap.settings import model_cache
from acc.cli.eval import read_thresholds
from acc.cli.eval_view import COST_LIMIT_STATUS, describe_cost, result_tables
from acc.cli.event_view import safe_text
from acc.cli.output import console, error_console, print_error, print_json
from acc.domain.claim_support import support_score
from acc.domain.errors import InvalidInput, StorageFailed
from acc.domain.labels import LabelKind
from acc.domain.statistics import ranking_quality
from acc.domain.value_objects.evaluation import ClaimThreshold
from acc.domain.value_objects.evaluation_run import JudgeConfig

app = App(name="judge", help="Compare a judge with labelled examples.")


@Parameter(name="*", group="Model judge")
@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of a model judge."""

    judge_votes: Annotated[int, Parameter(help="Votes of a model judge.")] = 1
    judge_probabilities: Annotated[
        bool,
        Parameter(
            help="Decide whether a claim is supported by the probability of the word yes.",
            negative=(),
        ),
    ] = False
    force_judge: Annotated[
        bool, Parameter(help="Accept a model judge that is known to be too small.", negative=())
    ] = False
    cache: Annotated[
        Path | None,
        Parameter(
            help="The folder of cached model responses: identical requests are not repeated. "
            "[default: the value of ACC_MODEL_CACHE, or none]",
            show_default=False,
        ),
    ] = None
    price: Annotated[
        tuple[str, ...],
        Parameter(
            help="MODEL=IN/OUT: the price in US dollars per million input and output tokens.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    max_cost: Annotated[
        float | None,
        Parameter(
            help="Maximum cost in US dollars. If it is reached, no further case starts and the "
            "exit status is 4. With --cache, the same command with a higher limit continues."
        ),
    ] = None


@app.command
def check(
    file: Annotated[
        Path | None,
        Parameter(
            help="A .toml file of labelled examples, a folder, or a shipped set: answers or "
            "difficult. [default: answers]",
            show_default=False,
        ),
    ] = None,
    /,
    *,
    judge: Annotated[
        str, Parameter(help="rubric, model:NAME, local:PATH.gguf or python:MODULE:NAME.")
    ] = "rubric",
    claim_thresholds: Annotated[
        Path | None,
        Parameter(
            help="A file of acc judge thresholds, for the rubric judge. [default: from the shipped "
            "examples of all other writers]",
            show_default=False,
        ),
    ] = None,
    how: ModelOptions | None = None,
    show_wrong: Annotated[int, Parameter(help="Number of wrong verdicts to print.")] = 10,
    json: Annotated[bool, Parameter(help="Print everything as JSON.", negative=())] = False,
) -> int:
    """Run a judge on labelled examples and print where it differs from the labels.

    Exit status: 0 for success; 1 if an example could not be scored or the model cannot be called; 2
    for invalid options; 4 if --max-cost ended the check.

    Example: acc judge check --judge rubric --show-wrong 20
    """
    if show_wrong < 0:
        raise InvalidInput(f"--show-wrong must be at least 0, got {show_wrong}")
    judge = judge_reference(judge)
    how = how or ModelOptions()
    tracker = cost.CostTracker(limit=how.max_cost)
    results, remaining = _calibrate(file, judge, how, tracker, read_thresholds(claim_thresholds))
    if json:
        print_json(msgspec.json.format(msgspec.json.encode(_json_data(judge, results)), indent=2))
    else:
        _print_results(judge, results, show_wrong)
    unscored = [result for result in results if not result.is_scored]
    if unscored:
        print_error(
            f"{len(unscored)} of {len(results)} examples are unscored; first error: "
            f"{unscored[0].reason}"
        )
    if remaining:
        print_error(f"{tracker.stop_reason()}; {remaining} cases were not judged")
        return COST_LIMIT_STATUS
    return 1 if unscored else 0


@app.command(name="agreement")
def show_agreement(
    directory: Annotated[Path, Parameter(help="The run directory.")],
    /,
    *,
    json: Annotated[bool, Parameter(help="Print everything as JSON.", negative=())] = False,
) -> int:
    """Compare the verdicts of an evaluation run with the labels of `acc label`.

    Prints kappa with intervals between raters and judge, and for each agent the rate of unsupported
    claims and of broken rules: by the judge, and corrected by the labels.

    Example: acc judge agreement runs/my-run
    """
    report = reports.report_labels(reports.open_run(directory))
    if json:
        print_json(msgspec.json.format(msgspec.json.encode(report), indent=2))
        return 0
    output = console()
    table = _table("agreement", "items", "kappa", "95 % interval")
    for row in report.agreements:
        title = safe_text(f"{row.first} and {row.second}: {row.group}")
        kappa = "-" if row.kappa is None else f"{row.kappa:.2f}"
        table.add_row(title, str(row.items), kappa, _interval(row.low, row.high, 1))
    output.print(table, "")
    table = _table("rate", "items", "labels", "judge", "corrected", "95 % interval")
    for entry in report.rates:
        rate = entry.rate
        what = "unsupported claims" if entry.kind is LabelKind.CLAIM else "broken rules"
        corrected = rate.reason if rate.corrected is None else f"{100 * rate.corrected:.1f} %"
        table.add_row(
            safe_text(f"{entry.agent}: {what}"),
            str(rate.items),
            str(rate.labelled),
            f"{100 * rate.raw:.1f} %",
            corrected,
            _interval(rate.low, rate.high, 100),
        )
    output.print(table)
    return 0


@app.command
def again(
    directory: Annotated[Path, Parameter(help="The run directory.")],
    /,
    *,
    judge: Annotated[
        str, Parameter(help="rubric, model:NAME, local:PATH.gguf or python:MODULE:NAME.")
    ] = "rubric",
    out: Annotated[
        Path | None,
        Parameter(help="The new run directory. [default: RUN-again]", show_default=False),
    ] = None,
    claim_thresholds: Annotated[
        Path | None, Parameter(help="A file of acc judge thresholds.")
    ] = None,
    how: ModelOptions | None = None,
) -> int:
    """Score the answers of an evaluation run with another judge; no agent is called.

    The new directory is a complete run directory. Repeat an interrupted command to continue it.

    Example: acc judge again runs/my-run --judge model:NAME
    """
    how, judge = how or ModelOptions(), judge_reference(judge)
    source = reports.open_run(directory)
    options = JudgeOptions(
        votes=how.judge_votes, probabilities=how.judge_probabilities, force=how.force_judge
    )
    configurator = evaluation.make_configurator()
    configuration = configurator.judged_again(
        source.configuration, judge, options, read_thresholds(claim_thresholds)
    )
    tracker = cost.CostTracker(limit=how.max_cost)
    resources = _check_models(judge, configuration.judging, how)
    target = out or directory.with_name(f"{directory.name}-again")
    if target.resolve() == directory.resolve():
        raise InvalidInput(
            "--out must not be the run that is judged again; choose another directory"
        )
    new = reports.create_run(target, configuration)
    with new.locked(), redirect_stdout(sys.stderr):
        new.record_lengths(source.lengths())
        run = evaluation.make_rejudging(source, new, resources=resources, cost=tracker)
        for _ in run.run(source.jobs()):
            pass
        results = reports.write_results(new, errors=run.outcome.errors)
    for name, error in run.outcome.errors.items():
        print_error(f"episode {name} ended with an error: {error}")
    output = console()
    output.print(result_tables(results.summary, output.width), "")
    output.print("run: ", str(target), sep="", soft_wrap=True, markup=False)
    if run.outcome.cost_limit:
        print_error(f"{run.outcome.cost_limit}; repeat the command with a higher limit")
        return COST_LIMIT_STATUS
    return 1 if run.outcome.errors else 0


@app.command
def thresholds(
    directory: Annotated[Path, Parameter(help="The run directory.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="The file to write.")],
) -> int:
    """Write the claim thresholds that fit the labels of an evaluation run.

    Thresholds do not transfer between domains. The file is used with acc eval --claim-thresholds
    and acc judge again --claim-thresholds, which record its values with the run.

    Example: acc judge thresholds runs/my-run --out thresholds.json
    """
    found = reports.thresholds_from_labels(reports.open_run(directory))
    if not found:
        raise InvalidInput(
            f"{directory} has too few labels: thresholds need at least one supported and one "
            "unsupported claim in a language, and the unsupported claim must not have another "
            "number, name or other difference; label more claims with acc label"
        )
    try:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    except OSError as error:
        raise StorageFailed(f"cannot write {out}: {error.strerror or error}") from error
    for one in found:
        console().print(
            f"{one.language}: {one.value:.3f}, unclear from {one.low:.3f} to {one.high:.3f}, "
            f"{one.examples} labels",
            markup=False,
        )
    return 0


class _ClaimLine(msgspec.Struct):
    """A line of `acc judge support`."""

    claim: str
    evidence: str | list[str]
    label: bool | None = None


@app.command
def support(
    file: Annotated[
        Path, Parameter(help="A .jsonl file. Each line has claim, evidence and, if known, label.")
    ],
    /,
) -> int:
    """Print how well evidence supports claims, a line of JSON for each line of a file.

    A line has `claim`, `evidence` (a text or a list of texts) and, if known, `label` (true for a
    supported claim). With labels, AUROC is printed on standard error.

    Example: acc judge support claims.jsonl
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror or error}") from None
    scored: list[tuple[float, bool]] = []
    for number, line in enumerate(lines, start=1):
        try:
            given = msgspec.json.decode(line, type=_ClaimLine)
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"{file}, line {number}: {error}") from None
        result = support_score(given.claim, given.evidence)
        print_json(msgspec.json.encode(result))
        if given.label is not None:
            scored.append((result.score, given.label))
    quality = ranking_quality(scored)
    if quality is not None:
        print_error(f"AUROC {quality:.3f} of {len(scored)} labelled claims")
    return 0


def _interval(low: float | None, high: float | None, scale: int) -> str:
    if low is None or high is None:
        return "-"
    if scale == 1:
        return f"{low:.2f} to {high:.2f}"
    return f"{scale * low:.1f} to {scale * high:.1f} %"


def _calibrate(
    file: Path | None,
    judge: str,
    how: ModelOptions,
    tracker: cost.CostTracker,
    thresholds: Sequence[ClaimThreshold],
) -> tuple[list[CalibrationResult], int]:
    """Return the results, and the number of cases that the cost limit left out."""
    options = JudgeOptions(
        votes=how.judge_votes, probabilities=how.judge_probabilities, force=how.force_judge
    )
    config = evaluation.make_configurator().judge(judge, options)
    cases = evaluation.load_calibration_cases(file)
    calibration = evaluation.make_calibration(
        judge,
        config,
        resources=_check_models(judge, config, how),
        cost=tracker,
        thresholds=thresholds,
    )
    output = error_console()
    bar = Progress(console=output, transient=True, disable=not output.is_terminal)
    task = bar.add_task("judging", total=len(cases))
    results: list[CalibrationResult] = []
    done = 0

    async def run() -> None:
        nonlocal done
        async with aclosing(calibration.run(cases)) as batches:
            async for batch in batches:
                results.extend(batch)
                done += 1
                bar.update(task, completed=done)
                if tracker.is_exhausted:
                    return

    try:
        # The output of a judge is not the output of the command.
        with bar, redirect_stdout(sys.stderr):
            asyncio.run(run())
    finally:
        total = tracker.accounts.total
        if total.from_cache or total.calls > total.failed:
            print_error(describe_cost(tracker.accounts, tracker.limit))
    return results, len(cases) - done


def _check_models(judge: str, config: JudgeConfig | None, how: ModelOptions) -> cost.ModelResources:
    """Return cache and prices, or raise InvalidInput if the judge's model cannot be called."""
    if config is None:
        for option, value in (("--price", how.price), ("--max-cost", how.max_cost)):
            if value:
                raise InvalidInput(f"{option} requires a model judge: --judge model:NAME")
    sources = evaluation.evaluation_sources()
    used = cost.judge_models(judge, config, sources)
    prices = cost.parse_prices(how.price, used, sources)
    cost.check_cost_limit(how.max_cost)
    cost.check_prices_known(how.max_cost, used, prices, sources)
    cost.check_models_ready(used, how.cache or model_cache(), sources)
    return cost.ModelResources(cache=how.cache, prices=prices)


def _by_part(results: Sequence[CalibrationResult]) -> dict[str, list[CalibrationResult]]:
    parts = {
        "claims": [result for result in results if result.item.is_claim],
        "constraints": [result for result in results if not result.item.is_claim],
    }
    return {name: some for name, some in parts.items() if some}


def _by_group(
    results: Sequence[CalibrationResult],
) -> dict[str, dict[str, list[CalibrationResult]]]:
    groups: dict[str, dict[str, list[CalibrationResult]]] = {
        "language": {},
        "writer": {},
        "domain": {},
        "kind": {},
    }
    for result in results:
        for group, value in (
            ("language", result.case.language),
            ("writer", result.case.writer),
            ("domain", result.case.domain),
            ("kind", result.item.kind),
        ):
            groups[group].setdefault(value, []).append(result)
    return groups


def _json_data(judge: str, results: Sequence[CalibrationResult]) -> dict[str, Any]:
    return {
        "judge": judge,
        "all": summarize_calibration(results),
        **{
            part: {
                "summary": summarize_calibration(some),
                **{
                    group: {value: summarize_calibration(few) for value, few in values.items()}
                    for group, values in _by_group(some).items()
                },
            }
            for part, some in _by_part(results).items()
        },
        "wrong": [
            {
                "id": result.item.id,
                "kind": result.item.kind,
                "label": result.item.label,
                "verdict": result.verdict,
                "reason": result.reason,
                "text": result.item.text,
                "context": result.case.context,
            }
            for result in results
            if result.is_scored and not result.is_correct
        ],
    }


def _print_results(judge: str, results: Sequence[CalibrationResult], show_wrong: int) -> None:
    output = console()
    output.print(safe_text(f"judge: {judge}, examples: {len(results)}\n"))
    for part, some in _by_part(results).items():
        output.print(_summary_table(part, some), "")
        output.print(_confusion_table(part, summarize_calibration(some)), "")
    wrong = [result for result in results if result.is_scored and not result.is_correct]
    scored = sum(result.is_scored for result in results)
    output.print(f"wrong: {len(wrong)} of {scored}", markup=False)
    for result in wrong[:show_wrong]:
        verdict = result.verdict + (f": {result.reason}" if result.reason else "")
        item = result.item
        output.print(safe_text(f"\n{item.id} ({item.kind}): {item.label}, judged {verdict}"))
        output.print(safe_text(f"  context: {' / '.join(result.case.context)}"))
        output.print(safe_text(f"  answer:  {item.answer}"))
    if len(wrong) > show_wrong:
        output.print(f"\n--show-wrong {len(wrong)} prints all of them", style="dim")


def _table(*titles: str) -> Table:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number else "left")
    return table


def _summary_table(part: str, results: Sequence[CalibrationResult]) -> Table:
    table = _table(part, "examples", "unscored", "accuracy", "kappa", "95 % interval")
    table.add_row("all", *_summary_cells(summarize_calibration(results)))
    for group, values in _by_group(results).items():
        for value, some in sorted(values.items()):
            cells = _summary_cells(summarize_calibration(some))
            table.add_row(safe_text(f"{group}: {value}"), *cells)
    return table


def _summary_cells(summary: CalibrationSummary) -> tuple[str, ...]:
    return (
        str(summary.examples),
        str(summary.unscored),
        "-" if summary.accuracy is None else f"{100 * summary.accuracy:.1f} %",
        "-" if summary.kappa is None else f"{summary.kappa:.2f}",
        _interval(summary.kappa_low, summary.kappa_high, 1),
    )


def _confusion_table(part: str, summary: CalibrationSummary) -> Table:
    verdicts = sorted({name for row in summary.confusion.values() for name in row})
    table = _table(f"{part}: label, then verdict", *verdicts)
    for label, row in summary.confusion.items():
        table.add_row(label, *(str(row.get(name, 0)) for name in verdicts))
    return table
