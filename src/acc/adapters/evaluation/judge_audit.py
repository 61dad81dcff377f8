"""Auditing one answer: claims with quoted evidence, constraints, and several votes on both."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from acc.adapters.evaluation.judge_memory import QuotedMemory, occurs, told
from acc.adapters.evaluation.judge_prompts import (
    AUDIT,
    AUDIT_AGAIN,
    LONGEST_TEXT,
    MOST_CLAIMS,
    Audit,
    AuditVote,
    ClaimFinding,
    ClaimVote,
    Fence,
    Kept,
    Question,
    RuleFinding,
    SchemaAsker,
    Verdict,
    readings,
)
from acc.domain.errors import AccError
from acc.domain.value_objects.evaluation import (
    ClaimVerdict,
    ConstraintFinding,
    DriftAudit,
    HallucinationAudit,
)

#: Of verdicts that are equally frequent the first stands; a good one needs more than half.
_SEVERITY = (Verdict.CONTRADICTED, Verdict.OUTDATED, Verdict.UNSUPPORTED)
_RULE_SEVERITY = (Kept.VIOLATED, Kept.OMITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerAudit:
    """What the votes on one answer came to."""

    hallucination: HallucinationAudit
    drift: DriftAudit
    claim_votes: tuple[tuple[str, ...], ...]
    constraint_votes: tuple[tuple[str, ...], ...]


class Auditor:
    """Audits answers of one turn against one memory."""

    def __init__(self, asker: SchemaAsker, *, votes: int, salt: str) -> None:
        self._asker = asker
        self._votes = votes
        self._salt = salt

    async def audit(self, answer: str, query: str, memory: QuotedMemory) -> AnswerAudit:
        """Return the audit, or raise where too few votes could be had."""
        bench = _Bench(answer, query, memory)
        first = await self._asker.ask(
            Question(instruction=AUDIT, text=bench.text(f"{self._salt}:1"), name="the judge"),
            Audit,
            bench.fault_of,
        )
        votes = [AuditVote(claims=_as_votes(first.claims), constraints=first.constraints)]
        faults: list[AccError] = []
        for number in range(2, self._votes + 1):
            text = bench.text(f"{self._salt}:{number}", [claim.claim for claim in first.claims])
            question = Question(instruction=AUDIT_AGAIN, text=text, name="the judge")
            try:
                votes.append(
                    await self._asker.ask(
                        question,
                        AuditVote,
                        lambda vote: bench.fault_of_vote(vote, len(first.claims)),
                    )
                )
            except AccError as fault:
                faults.append(fault)
        if 2 * len(votes) <= self._votes:
            raise faults[0]
        return _settled(first, votes, memory.rules())


class _Bench:
    """One answer, and everything that its audit may quote."""

    def __init__(self, answer: str, query: str, memory: QuotedMemory) -> None:
        self._answer = answer
        self._query = query
        self._memory = memory
        self._holding = readings([*memory.holding(), query])
        self._fallen = readings(memory.fallen())
        self._said = readings([answer])

    def text(self, salt: str, claims: Sequence[str] = ()) -> str:
        """Return what the model reads."""
        shown = self._memory.shown()
        listed = "\n".join(f"{number}: {claim}" for number, claim in enumerate(claims, start=1))
        fence = Fence(salt, (shown, self._query, self._answer, listed))
        parts = [
            fence.rule,
            fence.around("canonical memory", shown),
            fence.around("query", self._query),
            fence.around("answer", self._answer),
        ]
        if listed:
            parts.append(fence.around("claims", listed))
        return "\n\n".join(parts)

    def fault_of(self, audit: Audit) -> str:
        """Return what is wrong with an audit, empty if nothing is."""
        if len(audit.claims) > MOST_CLAIMS:
            return f"more than {MOST_CLAIMS} claims"
        faults = [
            f"claim {number}: said is not copied from the answer: {claim.said[:80]!r}"
            for number, claim in enumerate(audit.claims, start=1)
            if not occurs(claim.said, self._said) and claim.said.strip() not in self._answer
        ]
        faults += [
            f"claim {number} is empty or too long"
            for number, claim in enumerate(audit.claims, start=1)
            if not claim.claim.strip() or len(claim.claim) > LONGEST_TEXT or not claim.said.strip()
        ]
        return told(
            [*faults, *self._quote_faults(_as_votes(audit.claims)), *self._rule_faults(audit)]
        )

    def fault_of_vote(self, vote: AuditVote, claims: int) -> str:
        """Return what is wrong with a vote on listed claims, empty if nothing is."""
        numbers = sorted(claim.number for claim in vote.claims)
        if numbers != list(range(1, claims + 1)):
            return f"claims must have each number from 1 to {claims} once, not {numbers[:20]}"
        return told([*self._quote_faults(vote.claims), *self._rule_faults(vote)])

    def _quote_faults(self, claims: Iterable[ClaimVote]) -> list[str]:
        faults = []
        for claim in claims:
            if claim.verdict is Verdict.UNSUPPORTED:
                continue
            texts, place = self._holding, "the facts, the constraints and the query"
            if claim.verdict is Verdict.OUTDATED:
                texts, place = self._fallen, "what was superseded"
            if not occurs(claim.quote, texts):
                faults.append(
                    f"claim {claim.number} is called {claim.verdict}, but its quote "
                    f"{claim.quote[:80]!r} does not occur in {place}"
                )
        return faults

    def _rule_faults(self, audit: Audit | AuditVote) -> list[str]:
        wanted = sorted(self._memory.rules())
        found = sorted(rule.id for rule in audit.constraints)
        if wanted == found:
            return []
        return [f"constraints must list each of {wanted} once, not {[n[:20] for n in found[:20]]}"]


def _as_votes(claims: Sequence[ClaimFinding]) -> tuple[ClaimVote, ...]:
    return tuple(
        ClaimVote(number=number, verdict=claim.verdict, quote=claim.quote, reason=claim.reason)
        for number, claim in enumerate(claims, start=1)
    )


def settled_claim(votes: Sequence[Verdict]) -> Verdict:
    """Return the verdict of several votes; supported needs more than half of them."""
    counts = Counter(votes)
    if 2 * counts[Verdict.SUPPORTED] > len(votes):
        return Verdict.SUPPORTED
    return max(_SEVERITY, key=lambda verdict: counts[verdict])


def settled_rule(votes: Sequence[Kept]) -> Kept:
    """Return what became of a constraint by several votes; kept needs more than half of them."""
    counts = Counter(votes)
    if 2 * counts[Kept.KEPT] > len(votes):
        return Kept.KEPT
    return max(_RULE_SEVERITY, key=lambda verdict: counts[verdict])


def _settled(first: Audit, votes: Sequence[AuditVote], rules: Mapping[str, str]) -> AnswerAudit:
    by_number = [{claim.number: claim for claim in vote.claims} for vote in votes]
    claims: list[ClaimVerdict] = []
    claim_votes: list[tuple[str, ...]] = []
    for number, claim in enumerate(first.claims, start=1):
        cast = [vote[number] for vote in by_number]
        claim_votes.append(tuple(vote.verdict.value for vote in cast))
        verdict = settled_claim([vote.verdict for vote in cast])
        reason = next(vote for vote in cast if vote.verdict is verdict)
        claims.append(
            ClaimVerdict(
                claim=claim.claim,
                supported=verdict is Verdict.SUPPORTED,
                reason=reason.reason[:LONGEST_TEXT],
                evidence=reason.quote[:LONGEST_TEXT],
                verdict=verdict.value,
            )
        )
    supported = sum(claim.supported for claim in claims)
    drift, constraint_votes = _drift(votes, rules)
    return AnswerAudit(
        hallucination=HallucinationAudit(
            supported_claims=supported,
            unsupported_claims=len(claims) - supported,
            claims=tuple(claims),
        ),
        drift=drift,
        claim_votes=tuple(claim_votes),
        constraint_votes=constraint_votes,
    )


def _drift(
    votes: Sequence[AuditVote], rules: Mapping[str, str]
) -> tuple[DriftAudit, tuple[tuple[str, ...], ...]]:
    by_id: list[dict[str, RuleFinding]] = [
        {rule.id: rule for rule in vote.constraints} for vote in votes
    ]
    findings: list[ConstraintFinding] = []
    listed: list[tuple[str, ...]] = []
    for name, text in rules.items():
        cast = [vote[name] for vote in by_id]
        listed.append(tuple(vote.verdict.value for vote in cast))
        verdict = settled_rule([vote.verdict for vote in cast])
        if verdict is not Kept.KEPT:
            reason = next(vote for vote in cast if vote.verdict is verdict).reason
            findings.append(
                ConstraintFinding(
                    constraint=text,
                    omission=verdict is Kept.OMITTED,
                    reason=reason[:LONGEST_TEXT],
                )
            )
    omissions = sum(finding.omission for finding in findings)
    drift = DriftAudit(
        active_constraints=len(rules),
        violations=len(findings) - omissions,
        omissions=omissions,
        findings=tuple(findings),
    )
    return drift, tuple(listed)
