"""A browser for the tests of pages."""

from axe_playwright_python.base import AXE_SCRIPT
from console_process import TOKEN, ConsoleProcess, ids
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, ViewportSize, expect

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=20_000)  # a loaded machine needs more than the default of 5 s

WIDE = ViewportSize(width=1280, height=900)
NARROW = ViewportSize(width=375, height=740)


def launch(playwright: Playwright) -> Browser:
    """Start the browser of the system."""
    return playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)


class Visitor:
    """A logged-in browser; a test fails if a page logs errors or asks other servers."""

    def __init__(self, process: ConsoleProcess, context: BrowserContext) -> None:
        self.process = process
        self.context = context
        self.errors: list[str] = []
        self.requests: list[str] = []
        context.on("request", lambda request: self.requests.append(request.url))
        self.page = self.open_page()
        self.page.goto(f"{process.url}/login?token={TOKEN}")

    def open_page(self) -> Page:
        page = self.context.new_page()
        page.on("console", lambda message: self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        return page

    def open(self, path: str, session: str = "") -> Page:
        names = "&".join(f"{name}={value}" for name, value in ids(session).items())
        self.page.goto(self.process.url + path + (f"?{names}" if session else ""))
        return self.page

    def send(self, session: str, message: str) -> Page:
        page = self.open("/session", session)
        page.get_by_label("Message", exact=True).fill(message)
        page.get_by_label("Message", exact=True).press("Control+Enter")
        return page

    def check(self) -> None:
        assert self.errors == [], self.errors
        assert [url for url in self.requests if not url.startswith(self.process.url)] == []


def has_no_overflow(page: Page) -> bool:
    """Return True if the page does not scroll sideways."""
    return bool(
        page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
    )


def axe_findings(page: Page) -> list[str]:
    """Return what axe-core finds on a page: rule and element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate("axe.run({resultTypes: ['violations'], preload: false})")
    return [f"{v['id']}: {node['html'][:200]}" for v in found["violations"] for node in v["nodes"]]
