"""Evaluations in `acc console`: list, progress, turns, comparison, trend, labels, export."""

import io
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from command import acc
from console_browser import NARROW, WIDE, Visitor, axe_findings, has_no_overflow, launch
from console_process import TOKEN, ConsoleProcess
from playwright.sync_api import Page, expect, sync_playwright


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs, and one of which half of the turns are missing."""
    runs = tmp_path_factory.mktemp("evaluations") / "runs"
    for name, budget, episodes in (("first", "256", "1"), ("second", "512", "3")):
        options = ["--scenario", "it-operations", "--episodes", episodes, "--turns", "4"]
        options += ["--agents", "baseline,acc", "--budget", budget, "--quiet"]
        completed = acc("eval", *options, "--out", runs / name)
        assert completed.returncode == 0, completed.stderr
    half = runs / "half"
    shutil.copytree(runs / "first", half)
    for file in ("report.html", "summary.json"):
        (half / file).unlink()
    episode = next((half / "episodes").glob("*.jsonl"))
    episode.write_bytes(b"".join(episode.read_bytes().splitlines(keepends=True)[:2]))
    return runs


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[ConsoleProcess]:
    with ConsoleProcess("--runs", folder, store=folder.parent / "acc.db") as started:
        yield started


@pytest.fixture
def client(process: ConsoleProcess) -> Iterator[httpx2.Client]:
    with process.client() as opened:
        yield opened


def test_runs_are_listed_with_progress_and_results(client: httpx2.Client) -> None:
    listed = client.get("/evaluations").text
    assert all(f"run={name}" in listed for name in ("first", "second", "half"))
    page = client.get("/evaluations/run", params={"run": "second"}).text
    assert "complete" in page and "12 / 12" in page
    assert "instruction following" in page and "hx-sse:connect" not in page
    half = client.get("/evaluations/run", params={"run": "half"}).text
    assert "2 / 4" in half and "<bdi>acc</bdi>" in half and "hx-sse:connect" in half


def test_turn_shows_answers_with_claims_and_evidence(client: httpx2.Client) -> None:
    turn = {"run": "second", "episode": "it-operations.000000", "turn": "2"}
    page = client.get("/evaluations/turn", params=turn).text
    assert "<bdi>baseline</bdi>" in page and "<bdi>acc</bdi>" in page
    assert "Claims" in page and "supported" in page and "Evidence" in page
    for missing in ({"turn": "9"}, {"turn": "x"}, {"episode": "../x"}, {"run": "../first"}):
        assert client.get("/evaluations/turn", params={**turn, **missing}).status_code == 404


def test_two_runs_are_compared_and_all_runs_have_a_trend(client: httpx2.Client) -> None:
    page = client.get("/evaluations/compare", params={"first": "first", "second": "second"}).text
    assert "budget: 256 → 512" in page
    assert page.count("memory tokens") == 2
    assert "the turns that both runs have" in page
    assert "none: 1 scenarios" in page
    trend = client.get("/evaluations/trend", params={"metric": "memory_tokens"}).text
    assert trend.count("<polyline") == 2 and trend.count("<circle") == 4
    assert client.get("/evaluations/trend", params={"metric": "x"}).status_code == 404


def test_only_differences_that_acc_compare_calls_clear_are_clear(tmp_path: Path) -> None:
    listed = json.loads(acc("scenarios", "list", "--json").stdout)
    scenarios = ",".join(one["id"] for one in listed if one["language"] == "en")
    for name, budget in (("small", "64"), ("large", "512")):
        options = ["--scenario", scenarios, "--turns", "6", "--agents", "acc", "--quiet"]
        completed = acc("eval", *options, "--budget", budget, "--out", tmp_path / name)
        assert completed.returncode == 0, completed.stderr
    rows = json.loads(acc("compare", tmp_path / "small", tmp_path / "large", "--json").stdout)
    tokens = next(row for row in rows["differences"] if row["metric"] == "memory_tokens")
    assert tokens["low"] > 0 and not tokens["clear"]  # not a declared metric
    with (
        ConsoleProcess("--runs", tmp_path, store=tmp_path / "acc.db") as process,
        process.client() as client,
    ):
        compared = {"first": "small", "second": "large"}
        page = client.get("/evaluations/compare", params=compared).text
    row = next(line for line in page.splitlines() if "<td>memory tokens</td>" in line)
    assert "clear" not in row
    assert re.search(r'<td class="number">\+\d+</td><td class="number">\+\d+ – \+\d+</td>', row)


def test_report_is_written_and_exported(client: httpx2.Client, folder: Path) -> None:
    shutil.copytree(folder / "half", folder / "written")
    assert client.get("/evaluations/export", params={"run": "none"}).status_code == 404
    answer = client.post("/evaluations/report", data={"run": "written"})
    assert answer.status_code == 303
    assert (folder / "written" / "report.html").is_file()
    export = client.get("/evaluations/export", params={"run": "written"})
    assert export.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(export.content)) as archive:
        names = set(archive.namelist())
        report = archive.read("written/report.html")
    assert {"written/report.html", "written/turns/it-operations.000000.html"} <= names
    assert report == (folder / "written" / "report.html").read_bytes()
    shutil.rmtree(folder / "written")


def test_files_of_a_run_need_its_key(process: ConsoleProcess, client: httpx2.Client) -> None:
    page = client.get("/evaluations/run", params={"run": "first"}).text
    start = page.index("/evaluations/files/")
    url = page[start : page.index('"', start)]
    opened = httpx2.get(process.url + url)
    assert opened.status_code == 200
    assert opened.headers["content-security-policy"].startswith("sandbox allow-scripts")
    assert TOKEN not in url
    for changed in (
        url.replace("/first/", "/second/"),
        url.replace("report.html", "run.json"),
        url.replace("report.html", "../second/report.html"),
        url.replace("report.html", "episodes/it-operations.000000.jsonl"),
        "/evaluations/files/0/first/report.html",
    ):
        assert httpx2.get(process.url + changed).status_code == 404, changed


def test_labels_are_stored_like_those_of_acc_label(client: httpx2.Client, folder: Path) -> None:
    assert "Your name as a rater" in client.get("/evaluations/raters?run=first").text
    first = {"run": "first", "rater": "ana"}
    page = client.get("/evaluations/label", params=first).text
    assert "0 / " in page and "baseline" not in page
    start = page.index('name="item" value="') + len('name="item" value="')
    item = page[start : page.index('"', start)]
    form = {**first, "item": item, "value": "yes"}
    assert client.post("/evaluations/label", data=form).status_code == 303
    assert item in (folder / "first" / "labels" / "ana.jsonl").read_text()
    assert client.get("/evaluations/label", params={**first, "rater": "?"}).status_code == 422
    assert client.get("/evaluations/raters?run=none").status_code == 404


def test_pages_in_a_browser(process: ConsoleProcess, folder: Path) -> None:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        visitor = Visitor(process, browser.new_context(viewport=WIDE, locale="en-US"))
        page = visitor.open("/evaluations/run?run=half")
        expect(page.locator("#progress")).to_contain_text("2 / 4")
        source = next((folder / "first" / "episodes").glob("*.jsonl"))
        target = folder / "half" / "episodes" / source.name
        lines = source.read_bytes().splitlines(keepends=True)
        target.write_bytes(b"".join(lines[:3]))
        expect(page.locator("#progress")).to_contain_text("3 / 4")
        target.write_bytes(b"".join(lines))
        expect(page.locator("#progress")).to_contain_text("4 / 4")
        expect(page.locator("#progress .badge")).to_have_text("complete")
        page.get_by_role("link", name="Show the results").click()
        expect(page.get_by_role("heading", name="Results")).to_be_visible()
        for path in (
            "/evaluations",
            "/evaluations/run?run=second",
            "/evaluations/turn?run=second&episode=it-operations.000000&turn=3",
            "/evaluations/compare?first=first&second=second",
            "/evaluations/trend",
            "/evaluations/raters?run=first",
            "/evaluations/label?run=first&rater=ben",
        ):
            check(visitor.open(path), path)
        page = visitor.open("/evaluations/run?run=second")
        page.get_by_role("link", name="Open report").click()
        assert page.evaluate("self.origin") == "null"
        page.locator("a[href^='turns/']").first.click()
        expect(page.locator("h1")).to_contain_text("it-operations.00000")
        expect(page.locator("#browser")).to_be_visible()
        page.get_by_role("link", name="acc evaluation report").click()
        expect(page).to_have_url(f"{page.url.rpartition('/')[0]}/report.html")
        visitor.check()
        browser.close()


def check(page: Page, path: str) -> None:
    """Check a page with axe-core in both themes and widths."""
    for size, scheme in ((WIDE, "light"), (NARROW, "dark")):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert axe_findings(page) == [], path
        assert has_no_overflow(page), path
    page.set_viewport_size(WIDE)
