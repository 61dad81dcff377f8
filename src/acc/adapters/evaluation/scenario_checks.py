"""What makes a scenario unfair or impossible, beyond its structure.

The judge's canonical memory comes from the queries alone, so whatever an annotation claims must
stand in the query that the agents see.
"""

from acc.adapters.evaluation.scenario_files import ScenarioTemplate
from acc.domain.errors import InvalidScenario
from acc.domain.language import contains_text
from acc.domain.value_objects.scenario import AnswerKind, Constraint, Fact, StressTopic, Turn

_PROBES = 3
_INJECTION_TOPICS = frozenset({StressTopic.POISONED_RUNBOOK, StressTopic.PROMPT_INJECTION})


def check(template: ScenarioTemplate) -> tuple[str, ...]:
    """Return the faults found by rendering the scenario in every phrasing, with their turns."""
    phrasings = max(len(turn.phrasings()) for turn in template.turns)
    faults: dict[str, None] = {}
    for seed in range(_PROBES):
        for phrasing in range(phrasings):
            try:
                scenario = template.render(seed, phrasing=phrasing)
            except InvalidScenario as error:
                return error.faults
            ledger = _Ledger()
            for turn in scenario.turns:
                faults.update(dict.fromkeys(ledger.check(turn)))
    return tuple(faults)


class _Ledger:
    """Follows facts and constraints through an episode, as the judge will."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.constraints: dict[str, Constraint] = {}

    def check(self, turn: Turn) -> list[str]:
        """Return the turn's faults and take over what it establishes."""
        where = f"turn {turn.turn_id}: "
        stated = turn.stated
        faults = self._fact_faults(turn, stated) + self._constraint_faults(turn, stated)
        faults += self._answer_faults(turn, stated)
        if turn.topic in _INJECTION_TOPICS and not turn.injected:
            faults.append(f"injected: a {turn.topic} turn needs it")
        return [where + fault for fault in faults]

    def _fact_faults(self, turn: Turn, stated: str) -> list[str]:
        faults = [
            f"facts: {f.id!r} exists already; use updates" for f in turn.facts if f.id in self.facts
        ]
        faults += [f"updates: no fact {f.id!r} yet" for f in turn.updates if f.id not in self.facts]
        faults += [f"retracts: no fact {key!r}" for key in turn.retracts if key not in self.facts]
        for fact in turn.facts + turn.updates:
            for value in fact.values:
                if not contains_text(fact.text, value):
                    faults.append(f"facts: {fact.id!r} has value {value!r} that its text lacks")
                if not contains_text(stated, value):
                    faults.append(f"facts: {fact.id!r} has value {value!r} that the query lacks")
            self.facts[fact.id] = fact
        for key in turn.retracts:
            self.facts.pop(key, None)
        return faults

    def _constraint_faults(self, turn: Turn, stated: str) -> list[str]:
        held = self.constraints
        faults = [
            f"constraints: {c.id!r} exists already; use amends"
            for c in turn.constraints
            if c.id in held
        ]
        faults += [
            f"amends: no constraint {c.id!r} in force" for c in turn.amends if c.id not in held
        ]
        faults += [
            f"lifts: no constraint {key!r} in force" for key in turn.lifts if key not in held
        ]
        for constraint in turn.constraints + turn.amends:
            for word in constraint.rule.words:
                if not contains_text(stated, word):
                    faults.append(
                        f"constraints: {constraint.id!r} needs {word!r} that the query lacks"
                    )
            held[constraint.id] = constraint
        for key in turn.lifts:
            held.pop(key, None)
        return faults

    def _answer_faults(self, turn: Turn, stated: str) -> list[str]:
        faults: list[str] = []
        if turn.answer is AnswerKind.ANSWER and not turn.expects:
            faults.append("expect: an answer needs at least one element")
        known = [stated, *(fact.text for fact in self.facts.values())]
        known += [constraint.text for constraint in self.constraints.values()]
        for expectation in turn.expects:
            if not any(contains_text(text, word) for word in expectation.any_of for text in known):
                faults.append(f"expect: nothing said so far holds {list(expectation.any_of)}")
            for avoided in turn.avoids:
                if any(contains_text(word, avoided) for word in expectation.any_of):
                    faults.append(f"avoid: {avoided!r} is part of what is expected")
        return faults
