"""Whose tasks, contexts and configurations are; for anyone else they do not exist."""

from collections.abc import Awaitable, Callable

import pytest
from serving_world import (
    ANN,
    BOB,
    Doer,
    S,
    World,
    any_url,
    cancel,
    get,
    listed,
    push,
    said,
    send,
)

from acc.application.a2a.requests import (
    GetRequest,
    ListRequest,
    PushCreateRequest,
    PushRequest,
    TaskRequest,
    user_of,
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
from acc.domain.value_objects.principal import ANONYMOUS, Principal
from acc.domain.value_objects.task import TaskQuery, TaskState

Verb = Callable[[ServeA2AUseCase, Principal, str], Awaitable[object]]
VERBS: dict[str, Verb] = {
    "get": lambda serve, who, id: serve.get(who, GetRequest(id=id)),
    "cancel": lambda serve, who, id: serve.cancel(who, TaskRequest(id=id)),
    "subscribe": lambda serve, who, id: serve.subscribe(who, TaskRequest(id=id)),
    "send": lambda serve, who, id: serve.send(who, said("hello", task=id)),
    "stream": lambda serve, who, id: serve.stream(who, said("hello", task=id)),
    "create_push": lambda serve, who, id: serve.create_push(
        who, PushCreateRequest(config=push(task_id=id))
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
async def test_a_foreign_task_is_as_if_it_were_not_there(
    world: World, doer: Doer, verb: str, other: str
) -> None:
    async with world.open(doer, check_url=any_url) as serve:
        task = await send(serve, "ask", push=push(id="p1"))
        faults: list[str] = []
        for name in (task.id, "nothing"):
            with pytest.raises(TaskNotFound) as caught:
                await VERBS[verb](serve, OTHERS[other], name)
            faults.append(str(caught.value).replace(name, "…"))
        assert faults[0] == faults[1]
        assert await get(serve, task) == task
        assert len((await serve.list_push_configs(ANN, PushRequest(task_id=task.id))).configs) == 1


async def test_a_foreign_context_is_refused(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        await send(serve, "hello", context="c1")
        with pytest.raises(ContextNotFound):
            await send(serve, "hello", BOB, context="c1")
        with pytest.raises(ContextNotFound):
            await send(serve, "hello", context="c1", tenant="acme")
        await send(serve, "hello", BOB, context="c2")


async def test_tenants_are_apart(worlds: World, doer: Doer) -> None:
    inside = Principal(caller="ann", tenant="acme")
    async with worlds.open(doer) as serve:
        task = await send(serve, "ask", inside)
        assert (await serve.get(inside, GetRequest(id=task.id, tenant="acme"))) == task
        # Credentials for no tenant in particular are for the one that is named.
        assert (await serve.get(ANN, GetRequest(id=task.id, tenant="acme"))) == task
        with pytest.raises(PermissionDenied):
            await serve.get(inside, GetRequest(id=task.id, tenant="other"))
        assert (await send(serve, "tea", task=task, tenant="acme")).state is S.COMPLETED
        assert [found.id for found in await listed(serve, inside)] == [task.id]
        assert await listed(serve) == []


def test_no_two_callers_share_a_user() -> None:
    callers = [("", "a/b/c"), ("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("", "c"), ("", "a")]
    users = {user_of(Principal(tenant=tenant, caller=caller)) for tenant, caller in callers}
    assert len(users) == len(callers)
    assert user_of(ANN) == "ann"


async def test_the_nameless_see_what_is_for_the_known_alone_nowhere(
    world: World, doer: Doer
) -> None:
    async with world.open(doer) as serve:
        await send(serve, "hello")
        with pytest.raises(Unauthenticated, match="listing tasks requires"):
            await listed(serve, ANONYMOUS)
        with pytest.raises(Unauthenticated, match="the extended card requires"):
            serve.check_authenticated(ANONYMOUS, "the extended card")
        serve.check_authenticated(ANN, "the extended card")


async def test_the_nameless_list_what_the_nameless_asked_where_that_is_wanted(
    world: World, doer: Doer
) -> None:
    async with world.open(doer, anonymous_listing=True) as serve:
        await send(serve, "hello")
        task = await send(serve, "hello", ANONYMOUS)
        assert [found.id for found in await listed(serve, ANONYMOUS)] == [task.id]


async def test_tasks_are_listed_by_filter_and_page(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        for number in range(5):
            worlds.clock.time += 1
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


async def test_configurations_are_kept_with_their_task(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer, check_url=any_url, pushes=2) as serve:
        task = await send(serve, "ask", push=push(id="p1"))
        made = await serve.create_push(ANN, PushCreateRequest(config=push(task_id=task.id)))
        assert made.id
        with pytest.raises(LimitExceeded, match="2 push configurations"):
            await serve.create_push(ANN, PushCreateRequest(config=push(task_id=task.id)))
        again = push("https://hooks.example/b", id="p1", task_id=task.id)
        assert await serve.create_push(ANN, PushCreateRequest(config=again)) == again
        assert await serve.get_push(ANN, PushRequest(task_id=task.id, id="p1")) == again
        assert await serve.get_push(ANN, PushRequest(task_id=task.id)) in (again, made)
        await serve.delete_push(ANN, PushRequest(task_id=task.id, id="p1"))
        await serve.delete_push(ANN, PushRequest(task_id=task.id, id="p1"))
        assert await serve.list_push_configs(ANN, PushRequest(task_id=task.id)) == ((made,), "")
        with pytest.raises(TaskNotFound):
            await serve.get_push(ANN, PushRequest(task_id=task.id, id="p1"))


async def test_an_address_that_is_refused_starts_no_task(world: World, doer: Doer) -> None:
    async def refuse(url: str) -> None:
        raise AddressRefused("not there")

    async with world.open(doer, check_url=refuse) as serve:
        with pytest.raises(AddressRefused):
            await send(serve, "hello", push=push())
        task = await send(serve, "hello")
        with pytest.raises(AddressRefused):
            await serve.create_push(ANN, PushCreateRequest(config=push(task_id=task.id)))


async def test_who_sends_no_notifications_says_so(world: World, doer: Doer) -> None:
    async with world.open(doer) as serve:
        for verb in ("create_push", "get_push", "pushes", "delete_push"):
            with pytest.raises(PushNotSupported):
                await VERBS[verb](serve, ANN, "t1")
        with pytest.raises(AccError, match="push notifications"):
            await send(serve, "hello", push=push())
        assert doer.log == []


async def test_a_task_is_found_by_the_time_that_was_told_of_it(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        for told, moved in ((1000.001, 1000.0006), (2000.002, 2000.0024), (3000.003, 3000.003)):
            worlds.clock.time = moved
            task = await send(serve, "hello")
            for since, found in ((told, [task.id]), (told + 0.001, [])):
                request = ListRequest(query=TaskQuery(since=since))
                page = await serve.list_tasks(ANN, request)
                assert [one.id for one in page.tasks] == found
