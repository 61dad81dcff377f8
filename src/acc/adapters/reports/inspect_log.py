"""A run as logs of Inspect AI: one log per agent, one sample per episode.

The logs are JSON in version 2 of the format, which `inspect_ai.log.read_eval_log` and the viewer of
Inspect read. Inspect itself is not imported.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from acc.adapters.reports.costs import cost_file
from acc.adapters.reports.results import turn_metrics
from acc.adapters.reports.run_directory import EvaluationDirectory, write_atomically
from acc.adapters.reports.turn_records import AgentRecord, TurnRecord
from acc.domain.cost import CostCategory
from acc.domain.metrics import METRIC_NAMES
from acc.domain.value_objects.evaluation import TurnStatus
from acc.domain.value_objects.evaluation_run import EpisodeJob

LOG_VERSION = 2
SCORER = "acc"
#: The metrics that are scores of a sample; the others are in the metadata of its turns.
_SCORES = ("outcome", "hallucination", "drift", "memory_tokens")
_TASK = "acc/eval"


def write_inspect(run: EvaluationDirectory, folder: Path) -> int:
    """Write `AGENT.json` for each agent of a run and return the number of logs."""
    folder.mkdir(parents=True, exist_ok=True)
    agents = [agent.name for agent in run.configuration.agents]
    for name in agents:
        data = msgspec.json.encode(inspect_log(run, name))
        write_atomically(folder / f"{name}.json", msgspec.json.format(data, indent=1))
    return len(agents)


def inspect_log(run: EvaluationDirectory, agent: str) -> dict[str, Any]:
    """Return the log of one agent of a run."""
    modified = datetime.fromtimestamp((run.path / "run.json").stat().st_mtime, UTC)
    created = modified.isoformat(timespec="seconds")
    samples = [
        _Sample(run, job, agent).as_json()
        for job in run.jobs()
        if any(one.name == agent for record in run.lines(job) for one in record.agents)
    ]
    configuration = run.configuration
    model = next(one.kind for one in configuration.agents if one.name == agent)
    return {
        "version": LOG_VERSION,
        "status": "success",
        "eval": {
            "eval_id": _identifier(run, agent),
            "run_id": _identifier(run, ""),
            "created": created,
            "task": _TASK,
            "task_id": _identifier(run, _TASK),
            "task_version": configuration.version,
            "solver": agent,
            "dataset": {
                "name": "acc scenarios",
                "samples": len(samples),
                "sample_ids": [sample["id"] for sample in samples],
                "shuffled": False,
            },
            "model": f"{model}/{configuration.model}",
            "config": {"epochs": 1},
            "packages": {"acc-agents": configuration.version},
            "metadata": {"judge": configuration.judge, "agent": agent},
        },
        "plan": {"name": "acc", "steps": [{"solver": agent, "params": {"kind": model}}]},
        "results": _results(samples),
        "stats": {"started_at": created, "completed_at": created},
        "samples": samples,
    }


@dataclass(slots=True)
class _Sample:
    """One episode of one agent."""

    run: EvaluationDirectory
    job: EpisodeJob
    agent: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the sample: all messages, the mean of each score, and the scores of each turn."""
        records = self.run.lines(self.job)
        for record in records:
            for one in record.agents:
                if one.name == self.agent:
                    self._add(record, one)
        last = next((m["content"] for m in self.messages[::-1] if m["role"] == "assistant"), "")
        model = self.run.configuration.model
        usage = self._usage()
        sample: dict[str, Any] = {
            "id": self.job.name,
            "epoch": 1,
            "input": self.messages[0]["content"],
            "target": "",
            "messages": self.messages,
            "output": {
                "model": model,
                "choices": [
                    {"message": {"role": "assistant", "content": last}, "stop_reason": "stop"}
                ],
            },
            "scores": {
                name: {
                    "value": value,
                    "explanation": f"mean over the scored turns of {self.job.name}",
                    "metadata": {"turns": self.turns} if name == _SCORES[0] else {},
                }
                for name in _SCORES
                if (value := _mean([turn[name] for turn in self.turns])) is not None
            },
            "metadata": {
                "scenario": self.job.scenario.id,
                "domain": self.job.scenario.domain,
                "language": self.job.scenario.language,
                "seed": self.job.seed,
            },
            "model_usage": {model: usage} if usage else {},
        }
        failed = [turn for turn in self.turns if turn["status"] != TurnStatus.SCORED]
        if failed:
            sample["metadata"]["turns_without_score"] = [turn["turn"] for turn in failed]
        return sample

    def _add(self, record: TurnRecord, agent: AgentRecord) -> None:
        """Add the messages and scores of a turn; a turn that failed has no answer."""
        self.messages.append({"role": "user", "content": record.query})
        if agent.answer or not agent.error:
            self.messages.append(
                {"role": "assistant", "content": agent.answer, "source": "generate"}
            )
        scores = dict(zip(METRIC_NAMES, turn_metrics(agent), strict=True))
        self.turns.append(
            {
                "turn": record.turn,
                "topic": record.topic,
                "status": str(agent.status),
                **{name: None if math.isnan(value) else value for name, value in scores.items()},
                "findings": [finding.reason for finding in (*agent.findings, *agent.carried)],
                "unsupported": [claim.claim for claim in agent.claims if not claim.supported],
                "error": agent.error,
            }
        )

    def _usage(self) -> dict[str, int]:
        calls = [
            call
            for call in cost_file(self.run, self.job).read()
            if call.agent == self.agent and call.category is not CostCategory.JUDGE
        ]
        if not calls:
            return {}
        tokens = [sum(c.input_tokens for c in calls), sum(c.output_tokens for c in calls)]
        return {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens)}


def _results(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = {
        name: [sample["scores"][name]["value"] for sample in samples if name in sample["scores"]]
        for name in _SCORES
    }
    return {
        "total_samples": len(samples),
        "completed_samples": len(samples),
        "scores": [
            {
                "name": name,
                "scorer": SCORER,
                "scored_samples": len(found),
                "unscored_samples": len(samples) - len(found),
                "metrics": {"mean": {"name": "mean", "value": _mean(found)}},
            }
            for name, found in values.items()
            if found
        ],
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(math.fsum(known) / len(known), 6) if known else None


def _identifier(run: EvaluationDirectory, part: str) -> str:
    """Return an identifier that is the same for every export of a run."""
    text = f"{run.path.name}\0{part}".encode() + msgspec.json.encode(run.configuration)
    return hashlib.sha256(text).hexdigest()[:22]
