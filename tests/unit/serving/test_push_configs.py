"""Where clients want to be told: what is kept, what is refused, and what is found again."""

from typing import Any

import pytest
from serving_world import ANN, Doer, World, any_url, push, send

from acc.application.serving.requests import PushCreateRequest, PushRequest
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.task import PushConfig
from acc.domain.value_objects.value import changed

UNSENDABLE: list[dict[str, Any]] = [
    {"token": "あ"},
    {"token": "a\r\nX-Evil: 1"},
    {"token": " a"},
    {"token": "x" * 5000},
    {"scheme": "Bearer", "credentials": "a\r\nb"},
    {"scheme": "Bearer", "credentials": "あ"},
    {"scheme": "B\n", "credentials": "a"},
    {"scheme": "Bearer Bearer", "credentials": "a"},
    {"scheme": "あ"},
    {"credentials": "a"},
    {"id": "x" * 300},
    {"id": "a\nb"},
]


@pytest.mark.parametrize("fields", UNSENDABLE)
@pytest.mark.parametrize("generation", ["1.0", "0.3"])
async def test_a_configuration_that_no_notification_could_be_sent_by_is_refused(
    world: World, doer: Doer, fields: dict[str, Any], generation: str
) -> None:
    async with world.open(doer, check_url=any_url) as serve:
        task = await send(serve, "hello")
        bad = changed(push(task_id=task.id), generation=generation, **fields)
        with pytest.raises(InvalidInput, match="push notification config: ") as refused:
            await serve.create_push(ANN, PushCreateRequest(config=bad))
        assert "X-Evil" not in str(refused.value)
        with pytest.raises(InvalidInput, match="push notification config: "):
            await send(serve, "again", push=bad)
        assert await serve.pushes(ANN, PushRequest(task_id=task.id)) == ()
        assert doer.log == ["hello"]


@pytest.mark.parametrize(
    "fields",
    [
        {"token": "x" * 4096, "id": "日本/ %2F"},
        {"token": "with spaces, and: signs", "scheme": "Bearer", "credentials": "a.b.c=="},
        {"scheme": "Bearer"},
    ],
)
async def test_a_configuration_that_can_be_sent_by_is_kept(
    world: World, doer: Doer, fields: dict[str, Any]
) -> None:
    async with world.open(doer, check_url=any_url) as serve:
        task = await send(serve, "hello")
        wanted: PushConfig = changed(push(id="p", task_id=task.id), **fields)
        assert await serve.create_push(ANN, PushCreateRequest(config=wanted)) == wanted
