"""The judge's canonical memory: what the queries have established, and nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

from acc.adapters.evaluation.claims import Evidence
from acc.domain.language import contains_text, said, sentences, terms
from acc.domain.rule_reading import ReadRule, is_question, lifted_by, lifts, read_rule
from acc.domain.statements import supersedes
from acc.domain.value_objects.live_evaluation import EvaluationTurnQuery
from acc.domain.value_objects.rule import SINGULAR, Rule, RuleKind
from acc.domain.value_objects.scenario import Constraint, Fact, Turn

#: Sentences of one query that are read; nobody says more in a turn, but anybody can paste more.
MOST_SENTENCES = 500


class CanonicalLedger:
    """The canonical memory while one query is being read into it."""

    def __init__(self, memory: Mapping[str, object]) -> None:
        self.memory: dict[str, Any] = {
            name: dict(value) if isinstance(value := memory.get(name), Mapping) else {}
            for name in ("facts", "superseded", "constraints", "said", "injected")
        }

    def take_annotated(self, turn: Turn) -> None:
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
        for place, sentence in enumerate(said(query.query)[:MOST_SENTENCES], start=1):
            key = f"{query.turn_id}.{place}"
            if lifts(sentence) and self._lift(sentence, query.turn_id):
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
            if lifted_by(sentence, entry["text"])
        ]
        for key in meant:
            self._end_constraint(key, turn_id, "it was lifted")
        return bool(meant)

    def _take_rule(self, key: str, read: ReadRule, turn_id: int) -> None:
        if read.rule.kind in SINGULAR:
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

    def rules(self) -> list[tuple[str, Rule]]:
        """Return the constraints in force, each with its checkable form."""
        return [
            (
                entry["text"],
                Rule(
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
