"""A language model as judge, and as writer of queries.

A turn takes one call that reads the query into the canonical memory, one audit for each answer and
vote, and one call for each vote and order that scores all answers together. If the scenario is
annotated, the query is not read by the model, and code checks what the annotations decide.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from acc.adapters.evaluation.ground_truth import AnnotatedTurn, GroundTruth
from acc.adapters.evaluation.judge_audit import EVEN_ODDS, AnswerAudit, Auditor, SupportAsker
from acc.adapters.evaluation.judge_injection import injection_flags
from acc.adapters.evaluation.judge_memory import QuotedCanonicalMemory
from acc.adapters.evaluation.judge_prompts import (
    QUERY_INSTRUCTION,
    READ_INSTRUCTION,
    SCHEMA_VERSION,
    SCORE_INSTRUCTION,
    MemoryUpdate,
    NextQuery,
    Question,
    SchemaAsker,
    ScoreSheet,
    UntrustedBlock,
    prompts_digest,
)
from acc.domain.errors import AccError, InvalidInput
from acc.domain.language import is_japanese
from acc.domain.value_objects.evaluation import (
    OUTCOME_NAMES,
    ClaimThreshold,
    JudgeVotes,
    OutcomeScores,
)
from acc.domain.value_objects.evaluation_run import JudgeConfig
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeAgentEvaluation,
    JudgeTurnResult,
)
from acc.domain.value_objects.scenario import Scenario
from acc.domain.value_objects.stress_topic import INSTRUCTIONS
from acc.ports.outbound.model_ports import LanguageModelPort

Sheets = list[Mapping[str, OutcomeScores]]


class Scorer:
    """Scores all answers of a turn, once for each vote and order; the models vote in turn.

    `correct` describes a correct answer, if it is known.
    """

    def __init__(
        self,
        askers: Sequence[SchemaAsker],
        *,
        votes: int,
        both_orders: bool,
        salt: str,
        correct: str = "",
    ) -> None:
        self._askers = askers
        self._votes = votes
        self._both_orders = both_orders
        self._salt = salt
        self._correct = correct

    async def score(
        self, responses: Sequence[AgentTurnResponse], query: str, memory: QuotedCanonicalMemory
    ) -> tuple[Sheets, Sheets]:
        """Return the sheets of the forward order and of the reversed one, or raise."""
        forward = await self._sheets(responses, query, memory, "given")
        if not self._both_orders or len(responses) < 2:
            return forward, []
        return forward, await self._sheets(tuple(reversed(responses)), query, memory, "turned")

    async def _sheets(
        self,
        responses: Sequence[AgentTurnResponse],
        query: str,
        memory: QuotedCanonicalMemory,
        order: str,
    ) -> Sheets:
        sheets: Sheets = []
        errors: list[AccError] = []
        for vote in range(1, self._votes + 1):
            salt = f"{self._salt}:{order}:{vote}"
            known = "\n".join(filter(None, (memory.render(), self._correct)))
            text = _score_prompt(responses, query, known, salt)
            question = Question(instruction=SCORE_INSTRUCTION, text=text, name="the judge")
            try:
                asker = self._askers[(vote - 1) % len(self._askers)]
                sheet = await asker.ask(
                    question, ScoreSheet, lambda sheet: _sheet_error(sheet, responses)
                )
            except AccError as error:
                errors.append(error)
                continue
            sheets.append(_scores(sheet))
        if 2 * len(sheets) <= self._votes:
            raise errors[0]
        return sheets


def mean_scores(sheets: Sequence[OutcomeScores]) -> OutcomeScores:
    """Return the mean of several scores of one answer."""
    return OutcomeScores(
        **{
            name: round(sum(getattr(sheet, name) for sheet in sheets) / len(sheets), 4)
            for name in OUTCOME_NAMES
        }
    )


def _score_prompt(responses: Sequence[AgentTurnResponse], query: str, text: str, salt: str) -> str:
    block = UntrustedBlock(salt, (text, query, *(response.response_text for response in responses)))
    parts = [
        block.rule,
        block.wrap("canonical memory", text),
        block.wrap("query", query),
        *(block.wrap(response.agent_name, response.response_text) for response in responses),
    ]
    return "\n\n".join(parts)


def _sheet_error(sheet: ScoreSheet, responses: Sequence[AgentTurnResponse]) -> str:
    expected = [response.agent_name for response in responses]
    listed = [scores.answer for scores in sheet.scores]
    if sorted(listed) != sorted(expected):
        names = [name[:40] for name in listed[:20]]
        return f"scores must list each of {expected} once, got {names}"
    for scores in sheet.scores:
        for name in OUTCOME_NAMES:
            value = getattr(scores, name)
            if not 0 <= value <= 10:
                return f"{name} of {scores.answer} must be a number from 0 to 10, got {value}"
    return ""


def _scores(sheet: ScoreSheet) -> dict[str, OutcomeScores]:
    return {
        scores.answer: OutcomeScores(**{name: getattr(scores, name) for name in OUTCOME_NAMES})
        for scores in sheet.scores
    }


def judge_configuration(
    model: str,
    *,
    temperature: float | None = 0.0,
    votes: int = 1,
    both_orders: bool = False,
    drives: bool = False,
    others: Sequence[str] = (),
    probabilities: bool = False,
) -> JudgeConfig:
    """Return the configuration of a model judge with the prompts of this version."""
    if votes < 1:
        raise InvalidInput(f"votes must be at least 1, got {votes}")
    return JudgeConfig(
        model=model,
        temperature=temperature,
        votes=votes,
        both_orders=both_orders,
        drives=drives,
        repairs=2,
        timeout=120.0,
        prompts=prompts_digest(),
        schema=SCHEMA_VERSION,
        others=tuple(others),
        probabilities=probabilities,
    )


class ModelJudge:
    """Judges with one or several models that vote; the answers must be blinded.

    The first model reads the queries and finds the claims. If `scenario` is annotated, its facts
    and rules replace the reading, and code checks what it can.
    """

    def __init__(
        self,
        *models: LanguageModelPort,
        configuration: JudgeConfig,
        seed: int = 0,
        scenario: Scenario | None = None,
        thresholds: Sequence[ClaimThreshold] = (),
    ) -> None:
        self._configuration = configuration
        self._thresholds = {threshold.language: threshold for threshold in thresholds}
        self._seed = seed
        self._truth = None if configuration.drives else GroundTruth.of(scenario)
        self._askers = [
            SchemaAsker(model, repairs=configuration.repairs, timeout=configuration.timeout)
            for model in models
        ]

    async def evaluate_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        responses: tuple[AgentTurnResponse, ...],
    ) -> JudgeTurnResult:
        """Return verdicts, reasons for unscored answers, and the memory updated from the query."""
        memory = QuotedCanonicalMemory(canonical_memory)
        flags = {
            response.agent_name: some
            for response in responses
            if (some := injection_flags(response.response_text))
        }
        annotated = self._truth.turn(query.turn_id) if self._truth is not None else None
        try:
            if annotated is None:
                await self._read(query, memory)
            else:
                annotated.apply(memory)
        except AccError as error:
            memory.add_unread(query)
            reason = f"judge: the query could not be read: {error}"
            unscored = {response.agent_name: reason for response in responses}
            return JudgeTurnResult(
                canonical_memory=memory.data, evaluations=(), unscored=unscored, flags=flags
            )
        evaluations, unscored = await self._evaluate(query, memory, responses, annotated)
        return JudgeTurnResult(
            canonical_memory=memory.data,
            evaluations=evaluations,
            unscored=unscored,
            flags=flags,
        )

    async def _read(self, query: EvaluationTurnQuery, memory: QuotedCanonicalMemory) -> None:
        """Read the query and earlier unread queries into the memory."""
        text = memory.render()
        unread = memory.unread()
        block = UntrustedBlock(
            f"read:{self._seed}:{query.turn_id}",
            (text, query.query, *(earlier for _, earlier in unread)),
        )
        parts = [block.rule, block.wrap("canonical memory", text)]
        parts += [block.wrap(f"earlier query of turn {turn}", earlier) for turn, earlier in unread]
        parts.append(block.wrap("query", query.query))
        question = Question(instruction=READ_INSTRUCTION, text="\n\n".join(parts), name="the judge")
        update = await self._askers[0].ask(
            question, MemoryUpdate, lambda update: memory.update_error(update, query)
        )
        memory.apply(update, query)

    async def _evaluate(
        self,
        query: EvaluationTurnQuery,
        memory: QuotedCanonicalMemory,
        responses: tuple[AgentTurnResponse, ...],
        annotated: AnnotatedTurn | None,
    ) -> tuple[tuple[JudgeAgentEvaluation, ...], dict[str, str]]:
        if not responses:
            return (), {}
        salt = f"{self._seed}:{query.turn_id}"
        correct = "" if annotated is None else annotated.correct_answer()
        async with asyncio.TaskGroup() as group:
            audits = [
                group.create_task(self._audit(response, query, memory, f"audit:{salt}"))
                for response in responses
            ]
            scoring = group.create_task(
                self._score(responses, query, memory, f"score:{salt}", correct)
            )
        together = scoring.result()
        audited = [task.result() for task in audits]
        model_works = any(not isinstance(audit, str) for audit in audited)
        evaluations: list[JudgeAgentEvaluation] = []
        unscored: dict[str, str] = {}
        for response, audit in zip(responses, audited, strict=True):
            name = response.agent_name
            scored = together
            if isinstance(scored, str) and len(responses) > 1 and model_works:
                # One answer can make the scoring of all answers fail.
                own_salt = f"score:{salt}:{name}"
                scored = await self._score((response,), query, memory, own_salt, correct)
            if isinstance(audit, str):
                unscored[name] = f"judge: the audit failed: {audit}"
            elif isinstance(scored, str):
                unscored[name] = f"judge: the scoring failed: {scored}"
            else:
                if annotated is not None:
                    audit = _with_ground_truth(audit, annotated, response.response_text)
                evaluations.append(self._verdict(name, audit, scored))
        return tuple(evaluations), unscored

    async def _audit(
        self,
        response: AgentTurnResponse,
        query: EvaluationTurnQuery,
        memory: QuotedCanonicalMemory,
        salt: str,
    ) -> AnswerAudit | str:
        auditor = Auditor(self._askers, votes=self._configuration.votes, salt=salt)
        try:
            audit = await auditor.audit(response.response_text, query.query, memory)
            if not self._configuration.probabilities:
                return audit
            language = "ja" if is_japanese(query.query) else "en"
            threshold = self._thresholds.get(language, EVEN_ODDS)
            support = SupportAsker(self._askers, memory.render(), query.query, salt)
            return await support.rescored(audit, threshold)
        except AccError as error:
            return str(error)

    async def _score(
        self,
        responses: tuple[AgentTurnResponse, ...],
        query: EvaluationTurnQuery,
        memory: QuotedCanonicalMemory,
        salt: str,
        correct: str,
    ) -> tuple[Sheets, Sheets] | str:
        config = self._configuration
        scorer = Scorer(
            self._askers,
            votes=config.votes,
            both_orders=config.both_orders,
            salt=salt,
            correct=correct,
        )
        try:
            return await scorer.score(responses, query.query, memory)
        except AccError as error:
            return str(error)

    def _verdict(
        self, name: str, audit: AnswerAudit, scored: tuple[Sheets, Sheets]
    ) -> JudgeAgentEvaluation:
        forward, backward = ([sheet[name] for sheet in sheets] for sheets in scored)
        # Both orders have the same weight, even if votes failed in one of them.
        sides = [mean_scores(side) for side in (forward, backward) if side]
        votes = None
        if self._configuration.votes > 1 or backward:
            votes = JudgeVotes(
                claims=audit.claim_votes,
                constraints=audit.constraint_votes,
                scores=tuple(forward),
                reversed_scores=tuple(backward),
            )
        return JudgeAgentEvaluation(
            agent_name=name,
            outcome=mean_scores(sides),
            hallucination=audit.hallucination,
            drift=audit.drift,
            votes=votes,
        )


def _with_ground_truth(audit: AnswerAudit, annotated: AnnotatedTurn, answer: str) -> AnswerAudit:
    """Return an audit with the expected elements, and with what the answer carries over."""
    expected = annotated.expectations(answer)
    return replace(
        audit,
        hallucination=replace(
            audit.hallucination, expected=len(expected), stated_expectations=sum(expected)
        ),
        drift=replace(audit.drift, carried=annotated.carry_over.findings(answer)),
    )


MAX_QUERY_LENGTH = 2_000
_LANGUAGES = {"en": "English", "ja": "Japanese"}
_LATIN = re.compile(r"[A-Za-z]")


class ModelQueryWriter:
    """Writes the queries of an episode from the title and the topics of a scenario."""

    def __init__(self, asker: SchemaAsker, scenario: Scenario, *, turns: int | None = None) -> None:
        self._asker = asker
        self._scenario = scenario
        self._topics = [turn.topic for turn in scenario.turns[:turns]]

    async def next_query(
        self, turn_id: int, canonical_memory: Mapping[str, object]
    ) -> EvaluationTurnQuery | None:
        """Return the next query, or None after the last turn of the scenario."""
        if turn_id > len(self._topics):
            return None
        memory = QuotedCanonicalMemory(canonical_memory).render()
        block = UntrustedBlock(f"drive:{self._scenario.seed}:{turn_id}", (memory,))
        language = _LANGUAGES.get(self._scenario.language, self._scenario.language)
        topic = INSTRUCTIONS[self._topics[turn_id - 1]]
        text = "\n".join(
            (
                f"Scenario: {self._scenario.title}",
                f"Domain: {self._scenario.domain.replace('_', ' ')}",
                f"Language: {language}",
                f"Turn {turn_id} of {len(self._topics)}. Topic: {topic}.",
                block.rule,
                block.wrap("canonical memory", memory),
            )
        )
        instruction = QUERY_INSTRUCTION.format(longest=MAX_QUERY_LENGTH)
        question = Question(instruction=instruction, text=text, name="the judge that drives")
        result = await self._asker.ask(question, NextQuery, self._query_error)
        return EvaluationTurnQuery(turn_id=turn_id, query=result.query.strip())

    def _query_error(self, result: NextQuery) -> str:
        query = result.query.strip()
        if not query:
            return "the query is empty"
        if len(query) > MAX_QUERY_LENGTH:
            return f"the query has {len(query)} characters, more than {MAX_QUERY_LENGTH}"
        if self._scenario.language == "ja" and not is_japanese(query):
            return "the query must be in Japanese"
        if self._scenario.language == "en" and (is_japanese(query) or not _LATIN.search(query)):
            return "the query must be in English"
        return ""
