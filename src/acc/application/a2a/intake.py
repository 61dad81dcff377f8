"""Validate a message and create or continue its task."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from acc.application.a2a.approvals import read_answers
from acc.application.a2a.executor import STOPPED, TRACE_FIELDS, TRACE_PARENT, TaskExecutor
from acc.application.a2a.intent_admission import IntentAdmission, digest_of
from acc.application.a2a.media_modes import JSON, Modes, accepts, media_type
from acc.application.a2a.projection import ProjectionOptions, input_required
from acc.application.a2a.push_configs import PushConfigs
from acc.application.a2a.replay_protection import ReplayGuard
from acc.application.a2a.requests import SendRequest, ServerLimits, own_task
from acc.application.a2a.subscriptions import TaskBroker
from acc.application.agents.llm import has_memory
from acc.application.contracts.idempotency import RequestKey
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
from acc.domain.value_objects.base import replace as with_fields
from acc.domain.value_objects.contract import INTENTS_EXTENSION
from acc.domain.value_objects.principal import Owner, Principal
from acc.domain.value_objects.run import trace_of_parent
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
from acc.ports.outbound.limit_ports import RateLimiterPort
from acc.ports.outbound.storage_ports import ContentLimit, SubmitResult, TaskStorePort

_MAX_ID_LENGTH = 256
_MAX_OUTPUT_MODES = 100
#: Media types of protocol versions before 0.3.
_LEGACY_MODES = {"text": "text/*", "*": "*/*"}
_UNDECIDED = (
    "The answer is neither a clear yes nor a clear no; answer with approve or deny.\n"
    "承認するかどうかが読み取れませんでした。「承認」または「却下」でお答えください。"
)
_SIGN_IN_UNDECIDED = (
    "The answer does not say whether the sign-in is done; answer with done or no.\n"
    "サインインが済んだかどうかが読み取れませんでした。"
    "「完了しました」または「いいえ」でお答えください。"
)


class MessageIntake:
    """Store messages and start or continue their tasks.

    A stored message is processed even if its sender disconnects. With `deduplicate`, a message that
    is sent a second time returns the task of the first time.
    """

    def __init__(
        self,
        runner: SessionRunner,
        *,
        tasks: TaskStorePort,
        broker: TaskBroker,
        executor: TaskExecutor,
        push_configs: PushConfigs,
        limits: ServerLimits,
        deduplicate: bool,
        modes: Modes,
        admission: IntentAdmission,
        limiter: RateLimiterPort | None = None,
        replays: ReplayGuard,
    ) -> None:
        self._runner = runner
        self._tasks = tasks
        self._broker = broker
        self._executor = executor
        self._push_configs = push_configs
        self._limits = limits
        self._deduplicate = deduplicate
        self._replays = replays
        self._limiter = limiter
        self.admission = admission
        self._modes = modes
        # An agent without memory does not report a memory footprint. 0 means an empty memory.
        self._has_memory = has_memory(runner.agent)
        #: Number of tasks that are being stored, by account.
        self._creating: dict[Owner, int] = {}

    async def submit(
        self,
        sender: Principal,
        request: SendRequest,
        *,
        streaming: bool,
        is_repeatable: bool = True,
    ) -> SubmitResult:
        """Store a message and start its run; `streaming` requests the answer in chunks.

        If an earlier request had the same request id, its task is returned. `is_repeatable` is True
        if the client chose the message id, so that a repeated message has the same id.
        """
        self._executor.check_open()
        extensions = (*request.extensions, *request.message.extensions)
        admitted = await self.admission.admit(
            sender, request.message, has_extension=INTENTS_EXTENSION in extensions
        )
        contract, intents = admitted.contract, admitted.intents
        message = _with_trace(admitted.message, request.trace_parent)
        input_modes, output_modes = self._modes.inputs, self._modes.outputs
        if contract is not None:
            input_modes, output_modes = (*input_modes, JSON), (JSON, *output_modes)
        validate_message(message, self._limits, input_modes)
        as_data = wants_json_answer(request.accepted_output_modes, output_modes)
        push = None if request.push is None else await self._push_configs.validate(request.push)
        if admitted.claims is not None and not message.task_id:
            await self._replays.check(
                sender.owner.user_id,
                admitted.claims,
                self._runner.services.clock.now(),
                is_repeatable=is_repeatable and self._deduplicate,
            )
        if self._limiter is not None:
            account_id = sender.account.user_id
            await self._limiter.check_quota(account_id)
            for intent in intents:
                await self._limiter.count_request(account_id, intent)
        options = ProjectionOptions(
            deltas=streaming,
            as_data=as_data,
            may_reply=self._runner.agent.replies_directly,
            footprint=self._has_memory,
        )
        if message.task_id:
            continuation = self._continue(sender, message, push, options)
            return await self._executor.run_shielded(continuation)
        return await self._create(sender, message, push, options, admitted.key)

    async def _create(
        self,
        sender: Principal,
        message: Message,
        push: PushConfig | None,
        options: ProjectionOptions,
        key: RequestKey | None = None,
    ) -> SubmitResult:
        services, owner = self._runner.services, sender.owner
        if key is not None and (repeated := await self._find_request(owner, key)) is not None:
            return repeated
        task = Task(
            id=services.ids.new() if key is None else key.id,
            context_id=message.context_id or services.ids.new(),
            status=TaskStatus(state=TaskState.SUBMITTED, at=services.clock.now()),
        )
        if self._executor.may_have_interrupted(owner):
            await self._check_waiting_limit(owner)
        account = sender.account
        is_counted_in_process = account != owner
        if is_counted_in_process:
            self._reserve_task(account)
        try:
            result = await self._store(task, sender, message, push, options, key)
        except InvalidInput:
            # Another server may have stored a request with this id in the meantime.
            repeated = None if key is None else await self._find_request(owner, key)
            if repeated is None:
                raise
            return repeated
        except asyncio.CancelledError:
            # The sender disconnected. If the task is stored, it must run.
            self._executor.start_detached(task.id, sender, message, options=options)
            raise
        finally:
            if is_counted_in_process:
                self._creating[account] -= 1
        if result.is_new:
            await self._start(result.task, sender, message, options)
        return result

    async def _store(
        self,
        task: Task,
        sender: Principal,
        message: Message,
        push: PushConfig | None,
        options: ProjectionOptions,
        key: RequestKey | None,
    ) -> SubmitResult:
        """Store a new task. With an engine, start its run first; cancel it on rejection."""
        dispatcher = self._executor.dispatcher
        if dispatcher is not None:
            await dispatcher.start(task.id, sender, options)
        is_refused = False
        try:
            result = await self._tasks.create(
                task,
                owner=sender.owner,
                message=message,
                push=push,
                key=self._deduplication_key(),
                max_active=self._max_active(sender),
                content=self._content_limit(sender),
            )
            # If the message was stored before, the result is its earlier task.
            is_refused = result.task.id != task.id
        except LimitExceeded:
            # With a key, the run may belong to another server that stores the same request now.
            is_refused = key is None
            raise
        finally:
            if is_refused and dispatcher is not None:
                await dispatcher.cancel(task.id)
        return result

    async def _find_request(self, owner: Owner, key: RequestKey) -> SubmitResult | None:
        """Return the task of a request with this key, or None.

        Raises RequestIdReused if the content of that request differs.
        """
        task = await self._tasks.read(key.id, owner=owner)
        if task is None:
            return None
        key.check(digest_of(task))
        return SubmitResult(task, False)

    async def _start(
        self,
        task: Task,
        sender: Principal,
        message: Message,
        options: ProjectionOptions,
        answers: Sequence[InputAnswer] | None = None,
    ) -> None:
        dispatcher = self._executor.dispatcher
        if dispatcher is not None:
            if answers is not None:
                await dispatcher.notify(task.id, sender, options)
            return
        run = self._executor.start(task, sender, message, answers=answers, options=options)
        if run is None:
            await self._executor.interrupt(task.id, STOPPED)

    async def _check_waiting_limit(self, owner: Owner) -> None:
        limit = self._limits.waiting
        if await self._executor.count_interrupted(owner) >= limit:
            raise LimitExceeded(
                f"a caller may have at most {limit} tasks that wait for input; "
                "answer or cancel one of them first"
            )

    def _reserve_task(self, account: Owner) -> None:
        """Count a new task of an account, or raise LimitExceeded.

        The account is a caller in all tenants, or the address of an anonymous caller. The store
        cannot check its limit, because it counts the tasks of each tenant separately, and the tasks
        of all anonymous callers together.
        """
        count = self._executor.count_of(account) + self._creating.get(account, 0)
        if count >= self._limits.tasks:
            place = "for each address" if account.tenant else "in all tenants"
            raise LimitExceeded(
                f"a caller may have at most {self._limits.tasks} running tasks {place}; "
                "wait until one ends, or cancel one"
            )
        self._creating = {owner: number for owner, number in self._creating.items() if number}
        self._creating[account] = self._creating.get(account, 0) + 1

    def _max_active(self, sender: Principal) -> int | None:
        """Return how many tasks of an owner the store accepts; None if this process counts them."""
        has_address = sender.is_anonymous and bool(sender.address)
        return None if has_address and self._executor.dispatcher is None else self._limits.tasks

    def _content_limit(self, sender: Principal) -> ContentLimit:
        limits = self._limits
        return ContentLimit(sender.account, limits.stored_tasks, limits.stored_bytes)

    def _deduplication_key(self) -> str:
        """Return the deduplication key; an empty key means that the message id is used."""
        return "" if self._deduplicate else self._runner.services.ids.new()

    async def _continue(
        self,
        sender: Principal,
        message: Message,
        push: PushConfig | None,
        options: ProjectionOptions,
    ) -> SubmitResult:
        """Continue a task with the answers of a message."""
        while True:
            task = await own_task(self._tasks, sender.owner, message.task_id)
            try:
                return await self._continue_from(task, sender, message, push, options)
            except InvalidTransition as error:
                # The task changed after it was read. If it requires input, try again.
                if error.state not in INTERRUPTED:
                    raise UnsupportedOperation(_describe_rejection(task.id, error.state)) from None

    async def _continue_from(
        self,
        task: Task,
        sender: Principal,
        message: Message,
        push: PushConfig | None,
        options: ProjectionOptions,
    ) -> SubmitResult:
        """Continue a task; raise InvalidTransition if its state is no longer that of `task`."""
        if message.context_id and message.context_id != task.context_id:
            raise InvalidInput(
                f"message.contextId: task {task.id!r} belongs to another context; omit the field"
            )
        pending: Sequence[InputRequest] = ()
        answers: tuple[InputAnswer, ...] = ()
        if task.state in INTERRUPTED:
            _, pending = await self._executor.pending_requests(sender, task)
            try:
                answers = self._read_answers(sender, message, pending)
            except InvalidInput:
                repeated = await self._find_repeated(task, sender, message)
                if repeated is None:
                    raise
                return repeated
            if push is not None:
                await self._push_configs.save(task.id, push)
        is_undecided = bool(pending) and not answers
        result = await self._tasks.continue_task(
            task.id,
            owner=sender.owner,
            message=message,
            updates=[self._ask_again(task, pending) if is_undecided else self._working()],
            expected=task if task.state in INTERRUPTED else None,
            key=self._deduplication_key(),
            content=self._content_limit(sender),
        )
        if result.is_new:
            self._broker.publish(task.id)
            if not is_undecided:
                await self._start(result.task, sender, message, options, answers)
        return result

    def _read_answers(
        self, sender: Principal, message: Message, pending: Sequence[InputRequest]
    ) -> tuple[InputAnswer, ...]:
        answers = read_answers(message.parts, pending, by=sender.caller)
        agent, services = self._runner.agent, self._runner.services
        answers = validate_answers(agent, pending, answers, services.schemas)
        return tuple(replace(answer, message_id=message.message_id) for answer in answers)

    async def _find_repeated(
        self, task: Task, sender: Principal, message: Message
    ) -> SubmitResult | None:
        """Return the result of a message that was stored before, or None for a new message."""
        try:
            return await self._tasks.continue_task(
                task.id, owner=sender.owner, message=message, updates=(), expected=None
            )
        except InvalidTransition:
            return None

    def _ask_again(self, task: Task, pending: Sequence[InputRequest]) -> StatusUpdate:
        """Return the status that asks again, after a message that answers no request clearly."""
        services = self._runner.services
        is_sign_in = all(request.kind is RequestKind.AUTHORIZATION for request in pending)
        return input_required(
            pending,
            at=services.clock.now(),
            message_id=services.ids.new(),
            context_id=task.context_id,
            task_id=task.id,
            hint=_SIGN_IN_UNDECIDED if is_sign_in else _UNDECIDED,
        )

    def _working(self) -> StatusUpdate:
        now = self._runner.services.clock.now()
        return StatusUpdate(status=TaskStatus(state=TaskState.WORKING, at=now))


def _describe_rejection(task_id: str, state: str) -> str:
    if state in ACTIVE:
        return f"task {task_id!r} is {state}; it accepts messages only while it requires input"
    return f"task {task_id!r} is {state} and accepts no more messages; omit message.taskId"


def _with_trace(message: Message, trace_parent: str) -> Message:
    """Return a message with the trace of its request, unless it already has another trace."""
    metadata = message.metadata
    if not trace_parent:
        return message
    if any(name in metadata for name in TRACE_FIELDS):
        parent = metadata.get(TRACE_PARENT)
        trace_id = trace_of_parent(parent) if isinstance(parent, str) else metadata.get("traceId")
        if trace_id != trace_of_parent(trace_parent):
            return message
    return with_fields(message, metadata={**message.metadata, TRACE_PARENT: trace_parent})


def validate_message(message: Message, limits: ServerLimits, modes: Sequence[str]) -> None:
    """Raise an error if a message is invalid, too large or of an unsupported media type."""
    if message.role is not Role.USER:
        raise InvalidInput(
            "message.role: must be that of the user (ROLE_USER; in version 0.3: user)"
        )
    for name, value in (
        ("messageId", message.message_id),
        ("contextId", message.context_id),
        ("taskId", message.task_id),
    ):
        if len(value) > _MAX_ID_LENGTH or not value.isprintable():
            raise InvalidInput(
                f"message.{name}: must be at most {_MAX_ID_LENGTH} printable characters"
            )
    if not message.message_id.strip():
        raise InvalidInput("message.messageId: must not be empty")
    if not message.parts:
        raise InvalidInput("message.parts: must contain at least one part")
    if len(message.parts) > limits.parts:
        raise InvalidInput(f"message.parts: must contain at most {limits.parts} parts")
    for part in message.parts:
        if part.text is not None and len(part.text) > limits.text:
            raise InvalidInput(f"message.parts: a text must have at most {limits.text} characters")
        kind = media_type(part)
        if not accepts(kind, modes):
            raise ContentTypeNotSupported(
                f"this agent does not accept {kind}; it accepts {', '.join(modes)}"
            )


def wants_json_answer(accepted: Sequence[str], modes: Sequence[str]) -> bool:
    """Return True if the modes of client and agent require JSON data as the answer."""
    if not accepted:
        return modes[:1] == (JSON,)
    if len(accepted) > _MAX_OUTPUT_MODES or any(len(mode) > _MAX_ID_LENGTH for mode in accepted):
        raise InvalidInput(
            f"acceptedOutputModes: must contain at most {_MAX_OUTPUT_MODES} modes of at most "
            f"{_MAX_ID_LENGTH} characters"
        )
    for accepted_mode in accepted:
        pattern = accepted_mode.partition(";")[0].strip().lower()
        pattern = _LEGACY_MODES.get(pattern, pattern)
        for mode in modes:
            if fnmatchcase(mode, pattern) or fnmatchcase(pattern, mode):
                return mode == JSON
    raise ContentTypeNotSupported(
        f"this agent produces {', '.join(modes)}; the client accepts only {', '.join(accepted)}"
    )
