"""RemoteAgent: an agent of another server as an agent of the own tree."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Literal

import msgspec

from acc.application.a2a.projection import ANSWER
from acc.application.agents.base import BaseAgent, StandardAgent
from acc.application.agents.remote_content import (
    RemoteInputRequest,
    answer_artifact,
    answer_text,
    attachments,
    format_answers,
    input_requests,
    is_plain_text,
    is_unknown_context,
    message_text,
    status_text,
)
from acc.application.contracts.claims import outgoing_context
from acc.application.runtime.context import RunContext
from acc.application.runtime.interrupts import RunPaused
from acc.application.runtime.run import Run
from acc.application.tools.tool import AgentTool
from acc.application.tracing.spans import TRACE_PARENT, outgoing_parent
from acc.domain.errors import (
    AccError,
    AddressRefused,
    InvalidInput,
    InvalidTree,
    PermissionDenied,
    RemoteFailed,
    RemoteRejected,
    Unauthenticated,
)
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, text_of, text_part
from acc.domain.value_objects.contract import INTENTS_EXTENSION
from acc.domain.value_objects.credentials import AuthChoice
from acc.domain.value_objects.endpoint import RemoteEndpoint
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.flow import (
    MAX_TRUSTED_FRAGMENTS,
    TRUSTED_METADATA,
    UNTRUSTED_METADATA,
)
from acc.domain.value_objects.task import (
    ACTIVE,
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
CANCEL_TIMEOUT_SECONDS = 5.0
#: How long a segment waits for a remote task. After that, the engine waits.
FOLLOW_SECONDS = 5.0
#: The engine continues the run after a fraction of the time that it has waited, within bounds.
_POLL_FRACTION = 0.2
POLL_SECONDS = (1.0, 30.0)
_OUTCOME = "remote"
_MAX_NAME_LENGTH = 256
#: Errors after which another interface or a retry does not help.
_UNUSABLE_CODES = frozenset({"no_card", "no_interface", "untrusted_origin"})


@dataclass(kw_only=True, eq=False)
class RemoteAgent(StandardAgent[object, str]):
    """An agent of another server in a run; `acc.RemoteAgent` documents the options."""

    url: str = ""
    token: str | None = field(default=None, repr=False)
    allow: Sequence[str] = ()
    trust: Sequence[str] = ()
    timeout: float = 600.0
    retries: int = 5
    max_failures: int = 5
    recovery: float = 30.0
    auth: AuthChoice | None = field(default=None, repr=False)
    insecure: bool = False
    mode: Literal["stream", "poll", "push"] | None = None
    receiver: NotificationReceiverPort | None = field(default=None, repr=False)
    _endpoint: RemoteEndpoint = field(init=False, repr=False)

    def check(self) -> None:
        """Raise InvalidTree if the configuration is invalid."""
        if self.sub_agents:
            raise InvalidTree(f"remote agent {self.name!r} must not have sub-agents")
        if self.mode not in (None, "stream", "poll", "push"):
            raise InvalidTree(
                f"agent {self.name!r}: mode must be stream, poll or push, got {self.mode!r}"
            )
        if (self.mode == "push") is not (self.receiver is not None):
            raise InvalidTree(
                f'agent {self.name!r}: mode="push" requires receiver=..., and receiver=... '
                'requires mode="push"'
            )
        try:
            self._endpoint = RemoteEndpoint(
                url=self.url,
                token=self.token or "",
                allow=self.allow,
                trust=self.trust,
                timeout=self.timeout,
                retries=self.retries,
                max_failures=self.max_failures,
                recovery=self.recovery,
                auth=self.auth,
                insecure=self.insecure,
                streaming=False if self.mode == "poll" else None,
            )
        except InvalidInput as error:
            raise InvalidTree(f"agent {self.name!r}: {error}") from None

    @property
    def endpoint(self) -> RemoteEndpoint:
        """Return the location of the agent and the options of its calls."""
        return self._endpoint

    async def _run(self, ctx: RunContext) -> str:
        """Return the answer of the remote agent; recorded calls are not repeated."""
        parts = outgoing_parts(ctx)
        task_id = ""
        call_count = 0
        published: dict[str, str] = {}
        while True:
            call = _RemoteCall(self, ctx, published)
            outcome = await _replay(ctx)
            if outcome is None:
                message = self._message(ctx, parts, number=call_count, task_id=task_id)
                outcome = await call.run(message)
            if outcome.state in ACTIVE:
                outcome = await _replay(ctx) or await call.continue_task(outcome)
            published |= outcome.published
            if outcome.requests is None:
                break
            task_id = outcome.task
            requests = [RemoteInputRequest.from_record(record) for record in outcome.requests]
            parts = format_answers(await _request_inputs(ctx, requests))
            call_count += 1
        if outcome.state == TaskState.REJECTED:
            # A server of ours starts the reason with this word itself.
            raise RemoteRejected(self.name, outcome.text.removeprefix("rejected: "))
        if outcome.state not in (TaskState.COMPLETED, ""):
            reason = f": {outcome.text}" if outcome.text else ""
            raise RemoteFailed(
                f"agent {self.name!r}: the remote task is {outcome.state}{reason}",
                remote_code=outcome.state,
            )
        return outcome.text

    def port(self, ctx: RunContext) -> RemoteAgentPort:
        """Return the client of the remote agent."""
        if ctx.services.remote is None:
            raise RemoteFailed(
                f"agent {self.name!r}: the services of this runner cannot call remote agents"
            )
        return ctx.services.remote(self.endpoint)

    def set_context(self, ctx: RunContext, context_id: str) -> None:
        """Store the remote context in the session, even if the parent grants no state."""
        value = {"url": self.url, "context": context_id}
        if context_id and ctx.current_branch.state.get(self._context_key) != value:
            ctx.current_branch.state[self._context_key] = value

    def clear_context(self, ctx: RunContext) -> None:
        """Remove the remote context from the session."""
        ctx.current_branch.state.pop(self._context_key, None)

    @property
    def _context_key(self) -> str:
        return f"remote.{self.name}"

    def _message(
        self, ctx: RunContext, parts: tuple[Part, ...], *, number: int, task_id: str
    ) -> Message:
        # A replayed run sends the same id, so that the server can detect the duplicate.
        message_id = sha256(f"{ctx.run_id}\n{ctx.path}\n{number}".encode()).hexdigest()[:32]
        metadata: dict[str, Any] = {"traceId": ctx.call.trace_id}
        if parent := outgoing_parent(ctx):
            metadata[TRACE_PARENT] = parent
        context = outgoing_context(ctx, has_credentials=bool(self.token or self.auth))
        # The request id is that of the run, which may send several messages.
        context["idempotency_key"] = message_id
        metadata[INTENTS_EXTENSION] = {"context": context}
        if parts != ctx.run.request.message:
            parts = tuple(_with_provenance(part, ctx) for part in parts)
        stored = ctx.current_branch.state.get(self._context_key)
        return Message(
            message_id=message_id,
            role=Role.USER,
            parts=parts,
            task_id=task_id,
            context_id=stored["context"] if stored and stored["url"] == self.url else "",
            metadata=metadata,
        )


def _with_provenance(part: Part, ctx: RunContext) -> Part:
    marks = provenance_marks(ctx, part.text or "")
    return replace(part, metadata={**part.metadata, **marks}) if marks else part


def provenance_marks(ctx: RunContext, text: str) -> dict[str, Any]:
    """Return the metadata of a part that is sent to another agent.

    It says that the author of the part read untrusted data, and what is trusted in its text.
    """
    flow = ctx.run.flow
    if flow is None or not flow.is_tainted:
        return {}
    marks: dict[str, Any] = {UNTRUSTED_METADATA: True}
    if fragments := flow.trusted_fragments(text):
        marks[TRUSTED_METADATA] = list(fragments[:MAX_TRUSTED_FRAGMENTS])
    return marks


async def check_access(remote: RemoteAgentPort) -> None:
    """Raise an AccError if a remote agent cannot be called: card, address or credentials."""
    await remote.card()
    try:
        await remote.get("acc-access-check")  # the task does not exist; only access matters
    except (AddressRefused, Unauthenticated, PermissionDenied):
        raise
    except RemoteFailed as error:
        if error.retryable or error.remote_code in _UNUSABLE_CODES:
            raise
    except AccError:
        return


async def cancel_waiting(run: Run) -> None:
    """Cancel the remote tasks that an ended run was waiting for.

    A failure is logged and otherwise ignored: the run has ended anyway.
    """
    agents = list(_remote_agents(run.request.root))
    connect = run.services.remote
    if connect is None or not agents:
        return
    try:
        events = await run.services.sessions.events(run.request.key, run_id=run.request.run_id)
    except AccError as error:
        log.warning("cannot read the waiting remote tasks: %s", error, extra=_log_extra(run))
        return
    waiting = _waiting_tasks(events)
    async with asyncio.TaskGroup() as group:
        for agent in agents:
            for task_id in waiting.pop((agent.name, agent.url), ()):
                group.create_task(_cancel(run, agent, connect, task_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """Recorded outcome of one message; `requests` is None unless the task needs input.

    If the task is active, the engine waits for it; `since` is when the message was sent.
    """

    url: str
    state: str
    task: str
    text: str
    requests: list[dict[str, Any]] | None
    published: dict[str, str]
    since: float = 0.0

    @classmethod
    def from_event(cls, event: Event) -> "_Outcome":
        return cls(**event.detail[_OUTCOME])


class _RemoteCall:
    """One message to the remote agent, until its task ends or needs input.

    In a run of an engine, the segment ends if the task takes longer than a few seconds.
    """

    def __init__(self, agent: RemoteAgent, ctx: RunContext, published: Mapping[str, str]) -> None:
        self._agent = agent
        self._ctx = ctx
        self._published = published
        self._streamed_artifact: str | None = None
        self._since = ctx.services.clock.now()
        self._follow_seconds = FOLLOW_SECONDS if ctx.run.can_end_segment(ctx.path) else None

    async def run(self, message: Message) -> _Outcome:
        """Send the message and return the recorded outcome."""
        try:
            result = await self._send_in_context(message)
        except AddressRefused as error:
            text = error.naming("RemoteAgent(allow=[…]), or ACC_ALLOW in the environment")
            raise RemoteFailed(
                f"agent {self._agent.name!r}: {text}", remote_code=error.code
            ) from error
        except AccError as error:
            waiting = await self._task_still_waiting(message, error)
            if waiting is not None:
                return await self._record_task(waiting, problem=str(error))
            raise self._failure(error) from error
        return await self._record_result(result)

    async def continue_task(self, outcome: _Outcome) -> _Outcome:
        """Return the recorded outcome of a task that was active; pause the run while it is."""
        agent, ctx = self._agent, self._ctx
        port, now = agent.port(ctx), ctx.services.clock.now()
        try:
            if self._follow_seconds is None or (await port.get(outcome.task)).state not in ACTIVE:
                result = await port.follow(outcome.task, on_update=self._on_update)
                return await self._record_result(result)
        except AccError as error:
            raise self._failure(error) from error
        waited = now - outcome.since
        if waited < agent.timeout:
            low, high = POLL_SECONDS
            delay = min(max(waited * _POLL_FRACTION, low), high, agent.timeout - waited)
            raise RunPaused(resume_at=now + delay)
        await _cancel(ctx.run, agent, lambda _: port, outcome.task)
        text = f"task {outcome.task} did not finish within {agent.timeout:g} seconds"
        return await self._record(state="timed_out", task=outcome.task, text=text)

    def _failure(self, error: AccError) -> RemoteFailed:
        code = error.remote_code if isinstance(error, RemoteFailed) else error.code
        retryable = isinstance(error, RemoteFailed) and error.retryable
        return RemoteFailed(
            f"agent {self._agent.name!r}: {error}", remote_code=code, retryable=retryable
        )

    async def _record_result(self, result: Task | Message) -> _Outcome:
        self._agent.set_context(self._ctx, result.context_id)
        if isinstance(result, Message):
            published = await self._publish(attachments(result))
            return await self._record(text=message_text(result.parts), published=published)
        return await self._record_task(result)

    async def _send_in_context(self, message: Message) -> Task | Message:
        """Send the message, in a new context if the server does not know the stored one."""
        try:
            return await self._send(message)
        except AccError as error:
            if not is_unknown_context(message, error):
                raise
            log.warning(
                "agent %r: the remote agent does not know the context, starting a new one: %s",
                self._agent.name,
                error,
                extra={"run_id": self._ctx.run_id, "trace_id": self._ctx.call.trace_id},
            )
        self._agent.clear_context(self._ctx)
        return await self._send(replace(message, context_id=""))

    async def _send(self, message: Message) -> Task | Message:
        port, receiver = self._agent.port(self._ctx), self._agent.receiver
        send = partial(
            port.send, message, on_update=self._on_update, follow_seconds=self._follow_seconds
        )
        if receiver is None:
            return await send()
        with receiver.expect(port.notify) as push:
            return await send(push=push)

    async def _task_still_waiting(self, message: Message, error: AccError) -> Task | None:
        """Return the task if it rejected an invalid answer and still needs input."""
        if not message.task_id or not isinstance(error, InvalidInput):
            return None
        try:
            task = await self._agent.port(self._ctx).get(message.task_id)
        except AccError:
            return None
        return task if task.state in INTERRUPTED else None

    async def _record_task(self, task: Task, *, problem: str = "") -> _Outcome:
        if task.state in INTERRUPTED:
            prefix = f"{problem}\n" if problem else ""
            requests = [
                one._replace(message=prefix + one.message).to_record()
                for one in input_requests(task)
            ]
            published = await self._publish(task.artifacts)
            return await self._record(
                state=task.state, task=task.id, requests=requests, published=published
            )
        if task.state in ACTIVE:
            return await self._record(state=task.state, task=task.id, since=self._since)
        if task.state is not TaskState.COMPLETED:
            return await self._record(text=status_text(task), state=task.state, task=task.id)
        answer = answer_artifact(task)
        unpublished = tuple(one for one in task.artifacts if not self._is_published(one))
        published = await self._publish(attachments(replace(task, artifacts=unpublished), answer))
        text = answer_text(task, answer)
        return await self._record(text=text, state=task.state, task=task.id, published=published)

    async def _publish(self, artifacts: Iterable[TaskArtifact]) -> dict[str, str]:
        """Publish new and changed artifacts; only at the end, so that replay does the same."""
        published: dict[str, str] = {}
        for artifact in artifacts:
            if artifact.parts and not self._is_published(artifact):
                await self._ctx.artifacts.publish(_artifact_name(artifact), *artifact.parts)
                published[artifact.artifact_id] = _digest(artifact)
        return published

    def _is_published(self, artifact: TaskArtifact) -> bool:
        digest = self._published.get(artifact.artifact_id)
        return digest is not None and digest == _digest(artifact)

    async def _record(
        self,
        *,
        state: str = "",
        task: str = "",
        text: str = "",
        requests: list[dict[str, Any]] | None = None,
        published: Mapping[str, str] | None = None,
        since: float = 0.0,
    ) -> _Outcome:
        limit = self._ctx.config.max_answer_characters
        if len(text) > limit:
            raise RemoteFailed(
                f"agent {self._agent.name!r}: the remote answer exceeds {limit} characters",
                remote_code="too_large",
            )
        outcome = {
            "url": self._agent.url,
            "state": str(state),
            "task": task,
            "text": text,
            "requests": requests,
            "published": dict(published or {}),
            **({"since": since} if since else {}),
        }
        return _Outcome.from_event(
            await self._ctx.emit(EventKind.STATE, detail={_OUTCOME: outcome})
        )

    async def _on_update(self, task: Task, update: StatusUpdate | ArtifactUpdate) -> None:
        ctx = self._ctx
        if isinstance(update, StatusUpdate):
            message = update.status.message
            text = "" if message is None else text_of(message.parts)
            if update.status.state is TaskState.WORKING and text:
                await ctx.progress(text, detail={"remote": task.id})
            return
        artifact = update.artifact
        text = text_of([part for part in artifact.parts if is_plain_text(part)])
        if not ctx.run.recorder.wants_deltas or not text:
            return
        if not update.append and self._is_published(artifact):
            return
        if self._streamed_artifact is None or artifact.artifact_id == ANSWER:
            self._streamed_artifact = artifact.artifact_id
        if self._streamed_artifact == artifact.artifact_id:
            await ctx.emit(EventKind.DELTA, parts=text_part(text))


def outgoing_parts(ctx: RunContext) -> tuple[Part, ...]:
    """Return the message to an agent with its own history, with the turns of other agents.

    Turns before the last answer of that agent are left out: it has them already.
    """
    turns = [(turn.author, text_of(turn.parts)) for turn in ctx.current_branch.thread]
    own = [index for index, (author, _) in enumerate(turns) if author == ctx.agent.name]
    recent = turns[own[-1] + 1 :] if own else turns
    others = [f"[{author}]\n{text}" for author, text in recent if text]
    if own and others:
        return text_part("\n\n".join(others))
    text = text_part("\n\n".join([ctx.message, *others]))
    message = ctx.run.request.message
    if ctx.message != text_of(message):
        return text
    return (*text, *(part for part in message if part.text is None))


async def _replay(ctx: RunContext) -> _Outcome | None:
    """Return the recorded outcome of a call after replaying its events, or None."""
    recorded = ctx.recorded()
    end = next((index for index, one in enumerate(recorded) if _OUTCOME in one.detail), None)
    if end is None:
        return None
    event: Event | None = None
    for one in recorded[: end + 1]:
        event = await ctx.emit(one.kind)
    assert event is not None  # noqa: S101 - the slice has at least one event
    return _Outcome.from_event(event)


async def _request_inputs(
    ctx: RunContext, requests: Sequence[RemoteInputRequest]
) -> list[tuple[RemoteInputRequest, InputAnswer]]:
    """Return the answers to all requests of the remote task; pause the run until they exist."""
    answers: list[tuple[RemoteInputRequest, InputAnswer]] = []
    pending: list[InputRequest] = []
    now = ctx.services.clock.now()
    for request in requests:
        expires_at = request.expires_at
        try:
            _, answer = await ctx.fork("asked").ask_with_request(
                request.message,
                kind=request.kind,
                tool=request.tool,
                arguments=request.arguments,
                schema=request.schema,
                expires_after=None if expires_at is None else max(expires_at - now, 0.0),
            )
        except RunPaused as pause:
            pending += pause.requests
        else:
            answers.append((request, answer))
    if pending:
        raise RunPaused(pending)
    return answers


def _artifact_name(artifact: TaskArtifact) -> str:
    name = artifact.name or artifact.artifact_id
    printable = "".join(char for char in name if char.isprintable()).strip()
    return printable[:_MAX_NAME_LENGTH] or "artifact"


def _digest(artifact: TaskArtifact) -> str:
    return sha256(msgspec.json.encode((artifact.name, artifact.parts))).hexdigest()


async def _cancel(
    run: Run,
    agent: RemoteAgent,
    connect: Callable[[RemoteEndpoint], RemoteAgentPort],
    task_id: str,
) -> None:
    try:
        async with asyncio.timeout(CANCEL_TIMEOUT_SECONDS):
            await connect(agent.endpoint).cancel(task_id)
    except Exception as error:  # noqa: BLE001 - the run has ended, whatever happens
        reason = str(error) or f"no response within {CANCEL_TIMEOUT_SECONDS:g} seconds"
        log.warning(
            "remote task of agent %r was not canceled: %s",
            agent.name,
            reason,
            extra=_log_extra(run),
        )


def _remote_agents(root: BaseAgent) -> Iterator[RemoteAgent]:
    """Yield the remote agents of a tree, including those that are used as tools."""
    for agent in root.walk():
        if isinstance(agent, RemoteAgent):
            yield agent
        for tool in getattr(agent, "own_tools", {}).values():
            if isinstance(tool, AgentTool):
                yield from _remote_agents(tool.agent)


def _waiting_tasks(events: Iterable[Event]) -> dict[tuple[str, str], list[str]]:
    """Return the ids of the tasks that need input or are active, by agent name and URL."""
    is_waiting: dict[tuple[str, str, str], bool] = {}
    for event in events:
        outcome = event.detail.get(_OUTCOME)
        if event.kind is EventKind.STATE and isinstance(outcome, Mapping) and "url" in outcome:
            key = event.author, outcome["url"], outcome["task"]
            is_waiting[key] = outcome["requests"] is not None or outcome["state"] in ACTIVE
    tasks: dict[tuple[str, str], list[str]] = {}
    for (name, url, task_id), waits in is_waiting.items():
        if waits:
            tasks.setdefault((name, url), []).append(task_id)
    return tasks


def _log_extra(run: Run) -> dict[str, str]:
    return {"run_id": run.request.run_id, "trace_id": run.request.call.trace_id}
