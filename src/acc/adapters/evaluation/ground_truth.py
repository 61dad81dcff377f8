"""What the annotations of a scenario decide for a model judge.

The model then reads no query, and code checks rules of form, expected elements and what an answer
carries over from earlier turns.
"""

from acc.adapters.evaluation.findings import CarryOver
from acc.adapters.evaluation.judge_memory import QuotedCanonicalMemory
from acc.adapters.evaluation.rubric_judge import CanonicalMemory, is_stated, stated_expectations
from acc.domain.format_rules import is_question
from acc.domain.language import sentences
from acc.domain.value_objects.scenario import AnswerKind, Scenario, ScenarioTurn

_ANSWER_KINDS = {
    AnswerKind.UNKNOWN: "says that this is not known",
    AnswerKind.REFUSAL: "declines",
}


class GroundTruth:
    """The annotations of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._turns = {turn.turn_id: turn for turn in scenario.turns}

    @classmethod
    def of(cls, scenario: Scenario | None) -> "GroundTruth | None":
        """Return the annotations of a scenario, None if it has none."""
        return cls(scenario) if scenario is not None and scenario.is_annotated else None

    def turn(self, turn_id: int) -> "AnnotatedTurn | None":
        """Return the annotations of a turn, with what earlier turns left behind."""
        turn = self._turns.get(turn_id)
        if turn is None:
            return None
        memory = CanonicalMemory({})
        for number in sorted(self._turns):
            if number <= turn_id:
                memory.read_annotated(self._turns[number])
        active = [rule for _, rule, _ in memory.rules()]
        return AnnotatedTurn(turn, memory.carry_over([*active, *turn.once], [turn.stated]))


class AnnotatedTurn:
    """The annotations of one turn."""

    def __init__(self, turn: ScenarioTurn, carry_over: CarryOver) -> None:
        self._turn = turn
        self.carry_over = carry_over

    def apply(self, memory: QuotedCanonicalMemory) -> None:
        """Add facts and rules to a memory, and end those that the turn ends."""
        turn = self._turn
        for fact in turn.updates:
            memory.end("facts", fact.id, turn.turn_id)
        for key in turn.retracts:
            memory.end("facts", key, turn.turn_id)
        for constraint in turn.amends:
            memory.end("constraints", constraint.id, turn.turn_id)
        for key in turn.lifts:
            memory.end("constraints", key, turn.turn_id)
        facts = turn.facts + turn.updates
        for fact in facts:
            memory.add_fact(fact.text, fact.text, turn.turn_id, fact.id)
        for sentence in sentences(turn.stated):
            if not is_question(sentence) and not any(is_stated(sentence, fact) for fact in facts):
                memory.add_fact(sentence, sentence, turn.turn_id)
        for constraint in turn.constraints + turn.amends:
            memory.add_rule(constraint.text, constraint.rule, turn.turn_id, constraint.id)
        for rule in turn.once:
            memory.add_rule(f"for this answer: {rule.kind.value}", rule, turn.turn_id, once=True)

    def correct_answer(self) -> str:
        """Return what a correct answer contains, for the model."""
        parts = [" or ".join(expected.any_of) for expected in self._turn.expects]
        lines = [f"A correct answer contains: {part}" for part in parts]
        lines += [f"A correct answer does not contain: {text}" for text in self._turn.avoids]
        if self._turn.answer in _ANSWER_KINDS:
            lines.append(f"A correct answer {_ANSWER_KINDS[self._turn.answer]}.")
        return "\n".join(lines)

    def expectations(self, answer: str) -> list[bool]:
        """Return for each element of a correct answer whether it is there."""
        return stated_expectations(self._turn, answer)
