"""`acc console` in a browser: chat, approvals, memory, hostile content, reconnects."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from console_agents import HOSTILE
from console_browser import WIDE, Visitor, has_no_overflow, launch
from console_process import ConsoleProcess
from playwright.sync_api import Browser, expect, sync_playwright

RULE = "Never restart db-1 without my approval. The incident lead is Alice."


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(store=tmp_path_factory.mktemp("console") / "acc.db") as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@pytest.fixture
def visitor(process: ConsoleProcess, browser: Browser) -> Iterator[Visitor]:
    context = browser.new_context(viewport=WIDE, color_scheme="light", locale="en-US")
    visiting = Visitor(process, context)
    yield visiting
    context.close()
    visiting.check()


def test_chat_streams_text_and_equals_the_reloaded_page(visitor: Visitor) -> None:
    page = visitor.send("chat", "count slowly")
    expect(page.locator("#draft")).to_contain_text("word3")
    expect(page.locator("#draft")).not_to_contain_text("word59")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(page.locator("#conversation .agent")).to_contain_text("word59")
    expect(page.locator("#draft")).to_be_empty()
    expect(page.locator("#controls .badge")).to_have_text("completed")
    assert page.get_by_label("Message", exact=True).input_value() == ""
    expect(page.locator("#facts")).to_contain_text("Turns 1 · Events 4")
    shown, facts = page.locator("#conversation").inner_html(), page.locator("#facts").inner_text()
    page.reload()
    assert page.locator("#conversation").inner_html() == shown
    assert page.locator("#facts").inner_text() == facts
    page.get_by_label("Message", exact=True).fill("second")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#conversation .agent")).to_have_count(2)


def test_graph_shows_the_active_step_live(visitor: Visitor) -> None:
    graph = visitor.open_page()
    graph.goto(f"{visitor.process.url}/agents")
    expect(graph.locator("#active-graph-0 rect")).to_have_count(0)
    page = visitor.send("active", "count slowly")
    expect(graph.locator("#active-graph-0 g.working text")).to_have_text("active")
    expect(graph.locator("#active-steps")).to_contain_text("desk")
    expect(page.locator("#controls .badge")).to_have_text("completed")
    expect(graph.locator("#active-steps")).to_contain_text("No agent is running.")
    expect(graph.locator("#active-graph-0 rect")).to_have_count(0)
    visitor.send("asking", "please refund")
    expect(graph.locator("#active-graph-0 g.waiting text")).to_have_text("refund")
    expect(graph.get_by_role("link", name="asking")).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    expect(graph.locator("#active-graph-0 rect")).to_have_count(0)


def test_stop_cancels_the_run(visitor: Visitor) -> None:
    page = visitor.send("stop", "count slowly")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#controls .badge")).to_have_text("canceled")
    expect(page.locator("#conversation .problem")).to_contain_text("canceled")


def test_approval_in_the_conversation(visitor: Visitor) -> None:
    page = visitor.send("inline", "please refund")
    expect(page.locator("#controls .request pre").first).to_contain_text('"amount": 50')
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#conversation .agent").last).to_contain_text("Done:")
    expect(page.locator("#controls .request")).to_have_count(0)


def test_second_approver_sees_that_the_request_is_answered(visitor: Visitor) -> None:
    page = visitor.send("two", "please refund")
    expect(page.locator("#controls .request")).to_have_count(1)
    first, second = visitor.open_page(), visitor.open_page()
    silent = {"content_type": "text/event-stream", "body": ": nothing\n\n"}
    second.route("**/approvals/stream*", lambda route: route.fulfill(**silent))
    for approver in (first, second):
        approver.goto(f"{visitor.process.url}/approvals")
    before = len(visitor.process.refunds)
    first.get_by_role("button", name="Approve").click()
    expect(first.get_by_text("Nothing waits for an answer.")).to_be_visible()
    second.get_by_role("button", name="Approve").click()
    expect(second.get_by_role("alert")).to_contain_text("no longer pending")
    expect(page.locator("#conversation .agent").last).to_contain_text("Done:")
    assert visitor.process.refunds[before:] == ["A-17 50"]
    # A browser logs the status of the refused form.
    assert all("409" in error for error in visitor.errors)
    visitor.errors.clear()


def test_inbox_follows_requests_and_keeps_what_was_entered(visitor: Visitor) -> None:
    inbox = visitor.open_page()
    inbox.goto(f"{visitor.process.url}/approvals")
    expect(inbox.get_by_text("Nothing waits for an answer.")).to_be_visible()
    visitor.send("inbox-1", "please refund")
    cards = inbox.locator("#requests .request")
    expect(cards).to_have_count(1)
    expect(inbox.get_by_text("Nothing waits for an answer.")).to_have_count(0)
    inbox.get_by_label("Reason of a denial (optional)").fill("予算超過")
    other = visitor.send("inbox-2", "please refund")
    expect(cards).to_have_count(2)
    expect(inbox.get_by_label("Reason of a denial (optional)").last).to_have_value("予算超過")
    other.get_by_role("button", name="Approve").click()
    expect(inbox.get_by_text("This request was answered or canceled.")).to_be_visible()
    expect(cards).to_have_count(1)
    inbox.get_by_role("button", name="Deny").click()
    expect(inbox.get_by_text("Nothing waits for an answer.")).to_be_visible()
    page = visitor.open("/session", "inbox-1")
    expect(page.locator("#conversation")).to_contain_text("予算超過")


def test_hostile_content_stays_text(visitor: Visitor) -> None:
    page = visitor.send("hostile", HOSTILE[:300] + " hostile")
    expect(page.locator("#conversation .agent .text")).to_contain_text("<script>document.title")
    for path in ("/session", "/session/events", "/session/memory", "/session/state", "/sessions"):
        page = visitor.open(path, "hostile")
        assert "owned" not in page.title()
        assert page.locator("main script, main img, main hx-partial").count() == 0
        assert has_no_overflow(page), path
    page = visitor.open("/session", "hostile")
    text = page.locator("#conversation .agent .text").inner_text()
    assert "[U+202E]" in text and "مرحبا" in text and "[U+001B]" in text
    assert "\u202e" not in page.content()
    page.get_by_role("link", name="Show all").last.click()
    page.wait_for_load_state()  # also of the style sheet
    assert page.locator(".item .text").inner_text().count("long") == 800
    assert has_no_overflow(page)


def test_stream_reconnects_after_the_server_is_killed(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(viewport=WIDE, locale="en-US")
    with ConsoleProcess(store=tmp_path / "acc.db") as process:
        visitor = Visitor(process, context)
        page = visitor.send("lost", "hello")
        expect(page.locator("#controls .badge")).to_have_text("completed")
        process.kill()
        expect(page.locator("#connection")).to_be_visible()
        with ConsoleProcess(store=process.store, port=process.port):
            expect(page.locator("#connection")).to_be_hidden(timeout=20_000)
            page.get_by_label("Message", exact=True).fill("again")
            page.get_by_role("button", name="Send").click()
            expect(page.locator("#conversation > li")).to_have_count(4)
            numbers = page.locator("#conversation > li").evaluate_all("all => all.map(e => e.id)")
            assert len(set(numbers)) == 4
            shown = page.locator("#conversation").inner_html()
            page.reload()
            assert page.locator("#conversation").inner_html() == shown
        # Browsers log failed requests, and htmx logs lost streams.
        expected = ("ERR_", "htmx:sse:error")
        assert [e for e in visitor.errors if not any(text in e for text in expected)] == []
    context.close()


def test_memory_shows_changes_with_source_and_reason(visitor: Visitor) -> None:
    for number, message in enumerate((RULE, "You may restart db-1 now without approval."), 1):
        page = visitor.send("memory", message)
        expect(page.locator("#conversation .agent")).to_have_count(number)
        expect(page.locator("#controls .badge")).to_have_text("completed")
    page = visitor.open("/session/memory", "memory")
    removed = page.locator("tr.removed", has_text="constraints")
    expect(removed).to_contain_text("Never restart db-1")
    expect(removed).to_contain_text("user, turn 1")
    expect(removed).to_contain_text("lifted")
    page.get_by_role("link", name="1 desk").click()
    added = page.locator("tr.added", has_text="constraints")
    expect(added).to_contain_text("read as set")
    expect(page.get_by_text("tokens of 1024")).to_be_visible()
    page.get_by_role("searchbox").fill("rule about db-1")
    page.get_by_role("button", name="Explain").click()
    findings = page.locator(".findings li")
    expect(findings.filter(has_text="message").first).to_contain_text(RULE)
    expect(findings.filter(has_text="removed").first).to_contain_text("lifted")


def test_keyboard_reaches_content_and_sends(visitor: Visitor) -> None:
    page = visitor.open("/sessions")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "q"
