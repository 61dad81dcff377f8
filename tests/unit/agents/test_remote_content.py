"""Content of remote answers: text, data, files and links."""

from pathlib import Path
from typing import Any

import pytest
from remote_harness import (
    RemoteHarness,
    agent_message,
    artifact,
    make_harness,
    shop,
    status,
    task,
    text,
)

from acc import EventKind, Part, RemoteFailed, approve
from acc.application.agents.remote_content import attachments
from acc.domain.value_objects.task import ArtifactUpdate, Message, Task, TaskState
from acc.testing import ScriptedRemote

PDF = Part(raw=b"%PDF", media_type="application/pdf", filename="請求書.pdf")
LINK = Part(url="https://example.com/a.pdf", media_type="application/pdf")
NOTE = Part(text="a note", filename="note.txt")
TOTAL = Part(data={"total": 42, "通貨": "円"})
TOTAL_TEXT = '{"total":42,"通貨":"円"}'


def published_artifacts(events: Any) -> list[tuple[str, tuple[Part, ...]]]:
    return [(e.detail["name"], e.parts) for e in events if e.kind is EventKind.ARTIFACT]


def completed_with_status(*parts: Part) -> Task:
    return task(TaskState.COMPLETED, parts=parts)


def completed_with_artifact(*parts: Part) -> Task:
    return task(TaskState.COMPLETED, artifact("answer", *parts))


@pytest.mark.parametrize(
    "make_response", [agent_message, completed_with_status, completed_with_artifact]
)
@pytest.mark.parametrize(
    ("parts", "expected_text", "expected_parts"),
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
async def test_data_is_in_the_text_and_other_parts_are_published(
    make_response: Any,
    parts: tuple[Part, ...],
    expected_text: str,
    expected_parts: tuple[Part, ...],
) -> None:
    harness, _ = make_harness(shop(), make_response(*parts))
    done = await harness.send("x")
    assert done.text == expected_text
    assert published_artifacts(done.events) == (
        [("answer", expected_parts)] if expected_parts else []
    )


@pytest.mark.parametrize("make_response", [agent_message, completed_with_status])
async def test_data_message_is_the_text_and_is_published(make_response: Any) -> None:
    harness, _ = make_harness(shop(), make_response(TOTAL))
    done = await harness.send("x")
    assert (done.text, published_artifacts(done.events)) == (TOTAL_TEXT, [("answer", (TOTAL,))])


async def test_answer_artifact_with_only_data_is_not_published() -> None:
    harness, _ = make_harness(shop(), completed_with_artifact(TOTAL))
    done = await harness.send("x")
    assert (done.text, published_artifacts(done.events)) == (TOTAL_TEXT, [])


@pytest.mark.parametrize("make_response", [agent_message, completed_with_status])
async def test_text_file_is_the_answer_without_other_text(make_response: Any) -> None:
    harness, _ = make_harness(shop(), make_response(NOTE))
    done = await harness.send("x")
    assert (done.text, published_artifacts(done.events)) == ("a note", [("answer", (NOTE,))])


@pytest.mark.parametrize(
    ("response", "expected_text", "artifacts"),
    [
        (
            task(TaskState.COMPLETED, artifact("answer", PDF), parts=(text("your invoice"),)),
            "your invoice",
            [("answer", (PDF,))],
        ),
        (
            task(TaskState.COMPLETED, artifact("x", text("words")), parts=(TOTAL,)),
            "words",
            [("answer", (TOTAL,))],
        ),
        (
            task(
                TaskState.COMPLETED,
                artifact("a", text("one")),
                artifact("b", text("two")),
                parts=(TOTAL,),
            ),
            "one\ntwo",
            [("a", (text("one"),)), ("b", (text("two"),)), ("answer", (TOTAL,))],
        ),
        (
            task(TaskState.COMPLETED, artifact("invoice", PDF), parts=(TOTAL,)),
            TOTAL_TEXT,
            [("invoice", (PDF,)), ("answer", (TOTAL,))],
        ),
        (
            task(
                TaskState.COMPLETED,
                artifact("a", text("one")),
                artifact("b", text("two"), PDF),
                parts=(text("both parts:"),),
            ),
            "both parts:\none\ntwo",
            [("a", (text("one"),)), ("b", (text("two"), PDF))],
        ),
        (
            task(
                TaskState.COMPLETED,
                artifact("a", text("one")),
                artifact("b", text("two")),
                parts=(text("one"),),
            ),
            "one\ntwo",
            [("a", (text("one"),)), ("b", (text("two"),))],
        ),
        (
            task(
                TaskState.COMPLETED,
                artifact("a", text("one")),
                artifact("b", TOTAL),
                artifact("c", PDF),
            ),
            "one",
            [("b", (TOTAL,)), ("c", (PDF,))],
        ),
    ],
)
async def test_text_is_the_answer_beside_files_and_data(
    response: Task | Message, expected_text: str, artifacts: list[tuple[str, tuple[Part, ...]]]
) -> None:
    harness, _ = make_harness(shop(), response)
    done = await harness.send("x")
    assert (done.text, published_artifacts(done.events)) == (expected_text, artifacts)


async def test_error_message_is_the_text_or_else_the_data() -> None:
    harness, _ = make_harness(
        shop(),
        task(TaskState.FAILED, parts=(Part(data={"code": 7}),)),
        task(TaskState.FAILED, parts=(text("no stock"), Part(data={"code": 7}))),
    )
    with pytest.raises(RemoteFailed, match=r'is failed: \{"code":7\}$'):
        await harness.send("x")
    with pytest.raises(RemoteFailed, match="is failed: no stock$"):
        await harness.send("y")


def test_data_of_an_input_request_is_not_an_attachment() -> None:
    waiting = task(TaskState.INPUT_REQUIRED, artifact("plan", TOTAL), parts=(text("go on?"), TOTAL))
    assert attachments(waiting) == [artifact("plan", TOTAL)]


async def test_artifact_published_with_an_input_request_is_not_published_again(
    tmp_path: Path,
) -> None:
    draft = artifact("answer", text("a draft"), PDF)
    waiting = task(TaskState.INPUT_REQUIRED, draft, parts=(text("go on?"),))
    remote = ScriptedRemote(waiting, task(TaskState.COMPLETED, draft))
    harness = RemoteHarness(shop(), remote, tmp_path / "a.db")
    (request,) = (await harness.send("buy")).requests
    await harness.runner.aclose()
    restarted = RemoteHarness(shop(), remote, tmp_path / "a.db")
    assert (await restarted.answer(approve(request.id, value="yes"))).text == "a draft"
    events = await restarted.runner.events(user_id="u", session_id="s")
    assert published_artifacts(events) == [("answer", draft.parts)]
    await restarted.runner.aclose()


async def test_text_of_files_is_not_streamed() -> None:
    update = ArtifactUpdate(artifact=artifact("answer", text("see"), NOTE))
    harness, _ = make_harness(shop(), [update, status(TaskState.COMPLETED)])
    events = [e async for e in harness.runner.stream(user_id="u", session_id="s", message="x")]
    assert [e.text for e in events if e.kind is EventKind.DELTA] == ["see"]
    assert published_artifacts(events) == [("answer", (NOTE,))]
