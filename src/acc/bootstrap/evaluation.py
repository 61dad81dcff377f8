"""Create the objects of an evaluation: agents, judges, episodes, executors and plans."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, cast

from acc.application.evaluation.configuration import (
    AGENT_KINDS,
    PYTHON_REFERENCE,
    REMOTE_REFERENCE,
    EvaluationConfigurator,
    summarizer,
)
from acc.application.evaluation.cost import CostTracker, ModelResources
from acc.application.evaluation.episode import Episode, EpisodeRunner, InProcessExecutor
from acc.application.evaluation.model_pool import ModelPool
from acc.application.use_cases.run_evaluation import RunEvaluationUseCase
from acc.bootstrap import models
from acc.bootstrap.evaluation_models import EvaluationSources, PooledModels
from acc.bootstrap.memory import make_memory, token_counter, version
from acc.bootstrap.settings import agent_token_reference, agent_token_variable
from acc.bootstrap.tracing import current_tracer, start_tracing
from acc.domain.call_options import explains_call
from acc.domain.cost import CostCategory
from acc.domain.value_objects.endpoint import RemoteEndpoint, loopback_allow_entries
from acc.domain.value_objects.evaluation import ClaimThreshold
from acc.domain.value_objects.evaluation_run import (
    RULE_COMPRESSOR,
    CalibrationCase,
    EpisodeJob,
    EvaluationConfig,
    JudgeConfig,
)
from acc.domain.value_objects.live_evaluation import EvaluationTurnQuery, TurnResult
from acc.ports.outbound.live_evaluation_ports import (
    AgentRunnerPort,
    CallRecorderPort,
    ClosableAgentPort,
    EpisodeExecutorPort,
    JudgeEvaluatorPort,
    QuerySourcePort,
)
from acc.ports.outbound.model_ports import LanguageModelPort

if TYPE_CHECKING:
    from acc.adapters.evaluation.scenarios import ScenarioLibrary
    from acc.adapters.evaluation.watched_agent import AgentWatch
    from acc.adapters.reports.run_directory import EvaluationDirectory
    from acc.application.agents.base import BaseAgent
    from acc.application.evaluation.plan import EvaluationPlanner
    from acc.application.use_cases.calibrate_judge import CalibrateJudgeUseCase
    from acc.domain.value_objects.scenario import Scenario
    from acc.ports.outbound.remote_ports import RemoteAgentPort

#: The instruction of all built-in agents if a language model answers for them.
AGENT_INSTRUCTION = (
    "You take part in a long conversation. Answer the latest message, in its language, from what "
    "you remember and what it says. Keep to every rule that you were given, also early on, until "
    "it is lifted. If something was not said, say that you do not know it."
)
_PRELOADED_MODULE = "acc.preloaded"
#: The agent timeout of the evaluation ends a turn earlier.
_REMOTE_TIMEOUT_SECONDS = 3600.0


@explains_call({"memory": "kind", "type": "kind", "agent": "kind"})
def make_agent(
    name: str,
    kind: str,
    *,
    window: int = 4096,
    budget: int = 512,
    compressor: str = RULE_COMPRESSOR,
    model: str = "embedded",
) -> AgentRunnerPort:
    """Return a new agent for one episode.

    `kind` is a memory's name, `python:MODULE:NAME` or `a2a:URL`. A Python reference may name an
    agent, also of another framework, a function that creates one, a class with `run_turn`, or a
    function from query to answer. `model` answers for agents that are a memory's name.
    """
    factory = AgentFactory(window=window, budget=budget, compressor=compressor, model=model)
    return factory.create(name, kind)


def make_memory_agent(
    name: str, memory: str, *, model: LanguageModelPort, window: int = 4096, budget: int = 512
) -> AgentRunnerPort:
    """Return an agent that answers with a model of the caller from a memory."""
    from acc.adapters.evaluation.agents import MemoryAgentRunner

    return MemoryAgentRunner(
        agent_name=name,
        model=model,
        memory=make_memory(AGENT_KINDS.get(memory, memory), window=window, budget=budget),
        instruction=AGENT_INSTRUCTION,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFactory:
    """Creates the agents of one episode; without a pool their calls are not metered."""

    window: int
    budget: int
    compressor: str
    model: str
    pool: ModelPool | None = None
    allow: tuple[str, ...] = ()
    #: Run Python objects in processes of their own.
    isolated: bool = False
    #: Watches agent trees, which share the process of the episode.
    watch: "AgentWatch | None" = None

    @classmethod
    def for_run(
        cls, configuration: EvaluationConfig, *, allow: tuple[str, ...] = ()
    ) -> "AgentFactory":
        """Return the factory with the sizes and models of a configuration."""
        return cls(
            window=configuration.window,
            budget=configuration.budget,
            compressor=configuration.compressor,
            model=configuration.model,
            allow=allow,
        )

    def create(self, name: str, kind: str) -> AgentRunnerPort:
        """Return an agent by its kind."""
        from acc.adapters.evaluation.agents import MemoryAgentRunner, make_runner

        if kind.startswith(PYTHON_REFERENCE):
            from acc.adapters.evaluation.isolated_agent import IsolatedAgentRunner
            from acc.bootstrap.frameworks import load_target

            reference = kind.removeprefix(PYTHON_REFERENCE)
            return make_runner(
                name,
                reference,
                load_target(reference),
                run_agent=self._runtime_agent,
                isolate=IsolatedAgentRunner if self.isolated else None,
            )
        if kind.startswith(REMOTE_REFERENCE):
            return self._remote_agent(name, kind.removeprefix(REMOTE_REFERENCE))
        return MemoryAgentRunner(
            agent_name=name,
            model=self._models(name)(self.model),
            memory=make_memory(
                AGENT_KINDS.get(kind, kind),
                window=self.window,
                budget=self.budget,
                compressor=self.compressor,
                summarizer=summarizer(self.model, self.compressor),
                models=self._models(name, CostCategory.COMPRESSOR),
            ),
            instruction="" if self.model == "embedded" else AGENT_INSTRUCTION,
        )

    def _models(
        self, name: str, category: CostCategory = CostCategory.AGENT
    ) -> Callable[[str], LanguageModelPort]:
        if self.pool is None:
            return models.make_model
        return partial(self.pool.model, agent=name, category=category)

    def _runtime_agent(self, name: str, agent: "BaseAgent") -> AgentRunnerPort:
        """Return an agent tree with a session of its own and the memory sizes of the run."""
        from acc.adapters.evaluation.agents import RuntimeAgentRunner
        from acc.adapters.evaluation.watched_agent import WatchedAgentRunner
        from acc.application.runtime.runner import SessionRunner
        from acc.bootstrap.agents import check_names, make_services

        check_names(agent)
        services = make_services(allow=self.allow)
        compressors: Callable[[str], LanguageModelPort] = services.model
        if self.pool is not None:
            services = replace(
                services, models=self._models(name), wrap_model=partial(self.pool.meter, agent=name)
            )
            compressors = self._models(name, CostCategory.COMPRESSOR)
        memories = partial(
            make_memory,
            window=self.window,
            budget=self.budget,
            compressor=self.compressor,
            models=compressors,
        )
        runner = SessionRunner(
            agent, app_name="evaluation", services=replace(services, memories=memories)
        )
        tree = RuntimeAgentRunner(agent_name=name, runner=runner)
        return tree if self.watch is None else WatchedAgentRunner(tree, self.watch)

    def connect(self, name: str, url: str) -> "RemoteAgentPort":
        """Return the client of a remote agent; its token is in ACC_TOKEN_<NAME> or ACC_TOKEN."""
        from acc.bootstrap.a2a_client import make_remote

        endpoint = RemoteEndpoint(
            url=url,
            token=agent_token_reference(name),
            allow=loopback_allow_entries(url),
            timeout=_REMOTE_TIMEOUT_SECONDS,
        )
        return make_remote(endpoint, allow=self.allow)

    def token_variable(self, name: str) -> str:
        """Return the environment variable with the token of a remote agent."""
        return agent_token_variable(name)

    def _remote_agent(self, name: str, url: str) -> AgentRunnerPort:
        from acc.adapters.evaluation.agents import RemoteAgentRunner
        from acc.adapters.system.clock import RandomIds

        return RemoteAgentRunner(agent_name=name, remote=self.connect(name, url), ids=RandomIds())


def open_judge(
    judge: str,
    config: JudgeConfig | None,
    *,
    scenario: "Scenario | None" = None,
    seed: int = 0,
    pool: ModelPool | None = None,
    thresholds: Sequence[ClaimThreshold] = (),
) -> JudgeEvaluatorPort:
    """Return a judge by name, without blinding."""
    if judge == "rubric":
        from acc.adapters.evaluation.rubric_judge import RubricJudge

        return RubricJudge(scenario, thresholds=thresholds)
    if config is not None:
        from acc.adapters.evaluation.model_judge import ModelJudge

        judges = _judge_models(judge, config, pool)
        return ModelJudge(
            *judges, configuration=config, seed=seed, scenario=scenario, thresholds=thresholds
        )
    from acc.adapters.evaluation.python_judge import load_judge

    return cast(JudgeEvaluatorPort, load_judge(judge.removeprefix(PYTHON_REFERENCE)))


def _judge_models(
    judge: str, config: JudgeConfig, pool: ModelPool | None
) -> tuple[LanguageModelPort, ...]:
    """Return the models of a judge."""
    if not judge.startswith(PYTHON_REFERENCE):
        if pool is None:
            return tuple(map(models.make_model, config.models))
        return tuple(
            pool.model(name, agent="", category=CostCategory.JUDGE) for name in config.models
        )
    from acc.adapters.evaluation.python_judge import load_judge

    model = cast(LanguageModelPort, load_judge(judge.removeprefix(PYTHON_REFERENCE)))
    if pool is None:
        return (model,)
    return (pool.meter(model, agent="", category=CostCategory.JUDGE, name=judge),)


def make_blinded_judge(
    configuration: EvaluationConfig, scenario: "Scenario", pool: ModelPool | None = None
) -> JudgeEvaluatorPort:
    """Return the judge of one episode, blinded."""
    from acc.adapters.evaluation.blinding import BlindedJudge
    from acc.adapters.evaluation.judge_injection import injection_flags

    judge = open_judge(
        configuration.judge,
        configuration.judging,
        scenario=scenario,
        seed=scenario.seed,
        pool=pool,
        thresholds=configuration.claim_thresholds,
    )
    return BlindedJudge(
        judge,
        seed=scenario.seed,
        visible_characters=configuration.visible_characters,
        flag_answer=None if configuration.judging is None else injection_flags,
    )


def _queries(
    configuration: EvaluationConfig, scenario: "Scenario", pool: ModelPool
) -> Sequence[EvaluationTurnQuery] | QuerySourcePort:
    config = configuration.judging
    if config is None or not config.drives:
        turns = scenario.turns[: configuration.turns]
        return [EvaluationTurnQuery(turn_id=turn.turn_id, query=turn.query) for turn in turns]
    from acc.adapters.evaluation.judge_prompts import SchemaAsker
    from acc.adapters.evaluation.model_judge import ModelQueryWriter

    model = _judge_models(configuration.judge, config, pool)[0]
    asker = SchemaAsker(model, repairs=config.repairs, timeout=config.timeout)
    return ModelQueryWriter(asker, scenario, turns=configuration.turns)


@dataclass(frozen=True, slots=True)
class DirectoryEpisodes:
    """Creates episodes that are recorded in a run directory; implements EpisodeFactory.

    Agents of the run `answers` are not called: their recorded answers are used.
    """

    directory: "EvaluationDirectory"
    resources: ModelResources
    answers: "EvaluationDirectory | None" = None
    watch: "Callable[[], AgentWatch | None]" = lambda: None

    @asynccontextmanager
    async def open(self, job: EpisodeJob, calls: CallRecorderPort) -> AsyncIterator[Episode]:
        """Open the files of an episode and create its agents and its judge."""
        from acc.adapters.reports.costs import StoredCalls, cost_file
        from acc.adapters.reports.prompts import ObservedEpisode, prompt_file
        from acc.adapters.reports.run_directory import RecordedEpisode

        config = self.directory.configuration
        scenario = scenario_library().render(job.scenario.reference, job.seed)
        drives = config.judging is not None and config.judging.drives
        async with AsyncExitStack() as stack:
            costs = stack.enter_context(cost_file(self.directory, job).appending())
            journal = stack.enter_context(
                RecordedEpisode(self.directory.journal(job), scenario, driven=drives)
            )
            prompts = stack.enter_context(prompt_file(self.directory, job).appending())
            stored = StoredCalls(costs, calls, current_turn=lambda: journal.current_turn)
            pool = make_pool(job.name, self.resources, stored)
            stack.push_async_callback(pool.aclose)
            factory = AgentFactory.for_run(config, allow=self.resources.allow)
            factory = replace(factory, pool=pool, isolated=True, watch=self.watch())
            recorded: Mapping[str, AgentRunnerPort] = {}
            if self.answers is not None:
                turns = RecordedEpisode(self.answers.journal(job), scenario).read()
                recorded = _recorded_agents(turns, self.answers.configuration)
            agents = [
                recorded.get(agent.name) or factory.create(agent.name, agent.kind)
                for agent in config.agents
            ]
            for agent in agents:
                if isinstance(agent, ClosableAgentPort):
                    stack.push_async_callback(agent.aclose)
                    await agent.start()
            yield Episode(
                agents=agents,
                judge=make_blinded_judge(config, scenario, pool),
                queries=_queries(config, scenario, pool),
                journal=ObservedEpisode(journal, prompts),
                models=pool,
            )


def _recorded_agents(
    turns: Sequence[TurnResult], configuration: EvaluationConfig
) -> Mapping[str, AgentRunnerPort]:
    """Return agents that repeat the recorded answers of an episode, by name."""
    from acc.adapters.evaluation.agents import RecordedAgentRunner

    return {
        agent.name: RecordedAgentRunner(
            agent.name,
            {
                turn.query.turn_id: response
                for turn in turns
                for response in turn.responses
                if response.agent_name == agent.name
            },
        )
        for agent in configuration.agents
    }


@dataclass(frozen=True, slots=True)
class RejudgedEpisodes:
    """Creates episodes that let a judge score the recorded answers of another run."""

    source: "EvaluationDirectory"
    directory: "EvaluationDirectory"
    resources: ModelResources

    @asynccontextmanager
    async def open(self, job: EpisodeJob, calls: CallRecorderPort) -> AsyncIterator[Episode]:
        """Open the files of an episode and read the recorded answers."""
        from acc.adapters.reports.costs import StoredCalls, cost_file
        from acc.adapters.reports.run_directory import RecordedEpisode

        config = self.directory.configuration
        scenario = scenario_library().render(job.scenario.reference, job.seed)
        turns = RecordedEpisode(self.source.journal(job), scenario).read()
        async with AsyncExitStack() as stack:
            costs = stack.enter_context(cost_file(self.directory, job).appending())
            journal = stack.enter_context(RecordedEpisode(self.directory.journal(job), scenario))
            pool = make_pool(job.name, self.resources, StoredCalls(costs, calls))
            stack.push_async_callback(pool.aclose)
            yield Episode(
                agents=list(_recorded_agents(turns, config).values()),
                judge=make_blinded_judge(config, scenario, pool),
                queries=[turn.query for turn in turns],
                journal=journal,
                models=pool,
            )


def make_rejudging(
    source: "EvaluationDirectory",
    directory: "EvaluationDirectory",
    *,
    resources: ModelResources,
    cost: CostTracker,
) -> RunEvaluationUseCase:
    """Return an evaluation that scores the recorded answers of `source` again."""
    runner = EpisodeRunner(
        factory=RejudgedEpisodes(source, directory, resources),
        calls=cost,
        judge_attempts=directory.configuration.judge_attempts,
    )
    return RunEvaluationUseCase(executor=InProcessExecutor(runner), cost=cost)


def make_pool(episode: str, resources: ModelResources, calls: CallRecorderPort) -> ModelPool:
    """Return the model pool of one episode."""
    return ModelPool(
        episode,
        models=PooledModels(
            cache=resources.cache, prices=resources.prices, processes=resources.processes
        ),
        calls=calls,
        max_connections=resources.max_connections,
    )


def _make_runner(
    directory: "EvaluationDirectory",
    resources: ModelResources,
    calls: CallRecorderPort,
    answers: Path | None,
    watch: "Callable[[], AgentWatch | None]" = lambda: None,
) -> EpisodeRunner:
    from acc.adapters.reports.run_directory import EvaluationDirectory

    config = directory.configuration
    source = None if answers is None else EvaluationDirectory.open(answers)
    return EpisodeRunner(
        factory=DirectoryEpisodes(directory, resources, source, watch),
        calls=calls,
        agent_timeout=config.timeout,
        judge_attempts=config.judge_attempts,
        outage_wait=resources.outage_wait,
        tracer=current_tracer(),
    )


def make_evaluation(
    directory: "EvaluationDirectory",
    *,
    workers: int = 1,
    resources: ModelResources | None = None,
    cost: CostTracker | None = None,
    otel: bool = False,
    answers: Path | None = None,
) -> RunEvaluationUseCase:
    """Return an evaluation that runs in this process or, with Python agents, in worker processes.

    The agents of the run directory `answers` are not called again; all answers are judged together.
    """
    resources, cost = resources or ModelResources(), cost or CostTracker()
    executor: EpisodeExecutorPort
    config = directory.configuration
    if workers <= 1 and not any(agent.kind.startswith(PYTHON_REFERENCE) for agent in config.agents):
        executor = InProcessExecutor(_make_runner(directory, resources, cost, answers))
    else:
        from acc.adapters.evaluation.workers import WorkerPool

        executor = WorkerPool(
            _run_worker,
            (directory.path, resources, otel, answers),
            workers=workers,
            preload=(_PRELOADED_MODULE,),
            agent_timeout=config.timeout,
        )
    return RunEvaluationUseCase(executor=executor, cost=cost)


def _run_worker(
    connection: Connection,
    path: Path,
    resources: ModelResources,
    otel: bool,
    answers: Path | None,
) -> None:
    """Run episodes in a worker process."""
    from acc.adapters.evaluation.workers import WorkerChannel, serve_episodes
    from acc.adapters.reports.run_directory import EvaluationDirectory

    channel = WorkerChannel(connection)
    tracing = start_tracing(requested=otel, service_name="acc-eval")
    try:
        serve_episodes(
            channel,
            lambda: _make_runner(
                EvaluationDirectory.open(path), resources, channel, answers, channel.watch
            ),
        )
    finally:
        tracing.shutdown()


def make_calibration(
    judge: str,
    config: JudgeConfig | None,
    *,
    resources: ModelResources,
    cost: CostTracker,
    thresholds: Sequence[ClaimThreshold] = (),
) -> "CalibrateJudgeUseCase":
    """Return the calibration of a judge; a model judge is metered.

    The rubric judge of a case is trained with the shipped examples of all other writers.
    """
    from acc.application.use_cases.calibrate_judge import CalibrateJudgeUseCase

    if judge == "rubric":
        from acc.adapters.evaluation.calibration import shipped_judgement
        from acc.adapters.evaluation.rubric_judge import RubricJudge

        return CalibrateJudgeUseCase(
            lambda case: RubricJudge(
                thresholds=thresholds or shipped_judgement(case.writer).thresholds,
                model=shipped_judgement(case.writer).model,
            )
        )
    if config is None:
        return CalibrateJudgeUseCase(lambda case: open_judge(judge, None))
    pool = make_pool("judge check", resources, cost)
    judges = _judge_models(judge, config, pool)
    from acc.adapters.evaluation.model_judge import ModelJudge

    return CalibrateJudgeUseCase(
        lambda case: ModelJudge(*judges, configuration=config, thresholds=thresholds), models=pool
    )


def load_calibration_cases(path: Path | None = None) -> tuple[CalibrationCase, ...]:
    """Return labelled examples of a file or folder, or the shipped ones."""
    from acc.adapters.evaluation.calibration import load_cases

    return load_cases(path)


@lru_cache(maxsize=1)
def scenario_library() -> "ScenarioLibrary":
    """Return the scenarios of this process."""
    from acc.adapters.evaluation.scenarios import ScenarioLibrary

    return ScenarioLibrary()


def make_configurator() -> EvaluationConfigurator:
    """Return what turns options into a configuration."""
    return EvaluationConfigurator(evaluation_sources(), version=version())


def evaluation_sources() -> EvaluationSources:
    """Return the models, the user code and the scenarios of evaluations."""
    return EvaluationSources(scenario_library())


def make_planner(configuration: EvaluationConfig) -> "EvaluationPlanner":
    """Return the planner of an evaluation."""
    from acc.adapters.evaluation.judge_prompts import prompt_sizes
    from acc.adapters.memory.model_reader import ANSWER_SCHEMA, INSTRUCTION
    from acc.application.evaluation.plan import EvaluationPlanner

    tokens = token_counter()
    return EvaluationPlanner(
        catalog=evaluation_sources(),
        scenarios=scenario_library(),
        tokens=tokens,
        sizes=prompt_sizes(
            tokens,
            instruction=AGENT_INSTRUCTION,
            compressor=(INSTRUCTION, ANSWER_SCHEMA),
            window=configuration.window,
            budget=configuration.budget,
        ),
    )
