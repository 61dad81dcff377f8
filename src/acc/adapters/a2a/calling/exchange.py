"""One message to a remote agent and all that comes of it, however often the line breaks."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from acc.adapters.a2a.calling.channel import CallFailed, Channel, Unreachable
from acc.adapters.a2a.calling.following import Follower
from acc.adapters.a2a.calling.sse import ServerEvent
from acc.adapters.a2a.codec.wire import Operation, Streamed
from acc.application.serving.requests import GetRequest, SendRequest, TaskRequest
from acc.domain.errors import (
    AccError,
    AddressRefused,
    UnsupportedOperation,
    VersionNotSupported,
)
from acc.domain.value_objects.task import Message, Task

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


class Exchange:
    """Follows one task through the interfaces of an agent, the best first."""

    def __init__(
        self,
        channels: Sequence[Channel],
        follower: Follower,
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
    def channel(self) -> Channel:
        """Return the interface in use."""
        return self._channels[0]

    async def through(self, work: Callable[[Channel], Awaitable[T]]) -> T:
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

    async def retrying(self, work: Callable[[Channel], Awaitable[T]]) -> T:
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

    async def _take(self, event: ServerEvent, told: Streamed) -> bool:
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
            await self.follower.take(Streamed(found.task_id, found.context_id, found))
        else:
            await self.follower.take(Streamed(found.id, found.context_id, found))


async def _send(channel: Channel, request: SendRequest) -> Task | Message:
    seconds = 24 * 3600.0 if request.wait else _ONE_CALL
    return channel.wire.read_send_result(
        await channel.ask(Operation.SEND, request, seconds=seconds)
    )


async def get_task(channel: Channel, task_id: str) -> Task:
    """Return a task as it is now."""
    request = GetRequest(id=task_id, history_length=0)
    return channel.wire.read_task(await channel.ask(Operation.GET, request, seconds=_ONE_CALL))


async def cancel_task(channel: Channel, task_id: str) -> Task:
    """Cancel a task."""
    request = TaskRequest(id=task_id)
    return channel.wire.read_task(await channel.ask(Operation.CANCEL, request, seconds=_ONE_CALL))
