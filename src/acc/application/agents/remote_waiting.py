"""Letting go of remote tasks that ask something which nobody is going to answer."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

from acc.application.agents.base import BaseAgent
from acc.application.agents.remote import MARK, RemoteAgent
from acc.application.agents.tool import AgentTool
from acc.application.run import Run
from acc.domain.errors import AccError
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.remote import RemoteAddress
from acc.ports.outbound.remote_ports import RemoteAgentPort

log = logging.getLogger("acc.run")

_TO_CANCEL = 5.0

Reach = Callable[[RemoteAddress], RemoteAgentPort]


async def cancel_waiting(run: Run) -> None:
    """Cancel the remote tasks that a run which is over leaves waiting, whichever process asked.

    What cannot be done in a moment is told in the log and left undone: the run is over anyway.
    """
    remotes = list(_remotes(run.root))
    reach = run.services.remote
    if reach is None or not remotes:
        return
    try:
        events = await run.services.sessions.events(run.key, run_id=run.run_id)
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
    return {"run_id": run.run_id, "trace_id": run.call.trace_id}
