"""An evaluation on disk: its configuration, and one append-only file per episode.

Each line is written with a single call and never rewritten, so a killed process loses at most the
turns in progress. An incomplete last line is removed when the evaluation continues.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from acc.adapters.reports.turn_records import (
    TurnRecord,
    decode_turn,
    encode_turn,
    record_from_result,
    result_from_record,
)
from acc.domain.errors import InvalidInput, RunDamaged, RunMismatch, StorageFailed
from acc.domain.value_objects.evaluation_run import EpisodeJob, EvaluationConfig, jobs_of
from acc.domain.value_objects.live_evaluation import TurnResult
from acc.domain.value_objects.scenario import Scenario

_CONFIGURATION_FILE = "run.json"
_LENGTHS_FILE = "lengths.json"
_EPISODES_FOLDER = "episodes"
_LOCK_FILE = ".lock"
_MAX_LISTED_FILES = 5
_DIGEST_LENGTH_SHOWN = 8

T = TypeVar("T")


class EvaluationDirectory:
    """The directory of a new or existing evaluation."""

    def __init__(self, path: Path, configuration: EvaluationConfig) -> None:
        self.path = path
        self.configuration = configuration

    @classmethod
    def create(cls, path: Path, configuration: EvaluationConfig) -> "EvaluationDirectory":
        """Create the directory, or open it if it contains the same configuration.

        A directory with other files or another configuration is not modified.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not (path / _CONFIGURATION_FILE).exists():
                expected = {_EPISODES_FOLDER, _LOCK_FILE}
                others = sorted(
                    entry.name for entry in path.iterdir() if entry.name not in expected
                )
                if others:
                    raise InvalidInput(
                        f"{path} is not empty and contains no evaluation; it contains "
                        f"{', '.join(others[:_MAX_LISTED_FILES])}; use an empty directory"
                    )
                data = msgspec.json.format(msgspec.json.encode(configuration), indent=2)
                write_atomically(path / _CONFIGURATION_FILE, data + b"\n")
            directory = cls.open(path)
            directory._check_configuration(configuration)
            (path / _EPISODES_FOLDER).mkdir(exist_ok=True)
        except OSError as error:
            raise StorageFailed(f"cannot write to {path}: {error.strerror or error}") from error
        return directory

    @classmethod
    def open(cls, path: Path) -> "EvaluationDirectory":
        """Open an existing evaluation."""
        file = path / _CONFIGURATION_FILE
        try:
            configuration = msgspec.json.decode(file.read_bytes(), type=EvaluationConfig)
        except FileNotFoundError:
            raise InvalidInput(
                f"{path} contains no evaluation: {_CONFIGURATION_FILE} is missing; name a run "
                "directory of acc eval"
            ) from None
        except (OSError, msgspec.MsgspecError) as error:
            raise RunDamaged(f"{file} cannot be read: {error}") from error
        return cls(path, configuration)

    @classmethod
    def find(cls, path: Path, configuration: EvaluationConfig) -> "EvaluationDirectory | None":
        """Return the evaluation with this configuration, or None if the directory has none."""
        if not (path / _CONFIGURATION_FILE).exists():
            return None
        directory = cls.open(path)
        directory._check_configuration(configuration)
        return directory

    @classmethod
    def extend(
        cls, path: Path, configuration: EvaluationConfig, *, dry_run: bool = False
    ) -> "EvaluationDirectory":
        """Add episodes or scenarios to an evaluation; recorded episodes stay valid.

        With `dry_run` they are only checked, and nothing is written.
        """
        directory = cls.open(path)
        recorded = directory.configuration
        grown = replace(
            recorded, episodes=configuration.episodes, scenarios=configuration.scenarios
        )
        if differences := _differences(grown, configuration):
            raise RunMismatch(str(path), differences)
        count = len(recorded.scenarios)
        if configuration.episodes < recorded.episodes or (
            configuration.scenarios[:count] != recorded.scenarios
        ):
            raise InvalidInput(
                f"episodes and scenarios of {path} cannot be removed: it has {recorded.episodes} "
                f"episodes of {count} scenarios; request at least these"
            )
        if dry_run:
            return cls(path, configuration)
        data = msgspec.json.format(msgspec.json.encode(configuration), indent=2)
        write_atomically(path / _CONFIGURATION_FILE, data + b"\n")
        return cls.open(path)

    def _check_configuration(self, requested: EvaluationConfig) -> None:
        if differences := _differences(self.configuration, requested):
            raise RunMismatch(str(self.path), differences)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock that prevents two processes from continuing one evaluation."""
        try:
            with (self.path / _LOCK_FILE).open("w") as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise InvalidInput(
                        f"another process is working on {self.path}; wait until it ends, or "
                        "choose another --out"
                    ) from None
                yield
        except OSError as error:
            raise StorageFailed(f"cannot write to {self.path}: {error.strerror}") from error

    def journal(self, job: EpisodeJob) -> "EpisodeJournal":
        """Return the file with the turns of one episode."""
        return EpisodeJournal(self.path / _EPISODES_FOLDER / f"{job.name}.jsonl")

    def jobs(self) -> tuple[EpisodeJob, ...]:
        """Return all planned episodes, finished or not."""
        return jobs_of(self.configuration)

    def record_lengths(self, lengths: Mapping[str, int]) -> None:
        """Write the number of turns by scenario id, because scenario files may be missing later."""
        if lengths:
            data = msgspec.json.format(msgspec.json.encode(lengths, order="sorted"), indent=2)
            self.write(_LENGTHS_FILE, data + b"\n")

    def lengths(self) -> Mapping[str, int]:
        """Return the number of turns by scenario id; empty if it is not recorded."""
        try:
            return msgspec.json.decode(
                (self.path / _LENGTHS_FILE).read_bytes(), type=dict[str, int]
            )
        except (OSError, msgspec.MsgspecError):
            return {}

    def lines(self, job: EpisodeJob) -> list[TurnRecord]:
        """Return the recorded turns of an episode."""
        return self.journal(job).read()

    def write(self, name: str, data: bytes) -> Path:
        """Write a result file atomically and return its path."""
        path = self.path / name
        write_atomically(path, data)
        return path


class JsonLinesFile(Generic[T]):
    """An append-only file with one value per line; an incomplete last line is ignored."""

    def __init__(
        self, path: Path, *, encode: Callable[[T], bytes], decode: Callable[[bytes], T]
    ) -> None:
        self.path = path
        self._encode = encode
        self._decode = decode

    def read(self) -> list[T]:
        """Return the values of all complete lines."""
        return self._read()[0]

    def has_lines(self) -> bool:
        """Return True if the file exists and is not empty."""
        return self.path.exists() and self.path.stat().st_size > 0

    def validate_line(self, value: T, number: int) -> str:
        """Return what is wrong with a line (numbered from 1), or an empty string."""
        return ""

    @contextmanager
    def appending(self) -> Iterator["LineAppender[T]"]:
        """Open the file for appending.

        The first append creates the file and removes an incomplete last line.
        """
        appender = LineAppender(self._open_for_append, self._encode, self.path)
        try:
            yield appender
        finally:
            appender.close()

    def _read(self) -> tuple[list[T], int]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return [], 0
        except OSError as error:
            raise RunDamaged(f"{self.path} cannot be read: {error}") from error
        values: list[T] = []
        end = 0
        for number, line in enumerate(data.splitlines(keepends=True), 1):
            if not line.endswith(b"\n"):
                break
            try:
                value = self._decode(line)
            except msgspec.MsgspecError as error:
                raise RunDamaged(f"{self.path} line {number}: {error}") from error
            if problem := self.validate_line(value, number):
                raise RunDamaged(f"{self.path} line {number}: {problem}")
            values.append(value)
            end += len(line)
        return values, end

    def _open_for_append(self) -> int:
        _, end = self._read()
        try:
            self.path.parent.mkdir(exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(descriptor, end)
        except OSError as error:
            raise _storage_error(self.path, error) from error
        return descriptor


class LineAppender(Generic[T]):
    """Appends lines to an open file."""

    def __init__(
        self, open_file: Callable[[], int], encode: Callable[[T], bytes], path: Path
    ) -> None:
        self._open_file = open_file
        self._encode = encode
        self._path = path
        self._descriptor: int | None = None

    def open(self) -> int:
        """Open the file if it is not open yet, and return its descriptor."""
        if self._descriptor is None:
            self._descriptor = self._open_file()
        return self._descriptor

    def append(self, value: T) -> None:
        """Append one line; on failure restore the file and raise StorageFailed."""
        descriptor = self.open()
        data = self._encode(value)
        end = os.fstat(descriptor).st_size
        try:
            written = os.write(descriptor, data)
        except OSError as error:
            os.ftruncate(descriptor, end)
            raise _storage_error(self._path, error) from error
        if written < len(data):
            os.ftruncate(descriptor, end)
            raise StorageFailed(
                f"cannot write {self._path}: the disk is full; earlier turns are safe"
            )

    def close(self) -> None:
        """Close the file if it is open."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class EpisodeJournal(JsonLinesFile[TurnRecord]):
    """The turns of one episode, in order."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encode=encode_turn, decode=decode_turn)

    def validate_line(self, value: TurnRecord, number: int) -> str:
        """Return an error if the turn number differs from the line number."""
        return "" if value.turn == number else f"contains turn {value.turn}"

    @contextmanager
    def appending(self) -> Iterator[LineAppender[TurnRecord]]:
        """Open the file immediately, so that storage errors occur before a model is called."""
        with super().appending() as appender:
            appender.open()
            yield appender


class RecordedEpisode:
    """Implements EpisodeJournalPort with a file; use it as a context manager."""

    def __init__(
        self, journal: EpisodeJournal, scenario: Scenario, *, driven: bool = False
    ) -> None:
        self._journal = journal
        self._turns = {turn.turn_id: turn for turn in scenario.turns}
        self._canonical: Mapping[str, object] = {}
        self._driven = driven
        self._open = ExitStack()
        self._count = 0

    @property
    def current_turn(self) -> int:
        """Return the number of the turn that is not recorded yet."""
        return self._count + 1

    def __enter__(self) -> "RecordedEpisode":
        self._appender = self._open.enter_context(self._journal.appending())
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def read(self) -> tuple[TurnResult, ...]:
        """Return the recorded turns."""
        results: list[TurnResult] = []
        for record in self._journal.read():
            result = result_from_record(record, self._canonical)
            self._canonical = result.canonical_memory
            results.append(result)
        self._count = len(results)
        return tuple(results)

    def append(self, result: TurnResult) -> None:
        """Record a turn."""
        turn = self._turns.get(result.query.turn_id)
        if turn is not None and self._driven:
            # The judge wrote the query, so the injected text of the scenario is not in it.
            turn = replace(turn, injected="")
        self._appender.append(record_from_result(result, turn, self._canonical))
        self._canonical = result.canonical_memory
        self._count += 1


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file with new content, or leave it unchanged and raise StorageFailed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _storage_error(path, error) from error


def _storage_error(path: Path, error: OSError) -> StorageFailed:
    return StorageFailed(f"cannot write {path}: {error.strerror or error}; earlier turns are safe")


def _differences(recorded: EvaluationConfig, requested: EvaluationConfig) -> list[str]:
    one, other = msgspec.to_builtins(recorded), msgspec.to_builtins(requested)
    return [
        f"{name}: {_abbreviate(one[name])} recorded, {_abbreviate(other[name])} requested"
        for name in one
        if one[name] != other[name]
    ]


def _abbreviate(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_abbreviate(item) for item in value) + "]"
    if isinstance(value, dict):
        if "digest" in value:
            place = value.get("reference", "")
            source = f", {place}" if place not in ("", value["id"]) else ""
            return f"{value['id']} ({value['digest'][:_DIGEST_LENGTH_SHOWN]}{source})"
        if "kind" in value:
            return f"{value['name']}={value['kind']}"
        return " ".join(f"{name}={item}" for name, item in value.items())
    return str(value)
