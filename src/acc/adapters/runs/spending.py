"""What the models of a run cost: one append-only file an episode, one line a call.

It stands beside the recorded turns and not in them: the same turns may have been paid for, or taken
from a cache. A line is written when a call is over, so that a killed process forgets nothing that
was answered, not even in a turn that it did not finish.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from acc.adapters.runs.run_directory import RunDirectory
from acc.domain.errors import RunDamaged, StorageFailed
from acc.domain.spending import Account, Accounts, ModelCall
from acc.domain.value_objects.evaluation_run import EpisodeJob

_FOLDER = "spending"
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(ModelCall)


class SpendingFile:
    """The calls of one episode, in the order in which they ended."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[ModelCall]:
        """Return the calls on record; a torn last line counts as not written."""
        return self._read()[0]

    def _read(self) -> tuple[list[ModelCall], int]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return [], 0
        except OSError as error:
            raise RunDamaged(f"{self.path} cannot be read: {error}") from error
        calls: list[ModelCall] = []
        position = 0
        for raw in data.splitlines(keepends=True):
            if not raw.endswith(b"\n"):
                break
            try:
                calls.append(_DECODER.decode(raw))
            except msgspec.MsgspecError as error:
                raise RunDamaged(f"{self.path} line {len(calls) + 1}: {error}") from error
            position += len(raw)
        return calls, position

    @contextmanager
    def appending(self) -> Iterator["_Appender"]:
        """Open for more calls; the file is made, and a torn line cut off, by the first of them."""
        appender = _Appender(self)
        try:
            yield appender
        finally:
            appender.close()

    def opened(self) -> int:
        """Return the file's handle, after cutting off a torn last line."""
        _, end = self._read()
        try:
            self.path.parent.mkdir(exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(handle, end)
        except OSError as error:
            raise self.fault(error) from error
        return handle

    def fault(self, error: OSError) -> StorageFailed:
        """Return an error of the disk in our words."""
        return StorageFailed(f"cannot write {self.path}: {error.strerror or error}")


class _Appender:
    def __init__(self, file: SpendingFile) -> None:
        self._file = file
        self._handle: int | None = None

    def append(self, call: ModelCall) -> None:
        """Write one line, or leave the file as it was and raise."""
        if self._handle is None:
            self._handle = self._file.opened()
        end = os.fstat(self._handle).st_size
        data = _ENCODER.encode(call) + b"\n"
        try:
            whole = os.write(self._handle, data) == len(data)
        except OSError as error:
            os.ftruncate(self._handle, end)
            raise self._file.fault(error) from error
        if not whole:
            os.ftruncate(self._handle, end)
            raise StorageFailed(f"cannot write {self._file.path}: the disk is full")

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


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
