"""A language model as judge: schema-bound, quoted, fenced, and unscored where it fails.

A turn takes one call that reads the query into the canonical memory, one audit for each answer and
vote, and one call for each vote and order that scores all answers together.
"""

import asyncio
from collections.abc import Mapping

from acc.adapters.evaluation.judging.asking import Question, SchemaAsker
from acc.adapters.evaluation.judging.auditing import AnswerAudit, Auditor
from acc.adapters.evaluation.judging.fencing import Fence
from acc.adapters.evaluation.judging.ledger import QuotedMemory
from acc.adapters.evaluation.judging.prompts import READ, prompts_digest
from acc.adapters.evaluation.judging.scoring import Scorer, Sheets, mean_scores
from acc.adapters.evaluation.judging.shapes import SCHEMA_VERSION, MemoryUpdate
from acc.adapters.evaluation.judging.steering import steering_flags
from acc.domain.errors import AccError, InvalidInput
from acc.domain.value_objects.evaluation import JudgeVotes
from acc.domain.value_objects.evaluation_run import JudgeConfiguration
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeAgentEvaluation,
    JudgeTurnResult,
)
from acc.ports.outbound.model_ports import LanguageModelPort


def judge_configuration(
    model: str,
    *,
    temperature: float | None = 0.0,
    votes: int = 1,
    both_orders: bool = False,
    drives: bool = False,
) -> JudgeConfiguration:
    """Return the configuration of a model judge as this version of acc would run it."""
    if votes < 1:
        raise InvalidInput(f"a judge needs at least 1 vote, not {votes}")
    return JudgeConfiguration(
        model=model,
        temperature=temperature,
        votes=votes,
        both_orders=both_orders,
        drives=drives,
        repairs=2,
        timeout=120.0,
        prompts=prompts_digest(),
        schema=SCHEMA_VERSION,
    )


class ModelJudge:
    """Judges with any model; give it blinded answers, for it believes the names it is given."""

    def __init__(
        self, model: LanguageModelPort, *, configuration: JudgeConfiguration, seed: int = 0
    ) -> None:
        self._configuration = configuration
        self._seed = seed
        self._asker = SchemaAsker(
            model, repairs=configuration.repairs, timeout=configuration.timeout
        )

    async def evaluate_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        responses: tuple[AgentTurnResponse, ...],
    ) -> JudgeTurnResult:
        """Return what could be scored, and for the rest why not; the memory is from the query."""
        memory = QuotedMemory(canonical_memory)
        flags = {
            response.agent_name: found
            for response in responses
            if (found := steering_flags(response.response_text))
        }
        try:
            await self._read(query, memory)
        except AccError as fault:
            memory.leave_unread(query)
            why = f"judge: the query could not be read: {fault}"
            unscored = {response.agent_name: why for response in responses}
            return JudgeTurnResult(
                canonical_memory=memory.data, evaluations=(), unscored=unscored, flags=flags
            )
        evaluations, unscored = await self._judged(query, memory, responses)
        return JudgeTurnResult(
            canonical_memory=memory.data,
            evaluations=evaluations,
            unscored=unscored,
            flags=flags,
        )

    async def _read(self, query: EvaluationTurnQuery, memory: QuotedMemory) -> None:
        """Read the query, and those before it that could not be read, into the memory."""
        shown = memory.shown()
        unread = memory.unread()
        fence = Fence(
            f"read:{self._seed}:{query.turn_id}",
            (shown, query.query, *(text for _, text in unread)),
        )
        parts = [fence.rule, fence.around("canonical memory", shown)]
        parts += [fence.around(f"earlier query of turn {turn}", text) for turn, text in unread]
        parts.append(fence.around("query", query.query))
        question = Question(instruction=READ, text="\n\n".join(parts), name="the judge")
        update = await self._asker.ask(
            question, MemoryUpdate, lambda found: memory.fault_of(found, query)
        )
        memory.take(update, query)

    async def _judged(
        self,
        query: EvaluationTurnQuery,
        memory: QuotedMemory,
        responses: tuple[AgentTurnResponse, ...],
    ) -> tuple[tuple[JudgeAgentEvaluation, ...], dict[str, str]]:
        if not responses:
            return (), {}
        salt = f"{self._seed}:{query.turn_id}"
        async with asyncio.TaskGroup() as group:
            audits = [
                group.create_task(self._audit(response, query, memory, f"audit:{salt}"))
                for response in responses
            ]
            scoring = group.create_task(self._score(responses, query, memory, f"score:{salt}"))
        scored = scoring.result()
        evaluations: list[JudgeAgentEvaluation] = []
        unscored: dict[str, str] = {}
        for response, task in zip(responses, audits, strict=True):
            audit, name = task.result(), response.agent_name
            if isinstance(audit, str):
                unscored[name] = f"judge: the audit failed: {audit}"
            elif isinstance(scored, str):
                unscored[name] = f"judge: the scoring failed: {scored}"
            else:
                evaluations.append(self._verdict(name, audit, scored))
        return tuple(evaluations), unscored

    async def _audit(
        self,
        response: AgentTurnResponse,
        query: EvaluationTurnQuery,
        memory: QuotedMemory,
        salt: str,
    ) -> AnswerAudit | str:
        auditor = Auditor(self._asker, votes=self._configuration.votes, salt=salt)
        try:
            return await auditor.audit(response.response_text, query.query, memory)
        except AccError as fault:
            return str(fault)

    async def _score(
        self,
        responses: tuple[AgentTurnResponse, ...],
        query: EvaluationTurnQuery,
        memory: QuotedMemory,
        salt: str,
    ) -> tuple[Sheets, Sheets] | str:
        wanted = self._configuration
        scorer = Scorer(self._asker, votes=wanted.votes, both_orders=wanted.both_orders, salt=salt)
        try:
            return await scorer.score(responses, query.query, memory)
        except AccError as fault:
            return str(fault)

    def _verdict(
        self, name: str, audit: AnswerAudit, scored: tuple[Sheets, Sheets]
    ) -> JudgeAgentEvaluation:
        given, turned = ([sheet[name] for sheet in sheets] for sheets in scored)
        # Each order counts the same, whatever the votes that failed in one of them.
        sides = [mean_scores(side) for side in (given, turned) if side]
        votes = None
        if self._configuration.votes > 1 or turned:
            votes = JudgeVotes(
                claims=audit.claim_votes,
                constraints=audit.constraint_votes,
                scores=tuple(given),
                turned=tuple(turned),
            )
        return JudgeAgentEvaluation(
            agent_name=name,
            outcome=mean_scores(sides),
            hallucination=audit.hallucination,
            drift=audit.drift,
            votes=votes,
        )
