"""`acc label --page` in a browser: keyboard, two raters, hidden verdicts, widths, themes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from command import environment
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
ITEMS = 12


def acc(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("label") / "run"
    options = ["--scenario", "it-operations,it-operations-ja", "--episodes", "1", "--turns", "8"]
    completed = acc("eval", *options, "--agents", "baseline,acc", "--out", str(out), "--quiet")
    assert completed.returncode == 0, completed.stderr
    return out


@pytest.fixture(scope="module")
def url(run: Path) -> Iterator[str]:
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-W", "ignore", "-m", "acc", "label", str(run), "--page"]
        + ["--port", "0", "--items", str(ITEMS)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("labels at http://127.0.0.1:"), line
    yield line.split()[-1]
    process.terminate()
    process.wait(20)
    process.stdout.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield chromium
        chromium.close()


def visit(browser: Browser, url: str, rater: str, *, width: int = 1280, dark: bool = False) -> Page:
    context = browser.new_context(
        viewport=ViewportSize(width=width, height=800),
        color_scheme="dark" if dark else "light",
        locale="en-US",
    )
    page = context.new_page()
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.goto(url)
    page.get_by_label("Your name as a rater").fill(rater)
    page.get_by_role("button", name="Start or continue").click()
    return page


def press(page: Page, key: str, *, done: int) -> None:
    """Press a key on the page that has so many labels."""
    expect(page.locator("#progress")).to_have_attribute("value", str(done))
    page.wait_for_load_state("load")
    page.keyboard.press(key)


def stored(run: Path, rater: str) -> list[dict[str, object]]:
    file = run / "labels" / f"{rater}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_keys_label_and_two_raters_see_the_same_sample(
    browser: Browser, url: str, run: Path
) -> None:
    ana = visit(browser, url, "ana")
    shown = []
    for number, key in enumerate(("y", "n", "s")):
        expect(ana.locator("#progress")).to_have_attribute("value", str(number))
        shown.append(ana.locator(".judged").inner_text())
        press(ana, key, done=number)
    expect(ana.locator("#progress")).to_have_attribute("value", "3")
    assert [label["good"] for label in stored(run, "ana")] == [True, False, None]

    ben = visit(browser, url, "健太")
    assert ben.locator(".judged").inner_text() == shown[0]
    ben.get_by_role("button", name="No").click()
    expect(ben.locator("#progress")).to_have_attribute("value", "1")
    assert [label["good"] for label in stored(run, "健太")] == [False]
    assert stored(run, "健太")[0]["id"] == stored(run, "ana")[0]["id"]

    # Back to the last item: its label is shown and can be changed.
    press(ana, "b", done=3)
    expect(ana.locator("button[aria-pressed]")).to_have_text("Skip s")
    press(ana, "y", done=3)
    expect(ana.locator("#progress")).to_have_attribute("value", "3")
    labels = {label["id"]: label["good"] for label in stored(run, "ana")}
    assert list(labels.values()) == [True, False, True]


def test_labels_continue_in_the_terminal_and_end_on_the_page(
    browser: Browser, url: str, run: Path
) -> None:
    completed = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", "label", str(run), "--rater", "kim", "--items", str(ITEMS)],
        env=environment(),
        input="y\nn\nq\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "1 of 12" in completed.stdout
    page = visit(browser, url, "kim")
    expect(page.locator("#progress")).to_have_attribute("value", "2")
    for number in range(2, ITEMS):
        press(page, "y", done=number)
    expect(page.get_by_role("heading", name="All items are labelled.")).to_be_visible()
    assert len(stored(run, "kim")) == ITEMS
    assert set(stored(run, "kim")[0]) == {"id", "good"}
    assert acc("judge", "agreement", str(run)).returncode == 0


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("dark", [False, True])
def test_page_hides_agents_and_verdicts_and_fits(
    browser: Browser, url: str, width: int, dark: bool
) -> None:
    page = visit(browser, url, f"look-{width}-{dark}".lower(), width=width, dark=dark)
    text = page.locator("main").inner_text()
    for hidden in ("baseline", "acc", "unsupported", "unclear", "superseded"):
        assert hidden not in text.split("Answer")[0]
    assert page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    folder = os.environ.get("ACC_SCREENSHOTS")
    if folder:
        page.screenshot(path=f"{folder}/label-{width}-{'dark' if dark else 'light'}.png")


def test_other_sites_and_requests_without_the_token_are_refused(url: str) -> None:
    base, _, token = url.partition("/login?token=")
    form = {"rater": "eve", "item": "x", "value": "yes"}
    assert httpx2.post(f"{base}/label", data=form).status_code == 401
    headers = {"authorization": f"Bearer {token}"}
    other = {**headers, "origin": "https://example.org"}
    assert httpx2.post(f"{base}/label", data=form, headers=other).status_code == 403
    assert httpx2.post(f"{base}/label", data=form, headers=headers).status_code == 404
    form["rater"] = "../eve"
    assert httpx2.post(f"{base}/label", data=form, headers=headers).status_code == 400
    form["value"] = "maybe"
    assert httpx2.post(f"{base}/label", data=form, headers=headers).status_code == 400
    assert httpx2.get(f"{base}/label?rater=../eve", headers=headers).status_code == 422


def test_number_that_is_too_long_shows_the_next_item(url: str) -> None:
    base, _, token = url.partition("/login?token=")
    query = {"rater": "eve", "number": "9" * 5_000}
    page = httpx2.get(f"{base}/label", params=query, headers={"authorization": f"Bearer {token}"})
    assert page.status_code == 200
    assert f"1 / {ITEMS}" in page.text
