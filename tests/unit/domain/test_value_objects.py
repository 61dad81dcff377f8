from collections.abc import Callable
from typing import Any

import pytest

from acc.domain.value_objects.ccs import CompressedCognitiveState, item_content
from acc.domain.value_objects.evaluation import (
    AgentTurnEvaluationRecord,
    ClaimVerdict,
    ConstraintFinding,
    DriftAudit,
    HallucinationAudit,
    OutcomeScores,
    TurnStatus,
)
from acc.domain.value_objects.evaluation_run import (
    AgentChoice,
    EvaluationConfig,
    ScenarioChoice,
    jobs_of,
)
from acc.domain.value_objects.format_rule import (
    EXCLUSIVE_KINDS,
    NUMERIC_KINDS,
    TEXT_KINDS,
    FormatRule,
    RuleKind,
)
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, EvaluationTurnQuery
from acc.domain.value_objects.scenario import Expectation

FULL = OutcomeScores(relevance=10, answer_quality=8, instruction_following=6, coherence=4)
CLEAN = HallucinationAudit(supported_claims=1, unsupported_claims=0)
STEADY = DriftAudit(active_constraints=1, violations=0, omissions=0)
CLAIM = ClaimVerdict(claim="db-1 is up", supported=True)
FINDING = ConstraintFinding(constraint="60 words", omission=False, reason="70 words")


def _scores(score: float) -> OutcomeScores:
    return OutcomeScores(
        relevance=score, answer_quality=score, instruction_following=score, coherence=score
    )


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (lambda: CompressedCognitiveState(focal_entities=("nginx",)), "focal_entities: 'nginx'"),
        (lambda: CompressedCognitiveState(relational_map=("after()",)), "relational_map"),
        (lambda: CompressedCognitiveState(relational_map=("a(b)\n",)), "relational_map"),
        (lambda: _scores(-0.1), "relevance must be a number from 0 to 10"),
        (lambda: _scores(10.1), "relevance must be a number from 0 to 10"),
        (lambda: _scores(float("nan")), "relevance must be a number from 0 to 10"),
        (lambda: HallucinationAudit(supported_claims=-1, unsupported_claims=0), "negative"),
        (
            lambda: HallucinationAudit(supported_claims=0, unsupported_claims=1, claims=(CLAIM,)),
            "must add up",
        ),
        (lambda: DriftAudit(active_constraints=1, violations=0, omissions=-1), "negative"),
        (
            lambda: DriftAudit(
                active_constraints=1, violations=0, omissions=1, findings=(FINDING,)
            ),
            "must add up",
        ),
        (lambda: AgentTurnEvaluationRecord(agent_name="a", turn_id=1), "requires outcome"),
        (lambda: _record(turn_id=0), "turn_id must be at least 1"),
        (lambda: _record(memory_tokens=-1), "memory_tokens must not be negative"),
        (lambda: _unjudged(error=""), "requires an error"),
        (lambda: _record(status=TurnStatus.FAILED), "requires an error"),
        (lambda: EvaluationTurnQuery(turn_id=0, query="x"), "turn_id must be at least 1"),
        (lambda: EvaluationTurnQuery(turn_id=1, query=" \n"), "turn 1 must not be empty"),
        (
            lambda: AgentTurnResponse(agent_name="a", response_text="", memory_tokens=-1),
            "memory_tokens must not be negative",
        ),
        (lambda: FormatRule(kind=RuleKind.MAX_WORDS), ">= 1"),
        (lambda: FormatRule(kind=RuleKind.FORBID, words=(" ",)), "not blank"),
        (lambda: Expectation(any_of=()), "any_of must contain"),
        (lambda: Expectation(any_of=("x", " ")), "any_of must contain"),
    ],
)
def test_invalid_value_object_is_rejected(build: Callable[[], object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault.replace("(", r"\(")):
        build()


def _record(
    *,
    turn_id: int = 1,
    memory_tokens: int | None = None,
    status: TurnStatus = TurnStatus.SCORED,
) -> AgentTurnEvaluationRecord:
    return AgentTurnEvaluationRecord(
        agent_name="a",
        turn_id=turn_id,
        status=status,
        outcome=FULL,
        hallucination=CLEAN,
        drift=STEADY,
        memory_tokens=memory_tokens,
        error="" if status is TurnStatus.SCORED else "timed out",
    )


def _unjudged(*, error: str) -> AgentTurnEvaluationRecord:
    return AgentTurnEvaluationRecord(
        agent_name="a", turn_id=1, status=TurnStatus.UNSCORED, error=error
    )


def test_audit_accepts_listed_claims_and_findings() -> None:
    claims = HallucinationAudit(supported_claims=1, unsupported_claims=0, claims=(CLAIM,))
    findings = DriftAudit(active_constraints=1, violations=1, omissions=0, findings=(FINDING,))
    assert (claims.claims, findings.findings) == ((CLAIM,), (FINDING,))


def test_outcome_mean_is_mean_of_four_scores() -> None:
    assert FULL.mean == 7


def test_response_without_token_count_is_valid() -> None:
    assert EvaluationTurnQuery(turn_id=1, query="状況は？").query == "状況は？"
    assert AgentTurnResponse(agent_name="a", response_text="復旧").memory_tokens is None
    assert AgentTurnResponse(agent_name="a", response_text="up", memory_tokens=0).trace == {}
    assert Expectation(any_of=("db-1", "１号機")).any_of == ("db-1", "１号機")


def test_unjudged_turn_has_error() -> None:
    assert _unjudged(error="judge timed out").outcome is None


@pytest.mark.parametrize(
    ("item", "content"),
    [
        ("service(nginx)", "nginx"),
        ("after(502_spikes, f(x))", "502_spikes, f(x)"),
        ("担当(佐藤)", "担当(佐藤)"),
        ("person(佐藤)", "佐藤"),
        ("plain", "plain"),
    ],
)
def test_item_content_returns_content_of_typed_item(item: str, content: str) -> None:
    assert item_content(item) == content


def test_jobs_have_one_episode_per_scenario_and_seed() -> None:
    scenarios = tuple(
        ScenarioChoice(reference=name, id=name, domain="d", language="en", digest="0")
        for name in ("one", "two")
    )
    configuration = EvaluationConfig(
        version="1",
        scenarios=scenarios,
        agents=(AgentChoice(name="acc", kind="acc"),),
        judge="rubric",
        episodes=2,
        turns=None,
        seed=7,
        window=4096,
        budget=512,
        timeout=None,
    )
    names = [job.name for job in jobs_of(configuration)]
    assert names == ["one.000007", "one.000008", "two.000007", "two.000008"]


def test_rule_kind_sets_are_disjoint() -> None:
    assert not NUMERIC_KINDS & TEXT_KINDS
    assert NUMERIC_KINDS < EXCLUSIVE_KINDS
    assert RuleKind.FORBID not in EXCLUSIVE_KINDS


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"response_text": 3}, "response_text must be a str, got int"),
        ({"response_text": "x", "memory_tokens": "5"}, "memory_tokens must be an integer"),
        ({"response_text": "x", "memory_tokens": True}, "memory_tokens must be an integer"),
    ],
)
def test_answer_with_fields_of_wrong_types_is_rejected(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(TypeError, match=fault):
        AgentTurnResponse(agent_name="a", **fields)
