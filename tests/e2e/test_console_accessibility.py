"""Every page of the console: axe-core, both themes, wide and narrow, English and Japanese."""

from collections.abc import Iterator

import pytest
from console_browser import NARROW, WIDE, Visitor, axe_findings, has_no_overflow, launch
from console_process import ConsoleProcess, ids
from playwright.sync_api import Browser, Page, sync_playwright

PAGES = (
    "/sessions",
    "/approvals",
    "/agents",
    "/tasks",
    "/evaluations",
    "/chat",
    "/compare?id=side&left=app&right=app@transcript",
    "/session/edit?app=app&user=local&id=views&seq=1",
)
SESSION_PAGES = (
    "/session",
    "/session/events",
    "/session/memory",
    "/session/timeline",
    "/session/state",
    "/session/files",
)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    folder = tmp_path_factory.mktemp("console")
    run = folder / "runs" / "first"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"agents": [{"name": "acc"}], "judge": "rubric", "episodes": 2}')
    with (
        ConsoleProcess("--runs", run.parent, store=folder / "acc.db") as started,
        started.client() as client,
    ):
        client.post("/session/send", data={**ids("views"), "message": "write a note"})
        client.post("/session/send", data={**ids("asks"), "message": "please refund"})
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_page_is_accessible_in_both_themes_and_widths(
    process: ConsoleProcess, browser: Browser, language: str
) -> None:
    context = browser.new_context(viewport=WIDE, locale=language)
    visitor = Visitor(process, context)
    problems: list[str] = []
    for path in PAGES:
        problems += check(visitor.open(path), path, language)
    for path in SESSION_PAGES:
        problems += check(visitor.open(path, "views"), path, language)
    problems += check(visitor.open("/session", "asks"), "/session with a request", language)
    problems += check(visitor.open("/login"), "/login", language)
    assert problems == []
    context.close()
    visitor.check()


@pytest.mark.parametrize("path", ["/sessions", "/session/events", "/session/memory"])
def test_tables_fit_on_a_phone(process: ConsoleProcess, browser: Browser, path: str) -> None:
    context = browser.new_context(viewport=NARROW, locale="en-US")
    page = Visitor(process, context).open(path, "" if path == "/sessions" else "views")
    table = page.locator(".scroll:has(table)").first
    assert table.evaluate("e => e.scrollWidth <= e.clientWidth")
    assert table.get_by_role("row").count() > 1
    context.close()


def check(page: Page, name: str, language: str) -> list[str]:
    """Return the problems of an open page in both themes and widths."""
    problems = [] if page.locator("html").get_attribute("lang") == language else [f"{name}: lang"]
    if page.locator("h1").count() != 1:
        problems.append(f"{name}: one h1 was expected")
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        if not has_no_overflow(page):
            problems.append(f"{name}: scrolls sideways at {size['width']} pixels")
        # Colours do not depend on the language.
        for scheme in ("light", "dark") if language == "en" else ("light",):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            problems += [f"{name}, {scheme}, {size['width']}: {f}" for f in axe_findings(page)]
    page.set_viewport_size(WIDE)
    return problems


def test_axe_finds_faults_of_a_page(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<html><img src='data:,'><p style='color:#ccc'>faint</p></html>")
    rules = {finding.partition(":")[0] for finding in axe_findings(page)}
    assert {"image-alt", "color-contrast", "html-has-lang"} <= rules
    page.close()
