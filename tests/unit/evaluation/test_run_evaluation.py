"""Evaluations: events, cost limit, aborts."""

from collections.abc import Generator, Sequence
from contextlib import closing

from acc.application.evaluation.cost import CostTracker
from acc.application.use_cases.run_evaluation import EvaluationOutcome, RunEvaluationUseCase
from acc.domain.cost import CostCategory, ModelCall
from acc.domain.value_objects.evaluation_run import EpisodeEnd, EpisodeJob, ScenarioChoice
from acc.ports.outbound.live_evaluation_ports import EpisodeEvent

JOBS = [
    EpisodeJob(
        scenario=ScenarioChoice(reference="r", id="s", domain="d", language="en", digest="0"),
        seed=seed,
    )
    for seed in range(3)
]


class ListExecutor:
    """Yields fixed events until it is stopped."""

    def __init__(self, *events: EpisodeEvent) -> None:
        self.events = events
        self.stopped = False
        self.closed = False

    def run(self, jobs: Sequence[EpisodeJob]) -> Generator[EpisodeEvent, None, None]:
        try:
            for event in self.events:
                yield event
                if self.stopped:
                    return
        finally:
            self.closed = True

    def stop(self) -> None:
        self.stopped = True


def call(cost: float | None) -> ModelCall:
    return ModelCall(category=CostCategory.AGENT, agent="a", model="m", cost=cost)


def end(number: int, **fields: object) -> EpisodeEnd:
    return EpisodeEnd(job=JOBS[number], turns=1, **fields)  # type: ignore[arg-type]


def test_outcome_has_the_errors_of_all_episodes() -> None:
    executor = ListExecutor(end(0), end(1, error="boom"), end(2))
    evaluation = RunEvaluationUseCase(executor=executor, cost=CostTracker())
    assert list(evaluation.run(JOBS)) == list(executor.events)
    assert evaluation.outcome == EvaluationOutcome(errors={"s.000001": "boom"})
    assert not executor.stopped


def test_no_episode_starts_without_jobs_or_above_the_limit() -> None:
    executor = ListExecutor(end(0))
    assert list(RunEvaluationUseCase(executor=executor, cost=CostTracker()).run([])) == []
    tracker = CostTracker(limit=0.5)
    tracker.record(call(0.5))
    evaluation = RunEvaluationUseCase(executor=executor, cost=tracker)
    assert list(evaluation.run(JOBS)) == []
    assert "$0.5000" in evaluation.outcome.cost_limit


def test_cost_limit_stops_the_executor_and_is_part_of_the_outcome() -> None:
    executor = ListExecutor(call(0.4), call(0.2), call(0.2), end(0), end(1))
    evaluation = RunEvaluationUseCase(executor=executor, cost=CostTracker(limit=0.5))
    assert len(list(evaluation.run(JOBS))) == 2
    assert executor.stopped
    assert evaluation.outcome.cost_limit


def test_cost_limit_is_not_reported_when_every_episode_is_complete() -> None:
    executor = ListExecutor(end(0), end(1), call(0.9))
    evaluation = RunEvaluationUseCase(executor=executor, cost=CostTracker(limit=0.5))
    list(evaluation.run(JOBS[:2]))
    assert evaluation.outcome.cost_limit == ""


def test_call_of_unknown_price_stops_an_evaluation_with_a_limit() -> None:
    executor = ListExecutor(call(None), end(0, stopped=True))
    evaluation = RunEvaluationUseCase(executor=executor, cost=CostTracker(limit=0.5))
    list(evaluation.run(JOBS))
    assert "unknown" in evaluation.outcome.cost_limit


def test_aborted_episode_stops_the_evaluation() -> None:
    executor = ListExecutor(end(0, error="no key", aborted=True), end(1))
    evaluation = RunEvaluationUseCase(executor=executor, cost=CostTracker())
    list(evaluation.run(JOBS))
    assert evaluation.outcome == EvaluationOutcome(errors={"s.000000": "no key"}, aborted=True)


def test_closing_the_events_closes_the_executor() -> None:
    executor = ListExecutor(end(0), end(1))
    evaluation = RunEvaluationUseCase(executor=executor, cost=CostTracker())
    with closing(evaluation.run(JOBS)) as events:
        next(events)
    assert executor.closed
