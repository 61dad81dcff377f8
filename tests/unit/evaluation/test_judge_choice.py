"""Choosing a judge by name."""

from pathlib import Path

import pytest

from acc.adapters.evaluation.model_judge import ModelJudge, judge_configuration
from acc.adapters.evaluation.rubric_judge import RubricJudge
from acc.bootstrap import judges, models
from acc.bootstrap.judges import JudgeOptions, judging_of, open_judge, reason_not_to_judge
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.evaluation_run import JudgeConfiguration
from acc.testing import ScriptedJudge, ScriptedModel


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_the_rubric_needs_no_configuration() -> None:
    assert judging_of("rubric") is None
    assert isinstance(open_judge("rubric", None), RubricJudge)


@pytest.mark.parametrize(
    ("judge", "options", "fault"),
    [
        ("someone", JudgeOptions(), "choose rubric, model:NAME"),
        ("model:", JudgeOptions(), "needs the name"),
        ("model:embedded", JudgeOptions(force=True), "embedded model cannot judge"),
        ("model:local", JudgeOptions(), "--force-judge"),
        ("model:local:small", JudgeOptions(), "--force-judge"),
        ("model:a:b|c:d", JudgeOptions(), "a judge is one model"),
        ("model:a:b?temperature=hot", JudgeOptions(), "temperature is a number"),
        ("rubric", JudgeOptions(votes=3), "need a model"),
        ("rubric", JudgeOptions(drives=True), "need a model"),
        ("rubric", JudgeOptions(votes=0), "--judge-votes"),
        ("rubric", JudgeOptions(votes=99), "--judge-votes"),
        ("rubric", JudgeOptions(temperature=-1.0), "--judge-temperature"),
        ("python:no_such_module_here:x", JudgeOptions(), "cannot import"),
        ("python:acc.testing:queries", JudgeOptions(), "neither a judge"),
        ("python:acc.testing:FrozenClock", JudgeOptions(), "neither a judge"),
        ("python:acc.testing:verdict", JudgeOptions(), "cannot make"),
    ],
)
def test_a_judge_that_cannot_be_is_refused(judge: str, options: JudgeOptions, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        judging_of(judge, options)


def test_a_small_local_model_may_not_judge_and_others_may() -> None:
    assert reason_not_to_judge("local") is not None
    assert reason_not_to_judge("local:path.gguf") is not None
    assert reason_not_to_judge("localai:big") is None
    assert reason_not_to_judge("anyone:large") is None


def test_the_temperature_is_pinned_in_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make(name: str) -> ScriptedModel:
        made.append(name)
        return ScriptedModel()

    monkeypatch.setattr(models, "make_model", make)
    found = judging_of("model:host:large", JudgeOptions(votes=3, drives=True))
    assert found is not None
    assert (found.model, found.temperature) == ("host:large?temperature=0", 0)
    assert (found.votes, found.drives) == (3, True)
    own = judging_of("model:host:large?seed=1&temperature=0.3")
    assert own is not None
    assert (own.model, own.temperature) == ("host:large?seed=1&temperature=0.3", 0.3)
    more = judging_of("model:host:large?seed=1")
    assert more is not None
    assert more.model == "host:large?seed=1&temperature=0"
    forced = judging_of("model:local", JudgeOptions(force=True))
    assert forced is not None
    assert (forced.model, forced.temperature) == ("local", None)
    assert isinstance(open_judge("model:local", forced), ModelJudge)
    assert made[-1] == "local"


def test_a_judge_or_a_model_of_ones_own_is_taken() -> None:
    assert judging_of("python:acc.testing:ScriptedJudge") is None
    assert isinstance(open_judge("python:acc.testing:ScriptedJudge", None), ScriptedJudge)
    found = judging_of("python:acc.testing:ScriptedModel", JudgeOptions(votes=2))
    assert isinstance(found, JudgeConfiguration)
    assert isinstance(open_judge("python:acc.testing:ScriptedModel", found), ModelJudge)


def test_another_prompt_is_another_judge() -> None:
    one = judge_configuration("any")
    assert one == judge_configuration("any")
    assert len(one.prompts) == 16
    with pytest.raises(ValueError, match="a judge needs a vote"):
        JudgeConfiguration(
            model="any",
            temperature=None,
            votes=0,
            both_orders=False,
            drives=False,
            repairs=0,
            timeout=1,
            prompts="",
            schema=1,
        )


async def test_our_own_examples_are_the_default() -> None:
    readings = await judges.check_judge(None, "rubric")
    assert len(readings) >= 400
    assert all(reading.scored for reading in readings)
