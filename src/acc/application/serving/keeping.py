"""Keeping house: hold what is at work, see what other processes do, forget what is long over."""

import asyncio
import logging

from acc.application.serving.execution import Execution
from acc.application.serving.limits import ServeLimits
from acc.domain.errors import AccError
from acc.ports.outbound.runtime_ports import ClockPort
from acc.ports.outbound.task_ports import TaskStorePort

log = logging.getLogger("acc.serve")

_LOOK_EVERY = 0.2
_RENEW_EVERY = 10.0
_SWEEP_EVERY = 15.0


async def keep_house(
    execution: Execution, *, tasks: TaskStorePort, clock: ClockPort, limits: ServeLimits
) -> None:
    """Do all of it, for as long as the server lives."""
    loop = asyncio.get_running_loop()
    renewed = swept = loop.time() - _SWEEP_EVERY
    while True:
        try:
            now = loop.time()
            if now - swept >= _SWEEP_EVERY:
                swept = now
                await execution.fail_orphans()
                await tasks.forget(before=clock.now() - limits.keep)
            if now - renewed >= _RENEW_EVERY:
                renewed = now
                await tasks.renew(execution.running)
            if tasks.is_shared:
                await execution.notice_others()
        except AccError:
            log.exception("housekeeping failed and goes on")
        await asyncio.sleep(_LOOK_EVERY if tasks.is_shared else 1.0)
