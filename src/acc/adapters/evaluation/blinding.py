"""Hiding from a judge whose answer it reads."""

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
    """Passes answers on under letters, shuffled anew each turn by a seed, without traces.

    Of a long answer the judge is shown the beginning; `flags_of` returns what is to be noted of all
    of it, where the judge itself notes such things.
    """

    def __init__(
        self,
        judge: JudgeEvaluatorPort,
        *,
        seed: int,
        visible_characters: int = DEFAULT_VISIBLE_CHARACTERS,
        flags_of: Callable[[str], tuple[str, ...]] = lambda answer: (),
    ) -> None:
        self._judge = judge
        self._seed = seed
        self._visible = visible_characters
        self._flags_of = flags_of

    async def evaluate_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        responses: tuple[AgentTurnResponse, ...],
    ) -> JudgeTurnResult:
        """Return the inner judge's verdicts under the agents' own names."""
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
            unscored={names[label]: why for label, why in result.unscored.items()},
            flags={names[label]: found for label, found in flags.items() if found},
        )

    def _flags(
        self, result: JudgeTurnResult, label: str, response: AgentTurnResponse
    ) -> tuple[str, ...]:
        """Return the judge's flags, and those of what it was not shown."""
        flags = tuple(result.flags.get(label, ()))
        if len(response.response_text) <= self._visible:
            return flags
        return tuple(dict.fromkeys([*flags, *self._flags_of(response.response_text)]))
