"""What a run costs, as a person sees it: live in a terminal, and on the page in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from terminal import Terminal

from acc.testing.providers import ProviderServer, Reply

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a run that cost something, and what its terminal showed meanwhile."""
    home = tmp_path_factory.mktemp("cost")
    reply = Reply(text="The window is 30 minutes.", delay=0.2, tokens=(1_000, 100, 0))
    with ProviderServer(*[reply] * 100) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "110")
        model = f"openai-compatible:long-name-of-a-model@{server.url}"
        arguments = ["eval", "--scenario", "it-operations-ja", "--turns", "4", "--episodes", "1"]
        arguments += ["--model", model, "--agents", "baseline,acc", "--compressor", model]
        arguments += ["--price", f"{model}=10/20", "--max-cost", "9", "--out", str(home / "run")]
        with Terminal(*arguments, cwd=home) as screen:
            assert screen.wait(120) == 0
            return home / "run", screen.shown


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield chromium
        chromium.close()


def test_a_terminal_shows_the_cost_while_it_grows(run: tuple[Path, str]) -> None:
    _, shown = run
    # 0.012 dollars a call; the compressor's answers are no states, so each is asked for twice.
    amounts = [float(a) for a in re.findall(r"together.*\$([\d.]+) of \$9\.0000", shown)]
    assert amounts == sorted(amounts)
    assert len(set(amounts)) > 3, "it was shown while the run went on"
    assert amounts[-1] == pytest.approx(16 * 0.012)
    assert re.search(r"compressor of acc +8 +8,000 +800 +\$0.0960", shown)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_shows_the_cost_at_any_width_and_in_both_schemes(
    run: tuple[Path, str], browser: Browser, scheme: str, width: int
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    page.goto((run[0] / "report.html").as_uri())
    page.locator("nav.contents a", has_text="Cost").click()
    rows = page.locator("#cost tbody tr")
    cells = [row.locator("th, td").all_inner_texts() for row in rows.all()]
    assert [row[:6] for row in cells] == [
        ["baseline", "$0.0480", "4", "0", "0", "4,000"],
        ["acc", "$0.0480", "4", "0", "0", "4,000"],
        ["acc, its compressor", "$0.0960", "8", "0", "0", "8,000"],
        ["total", "$0.1920", "16", "0", "0", "16,000"],
    ]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    cost = rows.last.locator("td").first.bounding_box()
    assert cost is not None
    assert cost["x"] + cost["width"] <= width, "the money is seen without scrolling"
    context.close()
