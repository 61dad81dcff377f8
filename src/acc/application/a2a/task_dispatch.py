"""Let an engine execute tasks: the server stores messages, the workers run them."""

import logging

from acc.application.a2a.projection import ProjectionOptions
from acc.domain.errors import AccError
from acc.domain.value_objects.principal import Principal
from acc.ports.outbound.engine_ports import EnginePort, EngineWork, TaskWork

log = logging.getLogger("acc.serve")


class TaskDispatcher:
    """Starts, continues and cancels tasks through an engine."""

    def __init__(self, engine: EnginePort, *, app_name: str) -> None:
        self._engine = engine
        self._app_name = app_name

    async def start(self, task_id: str, sender: Principal, options: ProjectionOptions) -> None:
        """Let the engine execute a task as soon as it is stored; Unavailable if it cannot.

        The engine is first, so that no stored task is unknown to it. If the task is not stored
        afterwards, the worker ends the work.
        """
        await self._engine.start(self._work(task_id, sender, options))

    async def notify(self, task_id: str, sender: Principal, options: ProjectionOptions) -> None:
        """Let the engine continue a task whose answer is stored."""
        try:
            await self._engine.notify(self._work(task_id, sender, options))
        except AccError as error:
            # The answer is accepted. Maintenance repeats the notification.
            log.warning(
                "the engine was not notified of an answer; this is repeated: %s",
                error,
                extra={"task_id": task_id},
            )

    async def recover(self, task_id: str) -> bool:
        """Notify the engine of a task that no process has leased; False if it does not know it."""
        return await self._engine.notify(self._known(task_id), start=False)

    async def cancel(self, task_id: str) -> None:
        """Cancel the run of a task that was canceled or not stored."""
        try:
            await self._engine.cancel(self._known(task_id))
        except AccError as error:
            # The updates of the run are refused, which ends it too.
            log.warning(
                "the engine did not cancel the run of a task: %s", error, extra={"task_id": task_id}
            )

    def _known(self, task_id: str) -> EngineWork:
        return EngineWork(app_name=self._app_name, run_id=task_id)

    def _work(self, task_id: str, sender: Principal, options: ProjectionOptions) -> EngineWork:
        permissions = sender.permissions
        return EngineWork(
            app_name=self._app_name,
            run_id=task_id,
            user_id=sender.owner.user_id,
            task=TaskWork(
                caller=sender.caller,
                tenant=sender.tenant,
                permissions=None if permissions is None else tuple(sorted(permissions)),
                is_anonymous=sender.is_anonymous,
                any_tenant=sender.any_tenant,
                deltas=options.deltas,
                as_data=options.as_data,
                may_reply=options.may_reply,
                footprint=options.footprint,
            ),
        )
