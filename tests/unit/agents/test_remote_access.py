"""check_access: which errors show that a remote agent cannot be called."""

import pytest

from acc.application.agents.remote import check_access
from acc.domain.errors import (
    AccError,
    AddressRefused,
    PermissionDenied,
    RemoteFailed,
    TaskNotFound,
    Unauthenticated,
)
from acc.domain.value_objects.task import Task
from acc.testing import ScriptedRemote


class FailingRemote(ScriptedRemote):
    """A remote agent whose tasks cannot be read."""

    def __init__(self, error: AccError) -> None:
        super().__init__()
        self._error = error

    async def get(self, task_id: str) -> Task:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        AddressRefused("private"),
        Unauthenticated("no token"),
        PermissionDenied("not allowed"),
        RemoteFailed("down", retryable=True),
        RemoteFailed("no interface", remote_code="no_interface"),
        RemoteFailed("other origin", remote_code="untrusted_origin"),
    ],
)
async def test_unusable_agent_raises(error: AccError) -> None:
    with pytest.raises(type(error)) as caught:
        await check_access(FailingRemote(error))
    assert caught.value is error


@pytest.mark.parametrize("error", [TaskNotFound("t"), RemoteFailed("odd", remote_code="500")])
async def test_error_about_the_task_shows_that_access_works(error: AccError) -> None:
    await check_access(FailingRemote(error))


async def test_agent_that_returns_a_task_is_accessible() -> None:
    await check_access(ScriptedRemote())
