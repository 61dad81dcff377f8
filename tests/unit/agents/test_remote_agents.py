"""Remote agents: requests, answers, failures, input requests and validation."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from remote_harness import (
    TOKEN,
    URL,
    EchoAgent,
    RemoteHarness,
    StaticReceiver,
    agent_message,
    artifact,
    input_required,
    make_harness,
    shop,
    status,
    task,
    text,
)

from acc import (
    Agent,
    AgentTool,
    EventKind,
    InvalidTree,
    LoopAgent,
    ParallelAgent,
    Part,
    RemoteFailed,
    RequestKind,
    RunConfig,
    Runner,
    RunStatus,
    SequentialAgent,
    approve,
    deny,
)
from acc.application.a2a.projection import INPUT_REQUEST
from acc.bootstrap.agents import make_services
from acc.contracts import INTENTS_EXTENSION
from acc.domain.errors import AddressRefused, InvalidInput, Unauthenticated
from acc.domain.value_objects.approval import ApprovalDecision, InputAnswer
from acc.domain.value_objects.endpoint import RemoteEndpoint
from acc.domain.value_objects.run import CallContext, Grant
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    Role,
    Task,
    TaskState,
)
from acc.testing import ScriptedModel, ScriptedRemote, call

# Requests and answers


async def test_remote_agent_returns_the_answer_of_its_server() -> None:
    harness, remote = make_harness(shop(**TOKEN), "it is open")
    done = await harness.send("is it open?")
    assert (done.status, done.text, done.answered_by) == (RunStatus.COMPLETED, "it is open", "shop")
    assert remote.sent[0].parts == (text("is it open?"),)
    assert remote.sent[0].role is Role.USER
    assert "s3cret" not in repr(harness.endpoints[0])
    assert "s3cret" not in repr(harness.runner.agent)


async def test_session_uses_one_remote_context() -> None:
    harness, remote = make_harness(shop(), "one", "two")
    await harness.send("first")
    await harness.send("second")
    assert [message.context_id for message in remote.sent] == ["", "context-1"]
    assert len({message.message_id for message in remote.sent}) == 2
    assert await harness.runner.state(user_id="u", session_id="s") == {
        "remote.shop": {"url": URL, "context": "context-1"}
    }


async def test_remote_context_is_not_used_at_another_url(tmp_path: Path) -> None:
    remote = ScriptedRemote("one", "two")
    for url in (URL, "https://elsewhere.example.com"):
        harness = RemoteHarness(shop(url=url), remote, tmp_path / "a.db")
        await harness.send("hello")
        await harness.runner.aclose()
    assert [message.context_id for message in remote.sent] == ["", ""]


async def test_trace_context_is_sent() -> None:
    harness, remote = make_harness(shop(), "yes")
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    call_context = CallContext(
        request_id="r", trace_id="t-1", caller="user://u", metadata={"traceparent": parent}
    )
    await harness.send("hello", context=call_context)
    context = {
        "caller": "agent://shop",
        "on_behalf_of": "user://u",
        "request_id": "r",
        "trace_id": "t-1",
        "idempotency_key": remote.sent[0].message_id,
    }
    assert remote.sent[0].metadata == {
        "traceId": "t-1",
        "traceparent": parent,
        INTENTS_EXTENSION: {"context": context},
    }


async def test_files_and_data_of_the_message_are_sent() -> None:
    harness, remote = make_harness(shop(), "yes")
    image = Part(raw=b"png", media_type="image/png", filename="a.png")
    await harness.send([text("look"), image, Part(data={"n": 1})])
    assert remote.sent[0].parts == (text("look"), image, Part(data={"n": 1}))


async def test_earlier_answers_of_other_agents_are_sent() -> None:
    tree = SequentialAgent(name="root", sub_agents=[EchoAgent(name="first"), shop()])
    harness, remote = make_harness(tree, "yes")
    await harness.send("go")
    assert remote.sent[0].parts == (text("go\n\n[first]\nfirst heard go"),)


async def test_loop_sends_only_new_messages() -> None:
    tree = LoopAgent(name="root", sub_agents=[shop(), EchoAgent(name="critic")], max_iterations=2)
    harness, remote = make_harness(tree, "draft", "better")
    await harness.send("write")
    assert [message.parts for message in remote.sent] == [
        (text("write"),),
        (text("[critic]\ncritic heard write"),),
    ]


async def test_model_can_call_a_remote_agent_as_a_tool() -> None:
    model = ScriptedModel(call("shop", request="a hat"), "done")
    root = Agent(name="root", model=model, tools=[AgentTool(agent=shop())])
    harness, remote = make_harness(root, "sold")
    picture = Part(raw=b"png", media_type="image/png")
    assert (await harness.send([text("buy"), picture])).text == "done"
    assert remote.sent[0].parts == (text("a hat"),)


async def test_model_can_transfer_to_a_remote_agent() -> None:
    model = ScriptedModel(call("transfer_to_agent", agent_name="shop"))
    harness, _ = make_harness(Agent(name="root", model=model, sub_agents=[shop()]), "sold")
    assert (await harness.send("buy")).text == "sold"


async def test_remote_context_is_stored_without_a_state_grant() -> None:
    tree = SequentialAgent(
        name="root", sub_agents=[shop()], grants={"shop": Grant(read=[], write=[])}
    )
    harness, remote = make_harness(tree, "one", "two")
    await harness.send("a")
    await harness.send("b")
    assert remote.sent[1].context_id == "context-1"


# Forms of answers


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (agent_message(text("a message "), text("alone")), "a message alone"),
        (task(TaskState.COMPLETED, artifact("x", text("one"), text(" two"))), "one two"),
        (task(TaskState.COMPLETED, parts=(text("in the status"),)), "in the status"),
        (
            task(
                TaskState.COMPLETED,
                artifact("log", text("noise")),
                artifact("answer", text("this")),
            ),
            "this",
        ),
        (task(TaskState.COMPLETED, artifact("answer", Part(data={"n": 1}))), '{"n":1}'),
        (task(TaskState.COMPLETED, artifact("answer", Part(is_null=True))), "null"),
        (
            task(TaskState.COMPLETED, artifact("a", text("one")), artifact("b", text("two"))),
            "one\ntwo",
        ),
        (task(TaskState.COMPLETED, artifact("table", Part(data=[1]))), "[1]"),
        (task(), ""),
    ],
)
async def test_answer_is_read_from_message_artifact_or_status(
    response: Task | Message, answer: str
) -> None:
    harness, _ = make_harness(shop(), response)
    assert (await harness.send("x")).text == answer


async def test_artifacts_of_a_remote_task_are_published() -> None:
    report = Part(text="all well", filename="report.txt", media_type="text/plain")
    response = task(
        TaskState.COMPLETED,
        artifact("report", report),
        artifact("\x1b[31m", Part(url="https://example.com/a.pdf")),
        artifact("empty"),
        artifact("answer", text("done")),
    )
    harness, _ = make_harness(shop(), response)
    done = await harness.send("x")
    events = [event for event in done.events if event.kind is EventKind.ARTIFACT]
    assert [(event.detail["name"], event.parts[0].url) for event in events] == [
        ("report", None),
        ("[31m", "https://example.com/a.pdf"),
    ]
    assert done.text == "done"


async def test_artifact_without_a_printable_name_gets_a_default_name() -> None:
    harness, _ = make_harness(shop(), task(TaskState.COMPLETED, artifact("\x07", Part(data=1))))
    done = await harness.send("x")
    assert [e.detail["name"] for e in done.events if e.kind is EventKind.ARTIFACT] == ["artifact"]


async def test_chunks_and_progress_are_streamed() -> None:
    def chunk(name: str, content: str, **more: Any) -> ArtifactUpdate:
        return ArtifactUpdate(artifact=artifact(name, text(content)), **more)

    file = ArtifactUpdate(artifact=artifact("f", Part(text="x", filename="f.txt")))
    harness, _ = make_harness(
        shop(),
        [
            status(TaskState.WORKING),
            status(TaskState.WORKING, text("looking")),
            status(TaskState.WORKING, Part(data=1)),
            file,
            ArtifactUpdate(artifact=artifact("picture", Part(raw=b"1"))),
            chunk("draft", "hm"),
            chunk("answer", "it "),
            chunk("draft", "no"),
            chunk("answer", "is", append=True),
            status(TaskState.COMPLETED),
        ],
    )
    events = [e async for e in harness.runner.stream(user_id="u", session_id="s", message="x")]
    partial = [(e.kind, e.text) for e in events if e.partial]
    assert partial == [
        (EventKind.PROGRESS, "looking"),
        (EventKind.DELTA, "hm"),
        (EventKind.DELTA, "it "),
        (EventKind.DELTA, "is"),
    ]
    assert events[-1].text == "it is"


async def test_run_without_streaming_has_no_partial_events() -> None:
    harness, _ = make_harness(shop(), "whole")
    done = await harness.send("x")
    assert [event.kind for event in done.events if event.partial] == []


# Failures


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.CANCELED])
async def test_failed_or_canceled_remote_task_raises(state: TaskState) -> None:
    harness, _ = make_harness(shop(), task(state, parts=(text("no stock"),)), task(state))
    with pytest.raises(
        RemoteFailed, match=f"'shop': the remote task is {state}: no stock"
    ) as caught:
        await harness.send("x")
    assert caught.value.remote_code == state
    with pytest.raises(RemoteFailed, match=f"is {state}$"):
        await harness.send("y")


async def test_client_error_is_raised_with_the_agent_name() -> None:
    harness, _ = make_harness(
        shop(), Unauthenticated("no token"), RemoteFailed("gone", remote_code="x", retryable=True)
    )
    with pytest.raises(RemoteFailed, match="agent 'shop': no token") as caught:
        await harness.send("x")
    assert (caught.value.remote_code, caught.value.retryable) == ("unauthenticated", False)
    with pytest.raises(RemoteFailed, match="agent 'shop': gone") as caught:
        await harness.send("x")
    assert (caught.value.remote_code, caught.value.retryable) == ("x", True)


async def test_private_address_error_names_the_allow_option() -> None:
    rejected = AddressRefused("10.0.0.1 goes onto the allow-list", may_be_allowed=True)
    harness, _ = make_harness(shop(), rejected)
    with pytest.raises(RemoteFailed, match=r"RemoteAgent\(allow=\[…\]\), or ACC_ALLOW"):
        await harness.send("x")


async def test_run_fails_when_services_cannot_call_remote_agents() -> None:
    services = make_services()
    services.remote = None
    with pytest.raises(RemoteFailed, match="cannot call remote agents"):
        await Runner(shop(), services=services).run(user_id="u", session_id="s", message="x")


async def test_answer_that_exceeds_the_limit_raises() -> None:
    harness, _ = make_harness(shop(), "x" * 11)
    with pytest.raises(RemoteFailed, match="exceeds 10 characters"):
        await harness.send("x", config=RunConfig(max_answer_characters=10))


async def test_cancelled_call_cancels_the_run() -> None:
    harness, _ = make_harness(shop(), 60.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await harness.send("x")
    events = await harness.runner.events(user_id="u", session_id="s")
    assert events[-1].status is RunStatus.CANCELED


# Input requests


CONFIRMATION = {
    "requestId": "r-1",
    "kind": "confirmation",
    "message": "Pay?",
    "tool": "pay",
    "arguments": {"amount": 5},
    "expiresAt": 32503680000,
}


async def test_remote_input_request_pauses_the_run_and_its_answer_is_sent(tmp_path: Path) -> None:
    remote = ScriptedRemote(input_required(CONFIRMATION), "paid")
    harness = RemoteHarness(
        SequentialAgent(name="root", sub_agents=[shop()]), remote, tmp_path / "a.db"
    )
    waiting = await harness.send("pay")
    (request,) = waiting.requests
    assert (request.kind, request.tool, request.arguments) == (
        RequestKind.CONFIRMATION,
        "pay",
        {"amount": 5},
    )
    assert (request.agent, request.message) == ("shop", "Pay?")
    assert request.expires_at == pytest.approx(32503680000)
    await harness.runner.aclose()
    # Another process has only the stored state.
    tree = SequentialAgent(name="root", sub_agents=[shop()])
    restarted = RemoteHarness(tree, remote, tmp_path / "a.db")
    done = await restarted.answer(approve(request.id, arguments={"amount": 3}))
    assert (done.status, done.text) == (RunStatus.COMPLETED, "paid")
    assert len(remote.sent) == 2
    answer = remote.sent[1]
    assert (answer.task_id, answer.context_id) == ("task-1", "context-1")
    assert answer.parts[0].data == {
        "answers": [{"requestId": "r-1", "verdict": "approve", "arguments": {"amount": 3}}]
    }
    await restarted.runner.aclose()


async def test_several_input_requests_are_answered_in_one_message() -> None:
    choice = {
        "requestId": "r-2",
        "kind": "input",
        "message": "Which?",
        "schema": {"type": "string"},
    }
    login = {"requestId": "r-3", "kind": "authorization", "message": "Sign in."}
    invalid: list[Any] = [
        {"requestId": 3, "kind": "input"},
        {"requestId": "r", "kind": "riddle"},
        "nothing",
    ]
    harness, remote = make_harness(
        shop(), input_required(CONFIRMATION, choice, login, *invalid), "done"
    )
    waiting = await harness.send("pay")
    first, second, third = waiting.requests
    assert [request.kind for request in waiting.requests] == [
        RequestKind.CONFIRMATION,
        RequestKind.INPUT,
        RequestKind.AUTHORIZATION,
    ]
    assert second.schema == {"type": "string"}
    partial = await harness.answer(deny(first.id, "too much"))
    assert [request.id for request in partial.requests] == [second.id, third.id]
    done = await harness.answer(
        approve(second.id, value="blue"), approve(third.id, value="never sent")
    )
    assert done.text == "done"
    assert remote.sent[1].parts[0].data == {
        "answers": [
            {"requestId": "r-1", "verdict": "deny", "reason": "too much"},
            {"requestId": "r-2", "verdict": "approve", "value": "blue"},
            {"requestId": "r-3", "verdict": "approve"},
        ]
    }


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        ({"value": "blue"}, (text("blue"),)),
        ({"value": {"n": 1}}, (Part(data={"n": 1}, media_type="application/json"),)),
        ({"arguments": {"n": 2}}, (Part(data={"n": 2}, media_type="application/json"),)),
        ({}, (text("continue"),)),
        ({"verdict": ApprovalDecision.DENY, "reason": "not now"}, (text("not now"),)),
        ({"verdict": ApprovalDecision.DENY}, (text("no"),)),
    ],
)
async def test_input_request_without_extension_is_answered_with_plain_parts(
    answer: dict[str, Any], parts: tuple[Part, ...]
) -> None:
    waiting = task(TaskState.INPUT_REQUIRED, parts=(text("Which colour?"), Part(data={"hint": 1})))
    harness, remote = make_harness(shop(), waiting, "done")
    (request,) = (await harness.send("buy")).requests
    assert (request.kind, request.message) == (RequestKind.INPUT, "Which colour?")
    assert request.arguments == {"hint": 1}
    await harness.answer(InputAnswer(request_id=request.id, **answer))
    assert remote.sent[1].parts == parts


async def test_authorization_request_is_answered_without_credentials() -> None:
    harness, remote = make_harness(shop(), task(TaskState.AUTH_REQUIRED), "signed in")
    (request,) = (await harness.send("buy")).requests
    assert request.kind is RequestKind.AUTHORIZATION
    assert request.message == "the remote agent needs input, but sent no question"
    await harness.answer(approve(request.id, value="my password"))
    assert remote.sent[1].parts == (text("continue"),)


async def test_invalid_requests_fall_back_to_the_status_text() -> None:
    data = Part(data={"requests": "none"}, metadata={"extension": INPUT_REQUEST})
    harness, _ = make_harness(shop(), task(TaskState.INPUT_REQUIRED, parts=(text("Well?"), data)))
    (request,) = (await harness.send("buy")).requests
    assert request.message == "Well?"


async def test_artifact_published_before_an_input_request_is_not_published_again() -> None:
    plan = artifact("plan", Part(data={"steps": 2}))
    waiting = task(TaskState.INPUT_REQUIRED, plan, parts=(text("go on?"),))
    completed = task(TaskState.COMPLETED, plan, artifact("answer", text("done")))
    harness, remote = make_harness(shop(), waiting, completed)
    (request,) = (await harness.send("buy")).requests
    await harness.answer(approve(request.id, value="yes"))
    events = await harness.runner.events(user_id="u", session_id="s")
    assert [e.detail["name"] for e in events if e.kind is EventKind.ARTIFACT] == ["plan"]
    assert len(remote.sent) == 2


async def test_artifact_changed_after_an_input_request_is_published_again(tmp_path: Path) -> None:
    plan = artifact("plan", Part(data={"steps": 2}))
    draft, final = (artifact("report", text(content)) for content in ("a draft", "the report"))
    waiting = task(TaskState.INPUT_REQUIRED, plan, draft, parts=(text("go on?"),))
    completed = task(TaskState.COMPLETED, plan, final, artifact("answer", text("done")))
    remote = ScriptedRemote(waiting, waiting, completed)
    harness = RemoteHarness(shop(), remote, tmp_path / "a.db")
    (request,) = (await harness.send("buy")).requests
    (request,) = (await harness.answer(approve(request.id, value="well"))).requests
    await harness.runner.aclose()
    restarted = RemoteHarness(shop(), remote, tmp_path / "a.db")
    await restarted.answer(approve(request.id, value="yes"))
    events = await restarted.runner.events(user_id="u", session_id="s")
    published = [(e.detail["name"], e.parts) for e in events if e.kind is EventKind.ARTIFACT]
    assert published == [
        ("plan", plan.parts),
        ("report", draft.parts),
        ("report", final.parts),
    ]
    await restarted.runner.aclose()


async def test_only_new_text_is_streamed_after_an_input_request() -> None:
    draft = artifact("answer", text("a draft"))
    again = ArtifactUpdate(artifact=draft, last_chunk=True)
    more = ArtifactUpdate(artifact=artifact("answer", text(", mended")), append=True)
    other = ArtifactUpdate(artifact=artifact("answer", text("quite other")), last_chunk=True)
    waiting = task(TaskState.INPUT_REQUIRED, draft, parts=(text("go on?"),))
    harness, _ = make_harness(shop(), waiting, [again, more, other, status(TaskState.COMPLETED)])
    (request,) = (await harness.send("buy")).requests
    answers = [approve(request.id, value="yes")]
    stream = harness.runner.stream(user_id="u", session_id="s", answers=answers)
    deltas = [event.text async for event in stream if event.kind is EventKind.DELTA]
    assert deltas == [", mended", "quite other"]


async def test_resumed_run_does_not_repeat_completed_calls() -> None:
    harness, remote = make_harness(
        ParallelAgent(name="root", sub_agents=[shop(name="quick"), shop(name="asks")]),
        "quickly done",
        input_required(CONFIRMATION),
        "paid",
    )
    waiting = await harness.send("pay")
    done = await harness.answer(*(approve(request.id) for request in waiting.requests))
    assert done.text == "quick: quickly done\nasks: paid"
    assert len(remote.sent) == 3


# Validation


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "agents.example.com"}, "not an absolute http or https URL"),
        ({"url": "ftp://agents.example.com"}, "not an absolute http or https URL"),
        ({"url": "https://:80"}, "not an absolute http or https URL"),
        ({"url": "https://a.example:0"}, "not an absolute http or https URL"),
        ({"url": "https://[::1"}, "is not a URL"),
        ({"url": "https://me:secret@a.example"}, "must not contain credentials"),
        ({"allow": "127.0.0.1"}, "allow must be a list"),
        ({"trust": "https://a.example"}, "trust must be a list"),
        ({"timeout": 0}, "timeout must be positive"),
        ({"retries": -1}, "retries"),
        ({"token": "two words"}, "token must be printable ASCII"),
        ({"token": "トークン"}, "token must be printable ASCII"),
        ({"sub_agents": [EchoAgent(name="inner")]}, "must not have sub-agents"),
        ({"mode": "pigeon"}, "stream, poll or push, got 'pigeon'"),
        ({"mode": "push"}, "requires receiver"),
        ({"receiver": StaticReceiver()}, "requires mode"),
    ],
)
def test_invalid_remote_agent_raises(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidTree, match=message) as caught:
        shop(**fields)
    assert "me:secret" not in str(caught.value)


def test_origin_has_no_path_or_credentials() -> None:
    assert RemoteEndpoint(url="https://A.example:443/x?token=1").origin == "https://a.example"
    assert RemoteEndpoint(url="http://[::1]:8000/x").origin == "http://[::1]:8000"
    with pytest.raises(InvalidInput, match="is not a URL"):
        RemoteEndpoint(url=3)  # type: ignore[arg-type]
