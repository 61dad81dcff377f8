"""The documentation site, built in strict mode and opened in a browser."""

import fcntl
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

import acc

pytest.importorskip("sphinx", reason="install the dependency group docs")
pytest.importorskip("furo", reason="install the dependency group docs")

ROOT = Path(__file__).parent.parent.parent
CSS_REFERENCE = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")
BUILD_TIMEOUT_SECONDS = 300
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


class LoadedReferences(HTMLParser):
    """Collects the addresses that a browser loads for a page; links are not loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        names = ["src", "srcset", "poster", "data", "xlink:href"]
        if tag == "link" and values.get("rel") not in {"canonical", "author", "license"}:
            names.append("href")
        self.references += [value for name in names if (value := values.get(name))]
        self.references += CSS_REFERENCE.findall(values.get("style") or "")


def is_external(reference: str) -> bool:
    return (
        reference.startswith("//")
        or re.match(r"(?!data:)[a-z][a-z0-9+.-]*:", reference) is not None
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Return the built site; processes of one test run build it once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "docs"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            build(folder)
            (folder / "complete").touch()
    return folder / "site"


def build(folder: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs"]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [*command, "-d", str(folder / "doctrees"), ".", str(folder / "site")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=BUILD_TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def origin(site: Path) -> Iterator[str]:
    class QuietHandler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(QuietHandler, directory=str(site))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context() as context:
        yield context.new_page()


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert site / "docs" / "api" / "acc.html" in pages
    for path in pages:
        parser = LoadedReferences()
        parser.feed(path.read_text(encoding="utf-8"))
        assert [r for r in parser.references if is_external(r)] == [], path.name
    for path in site.rglob("*.css"):
        references = CSS_REFERENCE.findall(path.read_text(encoding="utf-8"))
        assert [r for r in references if is_external(r)] == [], path.name


def test_reference_has_every_public_name(site: Path) -> None:
    text = (site / "docs" / "api" / "acc.html").read_text(encoding="utf-8")
    assert [name for name in acc.__all__ if f'id="acc.{name}"' not in text] == []


@pytest.mark.parametrize("query", ["evaluating", "RunConfig", "エージェント", "記憶"])
def test_search_works_without_other_hosts(site: Path, origin: str, page: Page, query: str) -> None:
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.goto(f"{origin}/search.html?q={query}")
    expect(page.locator("#search-results ul.search li").first).to_be_visible()
    assert [url for url in urls if not url.startswith(f"{origin}/")] == []


def test_root_redirects_to_the_first_page(origin: str, page: Page) -> None:
    page.goto(origin)
    page.wait_for_url("**/docs/index.html")
    expect(page.locator("h1")).to_have_text(re.compile("^acc"))
