"""Cost of the models of an evaluation: one append-only file per episode, one line per call.

Costs are stored beside the recorded turns, because the same turns may be computed or taken from a
cache. A line is written as soon as a call ends, so a killed process loses no answered call, even
of a turn that was not finished.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from acc.adapters.reports.run_directory import EvaluationDirectory, JsonLinesFile, LineAppender
from acc.domain.cost import Accounts, ModelCall
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.evaluation_run import EpisodeJob
from acc.ports.outbound.live_evaluation_ports import CallRecorderPort

_FOLDER = "costs"
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(ModelCall)


class CostFile(JsonLinesFile[ModelCall]):
    """The model calls of one episode, in order of completion."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encode=_encode, decode=_DECODER.decode)


class StoredCalls:
    """Stores each call in the file of its episode, then forwards it."""

    def __init__(
        self,
        file: LineAppender[ModelCall],
        forward: CallRecorderPort,
        *,
        current_turn: Callable[[], int] = lambda: 0,
    ) -> None:
        self._file = file
        self._forward = forward
        self._current_turn = current_turn

    def record(self, call: ModelCall) -> None:
        """Store a call with its turn and forward it."""
        call = replace(call, turn=self._current_turn())
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
