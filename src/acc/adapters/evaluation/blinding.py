"""Hide the identity of the agents from a judge."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from acc.domain.errors import JudgeContractBroken
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeTurnResult,
)
from acc.ports.outbound.live_evaluation_ports import JudgeEvaluatorPort

DEFAULT_VISIBLE_CHARACTERS = 8_000


class BlindedJudge:
    """Passes answers to a judge under letters, in a seeded random order, without traces.

    The judge sees the first `visible_characters` of an answer. `flag_answer` returns the flags of a
    whole answer that was cut; it is None if the judge sets no flags.
    """

    def __init__(
        self,
        judge: JudgeEvaluatorPort,
        *,
        seed: int,
        visible_characters: int = DEFAULT_VISIBLE_CHARACTERS,
        flag_answer: Callable[[str], tuple[str, ...]] | None = None,
    ) -> None:
        self._judge = judge
        self._seed = seed
        self._visible = visible_characters
        self._flag_answer = flag_answer

    async def evaluate_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        responses: tuple[AgentTurnResponse, ...],
    ) -> JudgeTurnResult:
        """Return the verdicts of the inner judge under the names of the agents."""
        order = list(responses)
        random.Random(f"{self._seed}:{query.turn_id}").shuffle(order)  # noqa: S311 - a shuffle
        labels = {f"Answer {chr(65 + n)}": response for n, response in enumerate(order)}
        blinded = tuple(
            AgentTurnResponse(
                agent_name=label, response_text=response.response_text[: self._visible]
            )
            for label, response in labels.items()
        )
        result = await self._judge.evaluate_turn(query, canonical_memory, blinded)
        returned = [verdict.agent_name for verdict in result.evaluations]
        returned += result.unscored
        if sorted(returned) != sorted(labels):
            raise JudgeContractBroken(query.turn_id, list(labels), returned)
        verdicts = {
            labels[verdict.agent_name].agent_name: replace(
                verdict, agent_name=labels[verdict.agent_name].agent_name
            )
            for verdict in result.evaluations
        }
        names = {label: response.agent_name for label, response in labels.items()}
        flags = {label: self._flags(result, label, response) for label, response in labels.items()}
        return replace(
            result,
            evaluations=tuple(
                verdicts[response.agent_name]
                for response in responses
                if response.agent_name in verdicts
            ),
            unscored={names[label]: reason for label, reason in result.unscored.items()},
            flags={names[label]: some for label, some in flags.items() if some},
        )

    def _flags(
        self, result: JudgeTurnResult, label: str, response: AgentTurnResponse
    ) -> tuple[str, ...]:
        """Return the flags of the judge and those of text that the judge did not see."""
        flags = tuple(result.flags.get(label, ()))
        if self._flag_answer is None or len(response.response_text) <= self._visible:
            return flags
        return tuple(dict.fromkeys([*flags, *self._flag_answer(response.response_text)]))
