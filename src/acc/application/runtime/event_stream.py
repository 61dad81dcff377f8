"""The events of a run as an iterator."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any, Generic, TypedDict, TypeVar

from acc.application.agents.base import BaseAgent
from acc.application.agents.output import OutputAssembler, PartialOutput
from acc.application.runtime.background_loop import run_in_background
from acc.application.runtime.call_guards import explains_options, explains_wrong_iteration
from acc.application.runtime.inputs import Message
from acc.application.runtime.result import RunResult
from acc.application.runtime.sessions import SessionReader
from acc.application.runtime.type_variables import AnyDepsT, AnyOutputT, GenericDefaults
from acc.domain.value_objects.approval import InputAnswer
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.run import CallContext, RunConfig
from acc.domain.value_objects.session import DEFAULT_SESSION_ID, DEFAULT_USER_ID

ResultT = TypeVar("ResultT")
_QUEUE_SIZE = 256


class TurnOptions(TypedDict):
    """The options of a turn and of a resumed run."""

    user_id: str
    session_id: str
    config: RunConfig | None
    context: CallContext | None
    deps: Any


async def stream_run(
    start: Callable[..., Coroutine[Any, Any, ResultT]],
) -> AsyncGenerator[Event | ResultT, None]:
    """Yield the events of a run as they happen, then its result.

    `start` gets the argument `observer`. Closing the iterator cancels the run.
    """
    queue = _EventQueue()

    async def produce() -> ResultT:
        try:
            return await start(observer=queue)
        finally:
            queue.end()

    # Not a task group: yielding inside one breaks cancellation (PEP 789). The generator owns the
    # task and ends after it.
    task = asyncio.get_running_loop().create_task(produce())
    task.add_done_callback(queue.wake)
    try:
        while not (task.done() and queue.is_empty):
            event = await queue.get()
            if event is not None:
                yield event
        yield await task
    finally:
        queue.close()
        await _cancel_and_wait(task)


class _EventQueue:
    """Observer that passes events to the iterator of `stream`, which may stop reading."""

    wants_deltas = True

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue(_QUEUE_SIZE)
        self._is_closed = False

    @property
    def is_empty(self) -> bool:
        """Return True if no event waits to be read."""
        return self._queue.empty()

    async def on_event(self, event: Event) -> None:
        """Wait until there is room for an event."""
        if not self._is_closed:
            await self._queue.put(event)

    async def get(self) -> Event | None:
        """Return the next event, None if the run has ended."""
        return await self._queue.get()

    def wake(self, _: object) -> None:
        """Wake a reader that waits for an event; a full queue needs no wake-up."""
        if not self._queue.full():
            self._queue.put_nowait(None)

    def end(self) -> None:
        """Drop all events from now on; queued ones can still be read."""
        self._is_closed = True

    def close(self) -> None:
        """Drop all events, including queued ones."""
        self._is_closed = True
        while not self._queue.empty():
            self._queue.get_nowait()


async def _cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancel a task that is still running, and wait until it has ended."""
    task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error  # raised after the task has ended, because we own it
    if cancelled is not None:
        raise cancelled


class RunStreams(SessionReader, GenericDefaults, Generic[AnyDepsT, AnyOutputT]):
    """Turns and resumed runs as iterators."""

    agent: BaseAgent[AnyDepsT, AnyOutputT]

    @explains_wrong_iteration
    async def stream(
        self,
        message: Message | None = None,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        answers: InputAnswer | Iterable[InputAnswer] = (),
        config: RunConfig | None = None,
        context: CallContext | None = None,
        deps: AnyDepsT | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of a turn, or of a resumed run, as they happen.

        Every event that is not partial is stored before it is yielded. Closing the iterator cancels
        the run.
        """
        options = TurnOptions(
            user_id=user_id, session_id=session_id, config=config, context=context, deps=deps
        )
        start = self._turn_method(message, answers, options)
        async with aclosing(stream_run(start)) as stream:
            async for item in stream:
                if isinstance(item, Event):
                    yield item

    @explains_wrong_iteration
    async def stream_output(
        self,
        message: Message | None = None,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        answers: InputAnswer | Iterable[InputAnswer] = (),
        config: RunConfig | None = None,
        context: CallContext | None = None,
        deps: AnyDepsT | None = None,
    ) -> AsyncGenerator[PartialOutput[AnyOutputT], None]:
        """Yield the output of a turn, or of a resumed run, while it is generated.

        The last partial output has the result of the run. Those before it may still be rejected;
        `attempt` increases if the model has to answer again. Closing the iterator cancels the run.
        """
        options = TurnOptions(
            user_id=user_id, session_id=session_id, config=config, context=context, deps=deps
        )
        start = self._turn_method(message, answers, options)
        assembler = OutputAssembler[AnyOutputT](self.agent)
        async with aclosing(stream_run(start)) as stream:
            async for item in stream:
                update = assembler.update(item)
                if update is not None:
                    yield update

    @explains_options
    def resume_sync(
        self,
        answers: InputAnswer | Iterable[InputAnswer] = (),
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        config: RunConfig | None = None,
        context: CallContext | None = None,
        deps: AnyDepsT | None = None,
    ) -> RunResult[AnyOutputT]:
        """Continue a run as `resume` does, without `await`."""
        options = TurnOptions(
            user_id=user_id, session_id=session_id, config=config, context=context, deps=deps
        )
        start = self._turn_method(None, answers, options)
        return run_in_background(start(), instead="await runner.resume(...)")

    @abstractmethod
    def _turn_method(
        self,
        message: Message | None,
        answers: InputAnswer | Iterable[InputAnswer],
        options: TurnOptions,
    ) -> Callable[..., Coroutine[Any, Any, RunResult[AnyOutputT]]]:
        """Return `run` if there is a message, else `resume`, with their arguments."""
