"""Where clients want to be told: what is kept, what is refused, and what is found again."""

from typing import Any

import pytest
from serving_world import ANN, Doer, World, any_url, push, send

from acc.application.a2a.requests import PushCreateRequest, PushRequest
from acc.domain.errors import InvalidInput, TaskNotFound
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.task import PushConfig

UNSENDABLE: list[dict[str, Any]] = [
    {"token": "あ"},
    {"token": "a\r\nX-Evil: 1"},
    {"token": " a"},
    {"token": "x" * 9000},
    {"scheme": "Bearer", "credentials": "a\r\nb"},
    {"scheme": "Bearer", "credentials": "あ"},
    {"scheme": "B\n", "credentials": "a"},
    {"scheme": "Bearer Bearer", "credentials": "a"},
    {"scheme": "あ", "credentials": "a"},
    {"credentials": "a"},
    {"id": "x" * 300},
    {"id": "a\nb"},
]


@pytest.mark.parametrize("fields", UNSENDABLE)
@pytest.mark.parametrize("protocol_version", ["1.0", "0.3"])
async def test_a_configuration_that_no_notification_could_be_sent_by_is_refused(
    world: World, doer: Doer, fields: dict[str, Any], protocol_version: str
) -> None:
    async with world.open(doer, check_url=any_url) as serve:
        task = await send(serve, "hello")
        bad = replace(push(task_id=task.id), protocol_version=protocol_version, **fields)
        with pytest.raises(InvalidInput, match="push notification config: ") as refused:
            await serve.create_push(ANN, PushCreateRequest(config=bad))
        assert "X-Evil" not in str(refused.value)
        with pytest.raises(InvalidInput, match="push notification config: "):
            await send(serve, "again", push=bad)
        assert await serve.list_push_configs(ANN, PushRequest(task_id=task.id)) == ((), "")
        assert doer.log == ["hello"]


@pytest.mark.parametrize(
    "fields",
    [
        {"token": "x" * 8000, "id": "日本/ %2F"},
        {"token": "with spaces, and: signs", "scheme": "Bearer", "credentials": "a.b.c=="},
        {"scheme": "Bearer"},
        {"scheme": "OAuth 2.0"},
    ],
)
async def test_a_configuration_that_can_be_sent_by_is_kept(
    world: World, doer: Doer, fields: dict[str, Any]
) -> None:
    async with world.open(doer, check_url=any_url) as serve:
        task = await send(serve, "hello")
        wanted: PushConfig = replace(push(id="p", task_id=task.id), **fields)
        assert await serve.create_push(ANN, PushCreateRequest(config=wanted)) == wanted


async def test_configurations_come_page_by_page(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer, check_url=any_url) as serve:
        task = await send(serve, "hello")
        for name in "abcde":
            config = push(id=name, task_id=task.id)
            await serve.create_push(ANN, PushCreateRequest(config=config))

        async def page(size: int, token: str = "") -> tuple[str, str]:
            asked = PushRequest(task_id=task.id, page_size=size, page_token=token)
            found = await serve.list_push_configs(ANN, asked)
            return "".join(config.id for config in found.configs), found.next_page_token

        names, first = await page(2)
        assert (names, bool(first)) == ("ab", True)
        for name in names:  # what was seen may go before the next page is asked for
            await serve.delete_push(ANN, PushRequest(task_id=task.id, id=name))
        names, second = await page(2, first)
        assert (names, bool(second)) == ("cd", True)
        assert await page(2, second) == ("e", "")
        assert await page(0, first) == ("cde", "")
        assert await page(3) == ("cde", "")
        await serve.delete_push(ANN, PushRequest(task_id=task.id, id="e"))
        for token in ("zzz", second):
            with pytest.raises(InvalidInput, match="pageToken: "):
                await page(1, token)


async def test_without_an_id_the_configuration_is_meant_that_nobody_named(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer, check_url=any_url) as serve:
        task = await send(serve, "hello", push=push(id="named"))
        asked = PushRequest(task_id=task.id)
        assert (await serve.get_push(ANN, asked)).id == "named"
        unnamed = replace(push(task_id=task.id), protocol_version="0.3")
        made = await serve.create_push(ANN, PushCreateRequest(config=unnamed))
        assert await serve.get_push(ANN, asked) == made
        for name in ("named", made.id):
            await serve.delete_push(ANN, PushRequest(task_id=task.id, id=name))
        with pytest.raises(TaskNotFound):
            await serve.get_push(ANN, asked)
