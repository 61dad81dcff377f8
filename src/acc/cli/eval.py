"""`acc eval` and `acc report`."""

import asyncio
import math
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path

import msgspec

from acc.application.evaluation import cost
from acc.application.evaluation.configuration import (
    EvaluationRequest,
    JudgeOptions,
    judge_reference,
    run_name,
)
from acc.application.evaluation.plan import (
    EarlierRun,
    Plan,
    RecordedRun,
    RemainingEpisodes,
    remaining_episodes,
)
from acc.application.evaluation.readiness import check_agents_ready
from acc.application.evaluation.results import (
    EvaluationResults,
    claimless_notes,
    describe_policy,
    fallback_notes,
)
from acc.application.use_cases.run_evaluation import EvaluationOutcome, RunEvaluationUseCase
from acc.bootstrap import evaluation, proposals, reports
from acc.bootstrap.memory import compressor_name
from acc.bootstrap.settings import agent_model, model_cache, step_summary_file
from acc.bootstrap.tracing import start_tracing
from acc.cli.call import check_allow
from acc.cli.eval_options import EvaluationOptions, RunOptions
from acc.cli.eval_proposals import decision_counts
from acc.cli.eval_view import (
    COST_LIMIT_STATUS,
    ProgressView,
    agreement_lines,
    paired_table,
    print_plan,
    result_tables,
    summary_cost_table,
    unclear_lines,
)
from acc.cli.event_view import safe_text
from acc.cli.output import console, print_error, print_json
from acc.cli.step_summary import append_step_summary
from acc.domain.errors import InvalidInput
from acc.domain.gates import Gate
from acc.domain.value_objects.evaluation import ClaimThreshold
from acc.domain.value_objects.evaluation_run import AgentChoice, EvaluationConfig

_TABLE_METRICS = ("outcome", "hallucination", "drift", "memory_tokens")


_EVALUATION = EvaluationOptions()
_RUN = RunOptions()


def run(*, options: EvaluationOptions = _EVALUATION, how: RunOptions = _RUN) -> int:
    """Run agents through the same turns, judge every answer, and write a report.

    Without arguments it runs every shipped scenario with the embedded model and the rubric judge:
    no key, no download, no server. Results are written to a run directory: report.html,
    summary.json, records.jsonl and records.csv, junit.xml, and episodes/ with every turn.

    For models that cost money, use --dry-run to estimate calls and cost first, and set a limit such
    as --max-cost 0.50.

    Example: acc eval --scenario it-operations --agents baseline,acc --episodes 10
    """
    configuration = configure(options)
    if options.annotations is not None:
        print_error(
            f"annotations: {decision_counts(proposals.read_annotations(options.annotations))}"
        )
    elif options.replay is not None and configuration.judge == "rubric":
        print_error(
            "no annotations: rules and correct answers are not known, so drift is 0 and the "
            f"outcome is not comparable; next: acc eval propose {options.replay}"
        )
    return evaluate(configuration, how)


def evaluate(
    configuration: EvaluationConfig,
    how: RunOptions,
    *,
    answers: Path | None = None,
    recorded: RecordedRun | None = None,
) -> int:
    """Run what is not recorded yet, and report.

    Agents of the run directory `answers` are not called: their recorded answers are judged.
    `recorded` is what the run directory has, by default that of the same configuration.
    """
    sources = evaluation.evaluation_sources()
    called = _called_agents(configuration, answers)
    used = cost.used_models(replace(configuration, agents=called), sources)
    prices = cost.parse_prices(how.price, used, sources)
    gates = _parse_gates(how, configuration)
    path = how.out or default_directory(configuration)
    cost.check_cost_limit(how.max_cost)
    recorded = recorded or reports.recorded_run(path, configuration)
    if how.dry_run:
        plan = evaluation.make_planner(configuration).plan(
            configuration,
            recorded=recorded,
            prices=prices,
            earlier=_earlier_run(how.like or answers or path, required=how.like is not None),
        )
        print_plan(_only_called(plan, called), limit=how.max_cost, as_json=how.json)
        return 0
    cost.check_prices_known(how.max_cost, used, prices, sources)
    cost.check_models_ready(used, how.cache or model_cache(), sources)
    check_allow(how.allow)
    remaining = remaining_episodes(configuration, recorded, evaluation.scenario_library())
    if remaining.jobs:
        agents = evaluation.AgentFactory.for_run(configuration, allow=how.allow)
        with redirect_stdout(sys.stderr):
            asyncio.run(check_agents_ready(called, agents))
    unmetered = cost.unmetered_participants(configuration, sources)
    if note := cost.cost_limit_note(how.max_cost, unmetered):
        print_error(note)
    directory = reports.create_run(path, configuration)
    with directory.locked():
        directory.record_lengths(remaining.lengths)
        tracker = cost.CostTracker(accounts=reports.recorded_cost(directory), limit=how.max_cost)
        workers = _worker_count(
            how, len(remaining.jobs), [sources.most_processes(one.name) for one in used]
        )
        view = ProgressView(
            [agent.name for agent in configuration.agents],
            turns=remaining.turns,
            done=remaining.recorded,
            quiet=how.quiet or (how.json and not sys.stderr.isatty()),
            cost=tracker,
        )
        tracing = start_tracing(requested=how.otel, service_name="acc-eval")
        try:
            run_evaluation = evaluation.make_evaluation(
                directory,
                workers=workers,
                resources=cost.ModelResources(
                    cache=how.cache,
                    prices=prices,
                    allow=how.allow,
                    max_connections=how.max_connections and how.max_connections // workers,
                    outage_wait=how.outage_wait,
                    processes=workers,
                ),
                cost=tracker,
                otel=how.otel,
                answers=answers,
            )
            outcome, interrupted = _run_episodes(run_evaluation, remaining, view)
        finally:
            tracing.shutdown()
        if not how.quiet and sys.stderr.isatty():
            print_error("writing the report")
        results = reports.write_results(directory, gates=gates, errors=outcome.errors)
    return _report_outcome(results, outcome, how, interrupted=interrupted)


def _called_agents(
    configuration: EvaluationConfig, answers: Path | None
) -> tuple[AgentChoice, ...]:
    known = () if answers is None else reports.open_run(answers).configuration.agents
    return tuple(agent for agent in configuration.agents if agent not in known)


def _only_called(plan: Plan, called: Sequence[AgentChoice]) -> Plan:
    """Return a plan without the agents whose answers are recorded."""
    names = {"", *(agent.name for agent in called)}
    return replace(plan, parts=tuple(part for part in plan.parts if part.agent in names))


def _earlier_run(path: Path, *, required: bool) -> EarlierRun | None:
    """Return a run; one without recorded calls counts only if it is `required`."""
    if not required and not path.exists():
        return None
    configuration = reports.open_run(path).configuration
    recorded = reports.recorded_run(path, configuration)
    if not recorded.calls and not required:
        return None
    return EarlierRun(
        name=str(path), configuration=configuration, recorded=recorded, is_required=required
    )


def _worker_count(how: RunOptions, jobs: int, shares: Sequence[float]) -> int:
    """Return the number of workers; each needs a share of the limits of every model."""
    count = how.workers or min(os.cpu_count() or 1, max(1, jobs // 2))
    return max(1, math.floor(min(count, jobs, how.max_connections or count, *shares)))


def configure(options: EvaluationOptions) -> EvaluationConfig:
    """Return the configuration of a run, or raise InvalidInput."""
    request = EvaluationRequest(
        scenario=options.scenario,
        replay=str(options.replay or ""),
        replay_format=options.replay_format,
        annotations=str(options.annotations or ""),
        agents=options.agents,
        model=options.model or agent_model(),
        compressor=compressor_name("acc", options.compressor),
        judge=judge_reference(options.judge),
        judge_options=JudgeOptions(
            votes=options.judge_votes,
            both_orders=options.judge_both_orders,
            temperature=options.judge_temperature,
            drives=options.judge_drives,
            probabilities=options.judge_probabilities,
            force=options.force_judge,
        ),
        episodes=options.episodes,
        turns=options.turns,
        seed=options.seed,
        window=options.window,
        budget=options.budget,
        timeout=options.timeout,
        claim_thresholds=read_thresholds(options.claim_thresholds),
    )
    return evaluation.make_configurator().configure(request)


def read_thresholds(path: Path | None) -> tuple[ClaimThreshold, ...]:
    """Return the thresholds in a file of `acc judge thresholds`, or raise InvalidInput."""
    if path is None:
        return ()
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[ClaimThreshold, ...])
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise InvalidInput(f"{path} is not a file of acc judge thresholds: {error}") from None


def default_directory(configuration: EvaluationConfig) -> Path:
    """Return the directory that is used for equal configurations."""
    return Path("runs") / run_name(configuration)


def _parse_gates(how: RunOptions, configuration: EvaluationConfig) -> list[Gate]:
    if how.workers is not None and how.workers < 1:
        raise InvalidInput(f"--workers must be at least 1, got {how.workers}")
    if how.max_connections is not None and how.max_connections < 1:
        raise InvalidInput(f"--max-connections must be at least 1, got {how.max_connections}")
    if how.like is not None and not how.dry_run:
        raise InvalidInput("--like is the run that --dry-run compares with; add --dry-run")
    if not 0 <= how.outage_wait < math.inf:
        raise InvalidInput(f"--outage-wait must be at least 0, got {how.outage_wait}")
    if how.out is not None and not str(how.out).strip("."):
        raise InvalidInput("--out must be the name of a directory")
    gates = [Gate.parse(text) for text in how.fail_if]
    for gate in gates:
        gate.check_names([agent.name for agent in configuration.agents])
    return gates


def _run_episodes(
    run_evaluation: RunEvaluationUseCase, remaining: RemainingEpisodes, view: ProgressView
) -> tuple[EvaluationOutcome, bool]:
    """Run the remaining episodes; return the outcome and whether it was interrupted."""
    # The output of agents is not the output of the command.
    with view, redirect_stdout(sys.stderr), _sigterm_as_interrupt():
        try:
            with closing(run_evaluation.run(remaining.jobs)) as events:
                for event in events:
                    view.update(event)
        except KeyboardInterrupt:
            return run_evaluation.outcome, True
    return run_evaluation.outcome, False


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM as Ctrl-C, so that terminating the process loses no recorded turn."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _report_outcome(
    results: EvaluationResults, outcome: EvaluationOutcome, how: RunOptions, *, interrupted: bool
) -> int:
    """Print results, failures and why the run ended; return the exit status."""
    if how.json:
        print_json(msgspec.json.format(msgspec.json.encode(results.summary), indent=2))
    elif not how.quiet:
        _print_results(results)
    if (step_summary := step_summary_file()) is not None:
        append_step_summary(step_summary, results)
    _print_failures(results, table_printed=not (how.json or how.quiet))
    for name, error in outcome.errors.items():
        print_error(f"episode {name} ended with an error: {error}")
    if outcome.aborted:
        print_error(
            "the last turn was not recorded: fix the error and repeat the command to continue"
        )
    if interrupted:
        print_error(
            f"stopped; recorded turns are in {results.report.parent}; "
            "repeat the command to continue"
        )
        return 130
    if outcome.cost_limit:
        print_error(f"{outcome.cost_limit}; repeat the command with a higher limit to continue")
        return COST_LIMIT_STATUS
    has_failed = outcome.errors or any(result.failed for result in results.gates)
    is_complete = _has_scores(results) and not any(
        agent["failed"] and not agent["scored"] and not agent["unscored"]
        for agent in results.summary["agents"].values()
    )
    return 1 if has_failed or not is_complete else 0


def _has_scores(results: EvaluationResults) -> bool:
    if any(agent["scored"] for agent in results.summary["agents"].values()):
        return True
    print_error("no turn of any agent has a score; see the errors in the report")
    return False


def _print_failures(results: EvaluationResults, *, table_printed: bool) -> None:
    """Print failed gates and agents with failed turns; agents only if the table was not safe_text.

    An agent whose turns all failed is always printed.
    """
    for result in results.gates:
        if result.failed:
            print_error(f"gate failed: {result.gate} ({result.explanation})")
    turns = results.summary["turns"] or 1
    counts = {name: agent["failed"] for name, agent in results.summary["agents"].items()}
    for name, failed in counts.items():
        if failed >= turns or (failed and not table_printed):
            error = results.first_errors.get(name, "")
            message = f"agent {name} failed in {failed} of {turns} turns; first error: {error}"
            print_error(safe_text(message).plain)


def _print_results(results: EvaluationResults) -> None:
    output = console()
    summary = results.summary
    episodes = summary["episodes"]
    output.print(
        f"\nepisodes: {episodes['recorded']}, turns: {summary['turns']}, "
        f"scenarios: {len(summary['configuration']['scenarios'])}"
    )
    output.print(result_tables(summary, output.width), "")
    names = list(summary["agents"])
    focus = "acc" if "acc" in names else names[-1]
    rows = [
        row
        for row in summary["paired"]
        if focus in (row["agent"], row["versus"]) and row["metric"] in _TABLE_METRICS
    ]
    if rows:
        output.print(paired_table(rows), "")
        if rows[0]["reason"]:
            output.print(f"No claim about other scenarios: {rows[0]['reason']}.", markup=False)
    for line in unclear_lines(summary):
        output.print(line, markup=False)
    costs = summary_cost_table(summary)
    if costs is not None:
        output.print(costs, "")
    for note in (*fallback_notes(summary), *claimless_notes(summary)):
        output.print(note, markup=False)
    for agent, error in results.first_errors.items():
        count = summary["agents"][agent]["failed"] + summary["agents"][agent]["unscored"]
        output.print(f"{agent}: {count} turns without a score; first error: {error}", markup=False)
    for line in agreement_lines(summary):
        output.print(line, markup=False)
    output.print(describe_policy(summary), style="dim", markup=False)
    if results.report:
        output.print(
            "report: ", results.report.resolve().as_uri(), sep="", soft_wrap=True, markup=False
        )


def report(directory: Path, /, *, detail: int = 100) -> int:
    """Write the results and the report page of a run directory again.

    Args:
        directory: The run directory.
        detail: Number of episodes that get a page with every turn.
    """
    _print_results(reports.write_results(reports.open_run(directory), detail=detail))
    return 0
