"""Agents of other servers under evaluation, with a scripted server."""

from typing import Any

import pytest

from acc.adapters.evaluation.agents import RemoteAgentRunner, footprint
from acc.application.a2a.projection import MEMORY_FOOTPRINT
from acc.bootstrap.evaluation import make_agent, make_configurator
from acc.domain.errors import InvalidInput, RemoteFailed
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, EvaluationTurnQuery
from acc.domain.value_objects.task import Message, Role, Task, TaskState, TaskStatus
from acc.testing import RemoteAnswer, ScriptedRemote, queries


class Counting:
    def __init__(self) -> None:
        self.made = 0

    def new(self) -> str:
        self.made += 1
        return f"id-{self.made}"


def task(state: TaskState = TaskState.COMPLETED, text: str = "", **fields: Any) -> Task:
    message_text = (
        Message(message_id="m", role=Role.AGENT, parts=(Part(text=text),)) if text else None
    )
    return Task(
        id="t",
        context_id="context-1",
        status=TaskStatus(state=state, message=message_text),
        **fields,
    )


async def answers(
    remote: ScriptedRemote, *turns: EvaluationTurnQuery
) -> tuple[RemoteAgentRunner, list[AgentTurnResponse]]:
    runner = RemoteAgentRunner(agent_name="theirs", remote=remote, ids=Counting())
    return runner, [await runner.run_turn(turn, {}) for turn in turns]


async def test_episode_uses_one_context_and_one_message_per_turn() -> None:
    remote = ScriptedRemote("one", "two")
    runner, replies = await answers(remote, *queries("a", "b"))
    assert [response.response_text for response in replies] == ["one", "two"]
    assert {response.agent_name for response in replies} == {"theirs"} == {runner.agent_name}
    assert [message.context_id for message in remote.sent] == ["", "context-1"]
    assert replies[0].trace == {"context": "context-1"}


async def test_interrupted_episode_continues_in_its_context() -> None:
    turns = queries("a", "b")
    first = ScriptedRemote("one", "two")
    _, replies = await answers(first, *turns)
    remote = ScriptedRemote("two")
    runner = RemoteAgentRunner(agent_name="theirs", remote=remote, ids=Counting())
    await runner.replay_turn(turns[0], {}, replies[0])
    await runner.run_turn(turns[1], {})
    assert remote.sent[0] == first.sent[1]
    await runner.replay_turn(turns[0], {}, AgentTurnResponse(agent_name="x", response_text=""))
    assert runner._context == "context-1"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (RemoteFailed("gone"), "remote_failed: gone"),
        (task(TaskState.FAILED, "no stock"), "failed: no stock"),
        (
            task(TaskState.INPUT_REQUIRED, "which?"),
            "input-required: the agent requires input: which?",
        ),
    ],
)
async def test_failed_remote_turn_has_an_error_and_the_next_turn_continues(
    answer: RemoteAnswer, error: str
) -> None:
    remote = ScriptedRemote(answer, "fine")
    _, replies = await answers(remote, *queries("a", "b"))
    assert [(r.response_text, r.error) for r in replies] == [("", error), ("fine", "")]
    assert remote.canceled == (["t"] if "requires input" in error else [])


async def test_message_without_task_has_no_memory_tokens() -> None:
    reported = Message(message_id="m", role=Role.AGENT, parts=(Part(text="hi"),), context_id="c")
    _, (replies,) = await answers(ScriptedRemote(reported), *queries("a"))
    assert (replies.response_text, replies.memory_tokens) == ("hi", None)


async def test_structured_answer_is_judged_by_its_text() -> None:
    parts = (Part(text="Here:"), Part(data={"n": 1}), Part(raw=b"1", filename="a.png"))
    reported = Message(message_id="m", role=Role.AGENT, parts=parts)
    status = TaskStatus(state=TaskState.COMPLETED, message=reported)
    ended = Task(id="t", context_id="c", status=status)
    _, replies = await answers(ScriptedRemote(reported, ended), *queries("a", "b"))
    assert [response.response_text for response in replies] == ['Here:\n{"n":1}'] * 2


@pytest.mark.parametrize(
    ("metadata", "tokens"),
    [
        ({MEMORY_FOOTPRINT: {"tokens": 478}}, 478),
        ({MEMORY_FOOTPRINT: {"tokens": 0}}, 0),
        ({MEMORY_FOOTPRINT: {"tokens": -1}}, None),
        ({MEMORY_FOOTPRINT: {"tokens": 10**9}}, 10**9),
        ({MEMORY_FOOTPRINT: {"tokens": 10**9 + 1}}, None),
        ({MEMORY_FOOTPRINT: {"tokens": 10**30}}, None),
        ({MEMORY_FOOTPRINT: {"tokens": "many"}}, None),
        ({MEMORY_FOOTPRINT: {"tokens": True}}, None),
        ({MEMORY_FOOTPRINT: 3}, None),
        ({}, None),
    ],
)
def test_memory_tokens_are_those_that_the_server_reports(
    metadata: dict[str, Any], tokens: int | None
) -> None:
    assert footprint(task(metadata=metadata)) == tokens


def test_invalid_remote_url_is_rejected_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    (choice,) = make_configurator().agents("theirs=a2a:http://127.0.0.1:8000")
    assert choice.kind == "a2a:http://127.0.0.1:8000"
    monkeypatch.setenv("ACC_TOKEN_THEIRS", "s3cret")
    assert make_agent("theirs", choice.kind).agent_name == "theirs"
    for wrong in ("a2a:", "a2a:desk", "a2a:http://me:secret@desk.example"):
        with pytest.raises(InvalidInput):
            make_configurator().agents(f"theirs={wrong}")
