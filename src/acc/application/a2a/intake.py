"""Taking a client's message: it starts a task, or answers what a task asks."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from acc.application.a2a.approvals import read_answers
from acc.application.a2a.executor import TaskExecutor
from acc.application.a2a.projection import ProjectionOptions, input_required
from acc.application.a2a.push import PushConfigs
from acc.application.a2a.requests import SendRequest, ServerLimits, own_task
from acc.application.a2a.subscriptions import TaskBroker
from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import has_memory
from acc.application.runtime.inputs import validate_answers
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import (
    ContentTypeNotSupported,
    InvalidInput,
    InvalidTransition,
    LimitExceeded,
    UnsupportedOperation,
)
from acc.domain.value_objects.approval import InputAnswer, InputRequest, RequestKind
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.principal import Owner, Principal
from acc.domain.value_objects.task import (
    ACTIVE,
    INTERRUPTED,
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.storage_ports import SubmitResult, TaskStorePort

TEXT = "text/plain"
JSON = "application/json"
_BYTES = "application/octet-stream"
_MOST_ID = 256
_MOST_MODES = 100


def input_modes(agent: BaseAgent) -> tuple[str, ...]:
    """Return the media types that an agent reads."""
    return tuple(agent.input_modes)


def output_modes(agent: BaseAgent) -> tuple[str, ...]:
    """Return the media types that an agent writes; structured answers are JSON first."""
    declared = tuple(agent.output_modes)
    if getattr(agent, "output_schema", None) is not None:
        return (JSON, *(mode for mode in declared if mode != JSON))
    return declared


def check_message(message: Message, limits: ServerLimits, modes: Sequence[str]) -> None:
    """Refuse a message that is not a client's, is too large, or that the agent cannot read."""
    if message.role is not Role.USER:
        raise InvalidInput("message.role: a client's message has the role of the user")
    ids = message.message_id, message.context_id, message.task_id
    if max(map(len, ids)) > _MOST_ID or not "".join(ids).isprintable():
        raise _not_an_id(ids)
    if not message.message_id.strip():
        raise InvalidInput("message.messageId: must not be empty")
    if not message.parts:
        raise InvalidInput("message.parts: at least one part")
    if len(message.parts) > limits.parts:
        raise InvalidInput(f"message.parts: at most {limits.parts} parts in one message")
    for part in message.parts:
        if part.text is not None and len(part.text) > limits.text:
            raise InvalidInput(f"message.parts: at most {limits.text} characters in one text")
        kind = media_type(part)
        if not reads(kind, modes):
            raise ContentTypeNotSupported(
                f"this agent does not read {kind}; it reads {', '.join(modes)}"
            )


def _not_an_id(ids: tuple[str, str, str]) -> InvalidInput:
    named = zip(("messageId", "contextId", "taskId"), ids, strict=True)
    name = next(name for name, held in named if len(held) > _MOST_ID or not held.isprintable())
    return InvalidInput(f"message.{name}: at most {_MOST_ID} printable characters")


def media_type(part: Part) -> str:
    """Return the media type of a part, without its parameters."""
    told = part.media_type and part.media_type.partition(";")[0].strip().lower()
    if told:
        return told
    if part.text is not None:
        return TEXT
    return _BYTES if part.raw is not None or part.url is not None else JSON


def reads(kind: str, modes: Sequence[str]) -> bool:
    """Tell whether one of the modes covers a media type; who reads plain text reads any text."""
    return kind in modes or any(
        fnmatchcase(kind, mode) or (mode == TEXT and kind.startswith("text/")) for mode in modes
    )


def wants_data(accepted: Sequence[str], modes: Sequence[str]) -> bool:
    """Tell whether the answer is to be data, by what the client takes and the agent writes."""
    if not accepted:
        return modes[:1] == (JSON,)
    if len(accepted) > _MOST_MODES or any(len(wanted) > _MOST_ID for wanted in accepted):
        raise InvalidInput(
            f"acceptedOutputModes: at most {_MOST_MODES}, each of at most {_MOST_ID} characters"
        )
    for wanted in accepted:
        pattern = wanted.partition(";")[0].strip().lower()
        if pattern in ("text", "*"):  # what older clients say
            pattern = "text/*" if pattern == "text" else "*/*"
        for mode in modes:
            if fnmatchcase(mode, pattern) or fnmatchcase(pattern, mode):
                return mode == JSON
    raise ContentTypeNotSupported(
        f"this agent writes {', '.join(modes)}, and the client takes only {', '.join(accepted)}"
    )


_STOPPING = "the server is stopping; try again in a moment"
_NOT_STARTED = "the server was not started: its lifespan must run, also where it is mounted"
#: Is told of a task before anything happens to it.
Follow = Callable[[Task], None]


class MessageIntake:
    """Files messages and has the work begun that they ask for; who sent them may leave then."""

    def __init__(
        self,
        runner: SessionRunner,
        *,
        tasks: TaskStorePort,
        hub: TaskBroker,
        execution: TaskExecutor,
        notifying: PushConfigs,
        limits: ServerLimits,
    ) -> None:
        self._runner = runner
        self._tasks = tasks
        self._hub = hub
        self._execution = execution
        self._notifying = notifying
        self._limits = limits
        # Whose agents keep no memory has nothing to report, and a 0 would be a report.
        self._remembers = has_memory(runner.agent)
        #: How many tasks of a caller are just being filed.
        self._filing: dict[Owner, int] = {}
        #: Whether a message that comes again gives the task that it gave before.
        self.knows_repeats = True

    async def file(
        self,
        sender: Principal,
        request: SendRequest,
        *,
        modes: tuple[tuple[str, ...], tuple[str, ...]],
        follow: Follow | None = None,
    ) -> SubmitResult:
        """File a message, given what the agent reads and writes; who follows wants pieces."""
        message = request.message
        if not self._execution.is_open:
            raise LimitExceeded(_STOPPING if self._execution.was_opened else _NOT_STARTED)
        reads, writes = modes
        check_message(message, self._limits, reads)
        as_data = wants_data(request.accepted_output_modes, writes)
        push = None if request.push is None else await self._notifying.checked(request.push)
        options = ProjectionOptions(
            deltas=follow is not None,
            as_data=as_data,
            may_reply=self._runner.agent.replies_directly,
            footprint=self._remembers,
        )
        if message.task_id:
            answering = self._answer(sender, message, push, options)
            filed = await self._execution.run_shielded(answering)
        else:
            filed = await self._begin(sender, message, push, options, follow)
            if filed.is_new:
                return filed
        if follow is not None:
            follow(filed.task)
        return filed

    async def _begin(
        self,
        sender: Principal,
        message: Message,
        push: PushConfig | None,
        options: ProjectionOptions,
        follow: Follow | None,
    ) -> SubmitResult:
        services, owner = self._runner.services, sender.owner
        task = Task(
            id=services.ids.new(),
            context_id=message.context_id or services.ids.new(),
            status=TaskStatus(state=TaskState.SUBMITTED, at=services.clock.now()),
        )
        if self._execution.may_have_interrupted(owner):
            await self._check_waiting(owner)
        if sender.is_guest:
            self._take_place(sender.account)
        try:
            filed = await self._tasks.create(
                task,
                owner=owner,
                message=message,
                push=push,
                key=self._key(),
                max_active=self._limits.tasks,
            )
        except asyncio.CancelledError:
            # Who sent it has left; it may be filed all the same, and is to be worked on then.
            self._execution.start_detached(task.id, sender, message, options=options)
            raise
        finally:
            if sender.is_guest:
                self._filing[sender.account] -= 1
        if filed.is_new:
            if follow is not None:
                follow(filed.task)
            if self._execution.start(filed.task, sender, message, options=options) is None:
                await self._execution.refuse(filed.task)
        return filed

    async def _check_waiting(self, owner: Owner) -> None:
        most = self._limits.waiting
        if await self._execution.count_interrupted(owner) >= most:
            raise LimitExceeded(
                f"at most {most} tasks of one caller may wait for an answer; answer or cancel some"
            )

    def _take_place(self, account: Owner) -> None:
        """Count a task of a caller who may name any tenant: the store counts each tenant alone."""
        count = self._execution.count_of(account) + self._filing.get(account, 0)
        if count >= self._limits.tasks:
            raise LimitExceeded(
                f"at most {self._limits.tasks} tasks of one caller at a time, in all tenants"
            )
        self._filing = {name: held for name, held in self._filing.items() if held}
        self._filing[account] = self._filing.get(account, 0) + 1

    def _key(self) -> str:
        """Return what a message is known by if it comes again, empty for its own id."""
        return "" if self.knows_repeats else self._runner.services.ids.new()

    async def _answer(
        self,
        sender: Principal,
        message: Message,
        push: PushConfig | None,
        options: ProjectionOptions,
    ) -> SubmitResult:
        """Take a message to a task that waits as the answer to what it asks."""
        while True:
            task = await own_task(self._tasks, sender.owner, message.task_id)
            try:
                return await self._answer_as_seen(task, sender, message, push, options)
            except InvalidTransition as error:
                # What was read may no longer be what it asks, or it may ask only now.
                if error.state not in INTERRUPTED:
                    raise UnsupportedOperation(_cannot_take(task.id, error.state)) from None

    async def _answer_as_seen(
        self,
        task: Task,
        sender: Principal,
        message: Message,
        push: PushConfig | None,
        options: ProjectionOptions,
    ) -> SubmitResult:
        """Do so if the task is still as it was seen; MoveForbidden tells where it is otherwise."""
        if message.context_id and message.context_id != task.context_id:
            raise InvalidInput(
                f"message.contextId: task {task.id!r} belongs to another context; leave it out"
            )
        waiting: Sequence[InputRequest] = ()
        answers: tuple[InputAnswer, ...] = ()
        if task.state in INTERRUPTED:
            _, waiting = await self._execution.pending_requests(sender, task)
            try:
                read = read_answers(message.parts, waiting, by=sender.caller)
                schemas = self._runner.services.schemas
                read = validate_answers(self._runner.agent, waiting, read, schemas)
            except InvalidInput:
                known = await self._known(task, sender, message)
                if known is None:
                    raise
                return known
            answers = tuple(replace(one, message_id=message.message_id) for one in read)
            if push is not None:
                await self._notifying.save(task.id, push)
        undecided = bool(waiting) and not answers
        update = self._ask_again(task, waiting) if undecided else self._working()
        filed = await self._tasks.continue_task(
            task.id,
            owner=sender.owner,
            message=message,
            updates=[update],
            expected=task if task.state in INTERRUPTED else None,
            key=self._key(),
        )
        if not filed.is_new:
            return filed
        self._hub.tell(task.id)
        if not undecided:
            work = self._execution.start(
                filed.task, sender, message, answers=answers, options=options
            )
            if work is None:
                await self._execution.refuse(filed.task)
        return filed

    async def _known(self, task: Task, sender: Principal, message: Message) -> SubmitResult | None:
        """Return what a message led to, if it came before."""
        try:
            return await self._tasks.continue_task(
                task.id, owner=sender.owner, message=message, updates=(), expected=None
            )
        except InvalidTransition:
            return None

    def _ask_again(self, task: Task, waiting: Sequence[InputRequest]) -> StatusUpdate:
        """Return the status of a task whose client has said neither yes nor no."""
        services = self._runner.services
        is_login = all(one.kind is RequestKind.AUTHORIZATION for one in waiting)
        return input_required(
            waiting,
            at=services.clock.now(),
            message_id=services.ids.new(),
            context_id=task.context_id,
            task_id=task.id,
            hint=_NOT_TOLD if is_login else _UNDECIDED,
        )

    def _working(self) -> StatusUpdate:
        now = self._runner.services.clock.now()
        return StatusUpdate(status=TaskStatus(state=TaskState.WORKING, at=now))


_UNDECIDED = (
    "That was neither a clear yes nor a clear no; answer with approve or deny.\n"
    "承認するかどうかが読み取れませんでした。「承認」または「却下」でお答えください。"
)
_NOT_TOLD = (
    "That did not say whether the sign-in is done; answer with done once it is, or with no.\n"
    "サインインが済んだかどうかが読み取れませんでした。「完了しました」または「いいえ」でお答えください。"
)


def _cannot_take(task_id: str, state: str) -> str:
    if state in ACTIVE:
        return f"task {task_id!r} is {state}; it takes messages once it asks for input"
    return f"task {task_id!r} is {state} and takes no more messages; send one without its id"
