"""Runs that the console starts: they continue without a page."""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from acc.application.console.active_steps import RunSteps
from acc.application.console.served_tasks import ServedTasks
from acc.application.runtime.inputs import Message
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import AccError, SessionBusy
from acc.domain.value_objects.approval import InputAnswer
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.storage_ports import TaskSummary

log = logging.getLogger("acc.console")


class Draft(NamedTuple):
    """Text that a model is generating; `number` changes when it starts again."""

    number: int
    author: str
    text: str


class LiveRun:
    """Observes one run in this process."""

    wants_deltas = True

    def __init__(self, runs: "LiveRuns") -> None:
        self._runs = runs
        self.draft = Draft(0, "", "")
        self.steps = RunSteps()
        #: Set once the first event is stored; has the error if the run fails before.
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None

    async def on_event(self, event: Event) -> None:
        """Collect streamed text, which a stored event replaces, and the active steps."""
        self.steps.add(event)
        number, author, text = self.draft
        if event.kind is EventKind.DELTA:
            if event.branch:
                return  # branches write at the same time
            if author != event.author:
                number, text = number + 1, ""
            self.draft = Draft(number, event.author, text + event.text)
        elif not event.partial:
            self.draft = Draft(number + 1, "", "")
            if not self.started.done():
                self.started.set_result(None)
        self._runs.notify()


class LiveRuns:
    """The runs of this process by session, at most one each."""

    def __init__(self, served: ServedTasks) -> None:
        self._served = served
        self._runs: dict[SessionKey, LiveRun] = {}
        self._group: asyncio.TaskGroup | None = None
        self._changed = asyncio.Event()

    def open(self, group: asyncio.TaskGroup) -> None:
        """Accept runs, which are tasks of the group."""
        self._group = group

    async def close(self, *, grace: float) -> None:
        """Accept no more runs, wait for those that run, then cancel them."""
        self._group = None
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for task in tasks:
            task.cancel()
        self.notify()

    @property
    def is_open(self) -> bool:
        """Return True while runs are accepted."""
        return self._group is not None

    @property
    def changed(self) -> asyncio.Event:
        """Return an event that the next change of any run sets."""
        return self._changed

    def notify(self) -> None:
        """Wake everyone who waits for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    def get(self, key: SessionKey) -> LiveRun | None:
        """Return the run of a session in this process."""
        return self._runs.get(key)

    def steps_of(self, key: SessionKey) -> RunSteps | None:
        """Return the steps of the run of a session in this process, None if it has none."""
        run = self._runs.get(key)
        return None if run is None else run.steps

    async def start(
        self,
        runner: SessionRunner,
        key: SessionKey,
        *,
        message: Message | None = None,
        answers: Sequence[InputAnswer] = (),
    ) -> None:
        """Start a turn, or resume a run, and return once its first event is stored.

        An error before that event is raised. SessionBusy if this process runs the session.
        """
        if self._group is None:
            raise SessionBusy("the console is stopping; try again when it runs again")
        if key in self._runs:
            raise SessionBusy(
                f"session {key.session_id!r} has a run; wait until it ends, or stop it"
            )
        run = self._runs[key] = LiveRun(self)
        run.task = self._group.create_task(self._execute(run, runner, key, message, answers))
        await asyncio.shield(run.started)

    def _renew(self, task: TaskSummary) -> "asyncio.Task[None]":
        """Keep the lease of a task while the caller works on it."""
        if self._group is None:
            raise SessionBusy("the console is stopping; try again when it runs again")
        return self._group.create_task(self._served.renew(task))

    async def abandon(self, runner: SessionRunner, key: SessionKey) -> None:
        """Cancel a run that waits for an answer, and its task."""
        task = await self._served.waiting_task(key)
        await runner.abandon(user_id=key.user_id, session_id=key.session_id)
        if task is not None:
            await self._served.cancel(task, at=runner.services.clock.now())
        self.notify()

    def stop(self, key: SessionKey) -> bool:
        """Cancel the run of a session; return False if this process has none."""
        run = self._runs.get(key)
        if run is None or run.task is None:
            return False
        return run.task.cancel()

    async def _execute(
        self,
        run: LiveRun,
        runner: SessionRunner,
        key: SessionKey,
        message: Message | None,
        answers: Sequence[InputAnswer],
    ) -> None:
        user_id, session_id = key.user_id, key.session_id
        failure: Exception = SessionBusy(f"the run of session {session_id!r} was canceled")
        try:
            if message is not None:
                await runner.run(message, user_id=user_id, session_id=session_id, observer=run)
            elif (task := await self._served.waiting_task(key)) is not None:
                renewal = self._renew(task)
                try:
                    await self._served.resume(task, runner, key, answers, run)
                finally:
                    renewal.cancel()
            else:
                await runner.resume(answers, user_id=user_id, session_id=session_id, observer=run)
        except AccError as error:
            failure = error  # recorded in the session if the run had begun
        except Exception as error:  # a process boundary: code of users
            log.exception("the run of session %s failed", session_id)
            failure = AccError(f"the run failed: {type(error).__name__}; see the log")
        finally:
            del self._runs[key]
            if not run.started.done():
                run.started.set_exception(failure)
                run.started.exception()  # nobody may wait for it
            self.notify()
