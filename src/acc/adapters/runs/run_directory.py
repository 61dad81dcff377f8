"""A run on disk: its configuration, and one append-only file an episode.

A line is written with a single call and nothing is ever rewritten, so a killed process loses at
most the turns in flight. A torn last line is cut off when the run is continued.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from acc.adapters.runs.line_file import Appender, LineFile, write_whole
from acc.adapters.runs.turn_lines import TurnLine, decode, encode
from acc.domain.errors import InvalidInput, RunDamaged, RunMismatch, StorageFailed
from acc.domain.value_objects.evaluation_run import EpisodeJob, EvaluationConfig, jobs_of

_CONFIGURATION = "run.json"
_EPISODES = "episodes"


class RunDirectory:
    """Opens a new or an earlier run."""

    def __init__(self, path: Path, configuration: EvaluationConfig) -> None:
        self.path = path
        self.configuration = configuration

    @classmethod
    def create(cls, path: Path, configuration: EvaluationConfig) -> "RunDirectory":
        """Make the directory, or continue the run in it if its configuration is the same.

        One that is refused is left as it is.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not (path / _CONFIGURATION).exists():
                others = [
                    entry.name for entry in path.iterdir() if entry.name not in {_EPISODES, ".lock"}
                ]
                if others:
                    raise InvalidInput(
                        f"{path} is not empty and holds no run: {', '.join(sorted(others)[:5])}"
                    )
                written = msgspec.json.format(msgspec.json.encode(configuration), indent=2)
                write_whole(path / _CONFIGURATION, written + b"\n")
            run = cls.open(path)
            if differences := _differences(run.configuration, configuration):
                raise RunMismatch(str(path), differences)
            (path / _EPISODES).mkdir(exist_ok=True)
        except OSError as error:
            raise StorageFailed(f"cannot write to {path}: {error.strerror or error}") from error
        return run

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Open the run in a directory."""
        file = path / _CONFIGURATION
        try:
            configuration = msgspec.json.decode(file.read_bytes(), type=EvaluationConfig)
        except FileNotFoundError:
            raise InvalidInput(f"{path} holds no run: there is no {_CONFIGURATION} in it") from None
        except (OSError, msgspec.MsgspecError) as error:
            raise RunDamaged(f"{file} cannot be read: {error}") from error
        return cls(path, configuration)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep any other process from continuing this run at the same time."""
        try:
            with (self.path / ".lock").open("w") as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise InvalidInput(f"another process is working on {self.path}") from None
                yield
        except OSError as error:
            raise StorageFailed(f"cannot write to {self.path}: {error.strerror}") from error

    def journal(self, job: EpisodeJob) -> "EpisodeJournal":
        """Return the record of one episode."""
        return EpisodeJournal(self.path / _EPISODES / f"{job.name}.jsonl")

    def jobs(self) -> tuple[EpisodeJob, ...]:
        """Return all episodes of the run, done or not."""
        return jobs_of(self.configuration)

    def lines(self, job: EpisodeJob) -> list[TurnLine]:
        """Return the recorded turns of an episode."""
        return self.journal(job).read()

    def write(self, name: str, data: bytes) -> Path:
        """Write one of the run's results, whole or not at all."""
        path = self.path / name
        write_whole(path, data)
        return path


class EpisodeJournal(LineFile[TurnLine]):
    """The turns of one episode, in order."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encode=encode, decode=decode)

    def fault_of(self, line: TurnLine, number: int) -> str:
        """Return what is wrong with a line: turns follow one another."""
        return "" if line.turn == number else f"holds turn {line.turn}"

    @contextmanager
    def appending(self) -> Iterator[Appender[TurnLine]]:
        """Open for more turns at once, so that nothing is asked that could not be kept."""
        with super().appending() as appender:
            appender.open()
            yield appender


def _differences(earlier: EvaluationConfig, wanted: EvaluationConfig) -> list[str]:
    one, other = msgspec.to_builtins(earlier), msgspec.to_builtins(wanted)
    return [
        f"{name}: {_short(one[name])} there, {_short(other[name])} now"
        for name in one
        if one[name] != other[name]
    ]


def _short(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_short(item) for item in value) + "]"
    if isinstance(value, dict):
        if "digest" in value:
            return f"{value['id']} ({value['digest'][:8]})"
        if "kind" in value:
            return f"{value['name']}={value['kind']}"
        return " ".join(f"{name}={item}" for name, item in value.items())
    return str(value)
