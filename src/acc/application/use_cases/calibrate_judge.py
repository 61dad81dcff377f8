"""Compare a judge with labelled examples."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from acc.application.evaluation.model_pool import ModelPool
from acc.domain.language import terms
from acc.domain.statistics import cohen_kappa, kappa_interval
from acc.domain.value_objects.evaluation import ClaimVerdict, DriftAudit
from acc.domain.value_objects.evaluation_run import CalibrationCase, CalibrationItem, Label
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeAgentEvaluation,
)
from acc.ports.outbound.live_evaluation_ports import JudgeEvaluatorPort

#: Verdicts of a judge that are not labels: a coarse verdict, nothing to judge, and a failure.
NOT_SUPPORTED, NO_CLAIM, NO_RULE, UNSCORED = "not supported", "no claim", "no rule", "unscored"
_GOOD = frozenset({Label.SUPPORTED.value, Label.SATISFIED.value})
_NOTHING_JUDGED = frozenset({NO_CLAIM, NO_RULE})


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationResult:
    """One labelled example with the verdict of the judge and its reason."""

    case: CalibrationCase
    item: CalibrationItem
    verdict: str
    reason: str = ""

    @property
    def is_scored(self) -> bool:
        """Return True if the judge gave a verdict."""
        return self.verdict != UNSCORED

    @property
    def is_correct(self) -> bool:
        """Return True if the verdict agrees with the label: good, bad, or nothing to judge."""
        return _coarse(self.verdict) == _coarse(self.item.label.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSummary:
    """Agreement of a judge with labels; accuracy and kappa are None if nothing was scored."""

    examples: int
    unscored: int
    accuracy: float | None
    kappa: float | None
    #: The 95 % interval of kappa over cases, or None if it is undefined.
    kappa_low: float | None
    kappa_high: float | None
    confusion: Mapping[str, Mapping[str, int]]


def summarize_calibration(results: Sequence[CalibrationResult]) -> CalibrationSummary:
    """Return accuracy and kappa of the scored examples, and the confusion of all examples."""
    scored = [result for result in results if result.is_scored]
    confusion: dict[str, dict[str, int]] = {}
    counts = Counter((result.item.label.value, result.verdict) for result in results)
    for (label, verdict), count in sorted(counts.items()):
        confusion.setdefault(label, {})[verdict] = count
    correct = sum(result.is_correct for result in scored)
    by_case: dict[str, list[tuple[str, str]]] = {}
    for result in scored:
        pair = (_coarse(result.item.label.value), _coarse(result.verdict))
        by_case.setdefault(result.case.id, []).append(pair)
    interval = kappa_interval(list(by_case.values()))
    return CalibrationSummary(
        examples=len(results),
        unscored=len(results) - len(scored),
        accuracy=correct / len(scored) if scored else None,
        kappa=cohen_kappa([pair for pairs in by_case.values() for pair in pairs]),
        kappa_low=interval[0] if interval else None,
        kappa_high=interval[1] if interval else None,
        confusion=confusion,
    )


class CalibrateJudgeUseCase:
    """Lets a judge evaluate the answers of labelled cases.

    `new_judge` makes a judge for each case; it may depend on the writer of the case. If the judge
    calls a model, `models` is its pool: an error that no retry can fix ends the calibration.
    """

    def __init__(
        self,
        new_judge: Callable[[CalibrationCase], JudgeEvaluatorPort],
        *,
        models: ModelPool | None = None,
    ) -> None:
        self._new_judge = new_judge
        self._models = models

    async def run(
        self, cases: Iterable[CalibrationCase]
    ) -> AsyncGenerator[list[CalibrationResult], None]:
        """Yield the results of each case; examples of a judge that fails are unscored."""
        try:
            for case in cases:
                results = await self._evaluate(case)
                if self._models is not None:
                    self._models.raise_error()
                yield results
        finally:
            if self._models is not None:
                await self._models.aclose()

    async def _evaluate(self, case: CalibrationCase) -> list[CalibrationResult]:
        judge = self._new_judge(case)
        memory: Mapping[str, object] = {}
        items = {f"Answer {number}": item for number, item in enumerate(case.items, start=1)}
        responses = tuple(
            AgentTurnResponse(agent_name=name, response_text=item.answer)
            for name, item in items.items()
        )
        try:
            for turn, text in enumerate(case.context, start=1):
                query = EvaluationTurnQuery(turn_id=turn, query=text)
                memory = (await judge.evaluate_turn(query, memory, ())).canonical_memory
            query = EvaluationTurnQuery(turn_id=len(case.context) + 1, query=case.question)
            result = await judge.evaluate_turn(query, memory, responses)
        # A judge is third-party code. Its failure must never count as a wrong verdict.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            reason = f"{type(error).__name__}: {error}"
            return [
                CalibrationResult(case=case, item=item, verdict=UNSCORED, reason=reason)
                for item in case.items
            ]
        evaluations = {evaluation.agent_name: evaluation for evaluation in result.evaluations}
        return [
            _result(case, item, evaluations.get(name), result.unscored.get(name, "no verdict"))
            for name, item in items.items()
        ]


def _coarse(verdict: str) -> str:
    if verdict in _NOTHING_JUDGED:
        return "nothing judged"
    return "good" if verdict in _GOOD else "bad"


def _result(
    case: CalibrationCase,
    item: CalibrationItem,
    evaluation: JudgeAgentEvaluation | None,
    unscored_reason: str,
) -> CalibrationResult:
    if evaluation is None:
        verdict, reason = UNSCORED, unscored_reason
    elif item.is_claim:
        verdict, reason = _claim_verdict(_matching_claims(item, evaluation.hallucination.claims))
    else:
        verdict, reason = _rule_verdict(evaluation.drift)
    return CalibrationResult(case=case, item=item, verdict=verdict, reason=reason)


def _matching_claims(
    item: CalibrationItem, claims: Sequence[ClaimVerdict]
) -> Sequence[ClaimVerdict]:
    """Return the claims that correspond to the label: all, or the closest of a longer answer."""
    if item.answer == item.text or not claims:
        return claims
    labelled = terms(item.text)

    def similarity(claim: ClaimVerdict) -> float:
        judged = terms(claim.claim)
        return len(judged & labelled) / max(1, len(judged | labelled))

    best = max(claims, key=similarity)
    return [best] if similarity(best) > 0 else []


def _claim_verdict(claims: Sequence[ClaimVerdict]) -> tuple[str, str]:
    """Return the worst verdict: an answer is supported only if all its claims are."""
    if not claims:
        return NO_CLAIM, ""
    bad = [claim for claim in claims if not claim.supported]
    if not bad:
        return Label.SUPPORTED.value, claims[0].evidence
    contradicted = [claim for claim in bad if claim.verdict in ("contradicted", "outdated")]
    if contradicted:
        return Label.CONTRADICTED.value, contradicted[0].reason
    is_unsupported = bad[0].verdict == Label.UNSUPPORTED.value
    return Label.UNSUPPORTED.value if is_unsupported else NOT_SUPPORTED, bad[0].reason


def _rule_verdict(drift: DriftAudit) -> tuple[str, str]:
    if not drift.active_constraints:
        return NO_RULE, ""
    reasons = "; ".join(finding.reason for finding in drift.findings)
    if drift.violations:
        return Label.VIOLATED.value, reasons
    return (Label.OMITTED.value if drift.omissions else Label.SATISFIED.value), reasons
