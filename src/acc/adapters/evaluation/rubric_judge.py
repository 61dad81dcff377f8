"""The rubric judge: deterministic, explainable, and blind to who answered.

Its canonical memory comes from the queries alone. With a scenario it reads the turn's annotations;
without one it reads the query's own sentences.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from acc.adapters.evaluation.claims import REFUSAL, UNKNOWN, Evidence, EvidencePool, claims_of
from acc.domain.format_rules import (
    OMISSION_KINDS,
    StatedRule,
    is_question,
    is_revocation,
    read_rule,
    revokes,
    violation,
)
from acc.domain.language import contains_text, direct_sentences, quoted_sentences, sentences, terms
from acc.domain.metrics import drift_rate, hallucination_rate
from acc.domain.statements import supersedes
from acc.domain.value_objects.evaluation import (
    ConstraintFinding,
    DriftAudit,
    HallucinationAudit,
    OutcomeScores,
)
from acc.domain.value_objects.format_rule import EXCLUSIVE_KINDS, FormatRule, RuleKind
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeAgentEvaluation,
    JudgeTurnResult,
)
from acc.domain.value_objects.scenario import AnswerKind, Constraint, Fact, Scenario, ScenarioTurn

#: Sentences of one query that are read; nobody says more in a turn, but anybody can paste more.
MOST_SENTENCES = 500


class CanonicalLedger:
    """The canonical memory while one query is being read into it."""

    def __init__(self, memory: Mapping[str, object]) -> None:
        self.memory: dict[str, Any] = {
            name: dict(value) if isinstance(value := memory.get(name), Mapping) else {}
            for name in ("facts", "superseded", "constraints", "said", "injected")
        }

    def take_annotated(self, turn: ScenarioTurn) -> None:
        """Read the turn's annotations, and keep what else the user said as context."""
        for fact in turn.updates:
            self._supersede(fact.id, turn.turn_id, fact.text)
        for key in turn.retracts:
            self._supersede(key, turn.turn_id, "it was retracted")
        for constraint in turn.amends:
            self._end_constraint(constraint.id, turn.turn_id, constraint.text)
        for key in turn.lifts:
            self._end_constraint(key, turn.turn_id, "it was lifted")
        fresh = turn.facts + turn.updates
        for fact in fresh:
            self.memory["facts"][fact.id] = {
                "text": fact.text,
                "values": list(fact.values),
                "turn": turn.turn_id,
                "said": [],
            }
        for constraint in turn.constraints + turn.amends:
            self._set_constraint(constraint.id, constraint, turn.turn_id)
        self._keep_sentences(turn.turn_id, sentences(turn.stated), fresh)
        if turn.injected:
            self.memory["injected"][str(turn.turn_id)] = turn.injected

    def take_plain(self, query: EvaluationTurnQuery) -> None:
        """Read a query without annotations: newer sentences replace older ones."""
        for place, sentence in enumerate(direct_sentences(query.query)[:MOST_SENTENCES], start=1):
            key = f"{query.turn_id}.{place}"
            if is_revocation(sentence) and self._lift(sentence, query.turn_id):
                continue
            read = read_rule(sentence)
            if read is not None and not read.once:
                self._take_rule(key, read, query.turn_id)
            elif not is_question(sentence):
                self._take_statement(key, sentence, query.turn_id)

    def _lift(self, sentence: str, turn_id: int) -> bool:
        meant = [
            key
            for key, entry in self.memory["constraints"].items()
            if revokes(sentence, entry["text"])
        ]
        for key in meant:
            self._end_constraint(key, turn_id, "it was lifted")
        return bool(meant)

    def _take_rule(self, key: str, read: StatedRule, turn_id: int) -> None:
        if read.rule.kind in EXCLUSIVE_KINDS:
            for other, entry in list(self.memory["constraints"].items()):
                if entry["rule"]["kind"] == read.rule.kind:
                    self._end_constraint(other, turn_id, read.text)
        self._set_constraint(key, Constraint(id=key, text=read.text, rule=read.rule), turn_id)

    def _take_statement(self, key: str, sentence: str, turn_id: int) -> None:
        for other, entry in list(self.memory["facts"].items()):
            if supersedes(sentence, entry["text"]):
                self._supersede(other, turn_id, sentence)
        self.memory["facts"][key] = {"text": sentence, "values": [], "turn": turn_id, "said": []}

    def _supersede(self, key: str, turn_id: int, by: str) -> None:
        fact = self.memory["facts"].pop(key, None)
        if fact is not None:
            self.memory["superseded"][f"{key}@{fact['turn']}"] = {
                **fact,
                "until": turn_id,
                "by": by,
            }

    def _end_constraint(self, key: str, turn_id: int, by: str) -> None:
        constraint = self.memory["constraints"].pop(key, None)
        if constraint is not None:
            ended = {
                "text": constraint["text"],
                "turn": constraint["turn"],
                "until": turn_id,
                "by": by,
            }
            self.memory["superseded"][f"{key}@{constraint['turn']}"] = {**ended, "said": []}

    def _set_constraint(self, key: str, constraint: Constraint, turn_id: int) -> None:
        rule = constraint.rule
        self.memory["constraints"][key] = {
            "text": constraint.text,
            "turn": turn_id,
            "rule": {"kind": rule.kind.value, "number": rule.number, "words": list(rule.words)},
        }

    def _keep_sentences(self, turn_id: int, spoken: Sequence[str], fresh: Sequence[Fact]) -> None:
        for place, sentence in enumerate(spoken[:MOST_SENTENCES], start=1):
            owners = [fact for fact in fresh if states(sentence, fact)]
            for fact in owners:
                self.memory["facts"][fact.id]["said"].append(sentence)
            if not owners and not is_question(sentence):
                self.memory["said"][f"{turn_id}.{place}"] = sentence

    def rules(self) -> list[tuple[str, FormatRule]]:
        """Return the constraints in force, each with its checkable form."""
        return [
            (
                entry["text"],
                FormatRule(
                    kind=RuleKind(entry["rule"]["kind"]),
                    number=entry["rule"]["number"],
                    words=tuple(entry["rule"]["words"]),
                ),
            )
            for entry in self.memory["constraints"].values()
        ]

    def evidence(self) -> list[Evidence]:
        """Return all that claims are held against, what no longer counts included."""
        found: list[Evidence] = []
        for fact in self.memory["facts"].values():
            found += [Evidence(text) for text in (fact["text"], *fact["said"])]
        found += [Evidence(entry["text"]) for entry in self.memory["constraints"].values()]
        found += [Evidence(text) for text in self.memory["said"].values()]
        for fact in self.memory["superseded"].values():
            fault = f"superseded in turn {fact['until']}: {fact['by']}"
            found += [Evidence(text, fault) for text in (fact["text"], *fact["said"])]
        for turn_id, text in self.memory["injected"].items():
            fault = f"stands only in injected content of turn {turn_id}"
            found += [Evidence(sentence, fault) for sentence in sentences(text)]
        return found


def states(sentence: str, fact: Fact) -> bool:
    """Tell whether a sentence of the query is the one that establishes the fact."""
    shared = terms(sentence) & terms(fact.text)
    return len(shared) * 2 >= len(terms(fact.text)) and all(
        contains_text(sentence, value) for value in fact.values
    )


_WORDED = (RuleKind.ENDS_WITH, RuleKind.STARTS_WITH, RuleKind.HEADINGS, RuleKind.REQUIRE)


class RubricJudge:
    """Scores answers by rules that the documentation states."""

    def __init__(self, scenario: Scenario | None = None) -> None:
        self._turns: dict[int, ScenarioTurn] = {}
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
        self, query: EvaluationTurnQuery, turn: ScenarioTurn | None, ledger: CanonicalLedger
    ) -> None:
        self._turn = turn
        self._rules = ledger.rules()
        if turn is not None:
            self._rules += [(f"for this answer: {rule.kind.value}", rule) for rule in turn.once]
        else:
            reads = [read_rule(sentence) for sentence in direct_sentences(query.query)]
            self._rules += [(read.text, read.rule) for read in reads if read and read.once]
        evidence = ledger.evidence()
        if turn is None:
            shown_only = "was shown in this turn, not said"
            evidence += [Evidence(text, shown_only) for text in quoted_sentences(query.query)]
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
            ConstraintFinding(constraint=text, omission=rule.kind in OMISSION_KINDS, reason=reason)
            for text, rule in self._rules
            if (reason := violation(rule, answer))
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
