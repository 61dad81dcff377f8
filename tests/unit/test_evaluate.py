"""Episodes on record: begun, stopped, continued, ended in an error."""

from acc.application.evaluation.episode import Episode, EpisodeRunner
from acc.domain.value_objects.evaluation_run import EpisodeJob, ScenarioChoice
from acc.domain.value_objects.live_evaluation import TurnResult
from acc.testing import ScriptedAgent, ScriptedJudge, queries

JOB = EpisodeJob(
    scenario=ScenarioChoice(reference="r", id="s", domain="d", language="en", digest="0"), seed=7
)


class Notebook:
    def __init__(self) -> None:
        self.turns: list[TurnResult] = []

    def earlier(self) -> tuple[TurnResult, ...]:
        return tuple(self.turns)

    async def append(self, result: TurnResult) -> None:
        self.turns.append(result)


def episode(journal: Notebook, *, names: list[str] | None = None) -> Episode:
    return Episode(
        agents=[ScriptedAgent("a", ["1", "2", "3"])],
        judge=ScriptedJudge(names=names),
        queries=queries("one", "two", "three"),
        journal=journal,
    )


async def test_an_episode_is_recorded_turn_by_turn() -> None:
    journal = Notebook()
    seen: list[int] = []
    use_case = EpisodeRunner(compose=lambda _: episode(journal))
    end = await use_case.run(JOB, on_turn=lambda _, result: seen.append(result.query.turn_id))
    assert (end.turns, end.error, end.stopped) == (3, "", False)
    assert seen == [1, 2, 3]
    assert [turn.query.turn_id for turn in journal.turns] == [1, 2, 3]


async def test_an_episode_stops_between_two_turns_and_continues_there() -> None:
    journal = Notebook()
    use_case = EpisodeRunner(compose=lambda _: episode(journal))
    end = await use_case.run(JOB, should_stop=lambda: len(journal.turns) == 2)
    assert (end.turns, end.stopped) == (2, True)
    end = await use_case.run(JOB)
    assert (end.turns, end.stopped) == (3, False)
    assert (await use_case.run(JOB)).turns == 3, "there is nothing left to do"


async def test_an_error_ends_the_episode_and_says_so() -> None:
    journal = Notebook()
    end = await EpisodeRunner(compose=lambda _: episode(journal, names=["ghost"])).run(JOB)
    assert end.error.startswith("judge_contract_broken: turn 1: the judge was asked to score ['a']")
    assert JOB.name == "s.000007"


async def test_a_spoilt_turn_is_not_recorded_and_ends_the_episode_before_the_judge_is_asked() -> (
    None
):
    journal = Notebook()
    made = episode(journal)
    use_case = EpisodeRunner(compose=lambda _: made)
    end = await use_case.run(JOB, why_spoilt=lambda: "no key" if journal.turns else "")
    assert (end.turns, end.error, end.spoilt, end.stopped) == (1, "no key", True, False)
    assert [turn.query.turn_id for turn in journal.turns] == [1]
    assert isinstance(made.judge, ScriptedJudge)
    assert len(made.judge.judged) == 1


async def test_what_spoils_a_turn_is_told_rather_than_the_error_that_it_led_to() -> None:
    journal = Notebook()
    use_case = EpisodeRunner(compose=lambda _: episode(journal, names=["ghost"]))
    reasons = iter(["", "no key"])
    end = await use_case.run(JOB, why_spoilt=lambda: next(reasons))
    assert (end.turns, end.error, end.spoilt) == (0, "no key", True)
