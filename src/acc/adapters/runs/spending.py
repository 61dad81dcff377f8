"""What the models of a run cost: one append-only file an episode, one line a call.

It stands beside the recorded turns and not in them: the same turns may have been paid for, or taken
from a cache. A line is written when a call is over, so that a killed process forgets nothing that
was answered, not even in a turn that it did not finish.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from acc.adapters.runs.line_file import LineFile
from acc.adapters.runs.run_directory import RunDirectory
from acc.domain.cost import Account, Accounts, ModelCall
from acc.domain.value_objects.evaluation_run import EpisodeJob

_FOLDER = "spending"
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(ModelCall)


class SpendingFile(LineFile[ModelCall]):
    """The calls of one episode, in the order in which they ended."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encode=_encode, decode=_DECODER.decode)


def _encode(call: ModelCall) -> bytes:
    return _ENCODER.encode(call) + b"\n"


def spending_of(run: RunDirectory, job: EpisodeJob) -> SpendingFile:
    """Return the record of what an episode cost."""
    return SpendingFile(run.path / _FOLDER / f"{job.name}.jsonl")


def accounts_of(run: RunDirectory) -> Accounts:
    """Return what all episodes of a run have cost so far."""
    return Accounts(call for job in run.jobs() for call in spending_of(run, job).read())


def cost_fields(accounts: Accounts, agents: Sequence[str]) -> dict[str, Any]:
    """Return what was spent as plain data, part by part, and all together."""
    rows = [
        {"part": part.value, "agent": agent, **_fields(account)}
        for part, agent, account in accounts.rows(agents)
    ]
    return {"currency": "USD", "spent": rows, "total": _fields(accounts.total)}


def _fields(account: Account) -> dict[str, Any]:
    cost = None if account.cost is None else round(account.cost, 9)
    return {**msgspec.to_builtins(account), "cost": cost}


def account_of(fields: Mapping[str, Any]) -> Account:
    """Return the account that plain data holds."""
    return msgspec.convert(
        {name: value for name, value in fields.items() if name not in ("part", "agent")}, Account
    )
