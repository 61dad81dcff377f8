"""`acc eval`, `acc report` and `acc compare`."""

import math
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from acc.adapters.reports.results import (
    GATE_METRICS,
    claimless_notes,
    describe_policy,
    fallback_notes,
)
from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.bootstrap import cost as spending
from acc.bootstrap import evaluation, judges
from acc.bootstrap.a2a_client import check_remote_agents, extend_allow_list
from acc.bootstrap.memory import compressor_name, version
from acc.bootstrap.models import check_model_name
from acc.bootstrap.settings import agent_model
from acc.cli.eval_view import (
    OUT_OF_MONEY,
    RunScreen,
    agreement_lines,
    comparison_table,
    console,
    paired_table,
    print_error,
    print_json,
    result_table,
    show_plan,
    summary_table,
)
from acc.cli.event_view import shown
from acc.domain.ccs import MIN_BUDGET_TOKENS
from acc.domain.cost import Price
from acc.domain.errors import InvalidInput
from acc.domain.gates import Gate
from acc.domain.value_objects.evaluation_run import EpisodeJob, EvaluationConfig

_TABLE_METRICS = ("outcome", "hallucination", "drift", "memory_tokens")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """What to run."""

    scenario: Annotated[
        str, Parameter(help="A shipped scenario's id, a .toml file, several with commas, or all.")
    ] = "all"
    agents: Annotated[
        str,
        Parameter(
            help="Who takes part: baseline (transcript replay), retrieval, acc, oracle, or "
            "NAME=python:MODULE:NAME for your own, NAME=a2a:URL for one that is served anywhere; "
            "its token is taken from ACC_TOKEN_NAME, or ACC_TOKEN."
        ),
    ] = "baseline,retrieval,acc,oracle"
    model: Annotated[
        str,
        Parameter(
            help="The model that speaks for baseline, retrieval, acc and oracle: embedded, or "
            "PROVIDER:MODEL such as openai:gpt-5.2, whose key is taken from the environment. "
            "[default: what ACC_AGENT_MODEL names, or embedded]"
        ),
    ] = ""
    compressor: Annotated[
        str,
        Parameter(
            help="Who writes the state of acc: rules, or the name of a model. NAME=acc:MODEL among "
            "the agents chooses for one of them. [default: what ACC_COMPRESSOR_MODEL names, or "
            "rules]"
        ),
    ] = ""
    judge: Annotated[
        str,
        Parameter(
            help="Who judges: rubric, model:NAME for a language model, or python:MODULE:NAME for a "
            "judge or a model of your own."
        ),
    ] = "rubric"
    judge_votes: Annotated[
        int, Parameter(help="How often a model that judges is asked; their agreement is reported.")
    ] = 1
    judge_both_orders: Annotated[
        bool,
        Parameter(
            help="Have answers scored in both orders, and report the difference.", negative=()
        ),
    ] = False
    judge_temperature: Annotated[
        float, Parameter(help="The temperature of a model that judges.")
    ] = 0.0
    judge_drives: Annotated[
        bool,
        Parameter(
            help="Have the model that judges write the queries, from the scenario's topics and its "
            "memory.",
            negative=(),
        ),
    ] = False
    force_judge: Annotated[
        bool, Parameter(help="Let a model judge that is known to be too small.", negative=())
    ] = False
    episodes: Annotated[
        int, Parameter(help="Episodes of each scenario; each has its own seed.")
    ] = 2
    turns: Annotated[int | None, Parameter(help="Only the first so many turns of an episode.")] = (
        None
    )
    seed: Annotated[int, Parameter(help="The first episode's seed.")] = 0
    window: Annotated[
        int, Parameter(help="Tokens that transcript replay may fill before it cuts the oldest.")
    ] = 4096
    budget: Annotated[int, Parameter(help="Tokens that an ACC state may have.")] = 512
    timeout: Annotated[
        float | None,
        Parameter(
            help="Seconds an agent may take for a turn; while its models are held back, by their "
            "limits or until another attempt, they do not count."
        ),
    ] = 60.0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run it."""

    workers: Annotated[
        int | None, Parameter(help="Processes to spread episodes over. [default: one per core]")
    ] = None
    out: Annotated[
        Path | None,
        Parameter(
            help="The run directory. The same command on the same directory continues the run. "
            "[default: runs/NAME-OF-THE-RUN]"
        ),
    ] = None
    cache: Annotated[
        Path | None,
        Parameter(
            help="A folder where the answers of providers' models are kept: what was asked before "
            "is not asked again. [default: what ACC_MODEL_CACHE names, or none]"
        ),
    ] = None
    allow: Annotated[
        tuple[str, ...],
        Parameter(
            help="A host, address or network that may be called although it is not public. The URL "
            "of an agent may be of this machine without that.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    fail_if: Annotated[
        tuple[str, ...],
        Parameter(
            help='Exit with 1 if this holds, as in "acc.drift > 0.05" or '
            '"acc.outcome < baseline.outcome". May be repeated.',
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    max_cost: Annotated[
        float | None,
        Parameter(
            help="The most that the run may cost, in US dollars, with what it has cost before: no "
            "further turn begins once it is spent, and the exit status is 4. The same command with "
            "a higher limit goes on."
        ),
    ] = None
    price: Annotated[
        tuple[str, ...],
        Parameter(
            help="MODEL=IN/OUT: what a model costs, in US dollars for a million tokens read and "
            "written, where the list of prices does not know it or is wrong. May be repeated.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    dry_run: Annotated[
        bool,
        Parameter(
            help="Print what would be run, how many calls that takes, and what they may cost. "
            "Nothing is asked and nothing is written.",
            negative=(),
        ),
    ] = False
    json: Annotated[
        bool, Parameter(help="Print the summary, or the plan, as JSON.", negative=())
    ] = False
    quiet: Annotated[bool, Parameter(help="Print no progress and no table.", negative=())] = False


_EVALUATION = EvaluationOptions()
_RUN = RunOptions()


def run(*, options: EvaluationOptions = _EVALUATION, how: RunOptions = _RUN) -> int:
    """Drive agents through the same turns, judge every answer, and write a report.

    Without arguments it runs every shipped scenario on embedded parts: no key, no download, no
    server. Results go to a run directory: report.html to read, summary.json, records.jsonl and
    records.csv to work with, junit.xml for a build server, episodes/ with every turn.

    With models that cost money, look first and set a limit: --dry-run tells how many calls a run
    takes and what they may cost, --max-cost 0.50 ends it where that is spent.

    Example: acc eval --scenario it-operations --agents baseline,acc --episodes 10
    """
    configuration = configure(options)
    used = spending.used_models(configuration)
    prices = spending.parse_prices(how.price, used)
    gates = _checked_gates(how, configuration)
    place = how.out or default_directory(configuration)
    spending.check_amount(how.max_cost)
    if how.dry_run:
        return show_plan(configuration, place, prices=prices, limit=how.max_cost, as_json=how.json)
    spending.check_limit(how.max_cost, used, prices)
    spending.check_ready(used, how.cache)
    if not place.exists():
        _check_remotes(configuration, how)
    directory = EvaluationDirectory.create(place, configuration)
    with directory.locked():
        outcome = _run_episodes(directory, how, prices)
        if not how.quiet and sys.stderr.isatty():
            print_error("writing the report")
        results = evaluation.write_results(directory, gates=gates, errors=outcome.errors)
    if how.json:
        print_json(msgspec.json.format(msgspec.json.encode(results.summary), indent=2))
    elif not how.quiet:
        _show(directory, results)
    _say_failing(results, was_shown=not (how.json or how.quiet))
    for name, error in outcome.errors.items():
        print_error(f"episode {name} ended: {error}")
    if outcome.mistake:
        print_error("nothing of that turn is on record: mend it and repeat the command to continue")
    if outcome.stopped:
        print_error(
            f"stopped; what was done is in {directory.path}: repeat the command to continue"
        )
        return 130
    if outcome.out_of_money:
        print_error(f"{outcome.out_of_money}; repeat the command with a higher limit to continue")
        return OUT_OF_MONEY
    failed = outcome.errors or any(result.failed for result in results.gates)
    return 1 if failed or not _is_anything_scored(results) else 0


def _is_anything_scored(results: "evaluation.Results") -> bool:
    if any(found["scored"] for found in results.summary["agents"].values()):
        return True
    print_error("no turn of any agent has a score")
    return False


def _say_failing(results: "evaluation.Results", *, was_shown: bool) -> None:
    """Tell which gates and whose turns failed; who was in the table, again if nothing worked."""
    for result in results.gates:
        if result.failed:
            print_error(f"gate failed: {result.gate} ({result.explanation})")
    turns = results.summary["turns"] or 1
    counts = {name: found["failed"] for name, found in results.summary["agents"].items()}
    for name, failed in counts.items():
        if failed >= turns or (failed and not was_shown):
            error = results.first_errors.get(name, "")
            told = f"agent {name} failed in {failed} of {turns} turns, the first: {error}"
            print_error(shown(told).plain)


def _check_remotes(configuration: EvaluationConfig, how: RunOptions) -> None:
    """Refuse agents that cannot be called, before there is a directory or a further turn."""
    with extend_allow_list(how.allow):
        check_remote_agents(configuration.agents)


def _checked_gates(how: RunOptions, configuration: EvaluationConfig) -> list[Gate]:
    if how.workers is not None and how.workers < 1:
        raise InvalidInput(f"--workers must be at least 1, not {how.workers}")
    if how.out is not None and not str(how.out).strip("."):
        raise InvalidInput("--out needs the name of a directory")
    gates = [Gate.parse(text) for text in how.fail_if]
    for gate in gates:
        gate.check_names({agent.name: agent for agent in configuration.agents}, GATE_METRICS)
    return gates


def configure(options: EvaluationOptions) -> EvaluationConfig:
    """Return the run's configuration, or raise InvalidInput saying what is wrong with it."""
    for name, value, least in (
        ("episodes", options.episodes, 1),
        ("turns", options.turns, 1),
        ("window", options.window, 64),
        ("budget", options.budget, MIN_BUDGET_TOKENS),
        ("timeout", options.timeout, 0.001),
        ("seed", options.seed, 0),
    ):
        if value is not None and not least <= value < math.inf:
            raise InvalidInput(f"--{name} must be at least {least}, not {value}")
    agents = evaluation.parse_agents(options.agents)
    model = options.model or agent_model()
    check_model_name(model)
    compressor = compressor_name("acc", options.compressor)
    evaluation.check_compressor(compressor)
    judging = judges.judging_of(
        options.judge,
        judges.JudgeOptions(
            votes=options.judge_votes,
            both_orders=options.judge_both_orders,
            temperature=options.judge_temperature,
            drives=options.judge_drives,
            force=options.force_judge,
        ),
    )
    return EvaluationConfig(
        version=version(),
        scenarios=evaluation.choose_scenarios(options.scenario),
        agents=agents,
        model=model,
        judge=options.judge,
        episodes=options.episodes,
        turns=options.turns,
        seed=options.seed,
        window=options.window,
        budget=options.budget,
        timeout=options.timeout,
        compressor=compressor,
        judging=judging,
    )


def default_directory(configuration: EvaluationConfig) -> Path:
    """Return a directory that the same configuration finds again."""
    return Path("runs") / evaluation.run_name(configuration)


def _planned(job: EpisodeJob, turns: int | None) -> int:
    count = len(evaluation.load_scenario(job.scenario.reference).turns)
    return min(count, turns) if turns else count


def _run_episodes(
    directory: EvaluationDirectory, how: RunOptions, prices: Mapping[str, Price]
) -> evaluation.EvaluationOutcome:
    configuration = directory.configuration
    planned = {job: _planned(job, configuration.turns) for job in directory.jobs()}
    recorded = {job: len(directory.lines(job)) for job in planned}
    if note := spending.limit_note(how.max_cost, configuration):
        print_error(note)
    waiting = [job for job in planned if recorded[job] < planned[job]]
    if waiting:
        _check_remotes(configuration, how)
    workers = how.workers or min(os.cpu_count() or 1, max(1, len(waiting) // 2))
    accounts = spending.spent_so_far(directory)
    screen = RunScreen(
        [agent.name for agent in configuration.agents],
        turns=sum(planned.values()),
        done=sum(recorded.values()),
        quiet=how.quiet or (how.json and not sys.stderr.isatty()),
        accounts=accounts,
        limit=how.max_cost,
    )
    purse = spending.CostTracker(
        means=spending.ModelResources(cache=how.cache, prices=prices),
        accounts=accounts,
        limit=how.max_cost,
        on_call=screen.on_call,
    )
    # What an agent prints is not our output.
    with screen, redirect_stdout(sys.stderr), extend_allow_list(how.allow):
        return evaluation.run_evaluation(
            directory, waiting, workers=workers, on_turn=screen.on_turn, spending=purse
        )


def _show(directory: EvaluationDirectory, results: "evaluation.Results") -> None:
    screen = console()
    summary = results.summary
    episodes = summary["episodes"]
    screen.print(
        f"\nepisodes: {episodes['recorded']}, turns: {summary['turns']}, "
        f"scenarios: {len(summary['configuration']['scenarios'])}\n"
    )
    screen.print(result_table(summary), "")
    names = list(summary["agents"])
    focus = "acc" if "acc" in names else names[-1]
    rows = [
        row
        for row in summary["paired"]
        if focus in (row["agent"], row["versus"]) and row["metric"] in _TABLE_METRICS
    ]
    if rows:
        screen.print(paired_table(rows), "")
    spent = summary_table(summary)
    if spent is not None:
        screen.print(spent, "")
    for note in (*fallback_notes(summary), *claimless_notes(summary)):
        screen.print(note, markup=False)
    for agent, error in results.first_errors.items():
        count = summary["agents"][agent]["failed"] + summary["agents"][agent]["unscored"]
        screen.print(f"{agent}: {count} turns without a score, the first: {error}", markup=False)
    for line in agreement_lines(summary):
        screen.print(line, markup=False)
    screen.print(describe_policy(summary), style="dim", markup=False)
    if results.report:
        screen.print(
            "report: ", results.report.resolve().as_uri(), sep="", soft_wrap=True, markup=False
        )


def report(directory: Path, /, *, detail: int = 10) -> int:
    """Rebuild the results and the page of a run directory.

    Args:
        directory: The run directory.
        detail: Episodes to show turn by turn on the page.
    """
    run_directory = EvaluationDirectory.open(directory)
    results = evaluation.write_results(run_directory, detail=detail)
    _show(run_directory, results)
    return 0


def compare(first: Path, second: Path, /, *, json: bool = False) -> int:
    """Set two runs side by side, turn by turn where they share scenario, seed and turn.

    Args:
        first: A run directory.
        second: Another one.
        json: Print the comparison as JSON.
    """
    rows = evaluation.compare_runs(
        EvaluationDirectory.open(first), EvaluationDirectory.open(second)
    )
    if json:
        print_json(msgspec.json.format(msgspec.json.encode(rows), indent=2))
        return 0
    console().print(comparison_table(rows, first.name, second.name))
    return 0
