"""Measure how much the seeds of a scenario differ: the share of identical cells over its episodes.

acc eval --episodes 10 --agents baseline,acc --out RUN
python benchmarks/seeds.py RUN

A cell is a turn of a scenario and an agent. It is identical if the agent has the same scores, the
same counts of claims and of broken rules with every seed. The second column
compares the answers, the third the queries.
"""

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path

_VALUES: tuple[str, ...] = ("outcome", "hallucination", "drift", "supported_claims")
_VALUES += ("unsupported_claims", "violations", "omissions")


def identical_share(cells: Mapping[Hashable, Iterable[Hashable]]) -> float:
    """Return the share of cells that have one value only."""
    return sum(len(set(values)) == 1 for values in cells.values()) / max(1, len(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    run: Path = parser.parse_args().run
    scores: dict[str, dict[Hashable, list[Hashable]]] = defaultdict(lambda: defaultdict(list))
    answers: dict[str, dict[Hashable, list[Hashable]]] = defaultdict(lambda: defaultdict(list))
    queries: dict[str, dict[Hashable, list[Hashable]]] = defaultdict(lambda: defaultdict(list))
    with (run / "records.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            cell = (row["turn"], row["agent"])
            scores[row["scenario"]][cell].append(tuple(row[name] for name in _VALUES))
    for path in sorted((run / "episodes").glob("*.jsonl")):
        scenario = path.name.rsplit(".", 2)[0]
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            queries[scenario][record["turn"]].append(record["query"])
            for agent in record["agents"]:
                cell = (record["turn"], agent["name"])
                answers[scenario][cell].append(agent.get("answer", ""))
    print("scenario                 scores  answers  queries   identical cells over the seeds")
    for scenario in sorted(scores):
        shares = [identical_share(part[scenario]) for part in (scores, answers, queries)]
        print(f"{scenario:24} {shares[0]:6.1%}  {shares[1]:6.1%}   {shares[2]:6.1%}")
    shares = [
        sum(identical_share(part[one]) for one in scores) / len(scores)
        for part in (scores, answers, queries)
    ]
    print(f"{'mean':24} {shares[0]:6.1%}  {shares[1]:6.1%}   {shares[2]:6.1%}")


if __name__ == "__main__":
    main()
