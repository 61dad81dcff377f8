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
#: A worker is killed if it sends no beat during the timeout of agents and this additional time.
BLOCKED_GRACE_SECONDS = 5.0
#: Longest time between two searches for blocked workers.
_CHECK_SECONDS = 1.0


class WorkerFailed(AccError):
    """An error of a worker process, with its code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class _PickledError:
    """The code and message of an AccError in a worker; not every AccError can be pickled."""

    code: str
    message: str


@dataclass(slots=True)
class _Assignment:
    """The job of a busy worker, and what the worker has reported about it."""

    watched: WatchedJob
    #: The turn that each agent tree is in, by agent; only trees that are in a turn.
    running: dict[str, int]
    last_beat: float
    #: Number of completed turns of the episode.
    turns: int
    #: True if the pool killed the worker because an agent tree blocked its event loop.
    is_blocked: bool = False

    def record_beat(self, beat: AgentBeat) -> None:
        """Update the running trees from a report of the worker."""
        self.last_beat = time.monotonic()
        if beat.is_running:
            self.running[beat.agent] = beat.turn
        else:
            self.running.pop(beat.agent, None)

    def job_after_failure(self, error: str) -> WatchedJob | None:
        """Return the job with which another worker continues the episode, or None.

        - One tree was running: it caused the failure, so its turn fails with the error.
        - Several trees were running: the turn is repeated, one tree at a time, to find the cause.
        - No tree was running, or its turn has failed before: None, the cause is unknown.
        """
        if len(self.running) > 1:
            return replace(self.watched, one_by_one=True)
        for agent, turn in self.running.items():
            if (agent, turn) not in self.watched.failures:
                return self.watched.with_failure(agent, turn, error)
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
        """Return the watch of the current episode, None before the first job."""
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
    # Few objects are in reference cycles, so a rarer garbage collection saves time.
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
        channel.send(_PickledError(error.code, str(error)))


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

        Modules in `preload` are imported once, and their memory is shared by all workers. If an
        agent tree blocks the event loop of its worker longer than `agent_timeout`, the worker is
        killed. None means no limit.
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
        busy: dict[Connection, _Assignment] = {}
        for connection in list(self._processes):
            busy[connection] = _assign(connection, WatchedJob(job=waiting.pop(0)))
        while busy:
            for ready in wait(list(busy), timeout=_CHECK_SECONDS):
                # `wait` is typed to return other objects too.
                connection = next(candidate for candidate in busy if candidate is ready)
                event = self._next_event(connection, busy)
                if event is not None:
                    yield event
                if not isinstance(event, EpisodeEnd):
                    continue
                del busy[connection]
                if waiting and not self._stopped:
                    if connection not in self._processes:  # the worker died
                        connection = self._start_one()
                    busy[connection] = _assign(connection, WatchedJob(job=waiting.pop(0)))
            self._kill_blocked(busy)

    def _next_event(
        self, connection: Connection, busy: dict[Connection, _Assignment]
    ) -> EpisodeEvent | None:
        """Return the next event of a worker; None if the caller gets no event.

        If the worker has died because of an agent tree, another worker continues its episode.
        Otherwise the death of the worker is the end of the episode.
        """
        assignment = busy[connection]
        message = self._receive(connection)
        if isinstance(message, AgentBeat):
            assignment.record_beat(message)
            return None
        if message is not None:
            if isinstance(message, TurnCompleted):
                assignment.turns = message.turn.query.turn_id
            return message
        exit_status = self._remove_dead(connection)
        next_job = assignment.job_after_failure(self._turn_error(assignment, exit_status))
        if next_job is None or self._stopped:
            return _end_after_death(assignment, exit_status)
        del busy[connection]
        replacement = self._start_one()
        busy[replacement] = _assign(replacement, next_job, turns=assignment.turns)
        return None

    def _start_one(self) -> Connection:
        self._start(1)
        return next(reversed(self._processes))  # the process that was added last

    def _kill_blocked(self, busy: Mapping[Connection, _Assignment]) -> None:
        """Kill the workers whose event loop an agent tree blocks."""
        if self._agent_timeout is None:
            return
        oldest_allowed = time.monotonic() - self._agent_timeout - BLOCKED_GRACE_SECONDS
        for connection, assignment in busy.items():
            is_overdue = assignment.running and assignment.last_beat < oldest_allowed
            # A message that is not read yet may be a beat.
            if is_overdue and not connection.poll():
                assignment.is_blocked = True
                self._processes[connection].kill()

    def _turn_error(self, assignment: _Assignment, exit_status: int | None) -> str:
        """Return the error of the turn that ended a worker."""
        if assignment.is_blocked:
            return f"{TIMEOUT_ERROR} {self._agent_timeout} s, and the agent blocked its process"
        return f"{PROCESS_ERROR} {exit_status}"

    def _receive(self, connection: Connection) -> EpisodeEvent | AgentBeat | None:
        """Return the next message of a worker, or None if its process ended."""
        try:
            message: EpisodeEvent | AgentBeat | _PickledError = connection.recv()
        except (EOFError, OSError):
            return None
        if isinstance(message, _PickledError):
            raise WorkerFailed(message.code, message.message)
        return message

    def _remove_dead(self, connection: Connection) -> int | None:
        """Remove a worker that has died; return its exit status."""
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


def _assign(connection: Connection, watched: WatchedJob, *, turns: int = 0) -> _Assignment:
    """Send a job to a worker."""
    connection.send(watched)
    return _Assignment(watched=watched, running={}, last_beat=time.monotonic(), turns=turns)


def _end_after_death(assignment: _Assignment, exit_status: int | None) -> EpisodeEnd:
    """Return the end of the episode of a worker that died; other episodes continue."""
    return EpisodeEnd(
        job=assignment.watched.job,
        turns=assignment.turns,
        error=f"its worker process ended with exit status {exit_status}; recorded turns "
        "are safe: repeat the command to continue",
    )
