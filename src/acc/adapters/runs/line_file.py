"""A file of lines that only grows: a process that is killed tears at most the last one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from acc.domain.errors import RunDamaged, StorageFailed

T = TypeVar("T")


class LineFile(Generic[T]):
    """Reads and appends lines; a torn last one counts as not written."""

    def __init__(
        self, path: Path, *, encode: Callable[[T], bytes], decode: Callable[[bytes], T]
    ) -> None:
        self.path = path
        self._encode = encode
        self._decode = decode

    def read(self) -> list[T]:
        """Return what is on record."""
        return self._read()[0]

    def fault_of(self, line: T, number: int) -> str:
        """Return what is wrong with a line in its place, nothing if it is right."""
        return ""

    @contextmanager
    def appending(self) -> Iterator["Appender[T]"]:
        """Open for more lines; the file is made, and a torn line cut off, by the first of them."""
        appender = Appender(self._opened, self._encode, self.path)
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
        lines: list[T] = []
        position = 0
        for number, raw in enumerate(data.splitlines(keepends=True), 1):
            if not raw.endswith(b"\n"):
                break
            try:
                line = self._decode(raw)
            except msgspec.MsgspecError as error:
                raise RunDamaged(f"{self.path} line {number}: {error}") from error
            if fault := self.fault_of(line, number):
                raise RunDamaged(f"{self.path} line {number}: {fault}")
            lines.append(line)
            position += len(raw)
        return lines, position

    def _opened(self) -> int:
        _, end = self._read()
        try:
            self.path.parent.mkdir(exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(handle, end)
        except OSError as error:
            raise storage_failed(self.path, error) from error
        return handle


class Appender(Generic[T]):
    """Writes lines to the end of a file."""

    def __init__(self, opened: Callable[[], int], encode: Callable[[T], bytes], path: Path) -> None:
        self._opened = opened
        self._encode = encode
        self._path = path
        self._handle: int | None = None

    def open(self) -> int:
        """Return the file's handle, which `append` would open too."""
        if self._handle is None:
            self._handle = self._opened()
        return self._handle

    def append(self, line: T) -> None:
        """Write one line, or leave the file as it was and raise."""
        handle = self.open()
        data = self._encode(line)
        end = os.fstat(handle).st_size
        try:
            written = os.write(handle, data)
        except OSError as error:
            os.ftruncate(handle, end)
            raise storage_failed(self._path, error) from error
        if written < len(data):
            os.ftruncate(handle, end)
            raise StorageFailed(
                f"cannot write {self._path}: the disk is full; earlier turns are safe"
            )

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise storage_failed(path, error) from error


def storage_failed(path: Path, error: OSError) -> StorageFailed:
    """Return an error of the disk in our words."""
    return StorageFailed(f"cannot write {path}: {error.strerror or error}; earlier turns are safe")
