"""Serve agents over A2A: send, stream, get, list, cancel, subscribe, push configurations."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager

from acc.application.a2a.executor import TaskExecutor
from acc.application.a2a.intake import MessageIntake
from acc.application.a2a.intent_admission import IntentAdmission, digest_of, outputs_of_task
from acc.application.a2a.maintenance import TaskMaintenance
from acc.application.a2a.media_modes import Modes, served_modes
from acc.application.a2a.push_configs import CheckUrl, PushConfigs
from acc.application.a2a.replay_protection import ReplayGuard
from acc.application.a2a.requests import (
    GetRequest,
    ListRequest,
    PushCreateRequest,
    PushRequest,
    SendRequest,
    ServerLimits,
    TaskRequest,
    own_task,
)
from acc.application.a2a.subscriptions import Subscriptions, TaskBroker, TaskStream
from acc.application.a2a.task_dispatch import TaskDispatcher
from acc.application.a2a.webhook_retries import PushDelivery
from acc.application.contracts.claims import check_caller, check_debug
from acc.application.contracts.idempotency import IntentOutputs
from acc.application.contracts.intents import DELEGATED, Intents
from acc.application.contracts.payloads import IntentPayload, find_contract
from acc.application.runtime.runner import SessionRunner
from acc.domain.contract_errors import IntentNotCompleted
from acc.domain.errors import (
    InvalidTransition,
    TaskNotCancelable,
    Unauthenticated,
    UnsupportedOperation,
)
from acc.domain.value_objects.agent_card import Skill
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import text_of
from acc.domain.value_objects.contract import INTENTS_EXTENSION
from acc.domain.value_objects.principal import INVOKE_SCOPE, READ_SCOPE, Principal
from acc.domain.value_objects.task import (
    ACTIVE,
    INTERRUPTED,
    Message,
    PushConfig,
    PushPage,
    StatusUpdate,
    Task,
    TaskPage,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.auth_ports import UsedIdsPort
from acc.ports.outbound.limit_ports import RateLimiterPort
from acc.ports.outbound.storage_ports import TaskStorePort, UnitOfWork

#: Timestamps on the wire are rounded to milliseconds; a time filter must include the difference.
_TIMESTAMP_ROUNDING_SECONDS = 0.0005


class ServeA2AUseCase:
    """The operations of a server of one agent tree; callers are already authenticated.

    `check_url` rejects URLs that must not be called; without it push is not supported. With
    `deduplicate` a repeated message returns its task. With `anonymous_listing` anonymous callers
    may list the tasks of all anonymous callers. `limiter` limits intents, tokens and cost. `modes`
    are the accepted media types; by default those of the agent. `skills` are those of the card
    whose scopes are required, and `listed_intents` those that errors may name, by default all.
    `used_ids` has the nonces of requests.
    """

    def __init__(
        self,
        runner: SessionRunner,
        *,
        tasks: TaskStorePort,
        storage: UnitOfWork,
        limits: ServerLimits | None = None,
        check_url: CheckUrl | None = None,
        deduplicate: bool = True,
        anonymous_listing: bool = False,
        limiter: RateLimiterPort | None = None,
        modes: Modes | None = None,
        skills: Sequence[Skill] = (),
        listed_intents: Collection[str] | None = None,
        used_ids: UsedIdsPort | None = None,
    ) -> None:
        self.limits = limits or ServerLimits()
        self.runner = runner
        self._tasks = tasks
        self._anonymous_listing = anonymous_listing
        self.admission = IntentAdmission(runner, skills=skills, listed=listed_intents)
        self._broker = TaskBroker()
        engine = runner.engine
        self._executor = TaskExecutor(
            runner=runner,
            tasks=tasks,
            storage=storage,
            broker=self._broker,
            limiter=limiter,
            dispatcher=None if engine is None else TaskDispatcher(engine, app_name=runner.app_name),
        )
        self._maintenance = TaskMaintenance(
            runner=runner,
            tasks=tasks,
            executor=self._executor,
            retention=self.limits.keep,
        )
        self._subscriptions = Subscriptions(tasks=tasks, broker=self._broker, limits=self.limits)
        self._push_configs = PushConfigs(
            tasks=tasks, ids=runner.services.ids, limits=self.limits, check_url=check_url
        )
        self._intake = MessageIntake(
            runner,
            tasks=tasks,
            broker=self._broker,
            executor=self._executor,
            push_configs=self._push_configs,
            limits=self.limits,
            deduplicate=deduplicate,
            modes=modes or served_modes(runner.agent, runner.services),
            admission=self.admission,
            limiter=limiter,
            replays=ReplayGuard(self.limits.replay_window, used_ids),
        )

    @asynccontextmanager
    async def open(self, delivery: PushDelivery | None = None) -> AsyncIterator["ServeA2AUseCase"]:
        """Accept tasks while the context is open; running tasks get the grace time to finish."""
        async with asyncio.TaskGroup() as group:
            self._executor.open(group)
            background = [group.create_task(job) for job in self._maintenance.jobs()]
            if delivery is not None:
                background.append(group.create_task(delivery.run()))
            try:
                yield self
            finally:
                await self.stop()
                for job in background:
                    job.cancel()

    @property
    def is_ready(self) -> bool:
        """Return True while new tasks are accepted."""
        return self._executor.is_open

    def check_ready(self) -> None:
        """Raise Unavailable unless new tasks are accepted."""
        self._executor.check_open()

    async def stop(self) -> None:
        """Accept no more tasks, wait for the running ones, then end the streams."""
        try:
            await self._executor.close(grace=self.limits.grace)
        finally:
            self._subscriptions.finish()

    # Messages

    async def send(self, principal: Principal, request: SendRequest) -> Task | Message:
        """Start or continue a task with a message and return the task or a direct reply."""
        principal.require(INVOKE_SCOPE)
        caller = principal.within(request.tenant)
        task, is_new = await self._intake.submit(caller, request, streaming=False)
        if request.wait:
            task = await self._wait(task)
        elif self.runner.agent.replies_directly and task.state is TaskState.SUBMITTED:
            task = await self._wait(task, first_event=True)
        visible = self._visible(task, request.history_length)
        is_repeated = not is_new and bool(digest_of(task))
        return task.reply or (_marked(visible) if is_repeated else visible)

    async def stream(
        self, principal: Principal, request: SendRequest, *, after: int | None = None
    ) -> TaskStream:
        """Start or continue a task and return a stream until it ends or requires input.

        A client that lost the stream `after` an event and repeats its message gets the rest.
        """
        principal.require(INVOKE_SCOPE)
        caller = principal.within(request.tenant)
        account = caller.account
        self._subscriptions.acquire(account)
        try:
            result = await self._intake.submit(caller, request, streaming=True)
        except BaseException:
            self._subscriptions.release(account)
            raise
        # A new run has not started yet, so that the broker caches all of its events.
        task = result.task
        is_active = task.state in ACTIVE
        missed = 0 if after is None else task.seq - after
        resumes = after is not None and not result.is_new
        resumes = resumes and (missed > 0 or (missed == 0 and is_active))
        visible = self._visible(task, request.history_length)
        return self._subscriptions.open(
            visible if result.is_new or not digest_of(task) else _marked(visible),
            slot_of=account,
            may_reply=self.runner.agent.replies_directly and task.state is TaskState.SUBMITTED,
            is_complete=not is_active,
            after=after if resumes else None,
        )

    async def subscribe(
        self, principal: Principal, request: TaskRequest, *, after: int | None = None
    ) -> TaskStream:
        """Return a stream of an existing task; with `after`, only of later events."""
        principal.require(READ_SCOPE)
        caller = principal.within(request.tenant)
        task = await own_task(self._tasks, caller.owner, request.id)
        if task.is_terminal and (after is None or after >= task.seq):
            raise UnsupportedOperation(
                f"task {task.id!r} is {task.state.value} and has no more events; use GetTask"
            )
        self._subscriptions.acquire(caller.account)
        # A client that names a future event gets the task, which contains all events.
        resumes = after is not None and after <= task.seq
        return self._subscriptions.open(
            self._visible(task, None), slot_of=caller.account, after=after if resumes else None
        )

    async def _wait(self, task: Task, *, first_event: bool = False) -> Task:
        """Return a task once it ends or requires input, or after its first event."""
        if task.state not in ACTIVE:
            return task
        run = self._executor.find(task.id)
        if run is not None and not first_event:
            await run.wait()
            if run.superseded:
                return await self._tasks.read(task.id) or run.current()
            return run.current()
        stream = self._subscriptions.open(task, may_reply=True)
        try:
            async with aclosing(stream.items()) as items:
                async for item in items:
                    if first_event and item.item is not None:
                        break
        finally:
            stream.close()
        return await self._tasks.read(task.id) or task

    # Intents

    @property
    def intents(self) -> Intents:
        """Return the intents of the agent."""
        return self.admission.intents

    async def call_intent(
        self,
        principal: Principal,
        payload: IntentPayload,
        *,
        tenant: str = "",
        trace_parent: str = "",
    ) -> IntentOutputs:
        """Execute an intent as a task and return its outputs.

        UnknownIntent, InvalidInputs and PermissionDenied are raised before a task is stored. The
        error of the run is raised afterwards. A request with the `request_id` of an earlier one is
        not executed again.
        """
        principal.require(INVOKE_SCOPE)
        contract = find_contract(self.intents, payload)
        caller = principal.within(tenant)
        check_caller(payload.context, caller)
        check_debug(payload.context, caller)
        message = self.admission.message(payload, self.runner.services.ids.new())
        request = SendRequest(
            message=message, extensions=(INTENTS_EXTENSION,), trace_parent=trace_parent
        )
        submitted = await self._intake.submit(caller, request, streaming=False, is_repeatable=False)
        task = submitted.task
        run = self._executor.find(task.id)
        task = await self._wait(task)
        if run is not None and run.error is not None:
            raise run.error
        if task.state is TaskState.COMPLETED:
            answered = contract if payload.delegation is None else DELEGATED
            outputs = outputs_of_task(task, answered)
            return IntentOutputs(outputs, repeated=not submitted.is_new, task_id=task.id)
        text = "" if task.status.message is None else text_of(task.status.message.parts)
        reason = f": {text}" if text else ""
        raise IntentNotCompleted(
            f"the task {task.id} of intent {payload.intent!r} is {task.state.value}{reason}"
            f"{_next_step(task, is_repeated=not submitted.is_new)}"
        )

    # Tasks

    async def get(self, principal: Principal, request: GetRequest) -> Task:
        """Return a task."""
        principal.require(READ_SCOPE)
        task = await self._own_task(principal, request.tenant, request.id)
        return self._visible(task, request.history_length)

    async def list_tasks(self, principal: Principal, request: ListRequest) -> TaskPage:
        """Return a page of the caller's tasks.

        All anonymous callers are one owner, so listing would disclose the tasks of others.
        """
        principal.require(READ_SCOPE)
        if not self._anonymous_listing:
            self.check_authenticated(
                principal,
                "listing tasks",
                advice="; to let anonymous callers list the tasks of all anonymous callers, start "
                "the server with --anonymous-listing",
            )
        query = request.query
        if query.since is not None:
            query = replace(query, since=query.since - _TIMESTAMP_ROUNDING_SECONDS)
        page = await self._tasks.list_tasks(principal.within(request.tenant).owner, query)
        tasks = (self._visible(task, request.history_length) for task in page.tasks)
        if not request.include_artifacts:
            tasks = (replace(task, artifacts=()) for task in tasks)
        return replace(page, tasks=tuple(tasks))

    async def cancel(self, principal: Principal, request: TaskRequest) -> Task:
        """Cancel a task; later updates of its run are refused."""
        principal.require(INVOKE_SCOPE)
        caller = principal.within(request.tenant)
        await self._executor.run_shielded(self._cancel(caller, request.id))
        return self._visible(await own_task(self._tasks, caller.owner, request.id), None)

    async def _cancel(self, caller: Principal, task_id: str) -> None:
        task = await own_task(self._tasks, caller.owner, task_id)
        now = self.runner.services.clock.now()
        update = StatusUpdate(status=TaskStatus(state=TaskState.CANCELED, at=now))
        try:
            events = await self._tasks.append(task.id, [update])
        except InvalidTransition as error:
            raise TaskNotCancelable(f"task {task.id!r} is already {error.state}") from None
        self._broker.publish(task.id, events)
        run = self._executor.find(task.id)
        if run is not None:
            run.stop()
        elif task.state in INTERRUPTED:
            await self._executor.abandon(caller, task)
        if self._executor.dispatcher is not None:
            await self._executor.dispatcher.cancel(task.id)

    # Push configurations

    async def create_push(self, principal: Principal, request: PushCreateRequest) -> PushConfig:
        """Create a push configuration."""
        principal.require(INVOKE_SCOPE)
        self._push_configs.check_supported()
        task = await self._own_task(principal, request.tenant, request.config.task_id)
        config = await self._push_configs.validate(request.config)
        return await self._push_configs.save(task.id, config)

    async def get_push(self, principal: Principal, request: PushRequest) -> PushConfig:
        """Return a push configuration; without an id, the one without an id, or the oldest."""
        principal.require(READ_SCOPE)
        self._push_configs.check_supported()
        task = await self._own_task(principal, request.tenant, request.task_id)
        return await self._push_configs.get(task.id, request.id)

    async def list_push_configs(self, principal: Principal, request: PushRequest) -> PushPage:
        """Return a page of the push configurations of a task; without a size, all."""
        principal.require(READ_SCOPE)
        self._push_configs.check_supported()
        task = await self._own_task(principal, request.tenant, request.task_id)
        return await self._push_configs.page(task.id, request)

    async def delete_push(self, principal: Principal, request: PushRequest) -> None:
        """Delete a push configuration."""
        principal.require(INVOKE_SCOPE)
        self._push_configs.check_supported()
        task = await self._own_task(principal, request.tenant, request.task_id)
        await self._tasks.delete_push_config(task.id, request.id)

    def check_authenticated(self, principal: Principal, what: str, *, advice: str = "") -> None:
        """Raise Unauthenticated if a caller is anonymous."""
        if principal.is_anonymous:
            raise Unauthenticated(f"{what} requires authentication{advice}")

    async def _own_task(self, principal: Principal, tenant: str, task_id: str) -> Task:
        return await own_task(self._tasks, principal.within(tenant).owner, task_id)

    def _visible(self, task: Task, history_length: int | None) -> Task:
        """Return a task with the requested part of its history."""
        limit = self.limits.history
        if history_length is not None:
            limit = min(max(history_length, 0), limit)
        history = task.history[-limit:] if limit else ()
        return replace(
            task,
            history=tuple(
                [
                    message
                    if message.task_id and message.context_id
                    else replace(message, task_id=task.id, context_id=task.context_id)
                    for message in history
                ]
            ),
        )


def _marked(task: Task) -> Task:
    """Return a task that tells clients with the extension that their request was repeated."""
    return replace(task, metadata={**task.metadata, INTENTS_EXTENSION: {"repeated": True}})


def _next_step(task: Task, *, is_repeated: bool) -> str:
    """Return what a caller can do about an intent that did not complete."""
    if task.state in (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED):
        return f". Answer with a message to the task {task.id}"
    if is_repeated:
        return (
            ". A request_id is executed once, because it may have had effects: check them, then "
            "send the request again with a new request_id"
        )
    return ""
