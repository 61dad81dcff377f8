"""Whose a task is, and who may ask for it."""

from urllib.parse import quote

from acc.domain.errors import PermissionDenied, TaskNotFound
from acc.domain.value_objects.remote import Owner, Principal
from acc.domain.value_objects.task import Task
from acc.domain.value_objects.value import changed
from acc.ports.outbound.task_ports import TaskStorePort


def owner_of(principal: Principal, tenant: str) -> Owner:
    """Return whose the tasks are that a caller asks for within a tenant."""
    if principal.tenant and tenant and tenant != principal.tenant:
        raise PermissionDenied("these credentials are for another tenant")
    return Owner(principal.tenant or tenant, principal.caller)


def within(principal: Principal, owner: Owner) -> Principal:
    """Return a caller within the tenant asked for."""
    if principal.owner == owner:
        return principal
    return changed(principal, tenant=owner.tenant, is_guest=True)


def user_of(who: Principal | Owner) -> str:
    """Return the user that a caller's sessions belong to, who is nobody else's."""
    if who.tenant:
        return f"{quote(who.tenant, safe='')}/{who.caller}"
    return f"/{who.caller}" if "/" in who.caller else who.caller


async def own_task(tasks: TaskStorePort, owner: Owner, task_id: str) -> Task:
    """Return a task of a caller; that of another is told in the same words as none at all."""
    task = await tasks.read(task_id, owner=owner)
    if task is None or task.reply is not None:
        raise TaskNotFound(task_id)
    return task
