"""Cost of `acc eval` in the terminal and on the report page."""

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
    """Return the directory of a run with costs and its terminal output."""
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
            return home / "run", screen.output


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield chromium
        chromium.close()


def test_terminal_shows_the_cost_during_the_run(run: tuple[Path, str]) -> None:
    _, output = run
    # 0.012 dollars per call; the compressor's answers are invalid, so each is requested twice.
    amounts = [float(a) for a in re.findall(r"total.*\$([\d.]+) of \$9\.0000", output)]
    assert amounts == sorted(amounts)
    assert len(set(amounts)) > 3, "the cost must be shown during the run"
    assert amounts[-1] == pytest.approx(16 * 0.012)
    assert re.search(r"compressor of acc +8 +8,000 +800 +\$0.0960", output)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_report_shows_the_cost_at_every_width_and_color_scheme(
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
    assert cost["x"] + cost["width"] <= width, "the cost must be visible without scrolling"
    context.close()
