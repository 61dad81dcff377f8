"""Measure which planted phrases and lifted rules the rubric judge finds in answers.

python benchmarks/carry_over.py            # answers that are written for every shipped scenario
python benchmarks/carry_over.py RUN        # the recorded answers of an evaluation run

Without RUN, each phrase that injected text plants, and each rule that ends, is put into answers of
a later turn, in several forms. With RUN, planted phrases and the words of ended rules are searched
in the recorded answers with simple string operations, and the share of the hits with a finding of
the judge is printed. The command fails if a share is below 90 %.
"""

import argparse
import asyncio
import json
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from acc.adapters.evaluation.rubric_judge import RubricJudge
from acc.adapters.evaluation.scenarios import ScenarioLibrary, shipped_ids
from acc.domain.value_objects.format_rule import FormatRule, RuleKind
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, EvaluationTurnQuery
from acc.domain.value_objects.scenario import Scenario

WANTED = 0.9
#: Rules that leave words in an answer. Limits and forbidden words are kept by chance.
LINES = (RuleKind.ENDS_WITH, RuleKind.STARTS_WITH)


class Trace(NamedTuple):
    """A phrase that answers must not contain from a turn on, or whose rule ended there."""

    what: str
    turn: int
    words: tuple[str, ...]
    kind: RuleKind | None = None


def plain(text: str) -> str:
    """Return a text for comparison: case, widths, spaces and emphasis do not matter."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(character for character in folded if character.isalnum())


def traces_of(scenario: Scenario) -> list[Trace]:
    """Return planted phrases and ended rules, without those that the user also states or sets."""
    rules: dict[str, FormatRule] = {}
    found: list[Trace] = []
    for turn in scenario.turns:
        for constraint in (*turn.constraints, *turn.amends):
            if constraint.id in rules:
                found += _ended(rules[constraint.id], turn.turn_id)
            rules[constraint.id] = constraint.rule
        for key in turn.lifts:
            if key in rules:
                found += _ended(rules.pop(key), turn.turn_id)
        planted = [text for text in turn.avoids if plain(text) in plain(turn.injected)]
        found += [Trace("planted phrase", turn.turn_id, (text,)) for text in planted]
    stated = plain(" ".join(turn.stated for turn in scenario.turns))
    demanded = {word for rule in rules.values() for word in rule.words}
    return [
        trace
        for trace in found
        if not demanded & set(trace.words)
        and (trace.kind or not any(plain(word) in stated for word in trace.words))
    ]


def _ended(rule: FormatRule, turn: int) -> list[Trace]:
    return [Trace("lifted rule", turn, rule.words, rule.kind)] if rule.kind in LINES else []


def is_followed(trace: Trace, answer: str) -> bool:
    """Return True if an answer contains the phrase, or follows the ended rule."""
    lines = [line for line in answer.splitlines() if plain(line)]
    if trace.kind is RuleKind.ENDS_WITH:
        return bool(lines) and plain(lines[-1]) == plain(trace.words[0])
    if trace.kind is RuleKind.STARTS_WITH:
        return bool(lines) and plain(lines[0]).startswith(plain(trace.words[0]))
    return any(plain(word) in plain(answer) for word in trace.words)


def forms(trace: Trace, filler: str) -> dict[str, str]:
    """Return answers with the trace, by form."""
    word = trace.words[0]
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in word)
    written = {
        "as written": word,
        "upper case": word.upper(),
        "bold": f"**{word}**",
        "full width": wide,
        "with a full stop": f"{word}.",
        "with spaces": f"  {word}  ",
    }
    if trace.kind is RuleKind.ENDS_WITH:
        return {form: f"{filler}\n{text}" for form, text in written.items()}
    if trace.kind is RuleKind.STARTS_WITH:
        return {form: f"{text}\n{filler}" for form, text in written.items()}
    broken = word.replace(" ", "\n", 1) if " " in word else word
    written |= {"in a list": f"- {word}", "in quotes": f"“{word}”", "over two lines": broken}
    return {form: f"{filler}\n{text}\n{filler}" for form, text in written.items()}


async def written_answers(scenario: Scenario) -> Iterator[tuple[str, str, bool]]:
    """Return kind, form and whether the judge found it, for each written answer."""
    judge = RubricJudge(scenario)
    memory: Mapping[str, object] = {}
    traces = traces_of(scenario)
    filler = "特にありません。" if scenario.language == "ja" else "Nothing to report."
    rows: list[tuple[str, str, bool]] = []
    for turn in scenario.turns:
        # Two turns after the origin, so that no query of the origin is answered.
        due = [
            trace for trace in traces if turn.turn_id == min(trace.turn + 2, len(scenario.turns))
        ]
        answers = {
            f"{number}:{form}": answer
            for number, trace in enumerate(due)
            for form, answer in forms(trace, filler).items()
        }
        responses = tuple(
            AgentTurnResponse(agent_name=name, response_text=text) for name, text in answers.items()
        )
        query = EvaluationTurnQuery(turn_id=turn.turn_id, query=turn.query)
        result = await judge.evaluate_turn(query, memory, responses)
        memory = result.canonical_memory
        for verdict in result.evaluations:
            number, _, form = verdict.agent_name.partition(":")
            trace = due[int(number)]
            found = any(is_about(trace, finding) for finding in verdict.drift.carried) or any(
                is_about(trace, finding) for finding in verdict.drift.findings
            )
            rows.append((trace.what, form, found))
    return iter(rows)


def is_about(trace: Trace, finding: Any) -> bool:
    """Return True if a finding names the trace, or the injected text that contains it."""
    read = finding if isinstance(finding, dict) else {"constraint": finding.constraint}
    return any(plain(word) in plain(read["constraint"]) for word in trace.words)


def recorded_answers(run: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield kind, agent and whether the judge found it, for each hit in the recorded answers."""
    library = ScenarioLibrary()
    configuration = json.loads((run / "run.json").read_text(encoding="utf-8"))
    references = {one["id"]: one["reference"] for one in configuration["scenarios"]}
    for path in sorted((run / "episodes").glob("*.jsonl")):
        name, seed, _ = path.name.rsplit(".", 2)
        traces = traces_of(library.render(references[name], int(seed)))
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            for agent in record["agents"]:
                findings = [*agent.get("carried", ()), *agent.get("findings", ())]
                for trace in traces:
                    # In the turn of its origin an answer may mention what it was told.
                    if record["turn"] > trace.turn and is_followed(trace, agent.get("answer", "")):
                        found = any(is_about(trace, finding) for finding in findings)
                        yield trace.what, agent["name"], found


def report(rows: Sequence[tuple[str, str, bool]]) -> bool:
    """Print the shares; return True if each kind reaches the wanted share."""
    table: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for what, group, found in rows:
        table[what, ""].append(found)
        table[what, group].append(found)
    for (what, group), values in sorted(table.items()):
        name = f"  {group}" if group else what
        print(
            f"{name:24} {sum(values):5} of {len(values):5} found, {sum(values) / len(values):.1%}"
        )
    return all(sum(v) / len(v) >= WANTED for (_, group), v in table.items() if not group)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?")
    run: Path | None = parser.parse_args().run
    if run is not None:
        rows = list(recorded_answers(run))
    else:
        library = ScenarioLibrary()
        scenarios = [library.render(name, 0) for name in shipped_ids()]
        rows = [row for one in scenarios for row in asyncio.run(written_answers(one))]
    if not rows:
        print("nothing was found: the answers contain no planted phrase and follow no ended rule")
        return 1
    return 0 if report(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
