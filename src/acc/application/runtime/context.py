"""The context of one agent in one run: message, state, services, events."""

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn

import msgspec
from msgspec.structs import replace

from acc.application.events.cloud_events import new_event
from acc.application.runtime.artifacts import Artifacts, download
from acc.application.runtime.caller_rules import caller_grant, filtered_state
from acc.application.runtime.inputs import check_storable
from acc.application.runtime.interrupts import RunPaused, RunRejected
from acc.application.runtime.json_types import encode_json
from acc.application.runtime.run import Branch, Run, Services, state_changes
from acc.application.runtime.state import StateView
from acc.application.runtime.type_variables import ContextDepsT
from acc.domain.call_options import explain_attributes, explains_call
from acc.domain.errors import InvalidInput, ReplayMismatch
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.approval import InputAnswer, InputRequest, RequestKind
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.domain.value_objects.content import ChatMessage, Part, Usage, text_of, text_part
from acc.domain.value_objects.event import NO_ACTIONS, TRANSIENT, Event, EventActions, EventKind
from acc.domain.value_objects.run import CallContext, Grant, RunConfig
from acc.ports.outbound.tracing_ports import SpanPort

if TYPE_CHECKING:
    from acc.application.agents.base import BaseAgent

#: Attributes by the names that other libraries have for them.
_CONTEXT_HINTS = {
    "session": "use ctx.state for its state and ctx.session_id for its id",
    "user_content": "message",
    "query": "message",
    "input": "message",
    "invocation_id": "run_id",
    "agent_name": "use ctx.agent.name",
}
_REQUEST_DECODER = msgspec.json.Decoder(InputRequest)
#: An output that was not set: it is derived from the text of the answer.
UNSET: Any = msgspec.UNSET
_YIELD_INTERVAL = 64  # events, so that timeouts can fire


@explains_call(advice="runners create it")
@explain_attributes(_CONTEXT_HINTS)
class RunContext(Generic[ContextDepsT]):
    """What one agent gets for one call of its `run` method.

    `RunContext[Deps]` has the type of `ctx.deps`.
    """

    __slots__ = (
        "_child_counts",
        "_is_final",
        "_steps",
        "agent",
        "artifact_grants",
        "call",
        "config",
        "current_branch",
        "escalated",
        "history",
        "identity",
        "is_draft",
        "messages",
        "output",
        "parts",
        "path",
        "published",
        "run",
        "services",
        "span",
        "state",
        "text",
        "transfer_to",
        "unpublished",
    )

    def __init__(
        self,
        run: Run,
        agent: "BaseAgent",
        branch: Branch,
        *,
        path: str,
        parts: tuple[Part, ...],
        parent: "RunContext | None" = None,
    ) -> None:
        self.run = run
        #: The ports that the run may use, and its limits.
        self.services: Services = run.services
        self.config: RunConfig = run.request.config
        self.agent = agent
        self.current_branch = branch
        self.path = path
        #: The message to the agent.
        self.parts = parts
        self.text = ""
        #: The answer as a value of the output type; UNSET if it is the text.
        self.output: object = UNSET
        #: The messages of the last model request of the agent.
        self.messages: Sequence[ChatMessage] = ()
        #: Whether the text is recorded as a draft and not yet as a message.
        self.is_draft = False
        self.escalated = False
        self.transfer_to: BaseAgent | None = None
        self.state: MutableMapping[str, JsonData] = branch.state
        #: Patterns of artifact names; a name must match one pattern of each tuple.
        self.artifact_grants: tuple[tuple[str, ...], ...] = ()
        self.call: CallContext = run.request.call
        self.history = self.identity = True
        if parent is not None:
            self.artifact_grants = parent.artifact_grants
            self.call = parent.call
            self.history = parent.history
            self.identity = parent.identity
        else:
            self.state = filtered_state(run.request.root, branch.state, self.call.caller)
            self._apply_grant(caller_grant(run.request.root, self.call.caller), self.call.caller)
        #: The span that spans of this context belong to.
        self.span: SpanPort | None = run.span if parent is None else parent.span
        #: Files and data that the agent published with its answer.
        self.published: tuple[Part, ...] = ()
        self._steps = 0
        self._is_final = False
        self._child_counts: dict[str, int] = {}
        self.unpublished: tuple[CloudEvent, ...] = ()

    @property
    def message(self) -> str:
        """Return the text of the message to the agent."""
        return text_of(self.parts)

    @property
    def deps(self) -> ContextDepsT:
        """Return the dependencies that the run was started with; they are never stored."""
        deps: ContextDepsT = self.run.deps
        return deps

    @property
    def usage(self) -> Usage:
        """Return the usage of the run so far."""
        return self.run.budget.usage

    @property
    def branch(self) -> str:
        """Return the name of the parallel branch, such as `root.left.a`, or an empty string."""
        return self.current_branch.name

    @property
    def run_id(self) -> str:
        """Return the id of the run."""
        return self.run.request.run_id

    @property
    def session_id(self) -> str:
        """Return the id of the session."""
        return self.run.request.key.session_id

    @property
    def user_id(self) -> str:
        """Return the id of the user, empty if the parent does not grant it."""
        return self.run.request.key.user_id if self.identity else ""

    @property
    def artifacts(self) -> Artifacts:
        """Return the files that the agents of this session share."""
        return Artifacts(self)

    @property
    def actions(self) -> "Actions":
        """Return the actions that the agent can request, as a tool context has them."""
        return Actions(self)

    # Events

    async def emit(
        self,
        kind: EventKind,
        *,
        parts: tuple[Part, ...] = (),
        usage: Usage | None = None,
        request: InputRequest | None = None,
        actions: EventActions = NO_ACTIONS,
        detail: Mapping[str, JsonData] | None = None,
    ) -> Event:
        """Record an event with the state changes since the last one, or replay it."""
        if kind.__class__ is not EventKind or parts.__class__ is not tuple:
            raise InvalidInput("emit expects an EventKind and a tuple of Parts")
        run, branch, call = self.run, self.current_branch, self.call
        is_stored, step = kind not in TRANSIENT, ""
        if is_stored:
            step = f"{self.path}#{self._steps}"
            self._steps += 1
            journal = run.journal
            if journal.steps:
                if (recorded := journal.steps.get(step)) is not None:
                    return self._replay(recorded, kind)
                journal.catch_up(branch)
            if self.unpublished or branch.state.pending:
                actions = self._with_changes(actions)
        event = Event(
            kind=kind,
            run_id=run.request.run_id,
            author=self.agent.name,
            branch=branch.name,
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
        if kind is EventKind.ARTIFACT:
            self.published += parts
        if not is_stored:
            await run.recorder.show(event)
        elif self._is_final and kind is EventKind.MESSAGE:
            run.recorder.defer(event)
        else:
            event = (await run.recorder.record(event))[-1]
            if not run.recorder.last_seq % _YIELD_INTERVAL:
                await asyncio.sleep(0)
        return event

    def publish(self, event_type: str, payload: JsonData) -> str:
        """Publish an event with the next step and its state changes; return its message id.

        They are one transaction. If the agent fails before its next step, nothing is published.
        """
        step = f"{self.path}#{self._steps}/{len(self.unpublished)}"
        event = new_event(self, event_type, payload, step=step)
        self.unpublished += (event,)
        return event.id

    def _with_changes(self, actions: EventActions) -> EventActions:
        """Return actions with pending changes and events; those of a branch count once it joins."""
        branch, published, self.unpublished = self.current_branch, self.unpublished, ()
        delta, removed = branch.state.flush()
        if branch.is_main:
            return replace(actions, state_delta=delta, state_removed=removed, published=published)
        branch.published += published
        changes = {"branch_delta": delta, "branch_removed": removed}
        return replace(actions, **changes, branch_published=published)

    async def record_model_call(self, detail: Mapping[str, JsonData], usage: Usage | None) -> None:
        """Record the request of a model call. It is not a step, so that a replay ignores it."""
        event = Event(
            kind=EventKind.MODEL_REQUEST,
            run_id=self.run_id,
            author=self.agent.name,
            branch=self.branch,
            at=self.services.clock.now(),
            request_id=self.call.request_id,
            trace_id=self.call.trace_id,
            caller=self.call.caller,
            usage=usage,
            detail=detail,
        )
        await self.run.recorder.record(event)

    async def say(self, text: str, *, usage: Usage | None = None, output: object = UNSET) -> Event:
        """Record a message of the agent, which later agents of the run see.

        `output` is the message as a value, if it is JSON of an output type.
        """
        self._check_text(text)
        self.output = output
        text = replace_surrogates(text)
        parts = (Part(text=text),)
        event = await self.emit(EventKind.MESSAGE, parts=parts, usage=usage)
        self.text = text if event.parts is parts else event.text
        shown = (*event.parts, *self.published)
        message = ChatMessage(role="assistant", author=self.agent.name, parts=shown)
        self.current_branch.thread.append(message)
        return event

    async def finish(
        self, answer: object, *, usage: Usage | None = None, output: object = UNSET
    ) -> Event:
        """Record the final message of the agent, after which it does nothing.

        An answer that is not a str is recorded as JSON. The message of the outermost agent is
        stored together with the end of the run.
        """
        text, output = (answer, output) if isinstance(answer, str) else (self._json(answer), answer)
        if self.agent.after_agent_callback or "after_agent_callback" in self.run.plugins:
            # The callback may replace the text, so it is recorded without being a message.
            self.output = output
            event = await self.emit(EventKind.DRAFT, parts=text_part(text), usage=usage)
            self.text, self.is_draft = event.text, True
            return event
        is_outermost = self.path.rfind("/") == 0 and self.transfer_to is None
        self._is_final = is_outermost and not self.run.journal.steps
        try:
            return await self.say(text, usage=usage, output=output)
        finally:
            self._is_final = False

    def _json(self, answer: object) -> str:
        """Return an answer as JSON; InvalidInput if it cannot be converted."""
        try:
            return encode_json(answer)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise InvalidInput(
                f"agent {self.agent.name!r} returned {type(answer).__name__}; expected str, or a "
                f"value that can be converted to JSON: {error}"
            ) from None

    def adopt(self, child: "RunContext") -> None:
        """Answer with the answer of another agent, if it has one."""
        if child.text:
            self.text, self.output = child.text, child.output

    async def reply(self, text: str) -> Event:
        """Reply with a message and no task; for root agents with `replies_directly`."""
        self._check_text(text)
        event = await self.emit(EventKind.MESSAGE, parts=text_part(text), detail={"direct": True})
        self.text = event.text
        return event

    def reject(self, reason: str) -> NoReturn:
        """End the run as rejected: the agent does not do what it was asked."""
        raise RunRejected(self.agent.name, reason)

    async def progress(self, text: str, *, detail: Mapping[str, JsonData] | None = None) -> None:
        """Show the progress of a long operation; this is not stored."""
        self._check_text(text)
        await self.emit(EventKind.PROGRESS, parts=text_part(text), detail=detail)

    def _check_text(self, text: object) -> None:
        if not isinstance(text, str):
            raise InvalidInput(
                f"agent {self.agent.name!r} returned {type(text).__name__}; expected str"
            )

    # Replay

    def next_recorded(self) -> Event | None:
        """Return the recorded event of the next step, if the run is resumed."""
        steps = self.run.journal.steps
        return steps.get(f"{self.path}#{self._steps}") if steps else None

    def recorded(self) -> list[Event]:
        """Return the recorded events of all further steps of this context."""
        events: list[Event] = []
        steps = self.run.journal.steps
        if not steps:
            return events
        while (event := steps.get(f"{self.path}#{self._steps + len(events)}")) is not None:
            events.append(event)
        return events

    async def skip_recorded(self) -> None:
        """Replay all recorded events of this agent and those below without running them."""
        for event in self.recorded():
            self.run.budget.count_recorded(event)
            await self.emit(event.kind)
        self.skip_recorded_children()

    def skip_recorded_children(self) -> None:
        """Replay the recorded events of agents below this one without running them."""
        for event in self.run.journal.steps.values():
            if event.step.startswith(f"{self.path}/"):
                self.run.journal.replayed.add(event.seq)
                if event.branch == self.current_branch.name:
                    self._replay(event, event.kind)
                self.run.budget.count_recorded(event)

    def _replay(self, recorded: Event, kind: EventKind) -> Event:
        if recorded.kind is not kind:
            raise ReplayMismatch(
                f"{recorded.step}: {recorded.kind} is recorded, but {kind} was emitted; agents "
                "must be deterministic: read the time and random numbers from the state"
            )
        branch = self.current_branch
        branch.state.apply(*state_changes(recorded, branch), seq=recorded.seq)
        self.unpublished = ()
        branch.published += recorded.actions.branch_published
        self.run.journal.replayed.add(recorded.seq)
        if kind is EventKind.ARTIFACT:
            self.published += recorded.parts
        return recorded

    # Input

    async def request_input(
        self,
        message: str,
        *,
        kind: RequestKind = RequestKind.INPUT,
        tool: str = "",
        arguments: Mapping[str, JsonData] | None = None,
        schema: Mapping[str, JsonData] | None = None,
        expires_after: float | None = None,
    ) -> InputAnswer:
        """Return a person's answer; the run pauses here until there is one.

        `schema` is a JSON schema of the answer's value. The request expires after `expires_after`
        seconds.
        """
        _, answer = await self.ask_with_request(
            message,
            kind=kind,
            tool=tool,
            arguments=arguments,
            schema=schema,
            expires_after=expires_after,
        )
        return answer

    async def ask(
        self,
        message: str,
        *,
        schema: Mapping[str, JsonData] | None = None,
        expires_after: float | None = None,
    ) -> InputAnswer:
        """Return a person's answer, like `ToolContext.ask`; short for `request_input`."""
        return await self.request_input(message, schema=schema, expires_after=expires_after)

    async def ask_with_request(
        self,
        message: str,
        *,
        kind: RequestKind = RequestKind.INPUT,
        tool: str = "",
        arguments: Mapping[str, JsonData] | None = None,
        schema: Mapping[str, JsonData] | None = None,
        expires_after: float | None = None,
    ) -> tuple[InputRequest, InputAnswer]:
        """Return the request and the answer; the run pauses here until there is one."""
        run = self.run
        event = self.next_recorded()
        request = None if event is None else event.request
        if request is None:
            ttl = expires_after
            if ttl is None and kind is RequestKind.CONFIRMATION:
                ttl = run.request.config.approval_ttl
            request = InputRequest(
                id=run.journal.next_request_id(),
                kind=kind,
                agent=self.agent.name,
                message=message,
                tool=tool,
                arguments=dict(arguments or {}),
                schema=dict(schema or {}),
                expires_at=None if ttl is None else run.services.clock.now() + ttl,
            )
            check_storable(request, _REQUEST_DECODER, f"the request of {self.agent.name!r}")
        await self.emit(EventKind.INPUT_REQUIRED, request=request)
        answer = run.journal.answers.get(request.id)
        if answer is None:
            raise RunPaused([request])
        if request.id in run.journal.new_answers:
            await self._finish_replay()
        return request, answer

    async def _finish_replay(self) -> None:
        """Let parallel branches replay their records before something new happens here."""
        journal, replayed = self.run.journal, -1
        while len(journal.replayed) > replayed:
            replayed = len(journal.replayed)
            await asyncio.sleep(0)
        journal.catch_up(self.current_branch)

    async def fetch(
        self,
        source: Part | str,
        *,
        types: Sequence[str] = ("*/*",),
        max_bytes: int = 8 * 1024 * 1024,
        timeout: float = 30.0,  # noqa: ASYNC109 - a limit of the download
    ) -> Part:
        """Return the file that a part or URL refers to, as a part with its bytes.

        `types` are the accepted media types. Addresses that are not public are refused, also in
        redirects, unless the operator allows them. A part without a URL is returned unchanged.
        Nothing is recorded: a resumed run downloads again what it has not saved.
        """
        return await download(
            self.services.fetch, source, types=types, max_bytes=max_bytes, timeout=timeout
        )

    # Delegation

    async def run_agent(self, agent: "BaseAgent", *, message: str | None = None) -> "RunContext":
        """Run another agent and those it transfers to; return the context of the last one."""
        context = self.child(agent, message=message)
        await agent.execute(context)
        while (target := context.transfer_to) is not None:
            context = await self.run_transfer(context, target, message=message)
        if context.current_branch is not self.current_branch and context.text:
            message_of = ChatMessage(
                role="assistant", author=context.agent.name, parts=text_part(context.text)
            )
            self.current_branch.thread.append(message_of)
        return context

    async def run_transfer(
        self,
        source: "RunContext",
        target: "BaseAgent",
        *,
        branch: Branch | None = None,
        message: str | None = None,
    ) -> "RunContext":
        """Run the agent that another one transferred to; an escalation is passed on."""
        context = self.child(target, branch=branch, message=message)
        await target.execute(context)
        context.escalated = context.escalated or source.escalated
        return context

    def child(
        self, agent: "BaseAgent", *, branch: Branch | None = None, message: str | None = None
    ) -> "RunContext":
        """Return a context for another agent, limited by the grants of the agents between."""
        context = RunContext(
            self.run,
            agent,
            branch or self.current_branch,
            path=self._child_path(agent.name),
            parts=self.parts if message is None else text_part(message),
            parent=self,
        )
        # The identity check comes first because isinstance of an ABC is slow.
        if self.state is not self.current_branch.state and isinstance(self.state, StateView):
            context.state = self.state if branch is None else self.state.over(branch.state)
        grants: list[tuple[str, Grant]] = []
        while agent is not self.agent and (parent := agent.parent) is not None:
            if agent.name in parent.grants:
                grants.append((parent.name, parent.grants[agent.name]))
            agent = parent
        for name, grant in reversed(grants):
            context._apply_grant(grant, f"agent://{name}")
        return context

    def fork(self, name: str, *, history: bool = True) -> "RunContext":
        """Return a context of the same agent with steps of its own.

        Without `history`, agents that run in it do not see the conversation.
        """
        context = RunContext(
            self.run,
            self.agent,
            self.current_branch if history else self.current_branch.without_thread(),
            path=self._child_path(name),
            parts=self.parts,
            parent=self,
        )
        context.state = self.state
        context.messages = self.messages
        context.history = self.history and history
        return context

    def _child_path(self, name: str) -> str:
        count = self._child_counts.get(name, 0)
        self._child_counts[name] = count + 1
        return f"{self.path}/{name}:{count}" if count else f"{self.path}/{name}"

    def _apply_grant(self, grant: Grant, caller: str) -> None:
        if grant.read != ("*",) or grant.write != ("*",):
            self.state = StateView(self.state, grant.read, grant.write)
        own, granted = self.call.permissions, grant.permissions
        if granted is not None and own is not None:
            granted = frozenset(granted) & frozenset(own)
        permissions = own if granted is None else granted
        self.call = replace(self.call, caller=caller, permissions=permissions)
        if self.history and not grant.history:
            self.history = False
            self.current_branch = self.current_branch.without_thread()
        self.identity = self.identity and grant.identity
        if grant.artifacts != ("*",):
            self.artifact_grants = (*self.artifact_grants, tuple(grant.artifacts))


class Actions:
    """Actions that an agent requests. `escalate` ends the innermost loop."""

    __slots__ = ("_context",)

    def __init__(self, context: RunContext) -> None:
        self._context = context

    @property
    def escalate(self) -> bool:
        """Return True if the innermost loop is to end."""
        return self._context.escalated

    @escalate.setter
    def escalate(self, value: bool) -> None:
        self._context.escalated = value
