"""The rubric judge: deterministic, explainable, and blind to who answered.

Its canonical memory comes from the queries alone. With a scenario it reads the turn's annotations;
without one it reads the query's own sentences.
"""

from collections.abc import Mapping, Sequence

from acc.adapters.evaluation.canonical_memory import CanonicalLedger
from acc.adapters.evaluation.claims import REFUSAL, UNKNOWN, Evidence, EvidencePool, claims_of
from acc.domain.evaluation_metrics import drift_rate, hallucination_rate
from acc.domain.language import contains_text, said, sentences, shown, terms
from acc.domain.rule_checking import OMISSIONS, breach
from acc.domain.rule_reading import is_question, read_rule
from acc.domain.statements import supersedes
from acc.domain.value_objects.evaluation import (
    ConstraintFinding,
    DriftAudit,
    HallucinationAudit,
    OutcomeScores,
)
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeAgentEvaluation,
    JudgeTurnResult,
)
from acc.domain.value_objects.rule import RuleKind
from acc.domain.value_objects.scenario import AnswerKind, Scenario, Turn

_WORDED = (RuleKind.ENDS_WITH, RuleKind.STARTS_WITH, RuleKind.HEADINGS, RuleKind.REQUIRE)


class RubricJudge:
    """Scores answers by rules that the documentation states."""

    def __init__(self, scenario: Scenario | None = None) -> None:
        self._turns: dict[int, Turn] = {}
        if scenario is not None:
            self._turns = {turn.turn_id: turn for turn in scenario.turns}

    async def evaluate_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        responses: tuple[AgentTurnResponse, ...],
    ) -> JudgeTurnResult:
        """Return a verdict for each response, and the memory updated from the query."""
        turn = self._turns.get(query.turn_id)
        ledger = CanonicalLedger(canonical_memory)
        if turn is not None:
            ledger.take_annotated(turn)
        else:
            ledger.take_plain(query)
        bench = _Bench(query, turn, ledger)
        return JudgeTurnResult(
            canonical_memory=ledger.memory,
            evaluations=tuple(
                bench.evaluate(response.agent_name, response.response_text)
                for response in responses
            ),
        )


class _Bench:
    """One turn's evidence and rules, applied to each answer in the same way."""

    def __init__(
        self, query: EvaluationTurnQuery, turn: Turn | None, ledger: CanonicalLedger
    ) -> None:
        self._turn = turn
        self._rules = ledger.rules()
        if turn is not None:
            self._rules += [(f"for this answer: {rule.kind.value}", rule) for rule in turn.once]
        else:
            reads = [read_rule(sentence) for sentence in said(query.query)]
            self._rules += [(read.text, read.rule) for read in reads if read and read.once]
        evidence = ledger.evidence()
        if turn is None:
            shown_only = "was shown in this turn, not said"
            evidence += [Evidence(text, shown_only) for text in shown(query.query)]
        self._pool = EvidencePool(evidence)
        stated = turn.stated if turn else query.query
        questions = [s for s in sentences(stated) if is_question(s)]
        self._asked = terms(" ".join(questions) or stated)
        self._formal = [w for _, rule in self._rules if rule.kind in _WORDED for w in rule.words]

    def evaluate(self, agent_name: str, answer: str) -> JudgeAgentEvaluation:
        """Return the verdict on one answer."""
        claims = tuple(self._pool.judge(claim) for claim in claims_of(answer, self._formal))
        supported = sum(claim.supported for claim in claims)
        hallucination = HallucinationAudit(
            supported_claims=supported,
            unsupported_claims=len(claims) - supported,
            claims=claims,
        )
        drift = self._drift(answer)
        return JudgeAgentEvaluation(
            agent_name=agent_name,
            outcome=self._outcome(answer, hallucination, drift),
            hallucination=hallucination,
            drift=drift,
        )

    def _drift(self, answer: str) -> DriftAudit:
        findings = tuple(
            ConstraintFinding(constraint=text, omission=rule.kind in OMISSIONS, reason=reason)
            for text, rule in self._rules
            if (reason := breach(rule, answer))
        )
        omissions = sum(finding.omission for finding in findings)
        return DriftAudit(
            active_constraints=len(self._rules),
            violations=len(findings) - omissions,
            omissions=omissions,
            findings=findings,
        )

    def _outcome(
        self, answer: str, hallucination: HallucinationAudit, drift: DriftAudit
    ) -> OutcomeScores:
        covered = self._coverage(answer)
        texts = [claim.claim for claim in hallucination.claims]
        on_topic = covered
        if texts:
            on_topic = sum(bool(terms(text) & self._asked) for text in texts) / len(texts)
        avoided = self._turn.avoids if self._turn else ()
        planted = sum(contains_text(answer, text) for text in avoided) / max(1, len(avoided))
        quality = covered * (1 - hallucination_rate(hallucination)) * (1 - planted / 2)
        return OutcomeScores(
            relevance=round(10 * (0.6 * covered + 0.4 * on_topic), 4),
            answer_quality=round(10 * quality, 4),
            instruction_following=round(10 * max(0.0, 1 - drift_rate(drift)), 4),
            coherence=round(10 * _coherence(texts), 4),
        )

    def _coverage(self, answer: str) -> float:
        if self._turn is None:
            return 1.0 if terms(answer) & self._asked else 0.0
        marks = [
            float(any(contains_text(answer, text) for text in expected.any_of))
            for expected in self._turn.expects
        ]
        if self._turn.answer is AnswerKind.UNKNOWN:
            marks.append(float(UNKNOWN.search(answer) is not None))
        elif self._turn.answer is AnswerKind.REFUSAL:
            marks.append(float(REFUSAL.search(answer) is not None))
        return sum(marks) / len(marks) if marks else 1.0


def _coherence(claims: Sequence[str]) -> float:
    """Return 1 less half for each share of claims that contradict or repeat another one."""
    if len(claims) < 2:
        return 1.0
    clashing = sum(
        any(
            supersedes(claim, other) or supersedes(other, claim)
            for other in claims
            if other != claim
        )
        for claim in claims
    )
    repeated = len(claims) - len({" ".join(sorted(terms(claim))) for claim in claims})
    return max(0.0, 1 - 0.5 * clashing / len(claims) - 0.5 * repeated / len(claims))
