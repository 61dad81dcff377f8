"""Callers see only their own tasks, within their limits."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from server_harness import (
    ANN,
    BOB,
    CommandAgent,
    S,
    ServerHarness,
    allow_any_url,
    cancel,
    get,
    list_tasks,
    push_config,
    send,
    send_request,
    start,
    wait_for_state,
)

from acc.application.a2a.requests import (
    GetRequest,
    ListRequest,
    PushCreateRequest,
    PushRequest,
    TaskRequest,
)
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.domain.errors import (
    AccError,
    AddressRefused,
    ContextNotFound,
    LimitExceeded,
    PermissionDenied,
    PushNotSupported,
    TaskNotFound,
    Unauthenticated,
)
from acc.domain.value_objects.principal import ANONYMOUS, Owner, Principal
from acc.domain.value_objects.task import TaskQuery, TaskState

Verb = Callable[[ServeA2AUseCase, Principal, str], Awaitable[object]]
VERBS: dict[str, Verb] = {
    "get": lambda serve, who, id: serve.get(who, GetRequest(id=id)),
    "cancel": lambda serve, who, id: serve.cancel(who, TaskRequest(id=id)),
    "subscribe": lambda serve, who, id: serve.subscribe(who, TaskRequest(id=id)),
    "send": lambda serve, who, id: serve.send(who, send_request("hello", task=id)),
    "stream": lambda serve, who, id: serve.stream(who, send_request("hello", task=id)),
    "create_push": lambda serve, who, id: serve.create_push(
        who, PushCreateRequest(config=push_config(task_id=id))
    ),
    "get_push": lambda serve, who, id: serve.get_push(who, PushRequest(task_id=id, id="p1")),
    "pushes": lambda serve, who, id: serve.list_push_configs(who, PushRequest(task_id=id)),
    "delete_push": lambda serve, who, id: serve.delete_push(who, PushRequest(task_id=id, id="p1")),
}
OTHERS = {
    "caller": BOB,
    "tenant": Principal(caller="ann", tenant="acme"),
    "anonymous": ANONYMOUS,
}


@pytest.mark.parametrize("other", sorted(OTHERS))
@pytest.mark.parametrize("verb", sorted(VERBS))
async def test_foreign_task_is_not_found(
    harness: ServerHarness, agent_under_test: CommandAgent, verb: str, other: str
) -> None:
    async with harness.open(agent_under_test, check_url=allow_any_url) as serve:
        task = await send(serve, "ask", push=push_config(id="p1"))
        faults: list[str] = []
        for name in (task.id, "nothing"):
            with pytest.raises(TaskNotFound) as caught:
                await VERBS[verb](serve, OTHERS[other], name)
            faults.append(str(caught.value).replace(name, "…"))
        assert faults[0] == faults[1]
        assert await get(serve, task) == task
        assert len((await serve.list_push_configs(ANN, PushRequest(task_id=task.id))).configs) == 1


async def test_foreign_context_is_rejected(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        await send(serve, "hello", context="c1")
        with pytest.raises(ContextNotFound):
            await send(serve, "hello", BOB, context="c1")
        with pytest.raises(ContextNotFound):
            await send(serve, "hello", context="c1", tenant="acme")
        await send(serve, "hello", BOB, context="c2")


async def test_tenants_are_isolated(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    inside = Principal(caller="ann", tenant="acme")
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "ask", inside)
        assert (await serve.get(inside, GetRequest(id=task.id, tenant="acme"))) == task
        # Credentials for no tenant in particular are for the one that is named.
        assert (await serve.get(ANN, GetRequest(id=task.id, tenant="acme"))) == task
        with pytest.raises(PermissionDenied):
            await serve.get(inside, GetRequest(id=task.id, tenant="other"))
        assert (await send(serve, "tea", task=task, tenant="acme")).state is S.COMPLETED
        assert [found.id for found in await list_tasks(serve, inside)] == [task.id]
        assert await list_tasks(serve) == []


def test_user_ids_of_callers_are_unique() -> None:
    callers = [("", "a/b/c"), ("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("", "c"), ("", "a")]
    users = {Owner(tenant, caller).user_id for tenant, caller in callers}
    assert len(users) == len(callers)
    assert ANN.owner.user_id == "ann"


async def test_anonymous_caller_cannot_list_tasks(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        await send(serve, "hello")
        with pytest.raises(Unauthenticated, match="listing tasks requires"):
            await list_tasks(serve, ANONYMOUS)
        with pytest.raises(Unauthenticated, match="the extended card requires"):
            serve.check_authenticated(ANONYMOUS, "the extended card")
        serve.check_authenticated(ANN, "the extended card")


async def test_anonymous_listing_lists_tasks_of_anonymous_callers(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test, anonymous_listing=True) as serve:
        await send(serve, "hello")
        task = await send(serve, "hello", ANONYMOUS)
        assert [found.id for found in await list_tasks(serve, ANONYMOUS)] == [task.id]


async def test_tasks_are_listed_by_filter_and_page(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        for number in range(5):
            any_harness.clock.time += 1
            await send(serve, "hello", context=f"c{number % 2}")
        waiting = await send(serve, "ask")
        query = TaskQuery(page_size=2, state=TaskState.COMPLETED)
        first = await serve.list_tasks(ANN, ListRequest(query=query))
        assert (len(first.tasks), first.total) == (2, 5)
        assert all(not task.artifacts for task in first.tasks)
        rest = TaskQuery(page_size=9, state=S.COMPLETED, page_token=first.next_page_token)
        second = await serve.list_tasks(
            ANN, ListRequest(query=rest, include_artifacts=True, history_length=0)
        )
        assert len(second.tasks) == 3
        assert all(task.artifacts and not task.history for task in second.tasks)
        found = await serve.list_tasks(ANN, ListRequest(query=TaskQuery(state=S.INPUT_REQUIRED)))
        assert [task.id for task in found.tasks] == [waiting.id]
        await cancel(serve, waiting)


async def test_push_configurations_belong_to_their_task(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, check_url=allow_any_url, pushes=2) as serve:
        task = await send(serve, "ask", push=push_config(id="p1"))
        made = await serve.create_push(ANN, PushCreateRequest(config=push_config(task_id=task.id)))
        assert made.id
        with pytest.raises(LimitExceeded, match="2 push configurations"):
            await serve.create_push(ANN, PushCreateRequest(config=push_config(task_id=task.id)))
        again = push_config("https://hooks.example/b", id="p1", task_id=task.id)
        assert await serve.create_push(ANN, PushCreateRequest(config=again)) == again
        assert await serve.get_push(ANN, PushRequest(task_id=task.id, id="p1")) == again
        assert await serve.get_push(ANN, PushRequest(task_id=task.id)) in (again, made)
        await serve.delete_push(ANN, PushRequest(task_id=task.id, id="p1"))
        await serve.delete_push(ANN, PushRequest(task_id=task.id, id="p1"))
        assert await serve.list_push_configs(ANN, PushRequest(task_id=task.id)) == ((made,), "")
        with pytest.raises(TaskNotFound):
            await serve.get_push(ANN, PushRequest(task_id=task.id, id="p1"))


async def test_no_task_is_created_when_push_url_is_refused(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async def refuse(url: str) -> None:
        raise AddressRefused("not there")

    async with harness.open(agent_under_test, check_url=refuse) as serve:
        with pytest.raises(AddressRefused):
            await send(serve, "hello", push=push_config())
        task = await send(serve, "hello")
        with pytest.raises(AddressRefused):
            await serve.create_push(ANN, PushCreateRequest(config=push_config(task_id=task.id)))


async def test_push_operations_fail_when_push_is_not_supported(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        for verb in ("create_push", "get_push", "pushes", "delete_push"):
            with pytest.raises(PushNotSupported):
                await VERBS[verb](serve, ANN, "t1")
        with pytest.raises(AccError, match="push notifications"):
            await send(serve, "hello", push=push_config())
        assert agent_under_test.log == []


async def test_task_is_listed_from_its_rounded_timestamp(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        for rounded, exact in ((1000.001, 1000.0006), (2000.002, 2000.0024), (3000.003, 3000.003)):
            any_harness.clock.time = exact
            task = await send(serve, "hello")
            for since, expected in ((rounded, [task.id]), (rounded + 0.001, [])):
                request = ListRequest(query=TaskQuery(since=since))
                page = await serve.list_tasks(ANN, request)
                assert [one.id for one in page.tasks] == expected


INSIDE = Principal(caller="ann", tenant="acme")


async def test_task_limit_covers_all_tenants_of_a_caller(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, tasks=2) as serve:
        refused: list[str] = []

        async def one(tenant: str) -> None:
            try:
                await start(serve, "wait", tenant=tenant)
            except LimitExceeded as error:
                refused.append(str(error))

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(one(f"t{number}"))
        assert len(refused) == 3
        assert all("2 running tasks in all tenants" in text for text in refused)
        # Those whose credentials are for one tenant are counted there.
        await start(serve, "wait", INSIDE)
        agent_under_test.gate.set()
        await send(serve, "hello", INSIDE)
        assert (await send(serve, "hello", tenant="t9")).state is S.COMPLETED


async def test_stream_limit_covers_all_tenants_of_a_caller(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, streams=1) as serve:
        stream = await serve.stream(ANN, send_request("wait", tenant="t0"))
        for tenant in ("", "t0", "t1"):
            with pytest.raises(LimitExceeded, match="at most 1 open streams"):
                await serve.stream(ANN, send_request("wait", tenant=tenant))
        other = await serve.stream(INSIDE, send_request("wait"))
        other.close()
        stream.close()
        agent_under_test.gate.set()


async def test_waiting_tasks_of_a_caller_are_limited(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, waiting=2) as serve:
        first = await send(serve, "ask")
        await send(serve, "ask")
        with pytest.raises(LimitExceeded, match="at most 2 tasks"):
            await send(serve, "hello")
        await send(serve, "hello", INSIDE)
        await cancel(serve, first)
        await wait_for_state(serve, first, S.CANCELED)
        assert (await send(serve, "hello")).state is S.COMPLETED
