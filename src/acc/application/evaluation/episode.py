"""Episodes, recorded turn by turn, so that a run can be cut off anywhere and continued."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from acc.application.use_cases.live_multi_agent_evaluation import LiveMultiAgentEvaluationUseCase
from acc.domain.errors import AccError
from acc.domain.value_objects.evaluation_run import EpisodeJob
from acc.domain.value_objects.live_evaluation import EvaluationTurnQuery, TurnResult
from acc.ports.outbound.live_evaluation_ports import (
    AgentRunnerPort,
    EpisodeJournalPort,
    JudgeEvaluatorPort,
    QuerySourcePort,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The parts of one episode, made anew for it."""

    agents: Sequence[AgentRunnerPort]
    judge: JudgeEvaluatorPort
    queries: Sequence[EvaluationTurnQuery] | QuerySourcePort
    journal: EpisodeJournalPort


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeEnd:
    """How an episode ended: with how many turns on record, and with what error, if any.

    One that is `spoilt` ended for a reason that other episodes would meet as well.
    """

    job: EpisodeJob
    turns: int
    error: str = ""
    stopped: bool = False
    spoilt: bool = False


class _Stopped(Exception):
    """Ends an episode between two turns."""


class _Spoilt(Exception):
    """Ends an episode within a turn, of which nothing goes on record."""


class EpisodeRunner:
    """Runs the episodes of an evaluation one after the other, continuing what was begun."""

    def __init__(
        self,
        *,
        compose: Callable[[EpisodeJob], Episode],
        agent_timeout: float | None = None,
        judge_attempts: int = 3,
    ) -> None:
        self._compose = compose
        self._agent_timeout = agent_timeout
        self._judge_attempts = judge_attempts

    async def run(
        self,
        job: EpisodeJob,
        *,
        on_turn: Callable[[EpisodeJob, TurnResult], None] | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        why_spoilt: Callable[[], str] = lambda: "",
    ) -> EpisodeEnd:
        """Run an episode to its end, or until `should_stop` says so between two turns.

        `why_spoilt` tells why a turn under way says nothing about its agents, empty where it does:
        such a turn is not recorded, and the episode ends before it.
        """
        episode = self._compose(job)
        earlier = episode.journal.earlier()
        turns = len(earlier)
        live = LiveMultiAgentEvaluationUseCase(
            agents=episode.agents,
            judge=episode.judge,
            agent_timeout=self._agent_timeout,
            judge_attempts=self._judge_attempts,
            check=partial(_check, why_spoilt),
        )

        async def record(result: TurnResult) -> None:
            nonlocal turns
            await episode.journal.append(result)
            turns += 1
            if on_turn is not None:
                on_turn(job, result)
            if not is_over() and should_stop():
                raise _Stopped

        def is_over() -> bool:
            return isinstance(episode.queries, Sequence) and turns >= len(episode.queries)

        if is_over():
            return EpisodeEnd(job=job, turns=turns)
        try:
            await live.run_episode(episode.queries, on_turn=record, earlier=earlier)
        except _Stopped:
            return EpisodeEnd(job=job, turns=turns, stopped=True)
        except _Spoilt:
            fault = ""
        except AccError as error:
            fault = f"{error.code}: {error}"
        else:
            return EpisodeEnd(job=job, turns=turns)
        why = why_spoilt()
        return EpisodeEnd(job=job, turns=turns, error=why or fault, spoilt=bool(why))


def _check(why_spoilt: Callable[[], str]) -> None:
    if why_spoilt():
        raise _Spoilt
