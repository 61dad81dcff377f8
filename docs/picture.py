"""Render the report of an evaluation to docs/images/report.png, which the README shows.

Run it: python docs/picture.py RUN_DIRECTORY
"""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

BROWSERS = ("/usr/bin/chromium", "/usr/bin/google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")


def main(run: Path) -> None:
    """Write docs/images/report.png."""
    target = Path(__file__).parent / "images" / "report.png"
    target.parent.mkdir(exist_ok=True)
    browser_path = next(path for path in BROWSERS if Path(path).exists())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1340, "height": 1560}, color_scheme="light")
        page.goto((run / "report.html").resolve().as_uri())
        page.screenshot(path=str(target))
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
