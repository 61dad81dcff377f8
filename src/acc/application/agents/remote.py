"""Agents of other servers, as agents of one's own tree."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec

from acc.application.a2a.projection import ANSWER
from acc.application.agents.base import BaseAgent
from acc.application.agents.remote_content import (
    Asked,
    answer_artifact,
    answer_parts,
    answer_text,
    asked_in,
    beside_text,
    is_context_refused,
    is_speech,
    parts_text,
    status_text,
)
from acc.application.runtime.context import RunContext
from acc.application.runtime.interrupts import RunPaused
from acc.application.runtime.run import Run
from acc.application.tools.tool import AgentTool
from acc.domain.errors import (
    AccError,
    AddressRefused,
    InvalidInput,
    InvalidTree,
    RemoteFailed,
    RemoteRejected,
)
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, text_of, text_part
from acc.domain.value_objects.endpoint import RemoteEndpoint
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.task import (
    INTERRUPTED,
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskState,
)
from acc.ports.outbound.remote_ports import NotificationReceiverPort, RemoteAgentPort

log = logging.getLogger("acc.run")
#: Where it is on record what came of a message to a remote agent.
MARK = "remote"
_MOST_NAME = 256


@dataclass(kw_only=True, eq=False)
class RemoteAgent(BaseAgent):
    """An agent that another server runs, called over A2A. It stands wherever an agent can.

    `url` is where its card is. `token` is a bearer token, or "env:NAME" to take it from the
    environment when it is needed; it goes to that URL's origin and to those in `trust` alone.
    Addresses that are not public must be in `allow`, or in ACC_ALLOW in the environment.

    A remote task that waits for a person pauses the run with the same question, and the answer goes
    to that task, from whichever process resumes. A session's conversation is one context over
    there. A message that may not have arrived is sent again with the same id, `retries` times.

    `mode` is how it is followed: "stream", "poll", or "push" for a server that notifies `receiver`.
    Without one, and where the server cannot do it, what its card offers is used.
    """

    url: str = ""
    token: str | None = field(default=None, repr=False)
    allow: Sequence[str] = ()
    trust: Sequence[str] = ()
    timeout: float = 600.0
    retries: int = 5
    mode: Literal["stream", "poll", "push"] | None = None
    receiver: NotificationReceiverPort | None = field(default=None, repr=False)
    _address: RemoteEndpoint = field(init=False, repr=False)

    def check(self) -> None:
        """Refuse what cannot work."""
        if self.sub_agents:
            raise InvalidTree(f"{self.name!r} is remote: its sub-agents are its server's business")
        if self.mode not in (None, "stream", "poll", "push"):
            raise InvalidTree(f"{self.name!r}: mode is stream, poll or push, not {self.mode!r}")
        if (self.mode == "push") is not (self.receiver is not None):
            raise InvalidTree(f'{self.name!r}: mode="push" and a receiver go together')
        try:
            self._address = RemoteEndpoint(
                url=self.url,
                token=self.token or "",
                allow=self.allow,
                trust=self.trust,
                timeout=self.timeout,
                retries=self.retries,
                streaming=False if self.mode == "poll" else None,
            )
        except InvalidInput as error:
            raise InvalidTree(f"{self.name!r}: {error}") from None

    @property
    def address(self) -> RemoteEndpoint:
        """Return where the agent is and on which terms it is called."""
        return self._address

    async def run(self, ctx: RunContext) -> str:
        """Have the remote agent answer; what is on record is not asked for again."""
        parts = _said(ctx)
        task_id = ""
        leg = 0
        published: dict[str, str] = {}
        while True:
            done = await _on_record(ctx)
            if done is None:
                message = self._message(ctx, parts, leg=leg, task_id=task_id)
                done = await _Leg(self, ctx, published).run(message)
            published |= done["published"]
            if done["asked"] is None:
                break
            task_id = done["task"]
            parts = answer_parts(
                await _ask_all(ctx, [Asked.from_detail(one) for one in done["asked"]])
            )
            leg += 1
        if done["state"] == TaskState.REJECTED:
            # A server of ours begins the reason with that word itself.
            raise RemoteRejected(self.name, done["text"].removeprefix("rejected: "))
        if done["state"] not in (TaskState.COMPLETED, ""):
            said = f": {done['text']}" if done["text"] else ""
            raise RemoteFailed(
                f"agent {self.name!r}: the remote task is {done['state']}{said}",
                remote_code=done["state"],
            )
        return str(done["text"])

    def _message(
        self, ctx: RunContext, parts: tuple[Part, ...], *, leg: int, task_id: str
    ) -> Message:
        # The same when this part of the run is gone through again, so that the server can tell.
        own = sha256(f"{ctx.run_id}\n{ctx.path}\n{leg}".encode()).hexdigest()[:32]
        metadata: dict[str, Any] = {"traceId": ctx.call.trace_id}
        parent = ctx.call.metadata.get("traceparent")
        if isinstance(parent, str):
            metadata["traceparent"] = parent
        held = ctx.current_branch.state.get(self._context_key)
        context_id = held["context"] if held and held["url"] == self.url else ""
        return Message(
            message_id=own,
            role=Role.USER,
            parts=parts,
            task_id=task_id,
            context_id=context_id,
            metadata=metadata,
        )

    @property
    def _context_key(self) -> str:
        return f"remote.{self.name}"

    def port(self, ctx: RunContext) -> RemoteAgentPort:
        """Return the way to the remote agent."""
        if ctx.services.remote is None:
            raise RemoteFailed(f"agent {self.name!r}: these services cannot call remote agents")
        return ctx.services.remote(self.address)

    def keep_context(self, ctx: RunContext, context_id: str) -> None:
        """Remember the conversation over there, whatever state the parent grants."""
        held = {"url": self.url, "context": context_id}
        if context_id and ctx.current_branch.state.get(self._context_key) != held:
            ctx.current_branch.state[self._context_key] = held

    def drop_context(self, ctx: RunContext) -> None:
        """Forget the conversation over there."""
        ctx.current_branch.state.pop(self._context_key, None)


class _Leg:
    """One message to the remote agent, up to where its task ends or waits."""

    def __init__(self, agent: RemoteAgent, ctx: RunContext, published: Mapping[str, str]) -> None:
        self._agent = agent
        self._ctx = ctx
        self._published = published
        self._streamed: str | None = None

    async def run(self, message: Message) -> dict[str, Any]:
        """Return what came of it, which is on record then."""
        agent, ctx = self._agent, self._ctx
        try:
            found = await self._sent(message)
        except AddressRefused as error:
            told = error.naming("RemoteAgent(allow=[…]), or ACC_ALLOW in the environment")
            raise RemoteFailed(f"agent {agent.name!r}: {told}", remote_code=error.code) from error
        except AccError as error:
            waiting = await self._still_waiting(message, error)
            if waiting is not None:
                return await self._settled(waiting, fault=str(error))
            code = error.remote_code if isinstance(error, RemoteFailed) else error.code
            retryable = isinstance(error, RemoteFailed) and error.retryable
            raise RemoteFailed(
                f"agent {agent.name!r}: {error}", remote_code=code, retryable=retryable
            ) from error
        agent.keep_context(ctx, found.context_id)
        if isinstance(found, Message):
            published = await self._publish(beside_text(found))
            return await self._note(
                text=parts_text(found.parts), state="", task="", names=published
            )
        return await self._settled(found)

    async def _sent(self, message: Message) -> Task | Message:
        try:
            return await self._send(message)
        except AccError as error:
            if not is_context_refused(message, error):
                raise
            log.warning(
                "agent %r: the remote agent does not know the conversation any more, and begins a "
                "new one: %s",
                self._agent.name,
                error,
                extra={"run_id": self._ctx.run_id, "trace_id": self._ctx.call.trace_id},
            )
        self._agent.drop_context(self._ctx)
        return await self._send(replace(message, context_id=""))

    async def _send(self, message: Message) -> Task | Message:
        port, receiver = self._agent.port(self._ctx), self._agent.receiver
        if receiver is None:
            return await port.send(message, hear=self._hear)
        with receiver.expecting(port.notified) as push:
            return await port.send(message, hear=self._hear, push=push)

    async def _still_waiting(self, message: Message, error: AccError) -> Task | None:
        """Return the remote task if it refused an answer that it cannot read, and still asks."""
        if not message.task_id or not isinstance(error, InvalidInput):
            return None
        try:
            task = await self._agent.port(self._ctx).get(message.task_id)
        except AccError:
            return None
        return task if task.state in INTERRUPTED else None

    async def _settled(self, task: Task, *, fault: str = "") -> dict[str, Any]:
        if task.state in INTERRUPTED:
            before = f"{fault}\n" if fault else ""
            told = [one._replace(message=before + one.message) for one in asked_in(task)]
            asked = [one.as_detail() for one in told]
            published = await self._publish(task.artifacts)
            return await self._note(state=task.state, task=task.id, asked=asked, names=published)
        if task.state is not TaskState.COMPLETED:
            return await self._note(text=status_text(task), state=task.state, task=task.id)
        answer = answer_artifact(task)
        fresh = tuple(made for made in task.artifacts if not self._is_published(made))
        published = await self._publish(beside_text(replace(task, artifacts=fresh), answer))
        text = answer_text(task, answer)
        return await self._note(text=text, state=task.state, task=task.id, names=published)

    async def _publish(self, artifacts: Iterable[TaskArtifact]) -> dict[str, str]:
        """Publish what the remote task has made, all at once: a repeated leg then does the same.

        What was published in an earlier leg is so again if it has changed since.
        """
        names: dict[str, str] = {}
        for made in artifacts:
            if made.parts and not self._is_published(made):
                await self._ctx.artifacts.publish(_name(made), *made.parts)
                names[made.artifact_id] = _digest(made)
        return names

    def _is_published(self, made: TaskArtifact) -> bool:
        known = self._published.get(made.artifact_id)
        return known is not None and known == _digest(made)

    async def _note(
        self,
        *,
        state: str,
        task: str,
        text: str = "",
        asked: list[dict[str, Any]] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        _check_length(self._ctx, text)
        done = {
            "state": str(state),
            "task": task,
            "text": text,
            "asked": asked,
            "published": dict(names or {}),
            "url": self._agent.url,
        }
        event = await self._ctx.emit(EventKind.STATE, detail={MARK: done})
        return dict(event.detail[MARK])

    async def _hear(self, task: Task, update: StatusUpdate | ArtifactUpdate) -> None:
        ctx = self._ctx
        if isinstance(update, StatusUpdate):
            said = update.status.message
            if (
                update.status.state is TaskState.WORKING
                and said is not None
                and text_of(said.parts)
            ):
                await ctx.progress(text_of(said.parts), detail={"remote": task.id})
            return
        text = text_of([part for part in update.artifact.parts if is_speech(part)])
        if not ctx.run.recorder.wants_deltas or not text:
            return
        if not update.append and self._is_published(update.artifact):
            return
        if self._streamed is None or update.artifact.artifact_id == ANSWER:
            self._streamed = update.artifact.artifact_id
        if self._streamed == update.artifact.artifact_id:
            await ctx.emit(EventKind.DELTA, parts=text_part(text))


class _Spoken(NamedTuple):
    author: str
    text: str


def _said(ctx: RunContext) -> tuple[Part, ...]:
    """Return what the remote agent is told: the message, and what others said before it.

    What came before its own last answer it knows already.
    """
    heard = [_Spoken(one.author, text_of(one.parts)) for one in ctx.current_branch.thread]
    own = [place for place, one in enumerate(heard) if one.author == ctx.agent.name]
    since = heard[own[-1] + 1 :] if own else heard
    others = [f"[{one.author}]\n{one.text}" for one in since if one.text]
    if own and others:
        return text_part("\n\n".join(others))
    text = text_part("\n\n".join([ctx.message, *others]))
    message = ctx.run.request.message
    if ctx.message != text_of(message):
        return text
    return (*text, *(part for part in message if part.text is None))


async def _on_record(ctx: RunContext) -> dict[str, Any] | None:
    """Return what came of a leg that is on record, having gone through its events."""
    recorded = ctx.recorded()
    end = next((place for place, one in enumerate(recorded) if MARK in one.detail), None)
    if end is None:
        return None
    event: Event | None = None
    for one in recorded[: end + 1]:
        event = await ctx.emit(one.kind)
    assert event is not None  # noqa: S101 - there is at least the one that was found
    return dict(event.detail[MARK])


async def _ask_all(ctx: RunContext, asked: Sequence[Asked]) -> list[tuple[Asked, InputAnswer]]:
    """Return the answers to everything that the remote task asks; until then the run pauses."""
    answers: list[tuple[Asked, InputAnswer]] = []
    open_requests: list[InputRequest] = []
    now = ctx.services.clock.now()
    for one in asked:
        left = None if one.expires_at is None else max(one.expires_at - now, 0.0)
        scope = ctx.fork("asked")
        try:
            _, answer = await scope.ask(
                one.message,
                kind=one.kind,
                tool=one.tool,
                arguments=one.arguments,
                schema=one.schema,
                expires_after=left,
            )
        except RunPaused as pause:
            open_requests += pause.requests
        else:
            answers.append((one, answer))
    if open_requests:
        raise RunPaused(open_requests)
    return answers


def _name(made: TaskArtifact) -> str:
    """Return a name under which an artifact can be published, whatever its server calls it."""
    name = "".join(sign for sign in made.name or made.artifact_id if sign.isprintable()).strip()
    return name[:_MOST_NAME] or "artifact"


def _digest(made: TaskArtifact) -> str:
    """Return what tells one version of an artifact from another."""
    return sha256(msgspec.json.encode((made.name, made.parts))).hexdigest()


def _check_length(ctx: RunContext, text: str) -> None:
    most = ctx.config.max_answer_characters
    if len(text) > most:
        raise RemoteFailed(
            f"agent {ctx.agent.name!r}: the remote answer has more than {most} characters",
            remote_code="too_large",
        )


_TO_CANCEL = 5.0
Reach = Callable[[RemoteEndpoint], RemoteAgentPort]


async def cancel_waiting(run: Run) -> None:
    """Cancel the remote tasks that a run which is over leaves waiting, whichever process asked.

    What cannot be done in a moment is told in the log and left undone: the run is over anyway.
    """
    remotes = list(_remotes(run.request.root))
    reach = run.services.remote
    if reach is None or not remotes:
        return
    try:
        events = await run.services.sessions.events(run.request.key, run_id=run.request.run_id)
    except AccError as error:
        log.warning("what waits at remote agents cannot be read: %s", error, extra=_extra(run))
        return
    waiting = _waiting(events)
    async with asyncio.TaskGroup() as group:
        for agent in remotes:
            for task_id in waiting.pop((agent.name, agent.url), ()):
                group.create_task(_cancel(run, agent, reach, task_id))


async def _cancel(run: Run, agent: RemoteAgent, reach: Reach, task_id: str) -> None:
    try:
        async with asyncio.timeout(_TO_CANCEL):
            await reach(agent.address).cancel(task_id)
    except Exception as error:  # noqa: BLE001 - whatever it is, the run has ended
        why = str(error) or f"no answer within {_TO_CANCEL:g} seconds"
        log.warning("task of %r was not canceled: %s", agent.name, why, extra=_extra(run))


def _remotes(root: BaseAgent) -> Iterator[RemoteAgent]:
    """Give the remote agents of a tree, and those that stand in it as tools."""
    for agent in root.walk():
        if isinstance(agent, RemoteAgent):
            yield agent
        for tool in getattr(agent, "own_tools", {}).values():
            if isinstance(tool, AgentTool):
                yield from _remotes(tool.agent)


def _waiting(events: Iterable[Event]) -> dict[tuple[str, str], list[str]]:
    """Return the tasks that asked something and did not go on since, by agent and address."""
    asking: dict[tuple[str, str, str], bool] = {}
    for event in events:
        mark = event.detail.get(MARK)
        if event.kind is EventKind.STATE and isinstance(mark, Mapping) and "url" in mark:
            asking[event.author, mark["url"], mark["task"]] = mark["asked"] is not None
    found: dict[tuple[str, str], list[str]] = {}
    for (name, url, task_id), is_asking in asking.items():
        if is_asking:
            found.setdefault((name, url), []).append(task_id)
    return found


def _extra(run: Run) -> dict[str, str]:
    return {"run_id": run.request.run_id, "trace_id": run.request.call.trace_id}
