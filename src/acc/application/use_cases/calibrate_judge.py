"""Holding a judge against labelled examples."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from acc.domain.language import terms
from acc.domain.statistics import cohen_kappa
from acc.domain.value_objects.evaluation import ClaimVerdict, DriftAudit
from acc.domain.value_objects.evaluation_run import CalibrationCase, CalibrationItem, Label
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeAgentEvaluation,
)
from acc.ports.outbound.live_evaluation_ports import JudgeEvaluatorPort

#: What a judge can say beside a label: it tells no more than that; it found nothing; it failed.
NOT_SUPPORTED, NO_CLAIM, NO_RULE, UNSCORED = "not supported", "no claim", "no rule", "unscored"
_GOOD = frozenset({Label.SUPPORTED.value, Label.KEPT.value})
_FOUND_NOTHING = frozenset({NO_CLAIM, NO_RULE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One example, and what a judge said of it and why."""

    case: CalibrationCase
    item: CalibrationItem
    said: str
    reason: str = ""

    @property
    def scored(self) -> bool:
        """Tell whether the judge said anything."""
        return self.said != UNSCORED

    @property
    def right(self) -> bool:
        """Tell whether the judge sees it as people do: supported or not, kept or not."""
        return coarse(self.said) == coarse(self.item.label.value)


def coarse(said: str) -> str:
    """Return good, bad, or that nothing was found."""
    if said in _FOUND_NOTHING:
        return "nothing found"
    return "good" if said in _GOOD else "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How a judge did on some examples; shares are None where none was scored."""

    examples: int
    unscored: int
    accuracy: float | None
    kappa: float | None
    confusion: Mapping[str, Mapping[str, int]]


def figures_of(readings: Sequence[Reading]) -> Figures:
    """Return accuracy and kappa over what was scored, and all labels against all answers."""
    scored = [reading for reading in readings if reading.scored]
    confusion: dict[str, dict[str, int]] = {}
    for (label, said), count in sorted(
        Counter((r.item.label.value, r.said) for r in readings).items()
    ):
        confusion.setdefault(label, {})[said] = count
    right = sum(reading.right for reading in scored)
    return Figures(
        examples=len(readings),
        unscored=len(readings) - len(scored),
        accuracy=right / len(scored) if scored else None,
        kappa=cohen_kappa([(coarse(r.item.label.value), coarse(r.said)) for r in scored]),
        confusion=confusion,
    )


class CalibrateJudgeUseCase:
    """Lets a judge read the context of every case and judge its answers."""

    def __init__(self, judge: Callable[[CalibrationCase], JudgeEvaluatorPort]) -> None:
        self._judge = judge

    async def run(
        self,
        cases: Iterable[CalibrationCase],
        *,
        on_case: Callable[[CalibrationCase], bool] = lambda case: True,
    ) -> list[Reading]:
        """Return a reading of every example, in order; a judge that fails leaves it unscored.

        `on_case` hears of each case that is done, and tells whether to go on.
        """
        readings: list[Reading] = []
        for case in cases:
            readings += await self._case(case)
            if not on_case(case):
                break
        return readings

    async def _case(self, case: CalibrationCase) -> list[Reading]:
        judge = self._judge(case)
        memory: Mapping[str, object] = {}
        answers = {f"Answer {number}": item for number, item in enumerate(case.items, start=1)}
        responses = tuple(
            AgentTurnResponse(agent_name=name, response_text=item.answer)
            for name, item in answers.items()
        )
        try:
            for turn, text in enumerate(case.context, start=1):
                query = EvaluationTurnQuery(turn_id=turn, query=text)
                memory = (await judge.evaluate_turn(query, memory, ())).canonical_memory
            query = EvaluationTurnQuery(turn_id=len(case.context) + 1, query=case.question)
            result = await judge.evaluate_turn(query, memory, responses)
        # A judge is anyone's code; its failure must never count as a wrong verdict.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            why = f"{type(error).__name__}: {error}"
            return [Reading(case=case, item=item, said=UNSCORED, reason=why) for item in case.items]
        found = {verdict.agent_name: verdict for verdict in result.evaluations}
        return [
            _reading(case, item, found.get(name), result.unscored.get(name, "no verdict"))
            for name, item in answers.items()
        ]


def _reading(
    case: CalibrationCase, item: CalibrationItem, found: JudgeAgentEvaluation | None, why: str
) -> Reading:
    if found is None:
        return Reading(case=case, item=item, said=UNSCORED, reason=why)
    if item.is_claim:
        said, reason = _of_claims(_meant(item, found.hallucination.claims))
    else:
        said, reason = _of_rules(found.drift)
    return Reading(case=case, item=item, said=said, reason=reason)


def _meant(item: CalibrationItem, claims: Sequence[ClaimVerdict]) -> Sequence[ClaimVerdict]:
    """Return the claims that are the labelled one: all, or of a longer answer the closest."""
    if item.answer == item.text or not claims:
        return claims
    wanted = terms(item.text)

    def closeness(claim: ClaimVerdict) -> float:
        found = terms(claim.claim)
        return len(found & wanted) / max(1, len(found | wanted))

    best = max(claims, key=closeness)
    return [best] if closeness(best) > 0 else []


def _of_claims(claims: Sequence[ClaimVerdict]) -> tuple[str, str]:
    """Return the worst that was found: an answer is supported if all of it is."""
    if not claims:
        return NO_CLAIM, ""
    bad = [claim for claim in claims if not claim.supported]
    if not bad:
        return Label.SUPPORTED.value, claims[0].evidence
    against = [claim for claim in bad if claim.verdict in ("contradicted", "outdated")]
    if against:
        return Label.CONTRADICTED.value, against[0].reason
    known = bad[0].verdict == Label.UNSUPPORTED.value
    return Label.UNSUPPORTED.value if known else NOT_SUPPORTED, bad[0].reason


def _of_rules(drift: DriftAudit) -> tuple[str, str]:
    if not drift.active_constraints:
        return NO_RULE, ""
    reasons = "; ".join(finding.reason for finding in drift.findings)
    if drift.violations:
        return Label.VIOLATED.value, reasons
    return (Label.OMITTED.value if drift.omissions else Label.KEPT.value), reasons
