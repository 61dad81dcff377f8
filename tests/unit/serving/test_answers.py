"""A person in the loop: what is asked, and what counts as which answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from serving_world import (
    ANN,
    BOB,
    Doer,
    S,
    World,
    answer_of,
    any_url,
    get,
    note_of,
    push,
    request_of,
    said,
    send,
    settled,
    start,
    until,
)

from acc import Agent, ParallelAgent, tool
from acc.application.a2a.requests import PushRequest
from acc.domain.errors import InvalidInput, TaskNotFound, UnsupportedOperation
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    INTERRUPTED,
    StatusUpdate,
    Task,
    TaskEvent,
    TaskStatus,
    Update,
)
from acc.ports.outbound.storage_ports import TaskStorePort
from acc.testing import ScriptedModel, call


def data(value: Any) -> list[Part]:
    return [Part(data=value)]


@pytest.mark.parametrize(
    ("words", "ran"),
    [
        ("approve", "approve"),
        ("はい、承認します", "approve"),
        ("No, too much", "deny"),
        ("却下します", "deny"),
        (data({"verdict": "approve"}), "approve"),
        (data({"approved": True}), "approve"),
        (data({"approved": False, "reason": "no"}), "deny"),
        (data({"verdict": "DENIED"}), "deny"),
        ([Part(text="Approved."), *data({"verdict": "approve"})], "approve"),
        ([Part(text="見てください"), *data({"verdict": "deny"})], "deny"),
    ],
)
async def test_a_decision_lets_the_run_go_on(
    worlds: World, doer: Doer, words: Any, ran: str
) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "confirm Pay 12,000?")
        assert task.state is S.INPUT_REQUIRED
        assert request_of(task)["kind"] == "confirmation"
        assert request_of(task)["expiresAt"] == worlds.clock.now() + 60
        done = await send(serve, words, task=task)
        assert done.state is S.COMPLETED
        assert doer.log[-1] == f"ran {ran}"
        assert answer_of(done).startswith(ran)


async def test_a_denial_carries_its_reason_and_an_edit_its_arguments(
    world: World, doer: Doer
) -> None:
    async with world.open(doer) as serve:
        denied = await send(serve, "No, too much", task=await send(serve, "confirm"))
        assert answer_of(denied) == "deny: {} No, too much"
        edited = {"verdict": "approve", "arguments": {"amount": 5}}
        done = await send(serve, data(edited), task=await send(serve, "confirm"))
        assert answer_of(done) == "approve: {'amount': 5}"


async def test_a_wrong_edit_is_refused_and_the_task_still_asks(worlds: World) -> None:
    paid: list[int] = []

    @tool(confirm=True)
    def pay(payee: str, amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    model = ScriptedModel(call("pay", payee="青葉", amount=12), "done", repeat=True)
    async with worlds.open(Agent(name="clerk", model=model, tools=[pay])) as serve:
        task = await send(serve, "pay")
        for wrong, fault in (
            ({"amount": 9}, "missing required field `payee`"),
            ({"payee": "青葉", "amount": "much"}, "Expected `int`, got `str`"),
            ({"payee": "青葉", "amount": 9, "to": "me"}, "unknown field `to`"),
        ):
            with pytest.raises(InvalidInput, match=fault):
                await send(serve, data({"verdict": "approve", "arguments": wrong}), task=task)
            held = await get(serve, task)
            assert held.state is S.INPUT_REQUIRED
            assert request_of(held) == request_of(task)
        right = {"verdict": "approve", "arguments": {"payee": "青葉", "amount": 9}}
        done = await send(serve, data(right), task=task)
        assert (done.state, paid) == (S.COMPLETED, [9])


@pytest.mark.parametrize(
    "words",
    [
        "hmm",
        "yes?",
        "はい、でも待って",
        "approve 5000 instead",
        data([]),
        [Part(text="No, do not pay!"), *data({"verdict": "approve"})],
        [Part(text="承認します"), *data({"approved": False})],
    ],
)
async def test_an_undecided_text_is_asked_again_and_runs_nothing(
    worlds: World, doer: Doer, words: Any
) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "confirm Pay?")
        again = await send(serve, words, task=task)
        assert again.state is S.INPUT_REQUIRED
        assert "neither a clear yes" in note_of(again)
        assert "承認" in note_of(again)
        assert note_of(again).endswith("Pay?")
        assert request_of(again) == request_of(task)
        assert doer.log == ["confirm Pay?"]
        done = await send(serve, "approve", task=task)
        assert done.state is S.COMPLETED


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("green tea", "'green tea'"),
        ("緑茶", "'緑茶'"),
        (data({"drink": "tea"}), "{'drink': 'tea'}"),
        (data({"value": 3}), "3"),
        (data([1, 2]), "[1, 2]"),
        ([Part(text="a"), Part(text="b")], "'a\\nb'"),
    ],
)
async def test_free_input_is_taken_as_it_comes(
    world: World, doer: Doer, words: Any, value: str
) -> None:
    async with world.open(doer) as serve:
        task = await send(serve, "ask")
        done = await send(serve, words, task=task)
        assert answer_of(done) == f"answer: {value} by ann (approve)"


async def test_an_empty_text_is_no_free_input(world: World, doer: Doer) -> None:
    async with world.open(doer) as serve:
        task = await send(serve, "ask")
        assert (await send(serve, " ", task=task)).state is S.INPUT_REQUIRED


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"verdict": "yes"}, '"approve" or "deny"'),
        ({"reason": "none"}, '"approve" or "deny"'),
        ({"verdict": "approve", "arguments": [1]}, "is an object"),
        ({"requestId": "other", "verdict": "approve"}, "must be one of those that wait"),
        ({"answers": "approve"}, "is a list of objects"),
        ({"answers": ["approve"]}, "is a list of objects"),
        ({"answers": [{"verdict": "approve"}, {"verdict": "deny"}]}, "one answer to each"),
    ],
)
async def test_data_that_cannot_be_read_is_refused_and_runs_nothing(
    world: World, doer: Doer, value: Any, fault: str
) -> None:
    async with world.open(doer) as serve:
        task = await send(serve, "confirm")
        with pytest.raises(InvalidInput, match=fault):
            await send(serve, data(value), task=task)
        assert (await get(serve, task)) == task
        assert doer.log == ["confirm"]


async def test_an_answer_that_comes_again_changes_nothing(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "twice")
        given = {"requestId": request_of(task)["requestId"], "verdict": "approve"}
        second = await send(serve, data(given), task=task, id="m2")
        assert note_of(second) == "Second?"
        # To what is asked now it would be no answer at all, and it was taken before.
        assert await send(serve, data(given), task=task, id="m2") == second
        done = await send(serve, "tea", task=task)
        assert answer_of(done) == "approve then tea"
        assert await send(serve, data(given), task=task, id="m2") == done


async def test_a_sign_in_is_asked_for_as_such(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "login")
        assert task.state is S.AUTH_REQUIRED
        assert answer_of(await send(serve, "I have signed in", task=task)) == "login approve"
        task = await send(serve, "login")
        assert answer_of(await send(serve, "No", task=task)) == "login deny"
        task = await send(serve, "login")
        done = await send(serve, data({"verdict": "approve"}), task=task)
        assert answer_of(done) == "login approve"


@pytest.mark.parametrize(
    "words",
    [
        "I could not log in",
        "ログインできませんでした",
        "失敗しました",
        "maybe later",
        "",
        [Part(text="I have not signed in"), Part(text="done")],
        [Part(text="cancel"), *data({"verdict": "approve"})],
        data([]),
    ],
)
async def test_a_sign_in_that_is_not_told_of_is_asked_for_again(
    worlds: World, doer: Doer, words: Any
) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "login")
        again = await send(serve, words, task=task)
        assert again.state is S.AUTH_REQUIRED
        assert "whether the sign-in is done" in note_of(again)
        assert note_of(again).endswith("Sign in.")
        assert request_of(again) == request_of(task)
        with pytest.raises(InvalidInput, match='"approve" or "deny"'):
            await send(serve, data({"error": "the login failed"}), task=task)
        assert answer_of(await send(serve, "ログインしました", task=task)) == "login approve"


async def test_an_answer_that_comes_too_late_is_a_no(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "confirm")
        worlds.clock.time += 61
        done = await send(serve, "approve", task=task)
        assert answer_of(done) == "expired: {}"


async def test_a_task_that_asks_nothing_takes_no_message(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        working = await start(serve, "wait")
        with pytest.raises(UnsupportedOperation, match="once it asks for input"):
            await send(serve, "hello", task=working)
        done = await send(serve, "hello")
        with pytest.raises(UnsupportedOperation, match="takes no more messages"):
            await send(serve, "hello", task=done)


async def test_nobody_else_can_answer(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "confirm")
        with pytest.raises(TaskNotFound) as foreign:
            await send(serve, "approve", BOB, task=task)
        with pytest.raises(TaskNotFound) as unknown:
            await send(serve, "approve", BOB, task="nothing")
        assert str(foreign.value).replace(task.id, "") == str(unknown.value).replace("nothing", "")
        with pytest.raises(InvalidInput, match="another context"):
            await send(serve, "approve", task=task, context="elsewhere")
        assert (await send(serve, "approve", task=task, context=task.context_id)).is_terminal


async def test_of_two_answers_at_the_same_moment_one_wins(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "confirm")
        outcomes: list[str] = []

        async def answer(words: str) -> None:
            try:
                await send(serve, words, task=task)
                outcomes.append(words)
            except UnsupportedOperation:
                outcomes.append("refused")

        async with asyncio.TaskGroup() as group:
            for words in ("approve", "deny", "approve", "deny"):
                group.create_task(answer(words))
        assert outcomes.count("refused") == 3
        assert sum(entry.startswith("ran") for entry in doer.log) == 1


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def pair() -> ParallelAgent:
    def clerk(name: str) -> Agent:
        model = ScriptedModel(call("pay", amount=len(name)), f"{name} is done")
        return Agent(name=name, model=model, tools=[pay], memory=None)

    return ParallelAgent(name="pair", sub_agents=[clerk("left"), clerk("right")])


def requests_of(task: Task) -> dict[int, str]:
    assert task.status.message is not None
    requests = task.status.message.parts[1].data["requests"]
    return {request["arguments"]["amount"]: request["requestId"] for request in requests}


async def test_two_requests_at_once_are_answered_together(worlds: World) -> None:
    async with worlds.open(pair()) as serve:
        task = await send(serve, "go")
        assert set(requests_of(task)) == {4, 5}
        done = await send(serve, "approve both", task=task)
        assert answer_of(done) == "left: left is done\nright: right is done"


async def test_two_requests_at_once_are_answered_one_by_one(worlds: World) -> None:
    async with worlds.open(pair()) as serve:
        task = await send(serve, "go")
        asked = requests_of(task)
        with pytest.raises(InvalidInput, match="one of those that wait"):
            await send(serve, data({"verdict": "approve"}), task=task)
        entry = {"requestId": asked[4], "verdict": "approve"}
        half = await send(serve, data(entry), task=task)
        assert half.state is S.INPUT_REQUIRED
        assert set(requests_of(half)) == {5}
        done = await send(
            serve, data({"answers": [{"requestId": asked[5], "approved": True}]}), task=task
        )
        assert done.state is S.COMPLETED


@pytest.mark.parametrize("words", ["hello"])
async def test_free_input_for_one_of_several_is_asked_again(world: World, words: str) -> None:
    sub_agents = [Doer(name="a"), Doer(name="b")]
    async with world.open(ParallelAgent(name="both", sub_agents=sub_agents)) as serve:
        task = await send(serve, "ask")
        assert (await send(serve, words, task=task)).state is S.INPUT_REQUIRED


async def test_an_answer_can_ask_to_be_notified(world: World, doer: Doer) -> None:
    async with world.open(doer, check_url=any_url) as serve:
        task = await send(serve, "ask")
        await serve.send(ANN, said("tea", task=task, push=push(id="p1")))
        ((config,), _) = await serve.pushes(ANN, PushRequest(task_id=task.id))
        assert (config.id, config.task_id) == ("p1", task.id)


async def test_a_task_whose_run_is_gone_fails_when_answered(world: World, doer: Doer) -> None:
    async with world.open(doer) as serve:
        task = await send(serve, "ask")
        await serve.runner.abandon(user_id="ann", session_id=task.context_id)
        done = await send(serve, "tea", task=task)
        assert done.state is S.FAILED
        assert done.metadata["code"] == "nothing_pending"


class Behind:
    """A store that says of a task, once, what it was before."""

    def __init__(self, store: TaskStorePort) -> None:
        self._store = store
        self.before: Task | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read(self, task_id: str, *, owner: Owner | None = None) -> Task | None:
        before, self.before = self.before, None
        return before or await self._store.read(task_id, owner=owner)


async def test_an_answer_that_crosses_the_question_is_an_answer(worlds: World, doer: Doer) -> None:
    store: Any = Behind(worlds.tasks)
    async with worlds.open(doer, store=store) as serve:
        task = await send(serve, "confirm")
        store.before = replace(task, status=TaskStatus(state=S.WORKING, at=1.0), seq=task.seq - 1)
        assert answer_of(await send(serve, "approve", task=task)) == "approve: {}"


async def test_an_answer_is_read_as_one_to_what_is_asked_now(worlds: World, doer: Doer) -> None:
    store: Any = Behind(worlds.tasks)
    async with worlds.open(doer, store=store) as serve:
        first = await send(serve, "twice")
        await send(serve, "approve", task=first)
        store.before = first
        assert answer_of(await send(serve, "tea", task=first)) == "approve then tea"


class Eager:
    """A store that lets a task be answered before those who asked know that it is stored."""

    def __init__(self, store: TaskStorePort) -> None:
        self._store = store
        self.answer: Callable[[str], Awaitable[object]]
        self.answered = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, task_id: str, updates: Sequence[Update]) -> tuple[TaskEvent, ...]:
        events = await self._store.append(task_id, updates)
        waits = any(isinstance(u, StatusUpdate) and u.status.state in INTERRUPTED for u in updates)
        if waits and not self.answered:
            self.answered = task_id
            await self.answer(task_id)
        return events


async def test_work_that_ends_leaves_the_next_work_on_its_task_alone(
    worlds: World, doer: Doer
) -> None:
    store: Any = Eager(worlds.tasks)
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: faults.append(told))
    async with worlds.open(doer, store=store) as serve:

        async def answer(task_id: str) -> None:
            await start(serve, "tea", task=task_id)

        store.answer = answer
        task = await start(serve, "ask")
        await until(lambda: store.answered == task.id)
        done = await settled(serve, task, S.COMPLETED)
        assert answer_of(done) == "answer: 'tea' by ann (approve)"
    assert faults == []
