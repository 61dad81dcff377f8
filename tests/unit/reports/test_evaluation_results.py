"""Agreement of a judge with itself, gates, and reports of unscored turns."""

from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from acc.adapters.reports.junit import junit_xml
from acc.adapters.reports.page_data import list_warnings
from acc.adapters.reports.results import Agreement, Tally, interval_fields, paired_differences
from acc.adapters.reports.turn_records import (
    AgentRecord,
    TurnRecord,
    decode_turn,
    encode_turn,
    evaluation_record,
)
from acc.application.evaluation.results import describe_policy
from acc.cli.eval_plan import power_rows, power_tables
from acc.cli.eval_view import (
    agreement_lines,
    result_table,
    result_tables,
    unclear_lines,
)
from acc.domain.gates import Gate
from acc.domain.value_objects.evaluation import JudgeVotes, OutcomeScores, TurnStatus
from acc.domain.value_objects.evaluation_run import EpisodeJob, ScenarioChoice


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


def test_effect_of_length_compares_answers_of_the_same_turn() -> None:
    agreement = Agreement()
    agreement.add_lengths([(10, 5.0), (30, 8.0), (10, 9.0)])
    agreement.add_lengths([(40, 6.0)])
    assert agreement.measured() == {}
    found = agreement.measured(with_length=True)
    assert found["length"] == {
        "pairs": 2,
        "mean": 1.0,
        "longer_is_better": 1,
        "longer_is_worse": 1,
    }
    assert "+1.00, mean of 2 pairs" in agreement_lines({"agreement": found})[0]


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


def tally_of(count: int, *, seeds: int = 1) -> Tally:
    """Return scenarios in which `b` has a slightly better outcome and the same hallucination."""
    tally = Tally(["a", "b"])
    for number in range(count):
        scenario = ScenarioChoice(
            reference=f"s{number}", id=f"s{number}", domain="d", language="en", digest=""
        )
        for seed in range(seeds):
            agents = [
                AgentRecord(
                    name=name,
                    status=TurnStatus.SCORED,
                    outcome=scores(5 + better * (1 + 0.1 * number)),
                    hallucination=0.1 * (number % 2) * better,
                    drift=0.0,
                )
                for name, better in (("a", 0), ("b", 1))
            ]
            record = TurnRecord(turn=2, topic="", query="q", agents=tuple(agents))
            tally.add(EpisodeJob(scenario=scenario, seed=seed), [record])
    return tally


def test_differences_are_over_scenarios_and_corrected_for_declared_measures() -> None:
    rows = {row["metric"]: row for row in paired_differences(tally_of(8, seeds=5), seed=0)}
    assert rows["outcome"]["scenarios"] == 8
    assert rows["outcome"]["pairs"] == 40
    assert rows["outcome"]["clear"] is True
    assert rows["outcome"]["corrected_p"] == pytest.approx(3 * rows["outcome"]["p_value"], abs=1e-5)
    assert rows["relevance"]["declared"] is False
    assert rows["relevance"]["clear"] is False
    # The interval alone excludes zero; the correction for three measures takes the claim back.
    assert rows["hallucination"]["p_value"] < 0.05 < rows["hallucination"]["corrected_p"]
    assert rows["hallucination"]["clear"] is False


def test_interval_of_a_rate_has_no_impossible_values() -> None:
    ends = interval_fields(tally_of(6, seeds=1), "b", "hallucination", 0)
    assert ends["low"] == 0.0
    assert ends["high"] == pytest.approx(0.1075, abs=1e-3)


def test_fewer_than_six_scenarios_give_no_interval_and_a_reason() -> None:
    rows = paired_differences(tally_of(5, seeds=40), seed=0)
    assert {(row["low"], row["high"], row["clear"]) for row in rows} == {(None, None, False)}
    assert all("fewer than 6 scenarios" in row["reason"] for row in rows)


def measured(**values: object) -> dict[str, object]:
    names = ("relevance", "answer_quality", "instruction_following", "coherence")
    return {
        **dict.fromkeys(names, {"mean": 5.0}),
        "outcome": {"mean": 5.0, "low": 4.0, "high": 6.0},
        "hallucination": {"mean": 0.0, "low": 0.0, "high": 0.1},
        "drift": {"mean": 0.2, "low": 0.1, "high": 0.3},
        "memory_tokens": {"mean": 400.0},
        "last_memory_tokens": {"mean": 500.0},
        "failed": 0,
        "unscored": 0,
        **values,
    }


def test_result_table_has_budget_interval_recall_and_worst_case() -> None:
    agents = {
        "a": measured(
            failed=2,
            recall={"mean": 0.25},
            helpful={"mean": 0.1},
            worst_case={"outcome": 4.0, "hallucination": 0.5, "drift": 0.4},
            budget={"memory": "bm25", "tokens": 512},
        ),
        "b": measured(budget={"memory": "full", "tokens": None}),
    }
    columns = [list(column.cells) for column in result_table({"agents": agents}).columns]
    rows = dict(zip(columns[0], zip(*columns[1:], strict=True), strict=True))
    assert rows["memory budget, tokens"] == ("512", "none")
    assert rows["outcome"] == ("5.00", "5.00")
    assert columns[1][columns[0].index("outcome") + 1] == "4.00–6.00"
    assert rows["claim recall"] == ("25.0 %", "-")
    assert rows["complete answers"] == ("10.0 %", "-")
    assert rows["failed turns"] == ("2", "0")
    assert rows["outcome, failed turns as worst case"] == ("4.00", "-")
    assert rows["drift, failed turns as worst case"] == ("40.0 %", "-")


def test_result_tables_split_columns_that_do_not_fit() -> None:
    names = ["短い名前", *(f"agent-with-a-long-name-{number}" for number in range(5))]
    summary = {"agents": {name: measured() for name in names}}
    wide = StringIO()
    Console(width=400, file=wide).print(result_tables(summary, 400))
    assert wide.getvalue().count("outcome ") == 1
    narrow = StringIO()
    Console(width=80, file=narrow).print(result_tables(summary, 80))
    text = narrow.getvalue()
    assert all(name in text for name in names), "names are not abbreviated"
    assert "…" not in text
    assert max(map(cell_len, text.splitlines())) <= 80


def test_power_tables_fit_into_a_narrow_terminal() -> None:
    pilot = {"hallucination": {"a": [0.1], "b": [0.3], "c": [0.2]}}
    output = StringIO()
    for table in power_tables(power_rows(pilot), "acc minus baseline"):
        Console(width=80, file=output).print(table)
    text = output.getvalue()
    assert "hallucination, acc minus baseline: +0.200, deviation 0.100" in text
    assert "detectable at 80 %" in text
    assert "…" not in text


def test_unclear_claims_give_a_range() -> None:
    bounds = {"hallucination_range": {"low": 0.0, "high": 0.5}}
    assert unclear_lines({"agents": {"a": bounds, "b": {}}}) == [
        "a: hallucination 0.0 to 50.0 % with unclear claims"
    ]
