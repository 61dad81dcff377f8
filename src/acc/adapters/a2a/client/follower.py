"""One message to a remote agent and all that comes of it, however often the line breaks."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from acc.adapters.a2a.client.sse import ServerEvent
from acc.adapters.a2a.client.transport import CallFailed, Transport, Unreachable
from acc.adapters.a2a.wire.protocol import Operation, StreamResponse
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
    StatusUpdate,
    Task,
    TaskBuilder,
    TaskEvent,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.remote_ports import Hear

_SETTLED = TERMINAL | INTERRUPTED


class TaskAssembler:
    """Knows a remote task as far as it was told, and tells what is new about it."""

    def __init__(self, hear: Hear | None = None, known: Task | None = None) -> None:
        self._hear = hear
        self._known = known
        self._growing: TaskBuilder | None = None
        self.reply: Message | None = None
        #: Whether the last word was a task as a whole, which may be from before our message.
        self.is_snapshot = False
        self.heard = 0

    @property
    def task(self) -> Task | None:
        """Return where the task stands; what it has made is in the `result`."""
        return None if self._growing is None else self._growing.head

    def take_up(self, task: Task) -> TaskBuilder:
        """Go on from a task as it is known."""
        self._growing = TaskBuilder(task)
        return self._growing

    @property
    def is_settled(self) -> bool:
        """Tell whether the task has ended or waits, or never was one."""
        return self.reply is not None or (self.task is not None and self.task.state in _SETTLED)

    @property
    def is_over(self) -> bool:
        """Tell whether a stream has no more to say.

        A task that is shown as a whole at the beginning may show that it waits because our message
        has not reached it yet.
        """
        if not self.is_settled:
            return False
        is_over = self.task is None or self.task.is_terminal
        return self.reply is not None or is_over or not self.is_snapshot

    @property
    def result(self) -> Task | Message:
        """Return what came of it."""
        if self.reply is not None:
            return self.reply
        if self._growing is None:
            raise RemoteFailed("the remote agent said nothing")
        return self._growing.build()

    async def take(self, told: StreamResponse) -> None:
        """Take note of an item, and pass on what is new in it."""
        self.heard += 1
        item = told.item
        self.is_snapshot = isinstance(item, Task)
        if isinstance(item, Message):
            if self._growing is None:
                self.reply = _with_content(item)
            else:
                status = replace(self._growing.head.status, message=item)
                await self._pass_on(self._growing, StatusUpdate(status=status))
            return
        self._check_task(told)
        if isinstance(item, Task):
            await self._compare(item)
            return
        growing = self._growing or self.take_up(
            self._known or _unseen(told.task_id, told.context_id)
        )
        await self._pass_on(growing, item)

    def _check_task(self, told: StreamResponse) -> None:
        if not told.task_id and self.task is None:
            raise RemoteFailed("the remote agent tells of a task without an id")
        if self.task is not None and told.task_id not in ("", self.task.id):
            raise RemoteFailed("the remote agent tells of another task than the one asked about")

    async def _compare(self, task: Task) -> None:
        growing = self._growing or self.take_up(self._known or _unseen(task.id, task.context_id))
        for update in differences(growing.build(), task):
            await self._pass_on(growing, update)
        self.take_up(task)

    async def _pass_on(self, growing: TaskBuilder, update: StatusUpdate | ArtifactUpdate) -> None:
        growing.add(TaskEvent(growing.head.seq + 1, update))
        if self._hear is not None:
            await self._hear(growing.head, update)


def _with_content(reply: Message) -> Message:
    """Return a message that is all of an answer; one without parts is none."""
    if not reply.parts:
        raise RemoteFailed(
            "the remote agent answered what cannot be read: a message without parts",
            remote_code="invalid_agent_response",
        )
    return reply


def _unseen(task_id: str, context_id: str) -> Task:
    status = TaskStatus(state=TaskState.SUBMITTED)
    return Task(id=task_id, context_id=context_id, status=status)


def differences(before: Task, after: Task) -> Iterator[StatusUpdate | ArtifactUpdate]:
    """Give the updates that lead from one picture of a task to a later one."""
    held = {made.artifact_id: made for made in before.artifacts}
    for made in after.artifacts:
        known = held.get(made.artifact_id)
        if known is None:
            yield ArtifactUpdate(artifact=made, last_chunk=True)
        elif not _same(known.parts, made.parts):
            further = _further(known.parts, made.parts)
            if further is None:
                yield ArtifactUpdate(artifact=made, last_chunk=True)
            else:
                yield ArtifactUpdate(artifact=replace(made, parts=further), append=True)
    said = after.status.message
    is_new = said is not None and said != before.status.message
    if before.state is not after.state or is_new or before.metadata != after.metadata:
        yield StatusUpdate(status=after.status, metadata=after.metadata)


def _same(held: tuple[Part, ...], parts: tuple[Part, ...]) -> bool:
    if held == parts:
        return True
    are_texts = all(map(_is_text, (*held, *parts)))
    return are_texts and text_of(held) == text_of(parts)


def _further(held: tuple[Part, ...], parts: tuple[Part, ...]) -> tuple[Part, ...] | None:
    """Return what parts add to those held, None if they are other parts."""
    if parts[: len(held)] == held:
        return parts[len(held) :]
    # Pieces of a text may be kept as one part here and as several there.
    if all(map(_is_text, held)) and all(map(_is_text, parts)):
        before, after = text_of(held), text_of(parts)
        if after.startswith(before) and after != before:
            return (replace(parts[-1], text=after[len(before) :]),)
    return None


def _is_text(part: Part) -> bool:
    return part.text is not None and not part.filename and not part.metadata


T = TypeVar("T")
#: A stream that says nothing for so long, not even that it lives, is looked after.
IDLE = 90.0
_ONE_CALL = 30.0
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 10.0
_FIRST_POLL = 0.2
_LONGEST_POLL = 5.0
#: Notifications can get lost; then a look every so often is what is left.
_LOOK_ANYWAY = 60.0
_NEXT_INTERFACE = (Unreachable, AddressRefused, VersionNotSupported)
Bell = Callable[[str, float], Awaitable[None]]


def pause_before(attempt: int, asked: float | None = None) -> float:
    """Return seconds to wait before a further attempt; some chance keeps clients apart."""
    usual = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**attempt)
    jitter = random.uniform(0.5, 1.0)  # noqa: S311 - no secret
    return usual * jitter if asked is None else asked + usual * (1 - jitter)


class TaskFollower:
    """Follows one task through the interfaces of an agent, the best first."""

    def __init__(
        self,
        channels: Sequence[Transport],
        follower: TaskAssembler,
        *,
        retries: int,
        bell: Bell,
    ) -> None:
        self._channels = list(channels)
        self.follower = follower
        self._retries = retries
        self._bell = bell
        self._last_id = ""

    @property
    def channel(self) -> Transport:
        """Return the interface in use."""
        return self._channels[0]

    async def through(self, work: Callable[[Transport], Awaitable[T]]) -> T:
        """Return what a call gives at the first interface at which it can be made at all."""
        first: AccError | None = None
        for channel in list(self._channels):
            try:
                found = await work(channel)
            except _NEXT_INTERFACE as error:
                first = first or error
            except AccError:
                self._channels = [channel]
                raise
            else:
                self._channels = [channel]
                return found
        assert first is not None  # noqa: S101 - there is at least one interface
        raise first

    async def retrying(self, work: Callable[[Transport], Awaitable[T]]) -> T:
        """Return what a call gives, tried again where it may not have arrived."""
        attempt = 0
        while True:
            try:
                return await self.through(work)
            except CallFailed as failure:
                if not failure.retryable or attempt >= self._retries:
                    raise
                await asyncio.sleep(pause_before(attempt, failure.wait))
            attempt += 1

    async def stream(self, request: SendRequest | None) -> None:
        """Follow the task by a stream, taken up again after each cut where it broke off.

        A stream whose events have no numbers cannot be taken up without loss, so that after a cut
        the task is looked at instead.
        """
        attempt, heard = 0, 0
        while True:
            try:
                await self._one_stream(request)
                cut = CallFailed("the stream ended before the task did", retryable=True)
            except UnsupportedOperation:
                await self.poll(request)
                return
            except CallFailed as failure:
                cut = failure
            follower = self.follower
            if follower.is_settled:
                return
            if follower.heard > heard:
                attempt, heard = 0, follower.heard
            if not cut.retryable or attempt >= self._retries:
                raise cut
            await asyncio.sleep(pause_before(attempt, cut.wait))
            attempt += 1
            if follower.task is not None and not self._last_id:
                await self.poll(request)
                return

    async def _one_stream(self, request: SendRequest | None) -> None:
        task = self.follower.task
        if task is None:
            assert request is not None  # noqa: S101 - one that is only followed is known
            sent = request
            await self.through(
                lambda channel: channel.stream(Operation.STREAM, sent, self._take, idle=IDLE)
            )
            return
        wanted = TaskRequest(id=task.id)
        after = self._last_id
        await self.through(
            lambda channel: channel.stream(
                Operation.SUBSCRIBE, wanted, self._take, idle=IDLE, after=after
            )
        )

    async def _take(self, event: ServerEvent, told: StreamResponse) -> bool:
        await self.follower.take(told)
        self._last_id = event.id or self._last_id
        return not self.follower.is_over

    async def poll(self, request: SendRequest | None, *, is_told: bool = False) -> None:
        """Follow the task by looking at it; where notifications come, mostly when one does."""
        follower = self.follower
        if follower.task is None and request is not None:
            sent = request
            await self._take_result(await self.retrying(lambda one: _send(one, sent)))
        pause = _FIRST_POLL
        while not follower.is_settled:
            before = follower.task
            assert before is not None  # noqa: S101 - no reply, so there is a task
            await self._bell(before.id, _LOOK_ANYWAY if is_told else pause)
            look = partial(get_task, task_id=before.id)
            await self._take_result(await self.retrying(look))
            pause = _FIRST_POLL if follower.task != before else min(pause * 1.5, _LONGEST_POLL)

    async def _take_result(self, found: Task | Message) -> None:
        if isinstance(found, Message):
            await self.follower.take(StreamResponse(found.task_id, found.context_id, found))
        else:
            await self.follower.take(StreamResponse(found.id, found.context_id, found))


async def _send(channel: Transport, request: SendRequest) -> Task | Message:
    seconds = 24 * 3600.0 if request.wait else _ONE_CALL
    return channel.wire.read_send_result(
        await channel.ask(Operation.SEND, request, seconds=seconds)
    )


async def get_task(channel: Transport, task_id: str) -> Task:
    """Return a task as it is now."""
    request = GetRequest(id=task_id, history_length=0)
    return channel.wire.read_task(await channel.ask(Operation.GET, request, seconds=_ONE_CALL))


async def cancel_task(channel: Transport, task_id: str) -> Task:
    """Cancel a task."""
    request = TaskRequest(id=task_id)
    return channel.wire.read_task(await channel.ask(Operation.CANCEL, request, seconds=_ONE_CALL))
