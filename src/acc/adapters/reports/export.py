"""All turns of a run as one table, and the table as CSV."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acc.adapters.reports.costs import cost_file
from acc.adapters.reports.prompts import prompt_fields, prompt_file
from acc.adapters.reports.results import RECORD_FIELDS, episode_rows, safe_cell
from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.domain.cost import CostCategory
from acc.domain.value_objects.evaluation_run import EpisodeJob

_TEXT_FIELDS = ("query", "answer", "instruction", "memory", "messages")
_COST_FIELDS = ("calls", "input_tokens", "output_tokens", "cost")
EXPORT_FIELDS = (*RECORD_FIELDS, "language", "seconds", *_COST_FIELDS, *_TEXT_FIELDS)


def export_rows(run: EvaluationDirectory) -> Iterator[dict[str, Any]]:
    """Yield a row for each agent and turn: scores, counts, texts, prompt, time, tokens, cost."""
    for job in run.jobs():
        prompts = {line.turn: line.agents for line in prompt_file(run, job).read()}
        spent = _spent(run, job)
        texts: dict[str, dict[str, tuple[str, str]]] = {}
        for record in run.lines(job):
            for agent, row in zip(record.agents, episode_rows(job, record), strict=True):
                known = texts.setdefault(agent.name, {})
                cost = spent.get((record.turn, agent.name), {})
                prompt = prompts.get(record.turn, {}).get(agent.name)
                yield {
                    **row,
                    "language": job.scenario.language,
                    **dict.fromkeys(_COST_FIELDS, None),
                    **cost,
                    "query": record.query,
                    "answer": agent.answer,
                    **prompt_fields(prompt, known),
                }
                known[f"query {record.turn}"] = ("user", record.query)
                known[f"answer {record.turn}"] = ("assistant", agent.answer)


def _spent(run: EvaluationDirectory, job: EpisodeJob) -> dict[tuple[int, str], dict[str, Any]]:
    """Return calls, tokens and cost of each agent and turn, with its compressor."""
    sums: dict[tuple[int, str], dict[str, Any]] = {}
    for call in cost_file(run, job).read():
        if call.category is CostCategory.JUDGE or call.failed or call.from_cache:
            continue
        own = sums.setdefault(
            (call.turn, call.agent),
            {"calls": 0, "input_tokens": 0, "output_tokens": 0, "cost": 0.0},
        )
        own["calls"] += 1
        own["input_tokens"] += call.input_tokens
        own["output_tokens"] += call.output_tokens
        if own["cost"] is not None:
            own["cost"] = None if call.cost is None else own["cost"] + call.cost
    return sums


def write_csv(run: EvaluationDirectory, path: Path) -> int:
    """Write the table as CSV and return the number of rows."""
    count = 0
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        writer = csv.DictWriter(file, EXPORT_FIELDS, lineterminator="\n")
        writer.writeheader()
        for row in export_rows(run):
            texts = {
                name: safe_cell(value) for name, value in row.items() if isinstance(value, str)
            }
            writer.writerow({**row, **texts})
            count += 1
    return count
