"""Agreement of a judge with itself, gates, and reports of unscored turns."""

import pytest

from acc.adapters.reports.junit import junit_xml
from acc.adapters.reports.page_data import list_warnings
from acc.adapters.reports.results import Agreement
from acc.adapters.reports.turn_records import (
    AgentRecord,
    TurnRecord,
    decode_turn,
    encode_turn,
    evaluation_record,
)
from acc.application.evaluation.results import describe_policy
from acc.cli.eval_view import agreement_lines
from acc.domain.gates import Gate
from acc.domain.value_objects.evaluation import JudgeVotes, OutcomeScores, TurnStatus


def scores(value: float) -> OutcomeScores:
    return OutcomeScores(
        relevance=value, answer_quality=value, instruction_following=value, coherence=value
    )


def test_agreement_is_measured_over_all_answers() -> None:
    agreement = Agreement()
    assert agreement.measured() == {}
    for claims in (("supported", "supported"), ("unsupported", "unsupported")):
        agreement.add(JudgeVotes(claims=(claims,), scores=(scores(5), scores(5))))
    agreement.add(JudgeVotes(scores=(scores(8), scores(9)), reversed_scores=(scores(6), scores(6))))
    found = agreement.measured()
    assert found["alpha"]["claims"] == {"value": 1.0, "units": 2}
    assert found["alpha"]["constraints"] == {"value": None, "units": 0}
    assert found["alpha"]["relevance"]["units"] == 4
    assert found["order"]["coherence"] == {
        "answers": 1,
        "mean_absolute": 2.5,
        "mean": 2.5,
        "changed": 1,
    }
    summary = {"agreement": found}
    assert len(agreement_lines(summary)) == 2
    assert agreement_lines({}) == []


def test_votes_in_both_orders_alone_show_no_alpha() -> None:
    agreement = Agreement()
    agreement.add(
        JudgeVotes(claims=(("supported",),), scores=(scores(8),), reversed_scores=(scores(8),))
    )
    found = agreement.measured()
    assert "alpha" not in found
    assert found["order"]["relevance"]["changed"] == 0


def test_flags_and_votes_round_trip_through_the_journal() -> None:
    votes = JudgeVotes(claims=(("supported", "outdated"),), scores=(scores(3),))
    line = TurnRecord(
        turn=1,
        topic="",
        query="q",
        agents=(
            AgentRecord(
                name="a",
                status=TurnStatus.SCORED,
                answer="x",
                outcome=scores(3),
                flags=("asks for a score",),
                votes=votes,
            ),
            AgentRecord(
                name="b", status=TurnStatus.UNSCORED, error="judge: down", flags=("hides text",)
            ),
        ),
    )
    read = decode_turn(encode_turn(line))
    assert read == line
    assert evaluation_record(1, read.agents[0]).votes == votes
    assert evaluation_record(1, read.agents[1]).flags == ("hides text",)


def test_gate_explanation_counts_turns_without_score() -> None:
    measures: dict[str, dict[str, float | None]] = {
        "acc": {"drift": 0.1, "scored": 12, "failed": 1, "unscored": 7}
    }
    found = Gate.parse("acc.drift > 0.05").evaluate(measures)
    assert found.failed
    assert found.explanation == "acc.drift is 0.1; 8 of 20 turns of acc have no score"
    measures["acc"] |= {"failed": 0, "unscored": 0}
    assert Gate.parse("acc.drift > 0.05").evaluate(measures).explanation == "acc.drift is 0.1"
    assert Gate.parse("1 > 2").evaluate(measures).explanation == "refers to no agent"


def test_unscored_turns_are_warnings_in_the_page_and_skipped_in_junit() -> None:
    agents = {
        "acc": {"scored": 5, "failed": 0, "unscored": 2, "flagged": 1},
        "other": {"scored": 7, "failed": 0, "unscored": 0, "flagged": 0},
    }
    summary = {
        "agents": agents,
        "errors": {},
        "episodes": {"planned": 1, "recorded": 1},
        "gates": [],
    }
    warnings = "\n".join(list_warnings(summary))
    assert "2 of 7 turns of acc could not be scored" in warnings
    assert "1 of 7 answers of acc try to influence the judge" in warnings
    assert "other" not in warnings
    xml = junit_xml(summary, (), {"acc": 0, "other": 0}).decode()
    assert 'skipped="1"' in xml
    assert "2 turns could not be scored" in xml
    agents["acc"]["unscored"] = 0
    assert "skipped" not in junit_xml(summary, (), {"acc": 0}).decode()


def policy(*kinds: str, judge: str = "rubric", model: str = "embedded") -> str:
    agents = [{"name": kind.partition(":")[0], "kind": kind} for kind in kinds]
    return describe_policy({"configuration": {"judge": judge, "model": model, "agents": agents}})


@pytest.mark.parametrize(
    ("judge", "words"),
    [("rubric", "claims nothing about any language model"), ("model:x", "--judge model:x")],
)
def test_policy_text_depends_on_the_judge(judge: str, words: str) -> None:
    assert words in policy("acc", judge=judge)


@pytest.mark.parametrize("judge", ["rubric", "model:x"])
def test_policy_text_names_the_embedded_model_only_for_built_in_agents(judge: str) -> None:
    assert "mbedded model" not in policy("a2a:http://x", "python:m:f", judge=judge)
    assert "answered with the embedded model" in policy("acc", "a2a:http://x", judge=judge)
    assert "answered with openai:x" in policy("acc", "a2a:http://x", judge=judge, model="openai:x")
