import asyncio
from pathlib import Path
from typing import Any

import pytest
from remote_desk import (
    TOKEN,
    URL,
    Desk,
    Mailbox,
    Says,
    asking,
    desk,
    made,
    said,
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

# What is sent, and what comes back


async def test_a_remote_agent_answers_as_any_other() -> None:
    office, remote = desk(shop(**TOKEN), "it is open")
    done = await office.say("is it open?")
    assert (done.status, done.text, done.answered_by) == (RunStatus.COMPLETED, "it is open", "shop")
    assert remote.sent[0].parts == (text("is it open?"),)
    assert remote.sent[0].role is Role.USER
    assert "s3cret" not in repr(office.addresses[0])
    assert "s3cret" not in repr(office.runner.agent)


async def test_a_session_is_one_conversation_over_there() -> None:
    office, remote = desk(shop(), "one", "two")
    await office.say("first")
    await office.say("second")
    assert [message.context_id for message in remote.sent] == ["", "context-1"]
    assert len({message.message_id for message in remote.sent}) == 2
    assert await office.runner.state(user_id="u", session_id="s") == {
        "remote.shop": {"url": URL, "context": "context-1"}
    }


async def test_a_conversation_with_another_address_is_not_gone_on_with(tmp_path: Path) -> None:
    remote = ScriptedRemote("one", "two")
    for url in (URL, "https://elsewhere.example.com"):
        office = Desk(shop(url=url), remote, tmp_path / "a.db")
        await office.say("hello")
        await office.runner.aclose()
    assert [message.context_id for message in remote.sent] == ["", ""]


async def test_a_trace_goes_along() -> None:
    office, remote = desk(shop(), "yes")
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    call_context = CallContext(
        request_id="r", trace_id="t-1", caller="user://u", metadata={"traceparent": parent}
    )
    await office.say("hello", context=call_context)
    assert remote.sent[0].metadata == {"traceId": "t-1", "traceparent": parent}


async def test_files_and_data_of_the_message_are_passed_on() -> None:
    office, remote = desk(shop(), "yes")
    image = Part(raw=b"png", media_type="image/png", filename="a.png")
    await office.say([text("look"), image, Part(data={"n": 1})])
    assert remote.sent[0].parts == (text("look"), image, Part(data={"n": 1}))


async def test_what_others_said_before_is_passed_on() -> None:
    tree = SequentialAgent(name="root", sub_agents=[Says(name="first"), shop()])
    office, remote = desk(tree, "yes")
    await office.say("go")
    assert remote.sent[0].parts == (text("go\n\n[first]\nfirst heard go"),)


async def test_in_a_loop_it_is_told_only_what_is_new() -> None:
    tree = LoopAgent(name="root", sub_agents=[shop(), Says(name="critic")], max_iterations=2)
    office, remote = desk(tree, "draft", "better")
    await office.say("write")
    assert [message.parts for message in remote.sent] == [
        (text("write"),),
        (text("[critic]\ncritic heard write"),),
    ]


async def test_a_model_can_call_it_as_a_tool() -> None:
    model = ScriptedModel(call("shop", request="a hat"), "done")
    root = Agent(name="root", model=model, tools=[AgentTool(agent=shop())])
    office, remote = desk(root, "sold")
    picture = Part(raw=b"png", media_type="image/png")
    assert (await office.say([text("buy"), picture])).text == "done"
    assert remote.sent[0].parts == (text("a hat"),)


async def test_a_model_can_hand_over_to_it() -> None:
    model = ScriptedModel(call("transfer_to_agent", agent_name="shop"))
    office, _ = desk(Agent(name="root", model=model, sub_agents=[shop()]), "sold")
    assert (await office.say("buy")).text == "sold"


async def test_it_keeps_its_place_in_the_conversation_although_no_state_is_granted() -> None:
    tree = SequentialAgent(
        name="root", sub_agents=[shop()], grants={"shop": Grant(read=[], write=[])}
    )
    office, remote = desk(tree, "one", "two")
    await office.say("a")
    await office.say("b")
    assert remote.sent[1].context_id == "context-1"


# Answers in every form


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (said(text("a message "), text("alone")), "a message alone"),
        (task(TaskState.COMPLETED, made("x", text("one"), text(" two"))), "one two"),
        (task(TaskState.COMPLETED, parts=(text("in the status"),)), "in the status"),
        (
            task(TaskState.COMPLETED, made("log", text("noise")), made("answer", text("this"))),
            "this",
        ),
        (task(TaskState.COMPLETED, made("answer", Part(data={"n": 1}))), '{"n":1}'),
        (task(TaskState.COMPLETED, made("answer", Part(is_null=True))), "null"),
        (task(TaskState.COMPLETED, made("a", text("one")), made("b", text("two"))), "one\ntwo"),
        (task(TaskState.COMPLETED, made("table", Part(data=[1]))), "[1]"),
        (task(), ""),
    ],
)
async def test_the_answer_is_found_wherever_a_server_puts_it(
    found: Task | Message, answer: str
) -> None:
    office, _ = desk(shop(), found)
    assert (await office.say("x")).text == answer


async def test_what_a_remote_task_made_is_published_here() -> None:
    report = Part(text="all well", filename="report.txt", media_type="text/plain")
    found = task(
        TaskState.COMPLETED,
        made("report", report),
        made("\x1b[31m", Part(url="https://example.com/a.pdf")),
        made("empty"),
        made("answer", text("done")),
    )
    office, _ = desk(shop(), found)
    done = await office.say("x")
    events = [event for event in done.events if event.kind is EventKind.ARTIFACT]
    assert [(event.detail["name"], event.parts[0].url) for event in events] == [
        ("report", None),
        ("[31m", "https://example.com/a.pdf"),
    ]
    assert done.text == "done"


async def test_an_artifact_without_a_printable_name_gets_one() -> None:
    office, _ = desk(shop(), task(TaskState.COMPLETED, made("\x07", Part(data=1))))
    done = await office.say("x")
    assert [e.detail["name"] for e in done.events if e.kind is EventKind.ARTIFACT] == ["artifact"]


async def test_pieces_and_progress_are_shown_as_they_come() -> None:
    def piece(name: str, words: str, **more: Any) -> ArtifactUpdate:
        return ArtifactUpdate(artifact=made(name, text(words)), **more)

    file = ArtifactUpdate(artifact=made("f", Part(text="x", filename="f.txt")))
    office, _ = desk(
        shop(),
        [
            status(TaskState.WORKING),
            status(TaskState.WORKING, text("looking")),
            status(TaskState.WORKING, Part(data=1)),
            file,
            ArtifactUpdate(artifact=made("picture", Part(raw=b"1"))),
            piece("draft", "hm"),
            piece("answer", "it "),
            piece("draft", "no"),
            piece("answer", "is", append=True),
            status(TaskState.COMPLETED),
        ],
    )
    events = [e async for e in office.runner.stream(user_id="u", session_id="s", message="x")]
    passing = [(e.kind, e.text) for e in events if e.partial]
    assert passing == [
        (EventKind.PROGRESS, "looking"),
        (EventKind.DELTA, "hm"),
        (EventKind.DELTA, "it "),
        (EventKind.DELTA, "is"),
    ]
    assert events[-1].text == "it is"


async def test_pieces_are_left_out_where_nobody_watches() -> None:
    office, _ = desk(shop(), "whole")
    done = await office.say("x")
    assert [event.kind for event in done.events if event.partial] == []


# Failures


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.CANCELED])
async def test_a_remote_task_that_fails_is_a_failure_of_ours(state: TaskState) -> None:
    office, _ = desk(shop(), task(state, parts=(text("no stock"),)), task(state))
    with pytest.raises(RemoteFailed, match=f"'shop': the remote task is {state}: no stock") as told:
        await office.say("x")
    assert told.value.remote_code == state
    with pytest.raises(RemoteFailed, match=f"is {state}$"):
        await office.say("y")


async def test_an_error_on_the_way_is_told_with_the_name_of_the_agent() -> None:
    office, _ = desk(
        shop(), Unauthenticated("no token"), RemoteFailed("gone", remote_code="x", retryable=True)
    )
    with pytest.raises(RemoteFailed, match="agent 'shop': no token") as told:
        await office.say("x")
    assert (told.value.remote_code, told.value.retryable) == ("unauthenticated", False)
    with pytest.raises(RemoteFailed, match="agent 'shop': gone") as told:
        await office.say("x")
    assert (told.value.remote_code, told.value.retryable) == ("x", True)


async def test_a_private_address_is_refused_with_what_would_allow_it() -> None:
    refused = AddressRefused("10.0.0.1 goes onto the allow-list", may_be_allowed=True)
    office, _ = desk(shop(), refused)
    with pytest.raises(RemoteFailed, match=r"RemoteAgent\(allow=\[…\]\), or ACC_ALLOW"):
        await office.say("x")


async def test_services_without_remote_agents_say_so() -> None:
    services = make_services()
    services.remote = None
    with pytest.raises(RemoteFailed, match="cannot call remote agents"):
        await Runner(shop(), services=services).run(user_id="u", session_id="s", message="x")


async def test_an_answer_beyond_the_limit_is_refused() -> None:
    office, _ = desk(shop(), "x" * 11)
    with pytest.raises(RemoteFailed, match="exceeds 10 characters"):
        await office.say("x", config=RunConfig(max_answer_characters=10))


async def test_cancelling_the_run_cancels_the_call() -> None:
    office, _ = desk(shop(), 60.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await office.say("x")
    events = await office.runner.events(user_id="u", session_id="s")
    assert events[-1].status is RunStatus.CANCELED


# People


CONFIRMATION = {
    "requestId": "r-1",
    "kind": "confirmation",
    "message": "Pay?",
    "tool": "pay",
    "arguments": {"amount": 5},
    "expiresAt": 32503680000,
}


async def test_a_remote_question_pauses_the_run_and_the_answer_goes_back(tmp_path: Path) -> None:
    remote = ScriptedRemote(asking(CONFIRMATION), "paid")
    office = Desk(SequentialAgent(name="root", sub_agents=[shop()]), remote, tmp_path / "a.db")
    waiting = await office.say("pay")
    (request,) = waiting.requests
    assert (request.kind, request.tool, request.arguments) == (
        RequestKind.CONFIRMATION,
        "pay",
        {"amount": 5},
    )
    assert (request.agent, request.message) == ("shop", "Pay?")
    assert request.expires_at == pytest.approx(32503680000)
    await office.runner.aclose()
    # Another process knows nothing but what is stored.
    tree = SequentialAgent(name="root", sub_agents=[shop()])
    restarted = Desk(tree, remote, tmp_path / "a.db")
    done = await restarted.answer(approve(request.id, arguments={"amount": 3}))
    assert (done.status, done.text) == (RunStatus.COMPLETED, "paid")
    assert len(remote.sent) == 2
    answer = remote.sent[1]
    assert (answer.task_id, answer.context_id) == ("task-1", "context-1")
    assert answer.parts[0].data == {
        "answers": [{"requestId": "r-1", "verdict": "approve", "arguments": {"amount": 3}}]
    }
    await restarted.runner.aclose()


async def test_several_questions_are_asked_and_answered_together() -> None:
    wanted = {
        "requestId": "r-2",
        "kind": "input",
        "message": "Which?",
        "schema": {"type": "string"},
    }
    login = {"requestId": "r-3", "kind": "authorization", "message": "Sign in."}
    broken: list[Any] = [
        {"requestId": 3, "kind": "input"},
        {"requestId": "r", "kind": "riddle"},
        "nothing",
    ]
    office, remote = desk(shop(), asking(CONFIRMATION, wanted, login, *broken), "done")
    waiting = await office.say("pay")
    first, second, third = waiting.requests
    assert [request.kind for request in waiting.requests] == [
        RequestKind.CONFIRMATION,
        RequestKind.INPUT,
        RequestKind.AUTHORIZATION,
    ]
    assert second.schema == {"type": "string"}
    partly = await office.answer(deny(first.id, "too much"))
    assert [request.id for request in partly.requests] == [second.id, third.id]
    done = await office.answer(
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
async def test_a_question_in_words_is_answered_in_words(
    answer: dict[str, Any], parts: tuple[Part, ...]
) -> None:
    waits = task(TaskState.INPUT_REQUIRED, parts=(text("Which colour?"), Part(data={"hint": 1})))
    office, remote = desk(shop(), waits, "done")
    (request,) = (await office.say("buy")).requests
    assert (request.kind, request.message) == (RequestKind.INPUT, "Which colour?")
    assert request.arguments == {"hint": 1}
    await office.answer(InputAnswer(request_id=request.id, **answer))
    assert remote.sent[1].parts == parts


async def test_credentials_are_asked_for_and_never_sent_as_an_answer() -> None:
    office, remote = desk(shop(), task(TaskState.AUTH_REQUIRED), "signed in")
    (request,) = (await office.say("buy")).requests
    assert request.kind is RequestKind.AUTHORIZATION
    assert request.message == "the remote agent needs input, but sent no question"
    await office.answer(approve(request.id, value="my password"))
    assert remote.sent[1].parts == (text("continue"),)


async def test_requests_that_cannot_be_read_leave_the_words() -> None:
    data = Part(data={"requests": "none"}, metadata={"extension": INPUT_REQUEST})
    office, _ = desk(shop(), task(TaskState.INPUT_REQUIRED, parts=(text("Well?"), data)))
    (request,) = (await office.say("buy")).requests
    assert request.message == "Well?"


async def test_what_was_published_before_a_question_is_not_published_again() -> None:
    plan = made("plan", Part(data={"steps": 2}))
    waits = task(TaskState.INPUT_REQUIRED, plan, parts=(text("go on?"),))
    ends = task(TaskState.COMPLETED, plan, made("answer", text("done")))
    office, remote = desk(shop(), waits, ends)
    (request,) = (await office.say("buy")).requests
    await office.answer(approve(request.id, value="yes"))
    events = await office.runner.events(user_id="u", session_id="s")
    assert [e.detail["name"] for e in events if e.kind is EventKind.ARTIFACT] == ["plan"]
    assert len(remote.sent) == 2


async def test_what_changes_after_a_question_is_published_again(tmp_path: Path) -> None:
    plan = made("plan", Part(data={"steps": 2}))
    draft, final = (made("report", text(words)) for words in ("a draft", "the report"))
    waits = task(TaskState.INPUT_REQUIRED, plan, draft, parts=(text("go on?"),))
    ends = task(TaskState.COMPLETED, plan, final, made("answer", text("done")))
    remote = ScriptedRemote(waits, waits, ends)
    office = Desk(shop(), remote, tmp_path / "a.db")
    (request,) = (await office.say("buy")).requests
    (request,) = (await office.answer(approve(request.id, value="well"))).requests
    await office.runner.aclose()
    restarted = Desk(shop(), remote, tmp_path / "a.db")
    await restarted.answer(approve(request.id, value="yes"))
    events = await restarted.runner.events(user_id="u", session_id="s")
    published = [(e.detail["name"], e.parts) for e in events if e.kind is EventKind.ARTIFACT]
    assert published == [
        ("plan", plan.parts),
        ("report", draft.parts),
        ("report", final.parts),
    ]
    await restarted.runner.aclose()


async def test_what_is_added_after_a_question_is_streamed_and_the_rest_is_not_again() -> None:
    draft = made("answer", text("a draft"))
    again = ArtifactUpdate(artifact=draft, last_chunk=True)
    more = ArtifactUpdate(artifact=made("answer", text(", mended")), append=True)
    other = ArtifactUpdate(artifact=made("answer", text("quite other")), last_chunk=True)
    waits = task(TaskState.INPUT_REQUIRED, draft, parts=(text("go on?"),))
    office, _ = desk(shop(), waits, [again, more, other, status(TaskState.COMPLETED)])
    (request,) = (await office.say("buy")).requests
    answers = [approve(request.id, value="yes")]
    stream = office.runner.stream(user_id="u", session_id="s", answers=answers)
    deltas = [event.text async for event in stream if event.kind is EventKind.DELTA]
    assert deltas == [", mended", "quite other"]


async def test_a_resumed_run_does_not_call_again_what_is_on_record() -> None:
    office, remote = desk(
        ParallelAgent(name="root", sub_agents=[shop(name="quick"), shop(name="asks")]),
        "quickly done",
        asking(CONFIRMATION),
        "paid",
    )
    waiting = await office.say("pay")
    done = await office.answer(*(approve(request.id) for request in waiting.requests))
    assert done.text == "quick: quickly done\nasks: paid"
    assert len(remote.sent) == 3


# Trees that cannot work


@pytest.mark.parametrize(
    ("fields", "fault"),
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
        ({"sub_agents": [Says(name="inner")]}, "must not have sub-agents"),
        ({"mode": "pigeon"}, "stream, poll or push, got 'pigeon'"),
        ({"mode": "push"}, "receiver require each other"),
        ({"receiver": Mailbox()}, "receiver require each other"),
    ],
)
def test_a_remote_agent_that_cannot_work_is_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidTree, match=fault) as told:
        shop(**fields)
    assert "me:secret" not in str(told.value)


def test_an_address_is_shown_without_its_path_and_credentials() -> None:
    assert RemoteEndpoint(url="https://A.example:443/x?token=1").origin == "https://a.example"
    assert RemoteEndpoint(url="http://[::1]:8000/x").origin == "http://[::1]:8000"
    with pytest.raises(InvalidInput, match="is not a URL"):
        RemoteEndpoint(url=3)  # type: ignore[arg-type]
