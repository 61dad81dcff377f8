"""What an evaluation is made of: agents, judge, scenarios, workers and results."""

import asyncio
import gc
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acc.application.evaluation.episode import Episode, EpisodeEnd, EpisodeRunner
from acc.bootstrap.cost import CostTracker, ModelResources
from acc.bootstrap.judges import make_examiner, open_judge
from acc.bootstrap.memory import MEMORIES, RULES, make_memory
from acc.bootstrap.models import EpisodeModels, make_model
from acc.domain.cost import CostCategory, ModelCall
from acc.domain.errors import AccError, InvalidInput
from acc.domain.gates import Gate, GateResult
from acc.domain.value_objects.endpoint import check_remote_url
from acc.domain.value_objects.evaluation_run import (
    AgentChoice,
    EpisodeJob,
    EvaluationConfig,
    ScenarioChoice,
)
from acc.domain.value_objects.live_evaluation import EvaluationTurnQuery, TurnResult
from acc.ports.outbound.live_evaluation_ports import (
    AgentRunnerPort,
    JudgeEvaluatorPort,
    QuerySourcePort,
)
from acc.ports.outbound.model_ports import LanguageModelPort

if TYPE_CHECKING:
    from acc.adapters.evaluation.scenarios import ScenarioTemplate
    from acc.adapters.reports.run_directory import EvaluationDirectory
    from acc.application.agents.base import BaseAgent
    from acc.domain.value_objects.scenario import Scenario

#: `baseline` is what the literature calls transcript replay.
AGENT_KINDS = {"baseline": "transcript", **{name: name for name in MEMORIES}}


#: What the built-in agents are told where a language model speaks for them: all the same.
INSTRUCTION = (
    "You take part in a long conversation. Answer the latest message, in its language, from what "
    "you remember and what it says. Keep to every rule that you were given, also early on, until "
    "it is lifted. If something was not said, say that you do not know it."
)

Models = Callable[[str], LanguageModelPort]


def make_agent(
    name: str,
    kind: str,
    *,
    window: int = 4096,
    budget: int = 512,
    compressor: str = RULES,
    model: str = "embedded",
) -> AgentRunnerPort:
    """Return a fresh agent for one episode: a memory's name, `python:MODULE:NAME` or `a2a:URL`.

    What is named may be an agent of acc, something that makes one, a class with `run_turn`, or a
    function from the query to the answer. `model` speaks for those that a memory names; `models`
    gives it, and those of an agent of acc, by name.
    """
    sizes = {"window": window, "budget": budget, "compressor": compressor}
    return _made_agent(name, kind, sizes, model=model)


def _made_agent(
    name: str,
    kind: str,
    sizes: Mapping[str, Any],
    *,
    model: str,
    models: EpisodeModels | None = None,
) -> AgentRunnerPort:
    speakers = make_model if models is None else models.of(name)
    if kind.startswith("python:"):
        from acc.adapters.evaluation.agents import make_runner

        def run_agent(agent_name: str, agent: "BaseAgent") -> AgentRunnerPort:
            return _runtime_agent(agent_name, agent, sizes, models)

        return make_runner(name, kind.removeprefix("python:"), run_agent=run_agent)
    if kind.startswith("a2a:"):
        return _remote_agent(name, kind.removeprefix("a2a:"))
    from acc.adapters.evaluation.agents import MemoryAgentRunner

    compressors = make_model if models is None else models.of(name, CostCategory.COMPRESSOR)
    return MemoryAgentRunner(
        agent_name=name,
        model=speakers(model),
        memory=make_memory(AGENT_KINDS.get(kind, kind), models=compressors, **sizes),
        instruction="" if model == "embedded" else INSTRUCTION,
    )


def _runtime_agent(
    name: str, agent: "BaseAgent", sizes: Mapping[str, Any], models: EpisodeModels | None
) -> AgentRunnerPort:
    """Return a tree of agents with a session of its own and the evaluation's memory sizes."""
    from acc.adapters.evaluation.agents import RuntimeAgentRunner
    from acc.application.runtime.runner import SessionRunner
    from acc.bootstrap.agents import make_conversation_memory, make_services

    services = make_services()
    compressors: Models = services.model
    if models is not None:
        services.models = models.of(name)
        services.watched = partial(models.watched, who=name)
        compressors = models.of(name, CostCategory.COMPRESSOR)
    services.memories = partial(make_conversation_memory, models=compressors, **sizes)
    runner = SessionRunner(agent, app_name="evaluation", services=services)
    return RuntimeAgentRunner(agent_name=name, runner=runner)


def _remote_agent(name: str, url: str) -> AgentRunnerPort:
    """Return an agent of another server; its token is in ACC_TOKEN_<NAME>, or in ACC_TOKEN."""
    from acc.adapters.evaluation.agents import RemoteAgentRunner
    from acc.adapters.system.clock import RandomIds
    from acc.bootstrap.a2a_client import evaluated_endpoint, make_remote

    remote = make_remote(evaluated_endpoint(name, url))
    return RemoteAgentRunner(agent_name=name, remote=remote, ids=RandomIds())


def make_judge(
    configuration: EvaluationConfig, scenario: "Scenario", models: EpisodeModels | None = None
) -> JudgeEvaluatorPort:
    """Return the judge of one episode, blinded."""
    from acc.adapters.evaluation.blinding import BlindedJudge
    from acc.adapters.evaluation.judge_injection import steering_flags

    noted = {} if configuration.judging is None else {"flags_of": steering_flags}
    return BlindedJudge(
        open_judge(
            configuration.judge,
            configuration.judging,
            scenario=scenario,
            seed=scenario.seed,
            models=models,
        ),
        seed=scenario.seed,
        visible_characters=configuration.visible_characters,
        **noted,
    )


def parse_agents(text: str) -> tuple[AgentChoice, ...]:
    """Return the agents of `baseline,acc,mine=python:module:name,theirs=a2a:URL`, checked."""
    choices: list[AgentChoice] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, kind = item.partition("=")
        kind = kind if equals else name
        if not name or not name.replace("-", "").replace("_", "").isalnum():
            raise InvalidInput(f"{item!r}: an agent's name is made of letters, digits, - and _")
        if kind.startswith("python:"):
            from acc.adapters.system.object_loader import load_object

            load_object(kind.removeprefix("python:"))
        elif kind.startswith("a2a:"):
            check_remote_url(kind.removeprefix("a2a:"))
        elif kind.startswith("acc:"):
            check_compressor(kind.removeprefix("acc:"))
        elif kind not in AGENT_KINDS:
            known = ", ".join(AGENT_KINDS)
            raise InvalidInput(
                f"no agent {kind!r}: choose of {known}, NAME=acc:MODEL, NAME=python:MODULE:NAME or "
                "NAME=a2a:URL"
            )
        choices.append(AgentChoice(name=name, kind=AGENT_KINDS.get(kind, kind)))
    names = [choice.name for choice in choices]
    if not names:
        raise InvalidInput("--agents names no agent")
    if len(set(names)) < len(names):
        raise InvalidInput(f"agent names must differ: {', '.join(names)}")
    return tuple(choices)


def check_compressor(name: str) -> None:
    """Refuse a compressor that could not be asked, before an episode needs it."""
    if name != RULES:
        make_model(name)


@lru_cache(maxsize=32)
def load_scenario(reference: str) -> "ScenarioTemplate":
    """Return a scenario by id or path, checked for structure and fairness."""
    from acc.adapters.evaluation import scenarios as scenario_checks
    from acc.adapters.evaluation import scenarios as scenario_files
    from acc.domain.errors import InvalidScenario

    template = scenario_files.load(reference)
    faults = scenario_checks.check(template)
    if faults:
        raise InvalidScenario(template.source, faults)
    return template


def choose_scenarios(reference: str) -> tuple[ScenarioChoice, ...]:
    """Return the scenarios that `all`, an id, a path or a comma-separated list names."""
    from acc.adapters.evaluation import scenarios as scenario_files

    references = [part.strip() for part in reference.split(",") if part.strip()]
    if references == ["all"]:
        references = list(scenario_files.shipped_ids())
    if not references:
        raise InvalidInput("--scenario names no scenario")
    choices: list[ScenarioChoice] = []
    for item in references:
        template = load_scenario(item)
        choices.append(
            ScenarioChoice(
                reference=item,
                id=template.id,
                domain=template.entry.domain,
                language=template.entry.language,
                digest=hashlib.sha256(template.text.encode()).hexdigest(),
            )
        )
    ids = [choice.id for choice in choices]
    if len(set(ids)) < len(ids):
        raise InvalidInput(f"two scenarios have the same id: {', '.join(ids)}")
    return tuple(choices)


def compose_episode(
    configuration: EvaluationConfig,
    run: "EvaluationDirectory",
    job: EpisodeJob,
    stack: ExitStack,
    models: EpisodeModels,
) -> Episode:
    """Return the parts of one episode; `stack` closes its journal."""
    from acc.adapters.reports.run_directory import RecordedEpisode

    scenario = load_scenario(job.scenario.reference).render(job.seed)
    turns = scenario.turns[: configuration.turns]
    judging = configuration.judging
    drives = judging is not None and judging.drives
    journal = stack.enter_context(RecordedEpisode(run.journal(job), scenario, driven=drives))
    queries: Sequence[EvaluationTurnQuery] | QuerySourcePort = [
        EvaluationTurnQuery(turn_id=t.turn_id, query=t.query) for t in turns
    ]
    if judging is not None and drives:
        queries = make_examiner(
            configuration.judge,
            judging,
            scenario=scenario,
            turns=configuration.turns,
            models=models,
        )
    return Episode(
        agents=[
            _made_agent(
                choice.name,
                choice.kind,
                {
                    "window": configuration.window,
                    "budget": configuration.budget,
                    "compressor": configuration.compressor,
                },
                model=configuration.model,
                models=models,
            )
            for choice in configuration.agents
        ],
        judge=make_judge(configuration, scenario, models),
        queries=queries,
        journal=journal,
    )


@dataclass(slots=True, kw_only=True)
class EvaluationOutcome:
    """How a whole evaluation ended; `out_of_money` says why the limit of its cost ended it.

    One with a `mistake` was ended by what would have spoilt every turn, such as a refused key.
    """

    errors: dict[str, str] = field(default_factory=dict)
    stopped: bool = False
    out_of_money: str = ""
    mistake: bool = False
    ended: int = 0

    def take(self, end: EpisodeEnd) -> None:
        """Count an episode that ended; one that was stopped between two turns did not."""
        self.ended += not end.stopped
        self.mistake |= end.spoilt
        if end.error:
            self.errors[end.job.name] = end.error


OnTurn = Callable[[str, TurnResult], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Desk:
    """Where a process runs episodes: with what, who hears of them, and whether it may go on."""

    run: "EvaluationDirectory"
    means: ModelResources
    on_turn: OnTurn
    on_call: Callable[[ModelCall], None]
    should_stop: Callable[[], bool]
    is_alone: Callable[[], bool] = lambda: False

    async def work(self, job: EpisodeJob) -> EpisodeEnd:
        """Run one episode; what its models cost is on record before anyone hears of it."""
        from acc.adapters.reports.costs import cost_file

        configuration = self.run.configuration
        with ExitStack() as stack:
            spending = stack.enter_context(cost_file(self.run, job).appending())

            def told(call: ModelCall) -> None:
                try:
                    spending.append(call)
                except AccError as fault:
                    models.mistake = models.mistake or str(fault)  # no agent's fault
                    raise
                self.on_call(call)

            models = EpisodeModels(
                job.name, cache=self.means.cache, prices=self.means.prices, on_call=told
            )
            use_case = EpisodeRunner(
                compose=lambda wanted: compose_episode(
                    configuration, self.run, wanted, stack, models
                ),
                agent_timeout=configuration.timeout,
                judge_attempts=configuration.judge_attempts,
            )

            def why_spoilt() -> str:
                return "nobody listens any more" if self.is_alone() else models.mistake

            try:
                return await use_case.run(
                    job,
                    on_turn=lambda of, result: self.on_turn(of.name, result),
                    should_stop=self.should_stop,
                    why_spoilt=why_spoilt,
                )
            finally:
                await models.aclose()


def run_evaluation(
    run: "EvaluationDirectory",
    jobs: Sequence[EpisodeJob],
    *,
    workers: int,
    on_turn: OnTurn,
    spending: CostTracker | None = None,
) -> EvaluationOutcome:
    """Run the episodes here or in worker processes; Ctrl-C or SIGTERM ends it with what was done.

    `spending` hears what every call of a model costs, and ends the run where no more may be spent:
    turns that are under way are finished.
    """
    from acc.adapters.evaluation.workers import interrupted_by_sigterm

    outcome = EvaluationOutcome()
    spending = spending or CostTracker()
    if not jobs:
        return outcome
    try:
        with interrupted_by_sigterm():
            if spending.is_used_up:
                pass
            elif workers <= 1:
                asyncio.run(_run_here(run, jobs, on_turn, outcome, spending))
            else:
                _run_in_workers(run, jobs, min(workers, len(jobs)), on_turn, outcome, spending)
    except KeyboardInterrupt:
        outcome.stopped = True
    if spending.is_used_up and outcome.ended < len(jobs):
        outcome.out_of_money = spending.why_stopped()
    return outcome


async def _run_here(
    run: "EvaluationDirectory",
    jobs: Sequence[EpisodeJob],
    on_turn: OnTurn,
    outcome: EvaluationOutcome,
    spending: CostTracker,
) -> None:
    desk = _Desk(
        run=run,
        means=spending.means,
        on_turn=on_turn,
        on_call=spending.take,
        should_stop=lambda: spending.is_used_up,
    )
    for job in jobs:
        end = await desk.work(job)
        outcome.take(end)
        if spending.is_used_up or end.spoilt:
            return


def _run_in_workers(
    run: "EvaluationDirectory",
    jobs: Sequence[EpisodeJob],
    workers: int,
    on_turn: OnTurn,
    outcome: EvaluationOutcome,
    spending: CostTracker,
) -> None:
    from acc.adapters.evaluation.workers import WorkerFault, WorkerPool

    def take(message: Any) -> bool:
        if isinstance(message, EpisodeEnd):
            outcome.take(message)
            if message.spoilt:
                pool.halt()
            return True
        if isinstance(message, WorkerFault):
            raise message.as_error()
        if isinstance(message, ModelCall):
            spending.take(message)
            if spending.is_used_up:
                pool.halt()
        else:
            on_turn(*message)
        return False

    pool = WorkerPool(
        _serve_jobs, (run.path, spending.means), workers=workers, preload=("acc.preloaded",)
    )
    try:
        pool.run(jobs, take)
    finally:
        pool.stop()


def _serve_jobs(connection: Connection, path: Path, means: ModelResources) -> None:
    """Run in a worker process: take jobs until there are none."""
    from acc.adapters.evaluation.workers import WorkerFault, WorkerSeat
    from acc.adapters.reports.run_directory import EvaluationDirectory
    from acc.domain.errors import AccError

    # Next to nothing of ours is cyclic, so there is little to collect.
    gc.set_threshold(50_000, 20, 20)
    sys.stdout = sys.stderr  # what an agent prints is not our output
    seat = WorkerSeat(connection)
    desk = _Desk(
        run=EvaluationDirectory.open(path),
        means=means,
        on_turn=lambda name, result: seat.tell((name, slim(result))),
        on_call=seat.tell,
        should_stop=seat.should_stop,
        is_alone=seat.is_alone,
    )
    for job in seat.jobs():
        try:
            end = asyncio.run(desk.work(job))
        except AccError as error:
            seat.tell(WorkerFault(error.code, str(error)))
            return
        seat.tell(end)
        if end.stopped or end.spoilt:
            return


def slim(result: TurnResult) -> TurnResult:
    """Return a turn without what progress does not need."""
    from dataclasses import replace

    return replace(
        result,
        responses=(),
        canonical_memory={},
        records=tuple(
            replace(
                record,
                hallucination=replace(record.hallucination, claims=())
                if record.hallucination
                else None,
                drift=replace(record.drift, findings=()) if record.drift else None,
            )
            for record in result.records
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a run came to, and where its page is."""

    summary: dict[str, Any]
    gates: tuple[GateResult, ...]
    first_errors: dict[str, str]
    report: Path


def run_name(configuration: EvaluationConfig) -> str:
    """Return a readable name that equal configurations share."""
    import msgspec

    ids = [scenario.id for scenario in configuration.scenarios]
    digest = hashlib.sha256(msgspec.json.encode(configuration)).hexdigest()[:8]
    return f"{ids[0] if len(ids) == 1 else 'all'}-{configuration.episodes}x-{digest}"


def write_results(
    run: "EvaluationDirectory",
    *,
    gates: Sequence[Gate] | None = None,
    errors: Mapping[str, str] | None = None,
    detail: int = 10,
) -> Results:
    """Write everything that follows from the recorded turns, and return the summary.

    Gates and errors are not in the turns; where they are not given, those of the last time stand.
    """
    import msgspec

    from acc.adapters.reports import junit, page, results

    earlier = results.read_summary(run)
    if gates is None:
        gates = [Gate.parse(gate["gate"]) for gate in earlier.get("gates", [])]
    if errors is None:
        errors = earlier.get("errors", {})
    tally = results.tally_turns(run)
    summary = results.summarize(run, tally, errors)
    judged = tuple(gate.judge(results.gate_measures(summary)) for gate in gates)
    summary["gates"] = [msgspec.to_builtins(gate) for gate in judged]
    written = msgspec.json.format(msgspec.json.encode(summary), indent=2)
    run.write("summary.json", written + b"\n")
    results.write_records(run)
    failed = {name: found["failed"] for name, found in summary["agents"].items()}
    run.write("junit.xml", junit.junit_xml(summary, judged, failed))
    report = page.write_report(run, summary, detail=detail)
    return Results(summary=summary, gates=judged, first_errors=tally.first_errors, report=report)


def compare_runs(
    first: "EvaluationDirectory", second: "EvaluationDirectory"
) -> list[dict[str, Any]]:
    """Return two runs side by side."""
    from acc.adapters.reports.results import compare

    return compare(first, second)
