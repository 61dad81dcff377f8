"""Audit one answer: claims with quoted evidence, constraints, and votes on both."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from acc.adapters.evaluation.findings import rule_violation
from acc.adapters.evaluation.judge_memory import QuotedCanonicalMemory, is_quoted, join_errors
from acc.adapters.evaluation.judge_prompts import (
    AUDIT_AGAIN_INSTRUCTION,
    AUDIT_INSTRUCTION,
    MAX_CLAIMS,
    MAX_TEXT_LENGTH,
    Audit,
    AuditVote,
    ClaimFinding,
    ClaimLabel,
    ClaimVote,
    ConstraintLabel,
    Question,
    RuleFinding,
    SchemaAsker,
    UntrustedBlock,
    quotable_texts,
)
from acc.domain.errors import AccError
from acc.domain.format_rules import OMISSION_KINDS
from acc.domain.value_objects.evaluation import (
    UNCLEAR,
    ClaimThreshold,
    ClaimVerdict,
    ConstraintFinding,
    DriftAudit,
    FindingKind,
    HallucinationAudit,
)
from acc.domain.value_objects.format_rule import RuleKind

#: If verdicts are equally frequent, the first one wins; a good one needs a majority.
_CLAIM_SEVERITY = (ClaimLabel.CONTRADICTED, ClaimLabel.OUTDATED, ClaimLabel.UNSUPPORTED)
_CONSTRAINT_SEVERITY = (ConstraintLabel.VIOLATED, ConstraintLabel.OMITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerAudit:
    """The result of all votes on one answer."""

    hallucination: HallucinationAudit
    drift: DriftAudit
    claim_votes: tuple[tuple[str, ...], ...]
    constraint_votes: tuple[tuple[str, ...], ...]


class Auditor:
    """Audits answers of one turn against one memory; the models vote in turn."""

    def __init__(self, askers: Sequence[SchemaAsker], *, votes: int, salt: str) -> None:
        self._askers = askers
        self._votes = votes
        self._salt = salt

    async def audit(self, answer: str, query: str, memory: QuotedCanonicalMemory) -> AnswerAudit:
        """Return the audit, or raise the first error if at least half of the votes failed."""
        audited = _AuditedAnswer(answer, query, memory)
        first = await self._askers[0].ask(
            Question(
                instruction=AUDIT_INSTRUCTION,
                text=audited.prompt(f"{self._salt}:1"),
                name="the judge",
            ),
            Audit,
            audited.audit_error,
        )
        votes = [AuditVote(claims=_to_votes(first.claims), constraints=first.constraints)]
        errors: list[AccError] = []
        for number in range(2, self._votes + 1):
            text = audited.prompt(f"{self._salt}:{number}", [claim.claim for claim in first.claims])
            question = Question(instruction=AUDIT_AGAIN_INSTRUCTION, text=text, name="the judge")
            try:
                votes.append(
                    await self._askers[(number - 1) % len(self._askers)].ask(
                        question,
                        AuditVote,
                        lambda vote: audited.vote_error(vote, len(first.claims)),
                    )
                )
            except AccError as error:
                errors.append(error)
        if 2 * len(votes) <= self._votes:
            raise errors[0]
        return _combine(first, votes, answer, memory)


class _AuditedAnswer:
    """One answer and the texts that its audit may quote."""

    def __init__(self, answer: str, query: str, memory: QuotedCanonicalMemory) -> None:
        self._answer = answer
        self._query = query
        self._memory = memory
        self._active = quotable_texts([*memory.active_texts(), query])
        self._superseded = quotable_texts(memory.superseded_texts())
        self._own_texts = quotable_texts([answer])

    def prompt(self, salt: str, claims: Sequence[str] = ()) -> str:
        """Return the data of the request."""
        memory = self._memory.render()
        listed = "\n".join(f"{number}: {claim}" for number, claim in enumerate(claims, start=1))
        block = UntrustedBlock(salt, (memory, self._query, self._answer, listed))
        parts = [
            block.rule,
            block.wrap("canonical memory", memory),
            block.wrap("query", self._query),
            block.wrap("answer", self._answer),
        ]
        if listed:
            parts.append(block.wrap("claims", listed))
        return "\n\n".join(parts)

    def audit_error(self, audit: Audit) -> str:
        """Return why an audit is invalid, or an empty text."""
        if len(audit.claims) > MAX_CLAIMS:
            return f"more than {MAX_CLAIMS} claims"
        errors = [
            f"claim {number}: excerpt is not copied from the answer: {claim.excerpt[:80]!r}"
            for number, claim in enumerate(audit.claims, start=1)
            if not is_quoted(claim.excerpt, self._own_texts)
            and claim.excerpt.strip() not in self._answer
        ]
        errors += [
            f"claim {number} is empty or too long"
            for number, claim in enumerate(audit.claims, start=1)
            if not claim.claim.strip()
            or len(claim.claim) > MAX_TEXT_LENGTH
            or not claim.excerpt.strip()
        ]
        return join_errors(
            [*errors, *self._quote_errors(_to_votes(audit.claims)), *self._constraint_errors(audit)]
        )

    def vote_error(self, vote: AuditVote, claims: int) -> str:
        """Return why a vote on listed claims is invalid, or an empty text."""
        numbers = sorted(claim.number for claim in vote.claims)
        if numbers != list(range(1, claims + 1)):
            return f"claims must have each number from 1 to {claims} once, got {numbers[:20]}"
        return join_errors([*self._quote_errors(vote.claims), *self._constraint_errors(vote)])

    def _quote_errors(self, claims: Iterable[ClaimVote]) -> list[str]:
        errors = []
        for claim in claims:
            if claim.verdict is ClaimLabel.UNSUPPORTED:
                continue
            texts, source = self._active, "the facts, the constraints and the query"
            if claim.verdict is ClaimLabel.OUTDATED:
                texts, source = self._superseded, "the superseded entries"
            if not is_quoted(claim.quote, texts):
                errors.append(
                    f"claim {claim.number} is called {claim.verdict}, but its quote "
                    f"{claim.quote[:80]!r} does not occur in {source}"
                )
        return errors

    def _constraint_errors(self, audit: Audit | AuditVote) -> list[str]:
        left_out = {
            name for name in self._memory.constraints() if self._memory.is_left_to_code(name)
        }
        expected = sorted(self._memory.constraints().keys() - left_out)
        listed = sorted(finding.id for finding in audit.constraints if finding.id not in left_out)
        if expected == listed:
            return []
        names = [name[:20] for name in listed[:20]]
        return [f"constraints must list each of {expected} once, got {names}"]


def _to_votes(claims: Sequence[ClaimFinding]) -> tuple[ClaimVote, ...]:
    return tuple(
        ClaimVote(number=number, verdict=claim.verdict, quote=claim.quote, reason=claim.reason)
        for number, claim in enumerate(claims, start=1)
    )


def claim_majority(votes: Sequence[ClaimLabel]) -> ClaimLabel:
    """Return the verdict of several votes; `supported` needs a majority."""
    counts = Counter(votes)
    if 2 * counts[ClaimLabel.SUPPORTED] > len(votes):
        return ClaimLabel.SUPPORTED
    return max(_CLAIM_SEVERITY, key=lambda verdict: counts[verdict])


def constraint_majority(votes: Sequence[ConstraintLabel]) -> ConstraintLabel:
    """Return the verdict of several votes; `satisfied` needs a majority."""
    counts = Counter(votes)
    if 2 * counts[ConstraintLabel.SATISFIED] > len(votes):
        return ConstraintLabel.SATISFIED
    return max(_CONSTRAINT_SEVERITY, key=lambda verdict: counts[verdict])


def _combine(
    first: Audit, votes: Sequence[AuditVote], answer: str, memory: QuotedCanonicalMemory
) -> AnswerAudit:
    by_number = [{claim.number: claim for claim in vote.claims} for vote in votes]
    claims: list[ClaimVerdict] = []
    claim_votes: list[tuple[str, ...]] = []
    for number, claim in enumerate(first.claims, start=1):
        cast = [vote[number] for vote in by_number]
        claim_votes.append(tuple(vote.verdict.value for vote in cast))
        verdict = claim_majority([vote.verdict for vote in cast])
        reason = next(vote for vote in cast if vote.verdict is verdict)
        claims.append(
            ClaimVerdict(
                claim=claim.claim,
                supported=verdict is ClaimLabel.SUPPORTED,
                reason=reason.reason[:MAX_TEXT_LENGTH],
                evidence=reason.quote[:MAX_TEXT_LENGTH],
                verdict=verdict.value,
            )
        )
    supported = sum(claim.supported for claim in claims)
    drift, constraint_votes = _combine_drift(votes, answer, memory)
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


def _combine_drift(
    votes: Sequence[AuditVote], answer: str, memory: QuotedCanonicalMemory
) -> tuple[DriftAudit, tuple[tuple[str, ...], ...]]:
    by_id: list[dict[str, RuleFinding]] = [
        {finding.id: finding for finding in vote.constraints} for vote in votes
    ]
    constraints, rules = memory.constraints(), memory.rules()
    findings: list[ConstraintFinding] = []
    listed: list[tuple[str, ...]] = []
    for name, text in constraints.items():
        rule = rules.get(name)
        reason = rule_violation(rule, answer) if rule is not None else ""
        is_omission = rule is not None and rule.kind in OMISSION_KINDS
        if not memory.is_left_to_code(name):
            cast = [vote[name] for vote in by_id]
            listed.append(tuple(vote.verdict.value for vote in cast))
            verdict = constraint_majority([vote.verdict for vote in cast])
            if not reason and verdict is not ConstraintLabel.SATISFIED:
                reason = next(vote for vote in cast if vote.verdict is verdict).reason
                reason = reason or verdict.value
                is_omission = verdict is ConstraintLabel.OMITTED
        if reason:
            is_leak = rule is not None and rule.kind is RuleKind.REFUSE
            findings.append(
                ConstraintFinding(
                    constraint=text,
                    omission=is_omission,
                    reason=reason[:MAX_TEXT_LENGTH],
                    kind=FindingKind.LEAKED_SECRET if is_leak else FindingKind.BROKEN_RULE,
                    turn=memory.turn_of(name),
                )
            )
    omissions = sum(finding.omission for finding in findings)
    drift = DriftAudit(
        active_constraints=len(constraints),
        violations=len(findings) - omissions,
        omissions=omissions,
        findings=tuple(findings),
    )
    return drift, tuple(listed)


#: Without labelled examples: yes is more probable than no, and nothing is unclear.
EVEN_ODDS = ClaimThreshold(language="", value=0.5, low=0.5, high=0.5, examples=0)


class SupportAsker:
    """Decides whether claims are supported by the probability of "yes", the mean of all models."""

    def __init__(self, askers: Sequence[SchemaAsker], memory: str, query: str, salt: str) -> None:
        self._askers = askers
        self._memory = memory
        self._query = query
        self._salt = salt

    async def rescored(self, audit: AnswerAudit, threshold: ClaimThreshold) -> AnswerAudit:
        """Return an audit whose claims have scores, and verdicts by the threshold."""
        claims: list[ClaimVerdict] = []
        for number, claim in enumerate(audit.hallucination.claims, start=1):
            block = UntrustedBlock(
                f"{self._salt}:support:{number}", (self._memory, self._query, claim.claim)
            )
            parts = [
                block.rule,
                block.wrap("evidence", self._memory),
                block.wrap("query", self._query),
                block.wrap("claim", claim.claim),
            ]
            found = [await asker.probability("\n\n".join(parts)) for asker in self._askers]
            score = round(sum(found) / len(found), 4)
            supported = score >= threshold.value
            verdict = claim.verdict if claim.supported == supported else ""
            if threshold.low < score < threshold.high:
                verdict = UNCLEAR
            claims.append(replace(claim, supported=supported, verdict=verdict, score=score))
        supported_claims = sum(claim.supported for claim in claims)
        hallucination = replace(
            audit.hallucination,
            supported_claims=supported_claims,
            unsupported_claims=len(claims) - supported_claims,
            claims=tuple(claims),
        )
        return replace(audit, hallucination=hallucination)
