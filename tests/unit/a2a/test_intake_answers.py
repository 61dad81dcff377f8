"""Messages to paused tasks are answers to their requests."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from server_harness import (
    ANN,
    BOB,
    CommandAgent,
    S,
    ServerHarness,
    allow_any_url,
    answer_text,
    get,
    push_config,
    request_data,
    send,
    send_request,
    start,
    status_text,
    wait_for_state,
    wait_until,
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
        ("No, thanks", "deny"),
        ("却下します", "deny"),
        (data({"verdict": "approve"}), "approve"),
        (data({"approved": True}), "approve"),
        (data({"approved": False, "reason": "no"}), "deny"),
        (data({"verdict": "DENIED"}), "deny"),
        ([Part(text="Approved."), *data({"verdict": "approve"})], "approve"),
        ([Part(text="見てください"), *data({"verdict": "deny"})], "deny"),
    ],
)
async def test_task_continues_when_answer_decides(
    any_harness: ServerHarness, agent_under_test: CommandAgent, words: Any, ran: str
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "confirm Pay 12,000?")
        assert task.state is S.INPUT_REQUIRED
        assert request_data(task)["kind"] == "confirmation"
        assert request_data(task)["expiresAt"] == any_harness.clock.now() + 60
        done = await send(serve, words, task=task)
        assert done.state is S.COMPLETED
        assert agent_under_test.log[-1] == f"ran {ran}"
        assert answer_text(done).startswith(ran)


async def test_answer_contains_reason_of_denial_and_changed_arguments(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        denied = await send(serve, "No, thanks", task=await send(serve, "confirm"))
        assert answer_text(denied) == "deny: {} No, thanks"
        edited = {"verdict": "approve", "arguments": {"amount": 5}}
        done = await send(serve, data(edited), task=await send(serve, "confirm"))
        assert answer_text(done) == "approve: {'amount': 5}"


async def test_answer_fails_when_changed_arguments_are_invalid(any_harness: ServerHarness) -> None:
    paid: list[int] = []

    @tool(confirm=True)
    def pay(payee: str, amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    model = ScriptedModel(call("pay", payee="青葉", amount=12), "done", repeat=True)
    async with any_harness.open(Agent(name="clerk", model=model, tools=[pay])) as serve:
        task = await send(serve, "pay")
        for wrong, fault in (
            ({"amount": 9}, "missing required field `payee`"),
            ({"payee": "青葉", "amount": "much"}, "Expected `int`, got `str`"),
            ({"payee": "青葉", "amount": 9, "to": "me"}, "unknown field `to`"),
        ):
            with pytest.raises(InvalidInput, match=fault):
                await send(serve, data({"verdict": "approve", "arguments": wrong}), task=task)
            item = await get(serve, task)
            assert item.state is S.INPUT_REQUIRED
            assert request_data(item) == request_data(task)
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
async def test_task_asks_again_when_text_does_not_decide(
    any_harness: ServerHarness, agent_under_test: CommandAgent, words: Any
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "confirm Pay?")
        again = await send(serve, words, task=task)
        assert again.state is S.INPUT_REQUIRED
        assert "neither a clear yes" in status_text(again)
        assert "承認" in status_text(again)
        assert status_text(again).endswith("Pay?")
        assert request_data(again) == request_data(task)
        assert agent_under_test.log == ["confirm Pay?"]
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
async def test_input_request_takes_text_or_data_as_value(
    harness: ServerHarness, agent_under_test: CommandAgent, words: Any, value: str
) -> None:
    async with harness.open(agent_under_test) as serve:
        task = await send(serve, "ask")
        done = await send(serve, words, task=task)
        assert answer_text(done) == f"answer: {value} by ann (approve)"


async def test_task_asks_again_when_text_is_empty(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        task = await send(serve, "ask")
        assert (await send(serve, " ", task=task)).state is S.INPUT_REQUIRED


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"verdict": "yes"}, '"approve" or "deny"'),
        ({"reason": "none"}, '"approve" or "deny"'),
        ({"verdict": "approve", "arguments": [1]}, '"arguments"'),
        ({"requestId": "other", "verdict": "approve"}, '"requestId"'),
        ({"answers": "approve"}, '"answers"'),
        ({"answers": ["approve"]}, '"answers"'),
        ({"answers": [{"verdict": "approve"}, {"verdict": "deny"}]}, "one answer to each"),
    ],
)
async def test_answer_fails_when_data_is_invalid(
    harness: ServerHarness, agent_under_test: CommandAgent, value: Any, fault: str
) -> None:
    async with harness.open(agent_under_test) as serve:
        task = await send(serve, "confirm")
        with pytest.raises(InvalidInput, match=fault):
            await send(serve, data(value), task=task)
        assert (await get(serve, task)) == task
        assert agent_under_test.log == ["confirm"]


async def test_repeated_answer_returns_current_task(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "twice")
        given = {"requestId": request_data(task)["requestId"], "verdict": "approve"}
        second = await send(serve, data(given), task=task, id="m2")
        assert status_text(second) == "Second?"
        # To what is asked now it would be no answer at all, and it was taken before.
        assert await send(serve, data(given), task=task, id="m2") == second
        done = await send(serve, "tea", task=task)
        assert answer_text(done) == "approve then tea"
        assert await send(serve, data(given), task=task, id="m2") == done


async def test_sign_in_request_is_auth_required(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "login")
        assert task.state is S.AUTH_REQUIRED
        assert answer_text(await send(serve, "I have signed in", task=task)) == "login approve"
        task = await send(serve, "login")
        assert answer_text(await send(serve, "No", task=task)) == "login deny"
        task = await send(serve, "login")
        done = await send(serve, data({"verdict": "approve"}), task=task)
        assert answer_text(done) == "login approve"


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
async def test_task_asks_again_when_sign_in_is_not_confirmed(
    any_harness: ServerHarness, agent_under_test: CommandAgent, words: Any
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "login")
        again = await send(serve, words, task=task)
        assert again.state is S.AUTH_REQUIRED
        assert "whether the sign-in is done" in status_text(again)
        assert status_text(again).endswith("Sign in.")
        assert request_data(again) == request_data(task)
        with pytest.raises(InvalidInput, match='"approve" or "deny"'):
            await send(serve, data({"error": "the login failed"}), task=task)
        assert answer_text(await send(serve, "ログインしました", task=task)) == "login approve"


async def test_answer_is_expired_after_deadline(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "confirm")
        any_harness.clock.time += 61
        done = await send(serve, "approve", task=task)
        assert answer_text(done) == "expired: {}"


async def test_message_fails_when_task_does_not_require_input(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        working = await start(serve, "wait")
        with pytest.raises(UnsupportedOperation, match="only while it requires input"):
            await send(serve, "hello", task=working)
        done = await send(serve, "hello")
        with pytest.raises(UnsupportedOperation, match="accepts no more messages"):
            await send(serve, "hello", task=done)


async def test_answer_fails_when_caller_is_not_owner(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "confirm")
        with pytest.raises(TaskNotFound) as foreign:
            await send(serve, "approve", BOB, task=task)
        with pytest.raises(TaskNotFound) as unknown:
            await send(serve, "approve", BOB, task="nothing")
        assert str(foreign.value).replace(task.id, "") == str(unknown.value).replace("nothing", "")
        with pytest.raises(InvalidInput, match="another context"):
            await send(serve, "approve", task=task, context="elsewhere")
        assert (await send(serve, "approve", task=task, context=task.context_id)).is_terminal


async def test_one_of_concurrent_answers_is_accepted(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
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
        assert sum(entry.startswith("ran") for entry in agent_under_test.log) == 1


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


async def test_one_text_answers_all_pending_requests(any_harness: ServerHarness) -> None:
    async with any_harness.open(pair()) as serve:
        task = await send(serve, "go")
        assert set(requests_of(task)) == {4, 5}
        done = await send(serve, "approve both", task=task)
        assert answer_text(done) == "left: left is done\nright: right is done"


async def test_pending_requests_are_answered_one_by_one(any_harness: ServerHarness) -> None:
    async with any_harness.open(pair()) as serve:
        task = await send(serve, "go")
        asked = requests_of(task)
        with pytest.raises(InvalidInput, match='"requestId"'):
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
async def test_task_asks_again_when_text_fits_several_input_requests(
    harness: ServerHarness, words: str
) -> None:
    sub_agents = [CommandAgent(name="a"), CommandAgent(name="b")]
    async with harness.open(ParallelAgent(name="both", sub_agents=sub_agents)) as serve:
        task = await send(serve, "ask")
        assert (await send(serve, words, task=task)).state is S.INPUT_REQUIRED


async def test_answer_can_create_push_configuration(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test, check_url=allow_any_url) as serve:
        task = await send(serve, "ask")
        await serve.send(ANN, send_request("tea", task=task, push=push_config(id="p1")))
        ((config,), _) = await serve.list_push_configs(ANN, PushRequest(task_id=task.id))
        assert (config.id, config.task_id) == ("p1", task.id)


async def test_task_fails_when_its_run_was_abandoned(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
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


async def test_answer_is_accepted_when_task_was_read_before_the_request(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    store: Any = Behind(any_harness.tasks)
    async with any_harness.open(agent_under_test, store=store) as serve:
        task = await send(serve, "confirm")
        store.before = replace(task, status=TaskStatus(state=S.WORKING, at=1.0), seq=task.seq - 1)
        assert answer_text(await send(serve, "approve", task=task)) == "approve: {}"


async def test_answer_applies_to_the_current_request(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    store: Any = Behind(any_harness.tasks)
    async with any_harness.open(agent_under_test, store=store) as serve:
        first = await send(serve, "twice")
        await send(serve, "approve", task=first)
        store.before = first
        assert answer_text(await send(serve, "tea", task=first)) == "approve then tea"


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


async def test_ending_run_does_not_remove_the_next_run_of_its_task(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    store: Any = Eager(any_harness.tasks)
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    async with any_harness.open(agent_under_test, store=store) as serve:

        async def answer(task_id: str) -> None:
            await start(serve, "tea", task=task_id)

        store.answer = answer
        task = await start(serve, "ask")
        await wait_until(lambda: store.answered == task.id)
        done = await wait_for_state(serve, task, S.COMPLETED)
        assert answer_text(done) == "answer: 'tea' by ann (approve)"
    assert errors == []
