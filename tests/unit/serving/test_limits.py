"""How much one caller may have at once, whatever tenants they name."""

import asyncio

import pytest
from serving_world import ANN, Doer, S, World, cancel, said, send, settled, start

from acc.domain.errors import LimitExceeded
from acc.domain.value_objects.principal import Principal

INSIDE = Principal(caller="ann", tenant="acme")


async def test_who_may_name_any_tenant_has_no_more_tasks_for_it(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer, tasks=2) as serve:
        refused: list[str] = []

        async def one(tenant: str) -> None:
            try:
                await start(serve, "wait", tenant=tenant)
            except LimitExceeded as error:
                refused.append(str(error))

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(one(f"t{number}"))
        assert refused == ["a caller may have at most 2 running tasks in all tenants"] * 3
        # Those whose credentials are for one tenant are counted there.
        await start(serve, "wait", INSIDE)
        doer.gate.set()
        await send(serve, "hello", INSIDE)
        assert (await send(serve, "hello", tenant="t9")).state is S.COMPLETED


async def test_who_may_name_any_tenant_has_no_more_streams_for_it(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer, streams=1) as serve:
        stream = await serve.stream(ANN, said("wait", tenant="t0"))
        for tenant in ("", "t0", "t1"):
            with pytest.raises(LimitExceeded, match="at most 1 open streams"):
                await serve.stream(ANN, said("wait", tenant=tenant))
        other = await serve.stream(INSIDE, said("wait"))
        other.close()
        stream.close()
        doer.gate.set()


async def test_tasks_that_wait_for_an_answer_are_bounded_too(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer, waiting=2) as serve:
        first = await send(serve, "ask")
        await send(serve, "ask")
        with pytest.raises(LimitExceeded, match="at most 2 tasks"):
            await send(serve, "hello")
        await send(serve, "hello", INSIDE)
        await cancel(serve, first)
        await settled(serve, first, S.CANCELED)
        assert (await send(serve, "hello")).state is S.COMPLETED
