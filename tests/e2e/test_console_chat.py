"""Chat of `acc console`: files, edited messages, partners side by side, A2A addresses."""

import re
import struct
import zlib
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from command import serve
from console_browser import WIDE, Visitor, launch
from console_process import FOLDER, ConsoleProcess, ids, send, wait_for
from playwright.sync_api import expect, sync_playwright


def png(width: int, height: int) -> bytes:
    """Return an image of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = (b"\0" + b"\x20\x80\xc0" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    folder = tmp_path_factory.mktemp("console")
    with ConsoleProcess("console_agents:team", store=folder / "acc.db") as started:
        yield started


@pytest.fixture
def client(process: ConsoleProcess) -> Iterator[httpx2.Client]:
    with process.client() as opened:
        yield opened


def begin(client: httpx2.Client, **fields: str) -> httpx2.Response:
    return client.post("/chat", data=fields)


def key_of(answer: httpx2.Response) -> dict[str, str]:
    assert answer.status_code == 303, answer.text
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


def test_files_of_a_message_are_stored_shown_and_downloaded(client: httpx2.Client) -> None:
    image, text = png(8, 4), b"a,b\n1,2\n"
    files = [
        ("file", ("graph.png", image, "image/png")),
        ("file", ("表.csv", text, "text/csv")),
        ("file", ("page.html", b"<script>alert(1)</script>", "text/html")),
    ]
    data = {**ids("files"), "message": "look at this"}
    assert client.post("/session/send", data=data, files=files).status_code == 303
    page = wait_for(client, "files", "completed")
    assert '<img class="attached"' in page and 'alt="graph.png"' in page
    assert page.count("<img") == 1 and "表.csv" in page and "alert(1)" not in page
    part = {**ids("files"), "seq": "1"}
    shown = client.get("/session/part", params={**part, "part": "2"})
    assert (shown.content, shown.headers["content-type"]) == (image, "image/png")
    for number, content in (("3", text), ("4", b"<script>alert(1)</script>")):
        file = client.get("/session/part", params={**part, "part": number})
        assert file.content == content
        assert file.headers["content-type"] == "application/octet-stream"
        assert file.headers["content-disposition"].startswith("attachment; filename")
    for number in ("0", "1", "9", "x"):
        missing = client.get("/session/part", params={**part, "part": number})
        assert missing.status_code == 404, number


def test_message_that_is_empty_or_too_large_is_refused(client: httpx2.Client) -> None:
    empty = client.post("/session/send", data={**ids("empty"), "message": " "}, files=[])
    assert empty.status_code == 422
    large = ("file", ("large.bin", b"x" * 10_000_001, "application/octet-stream"))
    answer = client.post("/session/send", data={**ids("empty"), "message": "m"}, files=[large])
    assert answer.status_code == 413
    headers = {"content-type": "multipart/form-data; boundary=x"}
    broken = client.post("/session/send", content=b"--y\r\nbroken", headers=headers)
    assert broken.status_code in (400, 422)
    assert client.get("/session/events", params=ids("empty")).status_code == 404


def test_edited_message_continues_in_a_new_session(client: httpx2.Client) -> None:
    for message in ("first question", "second question", "third question"):
        assert send(client, "source", message).status_code == 303
        page = wait_for(client, "source", "completed")
    edits = re.findall(r'href="(/session/edit[^"]*)"', page)
    assert len(edits) == 3
    form = client.get(edits[1].replace("&amp;", "&")).text
    assert ">second question</textarea>" in form
    seq = re.search(r'name="seq" value="(\d+)"', form)
    assert seq is not None
    fields = {**ids("source"), "seq": seq[1], "message": "another question"}
    forked = key_of(client.post("/session/fork", data=fields))
    shown = wait_for(client, forked["id"], "completed")
    assert "first question" in shown and "You wrote: another question" in shown
    assert "second question" not in shown and "third question" not in shown
    assert "third question" in client.get("/session", params=ids("source")).text
    first = key_of(client.post("/session/fork", data={**fields, "seq": "1"}))
    alone = wait_for(client, first["id"], "completed")
    assert "first question" not in alone and "another question" in alone
    assert client.post("/session/fork", data={**fields, "seq": "2"}).status_code == 422
    assert client.post("/session/fork", data={**fields, "message": " "}).status_code == 422


def test_second_agent_and_memory_have_sessions_of_their_own(client: httpx2.Client) -> None:
    page = client.get("/chat").text
    assert '<option value="app">desk</option>' in page
    assert '<option value="app.team">team</option>' in page
    team = key_of(begin(client, left="app.team"))
    assert team["app"] == "app.team"
    client.post("/session/send", data={**team, "message": "hello"})
    assert "written" in wait_for(client, team["id"], "completed", app="app.team")
    plain = key_of(begin(client, left="app", left_memory="transcript"))
    assert plain["app"] == "app@transcript"
    client.post("/session/send", data={**plain, "message": "hello"})
    wait_for(client, plain["id"], "completed", app="app@transcript")
    events = client.get("/session/events", params=plain).text
    assert "<td>message</td>" in events
    assert "Compressed" not in client.get("/session/memory", params=plain).text
    for fields in (
        {},
        {"left": "nobody"},
        {"left": "app", "right": "app"},
        {"left": "app", "left_memory": "oracle"},
        {"left": "address", "address": "ftp://example.com"},
    ):
        assert begin(client, **fields).status_code == 422, fields


def test_each_agent_has_a_graph_with_the_steps_of_its_own_sessions(client: httpx2.Client) -> None:
    client.post("/session/send", data={**ids("asks"), "message": "please refund"})
    wait_for(client, "asks", "input_required")
    _, first, second = client.get("/agents").text.split('<div id="active-graph-')
    assert first.startswith("0") and '<g class="waiting">' in first
    assert second.startswith("1") and "<g " not in second.partition("</svg>")[0]
    assert "writer" in second
    assert "<svg" in client.get("/agents.svg", params={"number": "1"}).text
    assert client.get("/agents.svg", params={"number": "2"}).status_code == 404
    client.post("/session/abandon", data=ids("asks"))


def test_a2a_address_is_a_partner(client: httpx2.Client) -> None:
    with serve("console_agents:team", cwd=FOLDER) as url:
        key = key_of(begin(client, left="address", address=url))
        assert key["app"] == url
        client.post("/session/send", data={**key, "message": "hello"})
        assert "written" in wait_for(client, key["id"], "completed", app=url)
    gone = client.post("/session/send", data={**key, "message": "again"})
    assert gone.status_code == 303
    wait_for(client, key["id"], "failed", app=url)


def test_two_partners_stream_side_by_side(process: ConsoleProcess) -> None:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        visitor = Visitor(process, browser.new_context(viewport=WIDE, locale="en-US"))
        page = visitor.open("/chat")
        page.get_by_label("Agent").nth(1).select_option("app")
        page.get_by_label("Memory").nth(1).select_option("transcript")
        page.get_by_role("button", name="Start").click()
        expect(page.locator("h2")).to_have_text(["desk", "desk (transcript)"])
        page.wait_for_load_state()  # the scripts handle Control+Enter
        page.get_by_label("Message", exact=True).fill("count slowly")
        image = {"name": "dot.png", "mimeType": "image/png", "buffer": png(20, 10)}
        page.get_by_label("Files and images").set_input_files(image)  # type: ignore[arg-type]
        page.get_by_label("Message", exact=True).press("Control+Enter")
        for side in ("left", "right"):
            expect(page.locator(f"#draft-{side}")).to_contain_text("word3")
        for side in ("left", "right"):
            expect(page.locator(f"#conversation-{side} .agent")).to_contain_text("word59")
            shown = page.locator(f"#conversation-{side} img.attached")
            assert shown.evaluate("image => image.naturalWidth") == 20
        html = [page.locator(f"#conversation-{side}").inner_html() for side in ("left", "right")]
        page.reload()
        for side, before in zip(("left", "right"), html, strict=True):
            assert page.locator(f"#conversation-{side}").inner_html() == before
        visitor.check()
        browser.close()
