"""Cost of the models of an evaluation: one append-only file per episode, one line per call.

Costs are stored beside the recorded turns, because the same turns may be computed or taken from a
cache. A line is written as soon as a call ends, so a killed process loses no answered call, even
of a turn that was not finished.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from acc.adapters.reports.run_directory import EvaluationDirectory, JsonLinesFile, LineAppender
from acc.domain.cost import Account, Accounts, ModelCall
from acc.domain.value_objects.evaluation_run import EpisodeJob
from acc.ports.outbound.live_evaluation_ports import CallRecorderPort

_FOLDER = "spending"
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(ModelCall)


class CostFile(JsonLinesFile[ModelCall]):
    """The model calls of one episode, in order of completion."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encode=_encode, decode=_DECODER.decode)


class StoredCalls:
    """Stores each call in the file of its episode, then forwards it."""

    def __init__(self, file: LineAppender[ModelCall], forward: CallRecorderPort) -> None:
        self._file = file
        self._forward = forward

    def record(self, call: ModelCall) -> None:
        """Store a call and forward it."""
        self._file.append(call)
        self._forward.record(call)


def _encode(call: ModelCall) -> bytes:
    return _ENCODER.encode(call) + b"\n"


def cost_file(run: EvaluationDirectory, job: EpisodeJob) -> CostFile:
    """Return the cost file of an episode."""
    return CostFile(run.path / _FOLDER / f"{job.name}.jsonl")


def load_costs(run: EvaluationDirectory) -> Accounts:
    """Return the costs of all episodes so far."""
    return Accounts(call for job in run.jobs() for call in cost_file(run, job).read())


def cost_fields(accounts: Accounts, agents: Sequence[str]) -> dict[str, Any]:
    """Return the costs as plain data, per category and in total; `agents` gives the order."""
    rows = [
        {"category": category.value, "agent": agent, **_account_fields(account)}
        for category, agent, account in accounts.rows(agents)
    ]
    return {"currency": "USD", "spent": rows, "total": _account_fields(accounts.total)}


def _account_fields(account: Account) -> dict[str, Any]:
    cost = None if account.cost is None else round(account.cost, 9)
    return {**msgspec.to_builtins(account), "cost": cost}


def account_from_fields(fields: Mapping[str, Any]) -> Account:
    """Return the account of a row or total made by `cost_fields`."""
    return msgspec.convert(
        {name: value for name, value in fields.items() if name not in ("category", "agent")},
        Account,
    )
