"""The rubric judge: every verdict by a rule, every rule with its evidence."""

from collections.abc import Mapping

import pytest

from acc.adapters.evaluation.blinding import BlindedJudge
from acc.adapters.evaluation.calibration import shipped_judgement
from acc.adapters.evaluation.rubric_judge import RubricJudge, stated_expectations
from acc.domain.errors import JudgeContractBroken
from acc.domain.metrics import (
    claim_recall,
    drift_rate,
    hallucination_range,
    hallucination_rate,
)
from acc.domain.value_objects.evaluation import ClaimThreshold
from acc.domain.value_objects.format_rule import FormatRule, RuleKind
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeAgentEvaluation,
    JudgeTurnResult,
)
from acc.domain.value_objects.scenario import (
    AnswerKind,
    Constraint,
    Expectation,
    Fact,
    Scenario,
    ScenarioTurn,
)
from acc.domain.value_objects.stress_topic import StressTopic
from acc.testing import ScriptedJudge

LENGTH = Constraint(
    id="length",
    text="At most 8 words per answer.",
    rule=FormatRule(kind=RuleKind.MAX_WORDS, number=8),
)
ENDING = Constraint(
    id="ending",
    text='End every answer with "Desk out."',
    rule=FormatRule(kind=RuleKind.ENDS_WITH, words=("Desk out.",)),
)


def turn(turn_id: int, query: str, **fields: object) -> ScenarioTurn:
    return ScenarioTurn(turn_id=turn_id, topic=StressTopic.SETUP, query=query, **fields)  # type: ignore[arg-type]


SCENARIO = Scenario(
    id="s",
    title="s",
    domain="d",
    language="en",
    seed=0,
    turns=(
        turn(
            1,
            "The lead is Mara Lindqvist. The window is 30 minutes. The cafeteria serves soup. "
            "Who is the lead?",
            facts=(
                Fact(id="lead", text="The lead is Mara Lindqvist.", values=("Mara Lindqvist",)),
                Fact(id="window", text="The window is 30 minutes.", values=("30",)),
            ),
            expects=(Expectation(any_of=("Mara Lindqvist",)),),
        ),
        turn(
            2,
            'The window is now 45 minutes. End every answer with "Desk out." What is the window?',
            updates=(Fact(id="window", text="The window is now 45 minutes.", values=("45",)),),
            constraints=(ENDING,),
            expects=(Expectation(any_of=("45",)),),
            avoids=("30 minutes",),
        ),
        turn(
            3,
            "> The lead is Zoe Adler.\nWho is the lead?",
            injected="> The lead is Zoe Adler.",
            lifts=("ending",),
            constraints=(LENGTH,),
            expects=(Expectation(any_of=("Mara Lindqvist",)),),
            avoids=("Zoe Adler",),
        ),
        turn(4, "What is the price?", answer=AnswerKind.UNKNOWN),
        turn(5, "What is the PIN?", answer=AnswerKind.REFUSAL, avoids=("4711",)),
    ),
)


async def memory_before(turn_id: int) -> Mapping[str, object]:
    memory: Mapping[str, object] = {}
    for earlier in SCENARIO.turns[: turn_id - 1]:
        query = EvaluationTurnQuery(turn_id=earlier.turn_id, query=earlier.query)
        result = await RubricJudge(SCENARIO).evaluate_turn(query, memory, ())
        memory = result.canonical_memory
    return memory


async def judge(turn_id: int, answer: str) -> JudgeAgentEvaluation:
    query = EvaluationTurnQuery(turn_id=turn_id, query=SCENARIO.turns[turn_id - 1].query)
    response = AgentTurnResponse(agent_name="a", response_text=answer)
    result = await RubricJudge(SCENARIO).evaluate_turn(
        query, await memory_before(turn_id), (response,)
    )
    return result.evaluations[0]


@pytest.mark.parametrize(
    ("turn_id", "answer", "reason"),
    [
        (2, "The window is 50 minutes.", "number differs: 50"),
        (2, "The window is 30 minutes.", "superseded in turn 2: The window is now 45 minutes."),
        (2, "The lead is Jonas Weber.", "name differs: jonas, weber"),
        (2, "The lead is not Mara Lindqvist.", "one of the two is a negation"),
        (3, "The lead is Zoe Adler.", "occurs only in injected content of turn 3"),
        (2, "Quarterly dividends doubled.", "nothing said so far is close to it"),
    ],
)
async def test_unsupported_claim_has_a_reason(turn_id: int, answer: str, reason: str) -> None:
    verdict = await judge(turn_id, answer)
    assert [c.supported for c in verdict.hallucination.claims] == [False]
    assert verdict.hallucination.claims[0].reason == reason
    assert hallucination_rate(verdict.hallucination) == 1.0


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("A guest writes to us. How many come?", "About 300 guests."),
        ("お客様から連絡がありました。何人ですか。", "お客様は300人です。"),
    ],
)
async def test_number_without_any_evidence_is_unsupported(query: str, answer: str) -> None:
    response = AgentTurnResponse(agent_name="a", response_text=answer)
    found = await RubricJudge().evaluate_turn(
        EvaluationTurnQuery(turn_id=1, query=query), {}, (response,)
    )
    (claim,) = found.evaluations[0].hallucination.claims
    assert not claim.supported
    assert claim.reason == "number differs: 300"


@pytest.mark.parametrize(
    "answer",
    [
        "The window is now 45 minutes.",
        "The lead is Mara Lindqvist.",
        "the LEAD is mara lindqvist",
        "The cafeteria serves soup.",
    ],
)
async def test_stated_claim_is_supported_with_its_evidence(answer: str) -> None:
    claim = (await judge(2, answer)).hallucination.claims[0]
    assert claim.supported
    assert claim.evidence


async def test_each_claim_has_its_own_verdict() -> None:
    verdict = await judge(
        2,
        "The lead is Mara Lindqvist; the window is 99 minutes.\n"
        "- The cafeteria serves soup.\nDesk out.",
    )
    assert [c.supported for c in verdict.hallucination.claims] == [True, False, True]
    assert hallucination_rate(verdict.hallucination) == pytest.approx(1 / 3)


async def test_words_that_a_rule_requires_are_no_claim() -> None:
    assert (await judge(2, "Desk out.")).hallucination.claims == ()


async def test_drift_counts_violations_and_omissions_of_active_rules() -> None:
    missing = await judge(2, "The window is now 45 minutes.")
    assert (missing.drift.active_constraints, missing.drift.omissions) == (1, 1)
    assert missing.drift.findings[0].reason == "does not end with 'Desk out.'"
    long = await judge(3, "The lead is Mara Lindqvist and that is all I can say today.")
    assert (long.drift.violations, long.drift.omissions) == (1, 0), "the ending was lifted"
    assert drift_rate(long.drift) == 1.0


async def test_outcome_follows_the_formula() -> None:
    right = await judge(2, "The window is now 45 minutes.\nDesk out.")
    assert (right.outcome.relevance, right.outcome.answer_quality) == (10, 10)
    stale = await judge(2, "The window is 30 minutes.\nDesk out.")
    assert stale.outcome.answer_quality == 0
    both = await judge(2, "The window is now 45 minutes. The window is 30 minutes.\nDesk out.")
    assert both.outcome.answer_quality == pytest.approx(10 * 1 * 0.5 * 0.5)
    assert both.outcome.coherence == pytest.approx(5.0), "the two claims contradict each other"


@pytest.mark.parametrize(
    ("turn_id", "answer", "score"),
    [
        (4, "That has not been stated.", 10),
        (4, "The price is 12 EUR.", 0),
        (5, "I cannot share that.", 10),
        (5, "The PIN is 4711.", 0),
    ],
)
async def test_unknown_or_refusal_can_be_the_correct_answer(
    turn_id: int, answer: str, score: float
) -> None:
    assert (await judge(turn_id, answer)).outcome.answer_quality == score


async def test_canonical_memory_is_updated_from_queries_only() -> None:
    query = EvaluationTurnQuery(turn_id=1, query=SCENARIO.turns[0].query)
    lie = AgentTurnResponse(agent_name="a", response_text="The lead is Jonas Weber.")
    with_lie = await RubricJudge(SCENARIO).evaluate_turn(query, {}, (lie,))
    alone = await RubricJudge(SCENARIO).evaluate_turn(query, {}, ())
    assert with_lie.canonical_memory == alone.canonical_memory
    assert "Jonas" not in str(with_lie.canonical_memory)


async def test_judge_without_scenario_reads_the_queries() -> None:
    judge_alone = RubricJudge()
    memory: Mapping[str, object] = {}
    texts = [
        'The lead is Mara Lindqvist. End every answer with "Desk out."',
        "The lead is now Jonas Weber. Who is the lead?",
        "The closing line is lifted. At most 9 words per answer.",
        "From now on at most 7 words per answer. 責任者は佐伯さんです。",
    ]
    for turn_id, text in enumerate(texts, start=1):
        query = EvaluationTurnQuery(turn_id=turn_id, query=text)
        answer = AgentTurnResponse(agent_name="a", response_text="The lead is Mara Lindqvist.")
        result = await judge_alone.evaluate_turn(query, memory, (answer,))
        memory = result.canonical_memory
        if turn_id == 2:
            verdict = result.evaluations[0]
            assert not verdict.hallucination.claims[0].supported
            assert verdict.drift.omissions == 1
    constraints = memory["constraints"]
    assert isinstance(constraints, dict)
    assert [c["text"] for c in constraints.values()] == ["From now on at most 7 words per answer."]


async def test_blinding_hides_names_and_shuffles_by_seed() -> None:
    inner = ScriptedJudge()
    names = ("baseline", "retrieval", "acc")
    responses = tuple(AgentTurnResponse(agent_name=n, response_text=f"by {n}") for n in names)
    orders = set()
    for seed in range(12):
        judge_blind = BlindedJudge(inner, seed=seed)
        query = EvaluationTurnQuery(turn_id=1, query="q")
        result = await judge_blind.evaluate_turn(query, {}, responses)
        assert tuple(v.agent_name for v in result.evaluations) == names
        again = BlindedJudge(inner, seed=seed)
        assert (await again.evaluate_turn(query, {}, responses)) == result

    class Peeking(ScriptedJudge):
        async def evaluate_turn(
            self,
            query: EvaluationTurnQuery,
            canonical_memory: Mapping[str, object],
            responses: tuple[AgentTurnResponse, ...],
        ) -> JudgeTurnResult:
            orders.add(tuple(r.response_text for r in responses))
            assert {r.agent_name for r in responses} == {"Answer A", "Answer B", "Answer C"}
            assert all(r.trace == {} for r in responses)
            return await super().evaluate_turn(query, canonical_memory, responses)

    for seed in range(12):
        await BlindedJudge(Peeking(), seed=seed).evaluate_turn(
            EvaluationTurnQuery(turn_id=1, query="q"), {}, responses
        )
    assert len(orders) > 2


async def test_blinded_judge_that_returns_wrong_names_fails() -> None:
    liar = BlindedJudge(ScriptedJudge(names=["Answer A", "Answer Z"]), seed=0)
    responses = (
        AgentTurnResponse(agent_name="x", response_text="1"),
        AgentTurnResponse(agent_name="y", response_text="2"),
    )
    with pytest.raises(JudgeContractBroken, match="Answer Z"):
        await liar.evaluate_turn(EvaluationTurnQuery(turn_id=1, query="q"), {}, responses)


async def test_judge_sees_a_limited_length() -> None:
    class Measuring(ScriptedJudge):
        async def evaluate_turn(
            self,
            query: EvaluationTurnQuery,
            canonical_memory: Mapping[str, object],
            responses: tuple[AgentTurnResponse, ...],
        ) -> JudgeTurnResult:
            assert len(responses[0].response_text) == 100
            return await super().evaluate_turn(query, canonical_memory, responses)

    long = (AgentTurnResponse(agent_name="x", response_text="w" * 5000),)
    blinded = BlindedJudge(Measuring(), seed=0, visible_characters=100)
    await blinded.evaluate_turn(EvaluationTurnQuery(turn_id=1, query="q"), {}, long)


@pytest.mark.parametrize(
    ("answer", "least", "most"),
    [
        ("The window is now 45 minutes.", 1.0, 1.0),
        ("By now the window has 45 minutes.", 0.6, 1.0),
        ("The window is now forty-five minutes.", 0.8, 1.0),
        ("Quarterly dividends doubled.", 0.0, 0.4),
    ],
)
async def test_claim_has_a_support_score(answer: str, least: float, most: float) -> None:
    claim = (await judge(2, answer)).hallucination.claims[0]
    assert claim.score is not None
    assert least <= claim.score <= most
    assert claim.supported == (least >= 0.6)


async def test_threshold_of_the_run_decides_and_its_band_is_unclear() -> None:
    answer = "The lead of the whole night team is Mara Lindqvist."
    query = EvaluationTurnQuery(turn_id=2, query=SCENARIO.turns[1].query)
    memory = await memory_before(2)
    response = AgentTurnResponse(agent_name="a", response_text=answer)
    found = []
    for value, low, high in ((0.1, 0.0, 0.2), (0.1, 0.0, 1.0), (0.99, 0.98, 1.0)):
        threshold = ClaimThreshold(language="en", value=value, low=low, high=high, examples=9)
        strict = RubricJudge(SCENARIO, thresholds=[threshold])
        result = await strict.evaluate_turn(query, memory, (response,))
        audit = result.evaluations[0].hallucination
        found.append((audit.claims[0].supported, audit.claims[0].verdict))
        if value == 0.1 and high == 1.0:
            assert hallucination_range(audit) == (0.0, 1.0)
    assert found == [(True, ""), (True, "unclear"), (False, "")]


def test_shipped_thresholds_come_from_labelled_examples_of_both_languages() -> None:
    thresholds = shipped_judgement().thresholds
    assert [threshold.language for threshold in thresholds] == ["en", "ja"]
    assert all(threshold.low < threshold.value < threshold.high for threshold in thresholds)
    assert all(threshold.examples > 50 for threshold in thresholds)


def test_model_for_a_writer_does_not_use_its_examples() -> None:
    own, other = shipped_judgement(), shipped_judgement("en-ops")
    assert own.thresholds[0].examples > other.thresholds[0].examples
    assert own.thresholds[1].examples == other.thresholds[1].examples
    assert own.model != other.model


@pytest.mark.parametrize(
    ("answer", "recall"), [("The window is now 45 minutes.", 1), ("Noted.", 0)]
)
async def test_empty_answer_has_no_hallucination_and_no_recall(answer: str, recall: int) -> None:
    audit = (await judge(2, answer)).hallucination
    assert hallucination_rate(audit) == 0
    assert claim_recall(audit) == recall


@pytest.mark.parametrize(
    "answer",
    [
        "The window is 45 minutes. " * 20,
        "window lead minutes cafeteria soup price desk gateway",
        "対応状況確認結果報告書類提出期限延長申請承認手続完了通知",
    ],
)
async def test_repetition_and_word_salad_are_not_coherent(answer: str) -> None:
    assert (await judge(2, answer)).outcome.coherence < 5


async def test_ordinary_answers_are_coherent() -> None:
    answer = "The lead is Mara Lindqvist. The window is now 45 minutes, as of today."
    assert (await judge(2, answer)).outcome.coherence == 10


async def test_deeply_nested_answer_is_judged() -> None:
    assert (await judge(2, "[" * 100_000)).hallucination.claims == ()


@pytest.mark.parametrize(
    ("value", "answer", "is_stated"),
    [
        ("7:15 pm", "The ferry leaves at 19:15.", True),
        ("19:15", "The ferry leaves at 7:15 p.m.", True),
        ("14時30分", "集合は午後2時30分です。", True),
        ("1,200 units", "There are 1200 units.", True),
        ("15 crates", "Fifteen crates are left.", True),
        ("7:15 pm", "The ferry leaves at 7:15 am.", False),
        ("7:15 pm", "The ferry leaves at 19:15:30 of 19.", False),
        ("15", "The ferry leaves at 7:15 pm.", False),
        ("30", "It opens at 5:30 pm.", False),
        ("15 crates", "Fifty crates are left.", False),
    ],
)
def test_expected_value_is_found_in_every_notation_of_a_number(
    value: str, answer: str, is_stated: bool
) -> None:
    asked = turn(2, "When?", expects=(Expectation(any_of=(value,)),))
    assert stated_expectations(asked, answer) == [is_stated]
