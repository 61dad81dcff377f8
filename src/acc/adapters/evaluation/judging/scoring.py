"""Scoring all answers of a turn together, in one order or in both."""

from collections.abc import Mapping, Sequence

from acc.adapters.evaluation.judging.asking import Question, SchemaAsker
from acc.adapters.evaluation.judging.fencing import Fence
from acc.adapters.evaluation.judging.ledger import QuotedMemory
from acc.adapters.evaluation.judging.prompts import SCORE
from acc.adapters.evaluation.judging.shapes import ScoreSheet
from acc.domain.errors import AccError
from acc.domain.value_objects.evaluation import OUTCOME_NAMES, OutcomeScores
from acc.domain.value_objects.live_evaluation import AgentTurnResponse

Sheets = list[Mapping[str, OutcomeScores]]


class Scorer:
    """Asks for the four scores as often as there are votes, in each order that is wanted."""

    def __init__(self, asker: SchemaAsker, *, votes: int, both_orders: bool, salt: str) -> None:
        self._asker = asker
        self._votes = votes
        self._both = both_orders
        self._salt = salt

    async def score(
        self, responses: Sequence[AgentTurnResponse], query: str, memory: QuotedMemory
    ) -> tuple[Sheets, Sheets]:
        """Return the sheets of the given order and of the opposite one, or raise."""
        given = await self._sheets(responses, query, memory, "given")
        if not self._both or len(responses) < 2:
            return given, []
        return given, await self._sheets(tuple(reversed(responses)), query, memory, "turned")

    async def _sheets(
        self,
        responses: Sequence[AgentTurnResponse],
        query: str,
        memory: QuotedMemory,
        order: str,
    ) -> Sheets:
        sheets: Sheets = []
        faults: list[AccError] = []
        for vote in range(1, self._votes + 1):
            text = _text(responses, query, memory, f"{self._salt}:{order}:{vote}")
            question = Question(instruction=SCORE, text=text, name="the judge")
            try:
                sheet = await self._asker.ask(
                    question, ScoreSheet, lambda found: _fault_of(found, responses)
                )
            except AccError as fault:
                faults.append(fault)
                continue
            sheets.append(_scores(sheet))
        if 2 * len(sheets) <= self._votes:
            raise faults[0]
        return sheets


def mean_scores(sheets: Sequence[OutcomeScores]) -> OutcomeScores:
    """Return the mean of several scores of one answer."""
    return OutcomeScores(
        **{
            name: round(sum(getattr(sheet, name) for sheet in sheets) / len(sheets), 4)
            for name in OUTCOME_NAMES
        }
    )


def _text(
    responses: Sequence[AgentTurnResponse], query: str, memory: QuotedMemory, salt: str
) -> str:
    shown = memory.shown()
    fence = Fence(salt, (shown, query, *(response.response_text for response in responses)))
    parts = [
        fence.rule,
        fence.around("canonical memory", shown),
        fence.around("query", query),
        *(fence.around(response.agent_name, response.response_text) for response in responses),
    ]
    return "\n\n".join(parts)


def _fault_of(sheet: ScoreSheet, responses: Sequence[AgentTurnResponse]) -> str:
    wanted = [response.agent_name for response in responses]
    found = [scores.answer for scores in sheet.scores]
    if sorted(found) != sorted(wanted):
        return f"scores must list each of {wanted} once, not {[name[:40] for name in found[:20]]}"
    for scores in sheet.scores:
        for name in OUTCOME_NAMES:
            value = getattr(scores, name)
            if not 0 <= value <= 10:
                return f"{name} of {scores.answer} must be a number from 0 to 10, not {value}"
    return ""


def _scores(sheet: ScoreSheet) -> dict[str, OutcomeScores]:
    return {
        scores.answer: OutcomeScores(**{name: getattr(scores, name) for name in OUTCOME_NAMES})
        for scores in sheet.scores
    }
