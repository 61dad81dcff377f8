"""The report page in a browser."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from acc.adapters.reports.page_data import json_for_script, select_episodes
from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.bootstrap import evaluation as bootstrap
from acc.bootstrap import reports
from acc.bootstrap.memory import version
from acc.domain.value_objects.evaluation_run import EvaluationConfig, jobs_of

# The tokenizer package uses a function that is deprecated in Python 3.11.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")

HOSTILE = (
    '</script><img src=x onerror="document.title=1"><!--<script>&amp; \u202etxet\u2066 \x1b[31m'
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AGENTS = f"""
class Hostile:
    turns = 0

    async def run_turn(self, query, canonical_memory):
        self.turns += 1
        if self.turns == 3:
            raise RuntimeError({HOSTILE!r})
        return {HOSTILE!r} + " The incident lead is Nobody Known."
"""


def record(path: Path, agents: str, *, turns: int = 6, episodes: int = 1) -> EvaluationDirectory:
    configuration = EvaluationConfig(
        version=version(),
        scenarios=bootstrap.make_configurator().scenarios("it-operations"),
        agents=bootstrap.make_configurator().agents(agents),
        judge="rubric",
        episodes=episodes,
        turns=turns,
        seed=0,
        window=4096,
        budget=512,
        timeout=60.0,
    )
    run = EvaluationDirectory.create(path, configuration)
    with ThreadPoolExecutor(1) as thread:
        # Playwright's synchronous API runs an event loop in this thread.
        evaluation = bootstrap.make_evaluation(run)
        thread.submit(lambda: list(evaluation.run(run.jobs()))).result()
    assert not evaluation.outcome.errors
    return run


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run with a report; one agent answers with markup."""
    home = tmp_path_factory.mktemp("report")
    (home / "hostile_report_agent.py").write_text(AGENTS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(home))
        run = record(home / "run", "baseline,acc,foe=python:hostile_report_agent:Hostile,oracle")
    reports.write_results(run)
    return run.path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a page; the test fails if it logs errors or loads other files."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    yield page
    context.close()
    assert errors == []
    assert len(requests) == 1 and requests[0].startswith("file:")


def test_page_shows_charts_tables_and_configuration(page: Page, run_folder: Path) -> None:
    page.goto((run_folder / "report.html").as_uri())
    charts = page.locator("figure.chart svg[role=img]")
    assert charts.count() == 7
    assert all(box and box["width"] > 300 for box in (c.bounding_box() for c in charts.all()))
    for svg in page.locator("figure.chart").all():
        name = (svg.get_attribute("id") or "").removeprefix("chart-")
        assert (run_folder / "charts" / f"{name}.svg").read_bytes().startswith(b"<svg")
    text = page.inner_text("main")
    # The agent foe is Python code, which can use a language model.
    assert "The built-in agents answered with the embedded model, which is not a" in text
    assert "foe: your own code, judged like the others." in text
    assert "Not reported by foe." in text
    # One scenario is too few for an interval.
    assert re.search(r"Against baseline, acc differs in .*, without a claim about other scen", text)
    assert "no clear difference" not in text
    failed = page.locator("#summary tbody tr", has_text="foe").locator("td.bad")
    assert failed.inner_text() == "1"
    assert page.locator("#worse h2").inner_text() == "Where acc is worse"
    levels = page.locator("h1, h2, h3, h4, h5").evaluate_all("all => all.map(h => +h.tagName[1])")
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))


def test_opened_turn_shows_claims_and_memory_changes(page: Page, run_folder: Path) -> None:
    page.goto((run_folder / "report.html").as_uri() + "#it-operations.000000/2")
    turn = page.locator("article.turn")
    expect(turn.locator("h3")).to_contain_text("Turn 2")
    expect(turn.locator(".card")).to_have_count(4)
    expect(turn.locator(".supported .word").first).to_have_text("✓ supported")
    expect(turn.locator(".unsupported .word").first).to_have_text("✕ unsupported")
    expect(turn.locator(".memory h4").first).to_contain_text("since the previous turn")
    assert turn.locator(".fields .added").count() > 0
    page.keyboard.press("ArrowRight")
    expect(turn.locator("h3")).to_contain_text("Turn 3")
    expect(turn.locator(".card", has_text="foe").locator(".error")).to_be_visible()
    assert page.url.endswith("#it-operations.000000/3")
    page.evaluate("location.hash = '#it-operations.000000/5'")
    expect(turn.locator("h3")).to_contain_text("Turn 5")
    page.locator(".strip-cells button").nth(0).click()
    expect(turn.locator("h3")).to_contain_text("Turn 1")


def test_filters_show_only_matching_turns(page: Page, run_folder: Path) -> None:
    page.goto((run_folder / "report.html").as_uri())
    page.get_by_label("Show").select_option("=foe")
    visible = page.locator(".strip-cells button:not(.out)")
    assert 0 < visible.count() <= 6
    page.get_by_label("Show").select_option("")
    page.get_by_label("Topic").select_option("setup")
    expect(page.locator("article.turn h3")).to_contain_text("setup")


def test_markup_in_answers_is_shown_as_text(page: Page, run_folder: Path) -> None:
    page.goto((run_folder / "report.html").as_uri() + "#it-operations.000000/1")
    answer = page.locator(".card", has_text="foe").locator(".answer")
    text = answer.inner_text()
    assert '</script><img src=x onerror="document.title=1"><!--<script>&amp; ' in text
    assert "U+202E" in text and "U+2066" in text and "U+001B" in text
    assert "\u202e" not in text
    assert page.locator("main img").count() == 0
    assert "memories compared" in page.title()
    assert answer.get_attribute("dir") == "auto"
    page.evaluate("location.hash = '#it-operations.000000/3'")
    expect(page.locator(".card .error")).to_contain_text("<img src=x")


def test_narrow_page_has_no_horizontal_scrolling(page: Page, run_folder: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((run_folder / "report.html").as_uri() + "#it-operations.000000/3")
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_dark_color_scheme_applies_to_page_and_charts(page: Page, run_folder: Path) -> None:
    page.goto((run_folder / "report.html").as_uri())
    colour = "getComputedStyle(document.body).backgroundColor"
    label = "getComputedStyle(document.querySelector('.chart text')).fill"
    light = page.evaluate(f"[{colour}, {label}]")
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(f"[{colour}, {label}]")
    assert light[0] == "rgb(255, 255, 255)"
    assert light[0] != dark[0] and light[1] != dark[1]


def test_chart_tooltip_works_with_pointer_and_keyboard(page: Page, run_folder: Path) -> None:
    page.goto((run_folder / "report.html").as_uri())
    chart = page.locator("#chart-hallucination-by-turn")
    tooltip = chart.locator(".tooltip")
    expect(tooltip).to_be_hidden()
    chart.locator(".hit").nth(1).hover()
    expect(tooltip).to_contain_text("turn 2")
    expect(tooltip).to_contain_text(re.compile(r"acc: \d+\.\d %"))
    page.mouse.move(0, 0)
    expect(tooltip).to_be_hidden()
    chart.locator(".plot").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    expect(tooltip).to_contain_text("turn 6")
    page.keyboard.press("ArrowLeft")
    expect(tooltip).to_contain_text("turn 5")
    expect(page.locator("article.turn h3")).to_contain_text("Turn 1")
    page.keyboard.press("Escape")
    expect(tooltip).to_be_hidden()


def test_tooltips_stay_inside_a_narrow_page(page: Page, run_folder: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((run_folder / "report.html").as_uri())
    plot = page.locator("#chart-drift-by-turn .plot")
    plot.focus()
    for key in ("ArrowRight", "End"):
        page.keyboard.press(key)
        box = plot.locator(".tooltip").bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_chart_values_are_available_as_a_table(page: Page, run_folder: Path) -> None:
    page.goto((run_folder / "report.html").as_uri())
    chart = page.locator("#chart-memory-by-turn")
    chart.get_by_text("Values as a table").click()
    expect(chart.locator("thead th")).to_have_text(["turn", "baseline", "acc", "oracle"])
    expect(chart.locator("tbody tr")).to_have_count(6)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chart_is_saved_as_png_with_white_background(
    browser: Browser, run_folder: Path, scheme: Literal["light", "dark"], tmp_path: Path
) -> None:
    context = browser.new_context(color_scheme=scheme, accept_downloads=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.goto((run_folder / "report.html").as_uri())
    with page.expect_download() as download:
        page.locator("#chart-scores").get_by_role("button", name="PNG").click()
    assert download.value.suggested_filename == "scores.png"
    download.value.save_as(tmp_path / "scores.png")
    data = (tmp_path / "scores.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20]) == 880
    # The whole drawing must be in the image, not only the white background.
    assert len(data) > 10_000
    assert errors == []
    context.close()


def test_page_without_javascript_has_charts_and_tables(browser: Browser, run_folder: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((run_folder / "report.html").as_uri())
    assert page.locator("figure.chart svg").count() == 7
    assert page.locator("#paired tbody tr").count() > 0
    notes = page.locator("noscript").all_inner_texts()
    assert notes[0].startswith("The search requires JavaScript")
    assert notes[1].startswith("Opening single turns requires JavaScript")
    context.close()


def test_run_with_one_agent_and_one_turn_has_a_page(page: Page, tmp_path: Path) -> None:
    run = record(tmp_path / "run", "baseline", turns=1)
    page.goto(reports.write_results(run).report.as_uri())
    text = page.inner_text("main")
    assert "Only baseline took part" in text
    assert "claims nothing about any language model" in text
    expect(page.locator("#chart-drift-by-turn .nothing")).to_have_text("No values.")
    expect(page.locator("article.turn h3")).to_contain_text("Turn 1")


def test_summary_is_neutral_without_an_agent_named_acc(page: Page, tmp_path: Path) -> None:
    run = record(tmp_path / "run", "retrieval,other=acc", turns=2)
    page.goto(reports.write_results(run).report.as_uri())
    assert "On average, highest outcome:" in page.inner_text("#summary")
    assert page.locator("#worse").count() == 0


def test_worst_turns_and_findings_open_on_the_pages_of_episodes(
    browser: Browser, tmp_path: Path
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    run = record(tmp_path / "run", "mine=acc,acc=retrieval", turns=12, episodes=3)
    report = reports.write_results(run, detail=1).report
    pages = {path.name for path in (run.path / "turns").iterdir()}
    page.goto(report.as_uri())
    links = [link.get_attribute("href") or "" for link in page.locator(".worst a").all()]
    assert len(links) == len({link.rpartition("/")[2] for link in links}) > 0  # one for each turn
    for link in links:
        page.goto(report.as_uri() + link if link[0] == "#" else f"{report.parent.as_uri()}/{link}")
        turn_number = link.rpartition("/")[2]
        expect(page.locator("article.turn h3")).to_contain_text(f"Turn {turn_number}:")
    assert pages == {path.name for path in (run.path / "turns").iterdir()}

    reports.write_results(run)
    assert len(list((run.path / "turns").iterdir())) == 3
    page.goto(report.as_uri())
    expect(page.locator("#turns")).to_contain_text("Each of the 3 episodes has a page")
    status = page.locator("#finding-search [role=status]")
    rows = page.locator("#finding-search tbody tr")
    total = int(status.inner_text().split()[2])
    assert rows.count() == min(50, total)
    page.get_by_label("Agent", exact=True).select_option(label="mine")
    page.get_by_label("but not", exact=True).select_option(label="acc")
    assert int(status.inner_text().split()[2]) < total
    texts = page.locator("#finding-search tbody td:nth-child(2)").all_inner_texts()
    assert set(texts) <= {"mine"}
    page.get_by_label("but not", exact=True).select_option(label="any other agent")
    page.get_by_label("Search findings").fill("no finding has this text")
    expect(rows).to_have_count(0)
    page.get_by_label("Search findings").fill("")
    first = page.locator("#finding-search tbody a").first
    turn_number = (first.get_attribute("href") or "").rpartition("/")[2]
    first.click()
    expect(page.locator("article.turn h3")).to_contain_text(f"Turn {turn_number}:")
    page.get_by_role("link", name="acc evaluation report").click()
    expect(page.locator("#summary")).to_be_visible()
    context.close()


def test_paired_table_is_a_list_on_a_phone(browser: Browser, run_folder: Path) -> None:
    context = browser.new_context(viewport={"width": 375, "height": 740})
    page = context.new_page()
    page.goto((run_folder / "report.html").as_uri())
    cell = page.locator("#paired td[data-label='difference']").first
    box = cell.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 375
    assert page.locator("#paired thead").first.is_hidden()
    for caption in page.locator("#summary caption, #paired caption").all():
        if caption.is_visible():
            box = caption.bounding_box()
            assert box is not None
            assert box["width"] > 200, "one word in each line"
            assert box["x"] + box["width"] <= 375, "text beside the screen"
    context.close()


def test_run_without_turns_has_a_page_with_a_note(page: Page, tmp_path: Path) -> None:
    configuration = record(tmp_path / "first", "baseline,acc", turns=1).configuration
    run = EvaluationDirectory.create(tmp_path / "second", configuration)
    page.goto(reports.write_results(run).report.as_uri())
    assert "No turn is recorded yet." in page.inner_text("main")


def test_json_for_script_escapes_markup_and_round_trips() -> None:
    text = json_for_script({"a": "</script>&\u2028\u2029<!--"})
    assert not re.search("[<>&\u2028\u2029]", text)
    assert msgspec.json.decode(text) == {"a": "</script>&\u2028\u2029<!--"}


def test_selected_episodes_cover_each_scenario_first() -> None:
    configuration = EvaluationConfig(
        version="0",
        scenarios=bootstrap.make_configurator().scenarios("it-operations,it-operations-ja"),
        agents=bootstrap.make_configurator().agents("acc"),
        judge="rubric",
        episodes=3,
        turns=1,
        seed=0,
        window=4096,
        budget=512,
        timeout=None,
    )
    names = [job.name for job in select_episodes(jobs_of(configuration), 3)]
    assert names == ["it-operations.000000", "it-operations.000001", "it-operations-ja.000000"]
