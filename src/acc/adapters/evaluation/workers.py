"""Worker processes for episodes.

Each worker has its own pipe. If the parent is killed, the pipe closes and the worker exits; the
workers of a process pool would wait forever.
"""

import gc
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from acc.adapters.evaluation.watched_agent import AgentBeat, AgentWatch, WatchedJob
from acc.application.evaluation.episode import EpisodeRunner
from acc.domain.cost import ModelCall
from acc.domain.errors import AccError
from acc.domain.value_objects.evaluation_run import EpisodeEnd, EpisodeJob, TurnCompleted
from acc.domain.value_objects.live_evaluation import PROCESS_ERROR, TIMEOUT_ERROR, TurnResult
from acc.ports.outbound.live_evaluation_ports import EpisodeEvent

_STOP = "stop"
SHUTDOWN_GRACE_SECONDS = 5.0
#: Time after the timeout of agents in which a worker must report that its event loop runs.
BLOCKED_GRACE_SECONDS = 5.0
_CHECK_SECONDS = 1.0


class WorkerFailed(AccError):
    """An error of a worker process, with its code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class _WorkerFailure:
    """An error of a worker in a form that can be pickled."""

    code: str
    message: str


@dataclass(slots=True)
class _Work:
    """What a worker does: its job, and the turns of the agent trees that are running."""

    watched: WatchedJob
    running: dict[str, int]
    last_beat: float
    turns: int
    is_blocked: bool = False

    def note(self, beat: AgentBeat) -> None:
        """Remember what a worker reported."""
        self.last_beat = time.monotonic()
        if beat.is_running:
            self.running[beat.agent] = beat.turn
        else:
            self.running.pop(beat.agent, None)

    def after_failure(self, error: str) -> WatchedJob | None:
        """Return the job for the next worker; None if no agent tree caused the failure."""
        if len(self.running) > 1:
            return replace(self.watched, one_by_one=True)
        for agent, turn in self.running.items():
            if (agent, turn) not in self.watched.failures:
                return self.watched.failed(agent, turn, error)
        return None


class WorkerChannel:
    """The worker's end of the pipe: jobs in, events out."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._watched: WatchedJob | None = None
        self._stop_requested = False
        self._disconnected = False

    def jobs(self) -> Iterator[EpisodeJob]:
        """Yield jobs until the parent sends no more or is gone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            while not self._stop_requested and (job := self._connection.recv()) != _STOP:
                self._watched = job
                yield job.job
        except (EOFError, OSError):
            return

    def watch(self) -> AgentWatch | None:
        """Return the watch over the agent trees of the present episode."""
        return None if self._watched is None else AgentWatch(self._watched, self.send)

    def send(self, message: object) -> None:
        """Send an event to the parent, if it still exists."""
        try:
            self._connection.send(message)
        except OSError:
            self._disconnected = True

    def record(self, call: ModelCall) -> None:
        """Send a model call to the parent."""
        self.send(call)

    @property
    def disconnected(self) -> bool:
        """Return True if the parent process is gone."""
        try:
            while not self._disconnected and self._connection.poll():
                self._stop_requested |= self._connection.recv() == _STOP
        except (EOFError, OSError):
            self._disconnected = True
        return self._disconnected

    @property
    def stop_requested(self) -> bool:
        """Return True if the parent asked to stop or is gone."""
        return self.disconnected or self._stop_requested


def serve_episodes(channel: WorkerChannel, new_runner: Callable[[], EpisodeRunner]) -> None:
    """Run jobs of the parent until there are no more; called in a worker process."""
    # Few objects are cyclic, so collecting them less often saves time.
    gc.set_threshold(50_000, 20, 20)
    sys.stdout = sys.stderr  # the output of agents is not the output of the command
    try:
        runner = new_runner()
        for job in channel.jobs():
            for event in runner.events(job, channel):
                if isinstance(event, TurnCompleted):
                    channel.send(replace(event, turn=_progress_only(event.turn)))
                    continue
                channel.send(event)
                if event.stopped or event.aborted:
                    return
    except AccError as error:
        channel.send(_WorkerFailure(error.code, str(error)))


def _progress_only(turn: TurnResult) -> TurnResult:
    """Return a turn without the parts that progress does not show."""
    return replace(
        turn,
        responses=(),
        canonical_memory={},
        records=tuple(
            replace(
                record,
                hallucination=replace(record.hallucination, claims=())
                if record.hallucination
                else None,
                drift=replace(record.drift, findings=(), carried=()) if record.drift else None,
            )
            for record in turn.records
        ),
    )


class WorkerPool:
    """Runs episodes in several processes; implements EpisodeExecutorPort."""

    def __init__(
        self,
        entry: Callable[..., None],
        arguments: tuple[object, ...],
        *,
        workers: int,
        preload: tuple[str, ...] = (),
        agent_timeout: float | None = None,
    ) -> None:
        """Prepare workers that call `entry(connection, *arguments)`.

        Modules in `preload` are imported once, and their memory is shared by all workers. An agent
        tree that blocks its worker longer than `agent_timeout` is ended with the worker.
        """
        self._agent_timeout = agent_timeout
        self._entry = entry
        self._arguments = arguments
        self._workers = workers
        self._preload = preload
        self._processes: dict[Connection, BaseProcess] = {}
        self._stopped = False

    def run(self, jobs: Sequence[EpisodeJob]) -> Generator[EpisodeEvent, None, None]:
        """Start the workers, distribute the jobs and yield the events."""
        try:
            self._start(min(self._workers, len(jobs)))
            yield from self._events(list(jobs))
        finally:
            self._shut_down()

    def stop(self) -> None:
        """Distribute no more jobs, and ask the workers to stop after their turn."""
        if not self._stopped:
            self._stopped = True
            self._send_stop()

    def _start(self, count: int) -> None:
        # Workers are forked from a clean process that has imported the preloaded modules.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(self._preload))
        for _ in range(count):
            own_end, worker_end = context.Pipe()
            process = context.Process(
                target=self._entry, args=(worker_end, *self._arguments), daemon=True
            )
            process.start()
            worker_end.close()
            self._processes[own_end] = process

    def _events(self, waiting: list[EpisodeJob]) -> Iterator[EpisodeEvent]:
        busy: dict[Connection, _Work] = {}
        for connection in list(self._processes):
            busy[connection] = _give(connection, WatchedJob(job=waiting.pop(0)))
        while busy:
            for ready in wait(list(busy), timeout=_CHECK_SECONDS):
                connection = next(one for one in busy if one is ready)
                event = self._next_event(connection, busy)
                if event is not None:
                    yield event
                if not isinstance(event, EpisodeEnd):
                    continue
                del busy[connection]
                if waiting and not self._stopped:
                    if connection not in self._processes:
                        connection = self._start_one()
                    busy[connection] = _give(connection, WatchedJob(job=waiting.pop(0)))
            self._kill_blocked(busy)

    def _next_event(
        self, connection: Connection, busy: dict[Connection, _Work]
    ) -> EpisodeEvent | None:
        """Return the next event of a worker; None if there is no news for the caller.

        A worker that an agent tree ended is replaced; without such a cause its episode ends.
        """
        work = busy[connection]
        message = self._receive(connection)
        if isinstance(message, AgentBeat):
            work.note(message)
            return None
        if message is not None:
            if isinstance(message, TurnCompleted):
                work.turns = message.turn.query.turn_id
            return message
        status = self._bury(connection)
        again = work.after_failure(self._tree_error(work, status))
        if again is None or self._stopped:
            return _lost(work, status)
        del busy[connection]
        replacement = self._start_one()
        busy[replacement] = _give(replacement, again, turns=work.turns)
        return None

    def _start_one(self) -> Connection:
        self._start(1)
        return next(reversed(self._processes))

    def _kill_blocked(self, busy: Mapping[Connection, _Work]) -> None:
        """Kill the workers whose event loop an agent tree blocks."""
        if self._agent_timeout is None:
            return
        oldest = time.monotonic() - self._agent_timeout - BLOCKED_GRACE_SECONDS
        for connection, work in busy.items():
            if work.running and work.last_beat < oldest and not connection.poll():
                work.is_blocked = True
                self._processes[connection].kill()

    def _tree_error(self, work: _Work, status: int | None) -> str:
        if work.is_blocked:
            return f"{TIMEOUT_ERROR} {self._agent_timeout} s, and the agent blocked its process"
        return f"{PROCESS_ERROR} {status}"

    def _receive(self, connection: Connection) -> EpisodeEvent | AgentBeat | None:
        """Return the next message of a worker, or None if its process ended."""
        try:
            message: EpisodeEvent | AgentBeat | _WorkerFailure = connection.recv()
        except (EOFError, OSError):
            return None
        if isinstance(message, _WorkerFailure):
            raise WorkerFailed(message.code, message.message)
        return message

    def _bury(self, connection: Connection) -> int | None:
        """Return the exit status of a worker that died."""
        process = self._processes.pop(connection)
        process.join(timeout=SHUTDOWN_GRACE_SECONDS)
        connection.close()
        return process.exitcode

    def _send_stop(self) -> None:
        for connection in self._processes:
            with suppress(OSError):
                connection.send(_STOP)

    def _shut_down(self) -> None:
        """Ask the workers to stop after their turn, then terminate those that do not."""
        self._send_stop()
        # One deadline for all: every worker may be waiting for a model.
        deadline = time.monotonic() + SHUTDOWN_GRACE_SECONDS
        for process in self._processes.values():
            process.join(timeout=max(0.0, deadline - time.monotonic()))
        for process in self._processes.values():
            if process.is_alive():
                process.terminate()
                process.join(timeout=SHUTDOWN_GRACE_SECONDS)
        for connection in self._processes:
            connection.close()
        self._processes.clear()


def _give(connection: Connection, watched: WatchedJob, *, turns: int = 0) -> _Work:
    """Send a job to a worker."""
    connection.send(watched)
    return _Work(watched=watched, running={}, last_beat=time.monotonic(), turns=turns)


def _lost(work: _Work, status: int | None) -> EpisodeEnd:
    """Return the end of the episode of a worker that died; others continue."""
    return EpisodeEnd(
        job=work.watched.job,
        turns=work.turns,
        error=f"its worker process ended with exit status {status}; recorded turns "
        "are safe: repeat the command to continue",
    )
