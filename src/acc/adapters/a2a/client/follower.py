"""Following a remote task through streams, reconnects and polls."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Protocol, TypeVar

from acc.adapters.a2a.client.transport import (
    MAX_RETRY_AFTER_SECONDS,
    CallFailed,
    StreamEvent,
    Transport,
    Unreachable,
)
from acc.adapters.a2a.wire.protocol import Operation, StreamResponse
from acc.adapters.http.retry import RetryPolicy
from acc.application.a2a.requests import GetRequest, SendRequest, TaskRequest
from acc.domain.errors import (
    AccError,
    AddressRefused,
    RemoteFailed,
    UnsupportedOperation,
    VersionNotSupported,
)
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, text_of
from acc.domain.value_objects.task import (
    INTERRUPTED,
    TERMINAL,
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskBuilder,
    TaskEvent,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.remote_ports import OnUpdate

T = TypeVar("T")
#: A stream without any event or comment for this time counts as lost.
STREAM_IDLE_SECONDS = 90.0
FIRST_RETRY_SECONDS = 0.2
MAX_RETRY_SECONDS = 10.0
_CALL_TIMEOUT_SECONDS = 30.0
_BLOCKING_CALL_TIMEOUT_SECONDS = 24 * 3600.0
_FIRST_POLL_SECONDS = 0.2
_MAX_POLL_SECONDS = 5.0
#: Notifications can be lost; with push, the task is polled at this interval nevertheless.
_PUSH_POLL_SECONDS = 60.0
#: How many messages are requested to find the answer of a task that contains none.
_ANSWER_HISTORY_LENGTH = 20
_NEXT_INTERFACE = (Unreachable, AddressRefused, VersionNotSupported)
_SETTLED = TERMINAL | INTERRUPTED


class WaitForNotification(Protocol):
    """Waits for a notification about a task."""

    async def __call__(self, task_id: str, seconds: float, /) -> None:
        """Return when a notification arrived, or after `seconds`."""
        ...


class TaskAssembler:
    """Assembles a remote task from its updates, and passes on what is new."""

    def __init__(self, on_update: OnUpdate | None = None, known: Task | None = None) -> None:
        self._on_update = on_update
        self._known = known
        self._builder: TaskBuilder | None = None
        self.reply: Message | None = None
        #: The last message of a status, except questions.
        self.last_message: Message | None = None
        #: True after a status; a complete task may predate the sent message.
        self._has_new_status = False
        self.item_count = 0

    @property
    def task(self) -> Task | None:
        """Return the task with its current status; `result` has its artifacts too."""
        return None if self._builder is None else self._builder.head

    def start_from(self, task: Task) -> TaskBuilder:
        """Continue from a known task without passing on its updates."""
        self._builder = TaskBuilder(task)
        return self._builder

    @property
    def is_settled(self) -> bool:
        """Return True if there is a reply, or the task ended or needs input."""
        return self.reply is not None or (self.task is not None and self.task.state in _SETTLED)

    @property
    def is_complete(self) -> bool:
        """Return True if no further item of a stream is expected.

        A snapshot at the beginning of a stream can show that the task needs input because our
        message has not been processed yet.
        """
        if not self.is_settled:
            return False
        is_terminal = self.task is None or self.task.is_terminal
        return self.reply is not None or is_terminal or self._has_new_status

    @property
    def result(self) -> Task | Message:
        """Return the reply or the assembled task."""
        return self.assembled_task if self.reply is None else self.reply

    @property
    def assembled_task(self) -> Task:
        """Return the task with its artifacts and history."""
        if self._builder is None:
            raise RemoteFailed("the remote agent sent no response")
        return self._builder.build()

    async def add(self, streamed: StreamResponse) -> None:
        """Add an item and pass on its updates."""
        self.item_count += 1
        item = streamed.item
        self._has_new_status |= isinstance(item, StatusUpdate | Message)
        if isinstance(item, Message):
            if self._builder is not None:
                status = replace(self._builder.head.status, message=item)
                await self._apply(self._builder, StatusUpdate(status=status))
            elif item.parts:
                self.reply = item
            else:
                raise RemoteFailed(
                    "the remote agent sent an invalid response: a message without parts",
                    remote_code="invalid_agent_response",
                )
            return
        if not streamed.task_id and self.task is None:
            raise RemoteFailed("the remote agent sent an update without a task id")
        if self.task is not None and streamed.task_id not in ("", self.task.id):
            raise RemoteFailed("the remote agent sent an update of a different task")
        builder = self._builder or self.start_from(
            self._known
            or Task(
                id=streamed.task_id,
                context_id=streamed.context_id,
                status=TaskStatus(state=TaskState.SUBMITTED),
            )
        )
        if not isinstance(item, Task):
            await self._apply(builder, item)
            return
        for update in differences(builder.build(), item):
            await self._apply(builder, update)
        self.start_from(item)

    async def _apply(self, builder: TaskBuilder, update: StatusUpdate | ArtifactUpdate) -> None:
        builder.add(TaskEvent(builder.head.seq + 1, update))
        if isinstance(update, StatusUpdate) and update.status.state not in INTERRUPTED:
            self.last_message = update.status.message or self.last_message
        if self._on_update is not None:
            await self._on_update(builder.head, update)


def differences(before: Task, after: Task) -> Iterator[StatusUpdate | ArtifactUpdate]:
    """Yield the updates that turn an earlier snapshot of a task into a later one."""
    earlier = {artifact.artifact_id: artifact for artifact in before.artifacts}
    for artifact in after.artifacts:
        known = earlier.get(artifact.artifact_id)
        if known is None:
            yield ArtifactUpdate(artifact=artifact, last_chunk=True)
        elif not _equal_parts(known.parts, artifact.parts):
            added = _added_parts(known.parts, artifact.parts)
            if added is None:
                yield ArtifactUpdate(artifact=artifact, last_chunk=True)
            else:
                yield ArtifactUpdate(artifact=replace(artifact, parts=added), append=True)
    message = after.status.message
    is_new_message = message is not None and message != before.status.message
    if before.state is not after.state or is_new_message or before.metadata != after.metadata:
        yield StatusUpdate(status=after.status, metadata=after.metadata)


def _equal_parts(before: tuple[Part, ...], after: tuple[Part, ...]) -> bool:
    if before == after:
        return True
    return all(map(_is_text, (*before, *after))) and text_of(before) == text_of(after)


def _added_parts(before: tuple[Part, ...], after: tuple[Part, ...]) -> tuple[Part, ...] | None:
    """Return the parts that were appended, or None if the earlier parts changed."""
    if after[: len(before)] == before:
        return after[len(before) :]
    # Chunks of a text may be merged into one part on one side and not on the other.
    if all(map(_is_text, (*before, *after))):
        text_before, text_after = text_of(before), text_of(after)
        if text_after.startswith(text_before) and text_after != text_before:
            return (replace(after[-1], text=text_after[len(text_before) :]),)
    return None


def _is_text(part: Part) -> bool:
    return part.text is not None and not part.filename and not part.metadata


class TaskFollower:
    """Follows one task over the interfaces of an agent, in order of preference."""

    def __init__(
        self,
        transports: Sequence[Transport],
        assembler: TaskAssembler,
        *,
        retries: int,
        wait: WaitForNotification,
        trace_id: str = "",
        follow_seconds: float | None = None,
    ) -> None:
        #: When to stop following a task that is still active.
        self._stop_at = (
            math.inf
            if follow_seconds is None
            else asyncio.get_running_loop().time() + follow_seconds
        )
        self._transports = list(transports)
        self._assembler = assembler
        self._retry = RetryPolicy(
            attempts=retries + 1,
            max_wait=MAX_RETRY_AFTER_SECONDS,
            first_wait=FIRST_RETRY_SECONDS,
            max_backoff=MAX_RETRY_SECONDS,
            trace_id=trace_id,
        )
        self._wait = wait
        self._last_event_id = ""

    async def call(self, operation: Callable[[Transport], Awaitable[T]]) -> T:
        """Return the result of an operation; retry it if it may not have arrived."""
        return await self._retry.call(lambda: self._try_interfaces(operation))

    async def _try_interfaces(self, operation: Callable[[Transport], Awaitable[T]]) -> T:
        """Return the result at the first interface that can be reached, and keep using it."""
        first_error: AccError | None = None
        for transport in list(self._transports):
            try:
                result = await operation(transport)
            except _NEXT_INTERFACE as error:
                first_error = first_error or error
            except AccError:
                self._transports = [transport]
                raise
            else:
                self._transports = [transport]
                return result
        assert first_error is not None  # noqa: S101 - there is at least one interface
        raise first_error

    async def stream(self, request: SendRequest) -> None:
        """Follow the task by a stream, which is resumed after each interruption.

        A stream whose events have no ids cannot be resumed without loss; after an interruption the
        task is polled instead.
        """
        assembler = self._assembler
        while not self._is_over:
            if assembler.task is not None and not self._last_event_id:
                await self.poll(request)
                return
            try:
                await self._retry.call(lambda: self._try_interfaces(partial(self._stream, request)))
            except UnsupportedOperation:
                await self.poll(request)
                return

    async def _stream(self, request: SendRequest, transport: Transport) -> None:
        """Read one stream; raise CallFailed if it ends early and without progress."""
        assembler = self._assembler
        count = assembler.item_count
        try:
            async with aclosing(self._open_stream(request, transport)) as events:
                while (event := await self._next(events)) is not None:
                    await assembler.add(event.item)
                    self._last_event_id = event.id or self._last_event_id
                    if assembler.is_complete:
                        return
            cut = CallFailed("the stream ended before the task did", retryable=True)
        except CallFailed as error:
            cut = error
        if self._is_over:
            return
        has_progress = assembler.item_count > count
        if not has_progress or not cut.retryable or self._retry.attempts == 1:
            raise cut
        # Return instead of raising: after progress, the next stream gets all attempts again.
        await asyncio.sleep(cut.retry_after or FIRST_RETRY_SECONDS)

    async def _next(self, events: AsyncGenerator[StreamEvent, None]) -> StreamEvent | None:
        """Return the next event, None if the stream or the time to follow it ends."""
        may_stop = self._assembler.task is not None and self._stop_at < math.inf
        try:
            async with asyncio.timeout_at(self._stop_at if may_stop else None) as limit:
                return await anext(events, None)
        except TimeoutError:
            if not limit.expired():
                raise
            self._stop_at = 0.0
            return None

    @property
    def _is_over(self) -> bool:
        """Return True if the task ended or needs input, or if the time to follow it is over."""
        assembler = self._assembler
        is_late = asyncio.get_running_loop().time() >= self._stop_at
        return assembler.is_settled or (is_late and assembler.task is not None)

    def _open_stream(
        self, request: SendRequest, transport: Transport
    ) -> AsyncGenerator[StreamEvent, None]:
        task = self._assembler.task
        if task is None:
            return transport.stream(Operation.STREAM, request, idle_timeout=STREAM_IDLE_SECONDS)
        return transport.stream(
            Operation.SUBSCRIBE,
            TaskRequest(id=task.id),
            idle_timeout=STREAM_IDLE_SECONDS,
            last_event_id=self._last_event_id,
        )

    async def poll(self, request: SendRequest | None, *, has_push: bool = False) -> None:
        """Follow the task by polling; with push notifications, mainly after each of them."""
        assembler = self._assembler
        if assembler.task is None and request is not None:
            await self._add(await self.call(partial(_send, request=request)))
        pause = _FIRST_POLL_SECONDS
        while not self._is_over:
            before = assembler.task
            assert before is not None  # noqa: S101 - there is no reply, so there is a task
            remaining = self._stop_at - asyncio.get_running_loop().time()
            await self._wait(before.id, min(_PUSH_POLL_SECONDS if has_push else pause, remaining))
            await self._add(await self.call(partial(get_task, task_id=before.id)))
            is_changed = assembler.task != before
            pause = _FIRST_POLL_SECONDS if is_changed else min(pause * 1.5, _MAX_POLL_SECONDS)

    async def result(self) -> Task | Message:
        """Return the reply or the task; the answer of a completed task is in its status at least.

        Some servers put the answer into a message before the last status, or do not stream
        artifacts. Raise RemoteFailed if a completed task has no answer at all.
        """
        assembler = self._assembler
        result = assembler.result
        if isinstance(result, Message) or not _lacks_answer(result):
            return result
        message: Message | None = None
        with suppress(AccError):  # the server need not store tasks; the stream may suffice
            task = await self.call(
                partial(get_task, task_id=result.id, history_length=_ANSWER_HISTORY_LENGTH)
            )
            message = _last_agent_message(task)
            await self._add(task)
        message = message or assembler.last_message
        task = assembler.assembled_task
        if not _lacks_answer(task):
            return task
        if message is None:
            raise RemoteFailed(
                f"the remote task {result.id} is completed, but it has no answer: its status, its "
                "artifacts and its history contain no message of the agent",
                remote_code="no_answer",
            )
        return replace(task, status=replace(task.status, message=message))

    async def _add(self, result: Task | Message) -> None:
        task_id = result.task_id if isinstance(result, Message) else result.id
        await self._assembler.add(StreamResponse(task_id, result.context_id, result))


async def _send(transport: Transport, *, request: SendRequest) -> Task | Message:
    timeout = _BLOCKING_CALL_TIMEOUT_SECONDS if request.wait else _CALL_TIMEOUT_SECONDS
    return transport.wire.read_send_result(
        await transport.call(Operation.SEND, request, timeout=timeout)
    )


async def get_task(transport: Transport, *, task_id: str, history_length: int = 0) -> Task:
    """Return the current state of a task."""
    request = GetRequest(id=task_id, history_length=history_length)
    return transport.wire.read_task(
        await transport.call(Operation.GET, request, timeout=_CALL_TIMEOUT_SECONDS)
    )


def _lacks_answer(task: Task) -> bool:
    """Return True if a task is completed without artifacts and status message."""
    message = task.status.message
    has_message = message is not None and bool(message.parts)
    has_artifact = any(artifact.parts for artifact in task.artifacts)
    return task.state is TaskState.COMPLETED and not has_message and not has_artifact


def _last_agent_message(task: Task) -> Message | None:
    """Return the last message of the agent after the last one of the user."""
    for message in reversed(task.history):
        if message.role is Role.USER:
            return None
        if message.parts:
            return message
    return None


async def cancel_task(transport: Transport, *, task_id: str) -> Task:
    """Cancel a task."""
    request = TaskRequest(id=task_id)
    return transport.wire.read_task(
        await transport.call(Operation.CANCEL, request, timeout=_CALL_TIMEOUT_SECONDS)
    )
