"""Answers of remote agents in parts of every kind: what can be said is, and nothing is lost."""

from pathlib import Path
from typing import Any

import pytest
from remote_desk import Desk, desk, made, said, shop, status, task, text

from acc import EventKind, Part, RemoteFailed, approve
from acc.application.agents.remote_content import attachments
from acc.domain.value_objects.task import ArtifactUpdate, Message, Task, TaskState
from acc.testing import ScriptedRemote

PDF = Part(raw=b"%PDF", media_type="application/pdf", filename="請求書.pdf")
LINK = Part(url="https://example.com/a.pdf", media_type="application/pdf")
NOTE = Part(text="a note", filename="note.txt")
TOTAL = Part(data={"total": 42, "通貨": "円"})
TOTAL_TEXT = '{"total":42,"通貨":"円"}'


def published(events: Any) -> list[tuple[str, tuple[Part, ...]]]:
    return [(e.detail["name"], e.parts) for e in events if e.kind is EventKind.ARTIFACT]


def completed(*parts: Part) -> Task:
    return task(TaskState.COMPLETED, parts=parts)


def answered(*parts: Part) -> Task:
    return task(TaskState.COMPLETED, made("answer", *parts))


@pytest.mark.parametrize("found", [said, completed, answered])
@pytest.mark.parametrize(
    ("parts", "told", "kept"),
    [
        ((PDF,), "", (PDF,)),
        ((LINK,), "", (LINK,)),
        ((text("Here:"), TOTAL), f"Here:\n{TOTAL_TEXT}", (TOTAL,)),
        ((text("Here:\n"), TOTAL, text("yen")), f"Here:\n{TOTAL_TEXT}\nyen", (TOTAL,)),
        ((TOTAL, PDF, Part(is_null=True)), f"{TOTAL_TEXT}\nnull", (TOTAL, PDF, Part(is_null=True))),
        ((text("see "), PDF, LINK, text("both")), "see both", (PDF, LINK)),
        ((text("see"), NOTE), "see", (NOTE,)),
        ((text("text "), text("alone")), "text alone", ()),
    ],
)
async def test_data_is_said_and_what_is_not_speech_is_published(
    found: Any, parts: tuple[Part, ...], told: str, kept: tuple[Part, ...]
) -> None:
    office, _ = desk(shop(), found(*parts))
    done = await office.say("x")
    assert done.text == told
    assert published(done.events) == ([("answer", kept)] if kept else [])


@pytest.mark.parametrize("found", [said, completed])
async def test_a_message_of_data_is_said_and_published(found: Any) -> None:
    office, _ = desk(shop(), found(TOTAL))
    done = await office.say("x")
    assert (done.text, published(done.events)) == (TOTAL_TEXT, [("answer", (TOTAL,))])


async def test_an_answer_that_is_data_alone_is_its_text_and_no_more() -> None:
    office, _ = desk(shop(), answered(TOTAL))
    done = await office.say("x")
    assert (done.text, published(done.events)) == (TOTAL_TEXT, [])


@pytest.mark.parametrize("found", [said, completed])
async def test_a_file_of_text_is_the_answer_where_nothing_else_is_said(found: Any) -> None:
    office, _ = desk(shop(), found(NOTE))
    done = await office.say("x")
    assert (done.text, published(done.events)) == ("a note", [("answer", (NOTE,))])


@pytest.mark.parametrize(
    ("found", "told", "kept"),
    [
        (
            task(TaskState.COMPLETED, made("answer", PDF), parts=(text("your invoice"),)),
            "your invoice",
            [("answer", (PDF,))],
        ),
        (
            task(TaskState.COMPLETED, made("x", text("words")), parts=(TOTAL,)),
            "words",
            [("answer", (TOTAL,))],
        ),
        (
            task(
                TaskState.COMPLETED, made("a", text("one")), made("b", text("two")), parts=(TOTAL,)
            ),
            "one\ntwo",
            [("a", (text("one"),)), ("b", (text("two"),)), ("answer", (TOTAL,))],
        ),
        (
            task(TaskState.COMPLETED, made("invoice", PDF), parts=(TOTAL,)),
            TOTAL_TEXT,
            [("invoice", (PDF,)), ("answer", (TOTAL,))],
        ),
    ],
)
async def test_words_are_found_beside_files_wherever_they_are(
    found: Task | Message, told: str, kept: list[tuple[str, tuple[Part, ...]]]
) -> None:
    office, _ = desk(shop(), found)
    done = await office.say("x")
    assert (done.text, published(done.events)) == (told, kept)


async def test_a_failure_in_data_is_told_and_words_come_before_data() -> None:
    office, _ = desk(
        shop(),
        task(TaskState.FAILED, parts=(Part(data={"code": 7}),)),
        task(TaskState.FAILED, parts=(text("no stock"), Part(data={"code": 7}))),
    )
    with pytest.raises(RemoteFailed, match=r'is failed: \{"code":7\}$'):
        await office.say("x")
    with pytest.raises(RemoteFailed, match="is failed: no stock$"):
        await office.say("y")


def test_the_data_of_a_question_is_no_outcome() -> None:
    waits = task(TaskState.INPUT_REQUIRED, made("plan", TOTAL), parts=(text("go on?"), TOTAL))
    assert attachments(waits) == [made("plan", TOTAL)]


async def test_what_was_published_with_a_question_is_not_published_again(tmp_path: Path) -> None:
    draft = made("answer", text("a draft"), PDF)
    waits = task(TaskState.INPUT_REQUIRED, draft, parts=(text("go on?"),))
    remote = ScriptedRemote(waits, task(TaskState.COMPLETED, draft))
    office = Desk(shop(), remote, tmp_path / "a.db")
    (request,) = (await office.say("buy")).requests
    await office.runner.aclose()
    restarted = Desk(shop(), remote, tmp_path / "a.db")
    assert (await restarted.answer(approve(request.id, value="yes"))).text == "a draft"
    events = await restarted.runner.events(user_id="u", session_id="s")
    assert published(events) == [("answer", draft.parts)]
    await restarted.runner.aclose()


async def test_pieces_are_what_is_said_and_not_what_is_in_files() -> None:
    update = ArtifactUpdate(artifact=made("answer", text("see"), NOTE))
    office, _ = desk(shop(), [update, status(TaskState.COMPLETED)])
    events = [e async for e in office.runner.stream(user_id="u", session_id="s", message="x")]
    assert [e.text for e in events if e.kind is EventKind.DELTA] == ["see"]
    assert published(events) == [("answer", (NOTE,))]
