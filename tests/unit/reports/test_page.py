"""The report page as HTML: escaping, sections that depend on the results, security policy."""

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from acc.adapters.reports import page
from acc.adapters.reports.charts import build_charts
from acc.adapters.reports.results import summarize, tally_turns
from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.application.evaluation.results import cost_fields
from acc.bootstrap import evaluation as bootstrap
from acc.cli.eval import configure
from acc.cli.eval_options import EvaluationOptions
from acc.domain.cost import Accounts, CostCategory, ModelCall

HOSTILE = '<b onclick="x">\u202e'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> EvaluationDirectory:
    options = EvaluationOptions(
        scenario="it-operations", episodes=1, turns=2, agents="baseline,acc"
    )
    directory = EvaluationDirectory.create(tmp_path_factory.mktemp("run"), configure(options))
    list(bootstrap.make_evaluation(directory).run(directory.jobs()))
    return directory


@pytest.fixture
def summary(run: EvaluationDirectory) -> dict[str, Any]:
    return summarize(run, tally_turns(run), {})


def render(run: EvaluationDirectory, summary: dict[str, Any]) -> str:
    return page.render_page(run, summary, build_charts(summary), detail=1)


def test_text_from_the_evaluation_is_escaped_and_hidden_characters_are_shown(
    run: EvaluationDirectory, summary: dict[str, Any]
) -> None:
    summary["errors"] = {"episode": HOSTILE}
    summary["configuration"]["version"] = HOSTILE
    html = render(run, summary)
    assert "<b onclick" not in html
    assert html.count("&lt;b onclick=&#34;x&#34;&gt;[U+202E]") == 2
    assert "\u202e" not in html


def test_agents_without_common_scores_are_not_compared(
    run: EvaluationDirectory, summary: dict[str, Any]
) -> None:
    summary["paired"] = []
    html = render(run, summary)
    assert re.search(r"Against <bdi>baseline</bdi>,\s+no metric can be compared\.", html)
    assert "No two agents were scored on the same turns." in html


def test_cost_table_names_agents_that_are_not_included(
    run: EvaluationDirectory, summary: dict[str, Any]
) -> None:
    calls = [
        ModelCall(category=CostCategory.AGENT, agent="acc", model="<i>m", cost=0.5),
        ModelCall(category=CostCategory.COMPRESSOR, agent="acc", model="w", cost=0.25),
        ModelCall(category=CostCategory.JUDGE, model="j", input_tokens=1_234),
        ModelCall(category=CostCategory.AGENT, agent="gone", cost=0.0, from_cache=True),
    ]
    assert 'id="cost"' not in render(run, summary)
    summary["cost"] = cost_fields(Accounts(calls), ["acc"])
    summary["configuration"]["judge"] = "python:mine:Judge"
    html = render(run, summary)
    assert '<a href="#cost">' in html
    assert "acc</bdi>, its compressor" in html
    assert "<bdi>gone</bdi>" in html
    assert "1,234" in html
    assert "&lt;i&gt;m" in html
    assert "$0.7500 and 1 call of unknown price" in html
    assert "Not included: costs that the judge may cause" in html


def test_agreement_of_the_judge_is_shown_if_it_was_measured(
    run: EvaluationDirectory, summary: dict[str, Any]
) -> None:
    assert 'id="agreement"' not in render(run, summary)
    order = {"answers": 4, "mean_absolute": 0.5, "mean": -0.25, "changed": 2}
    summary["agreement"] = {
        "alpha": {"claims": {"value": None, "units": 3}, "relevance": {"value": 0.5, "units": 4}},
        "order": {"relevance": order},
    }
    html = render(run, summary)
    assert "Krippendorff" in html
    assert "no variation" in html
    assert "-0.250" in html


def test_security_policy_allows_only_style_and_script_of_the_page(
    run: EvaluationDirectory, summary: dict[str, Any]
) -> None:
    html = render(run, summary)
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)[0]
    assert "unsafe-inline" not in policy
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        (text,) = re.findall(rf"<{element}>(.*?)</{element}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert not re.search(r"\sstyle=|\son[a-z]+=", html.partition('<script type="application')[0])


def test_report_of_same_evaluation_is_identical(
    run: EvaluationDirectory, summary: dict[str, Any]
) -> None:
    first = page.write_report(run, summary).read_bytes()
    assert page.write_report(run, summary).read_bytes() == first
    names = sorted(path.name for path in (run.path / "charts").iterdir())
    assert len(names) == 7
    assert all(Path(name).suffix == ".svg" for name in names)
