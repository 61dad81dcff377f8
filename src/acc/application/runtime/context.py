"""What an agent is given while it runs: the question, the state, the services, a way to tell."""

import asyncio
from collections.abc import Mapping, MutableMapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec.structs import replace

from acc.application.runtime.artifacts import fetched
from acc.application.runtime.interrupts import RunPaused, RunRejected
from acc.application.runtime.run import Branch, Run, Services, written_by
from acc.application.runtime.state import StateView
from acc.domain.errors import InvalidInput, ReplayMismatch, StateNotGranted
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.approval import InputAnswer, InputRequest, RequestKind
from acc.domain.value_objects.base import Value
from acc.domain.value_objects.content import Part, Usage, text_part
from acc.domain.value_objects.endpoint import DownloadLimits
from acc.domain.value_objects.event import NO_ACTIONS, PASSING, Event, EventActions, EventKind
from acc.domain.value_objects.run import CallContext, Grant, RunConfig, RunStatus
from acc.domain.value_objects.session import StoredArtifact
from acc.ports.outbound.model_ports import PromptMessage

if TYPE_CHECKING:
    from acc.application.agents.base import BaseAgent


PARTS = msgspec.json.Decoder(tuple[Part, ...])
_REQUESTS = msgspec.json.Decoder(InputRequest)
#: So often others get their turn, and the clock its say, in a run where nothing else is waited for.
_BREATHE_EVERY = 64


class RunContext:
    """What one agent is given for one run of its `run` method."""

    __slots__ = (
        "_children",
        "_is_last_word",
        "_steps",
        "agent",
        "call",
        "escalated",
        "files",
        "history",
        "identity",
        "is_draft",
        "line",
        "message",
        "path",
        "run",
        "state",
        "text",
        "transfer_to",
    )

    def __init__(
        self,
        run: Run,
        agent: "BaseAgent",
        line: Branch,
        *,
        path: str,
        message: str,
        parent: "RunContext | None" = None,
    ) -> None:
        self.run = run
        self.agent = agent
        self.line = line
        self.path = path
        self.message = message
        self.text = ""
        #: Whether the text is on record and has not been said yet.
        self.is_draft = False
        self.escalated = False
        self.transfer_to: BaseAgent | None = None
        self.state: MutableMapping[str, Any] = line.state
        #: Patterns of artifact names; a name must fit one of each.
        self.files: tuple[tuple[str, ...], ...] = ()
        self.call: CallContext = run.call
        self.history = self.identity = True
        if parent is not None:
            self.files = parent.files
            self.call = parent.call
            self.history = parent.history
            self.identity = parent.identity
        self._steps = 0
        self._is_last_word = False
        self._children: dict[str, int] = {}

    @property
    def services(self) -> Services:
        """Return the ports that a run may use."""
        return self.run.services

    @property
    def config(self) -> RunConfig:
        """Return the run's limits."""
        return self.run.config

    @property
    def branch(self) -> str:
        """Return the parallel branch this runs in, such as `root.left.a`, or nothing."""
        return self.line.branch

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self.run.run_id

    @property
    def session_id(self) -> str:
        """Return the session's id."""
        return self.run.key.session_id

    @property
    def user_id(self) -> str:
        """Return the user's id, or nothing where the parent does not grant it."""
        return self.run.key.user_id if self.identity else ""

    @property
    def artifacts(self) -> "Artifacts":
        """Return the files that the agents of this session share."""
        return Artifacts(self)

    @property
    def actions(self) -> "Actions":
        """Return what the agent asks of the run, in the words that a tool has for it."""
        return Actions(self)

    async def emit(
        self,
        kind: EventKind,
        *,
        parts: tuple[Part, ...] = (),
        usage: Usage | None = None,
        request: InputRequest | None = None,
        actions: EventActions = NO_ACTIONS,
        detail: Mapping[str, Any] | None = None,
    ) -> Event:
        """Put something on record, with what was written to the state since the last event."""
        if kind.__class__ is not EventKind or parts.__class__ is not tuple:
            raise InvalidInput("an event has a kind, which is an EventKind, and a tuple of Parts")
        run, line, call = self.run, self.line, self.call
        seq, step = 0, ""
        if kind not in PASSING:
            step = f"{self.path}#{self._steps}"
            self._steps += 1
            if run.journal:
                if (recorded := run.journal.get(step)) is not None:
                    return self._replay(recorded, kind)
                run.catch_up(line)
            if line.state.pending:
                actions = _with_delta(actions, *line.state.take(), main=line.main)
            seq = run.seq = run.seq + 1
        event = Event(
            kind=kind,
            run_id=run.run_id,
            author=self.agent.name,
            branch=line.branch,
            seq=seq,
            step=step,
            at=run.services.clock.now(),
            request_id=call.request_id,
            trace_id=call.trace_id,
            caller=call.caller,
            parts=parts,
            actions=actions,
            usage=usage,
            request=request,
            detail=detail or {},
        )
        if not seq:
            await run.show(event)
        elif kind is EventKind.MESSAGE and self._is_last_word:
            run.hold(event)
        else:
            await run.record(event)
            if not seq % _BREATHE_EVERY:
                await asyncio.sleep(0)
        return event

    def _replay(self, recorded: Event, kind: EventKind) -> Event:
        if recorded.kind is not kind:
            raise ReplayMismatch(
                f"{recorded.step}: {recorded.kind} is on record, and now {kind} came; an agent that"
                " is resumed must do again what it did, so take time and chance from the state"
            )
        self.line.state.apply(*written_by(recorded, self.line), seq=recorded.seq)
        self.run.replayed.add(recorded.seq)
        return recorded

    async def _begin_anew(self) -> None:
        """Let all that runs beside this do again what is on record, and know of it."""
        run, replayed = self.run, -1
        while len(run.replayed) > replayed:
            replayed = len(run.replayed)
            await asyncio.sleep(0)
        run.catch_up(self.line)

    def upcoming(self) -> Event | None:
        """Return what is on record for the next step, where the run is being resumed."""
        journal = self.run.journal
        return journal.get(f"{self.path}#{self._steps}") if journal else None

    def on_record(self) -> list[Event]:
        """Return everything that is on record for this context from here on."""
        found: list[Event] = []
        journal = self.run.journal
        if not journal:
            return found
        while (event := journal.get(f"{self.path}#{self._steps + len(found)}")) is not None:
            found.append(event)
        return found

    async def skip(self) -> None:
        """Take over all that is on record for this context, of its agent and of those under it."""
        for event in self.on_record():
            self.run.ledger.passed_over(event)
            await self.emit(event.kind)
        self.pass_over()

    def pass_over(self) -> None:
        """Take over what agents under this context did and wrote, without running them again."""
        for event in self.run.journal.values():
            if event.step.startswith(f"{self.path}/"):
                self.run.replayed.add(event.seq)
                if event.branch == self.line.branch:
                    self._replay(event, event.kind)
                self.run.ledger.passed_over(event)

    async def conclude(self, text: str, *, usage: Usage | None = None) -> Event:
        """Answer with nothing to be done after it: this may be stored with how the run ends."""
        if self.agent.after_agent_callback is not None:
            return await self._conclude_later(text, usage)
        is_outermost = self.path.rfind("/") == 0 and self.transfer_to is None
        self._is_last_word = is_outermost and not self.run.journal
        try:
            return await self.say(text, usage=usage)
        finally:
            self._is_last_word = False

    async def _conclude_later(self, text: str, usage: Usage | None) -> Event:
        """Put down an answer that a callback may still replace: it is on record, and not said."""
        recorded = self.upcoming()
        if recorded is not None and recorded.kind is EventKind.MESSAGE:
            return await self.say(text, usage=usage)  # earlier versions said it at once
        self._check_text(text)
        event = await self.emit(EventKind.DRAFT, parts=text_part(text), usage=usage)
        self.text, self.is_draft = event.text, True
        return event

    async def say(self, text: str, *, usage: Usage | None = None) -> Event:
        """Answer: put a message on record, and let the agents after this one hear it."""
        self._check_text(text)
        text = replace_surrogates(text)
        parts = (Part(text=text),)
        event = await self.emit(EventKind.MESSAGE, parts=parts, usage=usage)
        self.text = text if event.parts is parts else event.text
        self.line.thread.append(
            PromptMessage(role="agent", author=self.agent.name, parts=event.parts)
        )
        return event

    async def reply(self, text: str) -> Event:
        """Answer at once with a message and no task, where the root agent `replies_directly`."""
        self._check_text(text)
        event = await self.emit(EventKind.MESSAGE, parts=text_part(text), detail={"direct": True})
        self.text = event.text
        return event

    def reject(self, reason: str) -> NoReturn:
        """End the run: this is something that the agent does not do."""
        raise RunRejected(self.agent.name, reason)

    def _check_text(self, text: object) -> None:
        if not isinstance(text, str):
            raise InvalidInput(
                f"{self.agent.name!r} said a {type(text).__name__}, which is no text"
            )

    async def progress(self, text: str, **detail: Any) -> None:
        """Show how far a long piece of work has come; this is not stored."""
        self._check_text(text)
        await self.emit(EventKind.PROGRESS, parts=text_part(text), detail=detail)

    async def ask_person(self, message: str, **fields: Any) -> InputAnswer:
        """Return a person's answer; until there is one, the run pauses here.

        The fields are those of InputRequest: `schema` for what to answer, `expires_after` seconds.
        """
        return (await self.ask(message, **fields))[1]

    async def ask(
        self,
        message: str,
        *,
        kind: RequestKind = RequestKind.INPUT,
        tool: str = "",
        arguments: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | None = None,
        expires_after: float | None = None,
    ) -> tuple[InputRequest, InputAnswer]:
        """Return what a person was asked and the answer; until there is one, the run pauses."""
        run = self.run
        event = self.upcoming()
        request = None if event is None else event.request
        if request is None:
            ttl = expires_after
            if ttl is None and kind is RequestKind.CONFIRMATION:
                ttl = run.config.approval_ttl
            request = InputRequest(
                id=run.next_request_id(),
                kind=kind,
                agent=self.agent.name,
                message=message,
                tool=tool,
                arguments=dict(arguments or {}),
                schema=dict(schema or {}),
                expires_at=None if ttl is None else run.services.clock.now() + ttl,
            )
            check_readable(request, _REQUESTS, f"what {self.agent.name!r} asks")
        await self.emit(EventKind.INPUT_REQUIRED, request=request)
        answer = run.answers.get(request.id)
        if answer is None:
            raise RunPaused([request])
        if request.id in run.fresh:  # nobody has ever been beyond this point
            await self._begin_anew()
        return request, answer

    async def fetch(self, source: Part | str, **terms: Any) -> Part:
        """Return a file that a part, or a URL, refers to, as a part with its raw bytes.

        The terms are those of FileTerms: `types`, `max_bytes` and `timeout`. Addresses that are not
        public are refused, redirects to them too, unless the operator allows them. A part that is
        no reference is returned as it is. Nothing is put on record: a run that is resumed fetches
        again what it has not saved.
        """
        return await fetched(self.services.fetch, source, DownloadLimits(**terms))

    async def run_agent(self, agent: "BaseAgent", *, message: str | None = None) -> "RunContext":
        """Run another agent, and whoever it transfers to, and return its finished context."""
        context = self.child(agent, message=message)
        await agent.execute(context)
        while (target := context.transfer_to) is not None:
            left, context = context, self.child(target, message=message)
            await target.execute(context)
            context.leave_with(left)
        if context.line is not self.line and context.text:
            self.line.thread.append(context.as_heard())
        return context

    def leave_with(self, before: "RunContext") -> None:
        """Leave the loop that who handed over has left; runs of earlier versions went round."""
        if before.escalated and not self.run.is_old:
            self.escalated = True

    def as_heard(self) -> PromptMessage:
        """Return the agent's answer as those who come after it hear it."""
        return PromptMessage(role="agent", author=self.agent.name, parts=text_part(self.text))

    def child(
        self, agent: "BaseAgent", *, line: Branch | None = None, message: str | None = None
    ) -> "RunContext":
        """Return a context for a delegated agent, narrowed by what this agent grants it."""
        context = RunContext(
            self.run,
            agent,
            line or self.line,
            path=self._path_of(agent.name),
            message=self.message if message is None else message,
            parent=self,
        )
        # A view is never the line's own state, and asking what it is takes a while.
        if self.state is not self.line.state and isinstance(self.state, StateView):
            context.state = self.state if line is None else self.state.over(line.state)
        for parent, grant in self._grants_for(agent):
            context._narrow(grant, parent)
        return context

    def _grants_for(self, agent: "BaseAgent") -> list[tuple[str, Grant]]:
        """Return what all who stand between this agent and another grant, outermost first."""
        found: list[tuple[str, Grant]] = []
        while agent is not self.agent and (parent := agent.parent) is not None:
            if agent.name in parent.grants:
                found.insert(0, (parent.name, parent.grants[agent.name]))
            agent = parent
        return found

    def fork(self, name: str) -> "RunContext":
        """Return a context of the same agent with steps of its own, for work beside its loop."""
        context = RunContext(
            self.run,
            self.agent,
            self.line,
            path=self._path_of(name),
            message=self.message,
            parent=self,
        )
        context.state = self.state
        return context

    def _path_of(self, name: str) -> str:
        count = self._children.get(name, 0)
        self._children[name] = count + 1
        return f"{self.path}/{name}:{count}" if count else f"{self.path}/{name}"

    def _narrow(self, grant: Grant, parent: str) -> None:
        if "*" not in grant.read or "*" not in grant.write:
            self.state = StateView(self.state, grant.read, grant.write)
        held = self.call.permissions
        given = grant.permissions
        if given is not None and held is not None:
            given = frozenset(given) & frozenset(held)
        self.call = replace(
            self.call,
            caller=f"agent://{parent}",
            permissions=held if given is None else given,
        )
        if self.history and not grant.history:
            self.history = False
            self.line = self.line.alone()
        self.identity = self.identity and grant.identity
        if "*" not in grant.artifacts:
            self.files = (*self.files, tuple(grant.artifacts))


def _with_delta(
    actions: EventActions, delta: Mapping[str, Any], removed: tuple[str, ...], *, main: bool
) -> EventActions:
    """Return actions with what was written; in a branch it counts only once that has joined."""
    if main:
        return replace(actions, state_delta=delta, state_removed=removed)
    return replace(actions, branch_delta=delta, branch_removed=removed)


class Actions:
    """What an agent asks of the run. `escalate` ends the innermost loop."""

    __slots__ = ("_context",)

    def __init__(self, context: RunContext) -> None:
        self._context = context

    @property
    def escalate(self) -> bool:
        """Tell whether the innermost loop is to end."""
        return self._context.escalated

    @escalate.setter
    def escalate(self, ends: bool) -> None:
        self._context.escalated = ends


class Artifacts:
    """The versioned files of a session, as an agent or a tool handles them."""

    __slots__ = ("_context",)

    def __init__(self, context: RunContext) -> None:
        self._context = context

    async def save(
        self, name: str, content: str | bytes, *, media_type: str = "text/plain; charset=utf-8"
    ) -> int:
        """Store a further version, put that on record, and return its number."""
        _check_artifact_name(name)
        self._check_granted(name)
        data = _as_bytes(name, content)
        if not isinstance(media_type, str) or not media_type.isprintable():
            raise InvalidInput(f"artifact {name!r}: {media_type!r} is no media type")
        context = self._context
        recorded = context.upcoming()
        if recorded is not None and recorded.kind is EventKind.ARTIFACT:
            await context.emit(EventKind.ARTIFACT)
            return int(recorded.detail["version"])
        run = context.run
        version = await run.services.artifacts.save(run.key, name, data, media_type)
        detail = {"name": name, "version": version, "media_type": media_type, "size": len(data)}
        await context.emit(EventKind.ARTIFACT, detail=detail)
        return version

    async def publish(
        self, name: str, *parts: Part | str, append: bool = False, last: bool = True
    ) -> None:
        """Hand over an outcome, or a further piece of one, to whoever follows the run.

        The parts are on record with the run and not kept as a file. A piece that is not the `last`
        is to be continued by others with the same name and `append=True`.
        """
        _check_artifact_name(name)
        self._check_granted(name)
        given = tuple(Part(text=part) if isinstance(part, str) else part for part in parts)
        if not given or not all(isinstance(part, Part) for part in given):
            raise InvalidInput(f"artifact {name!r} is published with texts or Parts, at least one")
        check_readable(given, PARTS, f"artifact {name!r}")
        detail = {"name": name, "append": append, "last": last}
        await self._context.emit(EventKind.ARTIFACT, parts=given, detail=detail)

    async def load(self, name: str, version: int | None = None) -> StoredArtifact | None:
        """Return a version, the newest if none is named, or None."""
        if not isinstance(name, str) or not isinstance(version, int | None):
            raise InvalidInput(f"there is no version {version!r} of an artifact {name!r}")
        if not self._granted(name):
            return None
        run = self._context.run
        return await run.services.artifacts.load(run.key, name, version)

    async def names(self) -> tuple[str, ...]:
        """Return what there is."""
        run = self._context.run
        return tuple(filter(self._granted, await run.services.artifacts.names(run.key)))

    def _check_granted(self, name: str) -> None:
        if not self._granted(name):
            raise StateNotGranted(f"artifact.{name}", "the parent does not grant this file")

    def _granted(self, name: str) -> bool:
        return all(
            any(fnmatchcase(name, pattern) for pattern in patterns)
            for patterns in self._context.files
        )


def _check_artifact_name(name: str) -> None:
    is_text = isinstance(name, str)
    if not is_text or not name.strip() or len(name) > 256 or not name.isprintable():
        raise InvalidInput(f"{name!r} is no name for an artifact")


def _as_bytes(name: str, content: object) -> bytes:
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    if not isinstance(content, str):
        kind = type(content).__name__
        raise InvalidInput(f"artifact {name!r} is saved as a text or as bytes, not as a {kind}")
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"artifact {name!r} cannot be saved: {error}") from None


def check_readable(value: object, decoder: "msgspec.json.Decoder[Any]", what: str) -> None:
    """Refuse what could not be read from a record again, and so would spoil the session."""
    try:
        decoder.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"{what} cannot be kept: {error}") from None


class RunResult(Value, frozen=True, kw_only=True):
    """How a run ended: its answer, and all that led to it."""

    run_id: str
    status: RunStatus
    text: str
    events: tuple[Event, ...]
    state: Mapping[str, Any]
    usage: Usage
    requests: tuple[InputRequest, ...] = ()

    @property
    def answered_by(self) -> str:
        """Return the name of the agent that spoke last."""
        spoken = (e.author for e in reversed(self.events) if e.kind is EventKind.MESSAGE)
        return next((author for author in spoken if author != "user"), "")
