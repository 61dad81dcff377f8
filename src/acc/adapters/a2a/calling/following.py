"""Putting together what a server tells of a task: nothing lost, nothing told twice."""

from collections.abc import Iterator

from acc.adapters.a2a.codec.wire import Streamed
from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.event import Part, words
from acc.domain.value_objects.task import (
    INTERRUPTED,
    TERMINAL,
    ArtifactUpdate,
    Growing,
    Message,
    StatusUpdate,
    Task,
    TaskEvent,
    TaskState,
    TaskStatus,
)
from acc.domain.value_objects.value import changed
from acc.ports.outbound.remote_ports import Hear

_SETTLED = TERMINAL | INTERRUPTED


class Follower:
    """Knows a remote task as far as it was told, and tells what is new about it."""

    def __init__(self, hear: Hear | None = None, known: Task | None = None) -> None:
        self._hear = hear
        self._known = known
        self._growing: Growing | None = None
        self.reply: Message | None = None
        #: Whether the last word was a task as a whole, which may be from before our message.
        self.is_snapshot = False
        self.heard = 0

    @property
    def task(self) -> Task | None:
        """Return where the task stands; what it has made is in the `result`."""
        return None if self._growing is None else self._growing.head

    def take_up(self, task: Task) -> Growing:
        """Go on from a task as it is known."""
        self._growing = Growing(task)
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
        is_over = self.task is None or self.task.is_over
        return self.reply is not None or is_over or not self.is_snapshot

    @property
    def result(self) -> Task | Message:
        """Return what came of it."""
        if self.reply is not None:
            return self.reply
        if self._growing is None:
            raise RemoteFailed("the remote agent said nothing")
        return self._growing.whole()

    async def take(self, told: Streamed) -> None:
        """Take note of an item, and pass on what is new in it."""
        self.heard += 1
        item = told.item
        self.is_snapshot = isinstance(item, Task)
        if isinstance(item, Message):
            if self._growing is None:
                self.reply = _with_content(item)
            else:
                status = changed(self._growing.head.status, message=item)
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

    def _check_task(self, told: Streamed) -> None:
        if not told.task_id and self.task is None:
            raise RemoteFailed("the remote agent tells of a task without an id")
        if self.task is not None and told.task_id not in ("", self.task.id):
            raise RemoteFailed("the remote agent tells of another task than the one asked about")

    async def _compare(self, task: Task) -> None:
        growing = self._growing or self.take_up(self._known or _unseen(task.id, task.context_id))
        for update in differences(growing.whole(), task):
            await self._pass_on(growing, update)
        self.take_up(task)

    async def _pass_on(self, growing: Growing, update: StatusUpdate | ArtifactUpdate) -> None:
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
                yield ArtifactUpdate(artifact=changed(made, parts=further), append=True)
    said = after.status.message
    is_new = said is not None and said != before.status.message
    if before.state is not after.state or is_new or before.metadata != after.metadata:
        yield StatusUpdate(status=after.status, metadata=after.metadata)


def _same(held: tuple[Part, ...], parts: tuple[Part, ...]) -> bool:
    if held == parts:
        return True
    are_texts = all(map(_is_text, (*held, *parts)))
    return are_texts and words(held) == words(parts)


def _further(held: tuple[Part, ...], parts: tuple[Part, ...]) -> tuple[Part, ...] | None:
    """Return what parts add to those held, None if they are other parts."""
    if parts[: len(held)] == held:
        return parts[len(held) :]
    # Pieces of a text may be kept as one part here and as several there.
    if all(map(_is_text, held)) and all(map(_is_text, parts)):
        before, after = words(held), words(parts)
        if after.startswith(before) and after != before:
            return (changed(parts[-1], text=after[len(before) :]),)
    return None


def _is_text(part: Part) -> bool:
    return part.text is not None and not part.filename and not part.metadata
