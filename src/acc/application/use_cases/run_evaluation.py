"""Run the episodes of an evaluation within a cost limit."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from acc.application.evaluation.cost import CostTracker
from acc.domain.cost import ModelCall
from acc.domain.value_objects.evaluation_run import EpisodeEnd, EpisodeJob
from acc.ports.outbound.live_evaluation_ports import EpisodeEvent, EpisodeExecutorPort


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOutcome:
    """How an evaluation ended.

    `errors` has the error of each failed episode. `cost_limit` says why the cost limit ended the
    evaluation, or is empty. An `aborted` evaluation met an error that would affect every turn.
    """

    errors: Mapping[str, str] = field(default_factory=dict)
    cost_limit: str = ""
    aborted: bool = False


class RunEvaluationUseCase:
    """Runs episodes and stops them when the cost limit is reached or a model cannot be called."""

    def __init__(self, *, executor: EpisodeExecutorPort, cost: CostTracker) -> None:
        self._executor = executor
        self._cost = cost
        self._ends: list[EpisodeEnd] = []
        self._jobs = 0

    @property
    def outcome(self) -> EvaluationOutcome:
        """Return the outcome of the episodes that have ended so far."""
        complete = sum(not end.stopped for end in self._ends)
        limited = self._cost.is_exhausted and complete < self._jobs
        return EvaluationOutcome(
            errors={end.job.name: end.error for end in self._ends if end.error},
            cost_limit=self._cost.stop_reason() if limited else "",
            aborted=any(end.aborted for end in self._ends),
        )

    def run(self, jobs: Sequence[EpisodeJob]) -> Generator[EpisodeEvent, None, None]:
        """Run the episodes and yield their events; close the iterator to end them early.

        Turns in progress are finished when the cost limit is reached.
        """
        self._jobs = len(jobs)
        if not jobs or self._cost.is_exhausted:
            return
        with closing(self._executor.run(jobs)) as events:
            for event in events:
                if isinstance(event, ModelCall):
                    self._cost.record(event)
                elif isinstance(event, EpisodeEnd):
                    self._ends.append(event)
                if self._cost.is_exhausted or (isinstance(event, EpisodeEnd) and event.aborted):
                    self._executor.stop()
                yield event
