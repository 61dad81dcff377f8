"""Spreading jobs over processes that end with us.

Each worker talks over its own pipe. If we are killed, the pipe closes and the worker ends by
itself; a process pool would leave its workers waiting for ever.
"""

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from acc.domain.errors import AccError

_STOP = "stop"


class WorkerDied(AccError):
    """Report a worker process that ended before its job did."""

    code = "worker_died"


@dataclass(frozen=True, slots=True)
class WorkerFault:
    """An error of ours on its way from a worker, in a form that any pickle survives."""

    error_code: str
    text: str

    def as_error(self) -> AccError:
        """Return the error to raise here."""
        error = AccError(self.text)
        error.code = self.error_code
        return error


class WorkerSeat:
    """A worker's side of the pipe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._told_to_stop = False
        #: Whether the other side is gone, so that nobody hears what we tell.
        self._is_alone = False

    def jobs(self) -> Any:
        """Yield jobs until there are no more, or the other side is gone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            while not self._told_to_stop and (job := self._connection.recv()) != _STOP:
                yield job
        except (EOFError, OSError):
            return

    def tell(self, message: object) -> None:
        """Report progress or a result, if anyone listens."""
        try:
            self._connection.send(message)
        except OSError:
            self._is_alone = True

    def is_alone(self) -> bool:
        """Tell whether nobody listens any more."""
        try:
            while not self._is_alone and self._connection.poll():
                self._told_to_stop |= self._connection.recv() == _STOP
        except (EOFError, OSError):
            self._is_alone = True
        return self._is_alone

    def should_stop(self) -> bool:
        """Tell whether we were asked to stop, or nobody is listening any more."""
        return self.is_alone() or self._told_to_stop


class WorkerPool:
    """Runs `entry(seat, *arguments)` in several processes and hands out jobs."""

    def __init__(
        self,
        entry: Callable[..., None],
        arguments: tuple[object, ...],
        *,
        workers: int,
        preload: tuple[str, ...] = (),
    ) -> None:
        """Start the workers; modules in `preload` are imported once and shared by all."""
        # Workers are forked from a clean process that has the preloaded modules in memory already.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(preload))
        self._seats: dict[Connection, BaseProcess] = {}
        self._halted = False
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=entry, args=(theirs, *arguments), daemon=True)
            process.start()
            theirs.close()
            self._seats[ours] = process

    def run(self, jobs: Sequence[object], on_message: Callable[[Any], bool]) -> None:
        """Work off the jobs; `on_message` returns whether a message ends its job."""
        waiting = list(jobs)
        busy: set[Connection] = set()
        for connection in list(self._seats)[: len(waiting)]:
            connection.send(waiting.pop(0))
            busy.add(connection)
        while busy:
            for ready in wait(list(busy)):
                connection = next(seat for seat in busy if seat is ready)
                try:
                    message = connection.recv()
                except (EOFError, OSError):
                    code = self._exit_code(connection)
                    raise WorkerDied(
                        f"a worker process ended early (exit status {code}); what it recorded is "
                        "safe: repeat the command to continue"
                    ) from None
                if not on_message(message):
                    continue
                busy.discard(connection)
                if waiting and not self._halted:
                    connection.send(waiting.pop(0))
                    busy.add(connection)

    def halt(self) -> None:
        """Hand out no more jobs, and ask the workers to stop after their turn."""
        if not self._halted:
            self._halted = True
            self._tell_all()

    def _tell_all(self) -> None:
        for connection in self._seats:
            with suppress(OSError):
                connection.send(_STOP)

    def _exit_code(self, connection: Connection) -> int | None:
        process = self._seats[connection]
        process.join(timeout=5)
        return process.exitcode

    def stop(self, *, patience: float = 5.0) -> None:
        """Ask the workers to stop after their turn, then end those that do not."""
        self._tell_all()
        # All of them may stand in line for a model, and nobody is to wait for one after the other.
        until = time.monotonic() + patience
        for process in self._seats.values():
            process.join(timeout=max(0.0, until - time.monotonic()))
        for process in self._seats.values():
            if process.is_alive():
                process.terminate()
                process.join(timeout=patience)
        for connection in self._seats:
            connection.close()


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C, so that whoever ends us loses no more than a person would."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)
